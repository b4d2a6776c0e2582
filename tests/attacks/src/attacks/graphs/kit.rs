//! Shared parts of the attacks on graphs.

use cuda_safe::{Error, LaunchConfig, kernels};
use test_harness::Failure;

kernels! {
    pub(crate) struct Kit;
    // SAFETY: thread i touches element i of each array, and only if i < n; `countdown` touches element 0 in one thread.
    unsafe in r#"
        extern "C" __global__ void fill(unsigned v, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = v;
        }
        extern "C" __global__ void add(unsigned v, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += v;
        }
        extern "C" __global__ void mix(const unsigned* x, unsigned* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = 3 * y[i] + x[i];
        }
        extern "C" __global__ void countdown(unsigned* flag) {
            if (blockIdx.x == 0 && threadIdx.x == 0 && flag[0] > 0) flag[0] -= 1;
        }
    "# {
        safe fn fill(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
        safe fn add(#[any] v: u32, x: &mut [u32], n: u32) where n <= x.len();
        safe fn mix(x: &[u32], y: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
        safe fn countdown(flag: &mut [u32]) where 1 <= flag.len();
    }
}

/// The number of elements of most buffers.
pub(crate) const N: usize = 256;
/// The same, for kernels.
pub(crate) const LEN: u32 = 256;

/// The shape of a launch over these elements.
pub(crate) fn all() -> LaunchConfig {
    LaunchConfig::cover(N, 64)
}

/// The error that attacks return from closures.
pub(crate) fn on_purpose() -> Error {
    Error::invalid("on purpose")
}

/// The failure of an attack for want of a node's name.
pub(crate) fn unnamed() -> Failure {
    Failure::new("the launch has no name")
}
