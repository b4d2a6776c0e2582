//! Copies and fills of memory.

use core::ffi::{c_int, c_uchar, c_void};

use cuda_sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUarray, CUmemorytype, CUstream, Driver,
};

use crate::bindings::runtime::{
    cudaArray_const_t, cudaArray_t, cudaError, cudaExtent, cudaMemcpy3DParms,
    cudaMemcpy3DPeerParms, cudaMemcpyKind, cudaPitchedPtr, cudaPos, cudaStream_t,
};
use crate::call::{CudaResult, Sync, check, ready};
use crate::context::primary;
use crate::memory::address;
use crate::{array, registry};

/// When a copy happens.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    /// During the call.
    Now,
    /// In a stream.
    In(CUstream),
}

/// Returns the memory types of source and destination.
fn types(kind: cudaMemcpyKind) -> CudaResult<[CUmemorytype; 2]> {
    use CUmemorytype as Of;
    let (host, device) = (Of::CU_MEMORYTYPE_HOST, Of::CU_MEMORYTYPE_DEVICE);
    Ok(match kind {
        cudaMemcpyKind::cudaMemcpyHostToHost => [host, host],
        cudaMemcpyKind::cudaMemcpyHostToDevice => [host, device],
        cudaMemcpyKind::cudaMemcpyDeviceToHost => [device, host],
        cudaMemcpyKind::cudaMemcpyDeviceToDevice => [device, device],
        cudaMemcpyKind::cudaMemcpyDefault => [Of::CU_MEMORYTYPE_UNIFIED; 2],
        _ => return Err(cudaError::cudaErrorInvalidMemcpyDirection),
    })
}

/// Copies bytes.
///
/// # Safety
/// The memory is valid for the copy.
pub(crate) unsafe fn bytes(
    driver: &Driver,
    [to, from]: [*const c_void; 2],
    count: usize,
    kind: cudaMemcpyKind,
    when: When,
) -> CudaResult {
    types(kind)?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    check(unsafe {
        match (kind, when) {
            (cudaMemcpyKind::cudaMemcpyHostToDevice, When::Now) => {
                driver.cuMemcpyHtoD_v2(address(to), from, count)
            }
            (cudaMemcpyKind::cudaMemcpyHostToDevice, When::In(stream)) => {
                driver.cuMemcpyHtoDAsync_v2(address(to), from, count, stream)
            }
            (cudaMemcpyKind::cudaMemcpyDeviceToHost, When::Now) => {
                driver.cuMemcpyDtoH_v2(to.cast_mut(), address(from), count)
            }
            (cudaMemcpyKind::cudaMemcpyDeviceToHost, When::In(stream)) => {
                driver.cuMemcpyDtoHAsync_v2(to.cast_mut(), address(from), count, stream)
            }
            (cudaMemcpyKind::cudaMemcpyDeviceToDevice, When::Now) => {
                driver.cuMemcpyDtoD_v2(address(to), address(from), count)
            }
            (cudaMemcpyKind::cudaMemcpyDeviceToDevice, When::In(stream)) => {
                driver.cuMemcpyDtoDAsync_v2(address(to), address(from), count, stream)
            }
            (_, When::Now) => driver.cuMemcpy(address(to), address(from), count),
            (_, When::In(stream)) => {
                driver.cuMemcpyAsync(address(to), address(from), count, stream)
            }
        }
    })
}

/// A rectangle of bytes in memory, or of elements in an array.
#[derive(Clone, Copy)]
pub(crate) struct Plane {
    pointer: *const c_void,
    pitch: usize,
    array: CUarray,
    /// The first byte of a row, and the first row.
    at: [usize; 2],
}

impl Plane {
    pub(crate) fn memory(pointer: *const c_void, pitch: usize) -> Self {
        Self { pointer, pitch, array: core::ptr::null_mut(), at: [0; 2] }
    }

    pub(crate) fn array(array: cudaArray_const_t, x: usize, y: usize) -> Self {
        Self { pointer: core::ptr::null(), pitch: 0, array: array.cast_mut().cast(), at: [x, y] }
    }
}

/// Copies a rectangle.
///
/// # Safety
/// The memory is valid for the copy.
pub(crate) unsafe fn plane(
    driver: &Driver,
    [to, from]: [Plane; 2],
    [width, height]: [usize; 2],
    kind: cudaMemcpyKind,
    when: When,
) -> CudaResult {
    let [source, destination] = types(kind)?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    for side in [to, from] {
        if side.array.is_null() && side.pitch < width {
            return Err(cudaError::cudaErrorInvalidPitchValue);
        }
    }
    let place = |side: Plane, memory| {
        if side.array.is_null() { memory } else { CUmemorytype::CU_MEMORYTYPE_ARRAY }
    };
    let what = CUDA_MEMCPY2D {
        srcXInBytes: from.at[0],
        srcY: from.at[1],
        srcMemoryType: place(from, source),
        srcHost: from.pointer,
        srcDevice: address(from.pointer),
        srcArray: from.array,
        srcPitch: from.pitch,
        dstXInBytes: to.at[0],
        dstY: to.at[1],
        dstMemoryType: place(to, destination),
        dstHost: to.pointer.cast_mut(),
        dstDevice: address(to.pointer),
        dstArray: to.array,
        dstPitch: to.pitch,
        WidthInBytes: width,
        Height: height,
    };
    // SAFETY: the caller's promise.
    check(unsafe {
        match when {
            When::Now => driver.cuMemcpy2DUnaligned_v2(&raw const what),
            When::In(stream) => driver.cuMemcpy2DAsync_v2(&raw const what, stream),
        }
    })
}

/// Returns a copy of a box as the driver describes it.
pub(crate) fn cuboid(parameters: &cudaMemcpy3DParms) -> CudaResult<CUDA_MEMCPY3D> {
    let p = parameters;
    let [source, destination] = types(p.kind)?;
    // With an array, widths and offsets are in its elements. Offsets in memory are in bytes.
    let element = match (p.srcArray.is_null(), p.dstArray.is_null()) {
        (true, true) => 1,
        (false, true) => array::element(p.srcArray)?,
        (true, false) => array::element(p.dstArray)?,
        (false, false) => {
            let element = array::element(p.srcArray)?;
            if element != array::element(p.dstArray)? {
                return Err(cudaError::cudaErrorInvalidValue);
            }
            element
        }
    };
    let one_place =
        |array: cudaArray_t, pointer: &cudaPitchedPtr| array.is_null() != pointer.ptr.is_null();
    if !one_place(p.srcArray, &p.srcPtr) || !one_place(p.dstArray, &p.dstPtr) {
        return Err(cudaError::cudaErrorInvalidValue);
    }
    let place = |array: cudaArray_t, memory| {
        if array.is_null() { memory } else { CUmemorytype::CU_MEMORYTYPE_ARRAY }
    };
    let in_bytes = |array: cudaArray_t, pos: &cudaPos| match array.is_null() {
        true => Ok(pos.x),
        false => pos.x.checked_mul(element).ok_or(cudaError::cudaErrorInvalidValue),
    };
    Ok(CUDA_MEMCPY3D {
        srcXInBytes: in_bytes(p.srcArray, &p.srcPos)?,
        srcY: p.srcPos.y,
        srcZ: p.srcPos.z,
        srcMemoryType: place(p.srcArray, source),
        srcHost: p.srcPtr.ptr,
        srcDevice: address(p.srcPtr.ptr),
        srcArray: p.srcArray.cast(),
        srcPitch: p.srcPtr.pitch,
        srcHeight: p.srcPtr.ysize,
        dstXInBytes: in_bytes(p.dstArray, &p.dstPos)?,
        dstY: p.dstPos.y,
        dstZ: p.dstPos.z,
        dstMemoryType: place(p.dstArray, destination),
        dstHost: p.dstPtr.ptr,
        dstDevice: address(p.dstPtr.ptr),
        dstArray: p.dstArray.cast(),
        dstPitch: p.dstPtr.pitch,
        dstHeight: p.dstPtr.ysize,
        WidthInBytes: p
            .extent
            .width
            .checked_mul(element)
            .ok_or(cudaError::cudaErrorInvalidValue)?,
        Height: p.extent.height,
        Depth: p.extent.depth,
        ..Default::default()
    })
}

/// Copies a box.
///
/// # Safety
/// `parameters` is null or valid for reads; the memory is valid for the copy.
unsafe fn copy_box(parameters: *const cudaMemcpy3DParms, when: When) -> CudaResult {
    let driver = ready()?;
    // SAFETY: the caller's promise.
    let parameters = unsafe { parameters.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let what = cuboid(parameters)?;
    if what.WidthInBytes == 0 || what.Height == 0 || what.Depth == 0 {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    check(unsafe {
        match when {
            When::Now => driver.cuMemcpy3D_v2(&raw const what),
            When::In(stream) => driver.cuMemcpy3DAsync_v2(&raw const what, stream),
        }
    })
}

/// Copies a box between devices.
///
/// # Safety
/// As for [`copy_box`].
unsafe fn copy_box_peer(parameters: *const cudaMemcpy3DPeerParms, when: When) -> CudaResult {
    let driver = ready()?;
    // SAFETY: the caller's promise.
    let p = unsafe { parameters.as_ref() }.ok_or(cudaError::cudaErrorInvalidValue)?;
    let kind = cudaMemcpyKind::cudaMemcpyDefault;
    let what = cuboid(&cudaMemcpy3DParms {
        srcArray: p.srcArray,
        srcPos: p.srcPos,
        srcPtr: p.srcPtr,
        dstArray: p.dstArray,
        dstPos: p.dstPos,
        dstPtr: p.dstPtr,
        extent: p.extent,
        kind,
    })?;
    let what = CUDA_MEMCPY3D_PEER {
        srcXInBytes: what.srcXInBytes,
        srcY: what.srcY,
        srcZ: what.srcZ,
        srcMemoryType: what.srcMemoryType,
        srcHost: what.srcHost,
        srcDevice: what.srcDevice,
        srcArray: what.srcArray,
        srcContext: primary(p.srcDevice)?,
        srcPitch: what.srcPitch,
        srcHeight: what.srcHeight,
        dstXInBytes: what.dstXInBytes,
        dstY: what.dstY,
        dstZ: what.dstZ,
        dstMemoryType: what.dstMemoryType,
        dstHost: what.dstHost,
        dstDevice: what.dstDevice,
        dstArray: what.dstArray,
        dstContext: primary(p.dstDevice)?,
        dstPitch: what.dstPitch,
        dstHeight: what.dstHeight,
        WidthInBytes: what.WidthInBytes,
        Height: what.Height,
        Depth: what.Depth,
        ..Default::default()
    };
    // SAFETY: the caller's promise.
    check(unsafe {
        match when {
            When::Now => driver.cuMemcpy3DPeer(&raw const what),
            When::In(stream) => driver.cuMemcpy3DPeerAsync(&raw const what, stream),
        }
    })
}

/// Returns the part of a variable that a copy uses.
pub(crate) fn part(
    symbol: *const c_void,
    count: usize,
    offset: usize,
) -> CudaResult<*const c_void> {
    let (at, size) = registry::variable(symbol)?;
    match offset.checked_add(count) {
        Some(end) if end <= size => Ok(at.wrapping_byte_add(offset)),
        _ => Err(cudaError::cudaErrorInvalidValue),
    }
}

/// A copy to a variable comes from the host or a device, one from a variable goes to them.
fn to_symbol(kind: cudaMemcpyKind) -> CudaResult {
    match kind {
        cudaMemcpyKind::cudaMemcpyHostToDevice
        | cudaMemcpyKind::cudaMemcpyDeviceToDevice
        | cudaMemcpyKind::cudaMemcpyDefault => Ok(()),
        _ => Err(cudaError::cudaErrorInvalidMemcpyDirection),
    }
}

fn from_symbol(kind: cudaMemcpyKind) -> CudaResult {
    match kind {
        cudaMemcpyKind::cudaMemcpyDeviceToHost
        | cudaMemcpyKind::cudaMemcpyDeviceToDevice
        | cudaMemcpyKind::cudaMemcpyDefault => Ok(()),
        _ => Err(cudaError::cudaErrorInvalidMemcpyDirection),
    }
}

/// The byte of a fill.
fn byte(value: c_int) -> c_uchar {
    value.to_le_bytes()[0]
}

/// Fills the planes of a box.
///
/// # Safety
/// The memory is valid for the writes.
unsafe fn fill_box(
    driver: &Driver,
    to: cudaPitchedPtr,
    value: c_int,
    extent: cudaExtent,
    stream: Option<CUstream>,
) -> CudaResult {
    if extent.width > to.pitch || (extent.depth > 1 && extent.height > to.ysize) {
        return Err(cudaError::cudaErrorInvalidValue);
    }
    if extent.width == 0 || extent.height == 0 {
        return Ok(());
    }
    let plane = to.pitch.checked_mul(to.ysize).ok_or(cudaError::cudaErrorInvalidValue)?;
    for z in 0..extent.depth {
        let at = address(to.ptr.wrapping_byte_add(plane.wrapping_mul(z)));
        let (value, width, height) = (byte(value), extent.width, extent.height);
        // SAFETY: the caller's promise.
        check(unsafe {
            match stream {
                None => driver.cuMemsetD2D8_v2(at, to.pitch, value, width, height),
                Some(stream) => {
                    driver.cuMemsetD2D8Async(at, to.pitch, value, width, height, stream)
                }
            }
        })?;
    }
    Ok(())
}

/// Runs a copy during the call.
pub(crate) fn now(sync: Sync, copy: impl Fn(&'static Driver, When) -> CudaResult) -> CudaResult {
    sync.run(|driver| copy(driver, When::Now), |driver, stream| copy(driver, When::In(stream)))
}

crate::functions! {
    fn cudaMemcpy, cudaMemcpy_ptds [sync how] (
        to: *mut c_void, from: *const c_void, count: usize, kind: cudaMemcpyKind,
    ) { now(how, |driver, when| bytes(driver, [to, from], count, kind, when)) }
    fn cudaMemcpyAsync, cudaMemcpyAsync_ptsz [stream] (
        to: *mut c_void, from: *const c_void, count: usize, kind: cudaMemcpyKind, stream: cudaStream_t,
    ) { bytes(ready()?, [to, from], count, kind, When::In(stream)) }
    fn cudaMemcpyPeer(
        to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, count: usize,
    ) {
        let (there, here) = (primary(to_device)?, primary(from_device)?);
        check(ready()?.cuMemcpyPeer(address(to), there, address(from), here, count))
    }
    fn cudaMemcpyPeerAsync(
        to: *mut c_void, to_device: c_int, from: *const c_void, from_device: c_int, count: usize,
        stream: cudaStream_t,
    ) {
        let (there, here) = (primary(to_device)?, primary(from_device)?);
        check(ready()?.cuMemcpyPeerAsync(address(to), there, address(from), here, count, stream))
    }
    fn cudaMemcpyToSymbol, cudaMemcpyToSymbol_ptds [sync how] (
        symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        to_symbol(kind)?;
        let to = part(symbol, count, offset)?;
        now(how, |driver, when| bytes(driver, [to, from], count, kind, when))
    }
    fn cudaMemcpyToSymbolAsync, cudaMemcpyToSymbolAsync_ptsz [stream] (
        symbol: *const c_void, from: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t,
    ) {
        to_symbol(kind)?;
        bytes(ready()?, [part(symbol, count, offset)?, from], count, kind, When::In(stream))
    }
    fn cudaMemcpyFromSymbol, cudaMemcpyFromSymbol_ptds [sync how] (
        to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind,
    ) {
        from_symbol(kind)?;
        let from = part(symbol, count, offset)?;
        now(how, |driver, when| bytes(driver, [to, from], count, kind, when))
    }
    fn cudaMemcpyFromSymbolAsync, cudaMemcpyFromSymbolAsync_ptsz [stream] (
        to: *mut c_void, symbol: *const c_void, count: usize, offset: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t,
    ) {
        from_symbol(kind)?;
        bytes(ready()?, [to, part(symbol, count, offset)?], count, kind, When::In(stream))
    }
    fn cudaMemcpy2D, cudaMemcpy2D_ptds [sync how] (
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind,
    ) {
        let sides = [Plane::memory(to, to_pitch), Plane::memory(from, from_pitch)];
        now(how, |driver, when| plane(driver, sides, [width, height], kind, when))
    }
    fn cudaMemcpy2DAsync, cudaMemcpy2DAsync_ptsz [stream] (
        to: *mut c_void, to_pitch: usize, from: *const c_void, from_pitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind, stream: cudaStream_t,
    ) {
        let sides = [Plane::memory(to, to_pitch), Plane::memory(from, from_pitch)];
        plane(ready()?, sides, [width, height], kind, When::In(stream))
    }
    fn cudaMemcpy2DToArray, cudaMemcpy2DToArray_ptds [sync how] (
        to: cudaArray_t, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind,
    ) {
        let sides = [Plane::array(to, x, y), Plane::memory(from, pitch)];
        now(how, |driver, when| plane(driver, sides, [width, height], kind, when))
    }
    fn cudaMemcpy2DToArrayAsync, cudaMemcpy2DToArrayAsync_ptsz [stream] (
        to: cudaArray_t, x: usize, y: usize, from: *const c_void, pitch: usize, width: usize, height: usize,
        kind: cudaMemcpyKind, stream: cudaStream_t,
    ) {
        let sides = [Plane::array(to, x, y), Plane::memory(from, pitch)];
        plane(ready()?, sides, [width, height], kind, When::In(stream))
    }
    fn cudaMemcpy2DFromArray, cudaMemcpy2DFromArray_ptds [sync how] (
        to: *mut c_void, pitch: usize, from: cudaArray_const_t, x: usize, y: usize, width: usize, height: usize,
        kind: cudaMemcpyKind,
    ) {
        let sides = [Plane::memory(to, pitch), Plane::array(from, x, y)];
        now(how, |driver, when| plane(driver, sides, [width, height], kind, when))
    }
    fn cudaMemcpy2DFromArrayAsync, cudaMemcpy2DFromArrayAsync_ptsz [stream] (
        to: *mut c_void, pitch: usize, from: cudaArray_const_t, x: usize, y: usize, width: usize, height: usize,
        kind: cudaMemcpyKind, stream: cudaStream_t,
    ) {
        let sides = [Plane::memory(to, pitch), Plane::array(from, x, y)];
        plane(ready()?, sides, [width, height], kind, When::In(stream))
    }
    fn cudaMemcpy2DArrayToArray, cudaMemcpy2DArrayToArray_ptds [sync how] (
        to: cudaArray_t, to_x: usize, to_y: usize, from: cudaArray_const_t, x: usize, y: usize, width: usize,
        height: usize, kind: cudaMemcpyKind,
    ) {
        let sides = [Plane::array(to, to_x, to_y), Plane::array(from, x, y)];
        now(how, |driver, when| plane(driver, sides, [width, height], kind, when))
    }
    fn cudaMemcpy3D, cudaMemcpy3D_ptds [sync how] (parameters: *const cudaMemcpy3DParms) {
        now(how, |_, when| copy_box(parameters, when))
    }
    fn cudaMemcpy3DAsync, cudaMemcpy3DAsync_ptsz [stream] (
        parameters: *const cudaMemcpy3DParms, stream: cudaStream_t,
    ) { copy_box(parameters, When::In(stream)) }
    fn cudaMemcpy3DPeer, cudaMemcpy3DPeer_ptds [sync how] (parameters: *const cudaMemcpy3DPeerParms) {
        now(how, |_, when| copy_box_peer(parameters, when))
    }
    fn cudaMemcpy3DPeerAsync, cudaMemcpy3DPeerAsync_ptsz [stream] (
        parameters: *const cudaMemcpy3DPeerParms, stream: cudaStream_t,
    ) { copy_box_peer(parameters, When::In(stream)) }
    fn cudaMemset, cudaMemset_ptds [sync how] (to: *mut c_void, value: c_int, count: usize) {
        how.run(
            |driver| check(driver.cuMemsetD8_v2(address(to), byte(value), count)),
            |driver, stream| check(driver.cuMemsetD8Async(address(to), byte(value), count, stream)),
        )
    }
    fn cudaMemsetAsync, cudaMemsetAsync_ptsz [stream] (
        to: *mut c_void, value: c_int, count: usize, stream: cudaStream_t,
    ) { check(ready()?.cuMemsetD8Async(address(to), byte(value), count, stream)) }
    fn cudaMemset2D, cudaMemset2D_ptds [sync how] (
        to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize,
    ) {
        let (at, value) = (address(to), byte(value));
        how.run(
            |driver| check(driver.cuMemsetD2D8_v2(at, pitch, value, width, height)),
            |driver, stream| check(driver.cuMemsetD2D8Async(at, pitch, value, width, height, stream)),
        )
    }
    fn cudaMemset2DAsync, cudaMemset2DAsync_ptsz [stream] (
        to: *mut c_void, pitch: usize, value: c_int, width: usize, height: usize, stream: cudaStream_t,
    ) { check(ready()?.cuMemsetD2D8Async(address(to), pitch, byte(value), width, height, stream)) }
    fn cudaMemset3D, cudaMemset3D_ptds [sync how] (to: cudaPitchedPtr, value: c_int, extent: cudaExtent) {
        how.run(
            |driver| fill_box(driver, to, value, extent, None),
            |driver, stream| fill_box(driver, to, value, extent, Some(stream)),
        )
    }
    fn cudaMemset3DAsync, cudaMemset3DAsync_ptsz [stream] (
        to: cudaPitchedPtr, value: c_int, extent: cudaExtent, stream: cudaStream_t,
    ) { fill_box(ready()?, to, value, extent, Some(stream)) }
}
