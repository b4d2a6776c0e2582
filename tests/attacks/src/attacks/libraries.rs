//! Attacks on calls of libraries: views, handles, workspaces, and what graphs keep.

use std::thread;

use cuda_libs::blas::{DeviceScalar, marker};
use cuda_libs::lt::{Activation, Extras, Plan, Problem};
use cuda_libs::{
    Blas, Complex, E4m3, Fft, Generator, Layout, Mat, MatMut, Order, Result, Sequence, Vector,
    VectorMut, fft,
};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const N: usize = 12;

/// Twos on the diagonal, ones, and a result.
fn matrices(stream: &Stream) -> Result<[DeviceBuffer<f32>; 3]> {
    let two: Vec<f32> = (0..N * N).map(|at| if at % (N + 1) == 0 { 2.0 } else { 0.0 }).collect();
    Ok([
        DeviceBuffer::from_slice(stream, &two)?,
        DeviceBuffer::from_slice(stream, &[1.0; N * N])?,
        DeviceBuffer::zeroed(stream, N * N)?,
    ])
}

fn double(
    blas: &Blas,
    stream: &Stream,
    by: &DeviceBuffer<f32>,
    from: &DeviceBuffer<f32>,
    to: &mut DeviceBuffer<f32>,
) -> Result<()> {
    blas.gemm(stream, 1.0, Mat::new(by, N, N)?, Mat::new(from, N, N)?, 0.0, MatMut::new(to, N, N)?)
}

/// Multiplies parts of buffers with guards around them: transposed, in batches, at steps.
///
/// - row: a call of a library stays inside its views
/// - row: matrices of a batch that is written do not overlap
/// - targets: `Mat::with`, `Mat::part`, `Mat::transposed`, `Mat::adjoint`, `MatMut::with`, `MatMut::part`,
///   `MatMut::transposed`, `MatMut::reborrow`, `MatMut::as_mat`, `Vector::with_step`, `VectorMut::with_step`,
///   `VectorMut::reborrow`, `VectorMut::new`
fn neighbours_of_views(lab: &Lab) -> TestResult {
    let (stream, blas) = (lab.stream()?, lab.blas()?);
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 400])?;
    let mut guarded = DeviceBuffer::from_slice(&stream, &[7.0f32; 400])?;
    for order in [Order::RowMajor, Order::ColumnMajor] {
        let layout = Layout::new(6, 9).order(order).leading(11).batch(3).stride(120);
        let mut all = MatMut::with(&mut guarded, layout)?;
        let part = all.reborrow().part(1..4, 2..7)?;
        let a = Mat::with(&ones, Layout::new(5, 4).leading(8))?.part(0..5, 1..3)?;
        let b = Mat::with(&ones, Layout::new(2, 3).batch(3).stride(1))?.adjoint().transposed();
        blas.gemm(&stream, 1.0f32, a, b, 0.0, part.transposed())?;
        ensure_eq!(all.as_mat().layout().span(), layout.span());
        let (seen, mut wanted) = (guarded.to_vec(&stream)?, vec![7.0; 400]);
        for (at, row, col) in
            (0..3).flat_map(|at| (1..4).flat_map(move |row| (2..7).map(move |col| (at, row, col))))
        {
            let place = match order {
                Order::RowMajor => row * 11 + col,
                Order::ColumnMajor => col * 11 + row,
            };
            wanted[at * 120 + place] = 2.0;
        }
        ensure_eq!(seen, wanted);
        guarded = DeviceBuffer::from_slice(&stream, &[7.0f32; 400])?;
    }
    let x = Vector::with_step(ones.slice(3..)?, 40, 3)?;
    let mut y = VectorMut::with_step(guarded.slice_mut(5..)?, 40, 2)?;
    blas.axpy(&stream, 1.0f32, x, y.reborrow())?;
    let seen = guarded.to_vec(&stream)?;
    let wanted = |at: usize| if (5..85).contains(&at) && at % 2 == 1 { 8.0 } else { 7.0 };
    ensure!(seen.iter().enumerate().all(|(at, seen)| *seen == wanted(at)), "{seen:?}");
    blas.scal(&stream, 2.0f32, VectorMut::new(guarded.slice_mut(..1)?))?;
    ensure_eq!(guarded.to_vec(&stream)?[..2], [14.0, 7.0]);
    Ok(())
}

/// Makes views that reach beyond their memory, by sizes whose products overflow, and batches whose matrices overlap.
///
/// - row: a call of a library stays inside its views
/// - row: matrices of a batch that is written do not overlap
/// - targets: `Mat::new`, `Mat::with`, `MatMut::new`, `MatMut::with`, `Vector::new`, `Vector::with_step`,
///   `DeviceScalar::new`
fn views_beyond_memory(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let mut buffer = DeviceBuffer::<f32>::zeroed(&stream, 100)?;
    let huge = [1usize << 32, 1 << 63, usize::MAX, usize::MAX / 2 + 2, 101];
    for size in huge {
        lab.refused(Mat::new(&buffer, size, 2), "data has 100 elements")?;
        lab.refused(Mat::new(&buffer, size, size), "data has 100 elements")?;
        for layout in [
            Layout::new(2, 2).leading(size),
            Layout::new(2, 2).batch(size),
            Layout::new(2, 2).batch(2).stride(size),
            Layout::new(2, 2).order(Order::ColumnMajor).leading(size).batch(size).stride(size),
        ] {
            lab.refused(Mat::with(&buffer, layout), "data has 100 elements")?;
            lab.refused(MatMut::with(&mut buffer, layout), "data has 100 elements")?;
        }
        lab.refused(Vector::with_step(&buffer, size, 1), "data has 100 elements")?;
        lab.refused(Vector::with_step(&buffer, 2, size), "data has 100 elements")?;
    }
    for layout in [
        Layout::new(3, 3).batch(2).stride(8),
        Layout::new(3, 3).batch(100).stride(0),
        Layout::new(3, 3).leading(9).batch(4).stride(3),
        Layout::new(2, 5).order(Order::ColumnMajor).leading(3).batch(3).stride(2),
    ] {
        lab.refused(MatMut::with(&mut buffer, layout), "overlap")?;
    }
    lab.refused(DeviceScalar::new(buffer.slice(100..)?), "has no element")
}

/// Passes matrices of another context, and streams, to calls that need nothing else to be wrong.
///
/// - row: a call uses memory and streams of its own context
/// - targets: `Blas::with`, `Lt::plan`
fn memory_of_another_context(lab: &Lab) -> TestResult {
    let (blas, lt) = (lab.blas()?, lab.lt()?);
    let (own, other) = (lab.stream()?, lab.context_of(1)?.stream()?);
    let [by, x, mut y] = matrices(&own)?;
    let [other_by, other_x, mut other_y] = matrices(&other)?;
    lab.refused(double(&blas, &own, &other_by, &x, &mut y), "a lies in memory of another context")?;
    lab.refused(double(&blas, &own, &by, &other_x, &mut y), "b lies in memory of another context")?;
    lab.refused(double(&blas, &own, &by, &x, &mut other_y), "c lies in memory of another context")?;
    lab.refused(double(&blas, &other, &by, &x, &mut y), "belongs to another context")?;
    let layout = Layout::new(N, N);
    let plan: Plan<marker::F32, f32, f32, f32> =
        lt.plan(&Problem::new(layout, layout, layout).bias())?;
    let (a, b) = (Mat::new(&by, N, N)?, Mat::new(&x, N, N)?);
    let mut run = |stream: &Stream, bias: &DeviceBuffer<f32>| {
        let extras = Extras::none().bias(bias);
        plan.run(stream, (1.0, 0.0), a, b, MatMut::new(&mut y, N, N)?, extras)
    };
    lab.refused(run(&own, &other_x), "bias lies in memory of another context")?;
    lab.refused(run(&other, &x), "belongs to another context")?;
    run(&own, &x)?;
    ensure_eq!(y.to_vec(&own)?, vec![3.0; N * N]);
    ensure_eq!(other_y.to_vec(&other)?, vec![0.0; N * N]);
    Ok(())
}

/// Lets more threads than there are workspaces call at once, on streams that come and go. Each workspace is written by
/// each call, so two calls with one would race.
///
/// - row: no two calls have one handle or workspace at once
/// - targets: `Blas::with`, `Blas::context`
fn threads_with_one_blas(lab: &Lab) -> TestResult {
    let (blas, context) = (lab.blas()?, lab.context()?);
    let run = || -> Result<Vec<f32>> {
        let mut first = context.stream()?;
        let [by, mut x, mut y] = matrices(&first)?;
        for _ in 0..6 {
            let second = blas.context().stream()?;
            double(&blas, &first, &by, &x, &mut y)?;
            double(&blas, &second, &by, &y, &mut x)?;
            first = second;
        }
        Ok(x.to_vec(&first)?)
    };
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let seen = thread.join().map_err(|_| Failure::new("a thread panicked"))??;
            ensure_eq!(seen, vec![4096.0; N * N]);
        }
        Ok(())
    })
}

/// Drops all that a graph was made with, takes its memory again, and launches it between other calls.
///
/// - row: a graph keeps the workspace and the handle
/// - row: what the call of a library uses is ordered
/// - targets: `Blas::with`, `Lt::plan`, `Lt::with`
fn graphs_outlive_their_makers(lab: &Lab) -> TestResult {
    let (stream, context) = (lab.stream()?, lab.context()?);
    let mut graphs = Vec::new();
    for with_plan in [false, true, false] {
        let (blas, lt) = (lab.blas()?, lab.lt()?);
        let layout = Layout::new(N, N);
        let state = matrices(&stream)?;
        graphs.push(context.capture(state, move |stream, [by, x, y]| {
            let branch = stream.fork()?;
            if with_plan {
                let problem = Problem::new(layout, layout, layout).activation(Activation::Relu);
                let plan: Plan<marker::F32, f32, f32, f32> = lt.plan(&problem)?;
                let (a, b) = (Mat::new(&*by, N, N)?, Mat::new(&*x, N, N)?);
                plan.run(&branch, (1.0, 0.0), a, b, MatMut::new(&mut *y, N, N)?, Extras::none())?;
            } else {
                double(&blas, &branch, by, x, y)?;
            }
            double(&blas, stream, by, y, x)?;
            drop(blas);
            Ok(())
        })?);
    }
    context.free_deferred()?;
    // Of the sizes of workspaces.
    let taken: Vec<_> = (0..6)
        .map(|_| DeviceBuffer::from_slice(&stream, &vec![9u8; 1 << 16]))
        .collect::<cuda_safe::Result<_>>()?;
    let (blas, other) = (lab.blas()?, context.stream()?);
    let [by, x, mut y] = matrices(&stream)?;
    for round in 1..4 {
        for graph in &mut graphs {
            graph.launch(&stream)?;
            double(&blas, &other, &by, &x, &mut y)?;
        }
        for graph in &graphs {
            ensure_eq!(graph.state()[1].to_vec(&other)?, vec![4f32.powi(round); N * N]);
        }
    }
    for memory in &taken {
        ensure!(
            memory.to_vec(&stream)?.iter().all(|byte| *byte == 9),
            "a graph wrote freed memory"
        );
    }
    drop(blas);
    drop(graphs);
    Ok(())
}

/// Closes a `Blas` that others use, that records, and whose work is under way.
///
/// - row: no two calls have one handle or workspace at once
/// - row: a graph keeps the workspace and the handle
/// - targets: `Blas::close`
fn closed_too_early(lab: &Lab) -> TestResult {
    let (stream, context) = (lab.stream()?, lab.context()?);
    let [by, x, mut y] = matrices(&stream)?;
    let blas = lab.blas()?;
    let clone = blas.clone();
    lab.refused(blas.close(), "is used by 1 other clones")?;
    double(&clone, &stream, &by, &x, &mut y)?;
    clone.close()?;
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    let blas = lab.blas()?;
    let state = (matrices(&stream)?, Ok(()));
    let mut graph = context.capture(state, move |stream, ([by, x, y], closed)| {
        double(&blas, stream, by, x, y)?;
        *closed = blas.close();
        Ok(())
    })?;
    lab.refused(graph.state().1.clone(), "records")?;
    lab.blas()?.close()?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().0[2].to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

/// Runs a plan with other matrices and memory than it was made for.
///
/// - row: a plan runs what it was made for
/// - targets: `Lt::plan`, `Lt::cache`, `Extras::none`, `Extras::bias`, `Extras::save`, `Extras::saved`, `Extras::scales`,
///   `Extras::amax`
fn plans_of_other_problems(lab: &Lab) -> TestResult {
    let (stream, lt) = (lab.stream()?, lab.lt()?);
    let layout = Layout::new(N, N);
    let problem = Problem::new(layout, layout, layout).activation(Activation::Gelu).save();
    let plan: Plan<marker::F32, f32, f32, f32> = lt.plan(&problem)?;
    let [by, x, mut y] = matrices(&stream)?;
    let mut room = DeviceBuffer::<u8>::zeroed(&stream, plan.saved_bytes())?;
    let (a, b) = (Mat::new(&by, N, N)?, Mat::new(&x, N, N)?);
    let mut run = |a: Mat<'_, f32>, b: Mat<'_, f32>, extras: Extras<'_, f32>| {
        plan.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut y, N, N)?, extras)
    };
    lab.refused(run(a.part(0..4, 0..N)?, b, Extras::none()), "a has another layout")?;
    lab.refused(run(a, b.transposed(), Extras::none()), "b has another layout")?;
    lab.refused(run(a, b, Extras::none()), "save is missing")?;
    let short = room.len() - 1;
    lab.refused(run(a, b, Extras::none().save(room.slice_mut(..short)?)), "are needed")?;
    lab.refused(run(a, b, Extras::none().save(&mut room).bias(&x)), "bias is given")?;
    let saved = DeviceBuffer::<u8>::zeroed(&stream, room.len())?;
    lab.refused(run(a, b, Extras::none().save(&mut room).saved(&saved)), "saved is given")?;
    let mut amax = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let scaled = Extras::none().save(&mut room).scales(&x, &x, None).amax(&mut amax);
    lab.refused(run(a, b, scaled), "is given, but the plan takes none")?;
    run(a, b, Extras::none().save(&mut room))?;
    // 8-bit matrices at an address that the algorithm does not take.
    let eight = Layout::new(16, 16);
    let bytes = DeviceBuffer::<E4m3>::zeroed(&stream, 300)?;
    let plan: Plan<marker::F32, E4m3, E4m3, f32> =
        lt.cache(nvrtc::Cache::off()).plan(&Problem::new(eight, eight, eight))?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, 256)?;
    let (a, b) = (Mat::new(bytes.slice(1..)?, 16, 16)?, Mat::new(&bytes, 16, 16)?);
    let call = plan.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut z, 16, 16)?, Extras::none());
    lab.refused(call, "no multiple of 16")
}

/// Forks with work under way. The child's calls are refused, and its drops do nothing to the parent.
///
/// - row: a forked child does not call the driver
/// - row: no two calls have one handle or workspace at once
/// - targets: `Blas::new`, `Lt::new`, `Lt::plan`
fn forked_children(lab: &Lab) -> TestResult {
    let (stream, lt, blas) = (lab.stream()?, lab.lt()?, lab.blas()?);
    let layout = Layout::new(N, N);
    let problem = Problem::new(layout, layout, layout);
    let plan: Plan<marker::F32, f32, f32, f32> = lt.plan(&problem)?;
    let [by, x, mut y] = matrices(&stream)?;
    double(&blas, &stream, &by, &x, &mut y)?;
    let (context, mut given) = (lab.context()?, Some((blas.clone(), plan, lt)));
    let held = lab.in_fork(|| {
        let Some((blas, plan, lt)) = given.take() else { return false };
        let again: Result<Plan<marker::F32, f32, f32, f32>> = lt.plan(&problem);
        let Ok(z) = MatMut::new(&mut y, N, N) else { return false };
        let (Ok(a), Ok(b)) = (Mat::new(&by, N, N), Mat::new(&x, N, N)) else { return false };
        let run = plan.run(&stream, (1.0, 0.0), a, b, z, Extras::none());
        let called = double(&blas, &stream, &by, &x, &mut y);
        let refused = again.is_err() && run.is_err() && called.is_err();
        let bytes = blas.workspace_bytes();
        drop((plan, lt));
        refused && bytes == 0 && blas.close().is_err() && Blas::new(&context).is_err()
    })?;
    ensure!(held, "the child was not refused, or hangs");
    double(&blas, &stream, &by, &x, &mut y)?;
    ensure_eq!(y.to_vec(&stream)?, vec![2.0; N * N]);
    Ok(())
}

/// Drops a plan that a graph has recorded, and a generator whose work may run, and makes so many others that parked ones are
/// destroyed.
///
/// - row: a plan or a generator outlives the work and the graphs that use it
/// - targets: `Fft::new`, `Fft::with`, `Generator::new`, `Generator::with`
fn graphs_outlive_plans(lab: &Lab) -> TestResult {
    type Plan = Fft<Complex<f32>, Complex<f32>>;
    let (stream, context, (cufft, curand)) = (lab.stream()?, lab.context()?, lab.transforms()?);
    let config = fft::Config::new().library(cufft);
    let plan = Plan::with(&context, N, &config)?;
    let mut generator = Generator::with(&stream, Sequence::philox(1), curand)?;
    lab.refused(plan.clone().close(), "is used by 1 other clones")?;
    let mut state = DeviceBuffer::<f32>::zeroed(&stream, 2 * N)?;
    generator.uniform(&stream, &mut state)?;
    drop(generator);
    let start = state.to_vec(&stream)?;
    let mut graph = context.capture(state, move |stream, x| {
        Ok(plan.forward_in_place(stream, x.as_slice_mut().cast_mut::<Complex<f32>>()?)?)
    })?;
    graph.launch(&stream)?;
    for n in 1..40 {
        drop(Plan::with(&context, n, &config)?);
        drop(Generator::with(&stream, Sequence::philox(2), curand)?);
    }
    graph.launch(&stream)?;
    // Element k of the transform's transform is N times element N - k.
    for (k, got) in graph.state().to_vec(&stream)?.chunks(2).enumerate() {
        let wanted = N as f32 * start[2 * ((N - k) % N)];
        ensure!((got[0] - wanted).abs() < 1e-3 * N as f32, "{k}: {} is not {wanted}", got[0]);
    }
    let mut made = Some(Generator::with(&stream, Sequence::philox(3), curand)?);
    let held = lab.in_fork(|| {
        let generator = Generator::new(&stream, Sequence::philox(1));
        let closed = made.take().map(Generator::close);
        Plan::new(&context, N).is_err() && generator.is_err() && matches!(closed, Some(Err(_)))
    })?;
    ensure!(held, "the child was not refused, or hangs");
    Ok(())
}

/// Gives a plan memory that is too short, and an output whose elements overlap; then transforms memory between guards.
///
/// - row: a transform stays inside the memory that its call borrows, and does not write an element twice
/// - targets: `Fft::context`
fn transforms_beyond_memory(lab: &Lab) -> TestResult {
    type Plan = Fft<Complex<f32>, Complex<f32>>;
    let (stream, context, (cufft, _)) = (lab.stream()?, lab.context()?, lab.transforms()?);
    let config = fft::Config::new().library(cufft);
    let shape = fft::Shape::new(N).batch(2);
    let overlap = shape.output(fft::Layout::new(N).distance(N - 1));
    lab.refused(Plan::with(&context, overlap, &config), "output overlaps")?;
    let plan = Plan::with(&context, shape, &config)?;
    drop(context);
    ensure!(plan.context().stream()?.synchronize().is_ok());
    let one = Complex::new(1.0f32, 0.0);
    let x = DeviceBuffer::from_slice(&stream, &[one; 2 * N])?;
    let mut y = DeviceBuffer::from_slice(&stream, &[Complex::new(7.0f32, 7.0); 2 * N + 2])?;
    let short = plan.forward(&stream, x.slice(1..)?, y.slice_mut(1..=2 * N)?);
    lab.refused(short, "input has 23 elements, but the plan needs 24")?;
    let short = plan.forward(&stream, &x, y.slice_mut(1..2 * N)?);
    lab.refused(short, "output has 23 elements, but the plan needs 24")?;
    plan.forward(&stream, &x, y.slice_mut(1..=2 * N)?)?;
    for (at, got) in y.to_vec(&stream)?.iter().enumerate() {
        let wanted = match at {
            0 => Complex::new(7.0, 7.0),
            at if at == 2 * N + 1 => Complex::new(7.0, 7.0),
            at if at % N == 1 => one * N as f32,
            _ => Complex::new(0.0, 0.0),
        };
        ensure!((got - wanted).norm() < 1e-5, "{at}: {got} is not {wanted}");
    }
    Ok(())
}

/// Transforms by one plan in four threads, each on its stream.
///
/// - row: a plan is in one call at a time, and a work area in one transform
/// - targets: `Fft::with`
fn threads_with_one_plan(lab: &Lab) -> TestResult {
    type Plan = Fft<Complex<f32>, Complex<f32>>;
    let (context, (cufft, _)) = (lab.context()?, lab.transforms()?);
    let plan = Plan::with(&context, N, &fft::Config::new().library(cufft).work_areas(1))?;
    let run = |value: f32| -> TestResult {
        let stream = context.stream()?;
        let mut x = DeviceBuffer::from_slice(&stream, &[Complex::new(value, 0.0); N])?;
        for _ in 0..5 {
            plan.forward_in_place(&stream, &mut x)?;
            plan.inverse_in_place(&stream, &mut x)?;
        }
        let wanted = value * (N as f32).powi(5);
        for got in x.to_vec(&stream)? {
            ensure!((got / wanted - 1.0).norm() < 1e-4, "{got} is not {wanted}");
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (1..=4).map(|at| scope.spawn(move || run(at as f32))).collect();
        for thread in threads {
            thread.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok(())
    })
}

/// Takes numbers of one generator on two streams by turns, and records it.
///
/// - row: the calls of a generator run in their order, on all streams; none is recorded
/// - targets: `Generator::with`
fn numbers_on_two_streams(lab: &Lab) -> TestResult {
    let (stream, other) = (lab.stream()?, lab.stream()?);
    let (context, (_, curand)) = (lab.context()?, lab.transforms()?);
    for sequence in [Sequence::philox(5), Sequence::xorwow(5)] {
        let mut wanted = DeviceBuffer::<u32>::zeroed(&stream, 40)?;
        Generator::with(&stream, sequence, curand)?.bits(&stream, &mut wanted)?;
        let mut generator = Generator::with(&other, sequence, curand)?;
        let mut got = DeviceBuffer::<u32>::zeroed(&stream, 40)?;
        for at in 0..4 {
            let on = if at % 2 == 0 { &stream } else { &other };
            generator.bits(on, got.slice_mut(10 * at..10 * at + 10)?)?;
        }
        ensure_eq!(got.to_vec(&other)?, wanted.to_vec(&stream)?);
        let recorded = context.capture(got, |stream, out| Ok(generator.bits(stream, out)?));
        lab.refused(recorded, "only the first launch of the graph")?;
    }
    Ok(())
}

attacks![
    "libraries",
    right(neighbours_of_views),
    refused(views_beyond_memory),
    refused(memory_of_another_context).devices(2),
    right(threads_with_one_blas),
    right(graphs_outlive_their_makers),
    refused(closed_too_early),
    refused(plans_of_other_problems),
    right(forked_children),
    right(graphs_outlive_plans),
    refused(transforms_beyond_memory),
    right(threads_with_one_plan),
    refused(numbers_on_two_streams),
];
