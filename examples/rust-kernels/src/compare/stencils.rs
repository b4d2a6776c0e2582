//! Stencils beside their twins.

use std::cell::RefCell;

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{DeviceBuffer, Result, kernels};
use rust_kernels::stencils::{conv3d, jacobi2d};
use rust_kernels_checked::stencils as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::data::Random;
use crate::run::stencils::{STEPS, weights};

const SOURCE: &str = include_str!("stencils.cu");

kernels! {
    struct Twin;
    // SAFETY: threads compare their indices with the sizes, and read elements around them that are inside. All
    // lengths fit in 32 bits.
    unsafe in SOURCE {
        safe fn conv3d(width: u32, height: u32, depth: u32, weights: [f32; 27], x: &[f32], out: &mut [f32])
            over [width, height, depth] by [32, 8, 1]
            where width * height * depth == out.len(), x.len() == out.len(), out.len() < 2147483648;
        safe fn jacobi2d(width: u32, height: u32, x: &[f32], out: &mut [f32]) over [width, height] by [32, 8]
            where width * height == out.len(), x.len() == out.len(), out.len() < 2147483648;
    }
}

/// The twins by NVRTC's defaults, and without contraction.
fn twins(bench: &Bench<'_>) -> Result<[Twin; 2]> {
    let context = bench.stream.context();
    let program = Program::new(SOURCE).options(Options::new().fmad(false));
    // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
    Ok([Twin::load(&context)?, unsafe { Twin::load_from(&context, program) }?])
}

pub(super) fn convolution(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let [width, height, depth] = [bench.size(512, 20), bench.size(512, 16), bench.size(256, 10)];
    let [w, h, d] = [width, height, depth].map(|size| size as u32);
    let (n, weights) = (width * height * depth, weights());
    let x = DeviceBuffer::from_slice(on, &Random::floats(1, n))?;
    let [twin, twin_plain] = twins(bench)?;
    let row = Case::new(bench, "conv3d", n)
        .uncontracted()
        .rust(Variant::Rust, conv3d::kernel(), |out| {
            conv3d::launch(on, width, height, depth, weights, &x, out)
        })?
        .rust(Variant::Checked, checked::conv3d::kernel(), |out| {
            checked::conv3d::launch(on, width, height, depth, weights, &x, out)
        })?
        .other(Variant::Twin, twin.conv3d_kernel(), |out| {
            twin.conv3d(on, w, h, d, weights, &x, out)
        })?
        .other(Variant::TwinPlain, twin_plain.conv3d_kernel(), |out| {
            twin_plain.conv3d(on, w, h, d, weights, &x, out)
        })?
        .copy(&x)
        .measure()?;
    Ok(vec![row])
}

/// A step from one buffer to another.
type Step<'a> = &'a dyn Fn(&DeviceBuffer<f32>, &mut DeviceBuffer<f32>) -> Result<()>;

/// Measures a copy of the start, and the steps.
pub(super) fn jacobi(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (width, height) = (bench.size(4000, 60), bench.size(4000, 40));
    let (w, h) = (width as u32, height as u32);
    let x = DeviceBuffer::from_slice(on, &Random::floats(1, width * height))?;
    let other = RefCell::new(DeviceBuffer::<f32>::zeroed(on, width * height)?);
    let [twin, twin_plain] = twins(bench)?;
    let steps = |out: &mut DeviceBuffer<f32>, step: Step<'_>| {
        let other = &mut *other.borrow_mut();
        out.copy_from(on, &x)?;
        for _ in 0..STEPS / 2 {
            step(out, other)?;
            step(other, out)?;
        }
        Ok(())
    };
    let row = Case::new(bench, "jacobi2d", width * height)
        .uncontracted()
        .rust(Variant::Rust, jacobi2d::kernel(), |out| {
            steps(out, &|x, out| jacobi2d::launch(on, width, height, x, out))
        })?
        .rust(Variant::Checked, checked::jacobi2d::kernel(), |out| {
            steps(out, &|x, out| checked::jacobi2d::launch(on, width, height, x, out))
        })?
        .other(Variant::Twin, twin.jacobi2d_kernel(), |out| {
            steps(out, &|x, out| twin.jacobi2d(on, w, h, x, out))
        })?
        .other(Variant::TwinPlain, twin_plain.jacobi2d_kernel(), |out| {
            steps(out, &|x, out| twin_plain.jacobi2d(on, w, h, x, out))
        })?
        .measure()?;
    Ok(vec![row])
}
