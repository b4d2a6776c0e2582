//! Registration and launches, as `crt/host_runtime.h` declares them for the code that compilers write.

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_uint, c_void};

use cuda_sys::{CUdevice_attribute, CUfunction, CUkernel, CUlaunchConfig, CUstream, Driver};

use crate::bindings::runtime::{
    cudaError, cudaFunction_t, cudaHostFn_t, cudaKernel_t, cudaLaunchConfig_t, cudaStream_t, dim3,
};
use crate::call::{CudaResult, check, guard, own, put, ready};
use crate::{context, registry};

/// The configuration between `<<<` and `>>>`.
#[derive(Debug, Clone, Copy)]
struct Configuration {
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: CUstream,
    /// Whether the arguments of another launch are being computed.
    inner: bool,
}

thread_local! {
    /// The configuration of the launch that is being written. It has no destructor, so that static destructors launch.
    static NEWEST: Cell<Option<Configuration>> = const { Cell::new(None) };
    /// Those of launches around it, whose arguments launch.
    static OUTER: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

fn push(new: Configuration) -> CudaResult {
    let outer = NEWEST.take();
    NEWEST.set(Some(Configuration { inner: outer.is_some(), ..new }));
    if let Some(outer) = outer {
        let kept = OUTER.try_with(|stack| stack.borrow_mut().push(outer));
        if kept.is_err() {
            // The launch around it still has its configuration.
            NEWEST.set(Some(outer));
            return Err(cudaError::cudaErrorCudartUnloading);
        }
    }
    Ok(())
}

fn pop() -> CudaResult<Configuration> {
    let popped = NEWEST.take().ok_or(cudaError::cudaErrorMissingConfiguration)?;
    if popped.inner {
        // Without a stack there is no outer launch.
        NEWEST.set(OUTER.try_with(|stack| stack.borrow_mut().pop()).ok().flatten());
    }
    Ok(popped)
}

/// Launches a kernel.
///
/// # Safety
/// `arguments` has a valid pointer for each parameter of the kernel; handles are alive.
unsafe fn launch(
    kernel: CUkernel,
    [grid, block]: [dim3; 2],
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
    cooperative: bool,
) -> CudaResult {
    let bytes = c_uint::try_from(shared).map_err(|_| cudaError::cudaErrorInvalidValue)?;
    // The driver takes kernels in place of functions.
    let function: CUfunction = kernel.cast();
    let call = |driver: &Driver| {
        // SAFETY: the caller's promise.
        check(unsafe {
            if cooperative {
                driver.cuLaunchCooperativeKernel(
                    function, grid.x, grid.y, grid.z, block.x, block.y, block.z, bytes, stream,
                    arguments,
                )
            } else {
                driver.cuLaunchKernel(
                    function,
                    grid.x,
                    grid.y,
                    grid.z,
                    block.x,
                    block.y,
                    block.z,
                    bytes,
                    stream,
                    arguments,
                    core::ptr::null_mut(),
                )
            }
        })
    };
    // A thread that has used the device has a context, unless the program took it away. Then a launch on the null stream
    // returns 201, and one on another stream is of the stream's context.
    let (driver, launched) = match context::used()? {
        Some(driver) => match call(driver) {
            Err(cudaError::cudaErrorDeviceUninitialized) => (driver, call(ready()?)),
            launched => (driver, launched),
        },
        None => {
            let driver = ready()?;
            (driver, call(driver))
        }
    };
    launched.map_err(|code| {
        let invalid = code == cudaError::cudaErrorInvalidValue && !fits(driver, grid, block);
        if invalid { cudaError::cudaErrorInvalidConfiguration } else { code }
    })
}

/// Returns whether a device can run blocks and grids of these sizes. The driver has one code for that and for other
/// arguments, the runtime two.
fn fits(driver: &Driver, grid: dim3, block: dim3) -> bool {
    use CUdevice_attribute as Of;
    let Ok(device) = context::device() else { return true };
    let limit = |attribute| {
        let mut value = 0;
        // SAFETY: the place is valid for the write.
        let read = check(unsafe { driver.cuDeviceGetAttribute(&raw mut value, attribute, device) });
        read.ok().and_then(|()| u64::try_from(value).ok()).unwrap_or(u64::MAX)
    };
    let within = |size: c_uint, attribute| size > 0 && u64::from(size) <= limit(attribute);
    let threads =
        u64::from(block.x).saturating_mul(u64::from(block.y)).saturating_mul(u64::from(block.z));
    within(grid.x, Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)
        && within(grid.y, Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)
        && within(grid.z, Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)
        && within(block.x, Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)
        && within(block.y, Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)
        && within(block.z, Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)
        && threads <= limit(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
}

/// As [`launch`], of a function of the program.
///
/// # Safety
/// As for [`launch`].
unsafe fn launch_function(
    function: *const c_void,
    sizes: [dim3; 2],
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
    cooperative: bool,
) -> CudaResult {
    let kernel = registry::kernel(function)?;
    // SAFETY: the caller's promise.
    unsafe { launch(kernel, sizes, arguments, shared, stream, cooperative) }
}

/// As [`launch`], of a kernel that the compiler's code has asked for before.
///
/// # Safety
/// As for [`launch`].
unsafe fn launch_kernel(
    kernel: CUkernel,
    sizes: [dim3; 2],
    arguments: *mut *mut c_void,
    shared: usize,
    stream: CUstream,
) -> CudaResult {
    if kernel.is_null() {
        return Err(registry::failure());
    }
    // SAFETY: the caller's promise.
    unsafe { launch(kernel, sizes, arguments, shared, stream, false) }
}

/// Launches a kernel with attributes.
///
/// # Safety
/// `config` is null or valid for reads, with its attributes; the rest as for [`launch`].
unsafe fn launch_config(
    config: *const cudaLaunchConfig_t,
    function: *const c_void,
    arguments: *mut *mut c_void,
    stream: impl Fn(CUstream) -> CUstream,
) -> CudaResult {
    // SAFETY: the caller's promise.
    let config = unsafe { config.as_ref() }.ok_or(cudaError::cudaErrorInvalidConfiguration)?;
    let kernel = registry::kernel(function)?;
    let driver = ready()?;
    let of_driver = driver_config(config, stream(config.stream))?;
    // SAFETY: the caller's promise; attributes have the driver's layout.
    let launched = check(unsafe {
        driver.cuLaunchKernelEx(
            &raw const of_driver,
            kernel.cast(),
            arguments,
            core::ptr::null_mut(),
        )
    });
    launched.map_err(|code| {
        let invalid = code == cudaError::cudaErrorInvalidValue
            && !fits(driver, config.gridDim, config.blockDim);
        if invalid { cudaError::cudaErrorInvalidConfiguration } else { code }
    })
}

/// Returns the configuration of a launch for the driver. Attributes have the same layout and numbers there.
pub(crate) fn driver_config(
    config: &cudaLaunchConfig_t,
    stream: CUstream,
) -> CudaResult<CUlaunchConfig> {
    let bytes = c_uint::try_from(config.dynamicSmemBytes);
    Ok(CUlaunchConfig {
        gridDimX: config.gridDim.x,
        gridDimY: config.gridDim.y,
        gridDimZ: config.gridDim.z,
        blockDimX: config.blockDim.x,
        blockDimY: config.blockDim.y,
        blockDimZ: config.blockDim.z,
        sharedMemBytes: bytes.map_err(|_| cudaError::cudaErrorInvalidValue)?,
        hStream: stream,
        attrs: config.attrs.cast(),
        numAttrs: config.numAttrs,
    })
}

crate::functions! {
    fn __cudaPopCallConfiguration(
        grid: *mut dim3, block: *mut dim3, shared: *mut usize, stream: *mut c_void,
    ) {
        let popped = pop()?;
        put(grid, popped.grid)?;
        put(block, popped.block)?;
        put(shared, popped.shared)?;
        put(stream.cast::<CUstream>(), popped.stream)
    }
    fn __cudaGetKernel(kernel: *mut cudaKernel_t, function: *const c_void) {
        put(kernel, registry::kernel_for_launch(function)?)
    }
    fn __cudaLaunchKernel, __cudaLaunchKernel_ptsz [stream] (
        kernel: cudaKernel_t, grid: dim3, block: dim3, arguments: *mut *mut c_void, shared: usize,
        stream: cudaStream_t,
    ) { launch_kernel(kernel, [grid, block], arguments, shared, stream) }
    fn cudaLaunchKernel, cudaLaunchKernel_ptsz [stream] (
        function: *const c_void, grid: dim3, block: dim3, arguments: *mut *mut c_void, shared: usize,
        stream: cudaStream_t,
    ) { launch_function(function, [grid, block], arguments, shared, stream, false) }
    fn cudaLaunchCooperativeKernel, cudaLaunchCooperativeKernel_ptsz [stream] (
        function: *const c_void, grid: dim3, block: dim3, arguments: *mut *mut c_void, shared: usize,
        stream: cudaStream_t,
    ) { launch_function(function, [grid, block], arguments, shared, stream, true) }
    fn cudaLaunchKernelExC(
        config: *const cudaLaunchConfig_t, function: *const c_void, arguments: *mut *mut c_void,
    ) { launch_config(config, function, arguments, |stream| stream) }
    fn cudaLaunchKernelExC_ptsz(
        config: *const cudaLaunchConfig_t, function: *const c_void, arguments: *mut *mut c_void,
    ) { launch_config(config, function, arguments, own) }
    fn cudaLaunchHostFunc, cudaLaunchHostFunc_ptsz [stream] (
        stream: cudaStream_t, function: cudaHostFn_t, data: *mut c_void,
    ) = cuLaunchHostFunc;
    fn cudaGetKernel(kernel: *mut cudaKernel_t, function: *const c_void) {
        put(kernel, registry::kernel(function)?)
    }
    fn cudaGetFuncBySymbol(function: *mut cudaFunction_t, symbol: *const c_void) {
        let kernel = registry::kernel(symbol)?;
        let mut found = core::ptr::null_mut();
        check(ready()?.cuKernelGetFunction(&raw mut found, kernel))?;
        put(function, found)
    }
}

/// The functions that return something other than a code.
pub const OTHERS: &[&str] = &[
    "__cudaRegisterFatBinary",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaRegisterManagedVar",
    "__cudaInitModule",
    "__cudaPushCallConfiguration",
];

/// Registers a fat binary, and returns its handle. It is loaded at its first use.
///
/// # Safety
/// `wrapper` is what a compiler passes, and is valid until the handle is unregistered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinary(wrapper: *mut c_void) -> *mut *mut c_void {
    registry::add_binary(wrapper)
}

/// Ends the registration of a fat binary.
///
/// # Safety
/// None: any handle may be passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaRegisterFatBinaryEnd(_handle: *mut *mut c_void) {}

/// Unloads a fat binary, when a program or a library of it ends.
///
/// # Safety
/// The handle came from [`__cudaRegisterFatBinary`], and nothing uses its kernels and variables any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaUnregisterFatBinary(handle: *mut *mut c_void) {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { registry::remove_binary(handle) };
        Ok(())
    });
}

/// Registers the function that stands for a kernel.
///
/// # Safety
/// The handle is registered, the name is a string that ends in NUL.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the header's")]
pub unsafe extern "C" fn __cudaRegisterFunction(
    handle: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _thread_limit: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _warp_size: *mut c_int,
) {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { registry::add_function(handle, host.cast(), name) };
        Ok(())
    });
}

/// Registers the variable that stands for one of the device.
///
/// # Safety
/// As for [`__cudaRegisterFunction`].
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the header's")]
pub unsafe extern "C" fn __cudaRegisterVar(
    handle: *mut *mut c_void,
    host: *mut c_char,
    _device: *mut c_char,
    name: *const c_char,
    _extern: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { registry::add_variable(handle, host.cast(), name, size) };
        Ok(())
    });
}

/// Registers the place for the address of a managed variable.
///
/// # Safety
/// As for [`__cudaRegisterFunction`]; the place is valid for writes until the handle is unregistered.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments, reason = "the header's")]
pub unsafe extern "C" fn __cudaRegisterManagedVar(
    handle: *mut *mut c_void,
    place: *mut *mut c_void,
    _device: *mut c_char,
    name: *const c_char,
    _extern: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    guard(|| {
        // SAFETY: the caller's promise.
        unsafe { registry::add_managed(handle, place, name, size) };
        Ok(())
    });
}

/// Loads a fat binary, so that the program can use its managed variables. Returns whether that was possible.
///
/// # Safety
/// The handle is registered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaInitModule(handle: *mut *mut c_void) -> c_char {
    c_char::from(guard(|| registry::initialise(handle)) == cudaError::cudaSuccess)
}

/// Keeps the configuration of a launch until the launch. Returns 0, or a code with which nothing is launched.
///
/// # Safety
/// The stream is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __cudaPushCallConfiguration(
    grid: dim3,
    block: dim3,
    shared: usize,
    stream: *mut c_void,
) -> c_uint {
    guard(|| push(Configuration { grid, block, shared, stream: stream.cast(), inner: false })).0
}
