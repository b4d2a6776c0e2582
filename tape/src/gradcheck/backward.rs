//! Gradients of a launch, as a tape takes them.

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Result, arg::InspectArgs};

use super::numbers::{Field, Home, only};
use super::pass::Pass;
use super::rig::Rig;
use crate::element::FloatType;
use crate::record::Recorder;
use crate::seeds::{Seed, Seeds};
use crate::spec::Effect;
use crate::tape::Tape;

impl<A: InspectArgs> Rig<'_, A> {
    /// Returns the gradients of all inputs at a point for given gradients of the outputs: records the launch as a
    /// user does, and runs a pass. Waits.
    pub(super) fn backward(
        &mut self,
        point: &[f64],
        weights: &[f64],
        pass: &Pass,
    ) -> Result<Vec<f64>> {
        self.set(point)?;
        self.copies.iter_mut().filter(|copy| copy.written).for_each(|copy| copy.stale = true);
        if pass.overwrites {
            self.forget();
        }
        let seeds = self.seed_buffers(weights, pass)?;
        let stream = self.stream;
        let kept = if pass.deterministic { &mut self.deterministic } else { &mut self.tape };
        // A tape is kept for poisoned passes only: it reuses its memory, which holds NaN then.
        let mut tape = match kept.take().filter(|_| pass.poison) {
            Some(tape) => tape,
            None => Tape::new(stream)?,
        };
        tape.set_deterministic(pass.deterministic);
        tape.set_scratch_bytes(pass.scratch);
        tape.store.poisoned = Some(pass.poison);
        let done = self.record_and_go_back(&mut tape, &seeds, pass);
        let kept = if pass.deterministic { &mut self.deterministic } else { &mut self.tape };
        *kept = Some(tape);
        done
    }

    fn record_and_go_back(
        &mut self,
        tape: &mut Tape,
        seeds: &[Option<DeviceBuffer<u8>>],
        pass: &Pass,
    ) -> Result<Vec<f64>> {
        let stream = self.stream;
        // `used` holds old contents that were used, and `moved` holds outputs that were copied elsewhere.
        let mut used: Vec<DeviceBuffer<u8>> = Vec::new();
        let mut moved: Vec<Option<DeviceBuffer<u8>>> = Vec::new();
        let watched: Vec<usize> =
            (0..self.inputs.len()).filter(|at| pass.watches(*at, &self.inputs)).collect();
        tape.record_again(stream, |t| {
            for at in &watched {
                let Some(input) = self.inputs.get(*at) else { continue };
                let (buffer, range) = self.memory_of(input)?;
                t.watch_bytes(buffer.allocation(), range, input.element)?;
            }
            for at in &watched {
                let Some(input) = self.inputs.get(*at) else { continue };
                if input.effect == Effect::Overwrites {
                    used.push(self.use_first(t, input)?);
                }
            }
            t.launch(self.op, self.launch, self.rebound())?;
            if pass.overwrites {
                moved = self.overwrite(t)?;
            }
            Ok(())
        })?;
        let mut given = Seeds::new();
        for (field, seed) in self.outputs.iter().chain(&self.inputs).zip(seeds) {
            let Some(seed) = seed else { continue };
            let (buffer, range) = self.memory_of(field)?;
            let other = match field.home {
                Home::Memory(at) => moved.get(at).and_then(Option::as_ref),
                Home::Value(_) => None,
            };
            let output = other.unwrap_or(buffer).allocation().clone();
            if tape.is_active(&output, range.clone()) {
                let (real, gradient) = (field.element.real, seed.as_slice());
                given.seeds.push(Seed { output, range, real, gradient });
            }
        }
        let mut gradients = vec![0.0; self.point.len()];
        if given.seeds.is_empty() {
            return Ok(gradients);
        }
        let zeros = DeviceBuffer::<u8>::zeroed(stream, size_of::<f64>())?;
        for used in &used {
            let (output, range) = (used.allocation().clone(), used.byte_range());
            let real = tape.number_of(&output);
            let bytes = range.len() * real.map_or(1, FloatType::widening);
            let gradient = zeros.slice(..bytes)?;
            given.seeds.push(Seed { output, range, real, gradient });
        }
        tape.backward_with(stream, &given)?;
        for (watch, at) in watched.iter().enumerate() {
            let Some(input) = self.inputs.get(*at) else { continue };
            let Some(into) = gradients.get_mut(input.range()) else { continue };
            if let Some(image) = tape.gradient_bytes(stream, watch)? {
                input.read_gradient(&image, into);
            }
        }
        Ok(gradients)
    }

    /// Returns the outputs of the launch as it is recorded, which may be those of a primal. Waits.
    pub(super) fn recorded(&mut self, point: &[f64]) -> Result<Vec<f64>> {
        self.set(point)?;
        self.copies.iter_mut().filter(|copy| copy.written).for_each(|copy| copy.stale = true);
        Tape::record(self.stream, |t| {
            for input in self.inputs.iter().filter(|input| input.count > 0) {
                let (buffer, range) = self.memory_of(input)?;
                t.watch_bytes(buffer.allocation(), range, input.element)?;
            }
            t.launch(self.op, self.launch, self.rebound())
        })?;
        self.results()
    }

    /// Uses the first number of memory that is overwritten later. The result is discarded, but now the tape needs
    /// zeros where the adjoint clears gradients, which it does not need for unused memory.
    fn use_first(&self, t: &mut Recorder<'_>, input: &Field) -> Result<DeviceBuffer<u8>> {
        let (buffer, range) = self.memory_of(input)?;
        let real = input.element.real.unwrap_or(FloatType::F32);
        let range = range.start..range.start + real.size();
        let mut first = DeviceBuffer::zeroed(self.stream, real.size())?;
        copy_numbers(t, real, buffer.slice(range)?, first.as_slice_mut())?;
        Ok(first)
    }

    /// Copies outputs elsewhere, and fills all memory that consists of numbers with NaN.
    fn overwrite(&mut self, t: &mut Recorder<'_>) -> Result<Vec<Option<DeviceBuffer<u8>>>> {
        let mut moved = Vec::new();
        for (copy, real) in self.copies.iter_mut().zip(&self.all_numbers) {
            let mut buffer = None;
            if real.is_some() && copy.written {
                buffer = Some(DeviceBuffer::zeroed(self.stream, copy.buffer.len())?);
            }
            if let Some(real) = real {
                let range = copy.within(0..copy.image.len());
                if let Some(buffer) = &mut buffer {
                    let to = buffer.slice_mut(range.clone())?;
                    copy_numbers(t, *real, copy.buffer.slice(range.clone())?, to)?;
                }
                fill_numbers(t, *real, copy.buffer.slice_mut(range)?)?;
            }
            moved.push(buffer);
        }
        Ok(moved)
    }

    /// Returns the gradients with which a pass begins: for each output, and then for each input that has one.
    fn seed_buffers(&self, weights: &[f64], pass: &Pass) -> Result<Vec<Option<DeviceBuffer<u8>>>> {
        let mut all = Vec::new();
        for output in &self.outputs {
            let given = weights.get(output.range()).unwrap_or_default();
            all.push(match given.iter().any(|weight| *weight != 0.0) {
                true => Some(self.seed_buffer(output, given)?),
                false => None,
            });
        }
        let Some(before) = &pass.before else { return Ok(all) };
        for input in &self.inputs {
            let given = before.get(input.range()).unwrap_or_default();
            all.push(match self.may_have_gradient(input) {
                true => Some(self.seed_buffer(input, given)?),
                false => None,
            });
        }
        Ok(all)
    }

    /// Returns whether an input may have a gradient before the adjoint runs, such as from a loss that depends on it
    /// directly.
    fn may_have_gradient(&self, input: &Field) -> bool {
        input.effect == Effect::Reads
            && matches!(input.home, Home::Memory(_))
            && input.count > 0
            && !self.outputs.iter().any(|output| output.home == input.home)
    }

    /// Returns, of the gradients in `before`, those that inputs have before the adjoint runs.
    pub(super) fn given_before(&self, before: &[f64]) -> Vec<f64> {
        let inputs = self.inputs.iter().filter(|input| self.may_have_gradient(input));
        only(before, inputs.flat_map(Field::range))
    }

    fn seed_buffer(&self, field: &Field, given: &[f64]) -> Result<DeviceBuffer<u8>> {
        let mut image = vec![0; field.gradient_bytes()];
        field.write_gradient(given, &mut image);
        DeviceBuffer::from_slice(self.stream, &image)
    }
}

/// Runs an expression with the Rust type of the numbers.
macro_rules! for_type {
    ($real:expr, $type:ident => $run:expr) => {
        match $real {
            FloatType::F32 => {
                type $type = f32;
                $run
            }
            FloatType::F64 => {
                type $type = f64;
                $run
            }
            #[cfg(feature = "half")]
            FloatType::F16 => {
                type $type = half::f16;
                $run
            }
            #[cfg(feature = "half")]
            FloatType::Bf16 => {
                type $type = half::bf16;
                $run
            }
            #[cfg(not(feature = "half"))]
            FloatType::F16 | FloatType::Bf16 => Ok(()),
        }
    };
}

/// Records a copy of numbers.
fn copy_numbers(
    t: &mut Recorder<'_>,
    real: FloatType,
    from: DeviceSlice<'_, u8>,
    to: DeviceSliceMut<'_, u8>,
) -> Result<()> {
    for_type!(real, T => t.copy(from.cast::<T>()?, to.cast_mut::<T>()?))
}

/// Records a fill of numbers with NaN.
fn fill_numbers(t: &mut Recorder<'_>, real: FloatType, to: DeviceSliceMut<'_, u8>) -> Result<()> {
    for_type!(real, T => t.fill(to.cast_mut::<T>()?, T::NAN))
}
