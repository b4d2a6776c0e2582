//! The kernels on the CPU beside loops by hand on rayon.

use std::time::Instant;

use cuda_safe::kernel::vector::Vec3;
use rayon::prelude::*;
use rust_kernels::{mandelbrot, nbody, plain, saxpy, spmv};
use serde_json::{Value, json};

use super::timing::{interleave, median};
use super::{Bench, blocks_cpu};
use crate::Failure;
use crate::data::{Random, Sparse, bodies};

type Run<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// Times the kernel, the kernel without contraction, and the loop by hand, whose result is that of the latter.
pub(super) fn measure<T: bytemuck::NoUninit + Default>(
    bench: &Bench<'_>,
    name: &str,
    len: usize,
    contracted: impl Fn(&mut [T]) -> Result<(), Failure>,
    plain: impl Fn(&mut [T]) -> Result<(), Failure>,
    by_hand: impl Fn(&mut [T]),
) -> Result<Value, Failure> {
    let mut outs = [vec![T::default(); len], vec![T::default(); len], vec![T::default(); len]];
    let samples = {
        let [first, second, third] = &mut outs;
        let mut runs: [Run<'_>; 3] = [
            Box::new(|| contracted(first)),
            Box::new(|| plain(second)),
            Box::new(|| {
                by_hand(third);
                Ok(())
            }),
        ];
        let mut timed: Vec<_> = Vec::new();
        for run in &mut runs {
            run()?;
            timed.push(move || -> Result<f64, Failure> {
                let begin = Instant::now();
                run()?;
                Ok(begin.elapsed().as_secs_f64() * 1e6)
            });
        }
        interleave(bench.rounds.clamp(5, 21), &mut timed)?
    };
    let equal = bytemuck::cast_slice::<T, u8>(&outs[1]) == bytemuck::cast_slice::<T, u8>(&outs[2]);
    let us = [median(&samples[0]), median(&samples[1]), median(&samples[2])];
    println!(
        "{name:<11} {len:>11} | {:>9.0} {:>9.0} {:>9.0} | {:>6.3} {:>6.3} | {}",
        us[0],
        us[1],
        us[2],
        us[0] / us[2],
        us[1] / us[2],
        if equal { "equal" } else { "different" }
    );
    if !equal {
        return Err(format!("{name} on the CPU differs from the loop by hand").into());
    }
    Ok(json!({
        "work": "cpu",
        "kernel": name,
        "elements": len,
        "threads": rayon::current_num_threads(),
        "rust_us": us[0],
        "plain_us": us[1],
        "by_hand_us": us[2],
        "rust_over_by_hand": us[0] / us[2],
        "plain_over_by_hand": us[1] / us[2],
        "equal": equal,
    }))
}

/// Measures all.
pub(crate) fn run(bench: &Bench<'_>) -> Result<Vec<Value>, Failure> {
    let scaled = |n: usize| ((n as f64 * bench.scale) as usize).max(1);
    println!(
        "\non the CPU, {} threads, beside loops by hand on rayon:",
        rayon::current_num_threads()
    );
    println!(
        "{:<11} {:>11} | {:>9} {:>9} {:>9} | {:>6} {:>6} | results",
        "kernel", "elements", "rust µs", "plain µs", "hand µs", "rust", "plain"
    );
    Ok(vec![
        saxpys(bench, scaled(1 << 24))?,
        picture(bench, scaled(768))?,
        all_pairs(bench, scaled(6000))?,
        sparse(bench, scaled(1 << 17))?,
        blocks_cpu::sum(bench, scaled(1 << 12))?,
        blocks_cpu::counts(bench, scaled(1 << 23))?,
        blocks_cpu::plate(bench, scaled(3000))?,
    ])
}

fn saxpys(bench: &Bench<'_>, n: usize) -> Result<Value, Failure> {
    let (a, x, y) = (2.5, Random::floats(1, n), Random::floats(2, n));
    measure(
        bench,
        "saxpy",
        n,
        |out| Ok(saxpy::saxpy::cpu(a, &x, &y, out)?),
        |out| Ok(plain::saxpy::cpu(a, &x, &y, out)?),
        |out| {
            let parts = x.par_chunks(1 << 14).zip(y.par_chunks(1 << 14));
            out.par_chunks_mut(1 << 14).zip(parts).for_each(|(out, (x, y))| {
                out.iter_mut().zip(x.iter().zip(y)).for_each(|(out, (x, y))| *out = a * x + y);
            });
        },
    )
}

fn picture(bench: &Bench<'_>, width: usize) -> Result<Value, Failure> {
    let (height, limit) = (width / 2 + 1, 256);
    measure(
        bench,
        "mandelbrot",
        width * height,
        |out| Ok(mandelbrot::mandelbrot::cpu(width, height, limit, out)?),
        |out| Ok(plain::mandelbrot::cpu(width, height, limit, out)?),
        |out| {
            let (dx, dy) = (3.5 / width as f32, 2.0 / height as f32);
            out.par_chunks_mut(width).enumerate().for_each(|(y, row)| {
                for (x, count) in row.iter_mut().enumerate() {
                    let (a, b) = (x as f32 * dx - 2.5, y as f32 * dy - 1.0);
                    let (mut re, mut im, mut n) = (0.0, 0.0, 0);
                    while n < limit && re * re + im * im <= 4.0 {
                        (re, im) = (re * re - im * im + a, 2.0 * re * im + b);
                        n += 1;
                    }
                    *count = n;
                }
            });
        },
    )
}

fn all_pairs(bench: &Bench<'_>, n: usize) -> Result<Value, Failure> {
    let positions = bodies(n);
    measure(
        bench,
        "nbody",
        n,
        |out| Ok(nbody::nbody::cpu(&positions, out)?),
        |out| Ok(plain::nbody::cpu(&positions, out)?),
        |out| {
            out.par_iter_mut().zip(&positions).for_each(|(force, p)| {
                let mut sum = Vec3::ZERO;
                for q in &positions {
                    let (x, y, z) = (q.x - p.x, q.y - p.y, q.z - p.z);
                    let r = 1.0 / (x * x + y * y + z * z + nbody::SOFT).sqrt();
                    let r = r * r * r;
                    sum = Vec3 { x: sum.x + x * r, y: sum.y + y * r, z: sum.z + z * r };
                }
                *force = sum;
            });
        },
    )
}

fn sparse(bench: &Bench<'_>, rows: usize) -> Result<Value, Failure> {
    let Sparse { offsets, columns, values, x } = Sparse::new(rows);
    measure(
        bench,
        "spmv",
        rows,
        |out| Ok(spmv::spmv::cpu(&offsets, &columns, &values, &x, out)?),
        |out| Ok(plain::spmv::cpu(&offsets, &columns, &values, &x, out)?),
        |out| {
            out.par_iter_mut().zip(offsets.par_windows(2)).for_each(|(out, ends)| {
                let row = ends[0] as usize..ends[1] as usize;
                let elements = values[row.clone()].iter().zip(&columns[row]);
                *out = elements.fold(0.0, |sum, (value, column)| sum + value * x[*column as usize]);
            });
        },
    )
}
