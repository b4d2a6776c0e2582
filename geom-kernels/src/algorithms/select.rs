//! Selections: compaction of flagged elements.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, ReadView, Result, Stream, WriteView, kernels};

use super::scan::{chain_bytes, chain_state};
use super::sealed::Sealed;
use super::{Algorithms, LIMIT, count, tiles};
use crate::geometry::{Source, of_source};
use crate::lengths::has_length;

kernels! {
    #[name = "select_{F}_{}"]
    struct Selects;
    // SAFETY: they read n flags and elements, write at most `capacity` elements and one number, and use of the
    // state a word and two for each tile. The callers check the lengths.
    unsafe in Source::SELECT {
        /// # Safety
        /// There is a block of [`THREADS`](super::THREADS) for each tile of `n` elements, of which there are as
        /// many as flags; `to` has `capacity` elements and `number` one. `state` is zero and has a word and two
        /// for each tile.
        #[name = "select_{F}_of_{W}"]
        unsafe fn elements<F: SelectFlag in [u8 = "u8", u32 = "u32"], W: Pod in [u32 = "4", u64 = "8"]>(
            flags: &[F], from: &[W], to: &mut [W], capacity: u32, number: &mut [u32], n: u32, state: &mut [u64],
        );
        /// # Safety
        /// As for `elements`.
        unsafe fn places<F: SelectFlag in [u8 = "u8", u32 = "u32"]>(
            flags: &[F], to: &mut [u32], capacity: u32, number: &mut [u32], n: u32, state: &mut [u64],
        );
    }
}
of_source!(Selects, Source::SELECT);

/// The types of flags for [`Algorithms::select`], `u8` and `u32`. A flag other than 0 selects its element.
pub trait SelectFlag: Pod + Sealed {}

impl SelectFlag for u8 {}
impl SelectFlag for u32 {}

/// Elements that [`Algorithms::select`] can move: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`.
pub trait Selectable: Pod + Sealed {
    /// The unsigned type with as many bits.
    #[doc(hidden)]
    type Word: Pod;
}

macro_rules! elements {
    ($($word:ty: $($element:ty),+;)+) => {$($(
        impl Selectable for $element {
            type Word = $word;
        }
    )+)+};
}

elements! {
    u32: u32, i32, f32;
    u64: u64, i64, f64;
}

impl Algorithms<'_> {
    /// Returns the bytes of scratch that [`select`](Self::select) and [`select_indices`](Self::select_indices) need
    /// for `n` flags.
    #[must_use]
    pub fn select_scratch(n: usize) -> usize {
        chain_bytes(n)
    }

    /// Copies the elements whose flag is not 0 to the beginning of `selected`, in their order, and writes their
    /// number to the one element of `number`.
    ///
    /// `selected` may be too short for them. Then it is filled, and `number` is greater than its length: `number` is
    /// always the count of all flags other than 0. If `selected` is longer than `number`, the rest of it is not
    /// written.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if flags and elements differ in length or `number` does
    /// not have one element, from 2^31 elements on, and if the scratch given is too short; otherwise if the driver
    /// returns an error.
    pub fn select<'a, F: SelectFlag, T: Selectable>(
        &self,
        stream: &Stream,
        flags: impl ReadView<'a, F>,
        elements: impl ReadView<'a, T>,
        selected: impl WriteView<'a, T>,
        number: impl WriteView<'a, u32>,
    ) -> Result<()> {
        let (flags, elements) = (flags.read_view(), elements.read_view());
        has_length("the flags of a selection", flags.len(), elements.len())?;
        let to = selected.write_view().cast_mut::<T::Word>()?;
        let from = Some(elements.cast::<T::Word>()?);
        self.select_words(stream, flags, from, to, number.write_view())
    }

    /// Writes the indices of the flags that are not 0 to the beginning of `indices`, in their order, and their number
    /// to the one element of `number`; like [`select`](Self::select) of 0, 1, 2, ...
    ///
    /// # Errors
    /// As [`select`](Self::select).
    pub fn select_indices<'a, F: SelectFlag>(
        &self,
        stream: &Stream,
        flags: impl ReadView<'a, F>,
        indices: impl WriteView<'a, u32>,
        number: impl WriteView<'a, u32>,
    ) -> Result<()> {
        let (flags, to) = (flags.read_view(), indices.write_view());
        self.select_words(stream, flags, None, to, number.write_view())
    }

    /// Selects from the elements, of which there are as many as flags, or without elements, from the indices.
    fn select_words<F: SelectFlag, W: Pod>(
        &self,
        stream: &Stream,
        flags: DeviceSlice<'_, F>,
        from: Option<DeviceSlice<'_, W>>,
        to: DeviceSliceMut<'_, W>,
        mut number: DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        has_length("the number of what is selected", number.len(), 1)?;
        let n = count("a selection", flags.len())?;
        self.scratch.with(stream, &[], chain_bytes(flags.len()), |pieces| {
            if n == 0 {
                return number.fill(stream, 0);
            }
            let state = chain_state(stream, pieces, flags.len())?;
            let (kernels, launch) = (self.kernels.kernels::<Selects>()?, tiles(flags.len()));
            // At most n elements are written.
            let capacity = to.len().min(LIMIT) as u32;
            // SAFETY: the callers have checked that there are as many elements as flags; the number is one, and
            // the state was cleared above.
            unsafe {
                match from {
                    Some(from) => kernels
                        .elements(stream, launch, flags, from, to, capacity, number, n, state),
                    None => {
                        let to = to.cast_mut::<u32>()?;
                        kernels.places(stream, launch, flags, to, capacity, number, n, state)
                    }
                }
            }
        })
    }
}
