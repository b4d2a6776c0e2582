//! Copies of rectangles and boxes, of arrays too, and from one device to another.

use cuda_sys::{
    CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUmemorytype, CUresult, CUstream,
};

use super::copy::{Side, copy, copy_between, not_captured};
use crate::driver::call::{Answer, functions, process};
use crate::driver::objects::number;
use crate::driver::stream::work::{Copy, Source};
use crate::driver::texture;

/// Where one side of a copy begins: memory type, addresses, and the offset in it.
struct Corner {
    kind: CUmemorytype,
    host: u64,
    device: u64,
    array: u64,
    lod: usize,
    x: usize,
    y: usize,
    z: usize,
    /// Bytes of a row and rows of a slice; 0 for what the copy itself has.
    pitch: usize,
    height: usize,
}

impl Corner {
    /// Returns the first byte, what the call says of it, and the distances of rows and slices.
    fn resolve(&self, shape: (usize, usize, usize)) -> Answer<(u64, Side, (usize, usize))> {
        let (width, rows, slices) = shape;
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let (base, side) = match self.kind {
            CUmemorytype::CU_MEMORYTYPE_HOST => (self.host, Side::Host),
            CUmemorytype::CU_MEMORYTYPE_DEVICE => (self.device, Side::Device),
            CUmemorytype::CU_MEMORYTYPE_UNIFIED => (self.device, Side::Host),
            CUmemorytype::CU_MEMORYTYPE_ARRAY => {
                let at = texture::Corner { x: self.x, y: self.y, z: self.z, lod: self.lod };
                let (start, pitch) = texture::corner(process()?, self.array, at, shape)?;
                return Ok((start, Side::Device, pitch));
            }
            _ => return Err(invalid),
        };
        let row = self.x.checked_add(width).ok_or(invalid)?;
        let pitch = if self.pitch == 0 { row } else { self.pitch };
        let column = self.y.checked_add(rows).ok_or(invalid)?;
        let height = if self.height == 0 { column } else { self.height };
        if pitch < row && rows > 1 || height < column && slices > 1 {
            return Err(invalid);
        }
        let slice = pitch.checked_mul(height).ok_or(invalid)?;
        let offset = || {
            self.z.checked_mul(slice)?.checked_add(self.y.checked_mul(pitch)?)?.checked_add(self.x)
        };
        let start = base.checked_add(offset().ok_or(invalid)? as u64).ok_or(invalid)?;
        Ok((start, side, (pitch, slice)))
    }
}

/// A copy between two corners.
fn shaped(from: &Corner, to: &Corner, shape: (usize, usize, usize)) -> Answer<(Copy, Side, Side)> {
    let (start, from_side, from_pitch) = from.resolve(shape)?;
    let (end, to_side, to_pitch) = to.resolve(shape)?;
    let (width, rows, slices) = shape;
    let copy = Copy {
        from: Source::At(start, false),
        to: end,
        to_device: false,
        width,
        rows,
        slices,
        from_pitch,
        to_pitch,
    };
    Ok((copy, from_side, to_side))
}

/// # Safety
/// `what` is null or valid for the read.
unsafe fn plane(what: *const CUDA_MEMCPY2D, stream: Option<CUstream>) -> Answer {
    if what.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let what = unsafe { what.read() };
    let from = Corner {
        kind: what.srcMemoryType,
        host: what.srcHost.expose_provenance() as u64,
        device: what.srcDevice,
        array: number(what.srcArray),
        lod: 0,
        x: what.srcXInBytes,
        y: what.srcY,
        z: 0,
        pitch: what.srcPitch,
        height: 0,
    };
    let to = Corner {
        kind: what.dstMemoryType,
        host: what.dstHost.expose_provenance() as u64,
        device: what.dstDevice,
        array: number(what.dstArray),
        lod: 0,
        x: what.dstXInBytes,
        y: what.dstY,
        z: 0,
        pitch: what.dstPitch,
        height: 0,
    };
    let (work, from, to) = shaped(&from, &to, (what.WidthInBytes, what.Height, 1))?;
    copy(work, from, to, stream)
}

/// Returns the copy that a description of a box means.
///
/// # Safety
/// `what` is null or valid for the read.
pub(in crate::driver) unsafe fn cuboid(what: *const CUDA_MEMCPY3D) -> Answer<(Copy, Side, Side)> {
    if what.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let what = unsafe { what.read() };
    let from = Corner {
        kind: what.srcMemoryType,
        host: what.srcHost.expose_provenance() as u64,
        device: what.srcDevice,
        array: number(what.srcArray),
        lod: what.srcLOD,
        x: what.srcXInBytes,
        y: what.srcY,
        z: what.srcZ,
        pitch: what.srcPitch,
        height: what.srcHeight,
    };
    let to = Corner {
        kind: what.dstMemoryType,
        host: what.dstHost.expose_provenance() as u64,
        device: what.dstDevice,
        array: number(what.dstArray),
        lod: what.dstLOD,
        x: what.dstXInBytes,
        y: what.dstY,
        z: what.dstZ,
        pitch: what.dstPitch,
        height: what.dstHeight,
    };
    shaped(&from, &to, (what.WidthInBytes, what.Height, what.Depth))
}

/// # Safety
/// `what` is null or valid for the read.
unsafe fn peer(what: *const CUDA_MEMCPY3D_PEER, stream: Option<CUstream>) -> Answer {
    if what.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let what = unsafe { what.read() };
    let same = CUDA_MEMCPY3D {
        srcXInBytes: what.srcXInBytes,
        srcY: what.srcY,
        srcZ: what.srcZ,
        srcMemoryType: what.srcMemoryType,
        srcHost: what.srcHost,
        srcDevice: what.srcDevice,
        srcArray: what.srcArray,
        srcLOD: what.srcLOD,
        srcPitch: what.srcPitch,
        srcHeight: what.srcHeight,
        dstXInBytes: what.dstXInBytes,
        dstY: what.dstY,
        dstZ: what.dstZ,
        dstMemoryType: what.dstMemoryType,
        dstHost: what.dstHost,
        dstDevice: what.dstDevice,
        dstArray: what.dstArray,
        dstLOD: what.dstLOD,
        dstPitch: what.dstPitch,
        dstHeight: what.dstHeight,
        WidthInBytes: what.WidthInBytes,
        Height: what.Height,
        Depth: what.Depth,
        ..CUDA_MEMCPY3D::default()
    };
    // SAFETY: a local description.
    let (work, from, to) = unsafe { cuboid(&raw const same) }?;
    copy_between(work, from, to, stream)
}

functions! {
    Device fn cuMemcpy2D_v2(what: *const CUDA_MEMCPY2D) { plane(what, None) }
    Device fn cuMemcpy2DUnaligned_v2(what: *const CUDA_MEMCPY2D) { plane(what, None) }
    Device fn cuMemcpy2DAsync_v2(what: *const CUDA_MEMCPY2D, stream: CUstream) {
        plane(what, Some(stream))
    }
    Device fn cuMemcpy3D_v2(what: *const CUDA_MEMCPY3D) {
        let (work, from, to) = cuboid(what)?;
        copy(work, from, to, None)
    }
    Device fn cuMemcpy3DAsync_v2(what: *const CUDA_MEMCPY3D, stream: CUstream) {
        let (work, from, to) = cuboid(what)?;
        copy(work, from, to, Some(stream))
    }
    Device fn cuMemcpy3DPeer(what: *const CUDA_MEMCPY3D_PEER) { peer(what, None) }
    Device fn cuMemcpy3DPeerAsync(what: *const CUDA_MEMCPY3D_PEER, stream: CUstream) {
        not_captured(stream)?;
        peer(what, Some(stream))
    }
}
