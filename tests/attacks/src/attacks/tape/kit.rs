//! Shared parts of the attacks on tapes: an operation whose adjoint is Rust, and buffers that hide freed memory.

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

kernels! {
    pub(super) struct Kernels;
    // SAFETY: thread i reads and writes element i of each buffer, and only if i < n.
    unsafe in r#"
        extern "C" __global__ void square(const float* x, float* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = x[i] * x[i];
        }
        extern "C" __global__ void add(const float* x, float* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += x[i];
        }
        extern "C" __global__ void square_in_place(float* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = x[i] * x[i];
        }
        extern "C" __global__ void inverse(const float* x, float* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = 1.0f / x[i];
        }
        extern "C" __global__ void put(float v, float* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
    "# {
        pub(super) safe fn square(x: &[f32], y: &mut [f32], n: u32) where n <= x.len(), n <= y.len();
        pub(super) safe fn add(x: &[f32], y: &mut [f32], n: u32) where n <= x.len(), n <= y.len();
        pub(super) safe fn square_in_place(x: &mut [f32], n: u32) where n <= x.len();
        pub(super) safe fn inverse(x: &[f32], y: &mut [f32], n: u32) where n <= x.len(), n <= y.len();
        pub(super) safe fn put(v: f32, x: &mut [f32], n: u32) where n <= x.len();
    }
}

/// The number of elements of most buffers.
pub(super) const N: usize = 64;

/// Returns `N` small numbers, each of which has an exact square.
pub(super) fn numbers(seed: u32) -> Vec<f32> {
    (0..N as u32).map(|i| ((i * 7 + seed * 13) % 31) as f32 - 15.0).collect()
}

/// y = x², element by element. The adjoint computes on the host.
pub(super) struct Square {
    pub(super) x: Handle<f32>,
    pub(super) y: Handle<f32>,
}

impl CustomOp for Square {
    fn name(&self) -> &str {
        "square"
    }
    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let stream = pass.stream().clone();
        let x = pass.value(self.x)?.to_vec(&stream)?;
        let Some(gy) = pass.gradient(self.y)?.as_slice()? else { return Ok(()) };
        let gy = gy.to_vec(&stream)?;
        let Some(mut gx) = pass.gradient_mut(self.x)? else { return Ok(()) };
        let mut sums = gx.as_slice().to_vec(&stream)?;
        for ((sum, x), gy) in sums.iter_mut().zip(&x).zip(&gy) {
            *sum += 2.0 * x * gy;
        }
        gx.upload(&stream, &sums)
    }
}

/// Records y = x².
pub(super) fn square(
    t: &mut Recorder<'_>,
    kernels: &Kernels,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
) -> Result<()> {
    let mut custom = t.custom();
    let op =
        Square { x: custom.reads(x, Primal::Entry)?, y: custom.overwrites(&*y, Primal::None)? };
    let n = x.len();
    custom.run(op, |s| kernels.square(s, LaunchConfig::cover(n, 64), x, y, n as u32))
}

/// An operation that does nothing.
pub(super) struct Nothing;

impl CustomOp for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }
    fn backward(&mut self, _: &mut Adjoint<'_>) -> Result<()> {
        Ok(())
    }
}

/// Buffers full of NaNs, of the size of freed ones, whose memory they so take.
pub(super) fn ghosts(context: &Context, stream: &Stream) -> Result<Vec<DeviceBuffer<f32>>> {
    context.free_deferred()?;
    (0..24)
        .map(|_| {
            let mut ghost = DeviceBuffer::<f32>::zeroed(stream, N)?;
            ghost.fill(stream, f32::NAN)?;
            Ok(ghost)
        })
        .collect()
}

/// Whether all of these buffers are still full of NaNs.
pub(super) fn untouched(stream: &Stream, ghosts: &[DeviceBuffer<f32>]) -> Result<bool> {
    for ghost in ghosts {
        if !ghost.to_vec(stream)?.iter().all(|x| x.is_nan()) {
            return Ok(false);
        }
    }
    Ok(true)
}
