//! The raw bindings, for functions of the driver that this crate does not wrap, and for NVIDIA's libraries.

#[doc(no_inline)]
pub use cuda_sys::*;

#[cfg(feature = "libraries")]
use crate::error::Result;

/// cuBLAS: linear algebra. With the feature `libraries`.
///
/// ```no_run
/// use cuda_safe::sys::{CUresult, cublas::{self, cublasOperation_t, cublasStatus_t}};
/// use cuda_safe::{Context, DeviceBuffer};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = Context::new(0)?;
/// let stream = context.stream()?;
/// let blas = cublas::load()?;
/// // The library works in the context that is current in the thread.
/// // SAFETY: the context lives as long as `context`.
/// let code = unsafe { context.driver().as_sys().cuCtxSetCurrent(context.as_raw()) }?;
/// assert_eq!(code, CUresult::CUDA_SUCCESS);
/// let mut handle = std::ptr::null_mut();
/// // SAFETY: `handle` is valid for the write.
/// let status = unsafe { blas.cublasCreate_v2(&raw mut handle) }?;
/// assert_eq!(status, cublasStatus_t::CUBLAS_STATUS_SUCCESS);
///
/// // c = a b, column by column: 2 x 3 by 3 x 2.
/// let a = DeviceBuffer::from_slice(&stream, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
/// let b = DeviceBuffer::from_slice(&stream, &[1.0f32, 0.0, 0.0, 0.0, 1.0, 0.0])?;
/// let mut c = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
/// let (pa, pb, pc) = (a.device_ptr() as *const f32, b.device_ptr() as *const f32, c.device_ptr() as *mut f32);
/// let (one, zero, n) = (1.0f32, 0.0f32, cublasOperation_t::CUBLAS_OP_N);
/// // SAFETY: cuBLAS enqueues on the stream alone; it reads a and b and writes c, within bounds. The handle is alive, and
/// // the numbers are read before the call returns.
/// let status = unsafe {
///     stream.enqueue((&a, &b, &mut c), |raw| {
///         blas.cublasSetStream_v2(handle, raw)?;
///         blas.cublasSgemm_v2(handle, n, n, 2, 2, 3, &raw const one, pa, 2, pb, 3, &raw const zero, pc, 2)
///     })
/// }??;
/// assert_eq!(status, cublasStatus_t::CUBLAS_STATUS_SUCCESS);
/// assert_eq!(c.to_vec(&stream)?, [1.0, 2.0, 3.0, 4.0]);
/// // SAFETY: no work of the handle is under way: `to_vec` has waited.
/// unsafe { blas.cublasDestroy_v2(handle) }?;
/// # Ok(()) }
/// ```
#[cfg(feature = "libraries")]
pub mod cublas {
    #[doc(no_inline)]
    pub use cuda_sys::cublas::*;

    /// Finds and loads cuBLAS, where NVRTC is searched: what the variable `CUDA_CUBLAS` names, or else the newest that is
    /// not newer than the driver. The library is loaded once, and never unloaded.
    ///
    /// # Errors
    /// [`ErrorKind::Compile`](crate::ErrorKind::Compile) with [`nvrtc::Error::Library`] lists every place that was searched.
    pub fn load() -> super::Result<&'static Cublas> {
        Ok(nvrtc::libraries::cublas(super::cuda_major())?)
    }
}

/// cuBLASLt: products of matrices with epilogues. With the feature `libraries`.
#[cfg(feature = "libraries")]
pub mod cublaslt {
    #[doc(no_inline)]
    pub use cuda_sys::cublaslt::*;

    /// Finds and loads cuBLASLt, as [`cublas::load`](super::cublas::load) does cuBLAS, with the variable `CUDA_CUBLASLT`.
    /// Without it, `CUDA_CUBLAS` names the folder.
    ///
    /// # Errors
    /// As [`cublas::load`](super::cublas::load).
    pub fn load() -> super::Result<&'static CublasLt> {
        Ok(nvrtc::libraries::cublaslt(super::cuda_major())?)
    }
}

/// cuRAND: random numbers. With the feature `libraries`.
#[cfg(feature = "libraries")]
pub mod curand {
    #[doc(no_inline)]
    pub use cuda_sys::curand::*;

    /// Finds and loads cuRAND, as [`cublas::load`](super::cublas::load) does cuBLAS, with the variable `CUDA_CURAND`.
    ///
    /// # Errors
    /// As [`cublas::load`](super::cublas::load).
    pub fn load() -> super::Result<&'static Curand> {
        Ok(nvrtc::libraries::curand(super::cuda_major())?)
    }
}

/// cuFFT: Fourier transforms. With the feature `libraries`.
///
/// A plan is made in the thread whose current context is the stream's, as in the example of [`cublas`], given the stream by
/// `cufftSetStream`, and run within [`Stream::enqueue`](crate::Stream::enqueue).
#[cfg(feature = "libraries")]
pub mod cufft {
    #[doc(no_inline)]
    pub use cuda_sys::cufft::*;

    /// Finds and loads cuFFT, as [`cublas::load`](super::cublas::load) does cuBLAS, with the variable `CUDA_CUFFT`.
    ///
    /// # Errors
    /// As [`cublas::load`](super::cublas::load).
    pub fn load() -> super::Result<&'static Cufft> {
        Ok(nvrtc::libraries::cufft(super::cuda_major())?)
    }
}

/// Returns the driver's major version of CUDA; `None` without a driver, where any library may be loaded.
#[cfg(feature = "libraries")]
fn cuda_major() -> Option<u32> {
    let version = Driver::load().ok()?.version()?;
    u32::try_from(version / 1000).ok()
}
