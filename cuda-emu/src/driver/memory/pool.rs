//! Stream-ordered memory: pools, allocations and frees in a stream's order.
//!
//! A pool's memory is the space's, and goes back there when it is freed, into quarantine. A pool's reserved memory is
//! only counted, so that the device reports as much free memory as with a real pool.

use core::ffi::{c_int, c_void};

use cuda_sys::{
    CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation,
    CUmemLocationType, CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult, CUstream,
    cuuint64_t,
};

use super::ALIGN;
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{Allocation, Pool, handle, number};
use crate::driver::process::{Process, State};
use crate::driver::stream::work::Work;
use crate::space::Kind;

impl State {
    /// Takes note of what a pool gives out or gets back.
    pub(in crate::driver) fn count_pool(&mut self, pool: u64, bytes: u64, taken: bool) {
        if let Ok(pool) = self.objects.pools.get_mut(pool) {
            pool.used = if taken { pool.used + bytes } else { pool.used.saturating_sub(bytes) };
            pool.reserved = pool.reserved.max(pool.used);
            pool.high = pool.high.max(pool.used);
            pool.reserved_high = pool.reserved_high.max(pool.reserved);
        }
    }

    /// Returns the unused bytes that the pools of a device keep, except one pool.
    pub(in crate::driver) fn kept(&self, device: u32, but: u64) -> u64 {
        let pools = self.objects.pools.iter().filter(|(pool, _)| *pool != but);
        pools
            .filter(|(_, pool)| pool.device == device)
            .map(|(_, pool)| pool.reserved - pool.used)
            .sum()
    }

    /// Releases the memory above the thresholds of the pools, when the host has waited.
    pub(in crate::driver) fn release_pools(&mut self) {
        for pool in self.objects.pools.values_mut() {
            pool.reserved = pool.reserved.min(pool.threshold.max(pool.used));
        }
    }

    /// Allocates in a stream's order from a pool, or from the device's pool if it is 0.
    fn allocate_ordered(
        &mut self,
        process: &Process,
        bytes: usize,
        pool: u64,
        stream: CUstream,
    ) -> Answer<u64> {
        let stream = self.stream(stream)?;
        let context = self.objects.streams.get(stream)?.context;
        let device = self.objects.contexts.get(context)?.device;
        let pool = match pool {
            0 => self.objects.device_pools.get(device as usize).map_or(0, |pools| pools.1),
            pool => pool,
        };
        let known = self.objects.pools.get(pool)?;
        let (device, bytes) = (known.device, bytes as u64);
        let capture = self.objects.streams.get(stream)?.capture.clone();
        if bytes == 0 {
            // Outside of a capture, a driver returns success.
            return if capture.is_none() { Ok(0) } else { Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
        }
        if known.limit != 0 && known.used.saturating_add(bytes) > known.limit {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let graph = capture.as_ref().map(|(capture, _)| self.capturing(*capture)).transpose()?;
        if let (Some(graph), Some((capture, tail))) = (graph, capture) {
            let (node, start) = self.add_allocation(process, graph, bytes, device, &tail)?;
            self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
            return Ok(start);
        }
        let kept = self.kept(device, pool);
        if process.space.used(device).saturating_add(kept).saturating_add(bytes)
            > process.config.memory
        {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let start = process
            .space
            .allocate(bytes, ALIGN, Kind::Pool, device)
            .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let mut allocation = Allocation::new(context, Kind::Pool, bytes, 0);
        allocation.pool = pool;
        self.objects.allocations.insert(start, allocation);
        self.count_pool(pool, bytes, true);
        Ok(start)
    }

    /// Frees in a stream's order.
    fn free_ordered(&mut self, address: u64, stream: CUstream) -> Answer {
        let stream = self.stream(stream)?;
        if let Some((capture, tail)) = self.objects.streams.get(stream)?.capture.clone() {
            let graph = self.capturing(capture)?;
            // A capture can't free memory that no graph has allocated; the capture goes on.
            let node = self.add_free(graph, address, &tail)?;
            self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
            return Ok(());
        }
        if address == 0 {
            return Ok(());
        }
        if let Some(memory) = self.objects.outstanding.get(&address).cloned() {
            self.implicit_in_capture(stream)?;
            self.enqueue(stream, Work::Unmap(memory))?;
            self.objects.outstanding.remove(&address);
            return Ok(());
        }
        let known = self.objects.allocations.get(&address);
        let known = known.filter(|known| known.kind == Kind::Pool && !known.freed).copied();
        let allocation = known.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        self.implicit_in_capture(stream)?;
        self.enqueue(stream, Work::Free(address))?;
        self.objects.allocations.remove(&address);
        self.count_pool(allocation.pool, allocation.bytes, false);
        Ok(())
    }
}

/// Allocates in a stream's order. If there is no room, frees that are under way are waited for.
///
/// # Safety
/// `address` is null or valid for the write.
unsafe fn allocate(address: *mut CUdeviceptr, bytes: usize, pool: u64, stream: CUstream) -> Answer {
    let process = process()?;
    if address.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = process.lock();
    let mut start = state.allocate_ordered(process, bytes, pool, stream);
    if start == Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY) {
        let freeing = state.engine.freeing();
        if !freeing.is_empty() {
            state = process.wait_for(state, &freeing)?;
            start = state.allocate_ordered(process, bytes, pool, stream);
        }
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { put(address, start?) }
}

/// Returns the device's pool: its default one, or the one in use.
fn device_pool(device: CUdevice, default: bool) -> Answer<u64> {
    let process = process()?;
    let (ordinal, _) = process.device(device)?;
    let state = process.lock();
    let pools = state.objects.device_pools.get(ordinal as usize);
    let (own, used) = *pools.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)?;
    Ok(if default { own } else { used })
}

fn set_device_pool(device: CUdevice, pool: CUmemoryPool) -> Answer {
    let process = process()?;
    let (ordinal, _) = process.device(device)?;
    let mut state = process.lock();
    if state.objects.pools.get(number(pool))?.device != ordinal {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(pools) = state.objects.device_pools.get_mut(ordinal as usize) {
        pools.1 = number(pool);
    }
    Ok(())
}

/// Returns the device of a location.
///
/// # Safety
/// `location` is null or valid for the read.
pub(in crate::driver) unsafe fn located(
    location: *const CUmemLocation,
    kind: CUmemAllocationType,
) -> Answer<CUdevice> {
    if location.is_null() || kind != CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let location = unsafe { location.read() };
    match location.type_ {
        CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => {
            // SAFETY: every bit pattern of the union is an int.
            Ok(unsafe { location.__bindgen_anon_1.id })
        }
        _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
    }
}

functions! {
    Device fn cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream) {
        allocate(address, bytes, 0, stream)
    }
    Device fn cuMemAllocFromPoolAsync(
        address: *mut CUdeviceptr, bytes: usize, pool: CUmemoryPool, stream: CUstream
    ) {
        if pool.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        allocate(address, bytes, number(pool), stream)
    }
    Device fn cuMemFreeAsync(address: CUdeviceptr, stream: CUstream) {
        let process = process()?;
        process.lock().free_ordered(address, stream)?;
        process.kick();
        Ok(())
    }

    Device fn cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        put(pool, handle(device_pool(device, true)?))
    }
    Device fn cuDeviceGetMemPool(pool: *mut CUmemoryPool, device: CUdevice) {
        put(pool, handle(device_pool(device, false)?))
    }
    Device fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        set_device_pool(device, pool)
    }
    Device fn cuMemGetDefaultMemPool(
        pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
    ) { put(pool, handle(device_pool(located(location, kind)?, true)?)) }
    Device fn cuMemGetMemPool(
        pool: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
    ) { put(pool, handle(device_pool(located(location, kind)?, false)?)) }
    Device fn cuMemSetMemPool(
        location: *mut CUmemLocation, kind: CUmemAllocationType, pool: CUmemoryPool
    ) { set_device_pool(located(location, kind)?, pool) }

    Device fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        if properties.is_null() || pool.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let properties = &*properties;
        let device = located(&raw const properties.location, properties.allocType)?;
        let process = process()?;
        let (device, _) = process.device(device)?;
        if properties.handleTypes.0 != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let new = process.lock().objects.pools.insert(Pool {
            device,
            default: false,
            threshold: 0,
            used: 0,
            reserved: 0,
            high: 0,
            reserved_high: 0,
            limit: properties.maxSize as u64,
            reuse: [1; 3],
            access: std::collections::HashMap::new(),
        });
        put(pool, handle(new))
    }
    Device fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let mut state = process()?.lock();
        let known = state.objects.pools.get(number(pool))?;
        if known.default {
            return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
        }
        for pools in &mut state.objects.device_pools {
            if pools.1 == number(pool) {
                pools.1 = pools.0;
            }
        }
        state.objects.pools.remove(number(pool)).map(drop)
    }
    Device fn cuMemPoolTrimTo(pool: CUmemoryPool, keep: usize) {
        let mut state = process()?.lock();
        let pool = state.objects.pools.get_mut(number(pool))?;
        pool.reserved = pool.reserved.min(pool.used.max(keep as u64));
        Ok(())
    }
    Device fn cuMemPoolSetAttribute(
        pool: CUmemoryPool, which: CUmemPool_attribute, value: *mut c_void
    ) {
        let mut state = process()?.lock();
        let pool = state.objects.pools.get_mut(number(pool))?;
        if value.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        match which {
            CUmemPool_attribute(index @ 1..=3) => {
                pool.reuse[index as usize - 1] = c_int::from(value.cast::<c_int>().read() != 0);
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => {
                pool.threshold = value.cast::<cuuint64_t>().read();
            }
            // The high marks can only be reset.
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
                if value.cast::<cuuint64_t>().read() == 0 => pool.reserved_high = pool.reserved,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH
                if value.cast::<cuuint64_t>().read() == 0 => pool.high = pool.used,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
    Device fn cuMemPoolGetAttribute(
        pool: CUmemoryPool, which: CUmemPool_attribute, value: *mut c_void
    ) {
        let state = process()?.lock();
        let pool = state.objects.pools.get(number(pool))?;
        let value_64 = match which {
            CUmemPool_attribute(index @ 1..=3) => {
                return put(value.cast::<c_int>(), pool.reuse[index as usize - 1]);
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => pool.threshold,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => pool.reserved,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => pool.reserved_high,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT => pool.used,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH => pool.high,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE => pool.limit,
            CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_ID => {
                return put(value.cast::<c_int>(), pool.device as c_int);
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        put(value.cast::<cuuint64_t>(), value_64)
    }
    Device fn cuMemPoolSetAccess(pool: CUmemoryPool, map: *const CUmemAccessDesc, count: usize) {
        let process = process()?;
        if map.is_null() && count > 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut state = process.lock();
        let pool = state.objects.pools.get_mut(number(pool))?;
        for index in 0..count {
            let entry = map.add(index).read();
            let kind = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            let (device, _) = process.device(located(&raw const entry.location, kind)?)?;
            // A pool's own device always has access.
            if device == pool.device && entry.flags.0 != 3 {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            pool.access.insert(device, entry.flags.0);
        }
        Ok(())
    }
    Device fn cuMemPoolGetAccess(
        flags: *mut CUmemAccess_flags, pool: CUmemoryPool, location: *mut CUmemLocation
    ) {
        let process = process()?;
        let kind = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        let (device, _) = process.device(located(location.cast_const(), kind)?)?;
        let state = process.lock();
        let pool = state.objects.pools.get(number(pool))?;
        let own = if device == pool.device { 3 } else { 0 };
        put(flags, CUmemAccess_flags(pool.access.get(&device).copied().unwrap_or(own)))
    }
}
