//! For each of many points the sum of the positions of its neighbours: a user's kernel over a
//! hash grid, checked against brute force, and timed.

use std::error::Error;

use clap::Parser;
use cuda_safe::vector::{Float3, Float4};
use cuda_safe::{Context, DeviceBuffer, Event, LaunchConfig, Stream, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};

mod check;

/// Sums the positions of the neighbours of points in the unit cube.
#[derive(Parser)]
struct Arguments {
    /// How many points; may be given several times [default: 100000, 1000000 and 8000000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    points: Vec<u32>,
}

kernels! {
    struct Kernels;
    // SAFETY: a thread reads the grid, and its own point if i < n; it writes the sum of its own point,
    // whose index is below n. No two slots of a grid hold the same point.
    unsafe in geom_kernels::program(include_str!("sum.cu")).name("sum.cu") {
        safe fn sum_as_given(
            grid: GridView<'_, f32>, radius: f32, points: &[Float3], sums: &mut [Float4], n: u32
        ) where n <= points.len(), n <= sums.len();
        safe fn sum_by_cells(grid: GridView<'_, f32>, radius: f32, sums: &mut [Float4], n: u32)
            where n <= sums.len();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { mut points } = Arguments::parse();
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let device = context.device().name()?;
    println!("device: {device}");
    let software = device.contains("software");
    if points.is_empty() {
        points = if software { vec![20_000] } else { vec![100_000, 1_000_000, 8_000_000] };
    }
    if !software {
        println!(
            "{:>9} {:>11} {:>9} {:>17} {:>18} {:>17}",
            "points",
            "neighbours",
            "build ms",
            "sum by cells ms",
            "sum as given ms",
            "million points/s"
        );
    }
    for n in points {
        run(&context, n, software)?;
    }
    Ok(())
}

/// Builds, sums, checks and prints a line of the table; of a software device, whose times say nothing, a sentence.
fn run(context: &Context, count: u32, software: bool) -> Result<(), Box<dyn Error>> {
    let (stream, n) = (context.stream()?, count as usize);
    let runs = if software { 1 } else { 20 };
    let kernels = Kernels::load(context)?;
    // 32 points in the sphere around a point, but for those at the faces of the cube.
    let radius = (32.0 / n as f32 * 0.75 / std::f32::consts::PI).cbrt();
    let host = random_points(n);
    let points = DeviceBuffer::from_slice(&stream, &host)?;
    let mut sums = DeviceBuffer::<Float4>::zeroed(&stream, n)?;
    let launch = LaunchConfig::cover(n, 256);

    let cube = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    let geometry = GeometryKernels::new(context);
    let mut grid = HashGrid::build(&stream, &geometry, &points, radius, cube)?;
    let build = time(&stream, runs, || grid.rebuild(&stream, &points, radius))?;

    let as_given = time(&stream, runs, || {
        kernels.sum_as_given(&stream, launch, grid.view(), radius, &points, &mut sums, count)
    })?;
    let given_sums = sums.to_vec(&stream)?;

    sums.fill(&stream, Float4::default())?;
    let by_cells = time(&stream, runs, || {
        kernels.sum_by_cells(&stream, launch, grid.view(), radius, &mut sums, count)
    })?;
    let sums = sums.to_vec(&stream)?;

    let checked = check::check(&host, radius, &sums)?;
    // Neighbours come in the same order, so it is not just about the same.
    if let Some(i) = (0..n).find(|&i| sums[i] != given_sums[i]) {
        return Err(format!("sum {i} is {:?} or {:?}", sums[i], given_sums[i]).into());
    }
    let neighbours = sums.iter().map(|sum| f64::from(sum.w)).sum::<f64>() / n as f64;
    if software {
        println!("{n} points with {neighbours:.2} neighbours each; {checked}");
        return Ok(());
    }
    let speed = n as f32 / (build + by_cells) / 1e3;
    println!(
        "{n:>9} {neighbours:>11.2} {build:>9.3} {by_cells:>17.3} {as_given:>18.3} {speed:>17.1}   \
         {checked}"
    );
    Ok(())
}

/// Milliseconds of a run: the median of several, each between two events, after one to warm up.
fn time(
    stream: &Stream,
    runs: usize,
    mut run: impl FnMut() -> cuda_safe::Result<()>,
) -> cuda_safe::Result<f32> {
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

/// Points in the unit cube, the same in every run.
fn random_points(n: usize) -> Vec<Float3> {
    // Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
    let mut state = 0u64;
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 40) as f32 / (1u32 << 24) as f32
    };
    (0..n).map(|_| Float3::new(next(), next(), next())).collect()
}
