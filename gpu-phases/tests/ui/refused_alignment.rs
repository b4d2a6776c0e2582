//! Alignments that kernels cannot have.

use gpu_phases::{Device, kernel};

#[derive(Clone, Copy, Device)]
#[repr(C, align(16))]
struct Fine([f32; 4]);

#[derive(Clone, Copy, Device)]
#[repr(C, align(32))]
struct TooMuch([f32; 8]);

#[kernel]
fn copy(fine: &[Fine], x: &[TooMuch], out: &mut [f32]) {
    each(out, |i, out| *out = fine[i].0[0] + x[i].0[0]);
}

fn main() {}
