//! Radix sorts between two sets of buffers: for the public calls, and for kernels of this crate that write their keys
//! themselves.

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_safe::{
    DeviceBuffer, DeviceRepr, DeviceSlice, DeviceSliceMut, Error, KernelArg, LaunchConfig, Result,
    Stream, kernels,
};

use super::count;
use crate::GeometryKernels;
use crate::geometry::{Source, of_source};
use crate::lengths::blocks;
use crate::part::Maybe;

/// The threads of a block that counts digits.
const COUNT_THREADS: u32 = 512;

/// Digits have at most 8 bits.
const RADIX: usize = 256;
const MAX_PASSES: usize = 8;
/// The number of tiles in a group.
const GROUP: usize = 16;

// Offsets of the state's words: `device/geom/sort/digits.cuh`.
const COUNTS_AT: usize = 32;
const GROUPS_AT: usize = COUNTS_AT + MAX_PASSES * RADIX;
/// The word of the state that holds the index of the buffer with a planned sort's result.
pub(crate) const RESULT_AT: usize = 16;

// `Pass::flags`: `device/geom/sort/radix_sort.cuh`.
const PLANNED: u32 = 1;
const PLACES: u32 = 2;
const MAP_IN: u32 = 4;
const MAP_OUT: u32 = 6;

/// Unsigned keys that the kernels sort.
pub(crate) trait RadixKey: Pod {
    /// The source of the passes that sort pairs of such a key and a value.
    const PAIRS: Source;
    /// The threads of a block that does a pass: `GEOM_SORT_THREADS_*` in device/geom/sort/kernels.cuh.
    const THREADS: u32;
    /// The number of pairs in a tile.
    const TILE: usize;
}

impl RadixKey for u32 {
    const PAIRS: Source = Source::SORT_PAIRS_U32;
    const THREADS: u32 = 384;
    const TILE: usize = Self::THREADS as usize * 12;
}

impl RadixKey for u64 {
    const PAIRS: Source = Source::SORT_PAIRS_U64;
    const THREADS: u32 = 256;
    const TILE: usize = Self::THREADS as usize * 12;
}

/// The arguments of a pass: `geom::sort::Pass`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) n: u32,
    pub(crate) index: u32,
    pub(crate) shift: u32,
    pub(crate) width: u32,
    pub(crate) flags: u32,
    pub(crate) stride: u32,
    pub(crate) groups: u32,
    pub(crate) tiles: u32,
}

// SAFETY: repr(C), with the fields of `geom::sort::Pass` in radix_sort.cuh, all of 32 bits; no addresses.
unsafe impl DeviceRepr for Pass {}

kernels! {
    pub(crate) struct Pairs<K: RadixKey in [u32 = "u32", u64 = "u64"]>;
    // SAFETY: as for `Keys`, with pairs.
    unsafe in K::PAIRS {
        /// # Safety
        /// As for [`Keys::pass`], for keys and values. `values_from` is null only if the pass does not use it. A planned
        /// pass writes to all four buffers.
        #[name = "sort_pairs_{K}"]
        unsafe fn pass(
            keys_from: impl KernelArg, keys_to: &mut [K], values_from: impl KernelArg, values_to: &mut [u32],
            pass: Pass, state: &mut [u32],
        );
    }
}
of_source!(<K: RadixKey> Pairs<K>, K::PAIRS);

kernels! {
    struct Plan;
    // SAFETY: one block reads and writes the words of the state before GROUPS_AT alone.
    unsafe in Source::SORT_PAIRS_U64 {
        #[name = "sort_plan"]
        safe fn plan(#[any] n: u32, passes: u32, state: &mut [u32])
            where 2080 <= state.len(), passes <= 8, block.x == 256, grid.x == 1;
    }
}
of_source!(Plan, Source::SORT_PAIRS_U64);

kernels! {
    struct Keys;
    // SAFETY: with as many blocks as there are tiles of n, passes read and write the first n elements (indices
    // beyond them are never written to), and of the state the words that the layout has.
    unsafe in Source::SORT_KEYS {
        /// # Safety
        /// The launch, the pass and the state are those of one [`Layout`], the state is in use for this sort, and
        /// there are as many keys as the layout says.
        #[name = "sort_keys_{K}"]
        unsafe fn pass<K: RadixKey in [u32 = "u32", u64 = "u64"]>(
            keys_from: &[K], keys_to: &mut [K], no_values: u64, none_written: u64, pass: Pass, state: &mut [u32],
        );
    }
}
of_source!(Keys, Source::SORT_KEYS);

kernels! {
    pub(super) struct Counts;
    // SAFETY: it reads n keys and adds to the counts of the state's words before GROUPS_AT by atomic operations.
    unsafe in Source::SORT_COUNT {
        /// # Safety
        /// `digits` are those of bits that the keys have.
        #[name = "sort_count_{K}"]
        unsafe fn count<K: RadixKey in [u32 = "u32", u64 = "u64"]>(
            keys: &[K], n: u32, digits: Digits, map: u32, state: &mut [u32],
        ) where n <= keys.len(), 2080 <= state.len();
    }
}
of_source!(Counts, Source::SORT_COUNT);

/// The sorted bits of a key, and their division among passes, lowest first: `geom::sort::Digits`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digits {
    pub(crate) begin: u32,
    pub(crate) passes: u32,
    pub(crate) width: u32,
    pub(crate) wider: u32,
}

// SAFETY: repr(C), with the fields of `geom::sort::Digits` in digits.cuh, all of 32 bits; no addresses.
unsafe impl DeviceRepr for Digits {}

impl Digits {
    /// Returns the bits in `begin..end`, where `begin <= end <= 64`. For an empty range, one pass copies the input.
    pub(crate) fn new(begin: u32, end: u32) -> Self {
        let bits = end.saturating_sub(begin).min(64);
        let passes = bits.div_ceil(8).max(1);
        // An empty range starts at 0, because a shift by the whole width is undefined.
        let begin = if bits == 0 { 0 } else { begin };
        Self { begin, passes, width: bits / passes, wider: bits % passes }
    }

    pub(crate) fn passes(self) -> usize {
        self.passes as usize
    }

    fn shift_of(self, pass: u32) -> u32 {
        self.begin + pass * self.width + pass.min(self.wider)
    }

    fn width_of(self, pass: u32) -> u32 {
        self.width + u32::from(pass < self.wider)
    }
}

/// The passes of a sort of `n` keys, and the layout of its state.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    n: u32,
    digits: Digits,
    threads: u32,
    tiles: usize,
    groups: usize,
    stride: usize,
}

impl Layout {
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) from 2^31 keys on.
    pub(crate) fn new<K: RadixKey>(n: usize, digits: Digits) -> Result<Self> {
        let words = count("a sort", n)?;
        let tiles = n.div_ceil(K::TILE);
        let stride = 1 << digits.width_of(0);
        let groups = tiles.div_ceil(GROUP);
        Ok(Self { n: words, digits, threads: K::THREADS, tiles, groups, stride })
    }

    /// Returns the words of the state.
    pub(crate) fn words(&self) -> usize {
        self.tiles_at() + self.tiles * self.stride
    }

    fn groups_at(&self, pass: u32) -> usize {
        GROUPS_AT + pass as usize * self.groups * self.stride * 2
    }

    fn tiles_at(&self) -> usize {
        self.groups_at(self.digits.passes)
    }

    fn pass(&self, index: u32, flags: u32) -> Pass {
        // For n < 2^31 the state has fewer than 2^29 words.
        Pass {
            n: self.n,
            index,
            shift: self.digits.shift_of(index),
            width: self.digits.width_of(index),
            flags,
            stride: self.stride as u32,
            groups: self.groups_at(index) as u32,
            tiles: self.tiles_at() as u32,
        }
    }

    /// Returns a block for each tile.
    fn launch(&self) -> LaunchConfig {
        blocks(self.tiles, self.threads)
    }

    fn checked<'a>(
        &self,
        state: &'a mut DeviceSliceMut<'_, u32>,
    ) -> Result<DeviceSliceMut<'a, u32>> {
        let aligned = state.device_ptr().is_multiple_of(8);
        if !aligned || state.len() < self.words() {
            let (length, words) = (state.len(), self.words());
            let message = format!("the state of a sort: {length} words, not {words} aligned ones");
            return Err(Error::invalid(message));
        }
        Ok(state.reborrow())
    }
}

/// Properties of the input of a sort between two sets of buffers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes {
    /// The values are the indices of the keys: the first values are not read.
    pub(crate) indices: bool,
    /// The state is cleared ([`GeometryKernels::clear`]) and has the digit counts: a kernel has added every key to
    /// `geom::sort::DigitCounts` and flushed them.
    pub(crate) counted: bool,
}

/// Two buffers each for keys and values; the input is in the first ones.
#[derive(Debug)]
pub(crate) struct Buffers<'a, K> {
    pub(crate) keys: [DeviceSliceMut<'a, K>; 2],
    pub(crate) values: [DeviceSliceMut<'a, u32>; 2],
}

impl<K: RadixKey> Buffers<'_, K> {
    fn check(&self, n: usize) -> Result<()> {
        let short = self.keys.iter().any(|keys| keys.len() < n)
            || self.values.iter().any(|values| values.len() < n);
        if short {
            return Err(Error::invalid(format!("a sort of {n} pairs in buffers of less")));
        }
        Ok(())
    }
}

/// Calls `sort` with the keys and values of `n` pairs, two buffers of each, and the sort's state: consecutive parts
/// of `memory` in this order.
pub(crate) fn with_pairs<K: RadixKey, R>(
    memory: &mut DeviceBuffer<u8>,
    (keys, values, state): (&[Range<usize>; 2], &[Range<usize>; 2], &Range<usize>),
    n: usize,
    sort: impl FnOnce(&mut Buffers<'_, K>, &mut DeviceSliceMut<'_, u32>) -> Result<R>,
) -> Result<R> {
    let start = keys[0].start;
    let all = memory.slice_mut(start..state.end)?;
    let (all, state_part) = all.split_at_mut(state.start - start)?;
    let (all, second_values) = all.split_at_mut(values[1].start - start)?;
    let (all, first_values) = all.split_at_mut(values[0].start - start)?;
    let (first, second) = all.split_at_mut(keys[1].start - start)?;
    let bytes = n * size_of::<K>();
    let mut buffers = Buffers {
        keys: [of_type(first, bytes)?, of_type(second, bytes)?],
        values: [of_type(first_values, 4 * n)?, of_type(second_values, 4 * n)?],
    };
    sort(&mut buffers, &mut of_type(state_part, state.len())?)
}

/// Returns the first `bytes` of a view, as elements of another type.
fn of_type<T: Pod>(view: DeviceSliceMut<'_, u8>, bytes: usize) -> Result<DeviceSliceMut<'_, T>> {
    let (begin, _) = view.split_at_mut(bytes)?;
    begin.cast_mut()
}

/// The target for keys, and for their values if they have any.
pub(super) type Target<'a, K> = (DeviceSliceMut<'a, K>, Option<DeviceSliceMut<'a, u32>>);

/// The null pointer, for unused parameters.
const NULL: u64 = 0;

impl GeometryKernels {
    /// Returns the kernels that sort pairs, and loads them on first use.
    pub(crate) fn pairs<K: RadixKey>(&self) -> Result<Arc<Pairs<K>>> {
        self.kernels()
    }

    /// Clears the state of a sort, which may have any contents.
    pub(crate) fn clear(
        &self,
        stream: &Stream,
        layout: &Layout,
        state: &mut DeviceSliceMut<'_, u32>,
    ) -> Result<()> {
        layout.checked(state)?.slice_mut(..layout.words())?.fill(stream, 0)
    }

    /// Sorts pairs back and forth between the two sets of buffers. Returns the index of the set with the result: the
    /// number of passes modulo 2. The other set has unspecified contents.
    pub(crate) fn sort_buffers<K: RadixKey>(
        &self,
        stream: &Stream,
        layout: &Layout,
        buffers: &mut Buffers<'_, K>,
        state: &mut DeviceSliceMut<'_, u32>,
        wishes: Wishes,
    ) -> Result<usize> {
        self.prepare(stream, layout, buffers, state, wishes)?;
        let ([first, second], [first_values, second_values]) =
            (&mut buffers.keys, &mut buffers.values);
        let (mut from, mut to) = ((first, first_values), (second, second_values));
        let kernels = self.pairs::<K>()?;
        for index in 0..layout.digits.passes {
            let flags = if wishes.indices && index == 0 { PLACES } else { 0 };
            let (pass, state) = (layout.pass(index, flags), layout.checked(state)?);
            let (keys, values) = (from.0.as_slice(), from.1.as_slice());
            // SAFETY: `prepare` has seen that all four buffers have n elements.
            unsafe {
                kernels.pass(
                    stream,
                    layout.launch(),
                    keys,
                    &mut *to.0,
                    values,
                    &mut *to.1,
                    pass,
                    state,
                )?;
            }
            std::mem::swap(&mut from, &mut to);
        }
        Ok(layout.digits.passes() % 2)
    }

    /// Sorts pairs like [`sort_buffers`](Self::sort_buffers), without the passes in which all keys have the same
    /// digit. The device finds these passes, so only the device knows which set of buffers has the result: word
    /// [`RESULT_AT`] of the state is its index.
    pub(crate) fn sort_buffers_planned<K: RadixKey>(
        &self,
        stream: &Stream,
        layout: &Layout,
        buffers: &mut Buffers<'_, K>,
        state: &mut DeviceSliceMut<'_, u32>,
        wishes: Wishes,
    ) -> Result<()> {
        self.prepare(stream, layout, buffers, state, wishes)?;
        let passes = layout.digits.passes;
        self.kernels::<Plan>()?.plan(stream, (1, RADIX as u32), layout.n, passes, &mut *state)?;
        let flags = PLANNED | if wishes.indices { PLACES } else { 0 };
        let ([first, second], [first_values, second_values]) =
            (&mut buffers.keys, &mut buffers.values);
        let kernels = self.pairs::<K>()?;
        for index in 0..passes {
            let (pass, state) = (layout.pass(index, flags), layout.checked(state)?);
            let (keys, values) = (first.reborrow(), first_values.reborrow());
            let (to, values_to) = (&mut *second, &mut *second_values);
            // SAFETY: `prepare` has seen that all four buffers have n elements, and all are for writing.
            unsafe {
                kernels.pass(stream, layout.launch(), keys, to, values, values_to, pass, state)?;
            }
        }
        Ok(())
    }

    /// Sorts keys, with values if `to` has them, from `from` to `to` through a third set of buffers, which has as
    /// many elements if there are two passes or more. `map` is the keys' map.
    pub(super) fn sort_apart<K: RadixKey>(
        &self,
        stream: &Stream,
        layout: &Layout,
        from: (DeviceSlice<'_, K>, Option<DeviceSlice<'_, u32>>),
        [mut to, mut through]: [Target<'_, K>; 2],
        (state, map): (&mut DeviceSliceMut<'_, u32>, u32),
    ) -> Result<()> {
        self.count_digits(stream, layout, from.0, state, map)?;
        let passes = layout.digits.passes;
        for index in 0..passes {
            let (first, last) = (index == 0, index + 1 == passes);
            let indices = first && from.1.is_none();
            let flags = if indices { PLACES } else { 0 }
                | if first { map << MAP_IN } else { 0 }
                | if last { map << MAP_OUT } else { 0 };
            // The last pass writes to `to`, so every second pass before it does, too.
            let (target, other) =
                if (passes - index) % 2 == 1 { (&mut to, &through) } else { (&mut through, &to) };
            let keys = if first { from.0 } else { other.0.as_slice() };
            let values =
                if first { from.1 } else { other.1.as_ref().map(DeviceSliceMut::as_slice) };
            let (pass, state) = (layout.pass(index, flags), layout.checked(state)?);
            let (launch, to) = (layout.launch(), &mut target.0);
            // SAFETY: the callers have seen that all of these have n elements, where they are used; a pass
            // reads and writes different ones. Keys alone have no values, and indices are not read.
            unsafe {
                match &mut target.1 {
                    None => {
                        let kernels = self.kernels::<Keys>()?;
                        kernels.pass(stream, launch, keys, to, NULL, NULL, pass, state)?;
                    }
                    Some(values_to) => {
                        let (kernels, values) = (self.pairs::<K>()?, Maybe(values));
                        kernels.pass(stream, launch, keys, to, values, values_to, pass, state)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks the buffers, clears the state and counts the digits, unless the caller did so.
    fn prepare<K: RadixKey>(
        &self,
        stream: &Stream,
        layout: &Layout,
        buffers: &Buffers<'_, K>,
        state: &mut DeviceSliceMut<'_, u32>,
        wishes: Wishes,
    ) -> Result<()> {
        buffers.check(layout.n as usize)?;
        if wishes.counted {
            return layout.checked(state).map(drop);
        }
        self.count_digits(stream, layout, buffers.keys[0].as_slice(), state, 0)
    }

    fn count_digits<K: RadixKey>(
        &self,
        stream: &Stream,
        layout: &Layout,
        keys: DeviceSlice<'_, K>,
        state: &mut DeviceSliceMut<'_, u32>,
        map: u32,
    ) -> Result<()> {
        self.clear(stream, layout, state)?;
        // The number of blocks is limited to what every device holds at once: each block adds to the same words at
        // its end.
        let count = (layout.n as usize).div_ceil(COUNT_THREADS as usize * 8).min(512);
        let kernels = self.kernels::<Counts>()?;
        // SAFETY: the digits are those of the layout, which was created for such keys.
        unsafe {
            kernels.count(
                stream,
                blocks(count, COUNT_THREADS),
                keys,
                layout.n,
                layout.digits,
                map,
                state,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Digits;

    #[test]
    fn digits_cover_their_bits_once_and_are_balanced() {
        for begin in 0..64 {
            for end in begin..=64 {
                let digits = Digits::new(begin, end);
                let mut at = if begin == end { 0 } else { begin };
                for pass in 0..digits.passes {
                    assert_eq!(digits.shift_of(pass), at);
                    at += digits.width_of(pass);
                    assert!(digits.width_of(pass) <= 8);
                    assert!(digits.width_of(pass) <= digits.width_of(0));
                    assert!(digits.width_of(0) - digits.width_of(pass) <= 1);
                }
                assert_eq!(at, if begin == end { 0 } else { end });
                assert_eq!(digits.passes, (end - begin).div_ceil(8).max(1));
            }
        }
    }
}
