//! Elements that are marked, one after the other.

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, LaunchConfig, ReadView, Result, Stream, WriteView};

use super::Algorithms;
use super::kernels::{LIMIT, THREADS, TILE, count};
use super::scan::{chain_bytes, chain_state};
use super::sealed::Sealed;
use crate::lengths::has_length;

/// What marks an element for [`Algorithms::select`] if it is not 0: `u8` and `u32`.
pub trait SelectFlag: Pod + Sealed {
    /// The row in the table of kernels.
    #[doc(hidden)]
    const INDEX: usize;
}

impl SelectFlag for u8 {
    const INDEX: usize = 0;
}

impl SelectFlag for u32 {
    const INDEX: usize = 1;
}

/// Elements that [`Algorithms::select`] can move: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`.
pub trait Selectable: Pod + Sealed {
    /// The unsigned type with as many bits.
    #[doc(hidden)]
    type Word: Pod;
    /// The column in the table of kernels.
    #[doc(hidden)]
    const INDEX: usize;
}

macro_rules! elements {
    ($($word:ty, $index:literal: $($element:ty),+;)+) => {$($(
        impl Selectable for $element {
            type Word = $word;
            const INDEX: usize = $index;
        }
    )+)+};
}

elements! {
    u32, 1: u32, i32, f32;
    u64, 2: u64, i64, f64;
}

impl Algorithms<'_> {
    /// The bytes of scratch that [`select`](Self::select) and [`select_indices`](Self::select_indices) need
    /// for `n` flags.
    #[must_use]
    pub fn select_scratch(n: usize) -> usize {
        chain_bytes(n)
    }

    /// Copies the elements whose flag is not 0 to the beginning of `selected`, in their order, and their
    /// number to the one element of `number`.
    ///
    /// `selected` may be too short for them. Then it is filled, and `number` is more than its length: it is
    /// always that of all whose flag is not 0. Elements of `selected` beyond it are left as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if there are not as many flags as elements or
    /// `number` has not one element, from 2^31 elements on, and if the scratch given is too short; otherwise
    /// what the driver answered.
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
        self.launch_select(stream, T::INDEX, flags, from, to, number.write_view())
    }

    /// Writes the indices of the flags that are not 0 to the beginning of `indices`, in their order, and their
    /// number to the one element of `number`; as [`select`](Self::select) of 0, 1, 2, ...
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
        self.launch_select(stream, 0, flags, None::<DeviceSlice<'_, u32>>, to, number.write_view())
    }

    fn launch_select<F: SelectFlag, W: Pod>(
        &self,
        stream: &Stream,
        column: usize,
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
            let launch = LaunchConfig::new(flags.len().div_ceil(TILE) as u32, THREADS);
            let kernel = self.kernels.select(F::INDEX, column)?;
            // No more than n are written.
            let capacity = to.len().min(LIMIT) as u32;
            // SAFETY: the parameters of `select_*`, with the elements or, for indices, without. With as many
            // blocks as there are tiles of n, it reads n flags and elements (of which there are as many, as
            // the caller has checked), writes at most `capacity` and one number; of the state it uses a word
            // and one for each tile.
            unsafe {
                match from {
                    Some(from) => {
                        let arguments = (flags, from, to, capacity, number, n, state);
                        kernel.launch(stream, launch, arguments)
                    }
                    None => kernel.launch(stream, launch, (flags, to, capacity, number, n, state)),
                }
            }
        })
    }
}
