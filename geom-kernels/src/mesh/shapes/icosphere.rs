//! Spheres from an icosahedron.

use std::collections::HashMap;

use cuda_safe::{Error, Result};

use super::{check_length, reserved};
use crate::mesh::TriangleMesh;
use crate::mesh::host::{add, normalize, scaled};

/// The most subdivisions: a `u32` can number 20 · 4^13 faces, but not 20 · 4^14.
const MOST_SUBDIVISIONS: u32 = 13;

const FACES: [[u32; 3]; 20] = [
    [0, 11, 5],
    [0, 5, 1],
    [0, 1, 7],
    [0, 7, 10],
    [0, 10, 11],
    [1, 5, 9],
    [5, 11, 4],
    [11, 10, 2],
    [10, 7, 6],
    [7, 1, 8],
    [3, 9, 4],
    [3, 4, 2],
    [3, 2, 6],
    [3, 6, 8],
    [3, 8, 9],
    [4, 9, 5],
    [2, 4, 11],
    [6, 2, 10],
    [8, 6, 7],
    [9, 8, 1],
];

/// Returns a sphere around the origin: an icosahedron whose faces are split into four, `subdivisions` times, with
/// every point on the sphere. It has 10 · 4^s + 2 points and 20 · 4^s faces, all of similar size.
///
/// # Errors
/// More than 13 subdivisions; a radius that is not positive or not finite.
pub fn icosphere(subdivisions: u32, radius: f32) -> Result<TriangleMesh> {
    check_length("a radius", radius)?;
    if subdivisions > MOST_SUBDIVISIONS {
        return Err(Error::invalid(format!(
            "a sphere of {subdivisions} subdivisions; at most {MOST_SUBDIVISIONS} are possible"
        )));
    }
    let mut mesh = reserved((10 << (2 * subdivisions)) + 2, 20 << (2 * subdivisions))?;
    // Directions stay in f64 and are rounded once, at the end.
    let mut directions = icosahedron();
    let mut faces = FACES.to_vec();
    for _ in 0..subdivisions {
        faces = split(&faces, &mut directions);
    }
    let radius = f64::from(radius);
    mesh.points.extend(directions.iter().map(|direction| direction.map(|x| (x * radius) as f32)));
    mesh.faces.append(&mut faces);
    Ok(mesh)
}

/// Returns the corners of three golden rectangles, at distance one.
fn icosahedron() -> Vec<[f64; 3]> {
    let golden = (1.0 + 5.0_f64.sqrt()) * 0.5;
    let inverse = 1.0 / (1.0 + golden * golden).sqrt();
    let (s, l) = (inverse, golden * inverse);
    vec![
        [-s, l, 0.0],
        [s, l, 0.0],
        [-s, -l, 0.0],
        [s, -l, 0.0],
        [0.0, -s, l],
        [0.0, s, l],
        [0.0, -s, -l],
        [0.0, s, -l],
        [l, 0.0, -s],
        [l, 0.0, s],
        [-l, 0.0, -s],
        [-l, 0.0, s],
    ]
}

/// Splits each face into four, at the midpoints of its edges.
fn split(faces: &[[u32; 3]], directions: &mut Vec<[f64; 3]>) -> Vec<[u32; 3]> {
    let mut middles: HashMap<(u32, u32), u32> = HashMap::with_capacity(faces.len() * 3 / 2);
    let mut middle = |a: u32, b: u32| {
        *middles.entry((a.min(b), a.max(b))).or_insert_with(|| {
            let sum = add(directions[a as usize], directions[b as usize]);
            // The corners of an edge are never opposite, so the sum has a direction.
            directions.push(normalize(sum).unwrap_or(scaled(sum, 0.5)));
            directions.len() as u32 - 1
        })
    };
    let mut result = Vec::with_capacity(faces.len() * 4);
    for [a, b, c] in faces {
        let (ab, bc, ca) = (middle(*a, *b), middle(*b, *c), middle(*c, *a));
        result.extend([[*a, ab, ca], [*b, bc, ab], [*c, ca, bc], [ab, bc, ca]]);
    }
    result
}
