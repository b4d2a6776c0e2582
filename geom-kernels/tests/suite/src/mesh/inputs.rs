//! Meshes that are easy to get wrong, and points to ask them about.

use geom_kernels::mesh::shapes::{self, Noise};
use geom_kernels::mesh::{MeshOptions, TriangleMesh};

use super::shapes::{is_watertight, lattice_cube, prism, sheet};
use super::{EPS, blend, length, wide};
use test_harness::{Failure, Rng, ensure_eq};

/// A mesh, and what is known of it.
pub(super) struct Input {
    pub(super) name: String,
    pub(super) mesh: TriangleMesh,
    /// Closed, turned outwards, and without self-intersections.
    pub(super) solid: bool,
    /// What may be missing to distances beside their bound: squares of tiny numbers are none.
    pub(super) floor: f64,
    /// The box of the faces that are not skipped, and its diagonal.
    bounds: ([f64; 3], [f64; 3], f64),
}

/// The corners of a face, unless it is skipped.
fn corners(mesh: &TriangleMesh, face: &[u32; 3]) -> Option<[[f64; 3]; 3]> {
    let [a, b, c] = face.map(|v| mesh.points.get(v as usize).copied().map(wide));
    let valid = |p: &[f64; 3]| p.iter().all(|x| x.abs() <= 2f64.powi(60));
    [a?, b?, c?].iter().all(valid).then_some([a?, b?, c?])
}

impl Input {
    pub(super) fn new(name: &str, mesh: TriangleMesh) -> Self {
        let (mut low, mut high) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
        for p in mesh.faces.iter().filter_map(|face| corners(&mesh, face)).flatten() {
            for axis in 0..3 {
                low[axis] = low[axis].min(p[axis]);
                high[axis] = high[axis].max(p[axis]);
            }
        }
        if low[0] > high[0] {
            (low, high) = Default::default();
        }
        let bounds = (low, high, length(super::sub(high, low)));
        Self { name: name.to_owned(), mesh, solid: false, floor: 0.0, bounds }
    }

    pub(super) fn solid(name: &str, mesh: TriangleMesh) -> Result<Self, Failure> {
        ensure_eq!(is_watertight(&mesh), true, "{name}");
        Ok(Self { solid: true, ..Self::new(name, mesh) })
    }

    pub(super) fn diagonal(&self) -> f64 {
        self.bounds.2
    }

    /// The conventions' unit of errors: eps (|q| + diagonal).
    pub(super) fn unit(&self, q: [f32; 3]) -> f64 {
        EPS * (length(wide(q)) + self.diagonal())
    }
}

/// About `n` faces of random points, in a cube; each in a corner of it of this size.
pub(super) fn soup(rng: &mut Rng, n: usize, size: f32) -> TriangleMesh {
    let mut mesh = TriangleMesh::default();
    for i in 0..n as u32 {
        let at = point(rng);
        for _ in 0..3 {
            let by = point(rng);
            mesh.points.push(std::array::from_fn(|axis| at[axis] + size * by[axis]));
        }
        mesh.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
    }
    mesh
}

/// Two corners far from each other, and a third one 1e-7 from the line between them.
fn needles(rng: &mut Rng, n: usize) -> TriangleMesh {
    let mut mesh = soup(rng, n, 0.5);
    for corners in mesh.points.chunks_exact_mut(3) {
        let [a, b, off] = [corners[0], corners[1], point(rng)];
        let along = rng.float() * 0.5 + 0.5;
        corners[2] = std::array::from_fn(|i| a[i] + (b[i] - a[i]) * along + off[i] * 1e-7);
        corners.rotate_left(rng.below(3));
    }
    mesh
}

/// Points of small whole numbers, of which some are the same; faces of any three of them, some of which
/// have no area, name a point twice, or are there twice.
fn degenerate(rng: &mut Rng, n: usize) -> TriangleMesh {
    let mut mesh = TriangleMesh::default();
    let whole = |rng: &mut Rng| rng.below(5) as f32 - 2.0;
    mesh.points = (0..n).map(|_| [0; 3].map(|_: i32| whole(rng))).collect();
    while mesh.faces.len() < n {
        let face = [0; 3].map(|_: i32| rng.below(n) as u32);
        mesh.faces.push(face);
        match rng.below(6) {
            0 => mesh.faces.push(face),
            1 => mesh.faces.push([face[1], face[0], face[2]]),
            2 => mesh.faces.push([face[0], face[1], face[0]]),
            3 => mesh.faces.push([face[2]; 3]),
            _ => {}
        }
    }
    mesh
}

/// What queries skip, among what they don't.
fn faulty(rng: &mut Rng, n: usize) -> TriangleMesh {
    let mut mesh = soup(rng, n, 0.3);
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1.2e18, f32::MAX];
    for _ in 0..n / 8 {
        let (i, axis) = (rng.below(mesh.points.len()), rng.below(3));
        mesh.points[i][axis] = bad[rng.below(bad.len())];
    }
    mesh
}

fn moved(mut mesh: TriangleMesh, scale: f32, shift: f32) -> TriangleMesh {
    mesh.scale([scale; 3]);
    mesh.translate([shift, -shift, shift]);
    mesh
}

/// A sphere with bumps.
fn stone(subdivisions: u32) -> Result<TriangleMesh, Failure> {
    let mut mesh = shapes::icosphere(subdivisions, 1.0)?;
    mesh.displace(&Noise::new(11), 0.2, 2.0)?;
    Ok(mesh)
}

/// Every kind. They have about 300 faces, and four times as many for each level more.
pub(super) fn inputs(rng: &mut Rng, level: u32) -> Result<Vec<Input>, Failure> {
    let (n, k) = (300 << (2 * level), 1 << level);
    let sphere = || shapes::icosphere(2 + level, 1.0);
    let ulp = f32::EPSILON;
    let mut all = vec![
        Input::new("soup", soup(rng, n, 0.2)),
        Input::new("soup of large faces", soup(rng, n.min(600), 1.0)),
        Input::new("needles", needles(rng, n)),
        Input::new("degenerate", degenerate(rng, n)),
        Input::new("faulty", faulty(rng, n)),
        Input::new("soup at 1e3", moved(soup(rng, n, 0.2), 1.0, 1e3)),
        Input::new("needles at 1e5", moved(needles(rng, n), 1.0, 1e5)),
        Input::new("huge soup", moved(soup(rng, n, 0.2), 2f32.powi(58), 0.0)),
        Input::new("plane", shapes::plane([2.0, 3.0], [12 * k, 12 * k])?),
        Input::solid("sphere", sphere()?)?,
        Input::solid("sphere at 1e3", moved(sphere()?, 1.0, 1e3))?,
        Input::solid("torus", shapes::torus(1.0, 0.4, 16 * k, 10 * k)?)?,
        Input::solid("knot", shapes::knot(48 * k, 6 * k)?)?,
        Input::solid("stone", stone(2 + level)?)?,
        Input::solid("stone at 1e3", moved(stone(2 + level)?, 1.0, 1e3))?,
        // Where products of three coordinates are next to nothing, and where those of two are.
        Input::solid("small stone", moved(stone(2 + level)?, 2f32.powi(-46), 0.0))?,
        Input::solid("tiny stone", moved(stone(2 + level)?, 2f32.powi(-50), 0.0))?,
        Input::solid("huge stone", moved(stone(2 + level)?, 2f32.powi(58), 0.0))?,
        Input::solid("cube", shapes::cube(2.0)?)?,
        Input::solid("cube of a lattice", lattice_cube(4 * k)?)?,
        Input::solid("sheet of an ulp", sheet(8 * k, |_| ulp))?,
        Input::solid("sheet of 1e-6", sheet(8 * k, |_| 1e-6))?,
        Input::solid(
            "sheet of 1 to 9 ulp",
            sheet(8 * k, |x| ulp * (1.0 + (8.0 * (x - 1.0)).floor())),
        )?,
        Input::solid("sheet that closes", sheet(8 * k, |x| (x - 1.0) * 1e-6))?,
        Input::solid("blade", prism(&[[0.0, 0.0], [1.0, 0.0], [1.0, 1e-6]], 40 * k))?,
        Input::solid("needle", prism(&[[1.0, 1.0], [1.0 + ulp, 1.0], [1.0, 1.0 + ulp]], 20 * k))?,
    ];
    // Of any size that is no coarser than numbers there.
    if level < 2 {
        all.push(Input::solid("sphere at 1e5", moved(sphere()?, 1.0, 1e5))?);
    }
    let mut twice = shapes::icosphere(2, 1.0)?;
    twice.append(&shapes::icosphere(2, 1.0)?)?;
    all.push(Input::new("sphere twice", twice));
    let mut smallest = Input::new("smallest", moved(soup(rng, 300, 0.2), 2f32.powi(-100), 0.0));
    // Edges below 2^-60 are taken for points.
    smallest.floor = 2f64.powi(-60);
    all.push(smallest);
    Ok(all)
}

fn point(rng: &mut Rng) -> [f32; 3] {
    [0; 3].map(|_: i32| rng.float())
}

/// Never beyond 2^60.
fn bounded(p: [f64; 3]) -> [f32; 3] {
    let most = 2f64.powi(60);
    p.map(|x| x.clamp(-most, most) as f32)
}

/// A unit in the last place up or down, or none, in each axis.
fn beside(rng: &mut Rng, p: [f32; 3]) -> [f32; 3] {
    p.map(|x| [x, x.next_up(), x.next_down()][rng.below(3)])
}

/// Points around a mesh, on it and next to it.
pub(super) struct Around<'a> {
    input: &'a Input,
    faces: Vec<[[f64; 3]; 3]>,
    low: [f64; 3],
    high: [f64; 3],
    diagonal: f64,
}

impl<'a> Around<'a> {
    pub(super) fn new(input: &'a Input) -> Self {
        let (low, high, diagonal) = input.bounds;
        let faces = input.mesh.faces.iter().filter_map(|face| corners(&input.mesh, face));
        Self { input, faces: faces.collect(), low, high, diagonal }
    }

    fn in_box(&self, part: [f64; 3]) -> [f64; 3] {
        std::array::from_fn(|i| self.low[i] + (self.high[i] - self.low[i]) * part[i])
    }

    /// A point of a vertex, an edge or a face; rounded it may lie beside it.
    pub(super) fn on(&self, rng: &mut Rng) -> [f64; 3] {
        if self.faces.is_empty() {
            return wide(point(rng));
        }
        let face = self.faces[rng.below(self.faces.len())];
        let t = f64::from(rng.float().abs());
        let half = [0.5, t][rng.below(2)];
        match rng.below(6) {
            0 => face[rng.below(3)],
            1 => blend(face, half, 0.0),
            2 => blend(face, 0.0, half),
            3 => blend(face, half, 1.0 - half),
            _ => {
                let s = f64::from(rng.float().abs()) * (1.0 - t);
                blend(face, t, s)
            }
        }
    }

    /// One of those, often where faces tie: far away, in the middle, on a lattice.
    pub(super) fn point(&self, rng: &mut Rng) -> [f32; 3] {
        let random = wide(point(rng));
        let by = |p: [f64; 3], length: f64| std::array::from_fn(|i| p[i] + random[i] * length);
        let on = self.on(rng);
        let kind = rng.below(100);
        bounded(match kind {
            0..30 => self.in_box(random.map(|x| 0.5 + 0.75 * x)),
            30..38 => on,
            38..46 => return beside(rng, bounded(on)),
            46..54 => by(on, self.diagonal * 1e-6),
            54..70 => by(on, self.diagonal * 1e-2),
            70..74 => by(on, self.diagonal * 1e4),
            74..78 => by(on, self.diagonal * 10.0),
            // Lattice points of the box, and of whole numbers.
            78..88 => self.in_box([0; 3].map(|_: i32| rng.below(9) as f64 * 0.25 - 0.5)),
            88..94 => self.in_box(random).map(f64::round),
            // On an axis through the middle; there itself all faces may tie, which takes long.
            94..99 => {
                let mut part = [0.5; 3];
                part[rng.below(3)] = random[0];
                self.in_box(part)
            }
            _ if self.input.mesh.faces.len() < 1000 || rng.below(50) == 0 => self.in_box([0.5; 3]),
            _ => by(self.in_box([0.5; 3]), self.diagonal * 1e-3),
        })
    }

    pub(super) fn points(&self, rng: &mut Rng, n: usize) -> Vec<[f32; 3]> {
        (0..n).map(|_| self.point(rng)).collect()
    }
}

/// The points, each moved by this much at most.
pub(super) fn displaced(rng: &mut Rng, mesh: &TriangleMesh, by: f32) -> Vec<[f32; 3]> {
    mesh.points.iter().map(|p| p.map(|x| x + by * rng.float())).collect()
}

/// Points that find nothing.
pub(super) fn invalid_points() -> Vec<[f32; 3]> {
    let mut points = Vec::new();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2f32.powi(60).next_up(), f32::MIN] {
        points
            .extend((0..3).map(|axis| std::array::from_fn(|i| if i == axis { bad } else { 0.5 })));
    }
    points
}

/// A name for messages, and what a mesh is made with.
pub(super) fn all_options() -> [(&'static str, MeshOptions); 4] {
    use geom_kernels::bvh::BuildMode::{Fast, Quality};
    let options = MeshOptions::default();
    [
        ("quality", options.build_mode(Quality)),
        ("fast", options.build_mode(Fast)),
        ("quality with topology", options.build_mode(Quality).topology()),
        ("fast, unchecked", options.build_mode(Fast).skip_validation()),
    ]
}
