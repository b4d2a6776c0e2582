//! Order between streams, graphs, threads; handles and workspaces.

use std::sync::mpsc;
use std::time::Duration;

use cuda_libs::blas::Group;
use cuda_libs::{Blas, Complex, Fft, Mat, MatMut};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::{blas, config};
use super::refusals::refused;

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::order",
        device(products_on_many_streams),
        device(a_captured_product),
        device(the_first_call_is_captured),
        device(branches_of_a_graph),
        device(threads_at_once),
        device(workspaces_are_bounded),
        device(no_workspace),
        device(the_last_clone_is_dropped_in_a_capture),
        device(closing),
        device(a_graph_outlives_its_handle),
        device(recorded_lists),
        device(made_while_another_thread_captures),
    ]
}

const N: usize = 24;

/// b = a b, where a doubles: the matrix of twos on the diagonal.
fn doubling(stream: &Stream) -> cuda_safe::Result<DeviceBuffer<f32>> {
    let host: Vec<f32> = (0..N * N).map(|at| if at % (N + 1) == 0 { 2.0 } else { 0.0 }).collect();
    DeviceBuffer::from_slice(stream, &host)
}

fn double(
    blas: &Blas,
    stream: &Stream,
    by: &DeviceBuffer<f32>,
    from: &DeviceBuffer<f32>,
    to: &mut DeviceBuffer<f32>,
) -> cuda_libs::Result<()> {
    blas.gemm(stream, 1.0, Mat::new(by, N, N)?, Mat::new(from, N, N)?, 0.0, MatMut::new(to, N, N)?)
}

fn buffers(stream: &Stream) -> cuda_safe::Result<[DeviceBuffer<f32>; 3]> {
    let one = DeviceBuffer::from_slice(stream, &[1.0f32; N * N])?;
    Ok([doubling(stream)?, one, DeviceBuffer::zeroed(stream, N * N)?])
}

/// Each product reads what one on another stream has written.
fn products_on_many_streams(device: &TestDevice) -> TestResult {
    let blas = blas(device)?;
    let streams: Vec<Stream> = (0..7).map(|_| device.stream()).collect::<Result<_, _>>()?;
    let [by, mut x, mut y] = buffers(&streams[0])?;
    for round in 0..5 {
        for pair in streams.chunks(2).filter(|pair| pair.len() == 2) {
            double(&blas, &pair[0], &by, &x, &mut y)?;
            double(&blas, &pair[1], &by, &y, &mut x)?;
        }
        ensure_eq!(x.to_vec(&streams[6])?, vec![64f32.powi(round + 1); N * N]);
    }
    Ok(())
}

fn a_captured_product(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let state = buffers(&stream)?;
    let mut graph = device.context().capture(state, |stream, [by, x, y]| {
        double(&blas, stream, by, x, y)?;
        double(&blas, stream, by, y, x)?;
        Ok(())
    })?;
    // Work of others between the launches has other workspaces.
    let [by, x, mut y] = buffers(&stream)?;
    for _ in 0..3 {
        graph.launch(&stream)?;
        double(&blas, &stream, &by, &x, &mut y)?;
    }
    ensure_eq!(graph.state()[1].to_vec(&stream)?, vec![64.0; N * N]);
    Ok(())
}

/// A new `Blas`, whose handle has never been used.
fn the_first_call_is_captured(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let blas = Blas::with(device.context(), &config(device))?;
    let state = buffers(&stream)?;
    let mut graph = device
        .context()
        .capture(state, move |stream, [by, x, y]| Ok(double(&blas, stream, by, x, y)?))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state()[2].to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

fn branches_of_a_graph(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let state = (buffers(&stream)?, buffers(&stream)?);
    let mut graph = device.context().capture(state, |stream, ([by, x, y], [by_2, x_2, y_2])| {
        let branch = stream.fork()?;
        double(&blas, stream, by, x, y)?;
        double(&blas, &branch, by_2, x_2, y_2)?;
        double(&blas, &branch, by_2, y, x_2)?;
        Ok(())
    })?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().1[1].to_vec(&stream)?, vec![4.0; N * N]);
    Ok(())
}

fn threads_at_once(device: &TestDevice) -> TestResult {
    let blas = blas(device)?;
    let run = || -> cuda_libs::Result<Vec<f32>> {
        let stream = device.stream()?;
        let [by, mut x, mut y] = buffers(&stream)?;
        for _ in 0..10 {
            double(&blas, &stream, &by, &x, &mut y)?;
            double(&blas, &stream, &by, &y, &mut x)?;
        }
        Ok(x.to_vec(&stream)?)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let result = thread.join().map_err(|_| Failure::new("a thread panicked"))??;
            ensure_eq!(result, vec![2f32.powi(20); N * N]);
        }
        Ok(())
    })
}

fn workspaces_are_bounded(device: &TestDevice) -> TestResult {
    let config = config(device).workspace_bytes(1 << 16).workspaces(2);
    let blas = Blas::with(device.context(), &config)?;
    ensure_eq!(blas.workspace_bytes(), 0);
    let streams: Vec<Stream> = (0..5).map(|_| device.stream()).collect::<Result<_, _>>()?;
    let [by, x, mut y] = buffers(&streams[0])?;
    for (at, stream) in streams.iter().chain(&streams).enumerate() {
        double(&blas, stream, &by, &x, &mut y)?;
        ensure_eq!(blas.workspace_bytes(), (at + 1).min(2) << 16);
    }
    ensure_eq!(y.to_vec(&streams[0])?, vec![2.0; N * N]);
    Ok(())
}

fn no_workspace(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let blas = Blas::with(device.context(), &config(device).workspace_bytes(0))?;
    let [by, x, mut y] = buffers(&stream)?;
    double(&blas, &stream, &by, &x, &mut y)?;
    ensure_eq!(blas.workspace_bytes(), 0);
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

fn the_last_clone_is_dropped_in_a_capture(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let blas = Blas::with(device.context(), &config(device))?;
    let state = buffers(&stream)?;
    let mut graph = device.context().capture(state, move |stream, [by, x, y]| {
        double(&blas, stream, by, x, y)?;
        drop(blas);
        Ok(())
    })?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state()[2].to_vec(&stream)?, vec![2.0; N * N]);
    // The parked handle works for the next one.
    let blas = Blas::with(device.context(), &config(device))?;
    let [by, x, mut y] = buffers(&stream)?;
    double(&blas, &stream, &by, &x, &mut y)?;
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

fn closing(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let blas = Blas::with(device.context(), &config(device))?;
    let [by, x, mut y] = buffers(&stream)?;
    double(&blas, &stream, &by, &x, &mut y)?;
    let clone = blas.clone();
    let refused = blas.close().map_err(|error| error.to_string());
    ensure!(refused == Err("close: blas is used by 1 other clones".to_owned()), "{refused:?}");
    clone.close()?;
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

/// A recorded handle is not destroyed: the graph may use what it owns.
fn a_graph_outlives_its_handle(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let blas = Blas::with(device.context(), &config(device))?;
    let (state, clone) = (buffers(&stream)?, blas.clone());
    let mut graph = device
        .context()
        .capture(state, move |stream, [by, x, y]| Ok(double(&clone, stream, by, x, y)?))?;
    blas.close()?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state()[2].to_vec(&stream)?, vec![2.0; N * N]);
    // The handle waits for the next one of the context.
    let [by, x, mut y] = buffers(&stream)?;
    double(&Blas::with(device.context(), &config(device))?, &stream, &by, &x, &mut y)?;
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

/// The product of the first rows and columns.
fn group<'a>(
    n: usize,
    [a, b]: [&'a DeviceBuffer<f32>; 2],
    c: &'a mut DeviceBuffer<f32>,
) -> cuda_libs::Result<Group<'a, f32>> {
    let part = |matrix| Ok::<_, cuda_libs::Error>(vec![Mat::new(matrix, N, N)?.part(0..n, 0..n)?]);
    let c = vec![MatMut::new(c, N, N)?.part(0..n, 0..n)?];
    Ok(Group { alpha: 1.0, a: part(a)?, b: part(b)?, beta: 0.0, c })
}

/// Products with lists of addresses and of sizes, which lie in memory of the host while the call runs.
fn recorded_lists(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let state = (buffers(&stream)?, buffers(&stream)?);
    let mut graph = device.context().capture(state, |stream, ([by, x, y], [other, u, v])| {
        blas.gemm_grouped(stream, &mut [group(N, [by, x], y)?, group(8, [other, u], v)?])?;
        let (a, b) = ([Mat::new(&*by, N, N)?; 2], [Mat::new(&*y, N, N)?, Mat::new(&*v, N, N)?]);
        let c = &mut [MatMut::new(x, N, N)?, MatMut::new(u, N, N)?];
        Ok(blas.gemm_batched(stream, 1.0, &a, &b, 0.0, c)?)
    })?;
    // Where the lists lay.
    let others: Vec<Vec<u64>> = (0..4000).map(|at| vec![!0; 1 + at % 64]).collect();
    graph.launch(&stream)?;
    graph.launch(&stream)?;
    ensure!(others.iter().flatten().all(|value| *value == !0));
    ensure_eq!(graph.state().0[1].to_vec(&stream)?, vec![16.0; N * N]);
    let small = graph.state().1[1].to_vec(&stream)?;
    let wanted = (0..N * N).map(|at| if at / N < 8 && at % N < 8 { 16.0 } else { 0.0 });
    ensure!(small.iter().copied().eq(wanted), "{small:?}");
    Ok(())
}

/// Handles are made, and plans refused, while another thread records: neither spoils its graph.
fn made_while_another_thread_captures(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let config = super::fft::config(device)?;
    let (begins, begun) = mpsc::channel();
    let (ends, ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| -> TestResult {
        let captured = scope.spawn(move || {
            let stream = context.stream()?;
            let state = DeviceBuffer::<f32>::zeroed(&stream, 100)?;
            let mut graph = context.capture(state, |stream, x| {
                x.fill(stream, 1.0)?;
                let _ = begins.send(());
                let _ = ended.recv_timeout(Duration::from_secs(20));
                x.fill(stream, 2.0)
            })?;
            graph.launch(&stream)?;
            graph.state().to_vec(&stream)
        });
        let make = || -> TestResult {
            let all = [blas(device)?, blas(device)?];
            let [by, x, mut y] = buffers(&stream)?;
            for blas in &all {
                double(blas, &stream, &by, &x, &mut y)?;
            }
            for n in [251, 1 << 12] {
                let plan = Fft::<Complex<f64>, Complex<f64>>::with(context, n, &config);
                refused(
                    plan.map(drop),
                    "fft: context records, which a new plan could invalidate: make plans before the capture",
                )?;
            }
            Ok(())
        };
        // A thread that has failed records nothing.
        let made = if begun.recv().is_ok() { make() } else { Ok(()) };
        let _ = ends.send(());
        let seen = captured.join().map_err(|_| Failure::new("the capture panicked"))?;
        made?;
        let seen = seen?;
        ensure_eq!(seen, vec![2.0; 100]);
        Ok(())
    })
}
