//! One triangle: exact signs, the closest point, rays, crossings and overlaps, against oracles.

mod closest;
mod crossings;
mod inputs;
pub(super) mod overlaps;
mod predicates;
mod rays;
mod real;

use cuda_safe::{DeviceBuffer, LaunchConfig};

use super::flags::{flags, module};
use test_harness::{Case, Failure, TestDevice, deep, first_difference};

pub(super) const SOURCE: &str = include_str!("../../kernels/triangle.cu");

pub(super) fn cases() -> Vec<Case> {
    [predicates::cases(), closest::cases(), rays::cases(), crossings::cases(), overlaps::cases()]
        .concat()
}

type Point = [f32; 3];
type Triangle = [Point; 3];

/// So many cases on the software device, and many more where `--deep` asks for them.
fn count(of: usize) -> usize {
    if deep() { 100 * of } else { of }
}

/// A row of a kernel's input.
fn row<const N: usize>(parts: &[&[f32]]) -> [f32; N] {
    let mut row = [0.0; N];
    for (to, from) in row.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
    row
}

/// Each thread's results, as bits. The kernel runs under all flags, which must agree on every bit.
fn run<const N: usize, const R: usize>(
    device: &TestDevice,
    kernel: &str,
    inputs: &[[f32; N]],
) -> Result<Vec<[u32; R]>, Failure> {
    let stream = device.stream()?;
    let n = inputs.len();
    let input = DeviceBuffer::from_slice(&stream, inputs.as_flattened())?;
    let mut first: Option<Vec<u32>> = None;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel(kernel)?;
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, n * R)?;
        let arguments = (&input, &mut out, n as u32);
        // SAFETY: each of n threads reads its N numbers and writes elements k * n + i for k < R.
        unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(n, 64), arguments) }?;
        let out = out.to_vec(&stream)?;
        if let Some(first) = &first {
            first_difference(&out, first)
                .map_err(|error| Failure::new(format!("{flag}: {error}")))?;
        }
        first = Some(out);
    }
    let out = first.unwrap_or_default();
    Ok((0..n).map(|i| std::array::from_fn(|k| out[k * n + i])).collect())
}
