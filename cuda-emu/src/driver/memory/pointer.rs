//! The attributes of an address.

use core::ffi::{c_int, c_uint, c_ulonglong, c_void};

use cuda_sys::{CUcontext, CUdeviceptr, CUmemoryPool, CUmemorytype, CUpointer_attribute, CUresult};

use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::handle;
use crate::driver::process::State;
use crate::driver::stream::work::host;
use crate::space::{Kind, Region};

impl State {
    /// Returns whether kernels of a context may read (1) and write (2) memory of another device.
    pub(in crate::driver) fn reach(&self, context: u64, device: u32, region: &Region) -> u32 {
        if region.kind.on_host() {
            return 3;
        }
        let Ok(context) = self.objects.contexts.get(context) else { return 0 };
        let enabled = match self.objects.allocations.get(&region.start) {
            Some(known) if known.kind == Kind::Pool => {
                let pool = self.objects.pools.get(known.pool);
                let access = pool.ok().and_then(|pool| pool.access.get(&device));
                return access.copied().unwrap_or(0);
            }
            // A graph's memory has its own record of access.
            None if region.kind == Kind::Pool => true,
            Some(known) => context.peers.contains(&known.context),
            // Memory of a module, or the heap, belongs to some context of its device.
            None => context.peers.iter().any(|&peer| {
                self.objects.contexts.get(peer).is_ok_and(|peer| peer.device == region.device)
            }),
        };
        if enabled { 3 } else { 0 }
    }
}

/// Writes one attribute of an address.
///
/// # Safety
/// `data` is null or valid for the write of what the attribute is.
unsafe fn attribute(data: *mut c_void, which: CUpointer_attribute, address: u64) -> Answer {
    use CUpointer_attribute as A;
    let process = process()?;
    let region = process.space.find_known(address).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let state = process.lock();
    let known = state.objects.allocations.get(&region.start);
    // A module's variables are no separate allocations.
    let context = known.map_or_else(
        || {
            let primary = state.objects.primaries.get(region.device as usize);
            primary.map_or(0, |primary| primary.context)
        },
        |known| known.context,
    );
    // SAFETY: the caller's promise, for the type that goes with each attribute.
    unsafe {
        match which {
            A::CU_POINTER_ATTRIBUTE_CONTEXT => put::<CUcontext>(data.cast(), handle(context)),
            A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE => put(
                data.cast(),
                match region.kind {
                    Kind::Pinned | Kind::Registered => CUmemorytype::CU_MEMORYTYPE_HOST,
                    _ => CUmemorytype::CU_MEMORYTYPE_DEVICE,
                },
            ),
            A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER => put::<CUdeviceptr>(data.cast(), address),
            A::CU_POINTER_ATTRIBUTE_HOST_POINTER if region.kind.on_host() => {
                put::<*mut c_void>(data.cast(), host(address))
            }
            A::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS => {
                put::<c_uint>(data.cast(), known.is_some_and(|known| known.sync_memops).into())
            }
            A::CU_POINTER_ATTRIBUTE_BUFFER_ID => put::<c_ulonglong>(data.cast(), region.id),
            A::CU_POINTER_ATTRIBUTE_IS_MANAGED => {
                put::<c_uint>(data.cast(), (region.kind == Kind::Managed).into())
            }
            A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                put::<c_int>(data.cast(), region.device as c_int)
            }
            A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
            | A::CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR => {
                put::<*mut c_void>(data.cast(), host(region.start))
            }
            A::CU_POINTER_ATTRIBUTE_RANGE_SIZE | A::CU_POINTER_ATTRIBUTE_MAPPING_SIZE => {
                put::<usize>(data.cast(), region.bytes() as usize)
            }
            A::CU_POINTER_ATTRIBUTE_MAPPED => put::<c_uint>(data.cast(), 1),
            A::CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE => {
                put::<c_uint>(data.cast(), (region.kind == Kind::Device).into())
            }
            A::CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE
            | A::CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE => put::<c_uint>(data.cast(), 0),
            A::CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES => put::<c_ulonglong>(data.cast(), 0),
            A::CU_POINTER_ATTRIBUTE_ACCESS_FLAGS => {
                put::<c_uint>(data.cast(), if region.writable { 3 } else { 1 })
            }
            A::CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE => {
                put::<CUmemoryPool>(data.cast(), handle(known.map_or(0, |known| known.pool)))
            }
            A::CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID => put::<c_ulonglong>(data.cast(), region.id),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}

functions! {
    Device fn cuPointerGetAttribute(
        data: *mut c_void, which: CUpointer_attribute, address: CUdeviceptr
    ) { attribute(data, which, address) }
    Device fn cuPointerGetAttributes(
        count: c_uint, which: *mut CUpointer_attribute, data: *mut *mut c_void,
        address: CUdeviceptr
    ) {
        if count == 0 || which.is_null() || data.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..count as usize {
            let (which, place) = (which.add(index).read(), data.add(index).read());
            // An attribute that an address does not have is null, without an error.
            if attribute(place, which, address).is_err() {
                match which {
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                    | CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
                    | CUpointer_attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED
                    | CUpointer_attribute::CU_POINTER_ATTRIBUTE_MAPPED => {
                        put::<c_uint>(place.cast(), 0)?;
                    }
                    CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL => {
                        put::<c_int>(place.cast(), -2)?;
                    }
                    CUpointer_attribute(1..=20) => put::<u64>(place.cast(), 0)?,
                    _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
                }
            }
        }
        Ok(())
    }
    Device fn cuPointerSetAttribute(
        value: *const c_void, which: CUpointer_attribute, address: CUdeviceptr
    ) {
        let process = process()?;
        if value.is_null() || which != CUpointer_attribute::CU_POINTER_ATTRIBUTE_SYNC_MEMOPS {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut state = process.lock();
        let known = state.objects.allocations.get_mut(&address);
        let known = known.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        known.sync_memops = value.cast::<c_uint>().read() != 0;
        Ok(())
    }
}
