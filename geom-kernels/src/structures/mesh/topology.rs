//! The faces across edges, and the normals of vertices: `geom/mesh/topology.cuh`.

use super::block::face_of;
use super::exact::{add, dot, fma, length_squared, mul, narrow, sub, widen};
use super::triangle::{Triangle, area_vector};
use crate::mesh::NO_FACE;

/// The most corners of a vertex whose normals are added one after the other.
const MOST_ALONE: usize = 32;

/// The adjacency of a mesh.
#[derive(Debug, Clone)]
pub(super) struct Topology {
    /// For each face and each of its edges the face on the other side.
    pub(super) neighbors: Vec<u32>,
    /// For each vertex the sum of its faces' unit normals, each times its angle there, normalized.
    pub(super) vertex_normals: Vec<[f32; 3]>,
    /// Whether every edge has two faces, which run along it in opposite directions.
    pub(super) closed: bool,
}

/// Returns the vertices of a face that has edges: it is not skipped, and its indices differ.
fn edges_of(points: &[[f32; 3]], faces: &[[u32; 3]], face: usize) -> Option<([u32; 3], Triangle)> {
    face_of(points, faces, face as u32).filter(|([a, b, c], _)| a != b && b != c && c != a)
}

impl Topology {
    pub(super) fn new(points: &[[f32; 3]], faces: &[[u32; 3]]) -> Self {
        let mut edges: Vec<([u32; 2], u32)> = Vec::with_capacity(3 * faces.len());
        for face in 0..faces.len() {
            if let Some(([a, b, c], _)) = edges_of(points, faces, face) {
                for (edge, [from, to]) in [[a, b], [b, c], [c, a]].into_iter().enumerate() {
                    edges.push(([from.min(to), from.max(to)], (3 * face + edge) as u32));
                }
            }
        }
        edges.sort_unstable();
        let mut neighbors = vec![NO_FACE; 3 * faces.len()];
        for same in edges.chunk_by(|a, b| a.0 == b.0) {
            if let [(_, one), (_, other)] = same {
                for (at, neighbor) in [(one, other), (other, one)] {
                    if let Some(to) = neighbors.get_mut(*at as usize) {
                        *to = neighbor / 3;
                    }
                }
            }
        }
        let runs_back = |face: u32, from: u32, to: u32| {
            faces.get(face as usize).is_some_and(|[a, b, c]| {
                [[a, b], [b, c], [c, a]].iter().any(|[p, q]| **p == to && **q == from)
            })
        };
        let closed = (0..faces.len()).zip(neighbors.chunks_exact(3)).all(|(face, across)| {
            edges_of(points, faces, face).is_none_or(|([a, b, c], _)| {
                [[a, b], [b, c], [c, a]]
                    .iter()
                    .zip(across)
                    .all(|([from, to], across)| runs_back(*across, *from, *to))
            })
        });
        let vertex_normals = vertex_normals(points, faces);
        Self { neighbors, vertex_normals, closed }
    }

    /// Updates the normals to points that have moved.
    pub(super) fn refit(&mut self, points: &[[f32; 3]], faces: &[[u32; 3]]) {
        self.vertex_normals = vertex_normals(points, faces);
    }
}

/// A sum of normals, and of their angles.
type Sum = ([f64; 3], f64);

/// Adds a face that has this corner. One without area adds nothing.
fn add_corner((sum, angles): Sum, t: Triangle, corner: usize) -> Sum {
    let area = area_vector(t);
    let length = length_squared(area).sqrt();
    if length == 0.0 {
        return (sum, angles);
    }
    let [at, to, from] = [0, 1, 2].map(|i| widen(t[(corner + i) % 3]));
    // The length of the area vector is the product of both sides and the sine.
    let angle = atan2(length, dot(sub(to, at), sub(from, at)));
    (add(sum, mul(area, angle / length)), angles + angle)
}

/// Returns the normal of each vertex: zero where there is no face, or where the normals cancel up to rounding.
fn vertex_normals(points: &[[f32; 3]], faces: &[[u32; 3]]) -> Vec<[f32; 3]> {
    let mut corners: Vec<(u32, u32)> = Vec::with_capacity(3 * faces.len());
    for face in 0..faces.len() {
        if let Some((index, _)) = edges_of(points, faces, face) {
            corners.extend(index.into_iter().zip(3 * face as u32..));
        }
    }
    corners.sort_unstable();
    let mut normals = vec![[0.0; 3]; points.len()];
    for of_vertex in corners.chunk_by(|a, b| a.0 == b.0) {
        let add_place = |sum: Sum, (_, place): &(u32, u32)| match edges_of(
            points,
            faces,
            *place as usize / 3,
        ) {
            Some((_, triangle)) => add_corner(sum, triangle, *place as usize % 3),
            None => sum,
        };
        let none = ([0.0; 3], 0.0);
        let (sum, angles) = if of_vertex.len() <= MOST_ALONE {
            of_vertex.iter().fold(none, add_place)
        } else {
            // As a warp adds them: each lane every 32nd, then the upper half of lanes to the lower, and so on.
            let mut lanes = [none; 32];
            for (lane, sum) in lanes.iter_mut().enumerate() {
                *sum = of_vertex.iter().skip(lane).step_by(32).fold(none, add_place);
            }
            for distance in [16, 8, 4, 2, 1] {
                for lane in 0..distance {
                    let (one, other) = (lanes[lane], lanes[lane + distance]);
                    lanes[lane] = (add(one.0, other.0), one.1 + other.1);
                }
            }
            lanes[0]
        };
        let length = length_squared(sum).sqrt();
        let vertex = of_vertex.first().and_then(|(vertex, _)| normals.get_mut(*vertex as usize));
        // The factor is 2^-46.
        if let Some(normal) = vertex
            && length > angles * 1.421_085_471_520_200_4e-14
        {
            *normal = narrow(sum.map(|x| x / length));
        }
    }
    normals
}

/// Returns the angle from the x axis to (x, y), with the bits of `exact::atan2` of `geom/math/angle.cuh`.
fn atan2(y: f64, x: f64) -> f64 {
    const ROOT_3: f64 = 1.732_050_807_568_877_2;
    let (height, width) = (y.abs(), x.abs());
    let (low, high) = if height < width { (height, width) } else { (width, height) };
    if high == 0.0 {
        return 0.0;
    }
    let turned = 0.267_949_192_431_122_7 * high < low;
    let over = if turned { fma(ROOT_3, low, -high) } else { low };
    let under = if turned { fma(ROOT_3, high, low) } else { high };
    let u = over / under;
    let s = -(u * u);
    let terms = [23.0, 21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0];
    let sum = terms.into_iter().fold(0.04, |sum, n| fma(s, sum, 1.0 / n));
    let mut angle = fma(u * s, sum, u);
    if turned {
        angle += std::f64::consts::FRAC_PI_6;
    }
    if width < height {
        angle = std::f64::consts::FRAC_PI_2 - angle;
    }
    if x < 0.0 {
        angle = std::f64::consts::PI - angle;
    }
    if y < 0.0 { -angle } else { angle }
}
