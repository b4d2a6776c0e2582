//! The ray tracer beside its twin.

use cuda_safe::nvrtc::{Options, Program};
use cuda_safe::{DeviceBuffer, DeviceRepr, kernels};
use rust_kernels::raytrace::{Camera, Sphere, render};
use rust_kernels_checked::raytrace as checked;

use super::cases::Rows;
use super::{Bench, Case, Variant};
use crate::run::raytrace::{DEPTH, scene};

const SOURCE: &str = include_str!("raytrace.cu");

/// The camera, for the twin.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
struct Eye(Camera);

// SAFETY: the fields are those of `Camera` in C++: six vectors of three floats.
unsafe impl DeviceRepr for Eye {}

kernels! {
    struct Tracer;
    // SAFETY: each thread writes its own pixel, which it compares with the size, and reads spheres below `n`. All
    // lengths fit in 32 bits.
    unsafe in SOURCE {
        safe fn render(
            width: u32, height: u32, #[any] samples: u32, #[any] depth: u32, camera: Eye, spheres: &[Sphere],
            n: u32 = spheres.len(), picture: &mut [[u8; 4]],
        ) over [width, height] by [32, 8] where picture.len() == width * height;
    }
}

pub(super) fn measure(bench: &Bench<'_>) -> Rows {
    let on = bench.stream;
    let (width, samples) = (16 * bench.size(75, 3), if bench.software { 1 } else { 16 });
    let height = width / 16 * 9;
    let (w, h) = (width as u32, height as u32);
    let camera = scene::camera(16.0 / 9.0);
    let spheres = scene::spheres();
    let spheres = DeviceBuffer::from_slice(on, &spheres)?;

    let twin = Tracer::load(&on.context())?;
    let program = Program::new(SOURCE).options(Options::new().fmad(false));
    // SAFETY: the source is that of the declaration, and the option changes the results of floats alone.
    let twin_plain = unsafe { Tracer::load_from(&on.context(), program) }?;
    let row = Case::<[u8; 4]>::new(bench, "raytrace", width * height)
        .loose(0.5)
        .rust(Variant::Rust, render::kernel(), |out| {
            render::launch(on, width, height, samples, DEPTH, camera, &spheres, out)
        })?
        .rust(Variant::Checked, checked::render::kernel(), |out| {
            let (spheres, camera) = (spheres.as_slice().cast()?, bytemuck::cast(camera));
            checked::render::launch(on, width, height, samples, DEPTH, camera, spheres, out)
        })?
        .other(Variant::Twin, twin.render_kernel(), |out| {
            twin.render(on, w, h, samples, DEPTH, Eye(camera), &spheres, out)
        })?
        .other(Variant::TwinPlain, twin_plain.render_kernel(), |out| {
            twin_plain.render(on, w, h, samples, DEPTH, Eye(camera), &spheres, out)
        })?
        .measure()?;
    Ok(vec![row])
}
