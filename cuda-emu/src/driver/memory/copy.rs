//! Copies: between any two places, at once or in a stream's order.

use core::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{CUcontext, CUdeviceptr, CUmemcpyAttributes, CUresult, CUstream};

use crate::driver::call::{Answer, functions, process};
use crate::driver::objects::number;
use crate::driver::process::{Process, State};
use crate::driver::stream::work::{Copy, Source, Work, host};
use crate::space::Kind;

/// The kind of an address, as the call declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::driver) enum Side {
    /// Memory that the driver knows.
    Device,
    /// Any memory of the host.
    Host,
}

/// The actual kind of an address.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The side's entry in the table, so that it can be checked again when the copy is made.
    known: bool,
    /// The host's own memory: pinned, registered, managed, or pageable.
    of_host: bool,
}

fn place(process: &Process, address: u64, extent: u64, side: Side) -> Answer<Place> {
    match process.space.find_known(address) {
        Some(region) if region.holds(address, extent) => {
            Ok(Place { known: true, of_host: region.kind.on_host() })
        }
        // Host memory lies neither past the end of the driver's regions nor in their gaps.
        None if side == Side::Host && address != 0 && !process.space.is_reserved(address) => {
            Ok(Place { known: false, of_host: true })
        }
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

/// Returns a copy of one row.
pub(in crate::driver) fn row(from: u64, to: u64, bytes: usize) -> Copy {
    Copy {
        from: Source::At(from, false),
        to,
        to_device: false,
        width: bytes,
        rows: 1,
        slices: 1,
        from_pitch: (bytes, bytes),
        to_pitch: (bytes, bytes),
    }
}

/// Checks a copy and says what of its memory is in the table, and whether the source or the
/// destination is pageable, and whether one of them is the host's.
pub(in crate::driver) fn check(
    process: &Process,
    copy: &mut Copy,
    from_side: Side,
    to_side: Side,
) -> Answer<(bool, bool, bool)> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let from_extent = copy.extent(copy.from_pitch).ok_or(invalid)?;
    let to_extent = copy.extent(copy.to_pitch).ok_or(invalid)?;
    let Source::At(start, known) = &mut copy.from else { return Err(invalid) };
    let from = place(process, *start, from_extent, from_side)?;
    let to = place(process, copy.to, to_extent, to_side)?;
    *known = from.known;
    copy.to_device = to.known;
    Ok((!from.known, !to.known, from.of_host || to.of_host))
}

/// Returns the present contents of a pageable source.
fn snapshot(copy: &Copy, start: u64) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(copy.width * copy.rows * copy.slices);
    for slice in 0..copy.slices {
        for row in 0..copy.rows {
            let offset = slice * copy.from_pitch.1 + row * copy.from_pitch.0;
            let from = host::<u8>(start).cast_const().wrapping_add(offset);
            // SAFETY: the caller gave this memory to be read, for the extent that was checked.
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(from, copy.width) });
        }
    }
    bytes.into()
}

impl State {
    /// Fails for a node that copies between pool memory of two devices, neither of which has access to the other's:
    /// such a graph can't be instantiated (two H100s, driver 580).
    pub(in crate::driver) fn copy_is_possible(&self, process: &Process, copy: &Copy) -> Answer {
        let Source::At(from, _) = copy.from else { return Ok(()) };
        // The device of pool memory, and whether the other device has access to it.
        let pooled = |address| {
            let region = process.space.find_known(address)?;
            let known = self.objects.allocations.get(&region.start)?;
            (known.kind == Kind::Pool).then_some((region.device, known.pool))
        };
        let (Some(from), Some(to)) = (pooled(from), pooled(copy.to)) else { return Ok(()) };
        let may = |device: u32, pool: u64| {
            let pool = self.objects.pools.get(pool);
            pool.is_ok_and(|pool| pool.access.get(&device).copied().unwrap_or(0) != 0)
        };
        match from.0 == to.0 || may(from.0, to.1) || may(to.0, from.1) {
            true => Ok(()),
            false => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    /// Fails if a context of another device is current on this thread, and one side of the copy is
    /// memory of a pool to which that device has no access.
    ///
    /// So does the driver for copies in a stream's order, whatever device the stream belongs to
    /// (two H200s, driver 580). It takes them with no context current, and it takes launches,
    /// memsets and frees, and copies that name the contexts.
    fn reached_by_current(&self, process: &Process, copy: &Copy) -> Answer {
        let Ok((_, device)) = self.current_device() else { return Ok(()) };
        let from = if let Source::At(start, _) = copy.from { Some(start) } else { None };
        for address in from.into_iter().chain([copy.to]) {
            let Some(region) = process.space.find_known(address) else { continue };
            let known = self.objects.allocations.get(&region.start);
            let Some(known) = known.filter(|known| known.kind == Kind::Pool) else { continue };
            let pool = self.objects.pools.get(known.pool);
            let access = pool.ok().and_then(|pool| pool.access.get(&device).copied());
            if region.device != device && access.unwrap_or(0) == 0 {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
        }
        Ok(())
    }
}

/// Makes a copy, or enqueues it on a stream if there is one.
pub(in crate::driver) fn copy(
    copy: Copy,
    from: Side,
    to: Side,
    stream: Option<CUstream>,
) -> Answer {
    if stream.is_some() && !copy.is_empty() {
        let process = process()?;
        process.lock().reached_by_current(process, &copy)?;
    }
    copy_between(copy, from, to, stream)
}

/// As [`copy`], for calls that name the contexts: the current context does not matter.
pub(in crate::driver) fn copy_between(
    mut copy: Copy,
    from: Side,
    to: Side,
    stream: Option<CUstream>,
) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let number = match stream {
        Some(stream) => state.stream(stream)?,
        None => {
            state.current()?;
            state.forbidden_in_capture()?;
            state.stream(core::ptr::null_mut())?
        }
    };
    if copy.is_empty() {
        return Ok(());
    }
    let (from_pageable, to_pageable, with_host) = check(process, &mut copy, from, to)?;
    let captures = state.objects.streams.get(number)?.capture.is_some();
    if let Source::At(start, false) = copy.from
        && from_pageable
        && stream.is_some()
        && !captures
    {
        // The driver reads pageable memory before it returns.
        copy.from = Source::Bytes(snapshot(&copy, start));
        copy.from_pitch = (copy.width, copy.width * copy.rows);
    }
    let done = state.submit(number, Work::Copy(copy), 0)?;
    process.kick();
    // A call that only copies on the device does not wait, and neither does one with a stream,
    // unless it writes pageable memory.
    let waits = if stream.is_some() { to_pageable && !captures } else { with_host };
    if waits {
        drop(process.wait_for(state, &[done])?);
    }
    Ok(())
}

fn upload(to: u64, from: *const c_void, bytes: usize, stream: Option<CUstream>) -> Answer {
    let from = from.expose_provenance() as u64;
    copy(row(from, to, bytes), Side::Host, Side::Device, stream)
}

fn download(to: *mut c_void, from: u64, bytes: usize, stream: Option<CUstream>) -> Answer {
    let to = to.expose_provenance() as u64;
    copy(row(from, to, bytes), Side::Device, Side::Host, stream)
}

fn on_device(to: u64, from: u64, bytes: usize, stream: Option<CUstream>) -> Answer {
    copy(row(from, to, bytes), Side::Device, Side::Device, stream)
}

fn anywhere(to: u64, from: u64, bytes: usize, stream: Option<CUstream>) -> Answer {
    copy(row(from, to, bytes), Side::Host, Side::Host, stream)
}

/// Fails, and spoils the capture, on a stream that captures.
pub(in crate::driver) fn not_captured(stream: CUstream) -> Answer {
    let mut state = process()?.lock();
    let stream = state.stream(stream)?;
    state.no_peer_copy_in_capture(stream)
}

/// Fails unless both contexts exist.
fn contexts(one: CUcontext, other: CUcontext) -> Answer {
    let state = process()?.lock();
    state.objects.contexts.get(number(one))?;
    state.objects.contexts.get(number(other)).map(drop)
}

functions! {
    Device fn cuMemcpyHtoD_v2(to: CUdeviceptr, from: *const c_void, bytes: usize) {
        upload(to, from, bytes, None)
    }
    Device fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream
    ) { upload(to, from, bytes, Some(stream)) }
    Device fn cuMemcpyDtoH_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize) {
        download(to, from, bytes, None)
    }
    Device fn cuMemcpyDtoHAsync_v2(
        to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream
    ) { download(to, from, bytes, Some(stream)) }
    Device fn cuMemcpyDtoD_v2(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        on_device(to, from, bytes, None)
    }
    Device fn cuMemcpyDtoDAsync_v2(
        to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream
    ) { on_device(to, from, bytes, Some(stream)) }
    Device fn cuMemcpy(to: CUdeviceptr, from: CUdeviceptr, bytes: usize) {
        anywhere(to, from, bytes, None)
    }
    Device fn cuMemcpyAsync(to: CUdeviceptr, from: CUdeviceptr, bytes: usize, stream: CUstream) {
        anywhere(to, from, bytes, Some(stream))
    }
    Device fn cuMemcpyPeer(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        bytes: usize
    ) {
        contexts(to_context, from_context)?;
        copy_between(row(from, to, bytes), Side::Device, Side::Device, None)
    }
    Device fn cuMemcpyPeerAsync(
        to: CUdeviceptr, to_context: CUcontext, from: CUdeviceptr, from_context: CUcontext,
        bytes: usize, stream: CUstream
    ) {
        contexts(to_context, from_context)?;
        not_captured(stream)?;
        copy_between(row(from, to, bytes), Side::Device, Side::Device, Some(stream))
    }
    Device fn cuMemcpyBatchAsync_v2(
        to: *mut CUdeviceptr, from: *mut CUdeviceptr, bytes: *mut usize, count: usize,
        _attributes: *mut CUmemcpyAttributes, _indices: *mut usize, _attribute_count: usize,
        stream: CUstream
    ) {
        // The special streams take no batches.
        if count == 0 || to.is_null() || from.is_null() || bytes.is_null() || stream.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..count {
            let (to, from) = (to.add(index).read(), from.add(index).read());
            anywhere(to, from, bytes.add(index).read(), Some(stream))?;
        }
        Ok(())
    }
}
