//! A gyroid in a sphere (A. Schoen, "Infinite Periodic Minimal Surfaces without Self-Intersections", NASA TN
//! D-5541, 1970), as a narrow band of distances.

use std::error::Error;

use cuda_safe::Stream;
use geom_kernels::GeometryKernels;
use geom_kernels::volume::nanovdb::{GridClass, Map};
use geom_kernels::volume::{DenseOptions, Keep, Volume, VolumeOptions};

/// How often it repeats in a unit of length, times 2 pi; and half of how thick its walls are.
const FREQUENCY: f32 = 9.0;
const HALF_WALL: f32 = 0.035;

/// Of radius 1, in a cube of `resolution` voxels to each side.
pub(crate) fn make(
    stream: &Stream,
    geometry: &GeometryKernels,
    resolution: u16,
) -> Result<Volume, Box<dyn Error>> {
    let half = i32::from(resolution) / 2;
    // With room for the band around it.
    let voxel = 1.0 / (half - 4).max(1) as f32;
    let band = 3.0 * voxel;
    let options = VolumeOptions::new(band)
        .name("gyroid")
        .class(GridClass::LEVEL_SET)
        .map(Map::uniform(f64::from(voxel), [0.0; 3])?);
    let options =
        DenseOptions::new(options).origin([-half; 3]).keep(Keep::NarrowBand(f64::from(band)));
    let dims = [usize::from(resolution); 3];
    Ok(Volume::from_fn(stream, geometry, dims, options, |voxel_at| {
        distance(voxel_at.map(|x| x as f32 * voxel))
    })?)
}

/// Returns the approximate distance to it: the value of the function over the length of its gradient.
fn distance(p: [f32; 3]) -> f32 {
    let from_sphere = p.iter().map(|x| x * x).sum::<f32>().sqrt() - 1.0;
    let [(sx, cx), (sy, cy), (sz, cz)] = p.map(|x| (x * FREQUENCY).sin_cos());
    let value = sx * cy + sy * cz + sz * cx;
    let gradient = [cx * cy - sz * sx, cy * cz - sx * sy, cz * cx - sy * sz];
    let steepness = gradient.iter().map(|x| x * x).sum::<f32>().sqrt().max(0.5);
    let from_walls = value.abs() / (steepness * FREQUENCY) - HALF_WALL;
    from_sphere.max(from_walls)
}
