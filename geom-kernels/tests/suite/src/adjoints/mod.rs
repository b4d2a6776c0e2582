//! Adjoints of geometry, in f64 against differences of functions that are written here, and in f32 against f64.

mod closest;
mod differences;
mod isosurface;
mod rays;
mod surface;
mod volume;
mod volume_grids;

use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::Real;

use super::flags::module;
use test_harness::{Case, Failure, Rng, TestDevice, deep};

pub(super) const MESH_SOURCE: &str = include_str!("../../kernels/adjoints_mesh.cu");
pub(super) const VOLUME_SOURCE: &str = include_str!("../../kernels/adjoints_volume.cu");
pub(super) const ISOSURFACE_SOURCE: &str = include_str!("../../kernels/adjoints_isosurface.cu");

pub(super) fn cases() -> Vec<Case> {
    [closest::cases(), rays::cases(), surface::cases(), isosurface::cases(), volume::cases()]
        .concat()
}

/// So many cases on the software device, and more where `--deep` asks for them.
fn count(of: usize) -> usize {
    if deep() { 20 * of } else { of }
}

/// A point with coordinates in -1..1, which f32 has.
fn point(rng: &mut Rng) -> [f64; 3] {
    [0; 3].map(|_: i32| f64::from(rng.float()))
}

/// As f32 has it.
fn single(x: f64) -> f64 {
    f64::from(x as f32)
}

/// What a kernel of the meshes' source gives for each row, in f64 and then in f32. Inputs are numbers of f32.
fn both<const N: usize, const R: usize>(
    device: &TestDevice,
    source: &str,
    kernel: &str,
    rows: &[[f64; N]],
) -> Result<[Vec<[f64; R]>; 2], Failure> {
    Ok([
        run::<f64, N, R>(device, source, &format!("{kernel}_f64"), rows)?,
        run::<f32, N, R>(device, source, &format!("{kernel}_f32"), rows)?,
    ])
}

fn run<T: Real, const N: usize, const R: usize>(
    device: &TestDevice,
    source: &str,
    kernel: &str,
    rows: &[[f64; N]],
) -> Result<Vec<[f64; R]>, Failure> {
    let (stream, n) = (device.stream()?, rows.len());
    let input: Vec<T> = rows.as_flattened().iter().map(|x| T::narrow(*x)).collect();
    let input = DeviceBuffer::from_slice(&stream, &input)?;
    let mut out = DeviceBuffer::from_slice(&stream, &vec![T::narrow(f64::NAN); n * R])?;
    let kernel = module(device, source, nvrtc::Options::new())?.kernel(kernel)?;
    let arguments = (&input, n as u32, &mut out);
    // SAFETY: each of n threads reads its N numbers and writes its R.
    unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(n, 64), arguments) }?;
    let out = out.to_vec(&stream)?;
    Ok(out.chunks_exact(R).map(|row| std::array::from_fn(|i| row[i].wide())).collect())
}

/// Numbers one after the other.
fn row<const N: usize>(parts: &[&[f64]]) -> [f64; N] {
    let mut row = [f64::NAN; N];
    for (to, from) in row.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
    row
}
