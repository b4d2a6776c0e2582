//! Where the memory of a pool lies: on a device, on the host, or managed.

use cuda_sys::{
    CUdevice, CUmemAllocationType, CUmemLocation, CUmemLocationType, CUmemoryPool, CUresult,
};

use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{Pool, handle, number};
use crate::driver::process::{Process, State};
use crate::space::Kind;

/// A location with the type of allocations there: they name a default pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::driver) struct Place {
    kind: CUmemAllocationType,
    location: CUmemLocationType,
    /// A device or a node of the host's memory; 0 where the location has no number.
    id: i32,
}

impl Place {
    /// Returns where the memory of a device lies.
    pub(in crate::driver) fn device(ordinal: u32) -> Self {
        Self {
            kind: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            location: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: ordinal as i32,
        }
    }

    /// Returns the place that a location and a type name.
    ///
    /// # Safety
    /// `location` is null or valid for the read.
    pub(in crate::driver) unsafe fn of(
        location: *const CUmemLocation,
        kind: CUmemAllocationType,
    ) -> Answer<Self> {
        use CUmemAllocationType as A;
        use CUmemLocationType as L;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        if location.is_null() {
            return Err(invalid);
        }
        // SAFETY: not null, and the caller's promise.
        let found = unsafe { location.read() };
        // SAFETY: every bit pattern of the union is an int.
        let id = unsafe { found.__bindgen_anon_1.id };
        let managed = match kind {
            A::CU_MEM_ALLOCATION_TYPE_PINNED => false,
            A::CU_MEM_ALLOCATION_TYPE_MANAGED => true,
            _ => return Err(invalid),
        };
        let id = match found.type_ {
            L::CU_MEM_LOCATION_TYPE_DEVICE | L::CU_MEM_LOCATION_TYPE_HOST_NUMA => id,
            L::CU_MEM_LOCATION_TYPE_HOST => 0,
            // Managed memory may prefer no location.
            L::CU_MEM_LOCATION_TYPE_NONE if managed => 0,
            _ => return Err(invalid),
        };
        Ok(Self { kind, location: found.type_, id })
    }

    /// Checks that there is such a place, and returns the device that counts its memory.
    pub(in crate::driver) fn counted(self, process: &Process) -> Answer<u32> {
        match self.location {
            CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE => Ok(process.device(self.id)?.0),
            // The host has one node.
            _ if self.id != 0 => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            _ => Ok(0),
        }
    }

    /// Returns the kind of memory there.
    pub(in crate::driver) fn memory(self) -> Kind {
        match (self.kind, self.location) {
            (CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_MANAGED, _) => Kind::Managed,
            (_, CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE) => Kind::Pool,
            _ => Kind::Pinned,
        }
    }

    /// Returns the type of allocations.
    pub(in crate::driver) fn kind(self) -> CUmemAllocationType {
        self.kind
    }

    /// Returns the location as the driver describes it.
    pub(in crate::driver) fn location(self) -> CUmemLocation {
        let mut location = CUmemLocation { type_: self.location, ..CUmemLocation::default() };
        location.__bindgen_anon_1.id = self.id;
        location
    }
}

impl State {
    /// Returns the default pool of a place, and the pool in use. Those of devices are made with the process, the others
    /// when they are asked for.
    fn pools_of(&mut self, process: &Process, place: Place) -> Answer<(u64, u64)> {
        let device = place.counted(process)?;
        if place == Place::device(device) {
            let pools = self.objects.device_pools.get(device as usize).copied();
            return pools.ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE);
        }
        if let Some(pools) = self.objects.place_pools.get(&place) {
            return Ok(*pools);
        }
        let pool = self.objects.pools.insert(Pool::new(place, device, true, 0));
        self.objects.place_pools.insert(place, (pool, pool));
        Ok((pool, pool))
    }

    /// Makes a pool the one in use at a place; it must lie there.
    fn use_pool(&mut self, process: &Process, place: Place, pool: u64) -> Answer {
        if self.objects.pools.get(pool)?.place != place {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        self.pools_of(process, place)?;
        let device = place.counted(process)?;
        let pools = match place == Place::device(device) {
            true => self.objects.device_pools.get_mut(device as usize),
            false => self.objects.place_pools.get_mut(&place),
        };
        if let Some(pools) = pools {
            pools.1 = pool;
        }
        Ok(())
    }
}

/// Returns the default pool of a place, or the one in use.
fn pool(place: Place, default: bool) -> Answer<u64> {
    let process = process()?;
    let (own, used) = process.lock().pools_of(process, place)?;
    Ok(if default { own } else { used })
}

/// Returns the place of a device that a program names.
fn of_device(device: CUdevice) -> Answer<Place> {
    Ok(Place::device(process()?.device(device)?.0))
}

fn set(place: Place, pool: CUmemoryPool) -> Answer {
    let process = process()?;
    process.lock().use_pool(process, place, number(pool))
}

functions! {
    Device fn cuDeviceGetDefaultMemPool(to: *mut CUmemoryPool, device: CUdevice) {
        put(to, handle(pool(of_device(device)?, true)?))
    }
    Device fn cuDeviceGetMemPool(to: *mut CUmemoryPool, device: CUdevice) {
        put(to, handle(pool(of_device(device)?, false)?))
    }
    Device fn cuDeviceSetMemPool(device: CUdevice, pool: CUmemoryPool) {
        set(of_device(device)?, pool)
    }
    Device fn cuMemGetDefaultMemPool(
        to: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
    ) { put(to, handle(pool(Place::of(location, kind)?, true)?)) }
    Device fn cuMemGetMemPool(
        to: *mut CUmemoryPool, location: *mut CUmemLocation, kind: CUmemAllocationType
    ) { put(to, handle(pool(Place::of(location, kind)?, false)?)) }
    Device fn cuMemSetMemPool(
        location: *mut CUmemLocation, kind: CUmemAllocationType, pool: CUmemoryPool
    ) { set(Place::of(location, kind)?, pool) }
}
