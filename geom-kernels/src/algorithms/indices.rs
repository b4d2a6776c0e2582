//! Indices sorted by keys that a kernel of this crate writes.

use cuda_safe::{DeviceBuffer, Result, Stream};

use super::{Buffers, Digits, Layout, RadixKey, Wishes};
use crate::GeometryKernels;
use crate::part::scratch;

/// The numbers below n in the order of their keys, and the sorted keys.
pub(crate) struct SortedIndices<K: Copy + 'static> {
    keys: [DeviceBuffer<K>; 2],
    indices: [DeviceBuffer<u32>; 2],
    which: usize,
}

impl<K: Copy + 'static> SortedIndices<K> {
    pub(crate) fn keys(&self) -> &DeviceBuffer<K> {
        let [first, second] = &self.keys;
        if self.which == 0 { first } else { second }
    }

    pub(crate) fn indices(&self) -> &DeviceBuffer<u32> {
        let [first, second] = &self.indices;
        if self.which == 0 { first } else { second }
    }

    pub(crate) fn into_indices(self) -> DeviceBuffer<u32> {
        let [first, second] = self.indices;
        if self.which == 0 { first } else { second }
    }
}

impl GeometryKernels {
    /// Sorts `n` indices, at least one, by the lower `bits` of the keys that `make` writes. Equal keys keep
    /// their indices' order.
    pub(crate) fn sort_indices<K: RadixKey>(
        &self,
        stream: &Stream,
        n: usize,
        bits: u32,
        make: impl FnOnce(&mut DeviceBuffer<K>) -> Result<()>,
    ) -> Result<SortedIndices<K>> {
        // SAFETY: the kernel writes all keys, and the sort writes everything else before it reads it.
        let (mut keys, mut indices, mut state) = unsafe {
            let layout = Layout::new::<K>(n, Digits::new(0, bits))?;
            let keys = [scratch::<K>(stream, n)?, scratch::<K>(stream, n)?];
            let indices = [scratch::<u32>(stream, n)?, scratch::<u32>(stream, n)?];
            (keys, indices, (layout, scratch::<u32>(stream, layout.words())?))
        };
        let [first, second] = &mut keys;
        make(first)?;
        let [first_places, second_places] = &mut indices;
        let mut buffers = Buffers {
            keys: [first.as_slice_mut(), second.as_slice_mut()],
            values: [first_places.as_slice_mut(), second_places.as_slice_mut()],
        };
        let (layout, words) = &mut state;
        let wishes = Wishes { indices: true, counted: false };
        let words = &mut words.as_slice_mut();
        let which = self.sort_buffers::<K>(stream, layout, &mut buffers, words, wishes)?;
        Ok(SortedIndices { keys, indices, which })
    }
}
