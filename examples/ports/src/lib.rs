//! CUDA C++ programs, ported. Each folder has a `.cu` file, kernels and host, as nvcc compiles it, and the host again in
//! Rust, which embeds the same file. The kernels are the same text in both; the file's host half stands behind
//! `#ifndef __CUDACC_RTC__`.
//!
//! Whatever a host computes is in the result of its `run`; the C++ program prints a digest of it.

pub mod async_streams;
pub mod black_scholes;
pub mod conjugate_gradient;
#[cfg(test)]
mod declarations;
pub mod fdtd3d;
pub mod functors;
pub mod matrix_mul;
pub mod multi_file;
pub mod nbody;
pub mod reduction;
pub mod simple_graphs;

use std::error::Error;

use cuda_safe::Context;

/// What a port computes.
pub type Output = Result<Vec<f32>, Box<dyn Error>>;

/// A port's name, which is that of its folder, and its host.
pub type Port = (&'static str, fn(&Context) -> Output);

/// All ports.
pub const PORTS: [Port; 10] = [
    ("async_streams", async_streams::run),
    ("black_scholes", black_scholes::run),
    ("conjugate_gradient", conjugate_gradient::run),
    ("fdtd3d", fdtd3d::run),
    ("functors", functors::run),
    ("matrix_mul", matrix_mul::run),
    ("multi_file", multi_file::run),
    ("nbody", nbody::run),
    ("reduction", reduction::run),
    ("simple_graphs", simple_graphs::run),
];

/// Describes values as the C++ programs do: how many they are, the first, the middle and the last one.
#[must_use]
pub fn digest(values: &[f32]) -> String {
    let at = |i: usize| values.get(i).map_or_else(|| "-".to_owned(), |value| scientific(*value));
    let n = values.len();
    format!("{n} values: {} {} {}", at(0), at(n / 2), at(n.saturating_sub(1)))
}

/// As C's `%.4e`.
fn scientific(value: f32) -> String {
    let text = format!("{value:.4e}");
    let Some((digits, exponent)) = text.split_once('e') else { return text };
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |rest| ('-', rest));
    format!("{digits}e{sign}{exponent:0>2}")
}

/// Compiles the first program of the repository's README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;

/// Compiles the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/porting.md")]
struct PortingDoctests;

/// Runs the example of the page on broken promises.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/the-promise.md")]
struct PromiseDoctests;

/// Compiles the examples of the page for users of NVIDIA Warp.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/from-warp.md")]
struct FromWarpDoctests;

/// Compiles the examples of the page on common tasks.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/common-tasks.md")]
struct CommonTasksDoctests;

/// Compiles the example of the page on libraries.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/libraries.md")]
struct LibrariesDoctests;

/// Compiles the example in the README of `cuda-macros`. A dev-dependency of that crate on `cuda-safe` would have cargo build
/// `cuda-safe` twice, as what tests a procedural macro is built for the host.
#[cfg(doctest)]
#[doc = include_str!("../../../cuda-macros/README.md")]
struct MacrosDoctests;
