//! The source of device memory: a separate pool, or `cuMemAlloc` where there are no pools.

use std::sync::atomic::{AtomicPtr, Ordering};

use cuda_sys::{
    CUdevice, CUdevice_attribute, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc,
    CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemPool_attribute, CUmemPoolHandle_st,
    CUmemPoolProps, CUmemoryPool, CUstream,
};

use super::allocation::Kind;
use crate::context::{ContextInner, MemoryInfo};
use crate::device::Device;
use crate::driver::DeviceState;
use crate::error::{Error, ErrorKind, Result};
use crate::stream::StreamInner;

/// The memory pool of a context. It is separate from the default pool, so that its settings and its trimming affect no
/// other code.
///
/// A CUmemoryPool may be used from any thread; the driver locks it itself.
pub(crate) struct ContextPool {
    /// Null on devices without pools, and once the pool was destroyed.
    raw: AtomicPtr<CUmemPoolHandle_st>,
}

impl ContextPool {
    pub(crate) fn new(device: Device) -> Result<Self> {
        let state = device.state();
        if !are_there(device)? {
            return Ok(Self { raw: AtomicPtr::new(std::ptr::null_mut()) });
        }

        let raw = create(state)?;
        let pool = Self { raw: AtomicPtr::new(raw) };
        // Without a threshold every synchronisation gives the memory back to the system, and the
        // next allocation is as slow as the first.
        if let Err(error) = pool.apply_threshold(state, u64::MAX) {
            if state.is_usable() {
                pool.abandon(state);
            }
            return Err(error);
        }
        Ok(pool)
    }

    /// Allocates `bytes` in the stream's order. Out of memory, the pool gives what it holds back
    /// to the system and the allocation is tried once more.
    pub(super) fn allocate(
        &self,
        stream: &StreamInner,
        bytes: usize,
    ) -> Result<(CUdeviceptr, Kind)> {
        let context = &stream.context;
        let Some(pool) = self.handle() else {
            return Ok((allocate_blocking(stream, bytes)?, Kind::Blocking));
        };
        let start = allocate_from(pool, stream, bytes, || self.trim(context, 0))?;
        Ok((start, Kind::Pooled))
    }

    /// Allocates zeros in the stream's order, to be [freed](Self::free) there; `None` on devices without pools.
    #[cfg(feature = "rust-kernels")]
    pub(crate) fn zeroed(&self, stream: &StreamInner, bytes: usize) -> Result<Option<CUdeviceptr>> {
        let Some(pool) = self.handle() else { return Ok(None) };
        let start = allocate_from(pool, stream, bytes, || self.trim(&stream.context, 0))?;
        // SAFETY: the memory was just allocated in the stream's order.
        if let Err(error) = unsafe { call!(stream, cuMemsetD8Async(start, 0, bytes, stream.raw)) } {
            // SAFETY: as above, and nothing uses it.
            stream.context.keep_drop_result(unsafe { self.free(stream, start) });
            return Err(error);
        }
        Ok(Some(start))
    }

    /// Frees memory in the stream's order.
    ///
    /// # Safety
    /// `start` is from [`zeroed`](Self::zeroed) on this stream, and work that uses it was enqueued there before.
    #[cfg(feature = "rust-kernels")]
    pub(crate) unsafe fn free(&self, stream: &StreamInner, start: CUdeviceptr) -> Result<()> {
        stream.state().usable()?;
        // SAFETY: the caller's promise.
        unsafe { call!(stream, cuMemFreeAsync(start, stream.raw)) }
    }

    #[inline]
    pub(super) fn handle(&self) -> Option<CUmemoryPool> {
        let raw = self.raw.load(Ordering::Relaxed);
        (!raw.is_null()).then_some(raw)
    }

    /// Takes the handle away: allocations from now on use no pool.
    fn take(&self) -> Option<CUmemoryPool> {
        let raw = self.raw.swap(std::ptr::null_mut(), Ordering::Relaxed);
        (!raw.is_null()).then_some(raw)
    }

    pub(crate) fn trim(&self, context: &ContextInner, keep: usize) -> Result<()> {
        context.state.usable()?;
        let Some(pool) = self.handle() else { return Ok(()) };
        // SAFETY: the pool is live as long as its context.
        unsafe { call!(context, cuMemPoolTrimTo(pool, keep)) }
    }

    pub(crate) fn set_threshold(&self, context: &ContextInner, bytes: u64) -> Result<()> {
        context.state.usable()?;
        self.apply_threshold(context.state, bytes)
    }

    fn apply_threshold(&self, state: &DeviceState, mut bytes: u64) -> Result<()> {
        let Some(pool) = self.handle() else { return Ok(()) };
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let value = (&raw mut bytes).cast();
        // SAFETY: the attribute's type is a 64-bit integer, which `value` points to.
        unsafe { call!(state, cuMemPoolSetAttribute(pool, attribute, value)) }
    }

    /// Lets kernels of another device use the pool's memory.
    pub(crate) fn share_with(&self, context: &ContextInner, device: CUdevice) -> Result<()> {
        let Some(pool) = self.handle() else { return Ok(()) };
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: on_device(device), flags };
        // SAFETY: the pool is live as long as its context, and there is one description.
        unsafe { call!(context, cuMemPoolSetAccess(pool, &raw const access, 1)) }
    }

    /// Destroys the pool: called when nothing allocated from it is left.
    pub(crate) fn destroy(&self, context: &ContextInner) -> Result<()> {
        let Some(pool) = self.take() else { return Ok(()) };
        // SAFETY: the handle is live and is taken by this call alone. If it fails, it is unknown whether the handle is
        // still live, so it is not used again: allocations do without a pool.
        unsafe { call!(context, cuMemPoolDestroy(pool)) }
    }

    /// Releases the pool without waiting: the driver destroys it when its last free is done.
    pub(crate) fn abandon(&self, state: &DeviceState) {
        if let Some(pool) = self.take() {
            // SAFETY: as in `destroy`.
            let result = unsafe { state.sys.cuMemPoolDestroy(pool) };
            // The error is not returned, because no caller is left, but a fatal code is kept.
            let _ = state.answer("cuMemPoolDestroy", result);
        }
    }
}

/// Returns whether the device has memory pools.
pub(super) fn are_there(device: Device) -> Result<bool> {
    let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
    let supported = device.state().sys.supports("cuMemAllocFromPoolAsync");
    Ok(supported && device.raw_attribute(attribute)? != 0)
}

/// Creates a pool of a device.
pub(super) fn create(state: &DeviceState) -> Result<CUmemoryPool> {
    let properties = CUmemPoolProps {
        allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        location: on_device(state.raw),
        ..Default::default()
    };
    let mut raw = std::ptr::null_mut();
    // SAFETY: `raw` is a valid place for a handle and `properties` is fully initialised.
    unsafe { call!(state, cuMemPoolCreate(&raw mut raw, &raw const properties)) }?;
    Ok(raw)
}

/// Allocates `bytes` from a pool, in the stream's order. Out of memory, `trim` gives what the pool holds back to the
/// system, and the allocation is tried once more.
pub(super) fn allocate_from(
    pool: CUmemoryPool,
    stream: &StreamInner,
    bytes: usize,
    trim: impl FnOnce() -> Result<()>,
) -> Result<CUdeviceptr> {
    let attempt = || {
        let mut start = 0;
        // SAFETY: `start` is a valid place for an address; pool and stream are live.
        unsafe { call!(stream, cuMemAllocFromPoolAsync(&raw mut start, bytes, pool, stream.raw)) }?;
        Ok(start)
    };
    twice(&stream.context, bytes, attempt, trim)
}

/// Allocates `bytes` from a pool in the order of a raw stream, with the context current that handles of special streams
/// need. For `trim` see [`allocate_from`].
///
/// # Safety
/// `pool` is live, and `stream` is a stream of the context, or 0, 1 or 2.
pub(super) unsafe fn allocate_on(
    context: &ContextInner,
    pool: CUmemoryPool,
    stream: CUstream,
    bytes: usize,
    trim: impl FnOnce() -> Result<()>,
) -> Result<CUdeviceptr> {
    let attempt = || {
        let mut start = 0;
        // SAFETY: `start` is a valid place for an address; for the rest the caller's promise.
        unsafe { call!(context, cuMemAllocFromPoolAsync(&raw mut start, bytes, pool, stream)) }?;
        Ok(start)
    };
    context.with_current(|| twice(context, bytes, attempt, trim))
}

fn allocate_blocking(stream: &StreamInner, bytes: usize) -> Result<CUdeviceptr> {
    let context = &stream.context;
    if let Some(start) = context.deferred.take_device(bytes, stream.id) {
        return Ok(start);
    }
    let attempt = || {
        let mut start = 0;
        context.with_current(|| {
            // SAFETY: `start` is a valid place for an address, and the context is current.
            unsafe { call!(context, cuMemAlloc_v2(&raw mut start, bytes)) }
        })?;
        Ok(start)
    };
    twice(context, bytes, attempt, || {
        // An error of another object's drop, which is not this caller's.
        context.keep_drop_result(context.free_deferred());
        Ok(())
    })
}

/// Allocates `bytes` bytes by `attempt`. If there is no memory it tries once more, after `free`.
fn twice(
    context: &ContextInner,
    bytes: usize,
    attempt: impl Fn() -> Result<CUdeviceptr>,
    free: impl FnOnce() -> Result<()>,
) -> Result<CUdeviceptr> {
    match attempt() {
        Err(error) if is_out_of_memory(&error) => {
            context.gates.free_held(context);
            free()?;
            let start = attempt().map_err(|error| explain_out_of_memory(context, error, bytes))?;
            context.counters.allocation_retries.fetch_add(1, Ordering::Relaxed);
            Ok(start)
        }
        Err(error) => Err(error.with_asked(format!("{bytes} bytes of device memory"))),
        start => start,
    }
}

pub(super) fn on_device(device: CUdevice) -> CUmemLocation {
    let type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    let mut location = CUmemLocation { type_, ..Default::default() };
    location.__bindgen_anon_1.id = device;
    location
}

pub(super) fn is_out_of_memory(error: &Error) -> bool {
    error.code() == Some(cuda_sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)
}

#[cold]
fn explain_out_of_memory(context: &ContextInner, error: Error, requested: usize) -> Error {
    if !is_out_of_memory(&error) {
        return error;
    }
    match context.memory_info() {
        Ok(MemoryInfo { free, total }) => {
            error.with_kind(ErrorKind::OutOfMemory { requested, free, total })
        }
        Err(_) => error.with_asked(format!("{requested} bytes of device memory")),
    }
}
