//! A device, memory, handles and numbers for tests.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

use blas_emu::cublas::*;
use cuda_emu::Config;
use cuda_sys::cublas::*;
use cuda_sys::{CUgraph, CUgraphExec, CUstream, CUstreamCaptureMode, Driver};
use half::{bf16, f16};

/// Calls a function of the driver, which must succeed.
macro_rules! cu {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!(
            // SAFETY: the tests pass their own places and handles.
            unsafe { $crate::lab::driver().$name($($argument),*) }.expect("the function is there"),
            cuda_sys::CUresult::CUDA_SUCCESS,
            stringify!($name)
        )
    };
}

/// Calls a function of the library, which must succeed.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as above.
        let code = unsafe { $name($($argument),*) };
        assert_eq!(code.0, 0, "{}: {}", stringify!($name), blas_emu::last_error());
    }};
}

/// Calls a function of the library, which must return this code and a text with these words.
macro_rules! fails {
    ($code:expr, $words:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: as above.
        let code = unsafe { $name($($argument),*) };
        let text = blas_emu::last_error();
        assert_eq!(code, $code, "{}: {text}", stringify!($name));
        assert!(text.starts_with(stringify!($name)) && text.contains($words), "{text}");
    }};
}

pub(crate) use {fails, ok};

pub(crate) fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    DRIVER.get_or_init(|| {
        let driver = if std::env::var("BLAS_EMU_DRIVER").is_ok_and(|value| value == "system") {
            Driver::load().expect("a driver")
        } else {
            Config::from_env().install();
            cuda_emu::driver()
        };
        // SAFETY: there is nothing to keep.
        assert_eq!(unsafe { driver.cuInit(0) }.expect("there"), cuda_sys::CUresult::CUDA_SUCCESS);
        assert!(blas_emu::use_driver(driver));
        driver
    })
}

/// Makes the primary context of device 0 current.
pub(crate) fn enter() {
    static CONTEXT: OnceLock<usize> = OnceLock::new();
    let context = *CONTEXT.get_or_init(|| {
        let mut context = ptr::null_mut();
        cu!(cuDevicePrimaryCtxRetain(&raw mut context, 0));
        context.expose_provenance()
    });
    cu!(cuCtxSetCurrent(ptr::with_exposed_provenance_mut(context)));
}

/// A complex number, in which expected results are computed.
pub(crate) type Z = (f64, f64);

pub(crate) fn times(a: Z, b: Z) -> Z {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}

pub(crate) fn plus(a: Z, b: Z) -> Z {
    (a.0 + b.0, a.1 + b.1)
}

pub(crate) fn conj(a: Z, on: bool) -> Z {
    if on { (a.0, -a.1) } else { a }
}

/// A type of elements.
pub(crate) trait Num: Copy + 'static {
    const TYPE: cudaDataType;
    const COMPLEX: bool;
    /// The relative error of one operation.
    const ROUNDING: f64;
    fn of(value: Z) -> Self;
    fn z(self) -> Z;
}

macro_rules! nums {
    ($($ty:ty: $name:ident, $complex:expr, $epsilon:expr, $value:ident => $of:expr, $own:ident => $z:expr;)*) => {
        $(impl Num for $ty {
            const TYPE: cudaDataType = cudaDataType::$name;
            const COMPLEX: bool = $complex;
            const ROUNDING: f64 = $epsilon;
            fn of($value: Z) -> Self { $of }
            fn z(self) -> Z { let $own = self; $z }
        })*
    };
}

nums! {
    f32: CUDA_R_32F, false, 6e-8, z => z.0 as f32, own => (own.into(), 0.0);
    f64: CUDA_R_64F, false, 1.2e-16, z => z.0, own => (own, 0.0);
    f16: CUDA_R_16F, false, 4.9e-4, z => f16::from_f64(z.0), own => (own.into(), 0.0);
    bf16: CUDA_R_16BF, false, 3.9e-3, z => bf16::from_f64(z.0), own => (own.into(), 0.0);
    i8: CUDA_R_8I, false, 0.0, z => (z.0 * 100.0) as i8, own => (own.into(), 0.0);
    i32: CUDA_R_32I, false, 0.0, z => z.0 as i32, own => (own.into(), 0.0);
    float2: CUDA_C_32F, true, 6e-8, z => float2 { x: z.0 as f32, y: z.1 as f32 }, own => (own.x.into(), own.y.into());
    double2: CUDA_C_64F, true, 1.2e-16, z => double2 { x: z.0, y: z.1 }, own => (own.x, own.y);
}

/// Numbers between -1 and 1, the same in each run.
#[derive(Debug)]
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }

    pub(crate) fn many<T: Num>(&mut self, count: usize) -> Vec<T> {
        (0..count).map(|_| T::of((self.next(), self.next()))).collect()
    }
}

/// Held while a stream captures: waiting for the device would end the capture.
static CAPTURES: std::sync::RwLock<()> = std::sync::RwLock::new(());

/// Memory of the device, with a canary after it.
#[derive(Debug)]
pub(crate) struct Memory<T> {
    pub(crate) address: u64,
    count: usize,
    of: std::marker::PhantomData<T>,
}

const CANARY: [u8; 16] = [0xa5; 16];

impl<T: Copy> Memory<T> {
    pub(crate) fn new(values: &[T]) -> Self {
        enter();
        let mut address = 0;
        let bytes = size_of_val(values);
        cu!(cuMemAlloc_v2(&raw mut address, bytes + CANARY.len()));
        if bytes > 0 {
            cu!(cuMemcpyHtoD_v2(address, values.as_ptr().cast(), bytes));
        }
        cu!(cuMemcpyHtoD_v2(address + bytes as u64, CANARY.as_ptr().cast(), CANARY.len()));
        Self { address, count: values.len(), of: std::marker::PhantomData }
    }

    pub(crate) fn at(&self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.address as usize)
    }

    pub(crate) fn void(&self) -> *mut c_void {
        self.at().cast()
    }

    /// Waits for the device, and returns the values.
    pub(crate) fn get(&self) -> Vec<T> {
        enter();
        let _none = CAPTURES.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        cu!(cuCtxSynchronize());
        let bytes = self.count * size_of::<T>();
        let mut values = Vec::<T>::with_capacity(self.count);
        if bytes > 0 {
            cu!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), self.address, bytes));
        }
        // SAFETY: the copy has written all of them; the types have no invalid values.
        unsafe { values.set_len(self.count) };
        let mut canary = [0u8; CANARY.len()];
        cu!(cuMemcpyDtoH_v2(canary.as_mut_ptr().cast(), self.address + bytes as u64, canary.len()));
        assert_eq!(canary, CANARY, "something was written after the end");
        values
    }
}

impl<T> Drop for Memory<T> {
    fn drop(&mut self) {
        // SAFETY: the memory is this one's; tests wait for the device before.
        let _ = unsafe { driver().cuMemFree_v2(self.address) };
    }
}

/// A handle with a stream of its own.
#[derive(Debug)]
pub(crate) struct Blas {
    pub(crate) raw: cublasHandle_t,
    pub(crate) stream: CUstream,
}

impl Blas {
    pub(crate) fn new() -> Self {
        enter();
        let (mut raw, mut stream) = (ptr::null_mut(), ptr::null_mut());
        cu!(cuStreamCreate(&raw mut stream, 1));
        ok!(cublasCreate_v2(&raw mut raw));
        ok!(cublasSetStream_v2(raw, stream));
        Self { raw, stream }
    }

    pub(crate) fn on_device(&self, on: bool) {
        ok!(cublasSetPointerMode_v2(self.raw, cublasPointerMode_t(u32::from(on))));
    }

    /// Captures what the closure enqueues, and returns the graph.
    pub(crate) fn capture(&self, act: impl FnOnce()) -> Graph {
        let _alone = CAPTURES.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        cu!(cuStreamBeginCapture_v2(self.stream, mode));
        act();
        let (mut graph, mut exec) = (ptr::null_mut(), ptr::null_mut());
        cu!(cuStreamEndCapture(self.stream, &raw mut graph));
        cu!(cuGraphInstantiateWithFlags(&raw mut exec, graph, 0));
        Graph { graph, exec }
    }
}

impl Drop for Blas {
    fn drop(&mut self) {
        // SAFETY: both are this one's.
        unsafe {
            let _ = driver().cuStreamSynchronize(self.stream);
            cublasDestroy_v2(self.raw);
            let _ = driver().cuStreamDestroy_v2(self.stream);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Graph {
    graph: CUgraph,
    exec: CUgraphExec,
}

impl Graph {
    pub(crate) fn launch(&self, stream: CUstream) {
        cu!(cuGraphLaunch(self.exec, stream));
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: both are this one's.
        unsafe {
            let _ = driver().cuGraphExecDestroy(self.exec);
            let _ = driver().cuGraphDestroy(self.graph);
        }
    }
}

/// Compares numbers whose computation had `steps` operations on values of about 1.
#[track_caller]
pub(crate) fn near<T: Num>(
    got: T,
    expected: Z,
    steps: usize,
    epsilon: f64,
    what: impl Fn() -> String,
) {
    let got = got.z();
    let bound = (steps as f64 + 8.0) * 4.0 * epsilon
        + 1.5 * T::ROUNDING * (expected.0.abs() + expected.1.abs());
    let error = (got.0 - expected.0).abs().max((got.1 - expected.1).abs());
    assert!(
        error <= bound,
        "{}: {got:?} is not {expected:?} (off by {error:e}, at most {bound:e})",
        what()
    );
}

pub(crate) const OPS: [cublasOperation_t; 3] = [
    cublasOperation_t::CUBLAS_OP_N,
    cublasOperation_t::CUBLAS_OP_T,
    cublasOperation_t::CUBLAS_OP_C,
];

pub(crate) fn int(size: usize) -> c_int {
    c_int::try_from(size).expect("tests are small")
}

/// Returns `op(A)[i, j]` of a matrix in columns.
pub(crate) fn at<T: Num>(a: &[T], ld: usize, op: cublasOperation_t, i: usize, j: usize) -> Z {
    match op {
        cublasOperation_t::CUBLAS_OP_N => a[i + j * ld].z(),
        op => conj(a[j + i * ld].z(), op == cublasOperation_t::CUBLAS_OP_C),
    }
}
