//! The driver's functions called as a C program would: through the table's pointers, with an array
//! of parameters built for each launch.

use std::ffi::{c_uint, c_void};
use std::fmt;

use cuda_safe::{Driver, Kernel, Stream};
use cuda_sys::{
    CUdeviceptr, CUfunction, CUmemAllocationType, CUmemLocationType, CUmemPool_attribute,
    CUmemPoolProps, CUmemoryPool, CUresult, CUstream, DriverFns,
};

use crate::stop::Stop;

/// The code that a raw call returned, if not success.
#[derive(Debug)]
pub(crate) struct RawError {
    call: &'static str,
    code: CUresult,
}

impl fmt::Display for RawError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, code) = (self.call, self.code);
        write!(f, "raw {call}: {} ({})", code.name().unwrap_or("an unknown code"), code.0)
    }
}

impl std::error::Error for RawError {}

#[inline]
pub(crate) fn check(call: &'static str, code: CUresult) -> Result<(), RawError> {
    if code == CUresult::CUDA_SUCCESS { Ok(()) } else { Err(RawError { call, code }) }
}

/// A function of the table, looked up once: the timed calls go straight through the pointer.
pub(crate) fn need<F>(function: Option<F>, name: &'static str) -> Result<F, Stop> {
    function.ok_or_else(|| Stop::NotRun(format!("the driver has no {name}")))
}

type LaunchKernel = unsafe extern "C" fn(
    CUfunction,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    CUstream,
    *mut *mut c_void,
    *mut *mut c_void,
) -> CUresult;

/// One kernel on one stream in one shape. Holds raw handles: its owner keeps kernel and
/// stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launcher {
    launch: LaunchKernel,
    function: CUfunction,
    stream: CUstream,
    grid: u32,
    block: u32,
}

/// The device addresses of saxpy's arrays: x, y and the result.
pub(crate) type Arrays = [CUdeviceptr; 3];

impl Launcher {
    pub(crate) fn new(
        driver: Driver,
        kernel: &Kernel,
        stream: &Stream,
        grid: u32,
        block: u32,
    ) -> Result<Self, Stop> {
        let launch = need(driver.as_sys().fns().cuLaunchKernel, "cuLaunchKernel")?;
        Ok(Self { launch, function: kernel.as_raw(), stream: stream.as_raw(), grid, block })
    }

    /// Launches a kernel without parameters.
    ///
    /// # Safety
    /// Kernel and stream are alive, and the kernel has no parameters.
    #[inline]
    pub(crate) unsafe fn empty(&self) -> Result<(), RawError> {
        // SAFETY: no parameters, says the caller.
        unsafe { self.call(std::ptr::null_mut()) }
    }

    /// Launches `(float, const T*, const T*, T*, size_t)`.
    ///
    /// # Safety
    /// Kernel and stream are alive, the kernel has these parameters, and the arrays have `n`
    /// elements that the stream's order allows it to use.
    #[inline]
    pub(crate) unsafe fn saxpy(
        &self,
        mut a: f32,
        arrays: Arrays,
        mut n: u64,
    ) -> Result<(), RawError> {
        let [mut x, mut y, mut out] = arrays;
        let mut parameters: [*mut c_void; 5] = [
            (&raw mut a).cast(),
            (&raw mut x).cast(),
            (&raw mut y).cast(),
            (&raw mut out).cast(),
            (&raw mut n).cast(),
        ];
        // SAFETY: five pointers to values of the parameters' types, which outlive the call.
        unsafe { self.call(parameters.as_mut_ptr()) }
    }

    /// Launches `(const float*, const float*, float*, unsigned)`.
    ///
    /// # Safety
    /// As [`Launcher::saxpy`], with these parameters.
    #[inline]
    pub(crate) unsafe fn add(&self, arrays: Arrays, mut n: u32) -> Result<(), RawError> {
        let [mut a, mut b, mut c] = arrays;
        let mut parameters: [*mut c_void; 4] =
            [(&raw mut a).cast(), (&raw mut b).cast(), (&raw mut c).cast(), (&raw mut n).cast()];
        // SAFETY: four pointers to values of the parameters' types, which outlive the call.
        unsafe { self.call(parameters.as_mut_ptr()) }
    }

    /// Launches with these parameters.
    ///
    /// # Safety
    /// `parameters` holds a pointer for each parameter of the kernel; kernel and stream are alive.
    #[inline]
    pub(crate) unsafe fn call(&self, parameters: *mut *mut c_void) -> Result<(), RawError> {
        let (grid, block, none) = (self.grid, self.block, std::ptr::null_mut());
        // SAFETY: the caller's promise.
        let code = unsafe {
            (self.launch)(self.function, grid, 1, 1, block, 1, 1, 0, self.stream, parameters, none)
        };
        check("cuLaunchKernel", code)
    }
}

/// A memory pool with the settings of ours: this device's, keeping all it has.
#[derive(Debug)]
pub(crate) struct Pool {
    fns: &'static DriverFns,
    raw: CUmemoryPool,
}

impl Pool {
    pub(crate) fn new(device: cuda_safe::Device) -> Result<Self, Stop> {
        let fns = device.driver().as_sys().fns();
        let create = need(fns.cuMemPoolCreate, "cuMemPoolCreate")?;
        let set = need(fns.cuMemPoolSetAttribute, "cuMemPoolSetAttribute")?;
        let mut properties = CUmemPoolProps {
            allocType: CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
            ..CUmemPoolProps::default()
        };
        properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.__bindgen_anon_1.id = device.as_raw();
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle and the properties are initialised.
        check("cuMemPoolCreate", unsafe { create(&raw mut raw, &raw const properties) })?;
        let pool = Self { fns, raw };
        let mut threshold = u64::MAX;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        // SAFETY: the attribute is a 64-bit integer.
        let code = unsafe { set(raw, attribute, (&raw mut threshold).cast()) };
        check("cuMemPoolSetAttribute", code)?;
        Ok(pool)
    }

    /// `cuMemAllocFromPoolAsync` of `bytes` on `stream`, as a function without lookups.
    pub(crate) fn allocator(
        &self,
        stream: &Stream,
        bytes: usize,
    ) -> Result<impl Fn() -> Result<CUdeviceptr, RawError> + use<'_>, Stop> {
        let name = "cuMemAllocFromPoolAsync";
        let allocate = need(self.fns.cuMemAllocFromPoolAsync, name)?;
        let (pool, stream) = (self.raw, stream.as_raw());
        Ok(move || {
            let mut start = 0;
            // SAFETY: `start` takes an address; the pool is borrowed, and the stream is that of
            // the run, which outlives its rows.
            check(name, unsafe { allocate(&raw mut start, bytes, pool, stream) })?;
            Ok(start)
        })
    }

    /// `cuMemFreeAsync` on `stream` of what the allocator gave.
    pub(crate) fn freer(
        &self,
        stream: &Stream,
    ) -> Result<impl Fn(CUdeviceptr) -> Result<(), RawError> + use<'_>, Stop> {
        let free = need(self.fns.cuMemFreeAsync, "cuMemFreeAsync")?;
        let stream = stream.as_raw();
        // SAFETY: rows give it the address that the allocator gave them last, once.
        Ok(move |start| check("cuMemFreeAsync", unsafe { free(start, stream) }))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(destroy) = self.fns.cuMemPoolDestroy {
            // SAFETY: made by `new` and destroyed only here. A failure would change no figure.
            let _ = unsafe { destroy(self.raw) };
        }
    }
}

/// `cuStreamSynchronize`, as a function without lookups.
pub(crate) fn synchronizer(
    driver: Driver,
    stream: &Stream,
) -> Result<impl Fn() -> Result<(), RawError> + use<'_>, Stop> {
    let function = need(driver.as_sys().fns().cuStreamSynchronize, "cuStreamSynchronize")?;
    // SAFETY: the stream is borrowed, so it is alive.
    Ok(move || check("cuStreamSynchronize", unsafe { function(stream.as_raw()) }))
}
