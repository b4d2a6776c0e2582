//! How many queries run in a second.

use cuda_safe::{DeviceBuffer, Result};
use example_common::vector::{add, sub};
use example_common::{random_points, time};
use geom_kernels::Aabb;
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
    let points = random_points(n, wider(scene.bounds));
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
    let mut any = DeviceBuffer::<u8>::zeroed(stream, n)?;

    if !scene.software {
        println!("random queries, million/s");
    }
    let say = |what, (ms, ()): (f32, ())| {
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

/// A box with a fifth of its size more on each side.
fn wider(Aabb { lower, upper }: Aabb<f32>) -> [[f32; 3]; 2] {
    let by: [f32; 3] = std::array::from_fn(|axis| 0.2 * (upper[axis] - lower[axis]));
    [sub(lower, by), add(upper, by)]
}
