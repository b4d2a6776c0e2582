//! Arrays of the device.

use core::ffi::{c_int, c_uint};
use core::ptr;

use cuda_sys::{CUDA_ARRAY3D_DESCRIPTOR, CUarray_format};

use crate::bindings::runtime::{
    cudaArray_const_t, cudaArray_t, cudaChannelFormatDesc, cudaChannelFormatKind, cudaError,
    cudaExtent, cudaMipmappedArray_const_t, cudaMipmappedArray_t,
};
use crate::call::{CudaResult, check, given, put, ready};

/// Returns the driver's format of a component, and the number of components.
pub(crate) fn format(description: &cudaChannelFormatDesc) -> CudaResult<(CUarray_format, c_uint)> {
    use CUarray_format as To;
    use cudaChannelFormatKind as Of;
    let &cudaChannelFormatDesc { x, y, z, w, f } = description;
    let sizes = [x, y, z, w];
    let count = sizes.iter().take_while(|&&size| size > 0).count();
    let alike = sizes.iter().take(count).all(|&size| size == x);
    let rest_empty = sizes.iter().skip(count).all(|&size| size == 0);
    if !matches!(count, 1 | 2 | 4) || !alike || !rest_empty {
        return Err(cudaError::cudaErrorInvalidChannelDescriptor);
    }
    let format = match (f, x) {
        (Of::cudaChannelFormatKindUnsigned, 8) => To::CU_AD_FORMAT_UNSIGNED_INT8,
        (Of::cudaChannelFormatKindUnsigned, 16) => To::CU_AD_FORMAT_UNSIGNED_INT16,
        (Of::cudaChannelFormatKindUnsigned, 32) => To::CU_AD_FORMAT_UNSIGNED_INT32,
        (Of::cudaChannelFormatKindSigned, 8) => To::CU_AD_FORMAT_SIGNED_INT8,
        (Of::cudaChannelFormatKindSigned, 16) => To::CU_AD_FORMAT_SIGNED_INT16,
        (Of::cudaChannelFormatKindSigned, 32) => To::CU_AD_FORMAT_SIGNED_INT32,
        (Of::cudaChannelFormatKindFloat, 16) => To::CU_AD_FORMAT_HALF,
        (Of::cudaChannelFormatKindFloat, 32) => To::CU_AD_FORMAT_FLOAT,
        _ => return Err(cudaError::cudaErrorInvalidChannelDescriptor),
    };
    Ok((format, count as c_uint))
}

/// Returns the bits of a component of a format, and its kind.
fn component(format: CUarray_format) -> CudaResult<(c_int, cudaChannelFormatKind)> {
    use CUarray_format as Of;
    use cudaChannelFormatKind as To;
    Ok(match format {
        Of::CU_AD_FORMAT_UNSIGNED_INT8 => (8, To::cudaChannelFormatKindUnsigned),
        Of::CU_AD_FORMAT_UNSIGNED_INT16 => (16, To::cudaChannelFormatKindUnsigned),
        Of::CU_AD_FORMAT_UNSIGNED_INT32 => (32, To::cudaChannelFormatKindUnsigned),
        Of::CU_AD_FORMAT_SIGNED_INT8 => (8, To::cudaChannelFormatKindSigned),
        Of::CU_AD_FORMAT_SIGNED_INT16 => (16, To::cudaChannelFormatKindSigned),
        Of::CU_AD_FORMAT_SIGNED_INT32 => (32, To::cudaChannelFormatKindSigned),
        Of::CU_AD_FORMAT_HALF => (16, To::cudaChannelFormatKindFloat),
        Of::CU_AD_FORMAT_FLOAT => (32, To::cudaChannelFormatKindFloat),
        _ => return Err(cudaError::cudaErrorNotSupported),
    })
}

/// Returns the description of an array.
fn describe(array: cudaArray_const_t) -> CudaResult<CUDA_ARRAY3D_DESCRIPTOR> {
    let mut found = CUDA_ARRAY3D_DESCRIPTOR::default();
    // SAFETY: the place is valid for the write; a handle that is none is an error of the driver.
    check(unsafe { ready()?.cuArray3DGetDescriptor_v2(&raw mut found, array.cast_mut().cast()) })?;
    Ok(found)
}

fn channels(found: &CUDA_ARRAY3D_DESCRIPTOR) -> CudaResult<cudaChannelFormatDesc> {
    channels_of(found.Format, found.NumChannels)
}

/// Returns the description of elements with so many components of a format.
pub(crate) fn channels_of(
    format: CUarray_format,
    count: c_uint,
) -> CudaResult<cudaChannelFormatDesc> {
    let (bits, f) = component(format)?;
    let size = |at| if count > at { bits } else { 0 };
    Ok(cudaChannelFormatDesc { x: size(0), y: size(1), z: size(2), w: size(3), f })
}

fn bytes(found: &CUDA_ARRAY3D_DESCRIPTOR) -> CudaResult<usize> {
    let (bits, _) = component(found.Format)?;
    Ok((bits.unsigned_abs() * found.NumChannels / 8) as usize)
}

/// Returns the bytes of an element of an array.
pub(crate) fn element(array: cudaArray_const_t) -> CudaResult<usize> {
    bytes(&describe(array)?)
}

/// Returns the bytes of a row of an array, and the number of rows.
pub(crate) fn row(array: cudaArray_const_t) -> CudaResult<(usize, usize)> {
    let found = describe(array)?;
    let width = found.Width.checked_mul(bytes(&found)?);
    let width = width.ok_or(cudaError::cudaErrorInvalidValue)?;
    Ok((width, found.Height.max(1)))
}

/// Returns the description of an array for the driver.
///
/// # Safety
/// `description` is null or valid for reads.
unsafe fn wanted(
    description: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    flags: c_uint,
) -> CudaResult<CUDA_ARRAY3D_DESCRIPTOR> {
    // SAFETY: the caller's promise.
    let description = unsafe { description.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let (format, channels) = format(description)?;
    Ok(CUDA_ARRAY3D_DESCRIPTOR {
        Width: extent.width,
        Height: extent.height,
        Depth: extent.depth,
        Format: format,
        NumChannels: channels,
        Flags: flags,
    })
}

/// Makes an array.
///
/// # Safety
/// `description` is null or valid for reads.
unsafe fn make(
    description: *const cudaChannelFormatDesc,
    extent: cudaExtent,
    flags: c_uint,
) -> CudaResult<cudaArray_t> {
    let driver = ready()?;
    // SAFETY: the caller's promise.
    let wanted = unsafe { wanted(description, extent, flags) }?;
    let mut new = ptr::null_mut();
    // SAFETY: the places are valid.
    check(unsafe { driver.cuArray3DCreate_v2(&raw mut new, &raw const wanted) })?;
    Ok(new.cast())
}

crate::functions! {
    fn cudaMallocArray(
        place: *mut cudaArray_t, description: *const cudaChannelFormatDesc, width: usize, height: usize,
        flags: c_uint,
    ) {
        given(place)?;
        put(place, make(description, cudaExtent { width, height, depth: 0 }, flags)?)
    }
    fn cudaMalloc3DArray(
        place: *mut cudaArray_t, description: *const cudaChannelFormatDesc, extent: cudaExtent, flags: c_uint,
    ) {
        given(place)?;
        put(place, make(description, extent, flags)?)
    }
    fn cudaMallocMipmappedArray(
        place: *mut cudaMipmappedArray_t, description: *const cudaChannelFormatDesc, extent: cudaExtent,
        levels: c_uint, flags: c_uint,
    ) {
        given(place)?;
        let wanted = wanted(description, extent, flags)?;
        let mut new = ptr::null_mut();
        check(ready()?.cuMipmappedArrayCreate(&raw mut new, &raw const wanted, levels))?;
        put(place, new.cast())
    }
    fn cudaGetMipmappedArrayLevel(
        place: *mut cudaArray_t, array: cudaMipmappedArray_const_t, level: c_uint,
    ) {
        let mut found = ptr::null_mut();
        check(ready()?.cuMipmappedArrayGetLevel(&raw mut found, array.cast_mut().cast(), level))?;
        put(place, found.cast())
    }
    fn cudaFreeMipmappedArray(array: cudaMipmappedArray_t) {
        let driver = ready()?;
        if array.is_null() {
            return Ok(());
        }
        check(driver.cuMipmappedArrayDestroy(array.cast()))
    }
    fn cudaFreeArray(array: cudaArray_t) {
        let driver = ready()?;
        if array.is_null() {
            return Ok(());
        }
        check(driver.cuArrayDestroy(array.cast()))
    }
    fn cudaArrayGetInfo(
        description: *mut cudaChannelFormatDesc, extent: *mut cudaExtent, flags: *mut c_uint, array: cudaArray_t,
    ) {
        let found = describe(array)?;
        if !description.is_null() {
            put(description, channels(&found)?)?;
        }
        if !extent.is_null() {
            put(extent, cudaExtent { width: found.Width, height: found.Height, depth: found.Depth })?;
        }
        if !flags.is_null() {
            put(flags, found.Flags)?;
        }
        Ok(())
    }
    fn cudaGetChannelDesc(description: *mut cudaChannelFormatDesc, array: cudaArray_const_t) {
        put(description, channels(&describe(array)?)?)
    }
}

/// The functions that return something other than a code.
pub const OTHERS: &[&str] = &["cudaCreateChannelDesc"];

/// Returns a description of elements.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: cudaChannelFormatKind,
) -> cudaChannelFormatDesc {
    cudaChannelFormatDesc { x, y, z, w, f }
}
