//! Queries with and without the processor's features, and with boxes that exclude nothing.

use super::block::LANES;
use super::closest::{AtPoint, ByNormal, ByParity, Closest, PointQuery, Within};
use super::cylinders::Cylinders;
use super::rays::{AlongRay, Count, Nearest, RayQuery};
use super::simd::{Portable, Task};
use super::*;
use crate::mesh::shapes;

/// Random numbers from -1 to 1.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    fn point(&mut self, size: f32) -> [f32; 3] {
        [0; 3].map(|_: i32| size * self.next())
    }
}

/// A sphere, a soup, faces of few different points, and each of these far away.
fn meshes() -> Result<Vec<Mesh>> {
    let mut numbers = Numbers(1);
    let mut soup = TriangleMesh::default();
    let mut few = TriangleMesh { points: Vec::new(), faces: Vec::new() };
    for i in 0..500 {
        let at = numbers.point(1.0);
        for _ in 0..3 {
            let by = numbers.point(0.2);
            soup.points.push([0, 1, 2].map(|axis: usize| at[axis] + by[axis]));
        }
        soup.faces.push([0, 1, 2].map(|corner| 3 * i + corner));
        few.points.push(numbers.point(2.0).map(f32::round));
        few.faces.push([0; 3].map(|_: i32| ((numbers.next() + 1.0) * 249.0) as u32));
    }
    let mut all = vec![shapes::icosphere(3, 1.0)?, soup, few];
    let mut far = all.clone();
    far.iter_mut().for_each(|mesh| mesh.translate([100.0, -50.0, 25.0]));
    all.extend(far);
    // Rays whose t are next to 0 in f32.
    let mut tiny = shapes::icosphere(2, 1.0)?;
    tiny.scale([2f32.powi(-50); 3]);
    all.push(tiny);
    all.iter().map(|mesh| Mesh::new(mesh, MeshOptions::default().topology())).collect()
}

/// Returns the bits of a result.
fn bits(found: impl std::fmt::Debug) -> String {
    format!("{found:?}")
}

/// Calls `check` with points and rays around each mesh.
fn around(mut check: impl FnMut(&Mesh, [f32; 3], Ray)) -> Result<()> {
    let mut numbers = Numbers(2);
    for mesh in meshes()? {
        let Aabb { lower, upper } = mesh.tree.bounds;
        for i in 0..600 {
            let part = numbers.point(0.7);
            let mut q = [0, 1, 2]
                .map(|axis| lower[axis] + (upper[axis] - lower[axis]) * (0.5 + part[axis]));
            match i % 8 {
                0 => q = q.map(f32::round),
                1 => q = mesh.points[i % mesh.points.len()],
                _ => {}
            }
            let mut to = mesh.points[(i * 7) % mesh.points.len()];
            if i % 3 != 0 {
                let by = numbers.point(0.2);
                to = [0, 1, 2].map(|axis| to[axis] + by[axis]);
            }
            let scale = [1.0, 1e30, 1e38][i % 5 % 3];
            check(&mesh, q, Ray::new(q, [0, 1, 2].map(|axis| (to[axis] - q[axis]) * scale)));
        }
    }
    Ok(())
}

fn portable<Q: PointQuery>(mesh: &Mesh, q: [f32; 3], distance: f32, query: Q) -> Q::Found {
    AtPoint { mesh, q, distance, query }.run(Portable)
}

fn portable_ray<Q: RayQuery>(mesh: &Mesh, ray: &Ray, query: Q) -> Q::Found {
    AlongRay { mesh, ray, query }.run(Portable)
}

#[test]
fn processors_have_the_same_bits() -> Result<()> {
    let mut found = 0;
    around(|mesh, q, ray| {
        let closest = mesh.closest_point(q);
        assert_eq!(bits(portable(mesh, q, f32::INFINITY, Closest)), bits(closest), "{q:?}");
        assert_eq!(portable(mesh, q, 0.1, Within), mesh.is_within(q, 0.1), "{q:?}");
        let signed = mesh.signed_distance(q, f32::INFINITY);
        assert_eq!(bits(portable(mesh, q, f32::INFINITY, ByNormal)), bits(signed), "{q:?}");
        let signed = mesh.signed_distance_by_parity(q, 0.2);
        assert_eq!(bits(portable(mesh, q, 0.2, ByParity)), bits(signed), "{q:?}");
        let hit = mesh.nearest_hit(&ray);
        found += u32::from(hit.is_some());
        assert_eq!(bits(portable_ray(mesh, &ray, Nearest)), bits(hit), "{ray:?}");
        assert_eq!(portable_ray(mesh, &ray, Count), mesh.count_hits(&ray), "{ray:?}");
    })?;
    assert!(found > 1000, "{found} rays hit");
    Ok(())
}

#[test]
fn boxes_exclude_nothing_that_is_found() -> Result<()> {
    let mut last: Option<(Mesh, Mesh)> = None;
    around(|mesh, q, ray| {
        let same = last.as_ref().is_some_and(|(of, _)| of.points == mesh.points);
        if !same {
            let mut open = mesh.clone();
            for node in &mut open.tree.nodes {
                node.bounds = [[[-1e18; LANES]; 3], [[1e18; LANES]; 3]];
            }
            open.tree.cylinders.fill(Cylinders::new());
            last = Some((mesh.clone(), open));
        }
        let Some((_, open)) = &last else { return };
        assert_eq!(bits(mesh.closest_point(q)), bits(open.closest_point(q)), "{q:?}");
        assert_eq!(mesh.is_within(q, 0.1), open.is_within(q, 0.1), "{q:?}");
        assert_eq!(mesh.side_of(q), open.side_of(q), "{q:?}");
        assert_eq!(bits(mesh.nearest_hit(&ray)), bits(open.nearest_hit(&ray)), "{ray:?}");
        assert_eq!(mesh.count_hits(&ray), open.count_hits(&ray), "{ray:?}");
        // Only t = 0: many boxes are entered at the end of the ray.
        let start = ray.between(0.0, 0.0);
        assert_eq!(mesh.count_hits(&start), open.count_hits(&start), "{start:?}");
    })
}

/// Points around the cylinders of leaves: none is farther than the leaf's triangles, and many are hardly nearer.
#[test]
fn cylinders_are_no_farther_than_their_triangles() -> Result<()> {
    let (mut numbers, mut excluded) = (Numbers(4), 0);
    for mesh in meshes()? {
        let Aabb { lower, upper } = mesh.tree.bounds;
        let size = [0, 1, 2].map(|axis: usize| upper[axis] - lower[axis]);
        for (node, cylinders) in mesh.tree.nodes.iter().zip(&mesh.tree.cylinders) {
            for (lane, child) in node.children.into_iter().enumerate() {
                if child & tree::LEAF == 0 {
                    continue;
                }
                let Some(block) = mesh.tree.blocks.get((child & !tree::LEAF) as usize) else {
                    continue;
                };
                for _ in 0..8 {
                    let by = numbers.point(2.0);
                    let q =
                        [0, 1, 2].map(|axis: usize| lower[axis] + size[axis] * (0.5 + by[axis]));
                    let mut least = f64::INFINITY;
                    for face in block.faces.into_iter().filter(|face| *face != u32::MAX) {
                        if let Some((_, corners)) = mesh.face_corners(face) {
                            let square = triangle::closest_point(corners, 0, q).distance_squared;
                            least = least.min(f64::from(square).sqrt());
                        }
                    }
                    let reach: f32 = size.iter().sum();
                    // The rounding errors of `within`, and of the closest point.
                    let slack = f64::from(reach) * 3.0 * 2f64.powi(-18);
                    let limit = (least + slack).powi(2) as f32;
                    let wide_q = traverse::splat(Portable, q);
                    let within = cylinders.within(Portable, wide_q, limit);
                    assert!(within >> lane & 1 != 0, "{q:?} {least}");
                    let nearer = cylinders.within(Portable, wide_q, limit * 0.8);
                    excluded += u32::from(nearer >> lane & 1 == 0);
                }
            }
        }
    }
    assert!(excluded > 1000, "{excluded} leaves are excluded");
    Ok(())
}

/// Needles whose two long edges are all but one line, and points beyond their tips: of all faces' points, computed in
/// f64, none is nearer.
#[test]
fn corners_are_nearer_than_planes() -> Result<()> {
    let (mut numbers, mut needles, mut points) = (Numbers(3), TriangleMesh::default(), Vec::new());
    for i in 0..300u32 {
        let (tip, along) = (numbers.point(1.0), numbers.point(1.0));
        let width = (-17.0 - (i % 8) as f32).exp2();
        let far = [0, 1, 2].map(|axis: usize| tip[axis] - along[axis]);
        let by = numbers.point(width);
        needles.points.extend([far, tip, [0, 1, 2].map(|axis: usize| far[axis] + by[axis])]);
        needles.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
        let step = 0.75 * numbers.next().abs();
        points.push([0, 1, 2].map(|axis: usize| tip[axis] + step * along[axis]));
    }
    // Each needle alone, so that no other is nearer, and all together.
    let alone =
        needles.faces.iter().map(|face| TriangleMesh { faces: vec![*face], ..needles.clone() });
    for (host, points) in alone.zip(points.chunks(1)).chain([(needles.clone(), &*points)]) {
        let mesh = Mesh::new(&host, MeshOptions::default())?;
        for q in points {
            let of_face = |face| {
                let (_, corners) = mesh.face_corners(face)?;
                Some(triangle::closest_point(corners, 0, *q).distance_squared)
            };
            let least =
                (0..host.faces.len() as u32).filter_map(of_face).fold(f32::INFINITY, f32::min);
            let found =
                mesh.closest_point(*q).map_or(f32::INFINITY, |found| found.distance_squared);
            assert!(found.sqrt() <= least.sqrt() + 1e-6, "{q:?}: {found}, {least}");
        }
    }
    Ok(())
}

#[test]
fn trees_of_any_items_are_not_too_deep() -> Result<()> {
    // Sizes that double, so that the heuristic always leaves one item, and points that coincide.
    let mut doubling = TriangleMesh::default();
    for i in 0..40_000u32 {
        let x = 1e-17 * 1.002f32.powi(i as i32);
        doubling.points.extend([[x, 0.0, 0.0], [x, x * 1e-3, 0.0], [x, 0.0, x * 1e-3]]);
        doubling.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
    }
    let same = TriangleMesh { points: vec![[1.0; 3]], faces: vec![[0; 3]; 5000] };
    for host in [doubling, same] {
        let mesh = Mesh::new(&host, MeshOptions::default())?;
        fn depth(mesh: &Mesh, child: u32) -> usize {
            match mesh.tree.nodes.get(child as usize) {
                Some(node) => {
                    1 + node.children.iter().map(|child| depth(mesh, *child)).max().unwrap_or(0)
                }
                None => 0,
            }
        }
        assert!(depth(&mesh, 0) <= (tree::STACK - 1) / (LANES - 1), "{}", depth(&mesh, 0));
        let faces: usize = mesh
            .tree
            .blocks
            .iter()
            .map(|block| block.faces.iter().filter(|f| **f != u32::MAX).count())
            .sum();
        assert_eq!(faces, host.faces.len());
        let at = host.points[host.points.len() / 2];
        assert_eq!(mesh.closest_point(at).map(|found| found.distance_squared), Some(0.0));
    }
    Ok(())
}
