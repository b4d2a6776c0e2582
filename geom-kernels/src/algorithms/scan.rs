//! Prefix sums.

use bytemuck::Pod;
use cuda_safe::{
    DeviceSlice, DeviceSliceMut, Kernel, LaunchConfig, ReadView, Result, Stream, WriteView,
};

use super::Algorithms;
use super::kernels::{THREADS, TILE, count};
use super::scratch;
use super::sealed::Sealed;
use crate::lengths::has_length;

/// Integers that can be summed by [`Algorithms::exclusive_scan`] and [`Algorithms::inclusive_scan`]: `u32`, `i32`,
/// `u64`, `i64`.
pub trait Scan: Pod + Sealed {
    /// The unsigned type with as many bits, whose sums have the same bits.
    #[doc(hidden)]
    type Word: Pod;
    /// The index in the tables of kernels.
    #[doc(hidden)]
    const INDEX: usize;
}

/// What [`Algorithms::offsets`] can give: `u32` and `u64`.
pub trait Offset: Scan {}

macro_rules! scans {
    ($($scanned:ty, $word:ty, $index:literal;)+) => {$(
        impl Scan for $scanned {
            type Word = $word;
            const INDEX: usize = $index;
        }
    )+};
}

scans! {
    u32, u32, 0;
    i32, u32, 0;
    u64, u64, 1;
    i64, u64, 1;
}

impl Offset for u32 {}
impl Offset for u64 {}

/// The words of 64 bits in the state of kernels whose blocks listen to the sums of those before them: one
/// for tickets, two for each tile. See `device/geom/sort/chain.cuh`.
fn chain_words(n: usize) -> usize {
    1 + 2 * n.div_ceil(TILE)
}

/// The scratch of a scan or a selection of `n` elements.
pub(super) fn chain_bytes(n: usize) -> usize {
    scratch::bytes(chain_words(n), 8)
}

/// Its state, cleared.
pub(super) fn chain_state<'a>(
    stream: &Stream,
    mut pieces: scratch::Pieces<'a>,
    n: usize,
) -> Result<DeviceSliceMut<'a, u64>> {
    let mut state = pieces.take::<u64>(chain_words(n))?;
    state.fill(stream, 0)?;
    Ok(state)
}

impl Algorithms<'_> {
    /// The bytes of scratch that a scan of `n` elements needs, and [`offsets`](Self::offsets) of as many
    /// counts.
    #[must_use]
    pub fn scan_scratch(n: usize) -> usize {
        chain_bytes(n)
    }

    /// `sums[i]` becomes the sum of the elements before the one at `i`; the first is 0. Sums wrap around.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the lengths differ, from 2^31 elements on,
    /// and if the scratch given is too short; otherwise what the driver answered.
    pub fn exclusive_scan<'a, T: Scan>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        sums: impl WriteView<'a, T>,
    ) -> Result<()> {
        self.scan(stream, elements.read_view(), sums.write_view(), false)
    }

    /// `sums[i]` becomes the sum of the elements up to the one at `i`, which is part of it. Sums wrap
    /// around.
    ///
    /// # Errors
    /// As [`exclusive_scan`](Self::exclusive_scan).
    pub fn inclusive_scan<'a, T: Scan>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        sums: impl WriteView<'a, T>,
    ) -> Result<()> {
        self.scan(stream, elements.read_view(), sums.write_view(), true)
    }

    fn scan<T: Scan>(
        &self,
        stream: &Stream,
        elements: DeviceSlice<'_, T>,
        sums: DeviceSliceMut<'_, T>,
        inclusive: bool,
    ) -> Result<()> {
        has_length("the output of a scan", sums.len(), elements.len())?;
        let kernel = self.kernels.scan(T::INDEX)?;
        let (from, to) = (elements.cast::<T::Word>()?, sums.cast_mut::<T::Word>()?);
        self.launch_scan(stream, kernel, from, to, (inclusive, false))
    }

    /// Where lists begin that are stored one after the other: `offsets[i]` becomes the sum of the counts
    /// before the one at `i`, and the last of the `counts.len() + 1` the sum of all. As `u64` they are
    /// exact; as `u32` they wrap around.
    ///
    /// # Errors
    /// As [`exclusive_scan`](Self::exclusive_scan), but there must be one offset more than counts.
    pub fn offsets<'a, O: Offset>(
        &self,
        stream: &Stream,
        counts: impl ReadView<'a, u32>,
        offsets: impl WriteView<'a, O>,
    ) -> Result<()> {
        let (counts, mut offsets) = (counts.read_view(), offsets.write_view());
        has_length("the output of a scan to offsets", offsets.len(), counts.len() + 1)?;
        if counts.is_empty() {
            return offsets.fill(stream, O::zeroed());
        }
        let kernel = self.kernels.offsets(O::INDEX)?;
        self.launch_scan(stream, kernel, counts, offsets, (false, true))
    }

    fn launch_scan<I: Pod, O: Pod>(
        &self,
        stream: &Stream,
        kernel: &Kernel,
        from: DeviceSlice<'_, I>,
        to: DeviceSliceMut<'_, O>,
        (inclusive, total): (bool, bool),
    ) -> Result<()> {
        let n = count("a scan", from.len())?;
        self.scratch.with(stream, &[], chain_bytes(from.len()), |pieces| {
            if n == 0 {
                return Ok(());
            }
            let state = chain_state(stream, pieces, from.len())?;
            let launch = LaunchConfig::new(from.len().div_ceil(TILE) as u32, THREADS);
            let arguments = (from, to, n, u32::from(inclusive), u32::from(total), state);
            // SAFETY: the parameters of `scan_*`. With as many blocks as there are tiles of n, it reads n
            // elements and writes as many, and one more if `total`: the callers have checked the lengths.
            // Of the state it uses a word and two for each tile.
            unsafe { kernel.launch(stream, launch, arguments) }
        })
    }
}
