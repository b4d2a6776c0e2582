//! `tape`, and what `geom_kernels` records on one.

use cuda_safe::{DeviceBuffer, DeviceSlice, Module};
use nvrtc::{Options, Program};
use tape::{Differentiable, Recorder, Seeds, Tape, Watched};

use super::{Got, Lab, Plain};
use test_harness::TestDevice;

/// A recording.
pub(in super::super) fn recorded(
    lab: &Lab,
    deterministic: bool,
    record: impl FnOnce(&mut Recorder<'_>) -> cuda_safe::Result<()>,
) -> Got<Tape> {
    let mut tape = Tape::new(&lab.stream)?;
    tape.set_deterministic(deterministic);
    tape.record_again(&lab.stream, record)?;
    Ok(tape)
}

/// A pass from one number.
pub(in super::super) fn backward<'a, T: Differentiable>(
    lab: &Lab,
    tape: &mut Tape,
    loss: impl Watched<'a, T>,
) -> Got<()> {
    Ok(tape.backward(&lab.stream, loss)?)
}

/// A pass from given gradients of an output.
pub(in super::super) fn backward_from<'a, T: Differentiable>(
    lab: &Lab,
    tape: &mut Tape,
    output: impl Watched<'a, T>,
    seeds: &[T::Gradient],
) -> Got<()>
where
    T::Gradient: Plain,
{
    let seeds = lab.up(seeds)?;
    Ok(tape.backward_with(&lab.stream, &Seeds::new().with(output, &seeds)?)?)
}

/// The gradient by something, as bytes.
pub(in super::super) fn gradient<'a, T: Differentiable>(
    lab: &Lab,
    tape: &Tape,
    what: impl Watched<'a, T>,
) -> Got<Vec<u8>>
where
    T::Gradient: Plain,
{
    let slice: DeviceSlice<'_, T::Gradient> = tape.gradient(what)?;
    Ok(bytemuck::cast_slice(&lab.down(slice)?).to_vec())
}

/// Memory for results of recorded calls.
pub(in super::super) fn output<T: Plain>(lab: &Lab, n: usize) -> Got<DeviceBuffer<T>> {
    lab.room(n)
}

/// A module of the tests' own kernels, compiled without contraction.
pub(in super::super) fn module(device: &TestDevice, program: Program) -> Got<Module> {
    let program = program.options(Options::new().fmad(false));
    Ok(Module::compile(device.context(), program)?)
}

/// The derivatives of every element of the output by every one of the input.
pub(in super::super) fn jacobian<T: Differentiable, U: Differentiable>(
    lab: &Lab,
    tape: &mut Tape,
    input: &DeviceBuffer<T>,
    output: &DeviceBuffer<U>,
) -> Got<Vec<f64>> {
    let found = tape::check::jacobian(tape, &lab.stream, input, output)?;
    Ok(found.rows().flatten().copied().collect())
}
