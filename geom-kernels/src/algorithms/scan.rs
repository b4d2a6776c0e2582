//! Prefix sums.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, ReadView, Result, Stream, WriteView, kernels};

use super::sealed::Sealed;
use super::{Algorithms, TILE, count, scratch, tiles};
use crate::geometry::{Source, of_source};
use crate::lengths::has_length;

kernels! {
    struct Scans;
    // SAFETY: as for `scan_offsets`, the scan in the same template.
    unsafe in Source::SCAN {
        /// # Safety
        /// There is a block of [`THREADS`](super::THREADS) for each tile of `n` elements, `from` has `n` and `to`
        /// as many, and one more if `total`. `state` is zero and has a word and two for each tile.
        #[name = "scan_{W}"]
        unsafe fn scan<W: Pod in [u32 = "u32", u64 = "u64"]>(
            from: &[W], to: &mut [W], n: u32, inclusive: u32, total: u32, state: &mut [u64],
        );
    }
}
of_source!(Scans, Source::SCAN);

kernels! {
    struct ScanOffsets;
    // SAFETY: it reads n elements, writes as many sums, and one more if `total`, and uses of the state a word and
    // two for each tile. The callers check the lengths.
    unsafe in Source::SCAN_OFFSETS {
        /// # Safety
        /// As for [`Scans::scan`].
        unsafe fn scan_offsets(
            from: &[u32], to: &mut [u64], n: u32, inclusive: u32, total: u32, state: &mut [u64],
        );
    }
}
of_source!(ScanOffsets, Source::SCAN_OFFSETS);

/// Integers that can be summed by [`Algorithms::exclusive_scan`] and [`Algorithms::inclusive_scan`]: `u32`, `i32`,
/// `u64`, `i64`.
pub trait Scan: Pod + Sealed {
    /// The unsigned type with as many bits, whose sums have the same bits.
    #[doc(hidden)]
    type Word: Pod;
}

/// The output types of [`Algorithms::offsets`]: `u32` and `u64`.
pub trait Offset: Scan {}

macro_rules! scans {
    ($($scanned:ty, $word:ty;)+) => {$(
        impl Scan for $scanned {
            type Word = $word;
        }
    )+};
}

scans! {
    u32, u32;
    i32, u32;
    u64, u64;
    i64, u64;
}

impl Offset for u32 {}
impl Offset for u64 {}

/// Returns the 64-bit words in the state of kernels with decoupled look-back: one for tickets, two for each tile. See
/// `device/geom/sort/chain.cuh`.
fn chain_words(n: usize) -> usize {
    1 + 2 * n.div_ceil(TILE)
}

/// Returns the scratch of a scan or a selection of `n` elements.
pub(super) fn chain_bytes(n: usize) -> usize {
    scratch::bytes(chain_words(n), 8)
}

/// Returns the state of a scan, cleared.
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
    /// Returns the bytes of scratch that a scan of `n` elements, or [`offsets`](Self::offsets) of `n` counts, needs.
    #[must_use]
    pub fn scan_scratch(n: usize) -> usize {
        chain_bytes(n)
    }

    /// Computes the exclusive prefix sums: `sums[i]` becomes the sum of the elements before `i`, so the first is 0.
    /// Sums wrap around.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the lengths differ, from 2^31 elements on,
    /// and if the scratch given is too short; otherwise if the driver returns an error.
    pub fn exclusive_scan<'a, T: Scan>(
        &self,
        stream: &Stream,
        elements: impl ReadView<'a, T>,
        sums: impl WriteView<'a, T>,
    ) -> Result<()> {
        self.scan(stream, elements.read_view(), sums.write_view(), false)
    }

    /// Computes the inclusive prefix sums: `sums[i]` becomes the sum of the elements up to and including `i`. Sums wrap
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
        let (from, to) = (elements.cast::<T::Word>()?, sums.cast_mut::<T::Word>()?);
        self.scan_words(stream, from, to, (inclusive, false))
    }

    /// Computes the starts of consecutive lists: `offsets[i]` becomes the sum of the counts before the one at `i`,
    /// and the last of the `counts.len() + 1` offsets the sum of all. As `u64` they are exact; as `u32` they wrap
    /// around.
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
        if size_of::<O>() == size_of::<u32>() {
            return self.scan_words(stream, counts, offsets.cast_mut::<u32>()?, (false, true));
        }
        let (kernels, to) = (self.kernels.kernels::<ScanOffsets>()?, offsets.cast_mut::<u64>()?);
        self.chained(stream, counts.len(), |n, state| {
            // SAFETY: there is one offset more than counts, as was compared above; `chained` makes the state.
            unsafe { kernels.scan_offsets(stream, tiles(counts.len()), counts, to, n, 0, 1, state) }
        })
    }

    /// Scans words. `to` has as many elements as `from`, and one more for the `total`.
    fn scan_words<W: Pod>(
        &self,
        stream: &Stream,
        from: DeviceSlice<'_, W>,
        to: DeviceSliceMut<'_, W>,
        (inclusive, total): (bool, bool),
    ) -> Result<()> {
        let kernels = self.kernels.kernels::<Scans>()?;
        let (inclusive, total) = (u32::from(inclusive), u32::from(total));
        self.chained(stream, from.len(), |n, state| {
            // SAFETY: the caller has checked the lengths; `chained` makes the state.
            unsafe { kernels.scan(stream, tiles(from.len()), from, to, n, inclusive, total, state) }
        })
    }

    /// Calls `run` with the number of elements and the cleared state of their scan, if there are any.
    fn chained(
        &self,
        stream: &Stream,
        len: usize,
        run: impl FnOnce(u32, DeviceSliceMut<'_, u64>) -> Result<()>,
    ) -> Result<()> {
        let n = count("a scan", len)?;
        self.scratch.with(stream, &[], chain_bytes(len), |pieces| match n {
            0 => Ok(()),
            _ => run(n, chain_state(stream, pieces, len)?),
        })
    }
}
