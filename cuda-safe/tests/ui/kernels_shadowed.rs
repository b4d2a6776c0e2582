//! A type with the name of a primitive does not change what a declaration means.

use cuda_safe::{DeviceBuffer, LaunchConfig, Result, Stream, kernels};

const SOURCE: &str = "";

#[allow(non_camel_case_types)]
type u64 = std::primitive::f32;
#[allow(non_camel_case_types)]
type f32 = std::primitive::u8;

kernels! {
    unsafe in SOURCE {
        safe fn up(n: u64, x: &mut [f32]) where n <= x.len();
        safe fn value(a: f32);
    }
}

fn a_float_for_an_integer(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<std::primitive::f32>) -> Result<()> {
    k.up(s, l, 16.9, x)
}

fn other_elements(k: &Kernels, s: &Stream, l: LaunchConfig, x: &mut DeviceBuffer<f32>) -> Result<()> {
    k.up(s, l, 16, x)
}

fn another_value(k: &Kernels, s: &Stream, l: LaunchConfig) -> Result<()> {
    k.value(s, l, 1_u8)
}

fn main() {}
