//! Memsets, and waits for and writes of single values in a stream's order.

use core::ffi::{c_uchar, c_uint, c_ushort};

use cuda_sys::{
    CUdeviceptr, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamBatchMemOpType, cuuint32_t,
    cuuint64_t,
};

use crate::driver::call::{Answer, functions, process};
use crate::driver::stream::work::{Fill, Work};

/// Checks a memset: its memory must be known, and its elements aligned.
pub(in crate::driver) fn check(fill: &Fill) -> Answer<bool> {
    let size = u64::from(fill.size);
    let extent = fill.extent().ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    let row = fill.width.saturating_mul(usize::from(fill.size));
    let apart = fill.rows == 1 || fill.pitch >= row && (fill.pitch as u64).is_multiple_of(size);
    match process()?.space.find_known(fill.at).filter(|region| region.holds(fill.at, extent)) {
        Some(region) if fill.at.is_multiple_of(size) && apart => Ok(region.kind.on_host()),
        _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
}

fn fill(fill: Fill, stream: Option<CUstream>) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let number = match stream {
        Some(stream) => state.stream(stream)?,
        None => {
            state.current()?;
            state.forbidden_in_capture()?;
            state.stream(core::ptr::null_mut())?
        }
    };
    if fill.width == 0 || fill.rows == 0 {
        return Ok(());
    }
    let on_host = check(&fill)?;
    let done = state.submit(number, Work::Fill(fill), 0)?;
    process.kick();
    // Even without a stream the host does not wait for device memory to be set.
    if stream.is_none() && on_host {
        drop(process.wait_for(state, &[done])?);
    }
    Ok(())
}

fn line(at: u64, value: u32, size: u8, width: usize) -> Fill {
    Fill { at, value, size, width, rows: 1, pitch: 0 }
}

fn plane(at: u64, pitch: usize, value: u32, size: u8, shape: (usize, usize)) -> Fill {
    Fill { at, value, size, width: shape.0, rows: shape.1, pitch }
}

/// Checks an address that a stream waits at or writes to.
fn value_at(address: u64, bytes: u8) -> Answer {
    let known = process()?.space.find_known(address);
    let known = known.filter(|region| region.holds(address, bytes.into()));
    if known.is_none() || !address.is_multiple_of(u64::from(bytes)) {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    Ok(())
}

fn wait(stream: CUstream, address: u64, value: u64, bytes: u8, flags: c_uint) -> Answer {
    value_at(address, bytes)?;
    // The highest flag asks for remote writes to be flushed, of which there are none.
    if flags & !(1 << 30) > 3 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    crate::driver::stream::submit(process()?, stream, Work::Wait(address, value, bytes, flags))
        .map(drop)
}

fn write(stream: CUstream, address: u64, value: u64, bytes: u8, flags: c_uint) -> Answer {
    value_at(address, bytes)?;
    if flags > 1 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    crate::driver::stream::submit(process()?, stream, Work::Write(address, value, bytes)).map(drop)
}

/// # Safety
/// `operations` is null or valid for the read of `count` operations.
unsafe fn batch(
    stream: CUstream,
    count: c_uint,
    operations: *mut CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Answer {
    if operations.is_null() || flags != 0 || count > 256 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    use CUstreamBatchMemOpType as T;
    for index in 0..count as usize {
        // SAFETY: within the caller's promise; the operation says which part of the union is set,
        // and the parts begin alike.
        unsafe {
            let one = operations.add(index).read();
            let (waits, writes) = (one.waitValue, one.writeValue);
            match one.operation {
                T::CU_STREAM_MEM_OP_WAIT_VALUE_32 => {
                    let value = u64::from(waits.__bindgen_anon_1.value);
                    wait(stream, waits.address, value, 4, waits.flags)?;
                }
                T::CU_STREAM_MEM_OP_WAIT_VALUE_64 => {
                    wait(stream, waits.address, waits.__bindgen_anon_1.value64, 8, waits.flags)?;
                }
                T::CU_STREAM_MEM_OP_WRITE_VALUE_32 => {
                    let value = u64::from(writes.__bindgen_anon_1.value);
                    write(stream, writes.address, value, 4, writes.flags)?;
                }
                T::CU_STREAM_MEM_OP_WRITE_VALUE_64 => {
                    write(
                        stream,
                        writes.address,
                        writes.__bindgen_anon_1.value64,
                        8,
                        writes.flags,
                    )?;
                }
                // Each operation is complete before the next one begins.
                T::CU_STREAM_MEM_OP_BARRIER => {}
                _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
            }
        }
    }
    Ok(())
}

functions! {
    Device fn cuMemsetD8_v2(at: CUdeviceptr, value: c_uchar, count: usize) {
        fill(line(at, value.into(), 1, count), None)
    }
    Device fn cuMemsetD8Async(at: CUdeviceptr, value: c_uchar, count: usize, stream: CUstream) {
        fill(line(at, value.into(), 1, count), Some(stream))
    }
    Device fn cuMemsetD16_v2(at: CUdeviceptr, value: c_ushort, count: usize) {
        fill(line(at, value.into(), 2, count), None)
    }
    Device fn cuMemsetD16Async(at: CUdeviceptr, value: c_ushort, count: usize, stream: CUstream) {
        fill(line(at, value.into(), 2, count), Some(stream))
    }
    Device fn cuMemsetD32_v2(at: CUdeviceptr, value: c_uint, count: usize) {
        fill(line(at, value, 4, count), None)
    }
    Device fn cuMemsetD32Async(at: CUdeviceptr, value: c_uint, count: usize, stream: CUstream) {
        fill(line(at, value, 4, count), Some(stream))
    }
    Device fn cuMemsetD2D8_v2(
        at: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize
    ) { fill(plane(at, pitch, value.into(), 1, (width, height)), None) }
    Device fn cuMemsetD2D8Async(
        at: CUdeviceptr, pitch: usize, value: c_uchar, width: usize, height: usize,
        stream: CUstream
    ) { fill(plane(at, pitch, value.into(), 1, (width, height)), Some(stream)) }
    Device fn cuMemsetD2D16_v2(
        at: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize
    ) { fill(plane(at, pitch, value.into(), 2, (width, height)), None) }
    Device fn cuMemsetD2D16Async(
        at: CUdeviceptr, pitch: usize, value: c_ushort, width: usize, height: usize,
        stream: CUstream
    ) { fill(plane(at, pitch, value.into(), 2, (width, height)), Some(stream)) }
    Device fn cuMemsetD2D32_v2(
        at: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize
    ) { fill(plane(at, pitch, value, 4, (width, height)), None) }
    Device fn cuMemsetD2D32Async(
        at: CUdeviceptr, pitch: usize, value: c_uint, width: usize, height: usize,
        stream: CUstream
    ) { fill(plane(at, pitch, value, 4, (width, height)), Some(stream)) }

    Device fn cuStreamWaitValue32(
        stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint
    ) { wait(stream, address, value.into(), 4, flags) }
    Device fn cuStreamWaitValue32_v2(
        stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint
    ) { wait(stream, address, value.into(), 4, flags) }
    Device fn cuStreamWaitValue64(
        stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint
    ) { wait(stream, address, value, 8, flags) }
    Device fn cuStreamWaitValue64_v2(
        stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint
    ) { wait(stream, address, value, 8, flags) }
    Device fn cuStreamWriteValue32(
        stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint
    ) { write(stream, address, value.into(), 4, flags) }
    Device fn cuStreamWriteValue32_v2(
        stream: CUstream, address: CUdeviceptr, value: cuuint32_t, flags: c_uint
    ) { write(stream, address, value.into(), 4, flags) }
    Device fn cuStreamWriteValue64(
        stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint
    ) { write(stream, address, value, 8, flags) }
    Device fn cuStreamWriteValue64_v2(
        stream: CUstream, address: CUdeviceptr, value: cuuint64_t, flags: c_uint
    ) { write(stream, address, value, 8, flags) }
    Device fn cuStreamBatchMemOp(
        stream: CUstream, count: c_uint, operations: *mut CUstreamBatchMemOpParams, flags: c_uint
    ) { batch(stream, count, operations, flags) }
    Device fn cuStreamBatchMemOp_v2(
        stream: CUstream, count: c_uint, operations: *mut CUstreamBatchMemOpParams, flags: c_uint
    ) { batch(stream, count, operations, flags) }
}
