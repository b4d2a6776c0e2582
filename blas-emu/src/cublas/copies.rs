//! Copies of vectors and matrices between the host and the device.

use core::ffi::{c_int, c_void};
use core::ptr;

use cuda_sys::cublas::{CublasFns, cublasStatus_t, cudaStream_t};

use crate::call::{Error, Result, functions};
use crate::cuda::{Cuda, Rows};

/// The place of a copy: its address, and the distance of rows in elements.
type Place = (*const c_void, i64);

/// Copies rows. Without a stream, it waits.
fn copy(
    [width, rows, bytes]: [i64; 3],
    from: Place,
    to: Place,
    to_device: bool,
    stream: Option<cudaStream_t>,
) -> Result {
    if rows < 0 || width < 0 || bytes <= 0 || from.1 < width.max(1) || to.1 < width.max(1) {
        return Err(Error::value(format!(
            "sizes {width} and {rows} of elements of {bytes} bytes, at distances {} and {}",
            from.1, to.1
        )));
    }
    let cuda = Cuda::get()?;
    cuda.context()?;
    if rows == 0 || width == 0 {
        return Ok(());
    }
    if from.0.is_null() || to.0.is_null() {
        return Err(Error::value("a null address: pass those of both places"));
    }
    let size = |count: i64| {
        let size = count.checked_mul(bytes).and_then(|size| usize::try_from(size).ok());
        size.ok_or_else(|| Error::value(format!("{count} elements of {bytes} bytes")))
    };
    let of = |place: Place| {
        Ok::<_, Error>(Rows { at: place.0.expose_provenance() as u64, pitch: size(place.1)? })
    };
    let rows = usize::try_from(rows).unwrap_or(0);
    cuda.copy_rows(
        of(to)?,
        of(from)?,
        [size(width)?, rows],
        to_device,
        stream.unwrap_or(ptr::null_mut()),
    )?;
    match stream {
        Some(_) => Ok(()),
        None => cuda.synchronize_stream(ptr::null_mut()),
    }
}

macro_rules! copies {
    ($($int:ty: $set_v:ident $get_v:ident $set_v_a:ident $get_v_a:ident $set_m:ident $get_m:ident $set_m_a:ident $get_m_a:ident;)*) => {
        functions! { cublasStatus_t, CublasFns, COPIES; $(
            fn $set_v(n: $int, elemSize: $int, x: *const c_void, incx: $int, devicePtr: *mut c_void, incy: $int) {
                copy([1, n.into(), elemSize.into()], (x, incx.into()), (devicePtr, incy.into()), true, None)
            }
            fn $get_v(n: $int, elemSize: $int, x: *const c_void, incx: $int, y: *mut c_void, incy: $int) {
                copy([1, n.into(), elemSize.into()], (x, incx.into()), (y, incy.into()), false, None)
            }
            fn $set_v_a(
                n: $int, elemSize: $int, hostPtr: *const c_void, incx: $int, devicePtr: *mut c_void, incy: $int,
                stream: cudaStream_t,
            ) { copy([1, n.into(), elemSize.into()], (hostPtr, incx.into()), (devicePtr, incy.into()), true, Some(stream)) }
            fn $get_v_a(
                n: $int, elemSize: $int, devicePtr: *const c_void, incx: $int, hostPtr: *mut c_void, incy: $int,
                stream: cudaStream_t,
            ) { copy([1, n.into(), elemSize.into()], (devicePtr, incx.into()), (hostPtr, incy.into()), false, Some(stream)) }
            fn $set_m(rows: $int, cols: $int, elemSize: $int, A: *const c_void, lda: $int, B: *mut c_void, ldb: $int) {
                copy([rows.into(), cols.into(), elemSize.into()], (A, lda.into()), (B, ldb.into()), true, None)
            }
            fn $get_m(rows: $int, cols: $int, elemSize: $int, A: *const c_void, lda: $int, B: *mut c_void, ldb: $int) {
                copy([rows.into(), cols.into(), elemSize.into()], (A, lda.into()), (B, ldb.into()), false, None)
            }
            fn $set_m_a(
                rows: $int, cols: $int, elemSize: $int, A: *const c_void, lda: $int, B: *mut c_void, ldb: $int,
                stream: cudaStream_t,
            ) { copy([rows.into(), cols.into(), elemSize.into()], (A, lda.into()), (B, ldb.into()), true, Some(stream)) }
            fn $get_m_a(
                rows: $int, cols: $int, elemSize: $int, A: *const c_void, lda: $int, B: *mut c_void, ldb: $int,
                stream: cudaStream_t,
            ) { copy([rows.into(), cols.into(), elemSize.into()], (A, lda.into()), (B, ldb.into()), false, Some(stream)) }
        )* }
    };
}

copies! {
    c_int: cublasSetVector cublasGetVector cublasSetVectorAsync cublasGetVectorAsync cublasSetMatrix cublasGetMatrix
        cublasSetMatrixAsync cublasGetMatrixAsync;
    i64: cublasSetVector_64 cublasGetVector_64 cublasSetVectorAsync_64 cublasGetVectorAsync_64 cublasSetMatrix_64
        cublasGetMatrix_64 cublasSetMatrixAsync_64 cublasGetMatrixAsync_64;
}
