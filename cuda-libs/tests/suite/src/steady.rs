//! What a program in its steady state does beside the library: no allocation, and no other driver call.

use cuda_libs::{Blas, Config, Mat, MatMut, Vector, VectorMut};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::lab::Lab;
use test_harness::{Case, TestResult, cases, ensure, ensure_eq};
use test_support::meter::allocations;

use super::nothing;

pub(super) fn cases() -> Vec<Case> {
    cases!["libs::steady", host(calls), host(a_captured_product)]
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
