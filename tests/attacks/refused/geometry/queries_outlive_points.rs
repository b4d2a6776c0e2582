//! Drops the boxes, rays, centres and radii that queries were made of.
//!
//! - row: a view does not outlive its buffer
//! - targets: `BvhQueries::boxes`, `BvhQueries::rays`, `BvhQueries::within_each`, `BvhQueries::len`
//! - must: not compile E0505 "borrowed"

use cuda_safe::DeviceBuffer;
use geom_kernels::bvh::BvhQueries;
use geom_kernels::{Aabb, Ray};

pub fn attack(
    boxes: DeviceBuffer<Aabb<f32>>,
    rays: DeviceBuffer<Ray>,
    centers: DeviceBuffer<[f32; 3]>,
    radii: DeviceBuffer<f32>,
) -> usize {
    let one = BvhQueries::boxes(&boxes);
    drop(boxes); //~ refused
    let two = BvhQueries::rays(&rays);
    drop(rays); //~ refused
    let three = BvhQueries::spheres(&centers, 0.0).within_each(&radii);
    drop(radii); //~ refused
    one.len() + two.len() + three.len()
}
