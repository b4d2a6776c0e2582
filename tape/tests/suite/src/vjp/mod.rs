//! Adjoints that are called without a tape: their gradients have the bits of a tape's.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, Result, Stream};
use tape::{Differentiable, Gradients, NotSaved, Op, Seeds, Tape, Variable};

use super::ops::{Adjoints, ByHand, Generated, Number, Ops, Table, threads};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

mod captured;
mod refused;
mod special;

pub(super) fn cases() -> Vec<Case> {
    let equal = cases![
        "tape::vjp",
        device(bits_of_the_tape_f32 = equal::<f32, ByHand>),
        device(bits_of_the_tape_f64 = equal::<f64, ByHand>),
        device(bits_of_the_tape_generated_f32 = equal::<f32, Generated>),
        device(bits_of_the_tape_generated_f64 = equal::<f64, Generated>),
        device(deterministic_f32 = deterministic::<f32>),
        device(deterministic_f64 = deterministic::<f64>),
        device(scratch_memory_by_hand = scratch::<f64, ByHand>),
        device(scratch_memory_generated = scratch::<f32, Generated>),
    ];
    [equal, captured::cases(), refused::cases(), special::cases()].concat()
}

const SIZES: [usize; 8] = [0, 1, 31, 32, 33, 64, 65, 1000];

/// Eighths: their products and sums are exact, whatever their order.
fn eighths<T: Number>(rng: &mut Rng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::of(f64::from((rng.float() * 16.0).round()) / 8.0)).collect()
}

/// A gradient that nothing has written yet.
fn unwritten<T: Number>(stream: &Stream, n: usize) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, &vec![T::of(f64::NAN); n])
}

fn buffer<T: Pod>(stream: &Stream, host: &[T]) -> Result<DeviceBuffer<T>> {
    DeviceBuffer::from_slice(stream, host)
}

/// The gradient on a tape; zeros where there are no elements.
fn of_tape<T: Number>(tape: &Tape, stream: &Stream, x: &DeviceBuffer<T>) -> Result<Vec<T>> {
    tape.gradient(x)?.to_vec(stream)
}

/// Fails if a gradient has other bits than the tape's, or if no element would show an error.
fn same<T: Number>(stream: &Stream, got: &DeviceBuffer<T>, wanted: &[T]) -> TestResult {
    let got = got.to_vec(stream)?;
    first_difference(&got, wanted)?;
    ensure!(got.len() < 31 || wanted.iter().any(|g| g.to() != 0.0), "all gradients are zero");
    Ok(())
}

/// Every operation, for sizes around a warp and a block.
fn equal<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(2510);
    for n in SIZES {
        numbers_by_value(&stream, &ops, &mut rng, n, [T::of(1.5), T::of(0.5)])?;
        in_place::<T>(&stream, &ops, &mut rng, n)?;
        pairs::<T>(&stream, &ops, &mut rng, n)?;
        shared::<T>(&stream, &ops, &mut rng, n)?;
        one_input::<T>(&stream, &ops, &mut rng, n)?;
    }
    Ok(())
}

/// `scale` and `power_times`: a number that is passed by value has a gradient of one element.
fn numbers_by_value<T: Number>(
    stream: &Stream,
    ops: &Ops,
    rng: &mut Rng,
    n: usize,
    [first, second]: [T; 2],
) -> TestResult {
    let (hx, hg) = (eighths::<T>(rng, n), eighths::<T>(rng, n));
    let (x, g) = (buffer(stream, &hx)?, buffer(stream, &hg)?);
    let mut y = DeviceBuffer::<T>::zeroed(stream, n)?;
    for (op, value) in [(&ops.scale, first), (&ops.power_times, second)] {
        let (mut gx, mut ga) = (unwritten::<T>(stream, n)?, unwritten::<T>(stream, 1)?);
        let gradients =
            Gradients::new().seed("out", &g).into_buffer("x", &mut gx).into_buffer("a", &mut ga);
        op.vjp(stream, threads(n), (value, &x, NotSaved, n as u32), gradients)?;
        // What is not wanted is left alone, and the others have the same bits.
        let mut alone = unwritten::<T>(stream, 1)?;
        let gradients = Gradients::new().seed("out", &g).into_buffer("a", &mut alone);
        op.vjp(stream, threads(n), (value, &x, &mut y, n as u32), gradients)?;
        ensure_eq!(g.to_vec(stream)?, hg);
        ensure_eq!(x.to_vec(stream)?, hx);
        if n == 0 {
            ensure_eq!(ga.to_vec(stream)?, [T::of(0.0)]);
            ensure_eq!(alone.to_vec(stream)?, [T::of(0.0)]);
            continue;
        }
        let a = Variable::new(stream, value)?;
        let mut tape = Tape::record(stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.launch(op, threads(n), (&a, &x, &mut y, n as u32))
        })?;
        tape.backward_with(stream, &Seeds::new().with(&y, &g)?)?;
        same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
        let by_a = tape.gradient(&a)?.to_vec(stream)?;
        same(stream, &ga, &by_a)?;
        same(stream, &alone, &by_a)?;
        // A variable is a number.
        let mut again = unwritten::<T>(stream, 1)?;
        let gradients = Gradients::new().seed("out", &g).into_buffer("a", &mut again);
        op.vjp(stream, threads(n), (&a, &x, NotSaved, n as u32), gradients)?;
        same(stream, &again, &by_a)?;
    }
    Ok(())
}

/// `bend`, `times` and `square_add`: what is updated or added to has a gradient by its old contents.
fn in_place<T: Number>(stream: &Stream, ops: &Ops, rng: &mut Rng, n: usize) -> TestResult {
    let (hx, hy) = (eighths::<T>(rng, n), eighths::<T>(rng, n));
    let (x, g) = (buffer(stream, &hx)?, buffer(stream, &eighths::<T>(rng, n))?);
    // bend: the old values are passed.
    let mut old = buffer(stream, &hy)?;
    let mut gy = unwritten::<T>(stream, n)?;
    let gradients = Gradients::new().seed("x", &g).into_buffer("x", &mut gy);
    ops.bend.vjp(stream, threads(n), (&mut old, n as u32), gradients)?;
    ensure_eq!(old.to_vec(stream)?, hy, "an argument was written");
    if n > 0 {
        let mut y = buffer(stream, &hy)?;
        let mut tape = Tape::record(stream, |t| {
            t.watch(&y)?;
            t.launch(&ops.bend, threads(n), (&mut y, n as u32))
        })?;
        tape.backward_with(stream, &Seeds::new().with(&y, &g)?)?;
        same(stream, &gy, &of_tape(&tape, stream, &y)?)?;
    }
    for op in [&ops.times, &ops.square_add] {
        let (mut gx, mut gy) = (unwritten::<T>(stream, n)?, unwritten::<T>(stream, n)?);
        let mut alone = unwritten::<T>(stream, n)?;
        let gradients =
            Gradients::new().seed("y", &g).into_buffer("x", &mut gx).into_buffer("y", &mut gy);
        op.vjp(stream, threads(n), (&x, &mut old, n as u32), gradients)?;
        let gradients = Gradients::new().seed("y", &g).into_buffer("x", &mut alone);
        op.vjp(stream, threads(n), (&x, &mut old, n as u32), gradients)?;
        if n == 0 {
            continue;
        }
        let mut y = buffer(stream, &hy)?;
        let mut tape = Tape::record(stream, |t| {
            t.watch(&x)?;
            t.watch(&y)?;
            t.launch(op, threads(n), (&x, &mut y, n as u32))
        })?;
        tape.backward_with(stream, &Seeds::new().with(&y, &g)?)?;
        same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
        same(stream, &alone, &of_tape(&tape, stream, &x)?)?;
        same(stream, &gy, &of_tape(&tape, stream, &y)?)?;
    }
    Ok(())
}

/// `multiply`, `multiply_shared`: two inputs; and `split`: two outputs, one of which may have no gradient.
fn pairs<T: Number>(stream: &Stream, ops: &Ops, rng: &mut Rng, n: usize) -> TestResult {
    let [x, y, g, h] = [0; 4].map(|_| buffer(stream, &eighths::<T>(rng, n)));
    let (x, y, g, h) = (x?, y?, g?, h?);
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    for op in [&ops.multiply, &ops.multiply_shared] {
        let (mut gx, mut gy) = (unwritten::<T>(stream, n)?, unwritten::<T>(stream, n)?);
        let gradients =
            Gradients::new().seed("out", &g).into_buffer("x", &mut gx).into_buffer("y", &mut gy);
        op.vjp(stream, threads(n), (&x, &y, NotSaved, n as u32), gradients)?;
        if n == 0 {
            continue;
        }
        let mut tape = Tape::record(stream, |t| {
            t.watch(&x)?;
            t.watch(&y)?;
            t.launch(op, threads(n), (&x, &y, &mut out, n as u32))
        })?;
        tape.backward_with(stream, &Seeds::new().with(&out, &g)?)?;
        same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
        same(stream, &gy, &of_tape(&tape, stream, &y)?)?;
        // Of one buffer that is both, the tape has the sum.
        let (mut gx, mut gy) = (unwritten::<T>(stream, n)?, unwritten::<T>(stream, n)?);
        let gradients =
            Gradients::new().seed("out", &g).into_buffer("x", &mut gx).into_buffer("y", &mut gy);
        op.vjp(stream, threads(n), (&x, &x, NotSaved, n as u32), gradients)?;
        let mut tape = Tape::record(stream, |t| {
            t.watch(&x)?;
            t.launch(op, threads(n), (&x, &x, &mut out, n as u32))
        })?;
        tape.backward_with(stream, &Seeds::new().with(&out, &g)?)?;
        let (gx, gy) = (gx.to_vec(stream)?, gy.to_vec(stream)?);
        let sum: Vec<T> = gx.iter().zip(&gy).map(|(x, y)| T::of(x.to() + y.to())).collect();
        first_difference(&sum, &of_tape(&tape, stream, &x)?)?;
    }
    let mut two = DeviceBuffer::<T>::zeroed(stream, n)?;
    for both in [true, false] {
        let mut gx = unwritten::<T>(stream, n)?;
        let gradients = Gradients::new().seed("one", &g).into_buffer("x", &mut gx);
        let gradients = if both { gradients.seed("two", &h) } else { gradients.seed_zero("two") };
        ops.split.vjp(stream, threads(n), (&x, NotSaved, NotSaved, n as u32), gradients)?;
        if n == 0 {
            continue;
        }
        let mut tape = Tape::record(stream, |t| {
            t.watch(&x)?;
            t.launch(&ops.split, threads(n), (&x, &mut out, &mut two, n as u32))
        })?;
        let seeds = Seeds::new().with(&out, &g)?;
        let seeds = if both { seeds.with(&two, &h)? } else { seeds };
        tape.backward_with(stream, &seeds)?;
        same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
    }
    Ok(())
}

/// `gather`, `look_up`: elements that several threads add to; and `energy`: a sum that they share.
fn shared<T: Number>(stream: &Stream, ops: &Ops, rng: &mut Rng, n: usize) -> TestResult {
    let (x, g) = (buffer(stream, &eighths::<T>(rng, 40))?, buffer(stream, &eighths::<T>(rng, n))?);
    let index: Vec<u32> = (0..n).map(|_| rng.below(40) as u32).collect();
    let index = buffer(stream, &index)?;
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    let mut gx = unwritten::<T>(stream, 40)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
    // x has no declared length, and the adjoint does not read it: its memory is passed all the same.
    ops.gather.vjp(stream, threads(n), (&x, &index, NotSaved, n as u32), gradients)?;
    let table = Table(x.as_slice());
    let mut gtable = unwritten::<T>(stream, 40)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("table", &mut gtable);
    ops.look_up.vjp(stream, threads(n), (&table, NotSaved, n as u32), gradients)?;
    if n == 0 {
        ensure_eq!(gx.to_vec(stream)?, vec![T::of(0.0); 40]);
        ensure_eq!(gtable.to_vec(stream)?, vec![T::of(0.0); 40]);
        return Ok(());
    }
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.gather, threads(n), (&x, &index, &mut out, n as u32))
    })?;
    tape.backward_with(stream, &Seeds::new().with(&out, &g)?)?;
    same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.look_up, threads(n), (&table, &mut out, n as u32))
    })?;
    tape.backward_with(stream, &Seeds::new().with(&out, &g)?)?;
    same(stream, &gtable, &of_tape(&tape, stream, &x)?)?;

    let x = buffer(stream, &eighths::<T>(rng, n))?;
    let mut loss = DeviceBuffer::<T>::zeroed(stream, 1)?;
    let g = buffer(stream, &[T::of(0.75)])?;
    let (mut gx, mut gloss) = (unwritten::<T>(stream, n)?, unwritten::<T>(stream, 1)?);
    let gradients =
        Gradients::new().seed("loss", &g).into_buffer("x", &mut gx).into_buffer("loss", &mut gloss);
    ops.energy.vjp(stream, threads(n), (&x, NotSaved, n as u32), gradients)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        t.watch(&loss)?;
        t.launch(&ops.energy, threads(n), (&x, &mut loss, n as u32))
    })?;
    tape.backward_with(stream, &Seeds::new().with(&loss, &g)?)?;
    same(stream, &gx, &of_tape(&tape, stream, &x)?)?;
    ensure_eq!(gloss.to_vec(stream)?, of_tape(&tape, stream, &loss)?);
    Ok(())
}

/// `power`, whose adjoint takes scratch memory, and `series`, whose primal keeps what its adjoint reads.
fn one_input<T: Number>(stream: &Stream, ops: &Ops, rng: &mut Rng, n: usize) -> TestResult {
    let hx = eighths::<T>(rng, n);
    let (x, g) = (buffer(stream, &hx)?, buffer(stream, &eighths::<T>(rng, n))?);
    for op in [&ops.power, &ops.series] {
        let mut gx = unwritten::<T>(stream, n)?;
        let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
        op.vjp(stream, threads(n), (&x, NotSaved, n as u32), gradients)?;
        by_tape(stream, op, &x, &g, &gx)?;
        // An output that is passed is not written.
        let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
        let mut gx = unwritten::<T>(stream, n)?;
        let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx);
        op.vjp(stream, threads(n), (&x, &mut out, n as u32), gradients)?;
        by_tape(stream, op, &x, &g, &gx)?;
        ensure_eq!(out.to_vec(stream)?, vec![T::of(0.0); n]);
    }
    Ok(())
}

/// Compares a gradient with that of a tape, for an operation `(x, out, n)`.
fn by_tape<T: Number>(
    stream: &Stream,
    op: &Op,
    x: &DeviceBuffer<T>,
    g: &DeviceBuffer<T>,
    gx: &DeviceBuffer<T>,
) -> TestResult {
    let n = x.len();
    if n == 0 {
        return Ok(());
    }
    let mut out = DeviceBuffer::<T>::zeroed(stream, n)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(x)?;
        t.launch(op, threads(n), (x, &mut out, n as u32))
    })?;
    tape.backward_with(stream, &Seeds::new().with(&out, g)?)?;
    same(stream, gx, &of_tape(&tape, stream, x)?)
}

/// Sums that are not exact have the bits of a deterministic tape.
fn deterministic<T: Number>(device: &TestDevice) -> TestResult {
    const N: usize = 500;
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let mut rng = device.rng(2511);
    let [x, g] = [10, N].map(|n| buffer(&stream, &super::ops::numbers::<T>(&mut rng, n)));
    let (x, g) = (x?, g?);
    let index: Vec<u32> = (0..N).map(|_| rng.below(10) as u32).collect();
    let index = buffer(&stream, &index)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::new(&stream)?;
    tape.set_deterministic(true);
    tape.record_again(&stream, |t| {
        t.watch(&x)?;
        t.launch(&ops.gather, threads(N), (&x, &index, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &g)?)?;
    let wanted = of_tape(&tape, &stream, &x)?;
    for _ in 0..3 {
        let mut gx = unwritten::<T>(&stream, 10)?;
        let gradients = Gradients::new().seed("out", &g).into_buffer("x", &mut gx).deterministic();
        ops.gather.vjp(&stream, threads(N), (&x, &index, NotSaved, N as u32), gradients)?;
        same(&stream, &gx, &wanted)?;
    }
    // A number's partial sums go by the log, too.
    let x = buffer(&stream, &super::ops::numbers::<T>(&mut rng, N))?;
    let a = Variable::new(&stream, T::of(0.3))?;
    tape.record_again(&stream, |t| {
        t.watch(&a)?;
        t.launch(&ops.scale, threads(N), (&a, &x, &mut out, N as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &g)?)?;
    let wanted = tape.gradient(&a)?.to_vec(&stream)?;
    let mut ga = unwritten::<T>(&stream, 1)?;
    let gradients = Gradients::new().seed("out", &g).into_buffer("a", &mut ga).deterministic();
    ops.scale.vjp(&stream, threads(N), (&a, &x, NotSaved, N as u32), gradients)?;
    same(&stream, &ga, &wanted)
}

/// Without a setting a call repeats what had too little memory; with one it does not wait, and gives NaNs.
fn scratch<T: Number, A: Adjoints>(device: &TestDevice) -> TestResult {
    const N: usize = 3000;
    let (stream, ops) = (device.stream()?, A::ops::<T>(device)?);
    let mut rng = device.rng(2512);
    let (x, g) = (
        buffer(&stream, &eighths::<T>(&mut rng, N))?,
        buffer(&stream, &eighths::<T>(&mut rng, N))?,
    );
    let call = |bytes: Option<usize>| -> Result<[Vec<T>; 2]> {
        let (mut gx, mut ga) = (unwritten::<T>(&stream, N)?, unwritten::<T>(&stream, 1)?);
        let gradients =
            Gradients::new().seed("out", &g).into_buffer("x", &mut gx).into_buffer("a", &mut ga);
        let gradients = match bytes {
            Some(bytes) => gradients.scratch_bytes(bytes),
            None => gradients,
        };
        ops.power_times.vjp(
            &stream,
            threads(N),
            (T::of(0.5), &x, NotSaved, N as u32),
            gradients,
        )?;
        Ok([gx.to_vec(&stream)?, ga.to_vec(&stream)?])
    };
    let wanted = call(None)?;
    ensure!(wanted.iter().flatten().all(|g| !g.to().is_nan()), "a gradient is NaN");
    ensure_eq!(call(Some(1 << 20))?, wanted);
    for bytes in [0, 1, 1000] {
        let got = call(Some(bytes))?;
        ensure!(got.iter().flatten().all(|g| g.to().is_nan()), "{bytes} bytes are enough");
    }
    Ok(())
}

/// A gradient's elements, whatever their type.
fn elements<T: Differentiable<Gradient = T> + Pod>(
    stream: &Stream,
    gradient: &DeviceBuffer<T>,
) -> Result<Vec<f32>> {
    let view = gradient.as_slice().cast::<f32>()?;
    view.to_vec(stream)
}
