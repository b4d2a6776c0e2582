//! Passes that do not come to their end, or that other threads' graphs would come into: what they leave
//! behind is no part of what follows.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use cuda_safe::{DeviceBuffer, Kernel, Module, Stream};
use tape::{Adjoint, CustomOp, Handle, Op, Param, Primal, Recorder, Seeds, Tape, Variable};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, module, numbers, register, spec, threads};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::unfinished",
        device(a_panic_leaves_no_summands = panics::<f32>),
        device(sums_that_graphs_go_on_using = dirty_sums::<f32>),
        device(graphs_of_another_thread = other_thread::<f64>),
    ]
}

const N: usize = 60;

/// out = x[index], which panics when its kernel was launched, if its flag is set.
struct Gather<T> {
    kernel: Kernel,
    x: Handle<T>,
    index: Handle<u32>,
    out: Handle<T>,
    panics: bool,
}

impl<T: Number> CustomOp for Gather<T> {
    fn name(&self) -> &str {
        "gather"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        let index = pass.value(self.index)?;
        let (gx, gout) = (pass.gradient(self.x)?, pass.gradient(self.out)?);
        let n = index.len() as u32;
        // The kernel's own parameters, which its adjoint does not look at, are null.
        let args = (0u64, index, 0u64, n, gx, gout, pass.frame());
        // SAFETY: thread i reads element i of the index and of the output's gradient, and adds to an element
        // of the input's that the index names, of which there are as many.
        unsafe { self.kernel.launch(pass.stream(), threads(n as usize), args) }?;
        if self.panics {
            resume_unwind(Box::new("as it was told"));
        }
        Ok(())
    }

    fn summands(&self) -> Option<usize> {
        Some(4 * N)
    }
}

/// The log of a deterministic tape has addresses of gradients in it when an adjoint panics. The next pass,
/// or the next recording, must not find them there.
fn panics<T: Number>(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = module(device)?.kernel(&format!("gather_{}_adjoint", T::SUFFIX))?;
    let index = DeviceBuffer::from_slice(&stream, &[0u32; N])?;
    let x = DeviceBuffer::<T>::zeroed(&stream, 1)?;
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); 2 * N])?;
    let record = |t: &mut Recorder<'_>, y: &DeviceBuffer<T>, panics| {
        t.watch(&x)?;
        let mut custom = t.custom();
        let op = Gather {
            kernel: kernel.clone(),
            x: custom.reads(&x, Primal::None)?,
            index: custom.reads_inactive(&index, Primal::Entry)?,
            out: custom.overwrites(y, Primal::None)?,
            panics,
        };
        // Nobody looks at the output.
        custom.run(op, |_| Ok(()))
    };
    for forgotten in [false, true] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(true);
        // Of other sizes, so that the gradients lie elsewhere the second time.
        for (panics, size) in [(true, N), (false, 2 * N)] {
            let y = DeviceBuffer::<T>::zeroed(&stream, size)?;
            tape.record_again(&stream, |t| record(t, &y, panics))?;
            let seeds = Seeds::new().with(&y, ones.slice(..size)?)?;
            let pass = AssertUnwindSafe(|| tape.backward_with(&stream, &seeds));
            match catch_unwind(pass) {
                Ok(done) => {
                    done?;
                    ensure!(!panics, "no panic came through");
                }
                Err(_) => ensure!(panics, "a panic of its own"),
            }
            if panics && forgotten {
                tape.reset();
            }
        }
        close(&tape.gradient(&x)?.to_vec(&stream)?, &[N as f64], 0.0)?;
    }
    Ok(())
}

const RAISES: &str = r#"
    #include <geom/tape.cuh>
    using namespace geom::tape;
    extern "C" __global__ void scale_f32(float a, const float* x, float* out, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = a * x[i];
    }
    // As it should be; and says afterwards that something was wrong.
    extern "C" __global__ void scale_f32_adjoint(
        float a, const float* x, float*, unsigned n, float* ga, float* gx, float* gout, Frame frame
    ) {
        if (!begin(frame)) return;
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        float g = i < n ? grad_take(frame, 2, at(gout, i)) : 0.0f;
        if (i < n) grad_own(frame, 1, at(gx, i), a * g);
        partial_add(frame, ga, i < n ? x[i] * g : 0.0f);
        raise(frame, 100, 1024);
    }"#;

/// A number times a vector, and its energy; `op` may be another than the ops'.
struct State<T> {
    a: Variable<T>,
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    loss: DeviceBuffer<T>,
    tape: Tape,
}

impl<T: Number> State<T> {
    fn new(stream: &Stream, host: &[T]) -> cuda_safe::Result<Self> {
        let x = DeviceBuffer::from_slice(stream, host)?;
        let zeros = |n| DeviceBuffer::<T>::zeroed(stream, n);
        let a = Variable::new(stream, T::of(0.5))?;
        Ok(Self { a, x, y: zeros(host.len())?, loss: zeros(1)?, tape: Tape::new(stream)? })
    }

    fn pass(&mut self, stream: &Stream, scale: &Op, ops: &Ops) -> cuda_safe::Result<()> {
        let Self { a, x, y, loss, tape } = self;
        let n = x.len();
        tape.record_again(stream, |t| {
            t.watch(&*a)?;
            t.launch(scale, threads(n), (&*a, &*x, &mut *y, n as u32))?;
            t.launch(&ops.energy, threads(n), (&*y, &mut *loss, n as u32))
        })?;
        tape.backward(stream, &*loss)
    }
}

/// An adjoint that gives up has left sums behind. A graph whose pass can't fail uses the same memory.
fn dirty_sums<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let module = Module::compile(device.context(), tape::program(RAISES).name("raises.cu"))?;
    let element = <T as Number>::ELEMENT;
    let params = vec![
        Param::scalar("a", element).active(),
        Param::buffer("x", element).reads(Primal::Entry).len("n").each_element().active(),
        Param::buffer("out", element).overwrites().len("n").each_element().active(),
        Param::value("n"),
    ];
    // There is a status, which says so.
    let raises = register(&module, spec::<T>("scale", params).scratch(|_| 0))?;
    let host: Vec<T> = numbers(&mut device.rng(921), N);
    let state = State::<T>::new(&stream, &host)?;
    let mut graph =
        device.context().capture(state, |stream, state| state.pass(stream, &ops.scale, &ops))?;
    let memory = {
        graph.launch(&stream)?;
        let State { a, tape, .. } = graph.state();
        let gradient = tape.gradient(a)?;
        (gradient.allocation().clone(), gradient.byte_range())
    };
    // SAFETY: the gradient, which nobody writes while it is looked at.
    let by_a = || unsafe { memory.0.view::<T>(memory.1.clone()) }?.to_vec(&stream);
    let wanted: f64 = host.iter().map(|x| x.to() * x.to()).sum();
    close(&by_a()?, &[wanted], tolerance::<T>())?;
    refused(graph.state_mut().pass(&stream, &raises, &ops), "raised the status 100")?;
    graph.launch(&stream)?;
    close(&by_a()?, &[wanted], tolerance::<T>())?;
    let state = graph.state_mut();
    state.pass(&stream, &ops.scale, &ops)?;
    close(&state.tape.gradient(&state.a)?.to_vec(&stream)?, &[wanted], tolerance::<T>())
}

/// Another thread launches a graph of the tape's that runs out of scratch memory. A pass says so, or is
/// right: it does not take the graph's troubles for its own.
fn other_thread<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let other = device.context().stream()?;
    let host: Vec<T> = numbers(&mut device.rng(922), N);
    let mut state = State::<T>::new(&stream, &host)?;
    state.tape.set_scratch_bytes(0);
    let mut graph = device.context().capture(Some(state), |stream, state| {
        state.as_mut().map_or(Ok(()), |state| state.pass(stream, &ops.power_times, &ops))
    })?;
    let Some(State { tape, .. }) = graph.state_mut().take() else { return Ok(()) };
    // With memory of its own, but for the tape's.
    let mut state = State { tape, ..State::new(&stream, &host)? };
    state.tape.set_scratch_bytes(None);
    let k = |i: usize| 1 + (i % 4) as i32;
    let wanted: f64 = host.iter().enumerate().map(|(i, x)| x.to().powi(2 * k(i))).sum();
    let over = AtomicBool::new(false);
    let rounds = if device.is_instrumented() { 5 } else { 60 };
    // So the first pass hears of it.
    graph.launch(&other)?;
    std::thread::scope(|scope| {
        let launches = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                graph.launch(&other)?;
                // One at a time: passes wait for all that were enqueued before.
                other.synchronize()?;
            }
            Ok::<_, cuda_safe::Error>(())
        });
        let mut passes = || {
            let mut right = 0;
            for _ in 0..rounds {
                match state.pass(&stream, &ops.power_times, &ops) {
                    Ok(()) => {
                        let State { a, tape, .. } = &state;
                        close(&tape.gradient(a)?.to_vec(&stream)?, &[wanted], tolerance::<T>())?;
                        right += 1;
                    }
                    Err(error) => refused::<()>(Err(error), "more than the captured pass has")?,
                }
            }
            ensure!(right < rounds, "the graph was never launched in between");
            Ok(())
        };
        let done = passes();
        over.store(true, Ordering::Relaxed);
        match launches.join() {
            Ok(launched) => launched?,
            Err(_) => return Err(Failure::new("the other thread has panicked")),
        }
        done
    })
}
