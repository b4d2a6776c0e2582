//! Textures and surfaces of a program: their descriptions are translated to the driver's.

use core::ffi::{c_int, c_uint};
use core::mem::offset_of;
use core::ptr;

use cuda_sys::{
    CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION, CU_TRSF_NORMALIZED_COORDINATES,
    CU_TRSF_READ_AS_INTEGER, CU_TRSF_SEAMLESS_CUBEMAP, CU_TRSF_SRGB, CUDA_RESOURCE_DESC,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC, CUaddress_mode, CUfilter_mode, CUresourcetype,
};

use crate::array::{channels_of, format};
use crate::bindings::runtime::{
    cudaError, cudaResourceDesc, cudaResourceType, cudaResourceViewDesc, cudaSurfaceObject_t,
    cudaTextureAddressMode, cudaTextureDesc, cudaTextureFilterMode, cudaTextureObject_t,
    cudaTextureReadMode,
};
use crate::call::{CudaResult, check, given, put, ready};
use crate::memory::{address, pointer};

/// Returns the description of a texture's memory for the driver.
///
/// # Safety
/// `resource` is null or valid for reads.
unsafe fn resource(resource: *const cudaResourceDesc) -> CudaResult<CUDA_RESOURCE_DESC> {
    use cudaResourceType as Of;
    if resource.is_null() {
        return Err(cudaError::cudaErrorInvalidValue);
    }
    // SAFETY: the caller's promise. The struct of CUDA 12 is shorter, so there is no reference to the whole.
    let (kind, from) = unsafe { ((*resource).resType, &raw const (*resource).res) };
    let mut new = CUDA_RESOURCE_DESC { resType: CUresourcetype(kind.0), ..Default::default() };
    let to = &mut new.res;
    // SAFETY: the type says which member is set, and the caller's promise.
    unsafe {
        match kind {
            Of::cudaResourceTypeArray => to.array.hArray = (*from).array.array.cast(),
            Of::cudaResourceTypeMipmappedArray => {
                to.mipmap.hMipmappedArray = (*from).mipmap.mipmap.cast();
            }
            Of::cudaResourceTypeLinear => {
                let (format, channels) = format(&(*from).linear.desc)?;
                to.linear.devPtr = address((*from).linear.devPtr);
                to.linear.format = format;
                to.linear.numChannels = channels;
                to.linear.sizeInBytes = (*from).linear.sizeInBytes;
            }
            Of::cudaResourceTypePitch2D => {
                let (format, channels) = format(&(*from).pitch2D.desc)?;
                to.pitch2D.devPtr = address((*from).pitch2D.devPtr);
                to.pitch2D.format = format;
                to.pitch2D.numChannels = channels;
                to.pitch2D.width = (*from).pitch2D.width;
                to.pitch2D.height = (*from).pitch2D.height;
                to.pitch2D.pitchInBytes = (*from).pitch2D.pitchInBytes;
            }
            _ => return Err(cudaError::cudaErrorInvalidValue),
        }
    }
    Ok(new)
}

/// Returns how a texture is read, for the driver.
///
/// # Safety
/// `texture` is null or valid for reads.
unsafe fn reading(texture: *const cudaTextureDesc) -> CudaResult<CUDA_TEXTURE_DESC> {
    // SAFETY: the caller's promise.
    let given = unsafe { texture.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let flag = |set: bool, flag: c_uint| if set { flag } else { 0 };
    let given_flag = |value: c_int, of: c_uint| flag(value != 0, of);
    let elements = given.readMode == cudaTextureReadMode::cudaReadModeElementType;
    Ok(CUDA_TEXTURE_DESC {
        addressMode: given.addressMode.map(|mode| CUaddress_mode(mode.0)),
        filterMode: CUfilter_mode(given.filterMode.0),
        flags: flag(elements, CU_TRSF_READ_AS_INTEGER)
            | given_flag(given.normalizedCoords, CU_TRSF_NORMALIZED_COORDINATES)
            | given_flag(given.sRGB, CU_TRSF_SRGB)
            | given_flag(
                given.disableTrilinearOptimization,
                CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION,
            )
            | given_flag(given.seamlessCubemap, CU_TRSF_SEAMLESS_CUBEMAP),
        maxAnisotropy: given.maxAnisotropy,
        mipmapFilterMode: CUfilter_mode(given.mipmapFilterMode.0),
        mipmapLevelBias: given.mipmapLevelBias,
        minMipmapLevelClamp: given.minMipmapLevelClamp,
        maxMipmapLevelClamp: given.maxMipmapLevelClamp,
        borderColor: given.borderColor,
        ..Default::default()
    })
}

/// Returns a view for the driver. The reserved members stay zero: CUDA 12's struct ends before them.
///
/// # Safety
/// `view` is valid for reads of a struct of CUDA 12.
unsafe fn viewing(view: *const cudaResourceViewDesc) -> CUDA_RESOURCE_VIEW_DESC {
    let mut new = CUDA_RESOURCE_VIEW_DESC::default();
    let bytes = offset_of!(CUDA_RESOURCE_VIEW_DESC, reserved);
    // SAFETY: both structs have the same members in these bytes, and the caller's promise.
    unsafe { ptr::copy_nonoverlapping(view.cast::<u8>(), (&raw mut new).cast::<u8>(), bytes) };
    new
}

/// Writes the description of a texture's memory.
///
/// # Safety
/// `to` is null or valid for the write of a struct of CUDA 12.
unsafe fn put_resource(to: *mut cudaResourceDesc, from: &CUDA_RESOURCE_DESC) -> CudaResult {
    given(to)?;
    // SAFETY: not null, and the caller's promise. The struct of CUDA 12 is shorter, so there is no reference to the whole. The
    // type says which member of the driver's union is set.
    unsafe {
        (*to).resType = cudaResourceType(from.resType.0);
        let res = &raw mut (*to).res;
        match from.resType {
            CUresourcetype::CU_RESOURCE_TYPE_ARRAY => {
                (*res).array.array = from.res.array.hArray.cast();
            }
            CUresourcetype::CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                (*res).mipmap.mipmap = from.res.mipmap.hMipmappedArray.cast();
            }
            CUresourcetype::CU_RESOURCE_TYPE_LINEAR => {
                let linear = from.res.linear;
                (*res).linear.devPtr = pointer(linear.devPtr);
                (*res).linear.desc = channels_of(linear.format, linear.numChannels)?;
                (*res).linear.sizeInBytes = linear.sizeInBytes;
            }
            CUresourcetype::CU_RESOURCE_TYPE_PITCH2D => {
                let pitched = from.res.pitch2D;
                (*res).pitch2D.devPtr = pointer(pitched.devPtr);
                (*res).pitch2D.desc = channels_of(pitched.format, pitched.numChannels)?;
                (*res).pitch2D.width = pitched.width;
                (*res).pitch2D.height = pitched.height;
                (*res).pitch2D.pitchInBytes = pitched.pitchInBytes;
            }
            _ => return Err(cudaError::cudaErrorUnknown),
        }
    }
    Ok(())
}

crate::functions! {
    fn cudaGetTextureObjectResourceDesc(place: *mut cudaResourceDesc, texture: cudaTextureObject_t) {
        let mut found = CUDA_RESOURCE_DESC::default();
        check(ready()?.cuTexObjectGetResourceDesc(&raw mut found, texture))?;
        put_resource(place, &found)
    }
    fn cudaGetSurfaceObjectResourceDesc(place: *mut cudaResourceDesc, surface: cudaSurfaceObject_t) {
        let mut found = CUDA_RESOURCE_DESC::default();
        check(ready()?.cuSurfObjectGetResourceDesc(&raw mut found, surface))?;
        put_resource(place, &found)
    }
    fn cudaGetTextureObjectResourceViewDesc(place: *mut cudaResourceViewDesc, texture: cudaTextureObject_t) {
        given(place)?;
        let mut found = CUDA_RESOURCE_VIEW_DESC::default();
        check(ready()?.cuTexObjectGetResourceViewDesc(&raw mut found, texture))?;
        // Both structs have the same members in these bytes. CUDA 12's ends there.
        let bytes = offset_of!(CUDA_RESOURCE_VIEW_DESC, reserved);
        ptr::copy_nonoverlapping((&raw const found).cast::<u8>(), place.cast::<u8>(), bytes);
        Ok(())
    }
    fn cudaGetTextureObjectTextureDesc(place: *mut cudaTextureDesc, texture: cudaTextureObject_t) {
        let mut found = CUDA_TEXTURE_DESC::default();
        check(ready()?.cuTexObjectGetTextureDesc(&raw mut found, texture))?;
        let flag = |flag: c_uint| c_int::from(found.flags & flag != 0);
        put(place, cudaTextureDesc {
            addressMode: found.addressMode.map(|mode| cudaTextureAddressMode(mode.0)),
            filterMode: cudaTextureFilterMode(found.filterMode.0),
            readMode: match flag(CU_TRSF_READ_AS_INTEGER) {
                0 => cudaTextureReadMode::cudaReadModeNormalizedFloat,
                _ => cudaTextureReadMode::cudaReadModeElementType,
            },
            sRGB: flag(CU_TRSF_SRGB),
            borderColor: found.borderColor,
            normalizedCoords: flag(CU_TRSF_NORMALIZED_COORDINATES),
            maxAnisotropy: found.maxAnisotropy,
            mipmapFilterMode: cudaTextureFilterMode(found.mipmapFilterMode.0),
            mipmapLevelBias: found.mipmapLevelBias,
            minMipmapLevelClamp: found.minMipmapLevelClamp,
            maxMipmapLevelClamp: found.maxMipmapLevelClamp,
            disableTrilinearOptimization: flag(CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION),
            seamlessCubemap: flag(CU_TRSF_SEAMLESS_CUBEMAP),
        })
    }
    fn cudaCreateTextureObject(
        place: *mut cudaTextureObject_t, memory: *const cudaResourceDesc, texture: *const cudaTextureDesc,
        view: *const cudaResourceViewDesc,
    ) {
        let (memory, texture) = (resource(memory)?, reading(texture)?);
        let view = (!view.is_null()).then(|| viewing(view));
        let view = view.as_ref().map_or(ptr::null(), ptr::from_ref);
        check(ready()?.cuTexObjectCreate(place, &raw const memory, &raw const texture, view))
    }
    fn cudaDestroyTextureObject(texture: cudaTextureObject_t) = cuTexObjectDestroy;
    fn cudaCreateSurfaceObject(place: *mut cudaSurfaceObject_t, memory: *const cudaResourceDesc) {
        let memory = resource(memory)?;
        check(ready()?.cuSurfObjectCreate(place, &raw const memory))
    }
    fn cudaDestroySurfaceObject(surface: cudaSurfaceObject_t) = cuSurfObjectDestroy;
}
