//! Passes in graphs over recordings that have not run, in whole or in part: nothing is followed that nobody wrote.

use cuda_safe::{Context, DeviceBuffer, Stream};
use geom_kernels::isosurface::{Counts, DenseField, Map, MarchingCubes, Output};
use geom_kernels::volume::{DenseOptions, Interpolation, Samples, Volume, VolumeOptions};
use tape::{Adjoint, CustomOp, Primal, Recorder, Seeds, Tape};

use super::awkward::refused;
use super::basics::{close, tolerance};
use super::ops::{Number, Ops, numbers, threads};
use geom_kernels::GeometryKernels;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::unwritten",
        device(copies_of_a_volume),
        device(edges_of_a_surface),
        device(primals = primals::<f32>),
        device(bodies_that_are_skipped = bodies::<f64>),
        device(nodes_that_adjoints_rely_on = nodes::<f32>),
    ]
}

const N: usize = 64;
const NEVER: &str = "in a graph that had not been launched";

/// An operation that only says what it uses.
struct Nothing;

impl CustomOp for Nothing {
    fn name(&self) -> &str {
        "nothing"
    }

    fn backward(&mut self, _: &mut Adjoint<'_>) -> cuda_safe::Result<()> {
        Ok(())
    }
}

/// What records in `forward`'s graph, and what goes back in that of `backward`.
struct Graphs<'a> {
    context: &'a Context,
    stream: &'a Stream,
}

impl Graphs<'_> {
    /// Goes back without the graph of the recording, and with it.
    fn check<T: Number>(
        &self,
        mut record: impl FnMut(&mut Recorder<'_>) -> cuda_safe::Result<()>,
        mut pass: impl FnMut(&mut Tape, &Stream) -> cuda_safe::Result<()>,
        gradient: impl Fn(&Tape) -> cuda_safe::Result<Vec<T>>,
    ) -> TestResult {
        let Self { context, stream } = *self;
        // Loads the kernels, which a capture can't, and tells what is right.
        let mut tape = Tape::record(stream, |t| record(t))?;
        pass(&mut tape, stream)?;
        let wanted = gradient(&tape)?;
        ensure!(wanted.iter().any(|g| g.to() != 0.0), "the gradient is zero");
        for launched in [false, true] {
            let state = Some(Tape::new(stream)?);
            let mut forward = context.capture(state, |stream, state| match state {
                Some(tape) => tape.record_again(stream, |t| record(t)),
                None => Ok(()),
            })?;
            let Some(tape) = forward.state_mut().take() else { return Ok(()) };
            let mut backward = context.capture(tape, |stream, tape| pass(tape, stream))?;
            if launched {
                forward.launch(stream)?;
            }
            drop(forward);
            backward.launch(stream)?;
            stream.synchronize()?;
            let checked = backward.state_mut().check(stream);
            if launched {
                checked?;
                first_difference(&gradient(backward.state())?, &wanted)?;
            } else {
                refused(checked, NEVER)?;
                // It is reported once; the next launch is reported again.
                backward.state_mut().check(stream)?;
                backward.launch(stream)?;
                refused(backward.state_mut().check(stream), NEVER)?;
            }
        }
        Ok(())
    }
}

fn copies_of_a_volume(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let options = VolumeOptions::new(0.5f32).map(Map::uniform(1.0, [0.0; 3]).map_err(told)?);
    let dense = DenseOptions::new(options);
    let volume =
        Volume::from_fn(&stream, &device.shared(GeometryKernels::new), [16; 3], dense, |p| {
            p[0] as f32
        })?;
    let points = DeviceBuffer::from_slice(&stream, &[[1.5f32, 2.5, 3.5]; N])?;
    let samples = Samples::index(&points);
    let values = std::cell::RefCell::new(DeviceBuffer::<f32>::zeroed(&stream, N)?);
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; N])?;
    let graphs = Graphs { context: device.context(), stream: &stream };
    graphs.check::<f32>(
        |t| {
            t.watch(&points)?;
            let mut values = values.borrow_mut();
            volume.record_sample(t, &samples, Interpolation::Trilinear, &mut *values)?;
            // Says that it writes to the volume: the tape keeps a copy of it for the sample's adjoint.
            let mut custom = t.custom();
            custom.overwrites_inactive(volume.variables::<f32>()?, Primal::None)?;
            custom.run(Nothing, |_| Ok(()))
        },
        |tape, stream| tape.backward_with(stream, &Seeds::new().with(&*values.borrow(), &seeds)?),
        |tape| Ok(tape.gradient(&points)?.to_vec(&stream)?.concat()),
    )
}

fn told(error: impl std::fmt::Display) -> Failure {
    Failure::new(error.to_string())
}

fn edges_of_a_surface(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let marching = MarchingCubes::new(&device.shared(GeometryKernels::new));
    // The last word of a row is not full.
    let host: Vec<f32> = (0..360).map(|i| if i % 7 < 3 { -1.0 } else { 1.0 }).collect();
    let numbers = DeviceBuffer::from_slice(&stream, &host)?;
    let field = DenseField::new(&numbers, [3, 3, 40], Map::default())?;
    let surface = std::cell::RefCell::new((
        DeviceBuffer::<[f32; 3]>::zeroed(&stream, 4096)?,
        DeviceBuffer::<[u32; 3]>::zeroed(&stream, 4096)?,
        DeviceBuffer::<Counts>::zeroed(&stream, 1)?,
    ));
    let seeds = DeviceBuffer::from_slice(&stream, &vec![[1.0f32; 3]; 4096])?;
    let graphs = Graphs { context: device.context(), stream: &stream };
    graphs.check::<f32>(
        |t| {
            t.watch(&numbers)?;
            let (vertices, faces, counts) = &mut *surface.borrow_mut();
            let output = Output::new(&mut *vertices, &mut *faces, &mut *counts);
            marching.record_extract_into(t, &field, 0.0, output)
        },
        |tape, stream| tape.backward_with(stream, &Seeds::new().with(&surface.borrow().0, &seeds)?),
        |tape| tape.gradient(&numbers)?.to_vec(&stream),
    )
}

/// The adjoint reads what its primal has left, and adds a number to a variable's partial sums.
fn primals<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(931), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let outputs = std::cell::RefCell::new((
        DeviceBuffer::<T>::zeroed(&stream, N)?,
        DeviceBuffer::<T>::zeroed(&stream, 1)?,
    ));
    let n = N as u32;
    // How much memory the primal takes is known from a recording that is not captured.
    let mut tape = Tape::new(&stream)?;
    let record = |t: &mut Recorder<'_>| {
        let (y, loss) = &mut *outputs.borrow_mut();
        t.watch(&x)?;
        t.fill(&mut *loss, T::of(0.0))?;
        t.launch(&ops.series, threads(N), (&x, &mut *y, n))?;
        t.launch(&ops.energy, threads(N), (&*y, &mut *loss, n))
    };
    tape.record_again(&stream, |t| record(t))?;
    tape.backward(&stream, &outputs.borrow().1)?;
    let wanted = tape.gradient(&x)?.to_vec(&stream)?;
    for launched in [false, true] {
        let mut forward = device.context().capture(Some(tape), |stream, state| match state {
            Some(tape) => tape.record_again(stream, |t| record(t)),
            None => Ok(()),
        })?;
        let Some(state) = forward.state_mut().take() else { return Ok(()) };
        let mut backward = device
            .context()
            .capture(state, |stream, tape| tape.backward(stream, &outputs.borrow().1))?;
        if launched {
            forward.launch(&stream)?;
        }
        drop(forward);
        backward.launch(&stream)?;
        let checked = backward.state_mut().check(&stream);
        if launched {
            checked?;
            let got = backward.state().gradient(&x)?.to_vec(&stream)?;
            return close(
                &got,
                &wanted.iter().map(|g| g.to()).collect::<Vec<_>>(),
                tolerance::<T>(),
            );
        }
        refused(checked, NEVER)?;
        tape = backward.into_state();
        tape.record_again(&stream, |t| record(t))?;
    }
    Ok(())
}

/// A graph was launched, and has left out the body in which a recording is.
fn bodies<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let host: Vec<T> = numbers(&mut device.rng(932), N);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let zeros = || DeviceBuffer::<T>::zeroed(&stream, N);
    let outputs = std::cell::RefCell::new((zeros()?, zeros()?));
    let ones = DeviceBuffer::from_slice(&stream, &[T::of(1.0); N])?;
    let (state, n) =
        ((Some(Tape::new(&stream)?), DeviceBuffer::from_slice(&stream, &[0u32])?), N as u32);
    let captured = device.context().capture(state, |stream, (tape, flag)| {
        stream.record_if(&*flag, |body| {
            let (y, z) = &mut *outputs.borrow_mut();
            let Some(tape) = tape else { return Ok(()) };
            tape.record_again(body, |t| {
                t.watch(&x)?;
                t.copy(&x, &mut *y)?;
                t.launch(&ops.multiply, threads(N), (&*y, &x, &mut *z, n))?;
                // So its adjoint reads a copy.
                t.fill(&mut *y, T::of(0.0))
            })
        })
    });
    let mut forward = match captured {
        Ok(forward) => forward,
        Err(error) => {
            // Drivers before 12.4 have no such nodes.
            ensure!(error.to_string().contains("12.4"), "{error}");
            return Ok(());
        }
    };
    let Some(tape) = forward.state_mut().0.take() else { return Ok(()) };
    // The node stands for all that its body writes, as something that is not recorded. The first launch leaves
    // the body out, the second does not.
    let pass = |stream: &Stream, tape: &mut Tape| {
        tape.backward_with(stream, &Seeds::new().with(&outputs.borrow().1, &ones)?)
    };
    let mut tape = Some(tape);
    for flag in [0, 1] {
        forward.state_mut().1.upload(&stream, &[flag])?;
        forward.launch(&stream)?;
        let Some(mut recorded) = tape.take() else { return Ok(()) };
        refused(pass(&stream, &mut recorded), "was written since")?;
        let captured = device.context().capture((), |stream, ()| pass(stream, &mut recorded));
        refused(captured.map(drop), "was written since")?;
        tape = Some(recorded);
    }
    Ok(())
}

/// A node that a recording relies on can't be changed by `GraphExec::update`: it can't be named.
fn nodes<T: Number>(device: &TestDevice) -> TestResult {
    let (stream, ops) = (device.stream()?, Ops::of::<T>(device)?);
    let x = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut y = DeviceBuffer::<T>::zeroed(&stream, N)?;
    let mut tape = Tape::new(&stream)?;
    let (two, n) = (T::of(2.0), N as u32);
    device.context().capture((), |stream, ()| {
        tape.record_again(stream, |t| {
            t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
            // No gradient comes through this one.
            t.stream().last_node()?;
            t.watch(&x)?;
            t.launch(&ops.scale, threads(N), (two, &x, &mut y, n))?;
            match t.stream().last_node() {
                Ok(_) => Err(cuda_safe::Error::invalid("the launch was named")),
                Err(_) => Ok(()),
            }
        })
    })?;
    Ok(())
}
