//! The public sorts.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use bytemuck::Pod;
use cuda_safe::{DeviceSlice, DeviceSliceMut, Error, ReadView, Result, Stream, WriteView};

use super::Algorithms;
use super::radix::{Digits, Layout, RadixKey};
use super::scratch;
use super::sealed::Sealed;
use crate::lengths::has_length;

/// The types of keys that can be sorted: `u32`, `i32`, `f32`, `u64`, `i64`, `f64`.
///
/// A sort compares the bits of an unsigned integer of the same order, bit 0 the lowest: an unsigned key itself; a
/// signed key with its sign bit flipped; a float with its sign bit flipped if that is 0, and with all bits flipped if
/// it is 1. So floats have the order of [`f32::total_cmp`]: NaNs with the sign bit, negative infinity, numbers (-0
/// before 0), infinity, the other NaNs.
pub trait Key: Pod + Sealed {
    /// The unsigned integer.
    #[doc(hidden)]
    type Word: Word;
    /// The map in the form that kernels take.
    #[doc(hidden)]
    const MAP: u32;
}

/// The unsigned type of sorted keys: `u32` or `u64`.
#[doc(hidden)]
#[allow(private_bounds, reason = "which kernels sort them is nobody else's business")]
pub trait Word: RadixKey {}
impl Word for u32 {}
impl Word for u64 {}

macro_rules! keys {
    ($($key:ty, $word:ty, $map:literal;)+) => {$(
        impl Key for $key {
            type Word = $word;
            const MAP: u32 = $map;
        }
    )+};
}

keys! {
    u32, u32, 0;
    i32, u32, 1;
    f32, u32, 2;
    u64, u64, 0;
    i64, u64, 1;
    f64, u64, 2;
}

/// Returns the digits of a range of a key's bits.
fn digits<K: Key>(bits: impl RangeBounds<u32>) -> Result<Digits> {
    let width = 8 * size_of::<K>() as u32;
    let begin = match bits.start_bound() {
        Bound::Included(begin) => Some(*begin),
        Bound::Excluded(before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match bits.end_bound() {
        Bound::Included(last) => last.checked_add(1),
        Bound::Excluded(end) => Some(*end),
        Bound::Unbounded => Some(width),
    };
    match (begin, end) {
        (Some(begin), Some(end)) if begin <= end && end <= width => Ok(Digits::new(begin, end)),
        (begin, end) => {
            let (begin, end) = (begin.unwrap_or(u32::MAX), end.unwrap_or(u32::MAX));
            let message =
                format!("a sort by bits {begin}..{end} of keys that have bits 0..{width}");
            Err(Error::invalid(message).with_hint("all of them: `..`"))
        }
    }
}

/// The sizes of a sort's pieces of scratch memory.
#[derive(Debug, Clone, Copy)]
struct Needs {
    layout: Layout,
    /// The number of keys between passes, and of sorted keys that are discarded.
    through: usize,
    sorted: usize,
    values: usize,
    bytes: usize,
}

impl Needs {
    fn new<K: Key>(n: usize, digits: Digits, values: bool, order_alone: bool) -> Result<Self> {
        let layout = Layout::new::<K::Word>(n, digits)?;
        let through = if digits.passes() > 1 { n } else { 0 };
        let sorted = if order_alone { n } else { 0 };
        let values = if values { through } else { 0 };
        let of_keys = |n| scratch::bytes(n, size_of::<K>());
        let bytes = scratch::bytes(layout.words(), 4)
            + of_keys(through)
            + of_keys(sorted)
            + scratch::bytes(values, 4);
        Ok(Self { layout, through, sorted, values, bytes })
    }
}

impl Algorithms<'_> {
    /// Returns the bytes of scratch that [`sort_keys`](Self::sort_keys) needs for `n` keys.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if the key has not all these bits, and from
    /// 2^31 keys on.
    pub fn keys_scratch<K: Key>(n: usize, bits: impl RangeBounds<u32>) -> Result<usize> {
        Ok(Needs::new::<K>(n, digits::<K>(bits)?, false, false)?.bytes)
    }

    /// Returns the bytes of scratch that [`sort_pairs`](Self::sort_pairs) needs for `n` pairs.
    ///
    /// # Errors
    /// As [`keys_scratch`](Self::keys_scratch).
    pub fn pairs_scratch<K: Key>(n: usize, bits: impl RangeBounds<u32>) -> Result<usize> {
        Ok(Needs::new::<K>(n, digits::<K>(bits)?, true, false)?.bytes)
    }

    /// Returns the bytes of scratch that [`argsort`](Self::argsort) needs for `n` keys.
    ///
    /// # Errors
    /// As [`keys_scratch`](Self::keys_scratch).
    pub fn argsort_scratch<K: Key>(n: usize, bits: impl RangeBounds<u32>) -> Result<usize> {
        Ok(Needs::new::<K>(n, digits::<K>(bits)?, true, true)?.bytes)
    }

    /// Copies the keys to `sorted` in ascending order by some of their bits: `..` are all, `0..20` the lowest 20.
    /// Keys that are equal in those bits keep their order. The sort takes one pass for each 8 bits or part of them.
    /// [`Key`] defines the order.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if lengths differ, if the key has not all these
    /// bits, from 2^31 keys on, and if the scratch given is too short; otherwise if the driver returns an error.
    pub fn sort_keys<'a, K: Key>(
        &self,
        stream: &Stream,
        keys: impl ReadView<'a, K>,
        sorted: impl WriteView<'a, K>,
        bits: impl RangeBounds<u32>,
    ) -> Result<()> {
        let (keys, sorted) = (keys.read_view(), sorted.write_view());
        let digits = digits::<K>(bits)?;
        has_length("the sorted keys", sorted.len(), keys.len())?;
        let needs = Needs::new::<K>(keys.len(), digits, false, false)?;
        self.sort(stream, needs, keys, None, Some(sorted), None)
    }

    /// Works like [`sort_keys`](Self::sort_keys), and moves the value of each key with it.
    ///
    /// # Errors
    /// As [`sort_keys`](Self::sort_keys).
    pub fn sort_pairs<'a, K: Key>(
        &self,
        stream: &Stream,
        (keys, values): (impl ReadView<'a, K>, impl ReadView<'a, u32>),
        (sorted, sorted_values): (impl WriteView<'a, K>, impl WriteView<'a, u32>),
        bits: impl RangeBounds<u32>,
    ) -> Result<()> {
        let (keys, values) = (keys.read_view(), values.read_view());
        let (sorted, sorted_values) = (sorted.write_view(), sorted_values.write_view());
        let digits = digits::<K>(bits)?;
        has_length("the values", values.len(), keys.len())?;
        has_length("the sorted keys", sorted.len(), keys.len())?;
        has_length("the sorted values", sorted_values.len(), keys.len())?;
        let needs = Needs::new::<K>(keys.len(), digits, true, false)?;
        self.sort(stream, needs, keys, Some(values), Some(sorted), Some(sorted_values))
    }

    /// Computes the order in which [`sort_keys`](Self::sort_keys) would sort the keys: `order[i]` becomes the index of
    /// the key that would move to `i`.
    ///
    /// # Errors
    /// As [`sort_keys`](Self::sort_keys).
    pub fn argsort<'a, K: Key>(
        &self,
        stream: &Stream,
        keys: impl ReadView<'a, K>,
        order: impl WriteView<'a, u32>,
        bits: impl RangeBounds<u32>,
    ) -> Result<()> {
        let (keys, order) = (keys.read_view(), order.write_view());
        let digits = digits::<K>(bits)?;
        has_length("the order", order.len(), keys.len())?;
        let needs = Needs::new::<K>(keys.len(), digits, true, true)?;
        self.sort(stream, needs, keys, None, None, Some(order))
    }

    /// Sorts. Without `sorted`, the sorted keys go to scratch memory. All views have as many elements as `keys`.
    fn sort<K: Key>(
        &self,
        stream: &Stream,
        needs: Needs,
        keys: DeviceSlice<'_, K>,
        values: Option<DeviceSlice<'_, u32>>,
        sorted: Option<DeviceSliceMut<'_, K>>,
        sorted_values: Option<DeviceSliceMut<'_, u32>>,
    ) -> Result<()> {
        // The keys are read twice, and sorted ones are written and read again, so a graph must not change them in
        // between.
        let of_keys = keys.allocation();
        let memory = [
            of_keys,
            values.as_ref().map_or(of_keys, DeviceSlice::allocation),
            sorted.as_ref().map_or(of_keys, DeviceSliceMut::allocation),
            sorted_values.as_ref().map_or(of_keys, DeviceSliceMut::allocation),
        ]
        .map(Arc::clone);
        self.scratch.with(stream, &memory, needs.bytes, |mut pieces| {
            if keys.is_empty() {
                return Ok(());
            }
            let mut state = pieces.take::<u32>(needs.layout.words())?;
            let through = pieces.take::<K::Word>(needs.through)?;
            let in_scratch = pieces.take::<K::Word>(needs.sorted)?;
            let through_values = pieces.take::<u32>(needs.values)?;
            let from = (keys.cast::<K::Word>()?, values);
            let sorted = match sorted {
                Some(sorted) => sorted.cast_mut::<K::Word>()?,
                None => in_scratch,
            };
            let through = (through, sorted_values.is_some().then_some(through_values));
            let targets = [(sorted, sorted_values), through];
            let with = (&mut state, K::MAP);
            self.kernels.sort_apart(stream, &needs.layout, from, targets, with)
        })
    }
}
