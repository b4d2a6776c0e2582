//! How many positions are sampled in a second.

use cuda_safe::{DeviceBuffer, Result};
use example_common::{random_points, time};
use geom_kernels::volume::nanovdb::ValueType;
use geom_kernels::volume::{Interpolated, Interpolation, Samples};

use crate::Scene;

/// Samples random points of the box.
pub(crate) fn measure(scene: &Scene<'_>) -> Result<()> {
    match scene.volume.value_type() {
        ValueType::F64 => trilinear::<f64>(scene),
        _ => trilinear::<f32>(scene),
    }
}

fn trilinear<T: Interpolated>(scene: &Scene<'_>) -> Result<()> {
    let stream = scene.stream;
    let n = 8_000_000;
    let points = DeviceBuffer::from_slice(stream, &random_points(n, scene.bounds))?;
    let mut values = DeviceBuffer::<T>::zeroed(stream, n)?;
    let samples = Samples::world(&points);
    let (ms, ()) = time(stream, 20, || {
        scene.volume.sample(stream, &samples, Interpolation::Trilinear, &mut values)
    })?;
    println!("{:.3} million random trilinear samples/s", n as f32 / ms / 1e3);
    Ok(())
}
