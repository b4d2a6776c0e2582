//! Memory for this crate's own kernels, and ranges of buffers as kernel arguments.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceSlice, DeviceSliceMut, GraphLock, KernelArg, Result,
    Stream,
    arg::{ArgType, UseVisitor},
};

/// Allocates memory with any contents.
///
/// # Safety
/// Every byte is written before it is read.
pub(crate) unsafe fn scratch<T: Pod>(stream: &Stream, n: usize) -> Result<DeviceBuffer<T>> {
    let buffer = DeviceBuffer::<MaybeUninit<T>>::uninit(stream, n)?;
    // SAFETY: any bits are a valid `T`; for the rest the caller takes care.
    Ok(unsafe { buffer.assume_init() })
}

/// Allocates memory on `home` that work on `stream` writes, for later work that may be in another graph.
///
/// # Safety
/// Work enqueued on `stream` writes all of it. (If a graph that writes it does not run, the memory is zero.)
pub(crate) unsafe fn kept_scratch<T: Pod>(
    stream: &Stream,
    home: &Stream,
    n: usize,
) -> Result<DeviceBuffer<T>> {
    if stream.is_recording() {
        return DeviceBuffer::zeroed(home, n);
    }
    // SAFETY: the caller's promise.
    unsafe { scratch(home, n) }
}

/// Groups several enqueues that pass data on in `memory`, or read it more than once. No user code runs between them,
/// so conversions to views come before.
pub(crate) fn enqueues<'s, 'm>(
    stream: &'s Stream,
    memory: impl IntoIterator<Item = &'m Arc<Allocation>>,
) -> Enqueues<'s> {
    Enqueues { stream, lock: stream.graph_lock(memory) }
}

/// Enqueues that belong together; [`enqueues`] creates it.
#[must_use = "they do nothing before `run`"]
pub(crate) struct Enqueues<'s> {
    stream: &'s Stream,
    lock: GraphLock<'s>,
}

impl Enqueues<'_> {
    /// Runs `enqueue` as [`GraphLock::run`] does. In a graph its last node can't be changed afterwards: a changed
    /// node could leave memory incomplete that later launches rely on.
    pub(crate) fn run<T>(self, enqueue: impl FnOnce() -> Result<T>) -> Result<T> {
        let Self { stream, lock } = self;
        let done = lock.run(enqueue);
        stream.freeze_last_node();
        done
    }
}

/// Reports that a whole view is read.
pub(crate) fn read<T: Copy + 'static, V: UseVisitor>(
    visitor: &mut V,
    view: &DeviceSlice<'_, T>,
) -> Result<()> {
    visitor.visit(view.allocation(), view.byte_range(), Access::Read)
}

/// The layout of consecutive parts of one allocation.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The end of the last part, in bytes.
    pub(crate) end: usize,
}

impl Parts {
    /// Places the next `n` elements at a multiple of 256 bytes.
    pub(crate) fn take<T>(&mut self, n: usize) -> Range<usize> {
        self.next(n.saturating_mul(size_of::<T>()))
    }

    /// Places the next part at a multiple of 256 bytes.
    pub(crate) fn next(&mut self, bytes: usize) -> Range<usize> {
        let begin = self.end;
        let end = begin.saturating_add(bytes);
        self.end = end.checked_next_multiple_of(256).unwrap_or(usize::MAX);
        begin..end
    }
}

/// A range of bytes of a buffer, as a pointer parameter.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    buffer: Option<&'a DeviceBuffer<u8>>,
    range: Range<usize>,
    access: Access,
}

impl<'a> Part<'a> {
    /// Returns a range of bytes of a buffer, or a null pointer if the range is empty or ends beyond the buffer.
    pub(crate) fn of(buffer: &'a DeviceBuffer<u8>, range: Range<usize>, access: Access) -> Self {
        let inside = !range.is_empty() && range.end <= buffer.len();
        Self { buffer: inside.then_some(buffer), range, access }
    }

    pub(crate) fn address(&self) -> u64 {
        self.buffer.map_or(0, |buffer| buffer.device_ptr() + self.range.start as u64)
    }
}

// SAFETY: the kernel reaches at most the range, which lies in the buffer (`Part::of`), in the way
// reported; nothing through a null pointer.
unsafe impl KernelArg for Part<'_> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.address()
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Some(buffer) = self.buffer else {
            return Ok(());
        };
        let start = buffer.byte_range().start;
        let range = start + self.range.start..start + self.range.end;
        visitor.visit(buffer.allocation(), range, self.access)
    }
}

/// An optional view for reading, as a pointer parameter that is null without it.
#[derive(Debug)]
pub(crate) struct Maybe<'a, T>(pub(crate) Option<DeviceSlice<'a, T>>);

/// An optional view for writing, as a pointer parameter that is null without it.
#[derive(Debug)]
pub(crate) struct MaybeMut<'a, T>(pub(crate) Option<DeviceSliceMut<'a, T>>);

impl<'a, T: Copy + 'static> MaybeMut<'a, T> {
    /// Returns a range of a view, if there is one.
    pub(crate) fn part(
        view: &'a mut Option<DeviceSliceMut<'_, T>>,
        range: Range<usize>,
    ) -> Result<Self> {
        Ok(Self(view.as_mut().map(|view| view.slice_mut(range)).transpose()?))
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }
}

// SAFETY: the kernel reads only the view, and nothing through a null pointer.
unsafe impl<T: Copy + 'static> KernelArg for Maybe<'_, T> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.0.map_or(0, |view| view.device_ptr())
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        self.0.as_ref().map_or(Ok(()), |view| read(visitor, view))
    }
}

// SAFETY: the kernel reaches only the view, and nothing through a null pointer.
unsafe impl<T: Copy + 'static> KernelArg for MaybeMut<'_, T> {
    type Abi = u64;
    const TYPE: ArgType = ArgType::value::<u64>();

    fn abi(&self) -> u64 {
        self.0.as_ref().map_or(0, DeviceSliceMut::device_ptr)
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let Some(view) = &self.0 else { return Ok(()) };
        visitor.visit(view.allocation(), view.byte_range(), Access::Write)
    }
}
