//! Transforms on several streams, in graphs, by several threads; plans and work areas.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use cuda_libs::Complex;
use cuda_libs::fft::{Config, Fft};
use cuda_safe::{DeviceBuffer, Pool, Stream};
use cuda_sys::cufft::{cufftHandle, cufftResult};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::fft::config;
use super::lab::{destroys, library_with, on_destroy};
use super::refusals::refused;

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::fft_order",
        device(many_streams),
        device(a_captured_transform),
        device(the_first_call_is_captured),
        device(branches_of_a_graph),
        device(threads_at_once),
        device(dropped_in_a_capture),
        device(a_graph_outlives_its_plan),
        device(plans_are_bounded),
        device(areas_of_branches),
        device(captures_wait_for_close),
        device(closing),
    ]
}

type C = Complex<f64>;
type Plan = Fft<C, C>;

const N: usize = 30;

fn plan(device: &TestDevice) -> Result<Plan, Failure> {
    Ok(Fft::with(device.context(), N, &config(device)?)?)
}

/// Numbers that a transform and its inverse multiply by `N`.
fn buffers(stream: &Stream) -> cuda_safe::Result<[DeviceBuffer<C>; 2]> {
    Ok([DeviceBuffer::from_slice(stream, &host())?, DeviceBuffer::zeroed(stream, N)?])
}

fn host() -> Vec<C> {
    (0..N).map(|at| C::new(at as f64, (at * at % 7) as f64)).collect()
}

/// x = N x, by a transform on one stream and its inverse on another.
fn turn(
    fft: &Plan,
    streams: [&Stream; 2],
    [x, y]: &mut [DeviceBuffer<C>; 2],
) -> cuda_libs::Result<()> {
    fft.forward(streams[0], &*x, &mut *y)?;
    fft.inverse(streams[1], &*y, &mut *x)
}

fn check(stream: &Stream, x: &DeviceBuffer<C>, turns: i32) -> TestResult {
    let factor = (N as f64).powi(turns);
    for (got, x) in x.to_vec(stream)?.iter().zip(host()) {
        ensure!((got / factor - x).norm() < 1e-11, "after {turns}: {got} is not {} ", x * factor);
    }
    Ok(())
}

/// More streams than work areas.
fn many_streams(device: &TestDevice) -> TestResult {
    let streams: Vec<Stream> = (0..7).map(|_| device.stream()).collect::<Result<_, _>>()?;
    for areas in [0, 1, 3] {
        let fft = Fft::with(device.context(), N, &config(device)?.work_areas(areas))?;
        let (mut data, mut others) = (buffers(&streams[0])?, buffers(&streams[0])?);
        for pair in streams.chunks(2).filter(|pair| pair.len() == 2) {
            turn(&fft, [&pair[0], &pair[1]], &mut data)?;
            turn(&fft, [&pair[1], &pair[1]], &mut others)?;
        }
        check(&streams[6], &data[0], 3)?;
        check(&streams[0], &others[0], 3)?;
    }
    Ok(())
}

fn a_captured_transform(device: &TestDevice) -> TestResult {
    let (stream, fft) = (device.stream()?, plan(device)?);
    let mut others = buffers(&stream)?;
    let state = buffers(&stream)?;
    let mut graph = device.context().capture(state, |stream, data| {
        turn(&fft, [stream, stream], data)?;
        Ok(turn(&fft, [stream, stream], data)?)
    })?;
    // Work of others between the launches has other work areas.
    for _ in 0..20 {
        graph.launch(&stream)?;
        turn(&fft, [&stream, &stream], &mut others)?;
    }
    check(&stream, &graph.state()[0], 40)?;
    check(&stream, &others[0], 20)
}

/// A new plan is refused in a capture; the first call of one, and a kept plan, are not.
fn the_first_call_is_captured(device: &TestDevice) -> TestResult {
    let (stream, config, context) = (device.stream()?, config(device)?, device.context());
    let (mut fft, state) = (Some(Plan::with(context, N, &config)?), buffers(&stream)?);
    let made = RefCell::new(None);
    let mut graph = context.capture(state, |stream, data| {
        made.replace(Some(Plan::with(context, N + 1, &config).map(drop)));
        drop(fft.take());
        Ok(turn(&Plan::with(context, N, &config)?, [stream, stream], data)?)
    })?;
    let made = made.take().ok_or_else(|| Failure::new("nothing was recorded"))?;
    let refusal =
        "fft: context records, which a new plan could invalidate: make plans before the capture";
    refused(made, refusal)?;
    graph.launch(&stream)?;
    check(&stream, &graph.state()[0], 1)
}

fn branches_of_a_graph(device: &TestDevice) -> TestResult {
    let (stream, fft) = (device.stream()?, plan(device)?);
    let state = (buffers(&stream)?, buffers(&stream)?);
    let mut graph = device.context().capture(state, |stream, (first, second)| {
        let branch = stream.fork()?;
        turn(&fft, [stream, stream], first)?;
        turn(&fft, [&branch, &branch], second)?;
        Ok(turn(&fft, [stream, &branch], first)?)
    })?;
    graph.launch(&stream)?;
    check(&stream, &graph.state().0[0], 2)?;
    check(&stream, &graph.state().1[0], 1)
}

fn threads_at_once(device: &TestDevice) -> TestResult {
    let fft = plan(device)?;
    let run = || -> TestResult {
        let stream = device.stream()?;
        let mut data = buffers(&stream)?;
        for _ in 0..10 {
            turn(&fft, [&stream, &stream], &mut data)?;
        }
        check(&stream, &data[0], 10)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok(())
    })
}

fn dropped_in_a_capture(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let fft = plan(device)?;
    let state = buffers(&stream)?;
    let mut graph = device.context().capture(state, move |stream, data| {
        turn(&fft, [stream, stream], data)?;
        drop(fft);
        Ok(())
    })?;
    graph.launch(&stream)?;
    check(&stream, &graph.state()[0], 1)?;
    // The kept plan works for the next one.
    let (fft, mut data) = (plan(device)?, buffers(&stream)?);
    turn(&fft, [&stream, &stream], &mut data)?;
    check(&stream, &data[0], 1)
}

/// A plan that a graph has recorded is not destroyed before the graph.
fn a_graph_outlives_its_plan(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (fft, state) = (plan(device)?, buffers(&stream)?);
    let clone = fft.clone();
    let mut graph = device
        .context()
        .capture(state, move |stream, data| Ok(turn(&clone, [stream, stream], data)?))?;
    fft.close()?;
    graph.launch(&stream)?;
    check(&stream, &graph.state()[0], 1)
}

/// More plans than are kept; those that a graph has recorded stay.
fn plans_are_bounded(device: &TestDevice) -> TestResult {
    let (stream, config) = (device.stream()?, watched(device)?);
    let destroyed = Rc::new(Cell::new(0));
    let counter = destroyed.clone();
    on_destroy(Some(Box::new(move || counter.set(counter.get() + 1))));
    let fft = Fft::with(device.context(), N, &config)?;
    let state = buffers(&stream)?;
    let mut graph = device
        .context()
        .capture(state, move |stream, data| Ok(turn(&fft, [stream, stream], data)?))?;
    for n in 1..40 {
        let fft = Fft::<C, C>::with(device.context(), n, &config)?;
        let mut x = DeviceBuffer::from_slice(&stream, &vec![C::new(1.0, 0.0); n])?;
        fft.forward_in_place(&stream, &mut x)?;
        ensure!((x.to_vec(&stream)?[0] - n as f64).norm() < 1e-12);
        // The plan, 16 dropped ones, and that of the graph.
        let alive = n + usize::from(n < N) - destroyed.get();
        ensure!(alive <= 18, "{alive} plans");
    }
    Fft::<C, C>::with(device.context(), 40, &config)?.close()?;
    // N is among the lengths, and takes the plan of the graph.
    ensure_eq!(destroyed.get(), 39);
    on_destroy(None);
    graph.launch(&stream)?;
    check(&stream, &graph.state()[0], 1)
}

/// Two streams of a graph by turns: each has one work area.
fn areas_of_branches(device: &TestDevice) -> TestResult {
    // A prime, for which cuFFT needs a work area.
    const LONG: usize = 10_007;
    let (stream, context) = (device.stream()?, device.context());
    let fft = Fft::<C, C>::with(context, LONG, &config(device)?)?;
    let pool = Pool::default_of(context)?;
    let used = |turns: usize| -> Result<u64, Failure> {
        let new = || DeviceBuffer::<C>::zeroed(&stream, LONG);
        let state = (new()?, new()?);
        let before = pool.used_bytes()?;
        let graph = context.capture(state, |stream, (first, second)| {
            let branch = stream.fork()?;
            for _ in 0..turns {
                fft.forward_in_place(stream, &mut *first)?;
                fft.forward_in_place(&branch, &mut *second)?;
            }
            Ok(fft.forward_in_place(stream, first)?)
        })?;
        let used = pool.used_bytes()?.saturating_sub(before);
        drop(graph);
        Ok(used)
    };
    let bound = 2 * fft.work_area_bytes() as u64;
    ensure!(bound > 0, "there is no work area");
    let used = used(20)?;
    ensure!(used <= bound, "{used} bytes of 20 turns; two areas have {bound}");
    Ok(())
}

unsafe extern "C" fn destroy(plan: cufftHandle) -> cufftResult {
    destroys();
    // SAFETY: the caller's promise.
    unsafe { blas_emu::cufft::cufftDestroy(plan) }
}

/// Options with a library that reports destroyed plans.
fn watched(device: &TestDevice) -> Result<Config, Failure> {
    // SAFETY: `destroy` calls the function of this name.
    let library = unsafe { library_with(device, c"cufftDestroy", destroy as *const _) }?;
    Ok(Config::new().library(library))
}

/// A capture of another thread, which freed memory would invalidate, begins after the plans are destroyed.
fn captures_wait_for_close(device: &TestDevice) -> TestResult {
    let fft = Fft::<C, C>::with(device.context(), N, &watched(device)?)?;
    let (begun, is_early) = (Arc::new(AtomicBool::new(false)), Rc::new(Cell::new(false)));
    let (destroying, is_destroying) = mpsc::channel::<()>();
    std::thread::scope(|scope| -> TestResult {
        let (context, begins) = (device.context(), begun.clone());
        let capture = scope.spawn(move || {
            let was_destroyed = is_destroying.recv().is_ok();
            let capture = context.capture((), |_, ()| {
                begins.store(was_destroyed, Ordering::SeqCst);
                Ok(())
            });
            capture.map(drop)
        });
        let (begun, early) = (begun.clone(), is_early.clone());
        on_destroy(Some(Box::new(move || {
            let _ = destroying.send(());
            std::thread::sleep(Duration::from_millis(50));
            early.set(begun.load(Ordering::SeqCst));
        })));
        let closed = fft.close();
        on_destroy(None);
        capture.join().map_err(|_| Failure::new("the capture panicked"))??;
        Ok(closed?)
    })?;
    ensure!(!is_early.get(), "the capture began before the plan was destroyed");
    ensure!(begun.load(Ordering::SeqCst), "no plan was destroyed");
    Ok(())
}

fn closing(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let fft = plan(device)?;
    let mut data = buffers(&stream)?;
    turn(&fft, [&stream, &stream], &mut data)?;
    let clone = fft.clone();
    refused(fft.close(), "close: fft is used by 1 other clones")?;
    clone.close()?;
    check(&stream, &data[0], 1)
}
