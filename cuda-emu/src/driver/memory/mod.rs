//! Memory that is allocated and freed at once: device, managed, pinned and registered.

pub(super) mod advice;
pub(super) mod copy;
pub(super) mod copy_shaped;
pub(super) mod fill;
pub(super) mod ipc;
pub(super) mod pointer;
pub(super) mod pool;
pub(super) mod pool_location;

use core::ffi::{c_uint, c_void};

use cuda_sys::{
    CUcontext, CUdeviceptr, CUflushGPUDirectRDMAWritesScope, CUflushGPUDirectRDMAWritesTarget,
    CUresult,
};

use super::call::{self, Answer, functions, process, put, put_if_wanted};
use super::objects::{Allocation, number};
use super::process::{Locked, Process, State};
use super::stream::work::host;
use crate::space::Kind;

/// The alignment of the driver's allocations: that of textures of linear memory.
pub(super) const ALIGN: u64 = 512;
const PAGE: u64 = 4096;
/// Allocations from this size on begin at a page. Drivers give large ones whole pages, and some programs rely on it.
const LARGE: u64 = 2 << 20;

impl State {
    /// Allocates memory that belongs to a context.
    pub(super) fn allocate(
        &mut self,
        process: &Process,
        context: u64,
        bytes: usize,
        kind: Kind,
        flags: u32,
    ) -> Answer<u64> {
        if bytes == 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let device = self.objects.contexts.get(context)?.device;
        let bytes = bytes as u64;
        let align = if kind.on_host() || bytes >= LARGE { PAGE } else { ALIGN };
        let taken = process.space.used(device).saturating_add(self.kept(device, 0));
        if kind.on_device() && taken.saturating_add(bytes) > process.config.memory {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let start = process
            .space
            .allocate(bytes, align, kind, device)
            .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        self.objects.allocations.insert(start, Allocation::new(context, kind, bytes, flags));
        Ok(start)
    }
}

impl Allocation {
    pub(super) fn new(context: u64, kind: Kind, bytes: u64, flags: u32) -> Self {
        let (pool, freed, sync_memops, made) = (0, false, false, call::made());
        Self { context, kind, bytes, pool, flags, freed, sync_memops, made }
    }
}

/// Waits for all work of the device that a context belongs to.
pub(super) fn wait_for_device<'a>(
    process: &'a Process,
    state: Locked<'a>,
    context: u64,
) -> Answer<Locked<'a>> {
    let device = state.objects.contexts.get(context)?.device;
    let contexts = state.objects.contexts.iter();
    let contexts: Vec<u64> =
        contexts.filter(|(_, known)| known.device == device).map(|(context, _)| context).collect();
    let pending: Vec<u64> =
        contexts.iter().flat_map(|&context| state.engine.pending(Some(context))).collect();
    process.wait_for(state, &pending)
}

/// Frees what starts here, if it is of one of these kinds, after waiting for the device.
fn free(address: u64, kinds: &[Kind], unknown: CUresult) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    state.current()?;
    if let Some(memory) = state.objects.outstanding.get(&address).cloned()
        && kinds.contains(&Kind::Pool)
    {
        // Memory of a graph: the host waits before it frees it.
        state.forbidden_in_capture()?;
        let context = state.current()?;
        state = wait_for_device(process, state, context)?;
        state.objects.outstanding.remove(&address);
        drop(state);
        memory.clear();
        return Ok(());
    }
    let known = state.objects.allocations.get(&address).copied();
    // Memory of a pool is the pool's, wherever it lies.
    let kind = |known: &Allocation| if known.pool == 0 { known.kind } else { Kind::Pool };
    let allocation =
        known.filter(|known| kinds.contains(&kind(known)) && !known.freed).ok_or(unknown)?;
    state.forbidden_in_capture()?;
    if allocation.kind != Kind::Pool {
        state = wait_for_device(process, state, allocation.context)?;
    }
    if state.objects.allocations.remove(&address).is_none() {
        return Err(unknown);
    }
    state.count_pool(allocation.pool, allocation.bytes, false);
    drop(state);
    process.space.free(address);
    Ok(())
}

/// # Safety
/// `memory` is null or valid for the write.
unsafe fn allocate_pinned(memory: *mut *mut c_void, bytes: usize, flags: c_uint) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let context = state.current()?;
    if flags > 7 || memory.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.forbidden_in_capture()?;
    let start = state.allocate(process, context, bytes, Kind::Pinned, flags)?;
    // SAFETY: not null, and the caller's promise.
    unsafe { put(memory, host(start)) }
}

fn register(memory: *mut c_void, bytes: usize, flags: c_uint) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let (context, device) = state.current_device()?;
    if flags > 15 || memory.is_null() || bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.forbidden_in_capture()?;
    let start = memory.expose_provenance() as u64;
    let adopted = process.space.adopt(start, bytes as u64, Kind::Registered, device);
    let region = adopted.map_err(|_| CUresult::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)?;
    let allocation = Allocation::new(context, Kind::Registered, region.bytes(), flags);
    state.objects.allocations.insert(start, allocation);
    Ok(())
}

functions! {
    Device fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let process = process()?;
        let state = process.lock();
        let (_, device) = state.current_device()?;
        let all = process.config.memory;
        let taken = process.space.used(device).saturating_add(state.kept(device, 0));
        put_if_wanted(free, all.saturating_sub(taken) as usize);
        put_if_wanted(total, all as usize);
        Ok(())
    }
    Device fn cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        if address.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        state.forbidden_in_capture()?;
        put(address, state.allocate(process, context, bytes, Kind::Device, 0)?)
    }
    Device fn cuMemAllocPitch_v2(
        address: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: c_uint
    ) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        if address.is_null() || pitch.is_null() || ![4, 8, 16].contains(&element) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        state.forbidden_in_capture()?;
        let row = width.checked_next_multiple_of(512).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let bytes = row.checked_mul(height).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        put(address, state.allocate(process, context, bytes, Kind::Device, 0)?)?;
        put(pitch, row)
    }
    Device fn cuMemAllocManaged(address: *mut CUdeviceptr, bytes: usize, flags: c_uint) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        // Flag 1 attaches to all streams, 2 to the host.
        if address.is_null() || ![1, 2].contains(&flags) {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        state.forbidden_in_capture()?;
        put(address, state.allocate(process, context, bytes, Kind::Managed, flags)?)
    }
    Device fn cuMemFree_v2(address: CUdeviceptr) {
        let kinds = [Kind::Device, Kind::Managed, Kind::Pool];
        free(address, &kinds, CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuMemGetAddressRange_v2(
        base: *mut CUdeviceptr, bytes: *mut usize, address: CUdeviceptr
    ) {
        let process = process()?;
        process.lock().current()?;
        let region = process.space.find_known(address).ok_or(CUresult::CUDA_ERROR_NOT_FOUND)?;
        put_if_wanted(base, region.start);
        put_if_wanted(bytes, region.bytes() as usize);
        Ok(())
    }

    Device fn cuMemHostAlloc(memory: *mut *mut c_void, bytes: usize, flags: c_uint) {
        allocate_pinned(memory, bytes, flags)
    }
    Device fn cuMemAllocHost_v2(memory: *mut *mut c_void, bytes: usize) {
        allocate_pinned(memory, bytes, 0)
    }
    Device fn cuMemFreeHost(memory: *mut c_void) {
        free(memory.addr() as u64, &[Kind::Pinned], CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuMemHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint) {
        register(memory, bytes, flags)
    }
    Device fn cuMemHostRegister_v2(memory: *mut c_void, bytes: usize, flags: c_uint) {
        register(memory, bytes, flags)
    }
    Device fn cuMemHostUnregister(memory: *mut c_void) {
        let unknown = CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
        free(memory.addr() as u64, &[Kind::Registered], unknown)
    }
    Device fn cuMemHostGetDevicePointer_v2(
        address: *mut CUdeviceptr, memory: *mut c_void, flags: c_uint
    ) {
        let process = process()?;
        process.lock().current()?;
        let found = process.space.find(memory.addr() as u64);
        match found {
            Some(region) if region.kind.on_host() && flags == 0 => {
                put(address, memory.addr() as u64)
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuMemHostGetFlags(flags: *mut c_uint, memory: *mut c_void) {
        let process = process()?;
        let region = process.space.find(memory.addr() as u64);
        let region = region.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        let state = process.lock();
        let known = state.objects.allocations.get(&region.start);
        match known {
            // All such memory is mapped, with or without the flag.
            Some(known) if known.kind.on_host() => put(flags, known.flags | 2),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }

    Device fn cuCtxEnablePeerAccess(peer: CUcontext, flags: c_uint) {
        let mut state = process()?.lock();
        let (context, device) = state.current_device()?;
        let peer = number(peer);
        if flags != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if state.objects.contexts.get(peer)?.device == device {
            return Err(CUresult::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
        }
        match state.objects.contexts.get_mut(context)?.peers.insert(peer) {
            true => Ok(()),
            false => Err(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED),
        }
    }
    Device fn cuCtxDisablePeerAccess(peer: CUcontext) {
        let mut state = process()?.lock();
        let context = state.current()?;
        let peer = number(peer);
        match state.objects.contexts.get_mut(context)?.peers.remove(&peer) {
            true => Ok(()),
            false => Err(CUresult::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED),
        }
    }
    Device fn cuFlushGPUDirectRDMAWrites(
        _target: CUflushGPUDirectRDMAWritesTarget,
        _scope: CUflushGPUDirectRDMAWritesScope
    ) { process()?.lock().current().map(drop) }
}
