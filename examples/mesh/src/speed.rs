//! How many queries run in a second.

use cuda_safe::{DeviceBuffer, Event, Result, Stream};
use geom_kernels::Flag;
use geom_kernels::mesh::{ClosestPoint, PointQueries, Ray, RayHit, Sign};

use crate::Scene;

/// Queries and their results.
pub(crate) struct Answers {
    pub(crate) points: Vec<[f32; 3]>,
    pub(crate) distances: Vec<f32>,
    pub(crate) rays: Vec<Ray>,
    pub(crate) hits: Vec<RayHit>,
}

/// Asks for closest points and distances of random points, and lets rays run from one to another.
pub(crate) fn measure(scene: &Scene<'_>) -> Result<Answers> {
    let (stream, mesh) = (scene.stream, scene.mesh);
    let (n, runs) = if scene.software { (4_000, 1) } else { (4_000_000, 20) };
    let points = random_points(n, scene.bounds.lower, scene.bounds.upper);
    let rays: Vec<Ray> = (0..n)
        .map(|i| {
            let (from, to) = (points[i], points[n - 1 - i]);
            Ray::new(from, std::array::from_fn(|axis| to[axis] - from[axis]))
        })
        .collect();
    let device_points = DeviceBuffer::from_slice(stream, &points)?;
    let device_rays = DeviceBuffer::from_slice(stream, &rays)?;
    let queries = PointQueries::at(&device_points);
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(stream, n)?;
    let mut distances = DeviceBuffer::<f32>::zeroed(stream, n)?;
    let mut hits = DeviceBuffer::<RayHit>::zeroed(stream, n)?;
    let mut any = DeviceBuffer::<Flag>::zeroed(stream, n)?;

    if !scene.software {
        println!("random queries, million/s");
    }
    let say = |what, ms: f32| {
        if !scene.software {
            println!("{what:>18} {:10.3}", n as f32 / ms / 1e3);
        }
    };
    say(
        "closest points",
        time(stream, runs, || mesh.closest_points(stream, &queries, &mut closest))?,
    );
    let signed = || mesh.signed_distances(stream, &queries, Sign::Normal, &mut distances);
    say("signed distances", time(stream, runs, signed)?);
    say("nearest hits", time(stream, runs, || mesh.closest_hits(stream, &device_rays, &mut hits))?);
    say("any hits", time(stream, runs, || mesh.any_hits(stream, &device_rays, &mut any))?);
    let (distances, hits) = (distances.to_vec(stream)?, hits.to_vec(stream)?);
    Ok(Answers { points, distances, rays, hits })
}

/// Milliseconds of a run: the median of several, each between two events, after one to warm up.
pub(crate) fn time(
    stream: &Stream,
    runs: usize,
    mut run: impl FnMut() -> Result<()>,
) -> Result<f32> {
    let context = stream.context();
    let (start, end) = (Event::timing(&context)?, Event::timing(&context)?);
    if runs > 1 {
        run()?;
    }
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

/// Points in and around a box, the same in every run.
fn random_points(n: usize, lower: [f32; 3], upper: [f32; 3]) -> Vec<[f32; 3]> {
    let mut seed = 42u64;
    let mut next = || {
        // D. Knuth, MMIX.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 24) as f32
    };
    let mut place = |axis: usize| lower[axis] + (upper[axis] - lower[axis]) * (1.4 * next() - 0.2);
    (0..n).map(|_| [place(0), place(1), place(2)]).collect()
}
