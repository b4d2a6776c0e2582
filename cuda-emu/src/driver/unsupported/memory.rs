//! Virtual memory management, multicast, and hints for batches that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_uint, c_ulonglong, c_void};

use cuda_sys::{
    CUDA_MEMCPY3D_BATCH_OP, CUdevice, CUdeviceptr, CUmem_range_attribute, CUmemAccessDesc,
    CUmemAllocationGranularity_flags, CUmemAllocationHandleType, CUmemAllocationProp,
    CUmemDecompressParams, CUmemGenericAllocationHandle, CUmemLocation, CUmemPoolPtrExportData,
    CUmemRangeHandleType, CUmemcpyAttributes, CUmemoryPool, CUmulticastGranularity_flags,
    CUmulticastObjectProp, CUstream,
};

use crate::driver::call::refused;

refused! {
    fn cuMemAddressFree(CUdeviceptr, usize);
    fn cuMemAddressReserve(*mut CUdeviceptr, usize, usize, CUdeviceptr, c_ulonglong);
    fn cuMemBatchDecompressAsync(*mut CUmemDecompressParams, usize, c_uint, *mut usize, CUstream);
    fn cuMemCreate(*mut CUmemGenericAllocationHandle, usize, *const CUmemAllocationProp, c_ulonglong);
    fn cuMemDiscardAndPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemDiscardBatchAsync(*mut CUdeviceptr, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemExportToShareableHandle(*mut c_void, CUmemGenericAllocationHandle, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemGetAccess(*mut c_ulonglong, *const CUmemLocation, CUdeviceptr);
    fn cuMemGetAllocationGranularity(*mut usize, *const CUmemAllocationProp, CUmemAllocationGranularity_flags);
    fn cuMemGetAllocationPropertiesFromHandle(*mut CUmemAllocationProp, CUmemGenericAllocationHandle);
    fn cuMemGetHandleForAddressRange(*mut c_void, CUdeviceptr, usize, CUmemRangeHandleType, c_ulonglong);
    fn cuMemGetLocationInfo(CUdeviceptr, usize, usize, usize, *mut CUmemLocation);
    fn cuMemImportFromShareableHandle(*mut CUmemGenericAllocationHandle, *mut c_void, CUmemAllocationHandleType);
    fn cuMemMap(CUdeviceptr, usize, usize, CUmemGenericAllocationHandle, c_ulonglong);
    fn cuMemPoolExportPointer(*mut CUmemPoolPtrExportData, CUdeviceptr);
    fn cuMemPoolExportToShareableHandle(*mut c_void, CUmemoryPool, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportFromShareableHandle(*mut CUmemoryPool, *mut c_void, CUmemAllocationHandleType, c_ulonglong);
    fn cuMemPoolImportPointer(*mut CUdeviceptr, CUmemoryPool, *mut CUmemPoolPtrExportData);
    fn cuMemPrefetchBatchAsync(*mut CUdeviceptr, *mut usize, usize, *mut CUmemLocation, *mut usize, usize, c_ulonglong, CUstream);
    fn cuMemRangeGetAttribute(*mut c_void, usize, CUmem_range_attribute, CUdeviceptr, usize);
    fn cuMemRangeGetAttributes(*mut *mut c_void, *mut usize, *mut CUmem_range_attribute, usize, CUdeviceptr, usize);
    fn cuMemRelease(CUmemGenericAllocationHandle);
    fn cuMemRetainAllocationHandle(*mut CUmemGenericAllocationHandle, *mut c_void);
    fn cuMemSetAccess(CUdeviceptr, usize, *const CUmemAccessDesc, usize);
    fn cuMemUnmap(CUdeviceptr, usize);
    fn cuMemcpy3DBatchAsync(usize, *mut CUDA_MEMCPY3D_BATCH_OP, *mut usize, c_ulonglong, CUstream);
    fn cuMemcpy3DBatchAsync_v2(usize, *mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpy3DWithAttributesAsync(*mut CUDA_MEMCPY3D_BATCH_OP, c_ulonglong, CUstream);
    fn cuMemcpyBatchAsync(*mut CUdeviceptr, *mut CUdeviceptr, *mut usize, usize, *mut CUmemcpyAttributes, *mut usize, usize, *mut usize, CUstream);
    fn cuMemcpyWithAttributesAsync(CUdeviceptr, CUdeviceptr, usize, *mut CUmemcpyAttributes, CUstream);
    fn cuMulticastAddDevice(CUmemGenericAllocationHandle, CUdevice);
    fn cuMulticastBindAddr(CUmemGenericAllocationHandle, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindAddr_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUdeviceptr, usize, c_ulonglong);
    fn cuMulticastBindMem(CUmemGenericAllocationHandle, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastBindMem_v2(CUmemGenericAllocationHandle, CUdevice, usize, CUmemGenericAllocationHandle, usize, usize, c_ulonglong);
    fn cuMulticastCreate(*mut CUmemGenericAllocationHandle, *const CUmulticastObjectProp);
    fn cuMulticastGetGranularity(*mut usize, *const CUmulticastObjectProp, CUmulticastGranularity_flags);
    fn cuMulticastUnbind(CUmemGenericAllocationHandle, CUdevice, usize, usize);
}
