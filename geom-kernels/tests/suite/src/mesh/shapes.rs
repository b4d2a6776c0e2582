//! Closed shapes that are easy to get wrong: sheets, blades, cubes of a lattice.

use std::collections::HashMap;

use geom_kernels::mesh::{TriangleMesh, shapes};

use test_harness::Failure;

/// A cube from -1 to 1 whose sides are cut into `cells` by `cells` squares.
pub(super) fn lattice_cube(cells: u32) -> Result<TriangleMesh, Failure> {
    let mut cube = TriangleMesh::default();
    for axis in 0..3 {
        for side in [1.0, -1.0] {
            let mut plane = shapes::plane([2.0, 2.0], [cells, cells])?;
            // The plane's x, y, z become the axes after `axis`, and it; mirrored, its other side is out.
            let mut rows = [[0.0; 4]; 3];
            rows[(axis + 1) % 3][0] = 1.0;
            rows[(axis + 2) % 3][1] = 1.0;
            rows[axis][2] = side;
            rows[axis][3] = side;
            plane.transform(&rows);
            cube.append(&plane)?;
        }
    }
    cube.weld();
    Ok(cube)
}

/// A closed sheet over [1, 2] x [1, 2], from z = 1 to z = 1 + `gap` of x. Where that is 0, it closes with
/// faces of no area.
pub(super) fn sheet(cells: u32, gap: impl Fn(f32) -> f32) -> TriangleMesh {
    let side = cells + 1;
    let mut mesh = TriangleMesh::default();
    for layer in 0..2 {
        for i in 0..side * side {
            let [x, y] = [i % side, i / side].map(|k| 1.0 + k as f32 / cells as f32);
            mesh.points.push([x, y, if layer == 0 { 1.0 } else { 1.0 + gap(x) }]);
        }
    }
    let at = |x: u32, y: u32, layer: u32| layer * side * side + y * side + x;
    let mut square = |[a, b, c, d]: [u32; 4]| mesh.faces.extend([[a, b, c], [a, c, d]]);
    for y in 0..cells {
        for x in 0..cells {
            let corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)];
            let [a, b, c, d] = corners.map(|(x, y)| at(x, y, 1));
            square([a, b, c, d]);
            let [a, b, c, d] = corners.map(|(x, y)| at(x, y, 0));
            square([d, c, b, a]);
        }
    }
    // Around the rim, counter-clockwise seen from above.
    for k in 0..cells {
        let (m, back) = (cells, cells - k);
        let pairs = [
            [(k, 0), (k + 1, 0)],
            [(m, k), (m, k + 1)],
            [(back, m), (back - 1, m)],
            [(0, back), (0, back - 1)],
        ];
        for [(x, y), (to_x, to_y)] in pairs {
            square([at(x, y, 0), at(to_x, to_y, 0), at(to_x, to_y, 1), at(x, y, 1)]);
        }
    }
    mesh
}

/// A prism of `layers` pieces along z over a convex section, whose points are counter-clockwise.
pub(super) fn prism(section: &[[f32; 2]], layers: u32) -> TriangleMesh {
    let n = section.len() as u32;
    let mut mesh = TriangleMesh::default();
    for layer in 0..=layers {
        let z = layer as f32 / layers as f32;
        mesh.points.extend(section.iter().map(|[x, y]| [*x, *y, z]));
    }
    for layer in 0..layers {
        for i in 0..n {
            let [a, b] = [i, (i + 1) % n].map(|k| layer * n + k);
            mesh.faces.extend([[a, b, b + n], [a, b + n, a + n]]);
        }
    }
    for i in 1..n - 1 {
        mesh.faces.push([0, i + 1, i]);
        mesh.faces.push([0, i, i + 1].map(|k| layers * n + k));
    }
    mesh
}

/// Two steep slopes that meet in a ridge; open elsewhere.
pub(super) fn roof(pieces: u32) -> TriangleMesh {
    let mut mesh = TriangleMesh::default();
    for i in 0..=pieces {
        let y = i as f32 / pieces as f32;
        mesh.points.extend([[0.0, y, 2.0], [-0.3, y, 0.0], [0.3, y, 0.0]]);
    }
    for ridge in (0..pieces).map(|i| 3 * i) {
        let [left, right, next] = [ridge + 1, ridge + 2, ridge + 3];
        mesh.faces.extend([[ridge, next, left + 3], [ridge, left + 3, left]]);
        mesh.faces.extend([[ridge, right, right + 3], [ridge, right + 3, next]]);
    }
    mesh
}

/// The sides of a steep pyramid, without its bottom.
pub(super) fn spike(sides: u32) -> TriangleMesh {
    let rim = |i: u32| {
        let angle = std::f32::consts::TAU * i as f32 / sides as f32;
        [0.3 * angle.cos(), 0.2 * angle.sin(), 0.0]
    };
    TriangleMesh {
        points: std::iter::once([0.0, 0.0, 2.0]).chain((0..sides).map(rim)).collect(),
        faces: (0..sides).map(|i| [0, 1 + i, 1 + (i + 1) % sides]).collect(),
    }
}

/// Whether every edge is one of two faces that run along it in opposite directions.
pub(super) fn is_watertight(mesh: &TriangleMesh) -> bool {
    let mut edges: HashMap<[u32; 2], i32> = HashMap::new();
    for [a, b, c] in mesh.faces.iter().copied() {
        for [from, to] in [[a, b], [b, c], [c, a]] {
            *edges.entry([from, to]).or_default() += 1;
        }
    }
    edges.iter().all(|([from, to], count)| *count == 1 && edges.get(&[*to, *from]) == Some(&1))
}
