//! The driver calls that this crate makes. Each failure becomes an [`Error`] that names the call.

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::sync::OnceLock;

use cuda_sys::{
    CUcontext, CUdevice, CUevent, CUfunction, CUmodule, CUresult, CUstream, CUstreamCaptureMode,
    CUstreamCaptureStatus, Driver, MissingSymbol,
};

use crate::error::{Error, Result};

static DRIVER: OnceLock<&'static Driver> = OnceLock::new();

/// Sets the driver that all communicators use. Returns whether it is the one in use.
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
    match code {
        Ok(CUresult::CUDA_SUCCESS) => Ok(()),
        Ok(code) => Err(Error::cuda(format!("{name} returned {code}"))),
        Err(missing) => Err(Error::cuda(missing.to_string())),
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
    /// Returns the driver: the one that the program has set, else the system's.
    pub(crate) fn get() -> Result<Self> {
        if let Some(driver) = DRIVER.get() {
            return Ok(Self(driver));
        }
        match Driver::load() {
            Ok(driver) => Ok(Self(DRIVER.get_or_init(|| driver))),
            Err(error) => Err(Error::system(format!(
                "{error}; pass a driver to `nccl_emu::use_driver` before the first call"
            ))),
        }
    }

    /// Initialises the driver, which may be done any number of times.
    pub(crate) fn init(self) -> Result {
        call!(self, cuInit(0))
    }

    pub(crate) fn device_count(self) -> Result<c_int> {
        let mut count = 0;
        call!(self, cuDeviceGetCount(&raw mut count))?;
        Ok(count)
    }

    pub(crate) fn retain_primary(self, device: CUdevice) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        call!(self, cuDevicePrimaryCtxRetain(&raw mut context, device))?;
        Ok(context)
    }

    pub(crate) fn release_primary(self, device: CUdevice) -> Result {
        call!(self, cuDevicePrimaryCtxRelease_v2(device))
    }

    pub(crate) fn push(self, context: CUcontext) -> Result<Current> {
        call!(self, cuCtxPushCurrent_v2(context))?;
        Ok(Current(self))
    }

    /// Returns the current context, which may be null.
    pub(crate) fn current(self) -> Result<CUcontext> {
        let mut context = ptr::null_mut();
        call!(self, cuCtxGetCurrent(&raw mut context))?;
        Ok(context)
    }

    /// Returns the device of the current context.
    pub(crate) fn current_device(self) -> Result<CUdevice> {
        let mut device = 0;
        call!(self, cuCtxGetDevice(&raw mut device))?;
        Ok(device)
    }

    pub(crate) fn synchronize(self) -> Result {
        call!(self, cuCtxSynchronize())
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

    pub(crate) fn can_access_peer(self, device: CUdevice, peer: CUdevice) -> Result<bool> {
        let mut can = 0;
        call!(self, cuDeviceCanAccessPeer(&raw mut can, device, peer))?;
        Ok(can != 0)
    }

    /// Lets kernels of the current context use the memory of another one, if they may not already.
    pub(crate) fn enable_peer(self, peer: CUcontext) -> Result {
        // SAFETY: the context is alive: the communicator has retained it.
        let code = unsafe { self.0.cuCtxEnablePeerAccess(peer, 0) };
        match code {
            Ok(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) => Ok(()),
            code => check("cuCtxEnablePeerAccess", code),
        }
    }

    pub(crate) fn alloc(self, bytes: usize) -> Result<u64> {
        let mut address = 0;
        call!(self, cuMemAlloc_v2(&raw mut address, bytes))?;
        Ok(address)
    }

    pub(crate) fn free(self, address: u64) -> Result {
        call!(self, cuMemFree_v2(address))
    }

    /// Allocates pinned memory that all devices see at one address.
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

    /// Writes `count` zero words.
    pub(crate) fn clear(self, address: u64, count: usize, stream: CUstream) -> Result {
        call!(self, cuMemsetD32Async(address, 0, count, stream))
    }

    /// Creates a stream without order to the NULL stream.
    pub(crate) fn create_stream(self) -> Result<CUstream> {
        const NON_BLOCKING: u32 = 1;
        let mut stream = ptr::null_mut();
        call!(self, cuStreamCreate(&raw mut stream, NON_BLOCKING))?;
        Ok(stream)
    }

    pub(crate) fn destroy_stream(self, stream: CUstream) -> Result {
        call!(self, cuStreamDestroy_v2(stream))
    }

    pub(crate) fn synchronize_stream(self, stream: CUstream) -> Result {
        call!(self, cuStreamSynchronize(stream))
    }

    pub(crate) fn create_event(self) -> Result<CUevent> {
        const DISABLE_TIMING: u32 = 2;
        let mut event = ptr::null_mut();
        call!(self, cuEventCreate(&raw mut event, DISABLE_TIMING))?;
        Ok(event)
    }

    pub(crate) fn destroy_event(self, event: CUevent) -> Result {
        call!(self, cuEventDestroy_v2(event))
    }

    /// Records an event. If it is external, a captured stream gets a node that records it at each launch.
    pub(crate) fn record(self, event: CUevent, stream: CUstream, external: bool) -> Result {
        if external {
            return call!(self, cuEventRecordWithFlags(event, stream, 1));
        }
        call!(self, cuEventRecord(event, stream))
    }

    /// Makes a stream wait for an event. If it is external, a captured stream gets a node that waits at each launch.
    pub(crate) fn wait(self, stream: CUstream, event: CUevent, external: bool) -> Result {
        call!(self, cuStreamWaitEvent(stream, event, u32::from(external)))
    }

    pub(crate) fn synchronize_event(self, event: CUevent) -> Result {
        call!(self, cuEventSynchronize(event))
    }

    /// Returns whether the work before an event is done.
    pub(crate) fn is_done(self, event: CUevent) -> Result<bool> {
        // SAFETY: the event is alive.
        match unsafe { self.0.cuEventQuery(event) } {
            Ok(CUresult::CUDA_ERROR_NOT_READY) => Ok(false),
            code => check("cuEventQuery", code).map(|()| true),
        }
    }

    /// Makes a stream wait until the word at an address is 1.
    pub(crate) fn wait_value(self, stream: CUstream, address: u64) -> Result {
        const EQ: u32 = 1;
        call!(self, cuStreamWaitValue32_v2(stream, address, 1, EQ))
    }

    /// Returns the number of the capture that a stream takes part in; 0 for none.
    pub(crate) fn capture(self, stream: CUstream) -> Result<u64> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let mut id = 0;
        call!(self, cuStreamGetCaptureInfo(stream, &raw mut status, &raw mut id))?;
        match status {
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE => Ok(0),
            CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(id),
            _ => Err(Error::usage("the capture of the stream is invalidated: end it first")),
        }
    }

    pub(crate) fn load(self, ptx: &CStr) -> Result<CUmodule> {
        let mut module = ptr::null_mut();
        call!(self, cuModuleLoadData(&raw mut module, ptx.as_ptr().cast()))?;
        Ok(module)
    }

    pub(crate) fn unload(self, module: CUmodule) -> Result {
        call!(self, cuModuleUnload(module))
    }

    pub(crate) fn function(self, module: CUmodule, name: &CStr) -> Result<CUfunction> {
        let mut function = ptr::null_mut();
        call!(self, cuModuleGetFunction(&raw mut function, module, name.as_ptr()))?;
        Ok(function)
    }

    /// Launches a kernel that takes one structure.
    pub(crate) fn launch<T: Copy>(
        self,
        function: CUfunction,
        grid: u32,
        block: u32,
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
