//! The driver calls that this crate makes. Each failure becomes an [`Error`] that names the call.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use cuda_sys::{
    CUcontext, CUevent, CUfunction, CUlibrary, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus, Driver, MissingSymbol,
};

use crate::call::{Error, Kind, Result};

static DRIVER: OnceLock<&'static Driver> = OnceLock::new();

/// The names of the driver's functions that have failed.
static FAILED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Returns the names of the driver's functions that have failed since the last call.
pub(crate) fn take_failed() -> Vec<String> {
    std::mem::take(&mut *FAILED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Sets the driver that all functions use. Returns whether it is the one in use.
pub(crate) fn set_driver(driver: &'static Driver) -> bool {
    ptr::eq(*DRIVER.get_or_init(|| driver), driver)
}

/// The driver.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cuda(&'static Driver);

/// Calls the driver, and names the call in its error.
macro_rules! call {
    ($cuda:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: places are local and valid for the write; handles and addresses are alive, as the rules of the
        // function say that makes the call.
        check(stringify!($name), unsafe { $cuda.0.$name($($argument),*) })
    };
}

fn check(name: &str, code: core::result::Result<CUresult, MissingSymbol>) -> Result {
    if code != Ok(CUresult::CUDA_SUCCESS) {
        FAILED.lock().unwrap_or_else(PoisonError::into_inner).push(name.to_owned());
    }
    match code {
        Ok(CUresult::CUDA_SUCCESS) => Ok(()),
        Ok(CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
            Err(Error::new(Kind::Memory, format!("{name}: the device has not enough memory")))
        }
        Ok(code) => Err(Error::new(Kind::Launch, format!("{name} returned {code}"))),
        Err(missing) => Err(Error::new(Kind::Launch, missing.to_string())),
    }
}

/// A context that is current on this thread until this is dropped.
#[derive(Debug)]
pub(crate) struct Current(Cuda);

impl Drop for Current {
    fn drop(&mut self) {
        let mut context = ptr::null_mut();
        // The pop restores the caller's context even if it reports an earlier error.
        let _ = call!(self.0, cuCtxPopCurrent_v2(&raw mut context));
    }
}

/// While this lives, captures of other code do not restrict this thread.
#[derive(Debug)]
pub(crate) struct Relaxed(Cuda, CUstreamCaptureMode);

impl Drop for Relaxed {
    fn drop(&mut self) {
        // The call fails only if the device is lost. The second try is for a failure that passes.
        if self.0.exchange(self.1).is_err() {
            let _ = self.0.exchange(self.1);
        }
    }
}

impl Cuda {
    /// Returns the driver, initialised: the one that the program has set, else the system's.
    pub(crate) fn get() -> Result<Self> {
        let start = |text: String| Error::new(Kind::Start, text);
        let cuda = match DRIVER.get() {
            Some(driver) => Self(driver),
            None => match Driver::load() {
                Ok(driver) => Self(DRIVER.get_or_init(|| driver)),
                Err(error) => {
                    return Err(start(format!(
                        "{error}; pass a driver to `blas_emu::use_driver` before the first call"
                    )));
                }
            },
        };
        call!(cuda, cuInit(0)).map_err(|error| start(error.text))?;
        Ok(cuda)
    }

    /// Returns the driver that is in use, if there is one.
    pub(crate) fn known() -> Option<Self> {
        DRIVER.get().copied().map(Self)
    }

    /// Returns the current context. A thread without one gets the primary context of device 0, as with the runtime.
    pub(crate) fn context(self) -> Result<CUcontext> {
        let start = |error: Error| Error { kind: Kind::Start, ..error };
        let mut context = ptr::null_mut();
        call!(self, cuCtxGetCurrent(&raw mut context)).map_err(start)?;
        if context.is_null() {
            call!(self, cuDevicePrimaryCtxRetain(&raw mut context, 0)).map_err(start)?;
            call!(self, cuCtxSetCurrent(context)).map_err(start)?;
        }
        Ok(context)
    }

    pub(crate) fn push(self, context: CUcontext) -> Result<Current> {
        call!(self, cuCtxPushCurrent_v2(context))?;
        Ok(Current(self))
    }

    fn exchange(self, mode: CUstreamCaptureMode) -> Result<CUstreamCaptureMode> {
        let mut mode = mode;
        call!(self, cuThreadExchangeStreamCaptureMode(&raw mut mode))?;
        Ok(mode)
    }

    /// Allows calls that allocate, load or wait while a stream of the process is captured. None of ours uses a stream
    /// that is captured.
    pub(crate) fn relaxed(self) -> Result<Relaxed> {
        let before = self.exchange(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
        Ok(Relaxed(self, before))
    }

    pub(crate) fn alloc(self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&raw mut address, bytes.max(1)))?;
        Ok(address)
    }

    pub(crate) fn free(self, address: u64) -> Result {
        call!(self, cuMemFree_v2(address))
    }

    /// Allocates pinned memory that kernels write, too.
    pub(crate) fn alloc_host(self, bytes: usize) -> Result<*mut c_void> {
        const PORTABLE: u32 = 1;
        const DEVICE_MAP: u32 = 2;
        let mut memory = ptr::null_mut();
        call!(self, cuMemHostAlloc(&raw mut memory, bytes, PORTABLE | DEVICE_MAP))?;
        Ok(memory)
    }

    pub(crate) fn free_host(self, memory: *mut c_void) -> Result {
        call!(self, cuMemFreeHost(memory))
    }

    /// Writes zero bytes, in the order of the stream.
    pub(crate) fn clear(self, address: u64, bytes: usize, stream: CUstream) -> Result {
        call!(self, cuMemsetD8Async(address, 0, bytes, stream))
    }

    /// Copies a value to the device, and waits for it. Not by the legacy stream, which waits for blocking streams, and so
    /// ends the captures of those.
    pub(crate) fn upload<T: Copy>(self, to: u64, from: &[T]) -> Result {
        let of_thread: CUstream = ptr::without_provenance_mut(2);
        let bytes = size_of_val(from);
        call!(self, cuMemcpyHtoDAsync_v2(to, from.as_ptr().cast(), bytes, of_thread))?;
        self.synchronize_stream(of_thread)
    }

    /// Copies rows between the host and the device, in the order of the stream.
    pub(crate) fn copy_rows(
        self,
        to: Rows,
        from: Rows,
        [width, rows]: [usize; 2],
        to_device: bool,
        stream: CUstream,
    ) -> Result {
        use cuda_sys::{CUDA_MEMCPY2D_st, CUmemorytype};
        let mut all =
            CUDA_MEMCPY2D_st { WidthInBytes: width, Height: rows, ..CUDA_MEMCPY2D_st::default() };
        let host = |rows: Rows| ptr::with_exposed_provenance_mut::<c_void>(rows.at as usize);
        (all.srcPitch, all.dstPitch) = (from.pitch, to.pitch);
        if to_device {
            all.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            all.srcHost = host(from);
            all.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            all.dstDevice = to.at;
        } else {
            all.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_DEVICE;
            all.srcDevice = from.at;
            all.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_HOST;
            all.dstHost = host(to);
        }
        call!(self, cuMemcpy2DAsync_v2(&raw const all, stream))
    }

    pub(crate) fn synchronize_stream(self, stream: CUstream) -> Result {
        call!(self, cuStreamSynchronize(stream))
    }

    pub(crate) fn event(self) -> Result<CUevent> {
        const DISABLE_TIMING: u32 = 2;
        let mut event = ptr::null_mut();
        call!(self, cuEventCreate(&raw mut event, DISABLE_TIMING))?;
        Ok(event)
    }

    pub(crate) fn record(self, event: CUevent, stream: CUstream) -> Result {
        call!(self, cuEventRecord(event, stream))
    }

    pub(crate) fn synchronize_event(self, event: CUevent) -> Result {
        call!(self, cuEventSynchronize(event))
    }

    pub(crate) fn destroy_event(self, event: CUevent) -> Result {
        call!(self, cuEventDestroy_v2(event))
    }

    /// Returns whether the stream takes part in a capture.
    pub(crate) fn captures(self, stream: CUstream) -> Result<bool> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        call!(self, cuStreamIsCapturing(stream, &raw mut status))?;
        Ok(status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE)
    }

    /// Loads PTX as a library, which belongs to no context.
    pub(crate) fn load(self, ptx: &CStr) -> Result<CUlibrary> {
        let mut library = ptr::null_mut();
        let none = ptr::null_mut();
        call!(
            self,
            cuLibraryLoadData(
                &raw mut library,
                ptx.as_ptr().cast(),
                none,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                ptr::null_mut(),
                0
            )
        )?;
        Ok(library)
    }

    pub(crate) fn unload(self, library: CUlibrary) -> Result {
        call!(self, cuLibraryUnload(library))
    }

    /// Returns a kernel of a library, in the form that launches take.
    pub(crate) fn kernel(self, library: CUlibrary, name: &CStr) -> Result<CUfunction> {
        let mut kernel = ptr::null_mut();
        call!(self, cuLibraryGetKernel(&raw mut kernel, library, name.as_ptr()))?;
        // The driver takes a `CUkernel` in the place of a `CUfunction`.
        Ok(kernel.cast())
    }

    /// Launches a kernel that takes one structure.
    pub(crate) fn launch<T: Copy>(
        self,
        function: CUfunction,
        [grid, block]: [u32; 2],
        stream: CUstream,
        arguments: &T,
    ) -> Result {
        let none = ptr::null_mut();
        let mut list = [ptr::from_ref(arguments).cast_mut().cast::<c_void>()];
        call!(
            self,
            cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, list.as_mut_ptr(), none)
        )
    }
}

/// Rows of memory: the first byte, and the distance of rows in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rows {
    pub(crate) at: u64,
    pub(crate) pitch: usize,
}
