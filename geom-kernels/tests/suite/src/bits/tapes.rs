//! Tapes by themselves: chains of launches, copies and fills, custom operations, graphs.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use tape::check::differences;
use tape::{Adjoint, CustomOp, Handle, Op, Primal, Recorder, Seeds, Tape, Variable};

use super::book::Book;
use super::calls::{self, Got, Lab, Plain};
use super::gradients::{By, own, passes, shared};
use super::inputs::{SIZES, rng};
use crate::ops::{Number, Ops, SOURCE, Table, numbers, threads};
use test_harness::{TestDevice, TestResult};

pub(super) fn f32s(device: &TestDevice, book: &mut Book) -> TestResult {
    all::<f32>(device, book)
}

pub(super) fn f64s(device: &TestDevice, book: &mut Book) -> TestResult {
    all::<f64>(device, book)
}

fn all<T: Number>(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let module = calls::module(device, tape::program(SOURCE).name("ops.cu"))?;
    let ops = Ops::in_module::<T>(&module)?;
    for n in SIZES.into_iter().skip(1).chain([300]) {
        chain::<T>(&lab, book, &ops, n)?;
    }
    alone::<T>(&lab, book, &ops)?;
    checkpoint::<T>(&lab, book, &ops)?;
    graph::<T>(device, &lab, book, &ops)?;
    jacobians::<T>(&lab, book, &ops)
}

fn is_wide<T>() -> bool {
    size_of::<T>() == 8
}

/// The memory of a chain.
struct State<T: Number> {
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    parts: [DeviceBuffer<T>; 5],
    index: DeviceBuffer<u32>,
    a: Variable<T>,
}

impl<T: Number> State<T> {
    fn new(lab: &Lab, n: usize) -> Got<Self> {
        let mut rng = rng(800);
        let (x, y) = (lab.up(&numbers::<T>(&mut rng, n))?, lab.up(&numbers::<T>(&mut rng, n))?);
        let index: Vec<u32> = (0..n).map(|_| rng.below(n) as u32).collect();
        let part = || calls::output::<T>(lab, n);
        Ok(Self {
            x,
            y,
            parts: [part()?, part()?, part()?, part()?, part()?],
            index: lab.up(&index)?,
            a: Variable::new(&lab.stream, T::of(0.625))?,
        })
    }

    /// Every operation, whole and in parts, in place and not. The result is part 4.
    fn run(&mut self, t: &mut Recorder<'_>, ops: &Ops, n: usize) -> cuda_safe::Result<()> {
        let Self { x, y, parts: [p, q, r, s, out], index, a } = self;
        let (all, count) = (threads(n), n as u32);
        t.launch(&ops.scale, all, (&*a, &*x, &mut *p, count))?;
        t.launch(&ops.multiply, all, (&*p, &*y, &mut *q, count))?;
        t.launch(&ops.bend, all, (&mut *q, count))?;
        t.scope("gathers", |t| {
            t.launch(&ops.gather, all, (&*q, &*index, &mut *r, count))?;
            t.launch(&ops.power, all, (&*r, &mut *s, count))
        })?;
        t.launch(&ops.power_times, all, (&*a, &*s, &mut *p, count))?;
        t.launch(&ops.square_add, all, (&*p, &mut *q, count))?;
        t.launch(&ops.split, all, (&*q, &mut *r, &mut *s, count))?;
        t.launch(&ops.times, all, (&*r, &mut *s, count))?;
        t.copy(s.slice(..n / 2)?, p.slice_mut(n - n / 2..)?)?;
        t.launch(&ops.multiply_shared, all, (&*p, &*p, &mut *q, count))?;
        t.launch(&ops.series, all, (&*q, &mut *r, count))?;
        t.fill(s.slice_mut(..n / 3)?, T::of(0.25))?;
        t.launch(&ops.look_up, all, (&Table(s.as_slice()), &mut *p, count))?;
        t.launch(&ops.multiply, all, (&*p, &*r, &mut *out, count))?;
        t.launch(&ops.scale.detach("x")?, all, (&*a, &*y, &mut *q, count))?;
        t.launch(&ops.multiply, all, (&*out, &*q, &mut *r, count))?;
        t.copy(&*r, &mut *out)
    }
}

fn chain<T: Number + Plain>(lab: &Lab, book: &mut Book, ops: &Ops, n: usize) -> TestResult {
    let seeds = numbers::<T>(&mut rng(801), n);
    let wide = is_wide::<T>();
    let mut pass = |deterministic: bool| -> Got<Vec<By>> {
        let mut state = State::<T>::new(lab, n)?;
        // The names of `Variable` and buffers go through one call.
        let mut tape = Tape::new(&lab.stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&lab.stream, |t| {
            t.watch(&state.x)?;
            t.watch(&state.y)?;
            t.watch(&state.a)?;
            state.run(t, ops, n)
        })?;
        let [.., out] = &state.parts;
        if deterministic {
            book.put(format!("chain_{n}/result"), &lab.down(out)?);
        }
        let mut found = Vec::new();
        // Twice the same pass.
        for [x, y, a] in [["x", "y", "a"], ["x_again", "y_again", "a_again"]] {
            calls::backward_from(lab, &mut tape, out, &seeds)?;
            found.push(shared(x, calls::gradient(lab, &tape, &state.x)?).wide(wide));
            found.push(shared(y, calls::gradient(lab, &tape, &state.y)?).wide(wide));
            found.push(shared(a, calls::gradient(lab, &tape, &state.a)?).wide(wide));
        }
        Ok(found)
    };
    let both = [pass(true)?, pass(false)?];
    passes(book, &format!("chain_{n}"), both)
}

/// Steps that only one thread adds to, what is stopped, and a loss that atomics add.
fn alone<T: Number + Plain>(lab: &Lab, book: &mut Book, ops: &Ops) -> TestResult {
    const N: usize = 100;
    let mut rng = rng(810);
    let x = lab.up(&numbers::<T>(&mut rng, N))?;
    let z = lab.up(&numbers::<T>(&mut rng, N))?;
    let wide = is_wide::<T>();
    let mut pass = |deterministic: bool| -> Got<Vec<By>> {
        let (mut y, mut w) = (calls::output::<T>(lab, N)?, calls::output::<T>(lab, N)?);
        let mut loss = lab.up(&[T::of(0.0)])?;
        let mut tape = calls::recorded(lab, deterministic, |t| {
            t.watch(&x)?;
            t.watch(&z)?;
            t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
            t.launch(&ops.scale, threads(N), (T::of(-2.0), &z, &mut w, N as u32))?;
            t.launch(&ops.times, threads(N), (&y, &mut w, N as u32))?;
            t.stop_gradient(&y)?;
            t.launch(&ops.times, threads(N), (&y, &mut w, N as u32))?;
            t.launch(&ops.energy, threads(N), (&w, &mut loss, N as u32))
        })?;
        calls::backward(lab, &mut tape, &loss)?;
        if deterministic {
            book.put("alone/result", &lab.down(&w)?);
        }
        Ok(vec![
            own("x", calls::gradient(lab, &tape, &x)?).wide(wide),
            own("z", calls::gradient(lab, &tape, &z)?).wide(wide),
        ])
    };
    let both = [pass(true)?, pass(false)?];
    passes(book, "alone", both)?;
    // From two outputs at once.
    let (mut y, mut w) = (calls::output::<T>(lab, N)?, calls::output::<T>(lab, N)?);
    let mut tape = calls::recorded(lab, false, |t| {
        t.watch(&x)?;
        t.launch(&ops.scale, threads(N), (T::of(3.0), &x, &mut y, N as u32))?;
        t.launch(&ops.multiply, threads(N), (&x, &y, &mut w, N as u32))
    })?;
    let given = [lab.up(&numbers::<T>(&mut rng, N))?, lab.up(&numbers::<T>(&mut rng, N))?];
    let seeds = Seeds::new().with(&y, &given[0])?.with(&w, &given[1])?;
    tape.backward_with(&lab.stream, &seeds)?;
    book.put("two_outputs/by_x", &calls::gradient(lab, &tape, &x)?);
    Ok(())
}

const BENT: usize = 60;

/// An operation that keeps where it began, and records again on a tape of its own.
struct Checkpoint<T> {
    bend: Op,
    x: Handle<T>,
    out: Handle<T>,
}

impl<T: Number> CustomOp for Checkpoint<T> {
    fn name(&self) -> &str {
        "checkpoint"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let stream = pass.stream().clone();
        let mut y = DeviceBuffer::<T>::zeroed(&stream, BENT)?;
        pass.value(self.x)?.copy_to(&stream, &mut y)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&y)?;
            (0..5).try_for_each(|_| t.launch(&self.bend, threads(BENT), (&mut y, BENT as u32)))
        })?;
        let Some(given) = pass.gradient(self.out)?.as_slice()? else { return Ok(()) };
        tape.backward_with(&stream, &Seeds::new().with(&y, given)?)?;
        match pass.gradient_mut(self.x)? {
            Some(mut gx) => gx.copy_from(&stream, tape.gradient(&y)?),
            None => Ok(()),
        }
    }
}

fn checkpoint<T: Number + Plain>(lab: &Lab, book: &mut Book, ops: &Ops) -> TestResult {
    let mut x = lab.up(&numbers::<T>(&mut rng(820), BENT))?;
    let mut out = calls::output::<T>(lab, BENT)?;
    let bend = ops.bend.kernel().clone();
    let mut tape = calls::recorded(lab, false, |t| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let op = Checkpoint {
            bend: ops.bend.clone(),
            x: custom.reads(&x, Primal::Entry)?,
            out: custom.overwrites(&out, Primal::None)?,
        };
        custom.run(op, |stream| {
            out.copy_from(stream, &x)?;
            (0..5).try_for_each(|_| {
                // SAFETY: thread i updates element i, of as many as there are.
                unsafe {
                    bend.launch(stream, LaunchConfig::cover(BENT, 32), (&mut out, BENT as u32))
                }
            })
        })?;
        // What it has read is overwritten, so it was copied.
        t.fill(&mut x, T::of(0.0))
    })?;
    book.put("checkpoint/result", &lab.down(&out)?);
    calls::backward_from(lab, &mut tape, &out, &numbers::<T>(&mut rng(821), BENT))?;
    book.put("checkpoint/by_x", &calls::gradient(lab, &tape, &x)?);
    Ok(())
}

/// A recording and its pass in one graph, launched with new numbers.
fn graph<T: Number + Plain>(
    device: &TestDevice,
    lab: &Lab,
    book: &mut Book,
    ops: &Ops,
) -> TestResult {
    const N: usize = 200;
    struct Captured<T: Number> {
        state: State<T>,
        seeds: DeviceBuffer<T>,
        tape: Tape,
    }
    let mut tape = Tape::new(&lab.stream)?;
    tape.set_deterministic(true);
    let seeds = lab.up(&numbers::<T>(&mut rng(830), N))?;
    let mut captured = Captured { state: State::<T>::new(lab, N)?, seeds, tape };
    let record = |stream: &Stream, all: &mut Captured<T>| {
        let Captured { state, seeds, tape } = all;
        tape.record_again(stream, |t| {
            t.watch(&state.x)?;
            t.watch(&state.a)?;
            state.run(t, ops, N)
        })?;
        let [.., out] = &state.parts;
        tape.backward_with(stream, &Seeds::new().with(out, &*seeds)?)
    };
    // Once before it is captured: a primal counts what it keeps.
    record(&lab.stream, &mut captured)?;
    let mut graph = device.context().capture(captured, record)?;
    let mut rng = rng(831);
    for launch in 0..3 {
        graph.state_mut().state.x.upload(&lab.stream, &numbers::<T>(&mut rng, N))?;
        graph.launch(&lab.stream)?;
        let Captured { state, tape, .. } = graph.state();
        let [.., out] = &state.parts;
        book.put(format!("graph/{launch}/result"), &lab.down(out)?);
        book.put(format!("graph/{launch}/by_x"), &calls::gradient(lab, tape, &state.x)?);
        book.put(format!("graph/{launch}/by_a"), &calls::gradient(lab, tape, &state.a)?);
    }
    Ok(graph.state_mut().tape.check(&lab.stream)?)
}

fn jacobians<T: Number + Plain>(lab: &Lab, book: &mut Book, ops: &Ops) -> TestResult {
    const N: usize = 12;
    let mut x = lab.up(&numbers::<T>(&mut rng(840), N))?;
    let index: Vec<u32> = (0..N as u32).map(|i| i * 5 % 7).collect();
    let index = lab.up(&index)?;
    let mut out = calls::output::<T>(lab, N)?;
    let mut squares = calls::output::<T>(lab, N)?;
    let mut run = |t: &mut Recorder<'_>, x: &DeviceBuffer<T>, out: &mut DeviceBuffer<T>| {
        t.watch(x)?;
        t.launch(&ops.multiply, threads(N), (x, x, &mut squares, N as u32))?;
        t.launch(&ops.gather, threads(N), (&squares, &index, out, N as u32))
    };
    let mut tape = calls::recorded(lab, true, |t| run(t, &x, &mut out))?;
    book.put("jacobian", &calls::jacobian(lab, &mut tape, &x, &out)?);
    let found = differences(&lab.stream, &mut x, 1.0 / 1024.0, |x| {
        Tape::record(&lab.stream, |t| run(t, x, &mut out))?;
        Ok(out.to_vec(&lab.stream)?.into_iter().map(T::to).collect())
    })?;
    let found: Vec<f64> = found.rows().flatten().copied().collect();
    book.put("differences", &found);
    Ok(())
}
