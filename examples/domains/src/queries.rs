//! Signed distances of points on one device, by all devices, checked and timed.

use std::error::Error;

use cuda_safe::vector::Float3;
use cuda_safe::{Context, DeviceBuffer, Event};
use domains::ShardedMesh;
use geom_kernels::mesh::shapes::{self, KNOT_ALONG, KNOT_AROUND};

/// Arguments of `domains mesh`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many devices [default: all]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) devices: Option<u32>,
    /// How many points [default: 16000000, or 4000 in software]
    #[arg(long)]
    points: Option<u32>,
    /// How many points travel at once: more are sorted together, and so nearer to each other
    #[arg(long, default_value_t = 1 << 23)]
    chunk: u32,
}

/// Times the queries on 1, 2, … devices, and compares the results of several with those of one.
pub(crate) fn run(
    arguments: &Arguments,
    contexts: &[Context],
    software: bool,
) -> Result<(), Box<dyn Error>> {
    let n = arguments.points.unwrap_or(if software { 4_000 } else { 16_000_000 }) as usize;
    let mesh =
        if software { shapes::knot(128, 16) } else { shapes::knot(KNOT_ALONG, KNOT_AROUND) }?;
    let bounds = mesh.bounds().ok_or("a mesh without points")?;
    println!("{} faces, {n} points in its box, on device 0", mesh.faces.len());
    let points = random_points(n, bounds.lower, bounds.upper);
    let mut wanted: Option<(Vec<f32>, f32)> = None;
    for devices in 1..=contexts.len() {
        let mut sharded = ShardedMesh::new(&contexts[..devices], &mesh, arguments.chunk as usize)?;
        let stream = sharded.stream().clone();
        let points = DeviceBuffer::from_slice(&stream, &points)?;
        let mut distances = DeviceBuffer::zeroed(&stream, n)?;
        let (begin, end) = (Event::timing(&stream.context())?, Event::timing(&stream.context())?);
        let mut times = Vec::new();
        // The first one loads kernels.
        for _ in 0..if software { 2 } else { 11 } {
            stream.context().synchronize()?;
            begin.record(&stream)?;
            sharded.signed_distances(&points, &mut distances)?;
            end.record(&stream)?;
            times.push(begin.elapsed_ms(&end)?);
        }
        let times = &mut times[1..];
        times.sort_by(f32::total_cmp);
        let time = times[times.len() / 2];
        let found = distances.to_vec(&stream)?;
        let (expected, one) = wanted.get_or_insert_with(|| (found.clone(), time));
        let differ = |(a, b): (&f32, &f32)| a.to_bits() != b.to_bits();
        if let Some(i) = found.iter().zip(expected.iter()).position(differ) {
            return Err(format!(
                "distance {i} is {} on {devices} devices, not {}",
                found[i], expected[i]
            )
            .into());
        }
        let speed = *one / time;
        println!(
            "{devices} devices: {time:9.3} ms, {speed:5.2} times as fast as one; the same distances"
        );
    }
    Ok(())
}

/// Points in and around a box, the same in every run.
fn random_points(n: usize, lower: [f32; 3], upper: [f32; 3]) -> Vec<Float3> {
    let options = domains::Options::of(n);
    let place = |axis: usize, x: f32| lower[axis] + (upper[axis] - lower[axis]) * (1.4 * x - 0.2);
    let all = options.random_particles(n, 7).into_iter();
    all.map(|particle| {
        Float3::from(std::array::from_fn(|axis| place(axis, particle.position[axis])))
    })
    .collect()
}
