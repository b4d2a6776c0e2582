//! How many positions are sampled in a second.

use cuda_safe::{DeviceBuffer, Event, Result, Stream};
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
    let (stream, [lower, upper]) = (scene.stream, scene.bounds);
    let n = 8_000_000;
    let points = DeviceBuffer::from_slice(stream, &random_points(n, lower, upper))?;
    let mut values = DeviceBuffer::<T>::zeroed(stream, n)?;
    let samples = Samples::world(&points);
    let ms = time(stream, 20, || {
        scene.volume.sample(stream, &samples, Interpolation::Trilinear, &mut values)
    })?;
    println!("{:.3} million random trilinear samples/s", n as f32 / ms / 1e3);
    Ok(())
}

/// Milliseconds of a run: the median of several, each between two events, after one to warm up.
pub(crate) fn time(
    stream: &Stream,
    runs: usize,
    mut run: impl FnMut() -> Result<()>,
) -> Result<f32> {
    let context = stream.context();
    let (start, end) = (Event::timing(&context)?, Event::timing(&context)?);
    run()?;
    let mut times = Vec::new();
    for _ in 0..runs {
        start.record(stream)?;
        run()?;
        end.record(stream)?;
        times.push(start.elapsed_ms(&end)?);
    }
    times.sort_by(f32::total_cmp);
    Ok(times[runs / 2])
}

/// Points in a box, the same in every run.
fn random_points(n: usize, lower: [f32; 3], upper: [f32; 3]) -> Vec<[f32; 3]> {
    let mut seed = 42u64;
    let mut next = || {
        // D. Knuth, MMIX.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 24) as f32
    };
    let mut place = |axis: usize| lower[axis] + (upper[axis] - lower[axis]) * next();
    (0..n).map(|_| [place(0), place(1), place(2)]).collect()
}
