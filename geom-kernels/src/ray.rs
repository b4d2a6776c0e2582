//! Rays for queries.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceRepr;

/// A ray: the points origin + t · direction for t from `t_min` to `t_max`. `geom::MeshRay` of
/// `geom/bvh/ray_boxes.cuh`.
///
/// The direction need not have length one. A ray hits nothing if its origin is not finite or beyond 2^60, its
/// direction is not finite or zero, or its t are out of order or NaN; a negative `t_min` counts as 0.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[cfg_attr(feature = "rust-kernels", derive(cuda_safe::kernel::Device))]
#[repr(C, align(16))]
pub struct Ray {
    /// Where it comes from.
    pub origin: [f32; 3],
    /// The least t.
    pub t_min: f32,
    /// Where it goes.
    pub direction: [f32; 3],
    /// The greatest t; may be infinite.
    pub t_max: f32,
}

// SAFETY: repr(C); LAYOUTS has it as geom::MeshRay.
unsafe impl DeviceRepr for Ray {}

impl Ray {
    /// Creates a ray from `origin`, without an end.
    #[must_use]
    pub const fn new(origin: [f32; 3], direction: [f32; 3]) -> Self {
        Self { origin, t_min: 0.0, direction, t_max: f32::INFINITY }
    }

    /// Creates a ray from one point, at t = 0, to another, at t = 1; its direction is rounded.
    #[must_use]
    pub fn segment(from: [f32; 3], to: [f32; 3]) -> Self {
        let direction = std::array::from_fn(|axis| to[axis] - from[axis]);
        Self { origin: from, t_min: 0.0, direction, t_max: 1.0 }
    }

    /// Returns the same ray with another range of t.
    #[must_use]
    pub const fn between(self, t_min: f32, t_max: f32) -> Self {
        Self { t_min, t_max, ..self }
    }
}
