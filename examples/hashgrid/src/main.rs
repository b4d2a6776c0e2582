//! For each of many points the sum of the positions of its neighbours: kernels in Rust over a hash grid, on a GPU if there is
//! one, else on all cores, checked against brute force, and timed.

use std::error::Error;
use std::time::Instant;

use clap::Parser;
use cuda_safe::kernel::vector::{Vec3, Vec4};
use cuda_safe::kernel::{device, kernel};
use cuda_safe::{Context, DeviceBuffer};
use example_common::{random_points, time};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{self, GridOptions};
use geom_kernels::structures::HashGrid;

mod check;

/// Sums the positions of the neighbours of points in the unit cube.
#[derive(Parser)]
struct Arguments {
    /// How many points; may be given several times [default: 100000, 1000000 and 8000000]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    points: Vec<u32>,
}

/// Returns the sum of the neighbours of a point, itself included, and their number as the fourth coordinate.
#[device]
fn sum_around(grid: &HashGrid<f32>, x: [f32; 3], radius: f32) -> Vec4 {
    let mut sum = Vec4::ZERO;
    for near in grid.near(x, radius) {
        sum += Vec3::from_array(near.position).extend(1.0);
    }
    sum
}

/// A thread for each point, in the order of the caller's array.
#[kernel]
fn sum_as_given(grid: &HashGrid<f32>, radius: f32, points: &[[f32; 3]], sums: &mut [Vec4]) {
    assert!(points.len() == sums.len());
    each(sums, |i, sum| *sum = sum_around(grid, points[i], radius));
}

/// A thread for each point, in the order of the grid: neighbouring threads read the same cells. Sum i is that of point
/// `indices[i]`.
#[kernel]
fn sum_by_cells(grid: &HashGrid<f32>, radius: f32, sums: &mut [Vec4], indices: &mut [u32]) {
    each((sums, indices), |slot, (sum, index)| {
        if let Some(point) = grid.point_at(slot as u32) {
            *sum = sum_around(grid, point.position, radius);
            *index = point.index;
        }
    });
}

fn main() -> Result<(), Box<dyn Error>> {
    let Arguments { mut points } = Arguments::parse();
    let Ok(context) = Context::new(0) else {
        println!("the CPU (this machine has no CUDA device)");
        let points = if points.is_empty() { vec![100_000] } else { points };
        return points.into_iter().try_for_each(run_on_cpu);
    };
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
    let (host, radius) = input(n);
    let points = DeviceBuffer::from_slice(&stream, &host)?;
    let mut sums = DeviceBuffer::<Vec4>::zeroed(&stream, n)?;
    let mut indices = DeviceBuffer::<u32>::zeroed(&stream, n)?;

    let cube = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    let geometry = GeometryKernels::new(context);
    let mut grid = hash_grid::HashGrid::build(&stream, &geometry, &points, radius, cube)?;
    let (build, ()) = time(&stream, runs, || grid.rebuild(&stream, &points, radius))?;

    let (as_given, ()) =
        time(&stream, runs, || sum_as_given::launch(&stream, &grid, radius, &points, &mut sums))?;
    let given_sums = sums.to_vec(&stream)?;

    sums.fill(&stream, Vec4::ZERO)?;
    let (by_cells, ()) = time(&stream, runs, || {
        sum_by_cells::launch(&stream, &grid, radius, &mut sums, &mut indices)
    })?;
    let (neighbours, checked) =
        compare(&host, radius, &given_sums, &indices.to_vec(&stream)?, &sums.to_vec(&stream)?)?;
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

/// Does the same on the CPU.
fn run_on_cpu(count: u32) -> Result<(), Box<dyn Error>> {
    let n = count as usize;
    let (points, radius) = input(n);
    let cube = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    let start = Instant::now();
    let grid = HashGrid::build(&points, radius, cube)?;
    let built = start.elapsed();
    let (mut given_sums, mut sums) = (vec![Vec4::ZERO; n], vec![Vec4::ZERO; n]);
    let mut indices = vec![0; n];
    sum_as_given::cpu(&grid, radius, &points, &mut given_sums)?;
    let start = Instant::now();
    sum_by_cells::cpu(&grid, radius, &mut sums, &mut indices)?;
    let summed = start.elapsed();
    let (neighbours, checked) = compare(&points, radius, &given_sums, &indices, &sums)?;
    let [built, summed] = [built, summed].map(|took| took.as_secs_f64() * 1e3);
    println!(
        "{n} points with {neighbours:.2} neighbours each: built in {built:.1} ms, summed in {summed:.1} ms; {checked}"
    );
    Ok(())
}

/// Returns random points, and a radius with 32 points in the sphere around a point, but for those at the faces of the cube.
fn input(n: usize) -> (Vec<[f32; 3]>, f32) {
    let radius = (32.0 / n as f32 * 0.75 / std::f32::consts::PI).cbrt();
    (random_points(n, [[0.0; 3], [1.0; 3]]), radius)
}

/// Compares the sums of both kernels with each other and with brute force. Sum i by cells is that of point `indices[i]`.
/// Returns the mean number of neighbours, and what was checked.
fn compare(
    points: &[[f32; 3]],
    radius: f32,
    as_given: &[Vec4],
    indices: &[u32],
    by_cells: &[Vec4],
) -> Result<(f64, String), Box<dyn Error>> {
    let mut sums = vec![Vec4::splat(f32::NAN); points.len()];
    indices.iter().zip(by_cells).for_each(|(index, sum)| sums[*index as usize] = *sum);
    let checked = check::check(points, radius, &sums)?;
    // Neighbours come in the same order, so it is not just about the same.
    if let Some(i) = (0..sums.len()).find(|&i| sums[i] != as_given[i]) {
        return Err(format!("sum {i} is {:?} or {:?}", sums[i], as_given[i]).into());
    }
    let neighbours = sums.iter().map(|sum| f64::from(sum.w)).sum::<f64>();
    Ok((neighbours / sums.len() as f64, checked))
}
