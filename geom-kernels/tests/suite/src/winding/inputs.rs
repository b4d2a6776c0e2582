//! Meshes and points to ask about.

use geom_kernels::mesh::TriangleMesh;
use geom_kernels::mesh::shapes::{self, Noise};

use test_harness::{Failure, Rng};

/// A mesh, and whether it is closed and oriented outwards.
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) mesh: TriangleMesh,
    pub(super) closed: bool,
}

/// Meshes of all kinds.
pub(super) fn inputs(rng: &mut Rng) -> Result<Vec<Input>, Failure> {
    let mut stone = shapes::icosphere(3, 1.0)?;
    stone.displace(&Noise::new(7), 0.3, 3.0)?;
    let mut two = shapes::icosphere(2, 1.0)?;
    let mut other = shapes::cube(0.5)?;
    other.translate([2.5, 0.25, 0.5]);
    two.append(&other)?;
    let mut open = shapes::torus(1.0, 0.4, 24, 12)?;
    open.faces.truncate(open.faces.len() * 2 / 3);
    let mut holes = shapes::knot(40, 12)?;
    holes.faces.retain(|_| rng.below(8) != 0);
    let mut inside_out = shapes::icosphere(2, 1.0)?;
    inside_out.flip();
    let closed = |name, mesh| Input { name, mesh, closed: true };
    let other = |name, mesh| Input { name, mesh, closed: false };
    Ok(vec![
        closed("a cube", shapes::cube(1.0)?),
        closed("a stone", stone),
        closed("a knot", shapes::knot(72, 16)?),
        closed("two pieces", two),
        other("an open torus", open),
        other("a knot with holes", holes),
        other("a sphere inside out", inside_out),
        other("a plane", shapes::plane([2.0, 1.0], [9, 5])?),
        other("a soup", soup(rng, 500, 0.2)),
        other("large overlapping triangles", soup(rng, 300, 1.0)),
    ])
}

/// Triangles of about this size anywhere in a cube.
pub(super) fn soup(rng: &mut Rng, faces: usize, size: f32) -> TriangleMesh {
    let mut mesh = TriangleMesh::default();
    for i in 0..faces as u32 {
        let at: [f32; 3] = std::array::from_fn(|_| rng.float());
        for _ in 0..3 {
            mesh.points.push(at.map(|x| x + size * rng.float()));
        }
        // In some order: how corners are sorted must not matter.
        let [a, b, c] = [3 * i, 3 * i + 1, 3 * i + 2];
        mesh.faces.push([[a, b, c], [b, a, c], [c, b, a], [b, c, a]][rng.below(4)]);
    }
    mesh
}

/// Points in and around a mesh, some close to it and some far away; none on its edges.
pub(super) fn queries(rng: &mut Rng, mesh: &TriangleMesh, n: usize) -> Vec<[f32; 3]> {
    let Some(bounds) = mesh.bounds() else {
        return (0..n).map(|_| std::array::from_fn(|_| rng.float())).collect();
    };
    let oracle = geom_oracle::Mesh::new(&mesh.points, &mesh.faces);
    let size = (0..3).map(|axis| bounds.upper[axis] - bounds.lower[axis]).fold(0.0, f32::max);
    let mut queries = Vec::new();
    while queries.len() < n {
        let kind = rng.below(4);
        let near = mesh.points[rng.below(mesh.points.len())];
        let q: [f32; 3] = std::array::from_fn(|axis| {
            let center = 0.5 * (bounds.lower[axis] + bounds.upper[axis]);
            match kind {
                0 | 1 => center + 0.6 * size * rng.float(),
                2 => near[axis] + 0.05 * size * rng.float(),
                _ => center + 6.0 * size * rng.float(),
            }
        });
        // Close to an edge, angles depend on the last bit of q.
        let away = |c: geom_oracle::Closest| c.distance > 1e-3 * f64::from(size);
        if oracle.closest(q.map(f64::from)).is_none_or(away) {
            queries.push(q);
        }
    }
    queries
}
