//! What a program in its steady state does beside the library: no allocation, and no other driver call.

use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_libs::{Blas, Config, Mat, MatMut, Vector, VectorMut};
use cuda_safe::sys::cublas::cublasStatus_t;
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::lab::Lab;
use test_harness::{Case, TestResult, cases, ensure, ensure_eq};
use test_support::meter::allocations;

use super::nothing;

pub(super) fn cases() -> Vec<Case> {
    cases!["libs::steady", host(calls), host(a_captured_product), host(a_failed_call)]
}

const N: usize = 8;

fn product(
    blas: &Blas,
    stream: &Stream,
    x: &DeviceBuffer<f32>,
    y: &mut DeviceBuffer<f32>,
) -> cuda_libs::Result<()> {
    blas.gemm(stream, 1.0, Mat::new(x, N, N)?, Mat::new(x, N, N)?, 0.0, MatMut::new(y, N, N)?)
}

/// A thousand rounds after the first one, on two streams.
fn calls() -> TestResult {
    let lab = Lab::new()?;
    let blas = Blas::with(&lab.context, &Config::new().library(nothing::library()?))?;
    let streams = [lab.context.stream()?, lab.context.stream()?];
    let mut buffers = Vec::new();
    for stream in &streams {
        let new = || DeviceBuffer::<f32>::zeroed(stream, N * N);
        buffers.push((new()?, new()?));
    }
    let mut round = || -> cuda_libs::Result<()> {
        for (stream, (x, y)) in streams.iter().zip(&mut buffers) {
            product(&blas, stream, x, y)?;
            blas.axpy(stream, 2.0f32, Vector::new(&*x), VectorMut::new(y))?;
        }
        Ok(())
    };
    round()?;
    lab.recorder.take();
    let before = allocations();
    for _ in 0..1000 {
        round()?;
    }
    let heap = allocations() - before;
    // The recorder itself notes each call in a vector that grows.
    ensure!(heap < 30, "{heap} heap allocations of 1000 rounds");
    let names = lab.recorder.names();
    let pushed = |name: &&&str| ["cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"].contains(*name);
    let others: Vec<_> =
        names.iter().filter(|name| **name != "cuCtxGetCurrent" && !pushed(name)).collect();
    ensure!(names.len() >= 4000 && others.is_empty(), "{} calls; {others:?}", names.len());
    drop((blas, buffers, streams));
    lab.close()
}

fn a_captured_product() -> TestResult {
    let lab = Lab::new()?;
    let blas = Blas::with(&lab.context, &Config::new().library(nothing::library()?))?;
    let stream = lab.context.stream()?;
    let new = || DeviceBuffer::<f32>::zeroed(&stream, N * N);
    let state = (new()?, new()?);
    let recorded = blas.clone();
    let mut graph =
        lab.context.capture(state, move |stream, (x, y)| Ok(product(&recorded, stream, x, y)?))?;
    graph.launch(&stream)?;
    lab.recorder.take();
    for _ in 0..1000 {
        graph.launch(&stream)?;
    }
    ensure_eq!(lab.recorder.names(), ["cuGraphLaunch"; 1000]);
    drop((graph, blas, stream));
    lab.close()
}

static STREAMS_SET: AtomicUsize = AtomicUsize::new(0);
static PRODUCTS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn set_stream() -> cublasStatus_t {
    STREAMS_SET.fetch_add(1, Ordering::Relaxed);
    cublasStatus_t::CUBLAS_STATUS_SUCCESS
}

/// Fails the third time.
extern "C" fn third_fails() -> cublasStatus_t {
    match PRODUCTS.fetch_add(1, Ordering::Relaxed) {
        2 => cublasStatus_t::CUBLAS_STATUS_EXECUTION_FAILED,
        _ => cublasStatus_t::CUBLAS_STATUS_SUCCESS,
    }
}

/// The handle is set up for the stream once, and again after a call that failed.
fn a_failed_call() -> TestResult {
    let lab = Lab::new()?;
    // SAFETY: the functions have no arguments.
    let library = unsafe {
        nothing::library_with(|name| match name.to_bytes() {
            b"cublasSetStream_v2" => Some(set_stream),
            b"cublasGemmEx" => Some(third_fails),
            _ => None,
        })
    }?;
    let blas = Blas::with(&lab.context, &Config::new().library(library))?;
    let stream = lab.context.stream()?;
    let new = || DeviceBuffer::<f32>::zeroed(&stream, N * N);
    let (x, mut y) = (new()?, new()?);
    let mut sets = Vec::new();
    for at in 0..5 {
        ensure_eq!(product(&blas, &stream, &x, &mut y).is_err(), at == 2);
        sets.push(STREAMS_SET.load(Ordering::Relaxed));
    }
    ensure_eq!(sets, [1, 1, 1, 2, 2]);
    drop((blas, x, y, stream));
    lab.close()
}
