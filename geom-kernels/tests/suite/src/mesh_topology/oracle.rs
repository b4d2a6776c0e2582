//! What the host says of a mesh: by a map of edges.

use std::collections::{HashMap, HashSet};

use geom_kernels::mesh::{Fault, MeshReport, Validation};

use super::meshes::{Mesh, cross, dot};

pub(super) const NONE: u32 = u32::MAX;

/// The places (3 * face + edge) of each edge, and whether each runs from the lower to the higher index.
type Edges = HashMap<[u32; 2], Vec<(u32, bool)>>;

fn is_valid(point: [f32; 3]) -> bool {
    point.iter().all(|x| x.abs() <= 2f32.powi(60))
}

/// Why a face is skipped: whether an index is out of range, and the first corner to blame.
fn fault(mesh: &Mesh, face: [u32; 3]) -> Option<(bool, usize)> {
    let out = |vertex: &u32| *vertex as usize >= mesh.points.len();
    if let Some(corner) = face.iter().position(out) {
        return Some((true, corner));
    }
    let bad = |vertex: &u32| !is_valid(mesh.points[*vertex as usize]);
    face.iter().position(bad).map(|corner| (false, corner))
}

/// The faces that have edges.
fn faces(mesh: &Mesh) -> impl Iterator<Item = (u32, [u32; 3])> {
    let differ = |[a, b, c]: [u32; 3]| a != b && b != c && c != a;
    (0u32..)
        .zip(mesh.faces.iter().copied())
        .filter(move |(_, face)| fault(mesh, *face).is_none() && differ(*face))
}

fn edges(mesh: &Mesh) -> Edges {
    let mut edges = Edges::new();
    for (index, face) in faces(mesh) {
        for edge in 0..3 {
            let (from, to) = (face[edge], face[(edge + 1) % 3]);
            let uses = edges.entry([from.min(to), from.max(to)]).or_default();
            uses.push((3 * index + edge as u32, from < to));
        }
    }
    edges
}

pub(super) fn validation(mesh: &Mesh) -> Validation {
    let faults = |wanted: bool| {
        let found = (0u32..).zip(&mesh.faces).filter_map(move |(face, vertices)| {
            let (out_of_range, corner) = fault(mesh, *vertices)?;
            let found = Fault { face, corner: corner as u32, vertex: vertices[corner] };
            (out_of_range == wanted).then_some(found)
        });
        found.collect::<Vec<_>>()
    };
    let (out_of_range, not_finite) = (faults(true), faults(false));
    Validation {
        out_of_range: out_of_range.len(),
        first_out_of_range: out_of_range.first().copied(),
        not_finite: not_finite.len(),
        first_not_finite: not_finite.first().copied(),
    }
}

pub(super) fn neighbors(mesh: &Mesh) -> Vec<u32> {
    let mut neighbors = vec![NONE; 3 * mesh.faces.len()];
    for uses in edges(mesh).values() {
        if let [(one, _), (other, _)] = uses[..] {
            neighbors[one as usize] = other / 3;
            neighbors[other as usize] = one / 3;
        }
    }
    neighbors
}

/// The corners of a face, relative to some place that is the same for all faces.
fn corners(mesh: &Mesh, face: [u32; 3]) -> [[f64; 3]; 3] {
    face.map(|vertex| mesh.points[vertex as usize].map(f64::from))
}

pub(super) fn sub(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

/// Of each vertex the sum of its faces' unit normals times their angles, not of length one, and the sum of
/// these angles. Angles are those of the C library.
pub(super) fn normal_sums(mesh: &Mesh) -> Vec<([f64; 3], f64)> {
    let mut sums = vec![([0.0; 3], 0.0); mesh.points.len()];
    for (_, face) in faces(mesh) {
        let at = corners(mesh, face);
        let area = cross(sub(at[1], at[0]), sub(at[2], at[0]));
        let length = dot(area, area).sqrt();
        if length == 0.0 {
            continue;
        }
        for corner in 0..3 {
            let to = sub(at[(corner + 1) % 3], at[corner]);
            let from = sub(at[(corner + 2) % 3], at[corner]);
            let angle = length.atan2(dot(to, from));
            let (sum, angles) = &mut sums[face[corner] as usize];
            *angles += angle;
            for axis in 0..3 {
                sum[axis] += area[axis] / length * angle;
            }
        }
    }
    sums
}

/// For coordinates whose products are exact in f64.
pub(super) fn report(mesh: &Mesh) -> MeshReport {
    let edges = edges(mesh);
    let count = |is: fn(&[(u32, bool)]) -> bool| edges.values().filter(|uses| is(uses)).count();
    let boundary_edges = count(|uses| uses.len() == 1);
    let non_manifold_edges = count(|uses| uses.len() > 2);
    let inconsistent_edges = count(|uses| uses.len() == 2 && uses[0].1 == uses[1].1);
    let connected: Vec<_> = faces(mesh).collect();
    let used: HashSet<u32> = connected.iter().flat_map(|(_, face)| *face).collect();
    let valid = mesh.points.iter().filter(|point| is_valid(**point));
    let (mut lower, mut upper) = ([f64::INFINITY; 3], [f64::NEG_INFINITY; 3]);
    for point in valid {
        for axis in 0..3 {
            lower[axis] = lower[axis].min(point[axis].into());
            upper[axis] = upper[axis].max(point[axis].into());
        }
    }
    let middle = [0, 1, 2].map(|axis| 0.5 * (lower[axis] + upper[axis]));
    let (mut twice_area, mut six_volumes, mut flat) = (0.0, 0.0, 0);
    for (_, face) in &connected {
        let [a, b, c] = corners(mesh, *face).map(|corner| sub(corner, middle));
        let area = cross(sub(b, a), sub(c, a));
        twice_area += dot(area, area).sqrt();
        six_volumes += dot(a, cross(b, c));
        flat += usize::from(area == [0.0; 3]);
    }
    let skipped_faces = validation(mesh).skipped();
    let some = !edges.is_empty();
    MeshReport {
        points: mesh.points.len(),
        faces: mesh.faces.len(),
        skipped_faces,
        degenerate_faces: mesh.faces.len() - skipped_faces - connected.len() + flat,
        edges: edges.len(),
        boundary_edges,
        non_manifold_edges,
        inconsistent_edges,
        isolated_points: mesh.points.len() - used.len(),
        euler_characteristic: used.len() as i64 - edges.len() as i64 + connected.len() as i64,
        closed: some && boundary_edges == 0,
        oriented: some && inconsistent_edges == 0,
        watertight: some && boundary_edges + inconsistent_edges + non_manifold_edges == 0,
        volume: six_volumes / 6.0,
        area: twice_area / 2.0,
    }
}
