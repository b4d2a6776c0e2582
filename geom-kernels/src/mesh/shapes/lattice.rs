//! Shapes whose points are a lattice of rows and columns.

use std::f64::consts::TAU;

use cuda_safe::{Error, Result};

use super::{check_length, reserved};
use crate::mesh::TriangleMesh;
use crate::mesh::host::{add, cross, normalize, scaled, sub};

/// The usual number of points of a [`knot`] along its line; with [`KNOT_AROUND`] it has a million faces.
pub const KNOT_ALONG: u32 = 2048;

/// The usual number of points of a [`knot`] around its line.
pub const KNOT_AROUND: u32 = 256;

/// Returns an open rectangle in the plane z = 0 around the origin, seen from +z, with two faces per cell. `size` is
/// its lengths in x and y, `cells` the numbers of cells in these directions.
///
/// # Errors
/// A length that is not positive or not finite, no cells, or more points or faces than a `u32` can index.
pub fn plane(size: [f32; 2], cells: [u32; 2]) -> Result<TriangleMesh> {
    for length in size {
        check_length("a side of a plane", length)?;
    }
    if cells.contains(&0) {
        return Err(Error::invalid(format!("a plane of {} x {} cells", cells[0], cells[1])));
    }
    let [columns, rows] = cells.map(u64::from);
    let points = (columns + 1).saturating_mul(rows + 1);
    let mut mesh = reserved(points, (columns * rows).saturating_mul(2))?;
    let at = |axis: usize, i: u64| {
        let part = i as f64 / f64::from(cells[axis]) - 0.5;
        (part * f64::from(size[axis])) as f32
    };
    for j in 0..=rows {
        mesh.points.extend((0..=columns).map(|i| [at(0, i), at(1, j), 0.0]));
    }
    for j in 0..rows {
        for i in 0..columns {
            // The index is below the number of points, which is a u32.
            let a = (j * (columns + 1) + i) as u32;
            let [b, d] = [a + 1, a + columns as u32 + 1];
            mesh.faces.extend([[a, b, d + 1], [a, d + 1, d]]);
        }
    }
    Ok(mesh)
}

/// Returns a torus around the z axis: a circle of radius `minor` whose centre moves along a circle of radius `major`.
/// `segments` is the number of points of the large circle, `sides` that of the small one.
///
/// # Errors
/// Radii that are not positive and finite, or a `minor` that is not less than `major`; fewer than 3 segments or
/// sides; more points or faces than a `u32` can index.
pub fn torus(major: f32, minor: f32, segments: u32, sides: u32) -> Result<TriangleMesh> {
    check_length("the major radius", major)?;
    check_length("the minor radius", minor)?;
    if minor >= major {
        return Err(Error::invalid(format!(
            "a torus of major radius {major} and minor radius {minor}, which must be less"
        )));
    }
    let (major, minor) = (f64::from(major), f64::from(minor));
    wrapped([segments, sides], false, |i| {
        let (sin_u, cos_u) = angle(i, segments).sin_cos();
        move |j| {
            let (sin_v, cos_v) = angle(j, sides).sin_cos();
            let from_axis = major + minor * cos_v;
            [from_axis * cos_u, from_axis * sin_u, minor * sin_v]
        }
    })
}

/// Returns a closed tube of varying width along a trefoil knot: long, curved, with faces of many sizes, so a fair
/// test for hierarchies over meshes. It has `along` · `around` points and twice as many faces; [`KNOT_ALONG`] and
/// [`KNOT_AROUND`] are the usual values.
///
/// With u = 2π i / along, v = 2π j / around, point i · around + j is c + r (cos v n + sin v b), where
/// c(u) = ((cos 3u + 2) cos 2u, (cos 3u + 2) sin 2u, -sin 3u), r = 0.35 (1 + 0.05 sin 40u sin 12v),
/// t = c(u + 1e-4) - c(u) of length one, b = t × (c(u + 1e-4) + c(u)) of length one, and n = b × t.
///
/// # Errors
/// Fewer than 3 points along or around; more points or faces than a `u32` can index.
pub fn knot(along: u32, around: u32) -> Result<TriangleMesh> {
    let centre = |u: f64| {
        let distance = (3.0 * u).cos() + 2.0;
        [distance * (2.0 * u).cos(), distance * (2.0 * u).sin(), -(3.0 * u).sin()]
    };
    wrapped([along, around], true, |i| {
        let u = angle(i, along);
        let (c, next) = (centre(u), centre(u + 1e-4));
        // The line's derivative is never zero nor parallel to c, so both vectors have a direction.
        let t = normalize(sub(next, c)).unwrap_or_default();
        let b = normalize(cross(t, add(next, c))).unwrap_or_default();
        let n = cross(b, t);
        move |j| {
            let v = angle(j, around);
            let r = 0.35 * (1.0 + 0.05 * (40.0 * u).sin() * (12.0 * v).sin());
            add(c, scaled(add(scaled(n, v.cos()), scaled(b, v.sin())), r))
        }
    })
}

fn angle(i: u32, of: u32) -> f64 {
    TAU * f64::from(i) / f64::from(of)
}

/// Returns a lattice that is closed in both directions. `row(i)` returns the points of row i by their columns. Faces
/// are counter-clockwise in (row, column), or clockwise if `turned`.
fn wrapped<R: Fn(u32) -> [f64; 3]>(
    [rows, columns]: [u32; 2],
    turned: bool,
    row: impl Fn(u32) -> R,
) -> Result<TriangleMesh> {
    if rows < 3 || columns < 3 {
        return Err(Error::invalid(format!(
            "a closed shape of {rows} x {columns} points; at least 3 are needed each way"
        )));
    }
    let points = u64::from(rows) * u64::from(columns);
    let mut mesh = reserved(points, points.saturating_mul(2))?;
    for i in 0..rows {
        let point = row(i);
        mesh.points.extend((0..columns).map(|j| point(j).map(|x| x as f32)));
    }
    for i in 0..rows {
        let next_i = if i + 1 < rows { i + 1 } else { 0 };
        for j in 0..columns {
            let next_j = if j + 1 < columns { j + 1 } else { 0 };
            let (a, b) = (i * columns + j, next_i * columns + j);
            let (c, d) = (next_i * columns + next_j, i * columns + next_j);
            mesh.faces.extend(if turned { [[a, c, b], [a, d, c]] } else { [[a, b, c], [a, c, d]] });
        }
    }
    Ok(mesh)
}
