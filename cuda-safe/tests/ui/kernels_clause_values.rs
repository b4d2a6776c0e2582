//! Constants and fields in clauses are integers, and fields are the structure's own.

use cuda_safe::{DeviceRepr, kernels};
use std::ops::Deref;

const SOURCE: &str = "";
const HALF: f32 = 0.5;
const YES: bool = true;
const WIDE: u128 = 1;
static mut CHANGING: u32 = 1;

#[derive(Clone, Copy)]
#[repr(C)]
struct Params {
    n: u32,
    scale: f32,
}

// SAFETY: never launched.
unsafe impl DeviceRepr for Params {}

/// Shows fields that are not those that a kernel is given.
#[derive(Clone, Copy)]
#[repr(C)]
struct Wrapped {
    bits: u32,
}

// SAFETY: never launched.
unsafe impl DeviceRepr for Wrapped {}

impl Deref for Wrapped {
    type Target = Params;
    fn deref(&self) -> &Params {
        &Params { n: 0, scale: 1.0 }
    }
}

kernels! {
    unsafe in SOURCE {
        safe fn float(n: u32) where n <= HALF;
        safe fn truth(n: u32) where n <= YES;
        safe fn wide(n: u32) where n <= WIDE;
        safe fn missing(n: u32) where n <= MISSING;
        safe fn changing(n: u32) where n <= CHANGING;
        safe fn block(out: &mut [f32], n: u32 = out.len()) over n by HALF;
        safe fn float_field(p: Params) where p.scale <= 1;
        safe fn missing_field(p: Params) where p.m <= 1;
        safe fn behind_a_deref(w: Wrapped, out: &mut [f32]) where w.n <= out.len();
        safe fn filled_behind_a_deref(w: Wrapped, n: u32 = w.n) over w.n;
    }
}

fn main() {}
