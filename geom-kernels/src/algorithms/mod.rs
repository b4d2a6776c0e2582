//! Sorting, prefix sums, reductions and selections on the device.
//!
//! ```no_run
//! # fn main() -> cuda_safe::Result<()> {
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let algorithms = GeometryKernels::new(&context).algorithms();
//!
//! let keys = DeviceBuffer::from_slice(&stream, &[30.0f32, 10.0, 20.0])?;
//! let mut order = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
//! algorithms.argsort(&stream, &keys, &mut order, ..)?;
//! assert_eq!(order.to_vec(&stream)?, [1, 2, 0]);
//!
//! let mut largest = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
//! algorithms.max(&stream, &keys, &mut largest)?;
//! assert_eq!(largest.to_vec(&stream)?, [30.0]);
//! # Ok(()) }
//! ```
//!
//! All calls of [`Algorithms`] are enqueued on the stream they are given; the host does not wait, and they can be
//! captured in a graph. They work on up to 2^31 - 1 elements, and give the same bits in every run and on
//! every device. A call's inputs and outputs are different memory. If a call fails, its outputs may have been written
//! in part.

mod indices;
mod keys;
mod radix;
mod reduce;
mod scan;
mod scratch;
mod select;
#[cfg(test)]
mod tests;

use cuda_safe::{Error, LaunchConfig, Result, WriteView};

use crate::geometry::GeometryKernels;
use crate::lengths::blocks;

pub use keys::Key;
pub use reduce::Number;
pub use scan::{Offset, Scan};
pub use select::{SelectFlag, Selectable};

pub(crate) use indices::SortedIndices;
pub(crate) use radix::{Buffers, Digits, Layout, Pass, RESULT_AT, RadixKey, Wishes, with_pairs};

/// Sorts, prefix sums, reductions and selections; [`GeometryKernels::algorithms`] creates it. See the [module](self).
///
/// Scratch memory comes from the pool of the context, in the stream's order, which costs two calls of the driver each
/// time. [`with_scratch`](Self::with_scratch) sets a buffer instead.
#[derive(Debug)]
pub struct Algorithms<'s> {
    kernels: GeometryKernels,
    scratch: scratch::Source<'s>,
}

impl GeometryKernels {
    /// Returns the calls for sorting, prefix sums, reductions and selections. The first call that needs a kernel loads
    /// it (or compiles it, after [`GeometryKernels::compiled`]), and takes longer.
    #[must_use]
    pub fn algorithms(&self) -> Algorithms<'static> {
        Algorithms { kernels: self.clone(), scratch: scratch::Source::Pool }
    }
}

impl Algorithms<'_> {
    /// Returns the same calls with the caller's scratch memory, whose contents change. Calls of several threads take
    /// turns; calls on several streams wait for one another on the device. The functions whose names end in
    /// `_scratch` return how many bytes a call needs.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, Result, Stream};
    /// # use geom_kernels::algorithms::Algorithms;
    /// # fn run(algorithms: &Algorithms, stream: &Stream, keys: &DeviceBuffer<u32>, to: &mut DeviceBuffer<u32>) -> Result<()> {
    /// let bytes = Algorithms::keys_scratch::<u32>(keys.len(), ..)?;
    /// let mut scratch = DeviceBuffer::<u8>::zeroed(stream, bytes)?;
    /// algorithms.with_scratch(&mut scratch).sort_keys(stream, keys, &mut *to, ..)
    /// # }
    /// ```
    pub fn with_scratch<'t>(&self, scratch: impl WriteView<'t, u8>) -> Algorithms<'t> {
        let scratch = scratch::Source::given(scratch.write_view());
        Algorithms { kernels: self.kernels.clone(), scratch }
    }

    /// Returns the kernels, for enqueuing sorts on this crate's buffers.
    pub(crate) fn kernels(&self) -> &GeometryKernels {
        &self.kernels
    }
}

impl Clone for Algorithms<'static> {
    /// Returns another handle to the same kernels, with scratch memory from the pool.
    fn clone(&self) -> Self {
        Self { kernels: self.kernels.clone(), scratch: scratch::Source::Pool }
    }
}

/// The block size of scans, selections and reductions.
const THREADS: u32 = 256;
/// The elements per block of scans, selections and reductions.
const TILE: usize = 4096;
/// The limit of elements of one call, because indices have 31 bits.
const LIMIT: usize = 1 << 31;

/// Returns a launch with one block per tile of `n` elements, fewer than [`LIMIT`].
fn tiles(n: usize) -> LaunchConfig {
    blocks(n.div_ceil(TILE), THREADS)
}

/// Returns a number of elements in the kernels' type.
///
/// # Errors
/// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) from 2^31 on.
fn count(what: &str, n: usize) -> Result<u32> {
    if n < LIMIT {
        return Ok(n as u32);
    }
    let message = format!("{what}: {n} elements, but one call works on less than 2^31");
    Err(Error::invalid(message).with_hint("divide them among several calls"))
}

mod sealed {
    /// The types that the kernels support.
    pub trait Sealed {}

    macro_rules! sealed {
        ($($known:ty),+) => {$(impl Sealed for $known {})+};
    }
    sealed!(u8, u32, i32, f32, u64, i64, f64);
}
