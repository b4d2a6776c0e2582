//! Kernels over blocks on the CPU beside loops by hand on rayon.

use cuda_safe::kernel::Atomic;
use rayon::prelude::*;
use rust_kernels::{heat, histogram, reduction};
use serde_json::Value;

use super::Bench;
use super::cpu::measure;
use crate::Failure;
use crate::data::Random;

/// Whole numbers: their sums have the same bits in any order.
pub(super) fn sum(bench: &Bench<'_>, chunks: usize) -> Result<Value, Failure> {
    let mut random = Random::new(1);
    let x: Vec<f32> = (0..chunks * reduction::CHUNK).map(|_| random.below(8) as f32).collect();
    let kernel = |out: &mut [f32]| Ok(reduction::reduction::cpu(&x, out)?);
    measure(bench, "reduction", chunks, kernel, kernel, |out| {
        out.par_iter_mut().zip(x.par_chunks(reduction::CHUNK)).for_each(|(sum, chunk)| {
            let mut sums = [0.0f32; 16];
            for sixteen in chunk.as_chunks::<16>().0 {
                sums.iter_mut().zip(sixteen).for_each(|(sum, x)| *sum += x);
            }
            *sum = sums.iter().sum();
        });
    })
}

pub(super) fn counts(bench: &Bench<'_>, n: usize) -> Result<Value, Failure> {
    let mut random = Random::new(2);
    let data: Vec<u32> = (0..n).map(|_| random.bits() as u32).collect();
    let kernel = |out: &mut [u32]| {
        out.fill(0);
        Ok(histogram::histogram::cpu(&data, Atomic::from_mut(out))?)
    };
    measure(bench, "histogram", 256, kernel, kernel, |out| {
        let counts = data.par_chunks(histogram::CHUNK).map(|chunk| {
            let mut counts = [0u32; 256];
            chunk.iter().for_each(|word| counts[(word & 255) as usize] += 1);
            counts
        });
        let add = |mut a: [u32; 256], b: [u32; 256]| {
            a.iter_mut().zip(b).for_each(|(a, b)| *a += b);
            a
        };
        out.copy_from_slice(&counts.reduce(|| [0; 256], add));
    })
}

pub(super) fn plate(bench: &Bench<'_>, side: usize) -> Result<Value, Failure> {
    let (rate, now) = (0.2, Random::floats(3, side * side));
    let kernel = |out: &mut [f32]| Ok(heat::heat::cpu(rate, side, side, &now, out)?);
    measure(bench, "heat", side * side, kernel, kernel, |out| {
        let nothing = vec![0.0; side];
        out.par_chunks_mut(side).enumerate().for_each(|(y, out)| {
            let row = |y: usize| now.get(y * side..(y + 1) * side).unwrap_or(&nothing);
            let (above, here, below) =
                (y.checked_sub(1).map_or(&nothing[..], row), row(y), row(y + 1));
            let step = |x: usize, left: f32, right: f32| {
                let around = above[x] + below[x] + left + right;
                here[x] + rate * (around - 4.0 * here[x])
            };
            out[0] = step(0, 0.0, here.get(1).copied().unwrap_or(0.0));
            for x in 1..side - 1 {
                out[x] = step(x, here[x - 1], here[x + 1]);
            }
            if side > 1 {
                out[side - 1] = step(side - 1, here[side - 2], 0.0);
            }
        });
    })
}
