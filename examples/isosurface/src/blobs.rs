//! Drops that flow together (G. Wyvill, C. McPheeters, B. Wyvill, "Data Structure for Soft Objects", 1986), as
//! a fog volume: only additions and multiplications, so the same bits everywhere.

use std::error::Error;

use cuda_safe::Stream;
use geom_kernels::GeometryKernels;
use geom_kernels::volume::nanovdb::{GridClass, Map};
use geom_kernels::volume::{DenseOptions, Volume, VolumeOptions};

/// Each is 1 in its middle, and 0 from its radius on.
struct Blob {
    middle: [f32; 3],
    radius: f32,
}

/// In the cube from -1 to 1, of `resolution` voxels to each side.
pub(crate) fn make(
    stream: &Stream,
    geometry: &GeometryKernels,
    resolution: u16,
) -> Result<Volume, Box<dyn Error>> {
    let voxel = 2.0 / f32::from(resolution);
    // The voxels' middles are spread evenly about 0.
    let first = 0.5 * voxel - 1.0;
    let options = VolumeOptions::new(0.0)
        .name("drops")
        .class(GridClass::FOG_VOLUME)
        .map(Map::uniform(f64::from(voxel), [f64::from(first); 3])?);
    let blobs = blobs();
    let dims = [usize::from(resolution); 3];
    Ok(Volume::from_fn(stream, geometry, dims, DenseOptions::new(options), |voxel_at| {
        density(&blobs, voxel_at.map(|i| first + i as f32 * voxel))
    })?)
}

fn density(blobs: &[Blob], at: [f32; 3]) -> f32 {
    let of_blob = |blob: &Blob| {
        let away = [0, 1, 2].map(|axis| (at[axis] - blob.middle[axis]) / blob.radius);
        let inside = (1.0 - away.iter().map(|x| x * x).sum::<f32>()).max(0.0);
        inside * inside * inside
    };
    blobs.iter().map(of_blob).sum()
}

/// Drops in a ball, the same in every run.
fn blobs() -> Vec<Blob> {
    let mut seed = 42u64;
    let mut next = || {
        // D. Knuth, MMIX.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    let all = std::iter::repeat_with(|| {
        let middle = [next(), next(), next()].map(|x| 0.64 * x);
        Blob { middle, radius: 0.26 + 0.07 * next() }
    });
    let in_ball = |blob: &Blob| blob.middle.iter().map(|x| x * x).sum::<f32>() < 0.64 * 0.64;
    all.filter(in_ball).take(40).collect()
}
