//! Drops the boxes, rays, centres and radii that queries were made of.
//!
//! - row: a view does not outlive its buffer
//! - targets: `Queries::boxes`, `Queries::rays`, `Queries::spheres_of`, `Queries::len`
//! - must: not compile E0505 "borrowed"

use cuda_safe::DeviceBuffer;
use geom_kernels::bvh::Queries;
use geom_kernels::{Aabb, Ray};

pub fn attack(
    boxes: DeviceBuffer<Aabb<f32>>,
    rays: DeviceBuffer<Ray>,
    centers: DeviceBuffer<[f32; 3]>,
    radii: DeviceBuffer<f32>,
) -> usize {
    let one = Queries::boxes(&boxes);
    drop(boxes); //~ refused
    let two = Queries::rays(&rays);
    drop(rays); //~ refused
    let three = Queries::spheres_of(&centers, &radii);
    drop(radii); //~ refused
    one.len() + two.len() + three.len()
}
