//! All pairs of bodies.

use cuda_safe::kernel::kernel;

use cuda_safe::kernel::vector::Vec3;

/// Keeps the force of a body on itself finite.
pub const SOFT: f32 = 1e-3;

/// Adds up the pulls of all bodies on each.
#[kernel(contract)]
pub fn nbody(positions: &[Vec3], forces: &mut [Vec3]) {
    assert!(positions.len() == forces.len());
    let n = positions.len();
    each(forces, |i, force| {
        let (p, mut sum) = (positions[i], Vec3::ZERO);
        for j in 0..n {
            let d = positions[j] - p;
            let r = 1.0 / (d.dot(d) + SOFT).sqrt();
            sum = sum.along(d, r * r * r);
        }
        *force = sum;
    });
}
