//! Each program: on the CPU, on the device, and beside an oracle.

mod attention;
pub(crate) mod bude;
mod compact;
mod heat;
mod histogram;
mod integrate;
mod mandelbrot;
mod matmul;
mod nbody;
mod ntt;
mod products;
pub(crate) mod raytrace;
mod reduction;
mod rows;
mod saxpy;
mod scan;
mod sort;
mod spmv;
pub(crate) mod stencils;
pub(crate) mod stream;
mod transpose;

use std::time::Instant;

use cuda_safe::{Context, Stream};

use crate::Failure;
use crate::arguments::Arguments;

/// What a program is given.
pub(crate) struct Setting<'a> {
    stream: &'a Stream,
    software: bool,
    arguments: &'a Arguments,
}

impl Setting<'_> {
    /// Returns the size to use: `small` on a software device.
    fn size(&self, large: usize, small: usize) -> usize {
        let size = if self.software { small } else { large };
        ((size as f64 * self.arguments.scale) as usize).max(1)
    }
}

/// A program, which returns what it has done.
type Program = fn(&Setting<'_>) -> Result<String, Failure>;

/// Runs the programs that the arguments name.
pub(crate) fn all(context: &Context, arguments: &Arguments, software: bool) -> Result<(), Failure> {
    let stream = context.stream()?;
    let setting = Setting { stream: &stream, software, arguments };
    let programs: &[(&str, Program)] = &[
        ("saxpy", saxpy::run),
        ("stream", stream::run),
        ("integrate", integrate::run),
        ("nbody", nbody::run),
        ("spmv", spmv::run),
        ("matmul", matmul::run),
        ("mandelbrot", mandelbrot::run),
        ("raytrace", raytrace::run),
        ("reduction", reduction::run),
        ("scan", scan::run),
        ("histogram", histogram::run),
        ("transpose", transpose::run),
        ("tiled", products::tiles),
        ("gemm", products::patches),
        ("heat", heat::run),
        ("softmax", rows::softmaxes),
        ("layer_norm", rows::norms),
        ("sort", sort::run),
        ("compact", compact::run),
        ("attention", attention::run),
        ("ntt", ntt::run),
        ("bude", bude::run),
        ("conv3d", stencils::convolution),
        ("jacobi2d", stencils::jacobi),
    ];
    for (name, program) in programs {
        if arguments.wants(name) {
            let begin = Instant::now();
            let text = program(&setting).map_err(|error| format!("{name}: {error}"))?;
            println!("{name}: {text} ({:.2} s)", begin.elapsed().as_secs_f64());
        }
    }
    Ok(())
}

/// Fails unless the results of the CPU and of the device have the same bits.
fn same<T: bytemuck::NoUninit + std::fmt::Debug>(cpu: &[T], device: &[T]) -> Result<(), Failure> {
    if cpu.len() != device.len() {
        return Err(
            format!("{} elements on the device, {} on the CPU", device.len(), cpu.len()).into()
        );
    }
    let other = |(a, b): &(&T, &T)| bytemuck::bytes_of(*a) != bytemuck::bytes_of(*b);
    match cpu.iter().zip(device).enumerate().find(|(_, pair)| other(pair)) {
        None => Ok(()),
        Some((i, (a, b))) => {
            Err(format!("element {i} is {b:?} on the device and {a:?} on the CPU").into())
        }
    }
}

/// Fails unless the value is the oracle's up to `tolerance`.
fn close(what: &str, value: f64, oracle: f64, tolerance: f64) -> Result<(), Failure> {
    // A NaN is not close.
    if (value - oracle).abs() <= tolerance {
        return Ok(());
    }
    Err(format!("{what} is {value}, and {oracle} by the oracle").into())
}
