//! The kernels of the fit.

use cuda_safe::kernel::kernel;
use cuda_safe::kernel::vector::Vec3;

/// The middles of faces.
#[kernel(gradient)]
pub(crate) fn middles(points: &[[f32; 3]], faces: &[[u32; 3]], middles: &mut [[f32; 3]]) {
    assert!(faces.len() == middles.len());
    each(middles, |i, middle| {
        let mut sum = Vec3::ZERO;
        for k in 0..3 {
            sum += Vec3::from_array(points[faces[i][k] as usize]);
        }
        *middle = (sum / 3.0).to_array();
    });
}

/// A sweep of Jacobi's iteration for (1 + `stiffness` L) `to` = `gradient`, where L is the mesh's Laplacian: (L u)_i is
/// the sum of u_i - u_j over the neighbours j of i. Those of point i are from `first[i]` to `first[i + 1]`.
///
/// Before a step of descent it makes neighbours move together (J. Neuberger, "Sobolev Gradients and Differential
/// Equations", 1997; for meshes B. Nicolet, A. Jacobson, W. Jakob, "Large Steps in Inverse Rendering of Geometry", 2021).
/// Points that go their own ways would fold the mesh.
#[kernel]
pub(crate) fn smooth(
    gradient: &[[f32; 3]],
    first: &[u32],
    neighbours: &[u32],
    stiffness: f32,
    from: &[[f32; 3]],
    to: &mut [[f32; 3]],
) {
    assert!(gradient.len() == to.len() && first.len() == to.len() + 1 && from.len() == to.len());
    each(to, |i, to| {
        let mut sum = Vec3::from_array(gradient[i]);
        let mut weight = 1.0;
        for k in first[i] as usize..first[i + 1] as usize {
            sum += Vec3::from_array(from[neighbours[k] as usize]) * stiffness;
            weight += stiffness;
        }
        *to = (sum / weight).to_array();
    });
}

/// A step against the gradient.
#[kernel]
pub(crate) fn descend(direction: &[[f32; 3]], rate: f32, points: &mut [[f32; 3]]) {
    assert!(direction.len() == points.len());
    each(points, |i, point| {
        let moved = Vec3::from_array(*point).along(Vec3::from_array(direction[i]), -rate);
        *point = moved.to_array();
    });
}
