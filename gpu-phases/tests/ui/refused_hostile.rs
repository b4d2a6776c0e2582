//! Names of the program that look like those of kernels: rustc's copy and the C++ would differ.
#![forbid(unsafe_code)]
#![allow(non_snake_case)]
use gpu_phases::{Device, Number, device, each, kernel};

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Pair(u32, u32);

fn Twice(x: u32) -> Pair {
    Pair(2 * x, 2 * x)
}

#[kernel]
fn calls_a_function_named_like_a_structure(out: &mut [u32]) {
    each(out, |i, out| *out = Twice(1).0);
}

mod ops {
    pub(super) trait Add {
        type Output;
        fn add(self, other: Self) -> Self::Output;
    }
}

impl std::ops::Add for Pair {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0, 0)
    }
}

#[device]
impl ops::Add for Pair {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(100, 100)
    }
}

#[derive(Clone, Copy, Device)]
#[repr(C)]
struct Other {
    x: i64,
}

impl Other {
    fn wrapping_add(_: i64, _: i64) -> i64 {
        99
    }
}

use Other as u64;

#[kernel]
fn calls_a_function_of_a_type_named_like_a_number(out: &mut [i64]) {
    each(out, |i, out| *out = u64::wrapping_add(1i64, 2i64));
}

trait Bits: Number {
    fn count_ones(self) -> u32;
    fn rotate_left(self, by: u32) -> u32;
}

#[kernel]
fn calls_methods_of_a_bound<T: Bits>(x: T, out: &mut [u32]) {
    each(out, |i, out| *out = x.count_ones());
}

#[kernel]
fn calls_other_methods_of_a_bound<T: Bits>(x: T, out: &mut [u32]) {
    each(out, |i, out| *out = x.rotate_left(1u32));
}

#[derive(Clone, Copy, PartialEq, Device)]
#[repr(u32)]
enum Side {
    Left = 5,
}

impl From<Side> for u32 {
    fn from(_: Side) -> u32 {
        77
    }
}

#[kernel]
fn calls_a_conversion_of_the_program(out: &mut [u32]) {
    each(out, |i, out| *out = u32::from(Side::Left));
}

#[device]
fn takes_a_block_by_another_reference<const N: usize>(block: &&mut gpu_phases::Block<N>) -> u32 {
    block.index() as u32
}

fn main() {}
