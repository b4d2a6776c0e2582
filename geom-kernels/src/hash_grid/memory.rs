//! The memory of a grid: one allocation.

use std::ops::Range;

use cuda_safe::{Access, DeviceBuffer, DeviceSliceMut, Error, Result, Stream};

use super::GridOptions;
use super::layout::{Header, point_size};
use crate::algorithms::{Buffers, Digits, Layout, RadixKey, with_pairs};
use crate::part::{Part, Parts, scratch};
use crate::points::MAX_POINTS;
use crate::real::Real;

/// The capacity of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) points: usize,
    /// Whether the host knows the bounds; keys then have 32 bits.
    pub(crate) bounded: bool,
    pub(crate) groups: u32,
}

/// The memory of a grid and the ranges of its parts.
#[derive(Debug)]
pub(crate) struct Memory {
    buffer: DeviceBuffer<u8>,
    pub(crate) capacity: Capacity,
    pub(crate) header: Range<usize>,
    pub(crate) points: Range<usize>,
    pub(crate) groups: Range<usize>,
    pub(crate) starts: Range<usize>,
    /// Keys, and indices of points, before and after each pass of the sort.
    pub(crate) keys: [Range<usize>; 2],
    pub(crate) indices: [Range<usize>; 2],
    pub(crate) table: Range<usize>,
    pub(crate) sort: Range<usize>,
    pub(crate) bounds: Range<usize>,
}

impl Capacity {
    /// Returns the capacity for `points` points.
    pub(crate) fn new<T: Real>(options: &GridOptions<T>, points: usize) -> Self {
        Self { points, bounded: options.bounds.is_some(), groups: options.groups }
    }

    /// Returns the most cells of all groups: two for each point.
    pub(crate) fn cells(&self) -> u32 {
        let cells = self.points.saturating_mul(2).max(1024).max(self.groups as usize);
        // Cell numbers have 31 bits.
        cells.min((1 << 31) - 2) as u32
    }

    /// Returns the size of the sort's state in bytes, for any number of key bits.
    fn sort(&self) -> Result<usize> {
        let mut words = 0;
        if self.bounded {
            for bits in 0..=u32::BITS {
                words = words.max(Layout::new::<u32>(self.points, Digits::new(0, bits))?.words());
            }
        } else {
            words = Layout::new::<u64>(self.points, Digits::new(0, u64::BITS))?.words();
        }
        Ok(4 * words)
    }

    /// Returns the bytes of a key.
    pub(crate) fn key_size(&self) -> usize {
        if self.bounded { 4 } else { 8 }
    }

    /// Returns the slots of the table of rows: a power of two, and at least twice the rows.
    pub(crate) fn slots(&self) -> usize {
        if self.bounded { 0 } else { self.points.max(16).next_power_of_two() * 2 }
    }
}

impl Memory {
    /// Allocates the memory on `stream`, with a header of no points.
    pub(crate) fn new<T: Real>(stream: &Stream, capacity: Capacity) -> Result<Self> {
        let n = capacity.points;
        if n > MAX_POINTS {
            return Err(Error::invalid(format!("{n} points; at most 2^30 are possible")));
        }
        let mut parts = Parts::default();
        let mut part = |bytes| parts.next(bytes);
        let key = capacity.key_size();
        let header = part(size_of::<Header<T>>());
        let points = part(n * point_size::<T>());
        let groups = part(if capacity.groups > 1 { n * 4 } else { 0 });
        let starts = part((capacity.cells() as usize + 1) * 4);
        let keys = [part(n * key), part(n * key)];
        let indices = [part(n * 4), part(n * 4)];
        let sort = part(capacity.sort()?);
        let table = part(capacity.slots() * 4);
        let bounds = part(if capacity.bounded { 0 } else { 6 * 8 });
        // SAFETY: a build writes every part except the header before anything reads it, and until then the header
        // says that there are no points.
        let mut buffer = unsafe { scratch::<u8>(stream, parts.end)? };
        buffer.slice_mut(header.clone())?.fill(stream, 0)?;
        Ok(Self {
            buffer,
            capacity,
            header,
            points,
            groups,
            starts,
            keys,
            indices,
            table,
            sort,
            bounds,
        })
    }

    /// Returns a part, to be read.
    pub(crate) fn read(&self, range: &Range<usize>) -> Part<'_> {
        self.part(range, Access::Read)
    }

    /// Returns a part, to be written.
    pub(crate) fn write(&self, range: &Range<usize>) -> Part<'_> {
        self.part(range, Access::Write)
    }

    fn part(&self, range: &Range<usize>, access: Access) -> Part<'_> {
        Part::of(&self.buffer, range.clone(), access)
    }

    /// Calls `sort` with the keys and indices of `n` points, two buffers of each, and the sort's state.
    pub(crate) fn with_pairs<K: RadixKey, R>(
        &mut self,
        n: usize,
        sort: impl FnOnce(&mut Buffers<'_, K>, &mut DeviceSliceMut<'_, u32>) -> Result<R>,
    ) -> Result<R> {
        with_pairs(&mut self.buffer, (&self.keys, &self.indices, &self.sort), n, sort)
    }

    /// Resets the bounds to those of no points.
    pub(crate) fn clear_bounds(&mut self, stream: &Stream) -> Result<()> {
        self.buffer.slice_mut(self.bounds.clone())?.fill(stream, 0xff)
    }

    pub(crate) fn buffer(&self) -> &DeviceBuffer<u8> {
        &self.buffer
    }

    /// Returns the bytes of device memory in all.
    pub(crate) fn bytes(&self) -> usize {
        self.buffer.size_bytes()
    }
}
