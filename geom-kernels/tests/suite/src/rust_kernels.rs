//! Kernels in Rust that query structures: the same bits on the CPU as on the device, and right ones.

use crate::Geometry;
use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::kernel;
use geom_kernels::hash_grid::{GridOptions, HashGrid};
use geom_kernels::kernel;
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases!["rust_kernels", device(grids_in_kernels)]
}

/// A sum over neighbours, their number, and what they are.
#[kernel]
fn look(
    grid: &kernel::HashGrid<f32>,
    x: &[[f32; 3]],
    radius: f32,
    sums: &mut [f32],
    counts: &mut [[u32; 3]],
) {
    assert!(x.len() == sums.len() && counts.len() == sums.len());
    each((sums, counts), |i, (sum, count)| {
        let mut total = 0.0;
        for near in grid.near(x[i], radius) {
            total += near.delta[0] * near.position[1] + (near.distance_squared - near.delta[2]);
        }
        *sum = total;
        let mut hash = 0u32;
        for other in grid.neighbors(x[i], radius) {
            hash = hash.wrapping_mul(31).wrapping_add(other);
        }
        *count = [grid.count(x[i], radius), hash, grid.any_neighbor(x[i], radius) as u32];
    });
}

#[kernel]
fn weigh(grid: &kernel::HashGrid<f64>, x: &[[f64; 3]], radius: f64, sums: &mut [f64]) {
    assert!(x.len() == sums.len());
    each(sums, |i, sum| {
        for near in grid.near_in_group(x[i], radius, 0) {
            *sum += near.distance_squared * near.delta[1];
        }
    });
}

fn grids_in_kernels(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(5));
    for n in [0, 1, 31, 32, 33, 700] {
        let mut one = || (rng.below(4096) as f32 - 2048.0) / 1024.0;
        let points: Vec<[f32; 3]> = (0..n).map(|_| [one(), one(), one()]).collect();
        let queries: Vec<[f32; 3]> = (0..n + 5).map(|_| [one(), one(), one()]).collect();
        let queries: Vec<_> = queries.into_iter().chain([[f32::NAN, 0.0, 0.0]]).collect();
        let (at, x) = (
            DeviceBuffer::from_slice(&stream, &points)?,
            DeviceBuffer::from_slice(&stream, &queries)?,
        );
        let options = GridOptions::default();
        let there = HashGrid::build(&stream, &device.geometry(), &at, 0.4, options)?;
        let here = kernel::HashGrid::build(&points, 0.4, options)?;
        for radius in [0.0f32, 0.3, 0.9] {
            let mut sums = vec![0.0; queries.len()];
            let mut counts = vec![[0; 3]; queries.len()];
            look::cpu(&here, &queries, radius, &mut sums, &mut counts)?;
            let mut other = DeviceBuffer::<f32>::zeroed(&stream, queries.len())?;
            let mut others = DeviceBuffer::<[u32; 3]>::zeroed(&stream, queries.len())?;
            look::launch(&stream, &there, &x, radius, &mut other, &mut others)?;
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            ensure_eq!(bits(&sums), bits(&other.to_vec(&stream)?));
            ensure_eq!(counts, others.to_vec(&stream)?);
            for (x, (count, sum)) in queries.iter().zip(counts.iter().zip(&sums)) {
                let delta = |p: &[f32; 3]| -> [f64; 3] {
                    std::array::from_fn(|axis| f64::from(x[axis]) - f64::from(p[axis]))
                };
                let (mut found, mut total) = (0, 0.0);
                for p in &points {
                    let d = delta(p);
                    let square = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
                    if square <= f64::from(radius) * f64::from(radius) {
                        found += 1;
                        total += d[0] * f64::from(p[1]) + square - d[2];
                    }
                }
                ensure_eq!((count[0], count[2]), (found, u32::from(found > 0)));
                ensure!((f64::from(*sum) - total).abs() < 1e-3, "{sum} instead of {total}");
            }
        }

        let wide =
            |x: &[[f32; 3]]| -> Vec<[f64; 3]> { x.iter().map(|x| x.map(f64::from)).collect() };
        let (points, queries) = (wide(&points), wide(&queries));
        let (at, x) = (
            DeviceBuffer::from_slice(&stream, &points)?,
            DeviceBuffer::from_slice(&stream, &queries)?,
        );
        let options = GridOptions::default();
        let there = HashGrid::build(&stream, &device.geometry(), &at, 0.4, options)?;
        let here = kernel::HashGrid::build(&points, 0.4, options)?;
        let mut sums = vec![0.0; queries.len()];
        weigh::cpu(&here, &queries, 0.6, &mut sums)?;
        let mut other = DeviceBuffer::<f64>::zeroed(&stream, queries.len())?;
        weigh::launch(&stream, &there, &x, 0.6, &mut other)?;
        let bits = |x: &[f64]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        ensure_eq!(bits(&sums), bits(&other.to_vec(&stream)?));
    }
    Ok(())
}
