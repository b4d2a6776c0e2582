//! cuBLAS and cuFFT on a stream, against the host. On a GPU that has them; elsewhere these do not run.

use cuda_safe::sys::cublas::{self, Cublas, cublasHandle_t, cublasOperation_t, cublasStatus_t};
use cuda_safe::sys::cufft::{self, cufftResult, cufftType};
use cuda_safe::sys::{CUresult, MissingSymbol};
use cuda_safe::{DeviceBuffer, Stream};

use test_harness::{Case, Failure, TestDevice, TestResult, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    let blas = || cublas::load().err().map(|error| error.to_string());
    let fft = || cufft::load().err().map(|error| error.to_string());
    vec![
        Case::library("libraries::cublas_multiplies_matrices", blas, sgemm),
        Case::library("libraries::cublas_in_a_graph", blas, captured),
        Case::library("libraries::cufft_transforms", fft, transforms),
    ]
}

/// Makes the device's context current: the libraries work in the one that is.
fn bind(device: &TestDevice) -> TestResult {
    let context = device.context();
    // SAFETY: the context lives until all tests of the device have run.
    let code = unsafe { context.driver().as_sys().cuCtxSetCurrent(context.as_raw()) };
    ensure_eq!(code.map_err(failure)?, CUresult::CUDA_SUCCESS);
    Ok(())
}

fn failure(error: MissingSymbol) -> Failure {
    Failure::new(error.to_string())
}

fn fine(status: Result<cublasStatus_t, MissingSymbol>) -> TestResult {
    ensure_eq!(status.map_err(failure)?, cublasStatus_t::CUBLAS_STATUS_SUCCESS);
    Ok(())
}

/// A handle, which is destroyed after the work of its streams.
struct Handle {
    blas: &'static Cublas,
    raw: cublasHandle_t,
}

impl Handle {
    fn new(device: &TestDevice) -> Result<Self, Failure> {
        bind(device)?;
        let blas = cublas::load()?;
        ensure!(blas.version().is_some_and(|(major, ..)| (12..=13).contains(&major)));
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is valid for the write.
        fine(unsafe { blas.cublasCreate_v2(&raw mut raw) })?;
        Ok(Self { blas, raw })
    }

    /// c = a b of matrices in columns: m x k, k x n. `workspace` is memory for a call in a capture.
    fn multiply(
        &self,
        stream: &Stream,
        [m, n, k]: [i32; 3],
        a: &DeviceBuffer<f32>,
        b: &DeviceBuffer<f32>,
        c: &mut DeviceBuffer<f32>,
    ) -> TestResult {
        let (pa, pb, pc) = (a.device_ptr(), b.device_ptr(), c.device_ptr());
        let (one, zero, op) = (1.0f32, 0.0f32, cublasOperation_t::CUBLAS_OP_N);
        let Self { blas, raw: handle } = *self;
        // SAFETY: cuBLAS enqueues on the stream alone; it reads a and b and writes c, within bounds. The handle is alive,
        // and the numbers are read before the call returns.
        let status = unsafe {
            stream.enqueue((a, b, c), |raw| {
                blas.cublasSetStream_v2(handle, raw)?;
                let (pa, pb, pc) = (pa as *const f32, pb as *const f32, pc as *mut f32);
                blas.cublasSgemm_v2(
                    handle,
                    op,
                    op,
                    m,
                    n,
                    k,
                    &raw const one,
                    pa,
                    m,
                    pb,
                    k,
                    &raw const zero,
                    pc,
                    m,
                )
            })
        }?;
        fine(status)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is alive; cuBLAS waits for its work.
        let _status = unsafe { self.blas.cublasDestroy_v2(self.raw) };
    }
}

fn product([m, n, k]: [i32; 3], a: &[f32], b: &[f32]) -> Vec<f64> {
    let (m, n, k) = (m as usize, n as usize, k as usize);
    let entry = |i: usize, j: usize| -> f64 {
        (0..k).map(|l| f64::from(a[i + l * m]) * f64::from(b[l + j * k])).sum()
    };
    (0..n).flat_map(|j| (0..m).map(move |i| (i, j))).map(|(i, j)| entry(i, j)).collect()
}

fn sgemm(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let handle = Handle::new(device)?;
    let mut rng = device.rng(2551);
    for shape in [[1, 1, 1], [31, 33, 32], [128, 64, 200]] {
        let [m, n, k] = shape.map(|size| size as usize);
        let (a, b) = (rng.floats(m * k), rng.floats(k * n));
        let (da, db) =
            (DeviceBuffer::from_slice(&stream, &a)?, DeviceBuffer::from_slice(&other, &b)?);
        let mut dc = DeviceBuffer::<f32>::zeroed(&stream, m * n)?;
        // Waits for the upload on the other stream, and is waited for there.
        handle.multiply(&stream, shape, &da, &db, &mut dc)?;
        for (got, wanted) in dc.to_vec(&other)?.iter().zip(product(shape, &a, &b)) {
            ensure!((f64::from(*got) - wanted).abs() <= 1e-5 * k as f64, "{got} is not {wanted}");
        }
    }
    Ok(())
}

/// Launched again with new data.
fn captured(device: &TestDevice) -> TestResult {
    const SHAPE: [i32; 3] = [40, 30, 20];
    let stream = device.stream()?;
    let handle = Handle::new(device)?;
    let mut rng = device.rng(2552);
    let zeros = |n| DeviceBuffer::<f32>::zeroed(&stream, n);
    let mut state = (zeros(800)?, zeros(600)?, zeros(1200)?);
    // Once outside: cuBLAS loads its kernels, which a capture can't.
    handle.multiply(&stream, SHAPE, &state.0, &state.1, &mut state.2)?;
    stream.synchronize()?;
    let seen = std::cell::RefCell::new(Ok(()));
    let mut graph = device.context().capture(state, |stream, (a, b, c)| {
        *seen.borrow_mut() = handle.multiply(stream, SHAPE, a, b, c);
        Ok(())
    })?;
    seen.replace(Ok(()))?;
    for _ in 0..3 {
        let (a, b) = (rng.floats(800), rng.floats(600));
        graph.state_mut().0.upload(&stream, &a)?;
        graph.state_mut().1.upload(&stream, &b)?;
        graph.launch(&stream)?;
        for (got, wanted) in graph.state().2.to_vec(&stream)?.iter().zip(product(SHAPE, &a, &b)) {
            ensure!((f64::from(*got) - wanted).abs() <= 1e-4, "{got} is not {wanted}");
        }
    }
    Ok(())
}

/// A transform and its inverse, and one bin by its sum.
fn transforms(device: &TestDevice) -> TestResult {
    const N: i32 = 96;
    bind(device)?;
    let stream = device.stream()?;
    let fft = cufft::load()?;
    let fine = |code: Result<cufftResult, MissingSymbol>| -> TestResult {
        ensure_eq!(code.map_err(failure)?, cufftResult::CUFFT_SUCCESS);
        Ok(())
    };
    let mut plan = 0;
    // SAFETY: `plan` is valid for the write.
    fine(unsafe { fft.cufftPlan1d(&raw mut plan, N, cufftType::CUFFT_C2C, 1) })?;
    let host = device.rng(2553).floats(2 * N as usize);
    let mut x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, host.len())?;
    for direction in [-1, 1] {
        let (from, to) = (x.device_ptr(), y.device_ptr());
        // SAFETY: cuFFT enqueues on the stream alone; it may write both, which have N complex numbers each. The plan is
        // destroyed after the work is done.
        let code = unsafe {
            stream.enqueue((&mut x, &mut y), |raw| {
                fft.cufftSetStream(plan, raw)?;
                let (from, to) = if direction < 0 { (from, to) } else { (to, from) };
                fft.cufftExecC2C(plan, from as *mut _, to as *mut _, direction)
            })
        }?;
        fine(code)?;
    }
    let (bins, back) = (y.to_vec(&stream)?, x.to_vec(&stream)?);
    // SAFETY: the work is done.
    fine(unsafe { fft.cufftDestroy(plan) })?;
    for bin in [0usize, 1, 17] {
        let (mut re, mut im) = (0.0f64, 0.0f64);
        for (j, pair) in host.chunks(2).enumerate() {
            let (sin, cos) = (-std::f64::consts::TAU * (bin * j) as f64 / f64::from(N)).sin_cos();
            let (a, b) = (f64::from(pair[0]), f64::from(pair[1]));
            (re, im) = (re + a * cos - b * sin, im + a * sin + b * cos);
        }
        let got = (f64::from(bins[2 * bin]), f64::from(bins[2 * bin + 1]));
        ensure!((got.0 - re).abs() + (got.1 - im).abs() < 1e-3, "bin {bin}: {got:?}");
    }
    for (got, wanted) in back.iter().zip(&host) {
        ensure!((got / N as f32 - wanted).abs() < 1e-5, "{got} is not {wanted} times {N}");
    }
    Ok(())
}
