//! Copies of rectangles and boxes.

mod layout;
mod parts;

pub use layout::{Extent, PitchedLayout};

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytemuck::{AnyBitPattern, NoUninit};
use cuda_sys::{CUDA_MEMCPY3D, CUdeviceptr, CUmemorytype};

use self::parts::{Part, Pitches};
use super::{self as copy, DOWNLOAD_BLOCKS, InFlight};
use crate::error::{Error, Result};
use crate::memory::host::staging::{BLOCK_BYTES, StagingBlock};
use crate::memory::{Access, Allocation, DeviceSlice, DeviceSliceMut, enqueue};
use crate::stream::{Stream, StreamInner};

/// The widest pitch that drivers take in copies of boxes (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`).
const MOST_PITCH: usize = i32::MAX as usize;

/// The part that one call copies of rows that are farther apart than that.
const ROW_BYTES: usize = 1 << 30;

/// One end of a copy by the driver.
#[derive(Clone, Copy)]
struct End {
    place: Place,
    pitches: Pitches,
}

#[derive(Clone, Copy)]
enum Place {
    Device(CUdeviceptr),
    /// A block of the ring.
    Host(*mut u8),
}

impl End {
    fn device(address: CUdeviceptr, pitches: Pitches) -> Self {
        Self { place: Place::Device(address), pitches }
    }

    /// Creates a block that holds `part` without gaps.
    fn block(block: &StagingBlock, part: &Part) -> Self {
        let pitches = Pitches { row: part.width, slice: part.width * part.height };
        Self { place: Place::Host(block.start().as_ptr()), pitches }
    }

    fn offset(self, bytes: usize) -> Self {
        let place = match self.place {
            Place::Device(address) => Place::Device(address + bytes as u64),
            Place::Host(start) => Place::Host(start.wrapping_add(bytes)),
        };
        Self { place, ..self }
    }

    /// Returns memory type, address on the host, and address on the device.
    fn describe(self) -> (CUmemorytype, *mut c_void, CUdeviceptr) {
        match self.place {
            Place::Device(address) => {
                (CUmemorytype::CU_MEMORYTYPE_UNIFIED, std::ptr::null_mut(), address)
            }
            Place::Host(start) => (CUmemorytype::CU_MEMORYTYPE_HOST, start.cast(), 0),
        }
    }

    /// Returns whether slices are a whole number of rows apart, as the driver wants them.
    fn has_whole_slices(self) -> bool {
        self.pitches.slice.is_multiple_of(self.pitches.row)
    }
}

/// Enqueues the copy of a part, whose places are the ends' own: in one call if the driver can.
///
/// # Safety
/// Both ends must be memory that holds the part: the device's in allocations that the caller
/// holds, the host's untouched until the copy is done.
unsafe fn copy_part(inner: &StreamInner, to: End, from: End, part: &Part) -> Result<()> {
    let pieces = if to.pitches.row.max(from.pitches.row) > MOST_PITCH {
        part.rows(ROW_BYTES)
    } else if part.depth > 1 && !(to.has_whole_slices() && from.has_whole_slices()) {
        part.slices()
    } else {
        // SAFETY: the caller's promise.
        return unsafe { copy_piece(inner, to, from, part) };
    };
    for piece in pieces {
        let to = to.offset(piece.start(to.pitches));
        let from = from.offset(piece.start(from.pitches));
        // SAFETY: a piece lies in the part, and the caller's promise.
        unsafe { copy_piece(inner, to, from, &piece) }?;
    }
    Ok(())
}

/// One call of the driver.
///
/// # Safety
/// As [`copy_part`].
unsafe fn copy_piece(inner: &StreamInner, to: End, from: End, piece: &Part) -> Result<()> {
    // The driver may refuse a pitch even where it does not matter, so the width replaces it.
    let pitch = |end: End| if piece.rows_matter() { end.pitches.row } else { piece.width };
    let rows = |end: End| {
        if piece.depth > 1 { end.pitches.slice / end.pitches.row } else { piece.height }
    };
    let (from_kind, from_host, from_device) = from.describe();
    let (to_kind, to_host, to_device) = to.describe();
    let what = CUDA_MEMCPY3D {
        srcMemoryType: from_kind,
        srcHost: from_host.cast_const(),
        srcDevice: from_device,
        srcPitch: pitch(from),
        srcHeight: rows(from),
        dstMemoryType: to_kind,
        dstHost: to_host,
        dstDevice: to_device,
        dstPitch: pitch(to),
        dstHeight: rows(to),
        WidthInBytes: piece.width,
        Height: piece.height,
        Depth: piece.depth,
        ..CUDA_MEMCPY3D::default()
    };
    inner.copying(|| {
        // SAFETY: the caller's promise; the description is read before the call returns.
        unsafe { call!(inner, cuMemcpy3DAsync_v2(&raw const what, inner.raw)) }
    })
}

/// Returns the bytes from the first to the last of a box in `len` elements of `size` bytes, and its pitches.
fn side(
    layout: PitchedLayout,
    what: &str,
    extent: Extent,
    (len, size): (usize, usize),
) -> Result<(Range<usize>, Pitches)> {
    let elements = layout.span(what, extent, len)?;
    Ok((elements.start * size..elements.end * size, layout.to_bytes(extent, size)))
}

/// Returns device memory for a box without gaps, which no graph uses, and how the box lies in it. The box is known to
/// lie in a slice.
fn compact_scratch<T: Copy + 'static>(
    stream: &Stream,
    extent: Extent,
) -> Result<(Arc<Allocation>, PitchedLayout)> {
    let bytes = Part::whole(extent, size_of::<T>()).bytes();
    Ok((Allocation::new(stream, bytes)?, PitchedLayout::compact(extent)))
}

impl<T: Copy + 'static> DeviceSliceMut<'_, T> {
    /// Copies a rectangle or a box from the host, in `stream`'s order. Returns when `source` was
    /// read; elements of `self` outside of the box stay as they are.
    ///
    /// Other streams are ordered by the bytes from the box's first to its last: two boxes side by
    /// side in the same rows wait for each other.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, PitchedLayout, Result, Stream};
    /// # fn run(stream: &Stream, picture: &[f32]) -> Result<()> {
    /// // The 64 × 48 elements in the middle of a picture of 640 × 480, into rows of their own.
    /// let extent = (64, 48);
    /// let to = PitchedLayout::pitched::<f32>(extent);
    /// let from = PitchedLayout::compact((640, 480)).at(288, 216, 0);
    /// let mut part = DeviceBuffer::<f32>::zeroed(stream, to.len(extent)?)?;
    /// part.as_slice_mut().upload_3d(stream, to, picture, from, extent)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the box does not lie in both slices, or
    /// rows or slices overlap; otherwise the error that the driver returns.
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn upload_3d(
        &mut self,
        stream: &Stream,
        to: PitchedLayout,
        source: &[T],
        from: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()>
    where
        T: NoUninit,
    {
        let (extent, size) = (extent.into(), size_of::<T>());
        if extent.is_empty() || size == 0 {
            return Ok(());
        }
        if self.allocation().is_captured() {
            // The graph lock must not be held during a wait for the device; see `copy/graph_memory.rs`.
            to.span("device", extent, self.len())?;
            let (scratch, compact) = compact_scratch::<T>(stream, extent)?;
            let mut whole = DeviceSliceMut::new(&scratch, 0, scratch.size_bytes() / size);
            whole.upload_3d(stream, compact, source, from, extent)?;
            return self.copy_3d_from(stream, to, whole.as_slice(), compact, extent);
        }
        let (written, to) = side(to, "device", extent, (self.len(), size))?;
        let (read, from) = side(from, "host", extent, (source.len(), size))?;
        let source = &bytemuck::cast_slice::<T, u8>(source)[read];
        let whole = Part::whole(extent, size);
        let view = self.as_slice();
        let start = view.byte_range().start;
        let range = start + written.start..start + written.end;
        if source.len() == whole.bytes() && range.len() == whole.bytes() {
            return copy::upload(stream, view.allocation(), range.start, source);
        }
        stream.inner().not_capturing("an upload of a box")?;
        let address = view.device_ptr() + written.start as u64;
        enqueue(stream, [(view.allocation(), range, Access::Write)], |inner| {
            count_staged(inner, &whole);
            for part in whole.pieces(BLOCK_BYTES) {
                let block = inner.context.staging.acquire(&inner.context)?;
                gather(&block, source, part.runs(from));
                let address = address + part.start(to) as u64;
                let device = End::device(address, to);
                // SAFETY: the part lies in the box, which lies in the allocation; the block has room
                // for it and stays untouched until its event, recorded next, is done.
                let copied = unsafe { copy_part(inner, device, End::block(&block, &part), &part) };
                // The block is retired even after a failure: the copy may have been enqueued nevertheless.
                inner.context.staging.retire(inner, block);
                copied?;
            }
            Ok(())
        })
    }

    /// Copies a rectangle or a box from elsewhere on the device, in `stream`'s order: one call of
    /// the driver, or one for each slice where slices are not a whole number of rows apart.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the box does not lie in both views, rows
    /// or slices overlap, or the bytes from the first to the last of one box overlap those of the
    /// other; otherwise the error that the driver returns.
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn copy_3d_from<'b>(
        &mut self,
        stream: &Stream,
        to: PitchedLayout,
        source: impl Into<DeviceSlice<'b, T>>,
        from: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()> {
        let (source, view) = (source.into(), self.as_slice());
        let (extent, size) = (extent.into(), size_of::<T>());
        if extent.is_empty() || size == 0 {
            return Ok(());
        }
        let (written, to) = side(to, "destination", extent, (view.len(), size))?;
        let (read, from) = side(from, "source", extent, (source.len(), size))?;
        let whole = Part::whole(extent, size);
        let (to_address, to_bytes) = (view.device_ptr() + written.start as u64, written.len());
        let (from_address, from_bytes) = (source.device_ptr() + read.start as u64, read.len());
        if to_address < from_address + from_bytes as u64
            && from_address < to_address + to_bytes as u64
        {
            return Err(Error::invalid("the source and the destination of the copy overlap"));
        }
        let (to_start, from_start) = (view.byte_range().start, source.byte_range().start);
        let written = to_start + written.start..to_start + written.end;
        let read = from_start + read.start..from_start + read.end;
        if to_bytes == whole.bytes() && from_bytes == whole.bytes() {
            let to = (view.allocation(), written.start);
            let from = (source.allocation(), read.start);
            return copy::copy_on_device(stream, to, from, to_bytes);
        }
        let uses = [
            (source.allocation(), read, Access::Read),
            (view.allocation(), written, Access::Write),
        ];
        enqueue(stream, uses, |inner| {
            let (to, from) = (End::device(to_address, to), End::device(from_address, from));
            // SAFETY: both boxes lie in allocations that the caller holds.
            unsafe { copy_part(inner, to, from, &whole) }
        })
    }
}

impl<T: Copy + 'static> DeviceSlice<'_, T> {
    /// Copies a rectangle or a box to the host. Waits until it is written; elements of `target`
    /// outside of the box stay as they are.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the box does not lie in both slices, or
    /// rows or slices overlap; otherwise the error that the driver returns, or the error of earlier work on
    /// the stream.
    #[doc(alias = "cuMemcpy2D")]
    #[doc(alias = "cuMemcpy3D")]
    pub fn download_3d(
        &self,
        stream: &Stream,
        from: PitchedLayout,
        target: &mut [T],
        to: PitchedLayout,
        extent: impl Into<Extent>,
    ) -> Result<()>
    where
        T: AnyBitPattern,
    {
        let (extent, size) = (extent.into(), size_of::<T>());
        if extent.is_empty() || size == 0 {
            return Ok(());
        }
        if self.allocation().is_captured() {
            // As in `upload_3d`.
            from.span("device", extent, self.len())?;
            let (scratch, compact) = compact_scratch::<T>(stream, extent)?;
            let mut whole = DeviceSliceMut::new(&scratch, 0, scratch.size_bytes() / size);
            whole.copy_3d_from(stream, compact, *self, from, extent)?;
            return whole.as_slice().download_3d(stream, compact, target, to, extent);
        }
        let (read, from) = side(from, "device", extent, (self.len(), size))?;
        let (written, to) = side(to, "host", extent, (target.len(), size))?;
        let target = &mut copy::Target::of(target).bytes[written];
        let whole = Part::whole(extent, size);
        let start = self.byte_range().start;
        let range = start + read.start..start + read.end;
        if target.len() == whole.bytes() && range.len() == whole.bytes() {
            let target = copy::Target { bytes: target, fresh: false };
            return copy::download(stream, self.allocation(), range.start, target);
        }
        stream.inner().not_capturing("a download")?;
        let address = self.device_ptr() + read.start as u64;
        enqueue(stream, [(self.allocation(), range, Access::Read)], |inner| {
            count_staged(inner, &whole);
            // All work numbered by now comes before the copy, so it is done when the copy is.
            let before = inner.enqueued();
            let mut in_flight = InFlight::new(inner);
            let mut parts = whole.pieces(BLOCK_BYTES);
            loop {
                while in_flight.len() < DOWNLOAD_BLOCKS
                    && let Some(part) = parts.next()
                {
                    let block = inner.context.staging.acquire(&inner.context)?;
                    let address = address + part.start(from) as u64;
                    let device = End::device(address, from);
                    // SAFETY: as in `upload_3d`.
                    let copied =
                        unsafe { copy_part(inner, End::block(&block, &part), device, &part) };
                    in_flight.push(block, part, copied)?;
                }
                let Some((block, part)) = in_flight.wait_for_oldest()? else { break };
                scatter(&block, target, part.runs(to));
                inner.context.staging.release(block);
            }
            inner.complete(before);
            inner.context.check_fault()
        })
    }
}

fn count_staged(inner: &StreamInner, whole: &Part) {
    inner.context.counters.staged_bytes.fetch_add(whole.bytes() as u64, Ordering::Relaxed);
}

/// Copies the runs of `source`, one behind the other, into a block.
fn gather(block: &StagingBlock, source: &[u8], runs: impl Iterator<Item = Range<usize>>) {
    for (at, run) in in_block(runs) {
        let from = &source[run];
        // SAFETY: this ends within the block, as `in_block` says, which is ours alone and overlaps no
        // slice of a caller's.
        unsafe {
            let to = block.start().as_ptr().add(at);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
    }
}

/// Copies a block that the device has written to the runs of `target`.
fn scatter(
    block: &StagingBlock,
    target: &mut [MaybeUninit<u8>],
    runs: impl Iterator<Item = Range<usize>>,
) {
    for (at, run) in in_block(runs) {
        let to = &mut target[run];
        // SAFETY: as in `gather`; the device has written these bytes of the block.
        unsafe {
            let from = block.start().as_ptr().add(at).cast_const();
            std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().cast(), to.len());
        }
    }
}

/// Returns each run of a piece, and where it lies in a block. A piece has at most `BLOCK_BYTES` bytes in all its runs.
fn in_block(
    runs: impl Iterator<Item = Range<usize>>,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    runs.scan(0, |end, run| {
        let at = *end;
        *end += run.len();
        debug_assert!(*end <= BLOCK_BYTES);
        Some((at, run))
    })
}
