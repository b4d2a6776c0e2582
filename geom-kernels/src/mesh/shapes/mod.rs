//! Procedural meshes, for tests, benchmarks and examples.
//!
//! All are counter-clockwise seen from outside, and closed except the [`plane`]. The same arguments give the same
//! mesh on every run. [`icosphere`], [`cuboid`], [`plane`] and [`Noise`] use only correctly rounded operations, so
//! they have the same bits on every platform; [`torus`] and [`knot`] use the platform's sine, which may change the
//! last bit of a coordinate.

mod icosphere;
mod lattice;
mod noise;

pub use icosphere::icosphere;
pub use lattice::{KNOT_ALONG, KNOT_AROUND, knot, plane, torus};
pub use noise::Noise;
#[cfg(all(test, feature = "mesh-files"))]
pub(super) use noise::split_mix;

use cuda_safe::{Error, Result};

use super::TriangleMesh;
use super::host::check_counts;

/// Returns an axis-aligned box around the origin, of 8 points and 12 faces. `size` has the lengths of its edges.
///
/// # Errors
/// A length is not positive, or not finite.
pub fn cuboid(size: [f32; 3]) -> Result<TriangleMesh> {
    for length in size {
        check_length("an edge of a cuboid", length)?;
    }
    let half = size.map(|length| length * 0.5);
    // Bit `axis` of a point's index is its side on that axis.
    let point = |index: u32| {
        std::array::from_fn(|axis| if index >> axis & 1 == 0 { -half[axis] } else { half[axis] })
    };
    let mut faces = Vec::with_capacity(12);
    for axis in 0..3 {
        let (along, up) = (1u32 << ((axis + 1) % 3), 1u32 << ((axis + 2) % 3));
        for side in [0, 1u32 << axis] {
            // The face is counter-clockwise seen from the axis's positive end, so the negative side is reversed.
            let (b, d) = if side == 0 { (up, along) } else { (along, up) };
            let [a, b, c, d] = [side, side | b, side | along | up, side | d];
            faces.extend([[a, b, c], [a, c, d]]);
        }
    }
    Ok(TriangleMesh { points: (0..8).map(point).collect(), faces })
}

/// Returns a cube around the origin whose edges are `size` long: [`cuboid`].
///
/// # Errors
/// `size` is not positive, or not finite.
pub fn cube(size: f32) -> Result<TriangleMesh> {
    cuboid([size; 3])
}

fn check_length(what: &str, length: f32) -> Result<()> {
    if !(length > 0.0 && length.is_finite()) {
        return Err(Error::invalid(format!("{what} of length {length}; it must be positive")));
    }
    Ok(())
}

/// Returns an empty mesh with capacity for these numbers of points and faces.
fn reserved(points: u64, faces: u64) -> Result<TriangleMesh> {
    check_counts(points, faces)?;
    let mut mesh = TriangleMesh::default();
    let reserved = mesh
        .points
        .try_reserve_exact(points as usize)
        .and_then(|()| mesh.faces.try_reserve_exact(faces as usize));
    reserved.map_err(|error| {
        Error::invalid(format!("no memory for {points} points and {faces} faces: {error}"))
    })?;
    Ok(mesh)
}

#[cfg(test)]
mod tests;
