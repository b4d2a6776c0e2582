//! Copies between arrays and other memory by offset: within the first row of an array.

use core::ffi::c_void;

use cuda_sys::{CUarray, CUdeviceptr, CUstream};

use super::{Corner, corner};
use crate::driver::call::{Answer, functions, process};
use crate::driver::memory::copy::{Side, copy, row};
use crate::driver::objects::number;

/// Returns the address of bytes of an array's first row.
fn bytes_of(array: CUarray, offset: usize, bytes: usize) -> Answer<u64> {
    // An empty copy may be anywhere.
    let at = Corner { x: if bytes == 0 { 0 } else { offset }, y: 0, z: 0, lod: 0 };
    let (address, _) = corner(process()?, number(array), at, (bytes, 1, 1))?;
    Ok(address)
}

fn upload(
    array: CUarray,
    offset: usize,
    from: *const c_void,
    bytes: usize,
    stream: Option<CUstream>,
) -> Answer {
    let to = bytes_of(array, offset, bytes)?;
    let from = from.expose_provenance() as u64;
    copy(row(from, to, bytes), Side::Host, Side::Device, stream)
}

fn download(
    to: *mut c_void,
    array: CUarray,
    offset: usize,
    bytes: usize,
    stream: Option<CUstream>,
) -> Answer {
    let from = bytes_of(array, offset, bytes)?;
    let to = to.expose_provenance() as u64;
    copy(row(from, to, bytes), Side::Device, Side::Host, stream)
}

functions! {
    Device fn cuMemcpyHtoA_v2(array: CUarray, offset: usize, from: *const c_void, bytes: usize) {
        upload(array, offset, from, bytes, None)
    }
    Device fn cuMemcpyHtoAAsync_v2(
        array: CUarray, offset: usize, from: *const c_void, bytes: usize, stream: CUstream
    ) { upload(array, offset, from, bytes, Some(stream)) }
    Device fn cuMemcpyAtoH_v2(to: *mut c_void, array: CUarray, offset: usize, bytes: usize) {
        download(to, array, offset, bytes, None)
    }
    Device fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void, array: CUarray, offset: usize, bytes: usize, stream: CUstream
    ) { download(to, array, offset, bytes, Some(stream)) }
    Device fn cuMemcpyDtoA_v2(array: CUarray, offset: usize, from: CUdeviceptr, bytes: usize) {
        let to = bytes_of(array, offset, bytes)?;
        copy(row(from, to, bytes), Side::Device, Side::Device, None)
    }
    Device fn cuMemcpyAtoD_v2(to: CUdeviceptr, array: CUarray, offset: usize, bytes: usize) {
        let from = bytes_of(array, offset, bytes)?;
        copy(row(from, to, bytes), Side::Device, Side::Device, None)
    }
    Device fn cuMemcpyAtoA_v2(
        to: CUarray, to_offset: usize, from: CUarray, from_offset: usize, bytes: usize
    ) {
        let to = bytes_of(to, to_offset, bytes)?;
        let from = bytes_of(from, from_offset, bytes)?;
        copy(row(from, to, bytes), Side::Device, Side::Device, None)
    }
}
