//! Hierarchies of the faces of meshes.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{FaceTree, Surface};

use super::inputs::around;
use super::structure::Structure;
use super::{BUILDERS, Fixture};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh",
        device(faces_of_any_mesh),
        device(faces_follow_their_points),
        device(faces_follow_in_a_graph),
    ]
}

/// Points, and faces that name them at random; with `bad` some are out of range, and some points are no
/// numbers.
struct Mesh {
    points: Vec<[f32; 3]>,
    faces: Vec<[u32; 3]>,
}

impl Mesh {
    fn new(rng: &mut Rng, points: usize, faces: usize, bad: bool) -> Self {
        let mut mesh = Self { points: places(rng, points, bad), faces: Vec::new() };
        for i in 0..faces {
            let mut face = [(); 3].map(|()| rng.below(points) as u32);
            if bad && i % 5 == 0 {
                face[i % 3] = [points as u32, u32::MAX][i % 2];
            }
            mesh.faces.push(face);
        }
        mesh
    }

    /// The corners of a face that is not skipped.
    fn corners(&self, face: [u32; 3]) -> Option<[[f32; 3]; 3]> {
        let most = (60.0f32).exp2();
        let valid = |p: &&[f32; 3]| p.iter().all(|x| x.abs() <= most);
        let [a, b, c] = face.map(|i| self.points.get(i as usize).filter(valid).copied());
        Some([a?, b?, c?])
    }

    fn boxes(&self) -> Vec<Aabb<f32>> {
        self.faces.iter().map(|f| self.corners(*f).map_or(Aabb::<f32>::EMPTY, around)).collect()
    }
}

fn places(rng: &mut Rng, points: usize, bad: bool) -> Vec<[f32; 3]> {
    let mut all: Vec<[f32; 3]> =
        (0..points).map(|_| [rng.float(), rng.float(), rng.float()]).collect();
    if bad {
        for (kind, i) in (0..points).step_by(17).enumerate() {
            all[i][i % 3] =
                [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -(60.0f32).exp2().next_up()][kind % 4];
        }
    }
    all
}

/// Checks the hierarchy and its triangles: of what was built from one mesh, with the points of another.
fn check(fixture: &Fixture<'_>, tree: &FaceTree, built: &Mesh, now: &Mesh) -> TestResult {
    let (nodes, items) = tree.parts(&fixture.stream)?;
    let triangles = tree.triangle_words(&fixture.stream)?;
    let report = tree.report(&fixture.stream)?;
    let structure = Structure::of(nodes, items, report, &built.boxes(), &now.boxes())?;
    ensure!(structure.items.len() <= triangles.len());
    for (item, words) in structure.items.iter().zip(&triangles) {
        ensure_eq!(words[3] & 0x0fff_ffff, *item);
        let face = now.faces[*item as usize];
        let corner = |i: usize| [words[4 * i], words[4 * i + 1], words[4 * i + 2]];
        match now.corners(face) {
            // In the order of their indices.
            Some(corners) => {
                let mut order = [0, 1, 2];
                order.sort_by_key(|i| face[*i]);
                for (i, at) in order.into_iter().enumerate() {
                    ensure_eq!(corner(i), corners[at].map(f32::to_bits), "of face {item}");
                }
            }
            None => {
                ensure!((0..3).all(|i| corner(i).map(f32::from_bits).iter().all(|x| x.is_nan())));
            }
        }
    }
    Ok(())
}

struct There {
    points: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
}

impl There {
    fn new(fixture: &Fixture<'_>, mesh: &Mesh) -> Result<Self, Failure> {
        let points = DeviceBuffer::from_slice(&fixture.stream, &mesh.points)?;
        Ok(Self { points, faces: DeviceBuffer::from_slice(&fixture.stream, &mesh.faces)? })
    }

    fn surface(&self) -> cuda_safe::Result<Surface<'_>> {
        Surface::new(&self.points, &self.faces)
    }
}

fn tree(fixture: &Fixture<'_>, capacity: usize, builder: BuildMode) -> Result<FaceTree, Failure> {
    Ok(FaceTree::new(&fixture.stream, &fixture.geometry, capacity, builder)?)
}

fn faces_of_any_mesh(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(730);
    for builder in BUILDERS {
        let mut tree = tree(&fixture, 1000, builder)?;
        for n in [0, 1, 5, 33, 1000, 400] {
            for bad in [false, true] {
                let mesh = Mesh::new(&mut rng, n / 2 + 3, n, bad);
                let there = There::new(&fixture, &mesh)?;
                tree.rebuild(&fixture.stream, there.surface()?)?;
                check(&fixture, &tree, &mesh, &mesh)
                    .map_err(|e| Failure::new(format!("{builder:?}, {n}, {bad}: {e}")))?;
            }
        }
    }
    Ok(())
}

fn faces_follow_their_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(731);
    for builder in BUILDERS {
        for bad in [false, true] {
            let mut tree = tree(&fixture, 700, builder)?;
            let mesh = Mesh::new(&mut rng, 300, 600, bad);
            let there = There::new(&fixture, &mesh)?;
            tree.rebuild(stream, there.surface()?)?;
            for worse in [false, true, false] {
                let points = places(&mut rng, 300, worse);
                let mut now = Mesh { points, faces: mesh.faces.clone() };
                let there = There::new(&fixture, &now)?;
                tree.refit(stream, there.surface()?)?;
                check(&fixture, &tree, &mesh, &now)?;
                // Fewer points: faces that name the others are wrong now.
                now.points.truncate(200);
                let there = There::new(&fixture, &now)?;
                tree.refit(stream, there.surface()?)?;
                check(&fixture, &tree, &mesh, &now)?;
            }
            let fewer = Surface::new(&there.points, there.faces.slice(1..)?)?;
            let refused = tree.refit(stream, fewer);
            ensure_refused_for(refused, "built from 600")?;
        }
    }
    Ok(())
}

fn faces_follow_in_a_graph(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(732);
    for builder in BUILDERS {
        let mesh = Mesh::new(&mut rng, 100, 200, false);
        let state = (tree(&fixture, 200, builder)?, There::new(&fixture, &mesh)?);
        let mut graph = device.context().capture(state, |stream, (tree, there)| {
            tree.rebuild(stream, there.surface()?)?;
            tree.refit(stream, there.surface()?)
        })?;
        for bad in [false, true, false] {
            let now = Mesh { points: places(&mut rng, 100, bad), faces: mesh.faces.clone() };
            graph.state_mut().1.points.upload(stream, &now.points)?;
            graph.launch(stream)?;
            check(&fixture, &graph.state().0, &now, &now)?;
        }
    }
    Ok(())
}
