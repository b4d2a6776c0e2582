//! `--cost`: what a call costs the host, beside the raw one. On a GPU with cuBLAS; elsewhere with functions that do nothing.

use std::ffi::c_void;
use std::process::ExitCode;
use std::time::Instant;

use cuda_libs::{Blas, Config, Mat, MatMut};
use cuda_safe::sys::cublas::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasOperation_t, cublasStatus_t, cudaDataType,
};
use cuda_safe::{Context, DeviceBuffer, Driver, Stream};
use test_harness::Failure;

/// Runs the measurement if the first argument asks for it.
pub(crate) fn command() -> Option<ExitCode> {
    if std::env::args().nth(1).as_deref() != Some("--cost") {
        return None;
    }
    match measure() {
        Ok(()) => Some(ExitCode::SUCCESS),
        Err(error) => {
            eprintln!("{error}");
            Some(ExitCode::FAILURE)
        }
    }
}

const OK: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_SUCCESS;

/// Products of 64 x 64 matrices.
const SIZE: usize = 64;
/// Calls before the host waits: the device's queue never fills.
const CALLS: usize = 200;
const ROUNDS: usize = 101;

fn measure() -> Result<(), Failure> {
    let (context, config, on) = match Driver::load() {
        Ok(driver) => (driver.device(0)?.context()?, Config::new(), "cuBLAS"),
        Err(_) => {
            let driver = Driver::from_sys(cuda_safe::sys::noop::driver())?;
            let library = cuda_libs_tests::nothing::library()?;
            (
                driver.device(0)?.context()?,
                Config::new().library(library),
                "functions that do nothing",
            )
        }
    };
    let begin = Instant::now();
    let blas = Blas::with(&context, &config)?;
    println!("{on}: {:?}", blas.library());
    println!("the first handle: {:.3} ms", begin.elapsed().as_secs_f64() * 1e3);
    let stream = context.stream()?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, SIZE * SIZE)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, SIZE * SIZE)?;
    for what in ["the first product", "the second product"] {
        let begin = Instant::now();
        ours(&blas, &stream, &x, &mut y)?;
        stream.synchronize()?;
        println!("{what}: {:.3} ms", begin.elapsed().as_secs_f64() * 1e3);
    }
    let other = context.stream()?;
    // Each stream has its own buffers: events order work on buffers that two streams share, which costs time.
    let x_2 = DeviceBuffer::<f32>::zeroed(&other, SIZE * SIZE)?;
    let mut y_2 = DeviceBuffer::<f32>::zeroed(&other, SIZE * SIZE)?;
    other.synchronize()?;
    let begin = Instant::now();
    ours(&blas, &other, &x_2, &mut y_2)?;
    other.synchronize()?;
    println!("the first product on a second stream: {:.3} ms", begin.elapsed().as_secs_f64() * 1e3);
    println!("workspaces: {} bytes", blas.workspace_bytes());
    context.with_current(|| interleaved(&context, &blas, &stream, &x, &mut y, "current"))?;
    std::thread::scope(|scope| {
        let run = || interleaved_apart(&blas, &stream, &x, &mut y);
        scope.spawn(run).join().map_err(|_| Failure::new("the thread panicked"))?
    })
}

fn ours(
    blas: &Blas,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
) -> cuda_libs::Result<()> {
    let operand = Mat::new(x, SIZE, SIZE)?;
    blas.gemm(stream, 1.0, operand, operand, 0.0, MatMut::new(y, SIZE, SIZE)?)
}

/// The median time of a call, in nanoseconds.
fn median(mut all: Vec<f64>) -> f64 {
    all.sort_unstable_by(f64::total_cmp);
    all[all.len() / 2]
}

fn timed(
    stream: &Stream,
    mut call: impl FnMut() -> cuda_safe::Result<()>,
) -> cuda_safe::Result<f64> {
    stream.synchronize()?;
    let begin = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(begin.elapsed().as_secs_f64() * 1e9 / CALLS as f64)
}

/// Raw calls and ours in turn, where the context is current.
fn interleaved(
    context: &Context,
    blas: &Blas,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
    what: &str,
) -> cuda_safe::Result<()> {
    let library = blas.library().as_sys();
    let space = DeviceBuffer::<u8>::zeroed(stream, 32 << 20)?;
    let mut handle = std::ptr::null_mut();
    let missing =
        |error: cuda_safe::sys::MissingSymbol| cuda_safe::Error::invalid(error.to_string());
    // SAFETY: the context is current; `handle` is valid for the write, and the stream and the memory outlive it.
    let set = unsafe {
        [
            library.cublasCreate_v2(&raw mut handle).map_err(missing)?,
            library.cublasSetStream_v2(handle, stream.as_raw()).map_err(missing)?,
            library
                .cublasSetWorkspace_v2(handle, space.device_ptr() as *mut c_void, 32 << 20)
                .map_err(missing)?,
        ]
    };
    if set != [OK; 3] {
        return Err(cuda_safe::Error::invalid(format!("a handle: {set:?}")));
    }
    let (one, zero) = (1.0f32, 0.0f32);
    let (px, py) = (x.device_ptr() as *const c_void, y.device_ptr() as *mut c_void);
    let (n, op) = (SIZE as i32, cublasOperation_t::CUBLAS_OP_N);
    let (ty, compute) = (cudaDataType::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F);
    let raw = || {
        // SAFETY: the matrices have as many elements, and only this thread uses them and the handle.
        let status = unsafe {
            library.cublasGemmEx(
                handle,
                op,
                op,
                n,
                n,
                n,
                (&raw const one).cast(),
                px,
                ty,
                n,
                px,
                ty,
                n,
                (&raw const zero).cast(),
                py,
                ty,
                n,
                compute,
                cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        match status.map_err(missing)? {
            OK => Ok(()),
            status => Err(cuda_safe::Error::invalid(format!("{status:?}"))),
        }
    };
    let (mut of_raw, mut of_ours) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        of_raw.push(timed(stream, raw)?);
        of_ours.push(timed(stream, || Ok(ours(blas, stream, x, y)?))?);
    }
    context.synchronize()?;
    // SAFETY: its work is done.
    let _status = unsafe { library.cublasDestroy_v2(handle) }.map_err(missing)?;
    let (raw, ours) = (median(of_raw), median(of_ours));
    println!(
        "a product of {SIZE}, context {what}: raw {raw:.0} ns, ours {ours:.0} ns, {:.0} ns over raw",
        ours - raw
    );
    Ok(())
}

/// Ours, on a thread without a current context.
fn interleaved_apart(
    blas: &Blas,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
) -> Result<(), Failure> {
    let mut all = Vec::new();
    for _ in 0..ROUNDS {
        all.push(timed(stream, || Ok(ours(blas, stream, x, y)?))?);
    }
    println!("a product of {SIZE}, no context current: ours {:.0} ns", median(all));
    Ok(())
}
