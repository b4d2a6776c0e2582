//! Arrays, textures, surfaces and tensor maps that this device does not have: they return `CUDA_ERROR_NOT_SUPPORTED`.

#![allow(non_snake_case, reason = "the driver's names")]

use core::ffi::{c_char, c_int, c_uint, c_void};

use cuda_sys::{
    CUDA_ARRAY_DESCRIPTOR, CUDA_ARRAY_MEMORY_REQUIREMENTS, CUDA_ARRAY_SPARSE_PROPERTIES,
    CUDA_ARRAY3D_DESCRIPTOR, CUDA_RESOURCE_DESC, CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
    CUaddress_mode, CUarray, CUarray_format, CUarrayMapInfo, CUdevice, CUdeviceptr, CUfilter_mode,
    CUfunction, CUmipmappedArray, CUmodule, CUstream, CUsurfObject, CUsurfref, CUtensorMap,
    CUtensorMapAllocClass, CUtensorMapDataType, CUtensorMapFloatOOBfill, CUtensorMapIm2ColWideMode,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle, CUtexObject, CUtexref,
    cuuint32_t, cuuint64_t,
};

use crate::driver::call::refused;

refused! {
    fn cuArray3DCreate_v2(*mut CUarray, *const CUDA_ARRAY3D_DESCRIPTOR);
    fn cuArray3DGetDescriptor_v2(*mut CUDA_ARRAY3D_DESCRIPTOR, CUarray);
    fn cuArrayCreate_v2(*mut CUarray, *const CUDA_ARRAY_DESCRIPTOR);
    fn cuArrayDestroy(CUarray);
    fn cuArrayGetDescriptor_v2(*mut CUDA_ARRAY_DESCRIPTOR, CUarray);
    fn cuArrayGetMemoryRequirements(*mut CUDA_ARRAY_MEMORY_REQUIREMENTS, CUarray, CUdevice);
    fn cuArrayGetPlane(*mut CUarray, CUarray, c_uint);
    fn cuArrayGetSparseProperties(*mut CUDA_ARRAY_SPARSE_PROPERTIES, CUarray);
    fn cuDeviceGetTexture1DLinearMaxWidth(*mut usize, CUarray_format, c_uint, CUdevice);
    fn cuMemMapArrayAsync(*mut CUarrayMapInfo, c_uint, CUstream);
    fn cuMemcpyAtoA_v2(CUarray, usize, CUarray, usize, usize);
    fn cuMemcpyAtoD_v2(CUdeviceptr, CUarray, usize, usize);
    fn cuMemcpyAtoHAsync_v2(*mut c_void, CUarray, usize, usize, CUstream);
    fn cuMemcpyAtoH_v2(*mut c_void, CUarray, usize, usize);
    fn cuMemcpyDtoA_v2(CUarray, usize, CUdeviceptr, usize);
    fn cuMemcpyHtoAAsync_v2(CUarray, usize, *const c_void, usize, CUstream);
    fn cuMemcpyHtoA_v2(CUarray, usize, *const c_void, usize);
    fn cuMipmappedArrayCreate(*mut CUmipmappedArray, *const CUDA_ARRAY3D_DESCRIPTOR, c_uint);
    fn cuMipmappedArrayDestroy(CUmipmappedArray);
    fn cuMipmappedArrayGetLevel(*mut CUarray, CUmipmappedArray, c_uint);
    fn cuMipmappedArrayGetMemoryRequirements(*mut CUDA_ARRAY_MEMORY_REQUIREMENTS, CUmipmappedArray, CUdevice);
    fn cuMipmappedArrayGetSparseProperties(*mut CUDA_ARRAY_SPARSE_PROPERTIES, CUmipmappedArray);
    fn cuModuleGetSurfRef(*mut CUsurfref, CUmodule, *const c_char);
    fn cuModuleGetTexRef(*mut CUtexref, CUmodule, *const c_char);
    fn cuParamSetTexRef(CUfunction, c_int, CUtexref);
    fn cuSurfObjectCreate(*mut CUsurfObject, *const CUDA_RESOURCE_DESC);
    fn cuSurfObjectDestroy(CUsurfObject);
    fn cuSurfObjectGetResourceDesc(*mut CUDA_RESOURCE_DESC, CUsurfObject);
    fn cuSurfRefGetArray(*mut CUarray, CUsurfref);
    fn cuSurfRefSetArray(CUsurfref, CUarray, c_uint);
    fn cuTensorMapEncodeIm2col(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const c_int, *const c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeIm2colWide(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, c_int, c_int, cuuint32_t, cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapIm2ColWideMode, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapEncodeTiled(*mut CUtensorMap, CUtensorMapDataType, cuuint32_t, *mut c_void, *const cuuint64_t, *const cuuint64_t, *const cuuint32_t, *const cuuint32_t, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
    fn cuTensorMapReplaceAddress(*mut CUtensorMap, *mut c_void);
    fn cuTensorMapSetAllocationClass(*mut CUtensorMap, CUtensorMapAllocClass, *mut CUtensorMapAllocClass);
    fn cuTexObjectCreate(*mut CUtexObject, *const CUDA_RESOURCE_DESC, *const CUDA_TEXTURE_DESC, *const CUDA_RESOURCE_VIEW_DESC);
    fn cuTexObjectDestroy(CUtexObject);
    fn cuTexObjectGetResourceDesc(*mut CUDA_RESOURCE_DESC, CUtexObject);
    fn cuTexObjectGetResourceViewDesc(*mut CUDA_RESOURCE_VIEW_DESC, CUtexObject);
    fn cuTexObjectGetTextureDesc(*mut CUDA_TEXTURE_DESC, CUtexObject);
    fn cuTexRefCreate(*mut CUtexref);
    fn cuTexRefDestroy(CUtexref);
    fn cuTexRefGetAddressMode(*mut CUaddress_mode, CUtexref, c_int);
    fn cuTexRefGetAddress_v2(*mut CUdeviceptr, CUtexref);
    fn cuTexRefGetArray(*mut CUarray, CUtexref);
    fn cuTexRefGetBorderColor(*mut f32, CUtexref);
    fn cuTexRefGetFilterMode(*mut CUfilter_mode, CUtexref);
    fn cuTexRefGetFlags(*mut c_uint, CUtexref);
    fn cuTexRefGetFormat(*mut CUarray_format, *mut c_int, CUtexref);
    fn cuTexRefGetMaxAnisotropy(*mut c_int, CUtexref);
    fn cuTexRefGetMipmapFilterMode(*mut CUfilter_mode, CUtexref);
    fn cuTexRefGetMipmapLevelBias(*mut f32, CUtexref);
    fn cuTexRefGetMipmapLevelClamp(*mut f32, *mut f32, CUtexref);
    fn cuTexRefGetMipmappedArray(*mut CUmipmappedArray, CUtexref);
    fn cuTexRefSetAddress2D_v2(CUtexref, *const CUDA_ARRAY_DESCRIPTOR, CUdeviceptr, usize);
    fn cuTexRefSetAddress2D_v3(CUtexref, *const CUDA_ARRAY_DESCRIPTOR, CUdeviceptr, usize);
    fn cuTexRefSetAddressMode(CUtexref, c_int, CUaddress_mode);
    fn cuTexRefSetAddress_v2(*mut usize, CUtexref, CUdeviceptr, usize);
    fn cuTexRefSetArray(CUtexref, CUarray, c_uint);
    fn cuTexRefSetBorderColor(CUtexref, *mut f32);
    fn cuTexRefSetFilterMode(CUtexref, CUfilter_mode);
    fn cuTexRefSetFlags(CUtexref, c_uint);
    fn cuTexRefSetFormat(CUtexref, CUarray_format, c_int);
    fn cuTexRefSetMaxAnisotropy(CUtexref, c_uint);
    fn cuTexRefSetMipmapFilterMode(CUtexref, CUfilter_mode);
    fn cuTexRefSetMipmapLevelBias(CUtexref, f32);
    fn cuTexRefSetMipmapLevelClamp(CUtexref, f32, f32);
    fn cuTexRefSetMipmappedArray(CUtexref, CUmipmappedArray, c_uint);
}
