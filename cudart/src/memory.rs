//! Allocations, their addresses, and variables of the device.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use cuda_sys::{CUdeviceptr, CUmemAttach_flags, CUmemorytype, CUpointer_attribute};

use crate::bindings::runtime::{
    cudaError, cudaExtent, cudaMemRangeAttribute, cudaMemoryType, cudaPitchedPtr,
    cudaPointerAttributes, cudaStream_t,
};
use crate::call::{CudaResult, check, given, put, ready};
use crate::{context, registry};

/// The alignment of the rows that the driver is asked for: the largest element that it knows.
const ELEMENT: c_uint = 16;
/// The device of memory that is none's: `cudaInvalidDeviceId`.
const NO_DEVICE: c_int = -2;

/// Returns an address of the device as a pointer.
pub(crate) fn pointer(address: CUdeviceptr) -> *mut c_void {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// Returns a pointer as an address of the device.
pub(crate) fn address(pointer: *const c_void) -> CUdeviceptr {
    pointer.expose_provenance() as CUdeviceptr
}

/// Allocates memory of the device. No bytes are a null pointer.
fn allocate(bytes: usize) -> CudaResult<*mut c_void> {
    let driver = ready()?;
    if bytes == 0 {
        return Ok(ptr::null_mut());
    }
    let mut new = 0;
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuMemAlloc_v2(&raw mut new, bytes) })?;
    Ok(pointer(new))
}

/// Allocates rows, and returns their distance in bytes.
fn allocate_rows(width: usize, height: usize) -> CudaResult<(*mut c_void, usize)> {
    let driver = ready()?;
    if width == 0 || height == 0 {
        return Ok((ptr::null_mut(), 0));
    }
    let (mut new, mut pitch) = (0, 0);
    // SAFETY: the places are valid for the writes.
    check(unsafe {
        driver.cuMemAllocPitch_v2(&raw mut new, &raw mut pitch, width, height, ELEMENT)
    })?;
    Ok((pointer(new), pitch))
}

/// Allocates memory of the host that the device can use.
fn allocate_host(bytes: usize, flags: c_uint) -> CudaResult<*mut c_void> {
    let driver = ready()?;
    if bytes == 0 {
        return Ok(ptr::null_mut());
    }
    let mut new = ptr::null_mut();
    // SAFETY: the place is valid for the write.
    check(unsafe { driver.cuMemHostAlloc(&raw mut new, bytes, flags) })?;
    Ok(new)
}

/// Returns what the driver knows of an address.
fn attributes(of: *const c_void) -> CudaResult<cudaPointerAttributes> {
    use CUpointer_attribute as Of;
    let driver = ready()?;
    let (mut kind, mut managed, mut device) = (0_u32, 0_u32, NO_DEVICE);
    let (mut on_device, mut on_host): (CUdeviceptr, *mut c_void) = (0, ptr::null_mut());
    let mut wanted = [
        Of::CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        Of::CU_POINTER_ATTRIBUTE_IS_MANAGED,
        Of::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        Of::CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        Of::CU_POINTER_ATTRIBUTE_HOST_POINTER,
    ];
    let mut places: [*mut c_void; 5] = [
        (&raw mut kind).cast(),
        (&raw mut managed).cast(),
        (&raw mut device).cast(),
        (&raw mut on_device).cast(),
        (&raw mut on_host).cast(),
    ];
    let count = wanted.len() as c_uint;
    // SAFETY: there is a place of the attribute's type for each attribute.
    check(unsafe {
        driver.cuPointerGetAttributes(count, wanted.as_mut_ptr(), places.as_mut_ptr(), address(of))
    })?;
    let kind = match (CUmemorytype(kind), managed & 0xff) {
        // Memory that CUDA does not know.
        (CUmemorytype(0), _) => {
            (on_host, device) = (of.cast_mut(), NO_DEVICE);
            cudaMemoryType::cudaMemoryTypeUnregistered
        }
        (_, 1) => cudaMemoryType::cudaMemoryTypeManaged,
        (CUmemorytype::CU_MEMORYTYPE_HOST, _) => cudaMemoryType::cudaMemoryTypeHost,
        _ => {
            on_host = ptr::null_mut();
            cudaMemoryType::cudaMemoryTypeDevice
        }
    };
    Ok(cudaPointerAttributes {
        type_: kind,
        device,
        devicePointer: pointer(on_device),
        hostPointer: on_host,
        ..Default::default()
    })
}

crate::functions! {
    fn cudaMalloc(place: *mut *mut c_void, bytes: usize) {
        given(place)?;
        put(place, allocate(bytes)?)
    }
    fn cudaFree(memory: *mut c_void) {
        let driver = ready()?;
        if memory.is_null() {
            return Ok(());
        }
        check(driver.cuMemFree_v2(address(memory)))
    }
    fn cudaMallocHost(place: *mut *mut c_void, bytes: usize) {
        given(place)?;
        put(place, allocate_host(bytes, 0)?)
    }
    fn cudaHostAlloc(place: *mut *mut c_void, bytes: usize, flags: c_uint) {
        given(place)?;
        put(place, allocate_host(bytes, flags)?)
    }
    fn cudaFreeHost(memory: *mut c_void) {
        let driver = ready()?;
        if memory.is_null() {
            return Ok(());
        }
        check(driver.cuMemFreeHost(memory))
    }
    fn cudaHostRegister(memory: *mut c_void, bytes: usize, flags: c_uint) = cuMemHostRegister_v2;
    fn cudaHostUnregister(memory: *mut c_void) = cuMemHostUnregister;
    fn cudaHostGetDevicePointer(place: *mut *mut c_void, memory: *mut c_void, flags: c_uint) {
        let mut found = 0;
        check(ready()?.cuMemHostGetDevicePointer_v2(&raw mut found, memory, flags))?;
        put(place, pointer(found))
    }
    fn cudaHostGetFlags(flags: *mut c_uint, memory: *mut c_void) = cuMemHostGetFlags;
    fn cudaMallocManaged(place: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let driver = ready()?;
        given(place)?;
        let known = [CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL, CUmemAttach_flags::CU_MEM_ATTACH_HOST];
        if !known.iter().any(|flag| flag.0 == flags) {
            return Err(cudaError::cudaErrorInvalidValue);
        }
        let mut new = 0;
        if bytes > 0 {
            check(driver.cuMemAllocManaged(&raw mut new, bytes, flags))?;
        }
        put(place, pointer(new))
    }
    fn cudaMallocPitch(place: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) {
        given(place)?;
        given(pitch)?;
        let (new, distance) = allocate_rows(width, height)?;
        put(place, new)?;
        put(pitch, distance)
    }
    fn cudaMalloc3D(place: *mut cudaPitchedPtr, extent: cudaExtent) {
        given(place)?;
        let rows = extent.height.checked_mul(extent.depth);
        let rows = rows.ok_or(cudaError::cudaErrorMemoryAllocation)?;
        let (new, pitch) = allocate_rows(extent.width, rows)?;
        put(place, cudaPitchedPtr { ptr: new, pitch, xsize: extent.width, ysize: extent.height })
    }
    fn cudaMemGetInfo(free: *mut usize, total: *mut usize) = cuMemGetInfo_v2;
    fn cudaPointerGetAttributes(place: *mut cudaPointerAttributes, memory: *const c_void) {
        given(place)?;
        let found = attributes(memory)?;
        // CUDA 12's struct ends after these members, and CUDA 13 has reserved ones after them.
        (&raw mut (*place).type_).write(found.type_);
        (&raw mut (*place).device).write(found.device);
        (&raw mut (*place).devicePointer).write(found.devicePointer);
        (&raw mut (*place).hostPointer).write(found.hostPointer);
        Ok(())
    }
    fn cudaGetSymbolAddress(place: *mut *mut c_void, symbol: *const c_void) {
        put(place, registry::variable(symbol)?.0)
    }
    fn cudaGetSymbolSize(place: *mut usize, symbol: *const c_void) {
        put(place, registry::variable(symbol)?.1)
    }
    fn cudaMemRangeGetAttribute(
        data: *mut c_void, size: usize, attribute: cudaMemRangeAttribute, memory: *const c_void, bytes: usize,
    ) = cuMemRangeGetAttribute;
    fn cudaMemRangeGetAttributes(
        data: *mut *mut c_void, sizes: *mut usize, attributes: *mut cudaMemRangeAttribute, count: usize,
        memory: *const c_void, bytes: usize,
    ) = cuMemRangeGetAttributes;
    fn cudaStreamAttachMemAsync, cudaStreamAttachMemAsync_ptsz [stream] (
        stream: cudaStream_t, memory: *mut c_void, length: usize, flags: c_uint,
    ) = cuStreamAttachMemAsync;
    fn cudaDeviceReset() { context::reset() }
}
