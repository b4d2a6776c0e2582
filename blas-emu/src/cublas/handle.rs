//! Handles of cuBLAS, and the functions that set and read their state.

use core::cell::Cell;
use core::ffi::{c_char, c_int, c_uint, c_void};
use core::ptr;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_sys::cublas::{
    CublasFns, cublasAtomicsMode_t, cublasHandle_t, cublasMath_t, cublasPointerMode_t,
    cublasStatus_t, cudaStream_t, libraryPropertyType,
};
use cuda_sys::{CUcontext, CUstream};

use super::args::Number;
use crate::call::{Error, Kind, Result, functions, put};
use crate::cuda::{Cuda, Current};
use crate::kernels::{Queue, Scalar};

/// The version of the API that this crate implements.
pub(crate) const VERSION: [c_int; 3] = [13, 1, 0];

/// The bytes of the place for results that the host waits for.
const RESULT: usize = 64;

/// A handle.
#[derive(Debug)]
pub(crate) struct Handle {
    cuda: Cuda,
    context: CUcontext,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stream: CUstream,
    on_device: bool,
    atomics: cublasAtomicsMode_t,
    math: cublasMath_t,
    sm_count: c_int,
    /// The address and the bytes of the workspace.
    workspace: (u64, usize),
    /// Pinned memory for results that the host waits for; null before the first one.
    result: Cell<*mut c_void>,
}

// SAFETY: the handles of the driver are only names, which any thread may use; the pinned memory is used under the lock.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

static HANDLES: Mutex<Option<HashMap<usize, Arc<Handle>>>> = Mutex::new(None);

fn handles() -> MutexGuard<'static, Option<HashMap<usize, Arc<Handle>>>> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a handle. An invalid one is an error.
pub(crate) fn find(handle: cublasHandle_t) -> Result<Arc<Handle>> {
    let found = handles().as_ref().and_then(|all| all.get(&handle.addr()).cloned());
    found.ok_or_else(|| {
        Error::new(Kind::Handle, format!("handle {handle:p} is not one of cublasCreate"))
    })
}

impl Handle {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call: the handle's context is current, and no other thread uses the handle until the call ends.
    pub(crate) fn enter(&self) -> Result<Call<'_>> {
        let state = self.lock();
        let current = self.cuda.push(self.context)?;
        let queue = Queue { cuda: self.cuda, stream: state.stream };
        queue.scratch(state.workspace)?;
        Ok(Call { queue, state, _current: current })
    }
}

/// A call of a function that enqueues.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) queue: Queue,
    state: MutexGuard<'a, State>,
    _current: Current,
}

impl Call<'_> {
    /// Returns a factor, which is on the host or on the device.
    ///
    /// # Safety
    /// `at` is null or the address of a value of this type where the pointer mode says.
    pub(crate) unsafe fn scalar(&self, name: &str, at: *const c_void, ty: c_int) -> Result<Scalar> {
        if at.is_null() {
            return Err(Error::value(format!("{name} is null: pass the address of the factor")));
        }
        if self.state.on_device {
            return Ok(Scalar { at: at.expose_provenance() as u64, ty, ..Scalar::default() });
        }
        // SAFETY: not null, and the caller's promise.
        let (x, y) = unsafe { super::args::read(at, ty) }?;
        Ok(Scalar { x, y, ty, ..Scalar::default() })
    }

    /// As [`scalar`](Self::scalar), of a type that is known.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn factor<T: Number>(&self, name: &str, at: *const T) -> Result<Scalar> {
        // SAFETY: the caller's promise.
        unsafe { self.scalar(name, at.cast(), T::TYPE.0.cast_signed()) }
    }

    /// Runs a function that enqueues the computation of one value, and brings it where the pointer mode says. For a place
    /// on the host it waits.
    ///
    /// # Safety
    /// `place` is null or valid for the write of so many bytes.
    pub(crate) unsafe fn result(
        &self,
        place: *mut c_void,
        bytes: usize,
        enqueue: impl FnOnce(u64) -> Result,
    ) -> Result {
        if place.is_null() {
            return Err(Error::value("result is null: pass a place for the result"));
        }
        if self.state.on_device {
            return enqueue(place.expose_provenance() as u64);
        }
        let Queue { cuda, stream } = self.queue;
        if cuda.captures(stream)? {
            return Err(Error::new(
                Kind::Launch,
                "the result is on the host, so the call must wait, but the stream is being captured: set the pointer \
                 mode to device",
            ));
        }
        if self.state.result.get().is_null() {
            let _relaxed = cuda.relaxed()?;
            self.state.result.set(cuda.alloc_host(RESULT)?);
        }
        let own = self.state.result.get();
        enqueue(own.expose_provenance() as u64)?;
        cuda.synchronize_stream(stream)?;
        // SAFETY: the kernel has written the handle's memory, which is longer, and the caller promises the place.
        unsafe { ptr::copy_nonoverlapping(own.cast::<u8>(), place.cast::<u8>(), bytes) };
        Ok(())
    }

    /// As [`result`](Self::result), of the value 0.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn zero(&self, place: *mut c_void, bytes: usize) -> Result {
        if !place.is_null() && !self.state.on_device {
            // SAFETY: not null, and the caller's promise.
            unsafe { place.cast::<u8>().write_bytes(0, bytes) };
            return Ok(());
        }
        let Queue { cuda, stream } = self.queue;
        // SAFETY: the caller's promise.
        unsafe { self.result(place, bytes, |at| cuda.clear(at, bytes, stream)) }
    }

    /// Returns whether factors and results are on the device.
    pub(crate) fn on_device(&self) -> bool {
        self.state.on_device
    }
}

/// Changes the state of a handle.
fn set(handle: cublasHandle_t, change: impl FnOnce(&mut State)) -> Result {
    change(&mut find(handle)?.lock());
    Ok(())
}

/// Reads the state of a handle.
///
/// # Safety
/// `place` is null or valid for the write.
unsafe fn get<T>(
    handle: cublasHandle_t,
    place: *mut T,
    name: &str,
    read: impl FnOnce(&State) -> T,
) -> Result {
    let value = read(&find(handle)?.lock());
    // SAFETY: the caller's promise.
    unsafe { put(place, name, value) }
}

fn among(name: &str, value: c_uint, most: c_uint) -> Result {
    if value <= most {
        return Ok(());
    }
    Err(Error::value(format!("{name} {value}: pass at most {most}")))
}

functions! { cublasStatus_t, CublasFns, HANDLES_AND_STATE;
    fn cublasCreate_v2(place: *mut cublasHandle_t) {
        if place.is_null() {
            return Err(Error::value("handle is null: pass a place for the handle"));
        }
        let cuda = Cuda::get()?;
        let context = cuda.context()?;
        let state = State {
            stream: ptr::null_mut(),
            on_device: false,
            atomics: cublasAtomicsMode_t::CUBLAS_ATOMICS_NOT_ALLOWED,
            math: cublasMath_t::CUBLAS_DEFAULT_MATH,
            sm_count: 0,
            workspace: (0, 0),
            result: Cell::new(ptr::null_mut()),
        };
        static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
        let number = NEXT.fetch_add(16, Ordering::Relaxed);
        let handle = Handle { cuda, context, state: Mutex::new(state) };
        handles().get_or_insert_default().insert(number, Arc::new(handle));
        put(place, "handle", ptr::without_provenance_mut(number))
    }
    fn cublasDestroy_v2(handle: cublasHandle_t) {
        let found = find(handle)?;
        handles().as_mut().and_then(|all| all.remove(&handle.addr()));
        let result = found.lock().result.replace(ptr::null_mut());
        let _relaxed = found.cuda.relaxed()?;
        let _current = found.cuda.push(found.context)?;
        if !result.is_null() {
            found.cuda.free_host(result)?;
        }
        Ok(())
    }
    fn cublasGetVersion_v2(_handle: cublasHandle_t, version: *mut c_int) {
        put(version, "version", VERSION[0] * 10_000 + VERSION[1] * 100 + VERSION[2])
    }
    fn cublasGetProperty(property: libraryPropertyType, value: *mut c_int) {
        let Some(part) = VERSION.get(property.0 as usize) else {
            return Err(Error::value(format!("type {}: pass 0 to 2", property.0)));
        };
        put(value, "value", *part)
    }
    fn cublasSetStream_v2(handle: cublasHandle_t, stream: cudaStream_t) {
        set(handle, |state| (state.stream, state.workspace) = (stream, (0, 0)))
    }
    fn cublasGetStream_v2(handle: cublasHandle_t, stream: *mut cudaStream_t) {
        get(handle, stream, "streamId", |state| state.stream)
    }
    fn cublasSetWorkspace_v2(handle: cublasHandle_t, workspace: *mut c_void, bytes: usize) {
        if workspace.is_null() && bytes > 0 || !workspace.addr().is_multiple_of(256) {
            return Err(Error::value(format!("workspace {workspace:p}: its address must be a multiple of 256")));
        }
        set(handle, |state| state.workspace = (workspace.expose_provenance() as u64, bytes))
    }
    fn cublasSetPointerMode_v2(handle: cublasHandle_t, mode: cublasPointerMode_t) {
        find(handle)?;
        among("mode", mode.0, 1)?;
        set(handle, |state| state.on_device = mode == cublasPointerMode_t::CUBLAS_POINTER_MODE_DEVICE)
    }
    fn cublasGetPointerMode_v2(handle: cublasHandle_t, mode: *mut cublasPointerMode_t) {
        get(handle, mode, "mode", |state| cublasPointerMode_t(c_uint::from(state.on_device)))
    }
    fn cublasSetAtomicsMode(handle: cublasHandle_t, mode: cublasAtomicsMode_t) {
        find(handle)?;
        among("mode", mode.0, 1)?;
        set(handle, |state| state.atomics = mode)
    }
    fn cublasGetAtomicsMode(handle: cublasHandle_t, mode: *mut cublasAtomicsMode_t) {
        get(handle, mode, "mode", |state| state.atomics)
    }
    fn cublasSetMathMode(handle: cublasHandle_t, mode: cublasMath_t) {
        find(handle)?;
        let plain = mode.0 & !cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION.0;
        if plain > 4 && plain != cublasMath_t::CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH.0 {
            return Err(Error::value(format!("mode {}: it is none of the header's", mode.0)));
        }
        set(handle, |state| state.math = mode)
    }
    fn cublasGetMathMode(handle: cublasHandle_t, mode: *mut cublasMath_t) {
        get(handle, mode, "mode", |state| state.math)
    }
    fn cublasSetSmCountTarget(handle: cublasHandle_t, count: c_int) {
        find(handle)?;
        if count < 0 {
            return Err(Error::value(format!("smCountTarget {count} must not be negative")));
        }
        set(handle, |state| state.sm_count = count)
    }
    fn cublasGetSmCountTarget(handle: cublasHandle_t, count: *mut c_int) {
        get(handle, count, "smCountTarget", |state| state.sm_count)
    }
}

/// Returns the name of a code.
///
/// # Safety
/// None: any code may be passed.
#[allow(non_snake_case, reason = "the header's name")]
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn cublasGetStatusName(status: cublasStatus_t) -> *const c_char {
    name(status).as_ptr()
}

/// Returns the text of a code, which is its name here.
///
/// # Safety
/// None: any code may be passed.
#[allow(non_snake_case, reason = "the header's name")]
#[cfg_attr(feature = "export", unsafe(no_mangle))]
pub unsafe extern "C" fn cublasGetStatusString(status: cublasStatus_t) -> *const c_char {
    name(status).as_ptr()
}

const _: fn(&mut CublasFns) = |table| {
    table.cublasGetStatusName = Some(cublasGetStatusName);
    table.cublasGetStatusString = Some(cublasGetStatusString);
};

/// The functions without a code as their result.
pub(crate) const TEXTS: &[(&str, crate::Address)] = &[
    ("cublasGetStatusName", crate::Address(cublasGetStatusName as *const c_void)),
    ("cublasGetStatusString", crate::Address(cublasGetStatusString as *const c_void)),
];

fn name(status: cublasStatus_t) -> &'static core::ffi::CStr {
    match status.0 {
        0 => c"CUBLAS_STATUS_SUCCESS",
        1 => c"CUBLAS_STATUS_NOT_INITIALIZED",
        3 => c"CUBLAS_STATUS_ALLOC_FAILED",
        7 => c"CUBLAS_STATUS_INVALID_VALUE",
        8 => c"CUBLAS_STATUS_ARCH_MISMATCH",
        11 => c"CUBLAS_STATUS_MAPPING_ERROR",
        13 => c"CUBLAS_STATUS_EXECUTION_FAILED",
        14 => c"CUBLAS_STATUS_INTERNAL_ERROR",
        15 => c"CUBLAS_STATUS_NOT_SUPPORTED",
        16 => c"CUBLAS_STATUS_LICENSE_ERROR",
        _ => c"<unknown>",
    }
}
