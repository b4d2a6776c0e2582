//! Stream-ordered memory: pools, allocations and frees in a stream's order.
//!
//! A pool's memory is the space's, and goes back there when it is freed, into quarantine. A pool's reserved memory is
//! only counted, so that the device reports as much free memory as with a real pool.

use core::ffi::{c_int, c_void};

use cuda_sys::{
    CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationType, CUmemLocation,
    CUmemPool_attribute, CUmemPoolProps, CUmemoryPool, CUresult, CUstream, cuuint64_t,
};

use super::ALIGN;
use super::pool_location::Place;
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
            // Memory of the host takes none of a device.
            .filter(|(_, pool)| pool.device == device && pool.place.memory() == Kind::Pool)
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
        let (place, bytes) = (known.place, bytes as u64);
        // Memory of the host is counted by the device of the stream.
        let device = if place.memory() == Kind::Pool { known.device } else { device };
        let capture = self.objects.streams.get(stream)?.capture.clone();
        if bytes == 0 {
            // As an H200's driver answers, also in a capture.
            return Ok(0);
        }
        if known.limit != 0 && known.used.saturating_add(bytes) > known.limit {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let graph = capture.as_ref().map(|(capture, _)| self.capturing(*capture)).transpose()?;
        if let (Some(graph), Some((capture, tail))) = (graph, capture) {
            let (node, start) =
                self.add_allocation(process, graph, bytes, (place, device), &tail)?;
            self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
            return Ok(start);
        }
        let kept = self.kept(device, pool);
        if process.space.used(device).saturating_add(kept).saturating_add(bytes)
            > process.config.memory
        {
            return Err(CUresult::CUDA_ERROR_OUT_OF_MEMORY);
        }
        let kind = place.memory();
        let start = process
            .space
            .allocate(bytes, ALIGN, kind, device)
            .map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        let mut allocation = Allocation::new(context, kind, bytes, 0);
        allocation.pool = pool;
        self.objects.allocations.insert(start, allocation);
        self.count_pool(pool, bytes, true);
        Ok(start)
    }

    /// Frees in a stream's order.
    fn free_ordered(&mut self, address: u64, stream: CUstream) -> Answer {
        let stream = self.stream(stream)?;
        if address == 0 {
            return Ok(());
        }
        if let Some((capture, tail)) = self.objects.streams.get(stream)?.capture.clone() {
            let graph = self.capturing(capture)?;
            // A capture can't free memory that no graph has allocated; the capture goes on.
            let node = self.add_free(graph, address, &tail)?;
            self.objects.streams.get_mut(stream)?.capture = Some((capture, vec![node]));
            return Ok(());
        }
        if let Some(memory) = self.objects.outstanding.get(&address).cloned() {
            self.implicit_in_capture(stream)?;
            self.enqueue(stream, Work::Unmap(memory))?;
            self.objects.outstanding.remove(&address);
            return Ok(());
        }
        let known = self.objects.allocations.get(&address);
        let known = known.filter(|known| known.pool != 0 && !known.freed).copied();
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

/// Returns the device of a location that is given access to a pool; `None` for the host.
///
/// # Safety
/// `location` is null or valid for the read.
unsafe fn accessing(process: &Process, location: *const CUmemLocation) -> Answer<Option<u32>> {
    let kind = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
    // SAFETY: the caller's promise.
    let place = unsafe { Place::of(location, kind) }?;
    let device = place.counted(process)?;
    Ok((place.memory() == Kind::Pool).then_some(device))
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

    Device fn cuMemPoolCreate(pool: *mut CUmemoryPool, properties: *const CUmemPoolProps) {
        if properties.is_null() || pool.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let properties = &*properties;
        let place = Place::of(&raw const properties.location, properties.allocType)?;
        let process = process()?;
        let device = place.counted(process)?;
        if properties.handleTypes.0 != 0 {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let new = Pool::new(place, device, false, properties.maxSize as u64);
        let new = process.lock().objects.pools.insert(new);
        put(pool, handle(new))
    }
    Device fn cuMemPoolDestroy(pool: CUmemoryPool) {
        let mut state = process()?.lock();
        let known = state.objects.pools.get(number(pool))?;
        if known.default {
            return Err(CUresult::CUDA_ERROR_NOT_PERMITTED);
        }
        let objects = &mut state.objects;
        for pools in objects.device_pools.iter_mut().chain(objects.place_pools.values_mut()) {
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
                let location = pool.place.location();
                return put(value.cast::<c_int>(), location.__bindgen_anon_1.id);
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_LOCATION_TYPE => {
                return put(value.cast(), pool.place.location().type_);
            }
            CUmemPool_attribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE => {
                return put(value.cast(), pool.place.kind());
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
            let Some(device) = accessing(process, &raw const entry.location)? else { continue };
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
        let device = accessing(process, location.cast_const())?;
        let state = process.lock();
        let pool = state.objects.pools.get(number(pool))?;
        // Memory of the host and managed memory can be used everywhere, and the host cannot use that of a device.
        let everywhere = pool.place.memory() != Kind::Pool;
        let own = if everywhere || device == Some(pool.device) { 3 } else { 0 };
        let given = device.and_then(|device| pool.access.get(&device).copied());
        put(flags, CUmemAccess_flags(given.unwrap_or(own)))
    }
}
