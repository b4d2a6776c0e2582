//! 64 steps of a million particles, and the gradients of where they end by how they begin.

use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use tape::{Op, Tape};

use super::host::Raw;
use super::oracle::{Start, check_loss};
use super::{BLOCK, Ops, STEPS};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stats::median;
use crate::stop::Stop;
use crate::timing::once;

pub(super) const NAMES: [&str; 10] = [
    "tape_forward_graph/1000000x64",
    "loss_reduce/1000000",
    "tape_backward_graph/1000000x64",
    "tape_backward_graph/1000000x64/accumulate",
    "tape_backward_graph/1000000x64/generated",
    "tape_backward_graph/1000000x64/accumulate/generated",
    "tape_forward_one_kernel/1000000x64",
    "tape_backward_one_kernel/1000000x64",
    "tape_forward_uncaptured/1000000x64",
    "tape_backward_uncaptured/1000000x64",
];

const PARTICLES: usize = 1_000_000;
/// Of each set, how many are compared with f64: 10,000 in all.
pub(super) const COMPARED: usize = 10_000 / SETS;
/// Blocks that sum the loss up: enough to fill a large device.
const BLOCKS: u32 = 1056;

/// Some particles, all that they go through, and the tape of it.
pub(super) struct Set {
    x: Vec<[f32; 3]>,
    v: Vec<[f32; 3]>,
    /// Places and velocities before the first step, and after each.
    pub(super) path: Vec<[DeviceBuffer<[f32; 3]>; 2]>,
    pub(super) loss: DeviceBuffer<f32>,
    pub(super) tape: Tape,
}

fn vectors(n: usize, seed: u64) -> Vec<[f32; 3]> {
    random(3 * n, seed).chunks_exact(3).map(|v| [v[0], v[1], v[2]]).collect()
}

impl Set {
    pub(super) fn new(gpu: &Gpu, n: usize, seed: u64) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let (x, v) = (vectors(n, 400 + seed), vectors(n, 450 + seed));
        let first = [DeviceBuffer::from_slice(stream, &x)?, DeviceBuffer::from_slice(stream, &v)?];
        let mut path = vec![first];
        for _ in 0..STEPS {
            path.push([DeviceBuffer::zeroed(stream, n)?, DeviceBuffer::zeroed(stream, n)?]);
        }
        let (loss, tape) = (DeviceBuffer::zeroed(stream, 1)?, Tape::new(stream)?);
        Ok(Self { x, v, path, loss, tape })
    }

    /// Records the steps, and, with a loss operation, the loss of their end positions.
    pub(super) fn forward(
        &mut self,
        stream: &Stream,
        step: &Op,
        energy: Option<&Op>,
    ) -> cuda_safe::Result<()> {
        let Self { x, path, loss, tape, .. } = self;
        let (n, launch) = (x.len() as u32, LaunchConfig::cover(x.len(), BLOCK));
        tape.record_again(stream, |t| {
            if let Some([x, v]) = path.first() {
                t.watch(x)?;
                t.watch(v)?;
            }
            for number in 0..STEPS {
                let (before, after) = path.split_at_mut(number + 1);
                if let (Some([x, v]), Some([x1, v1])) = (before.last(), after.first_mut()) {
                    t.launch(step, launch, (x, v, x1, v1, n))?;
                }
            }
            if let (Some(energy), Some([x, _])) = (energy, path.last()) {
                t.fill(&mut *loss, 0.0)?;
                t.launch(energy, LaunchConfig::new(BLOCKS, BLOCK), (x, &mut *loss, n))?;
            }
            Ok(())
        })
    }

    /// Records all steps as one launch, and, with a loss operation, the loss of their end positions.
    fn forward_at_once(
        &mut self,
        stream: &Stream,
        steps: &Op,
        energy: Option<&Op>,
    ) -> cuda_safe::Result<()> {
        let Self { x, path, loss, tape, .. } = self;
        let (n, launch) = (x.len() as u32, LaunchConfig::cover(x.len(), BLOCK));
        tape.record_again(stream, |t| {
            let [[x, v], .., [x1, v1]] = path.as_mut_slice() else { return Ok(()) };
            t.watch(&*x)?;
            t.watch(&*v)?;
            t.launch(steps, launch, (&*x, &*v, &mut *x1, &mut *v1, STEPS as u32, n))?;
            if let Some(energy) = energy {
                t.fill(&mut *loss, 0.0)?;
                t.launch(energy, LaunchConfig::new(BLOCKS, BLOCK), (&*x1, &mut *loss, n))?;
            }
            Ok(())
        })
    }

    /// Records the loss alone.
    fn sum(&mut self, stream: &Stream, energy: &Op) -> cuda_safe::Result<()> {
        let Self { x, path, loss, tape, .. } = self;
        let n = x.len() as u32;
        tape.record_again(stream, |t| {
            let Some([x, _]) = path.last() else { return Ok(()) };
            t.watch(x)?;
            t.fill(&mut *loss, 0.0)?;
            t.launch(energy, LaunchConfig::new(BLOCKS, BLOCK), (x, &mut *loss, n))
        })
    }

    pub(super) fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        self.tape.backward(stream, &self.loss)
    }

    fn ends(&self, stream: &Stream) -> Result<Vec<[f32; 3]>, Stop> {
        match self.path.last() {
            Some([x, _]) => Ok(x.to_vec(stream)?),
            None => Ok(Vec::new()),
        }
    }

    pub(super) fn check_ends(&self, stream: &Stream, sample: usize) -> Result<usize, Stop> {
        Start { x: &self.x, v: &self.v }.check_ends(&self.ends(stream)?, sample)
    }

    pub(super) fn check_gradients(&self, stream: &Stream, sample: usize) -> Result<usize, Stop> {
        let Some([x, v]) = self.path.first() else { return Ok(0) };
        let (by_x, by_v) = (self.tape.gradient(x)?, self.tape.gradient(v)?);
        let (by_x, by_v) = (by_x.to_vec(stream)?, by_v.to_vec(stream)?);
        Start { x: &self.x, v: &self.v }.check_gradients(&by_x, &by_v, sample)
    }
}

fn checked(
    sets: &[Set],
    what: &str,
    check: impl Fn(&Set) -> Result<usize, Stop>,
) -> Result<String, Stop> {
    let right = sets.iter().map(check).sum::<Result<usize, _>>()?;
    Ok(format!("{what} of {right} particles equal f64 to 1e-4 of the largest, over {SETS} inputs"))
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, PARTICLES)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (stream, ops, replays) = (&gpu.stream, Ops::new(gpu)?, Replays::new(gpu, samples)?);
    let image = ops.image(gpu)?;
    let row = |name, samples: &[f64], check: String| {
        Row::new(name, Unit::Ms, samples).check(check).image(&*image).device(&gpu.name)
    };
    let sets =
        (0..SETS as u64).map(|seed| Set::new(gpu, n, seed)).collect::<Result<Vec<_>, _>>()?;
    let ends = |sets: &[Set]| checked(sets, "places", |set| set.check_ends(stream, COMPARED));
    let gradients =
        |sets: &[Set]| checked(sets, "gradients", |set| set.check_gradients(stream, COMPARED));

    let (times, sets) = replays.run(sets, |stream, sets: &mut Vec<Set>, number| {
        sets[number].forward(stream, &ops.step, None)
    })?;
    let forward = median(&times);
    let mut rows = vec![row(NAMES[0], &times, ends(&sets)?).at_most("ms", forward, 0.74)];

    let (times, mut sets) = replays
        .run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].sum(stream, &ops.energy))?;
    for set in &sets {
        check_loss(&set.ends(stream)?, &set.loss.to_vec(stream)?)?;
    }
    let check = format!("the sum of all {n} particles equals f64 to 1e-5, over {SETS} inputs");
    rows.push(row(NAMES[1], &times, check).at_most("ms", median(&times), 0.010));

    let mut backward = f64::NAN;
    for (name, step, most) in [
        (NAMES[2], &ops.step, 1.05),
        (NAMES[3], &ops.step_accumulating, 1.9),
        (NAMES[4], &ops.step_generated, 1.05),
        (NAMES[5], &ops.step_generated_accumulating, 1.9),
    ] {
        for set in &mut sets {
            set.forward(stream, step, Some(&ops.energy))?;
        }
        let (times, back) = replays
            .run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
        sets = back;
        let memory = sets.first().map_or(0, |set| set.tape.memory().gradients);
        let check = gradients(&sets)?;
        let median = median(&times);
        backward = if name == NAMES[2] { median } else { backward };
        let row = row(name, &times, check).figure("gradient_bytes", memory as f64);
        rows.push(row.at_most("ms", median, most));
    }

    let (times, mut sets) = replays.run(sets, |stream, sets: &mut Vec<Set>, number| {
        sets[number].forward_at_once(stream, &ops.steps, None)
    })?;
    rows.push(row(NAMES[6], &times, ends(&sets)?));
    for set in &mut sets {
        set.forward_at_once(stream, &ops.steps, Some(&ops.energy))?;
        // So that the pass that is captured has enough scratch memory.
        set.backward(stream)?;
    }
    let (times, mut sets) =
        replays.run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
    let check = gradients(&sets)?;
    let once_median = median(&times);
    rows.push(row(NAMES[7], &times, check).at_most("ms", once_median, 0.40));

    let (mut there, mut back) = (Vec::new(), Vec::new());
    // The same launches by the driver alone, which no recorder can be faster than.
    let (mut raw_there, mut raw_back) = (Vec::new(), Vec::new());
    // One more to warm up, as the memory for it is made then.
    for sample in 0..=samples {
        let number = sample % SETS;
        let Some(set) = sets.get_mut(number) else { continue };
        stream.synchronize()?;
        let (ns, ()) = once(|| {
            set.forward(stream, &ops.step, None)?;
            Ok(stream.synchronize()?)
        })?;
        there.push(ns / 1e6);
        set.forward(stream, &ops.step, Some(&ops.energy))?;
        stream.synchronize()?;
        let (ns, ()) = once(|| {
            set.backward(stream)?;
            Ok(stream.synchronize()?)
        })?;
        back.push(ns / 1e6);
        let raw = Raw::new(gpu, &ops, set, n)?;
        let whole = |launches: &dyn Fn() -> Result<f64, Stop>| -> Result<f64, Stop> {
            stream.synchronize()?;
            let (ns, ()) = once(|| {
                launches()?;
                Ok(stream.synchronize()?)
            })?;
            Ok(ns / 1e6)
        };
        raw_there.push(whole(&|| raw.forward())?);
        raw_back.push(whole(&|| raw.backward())?);
    }
    for set in &mut sets {
        set.forward(stream, &ops.step, Some(&ops.energy))?;
        set.backward(stream)?;
    }
    for (name, times, raw, captured, check) in [
        (NAMES[8], &there, &raw_there, forward, ends(&sets)?),
        (NAMES[9], &back, &raw_back, backward, gradients(&sets)?),
    ] {
        let times = times.get(1..).unwrap_or_default();
        let ratio = median(times) / captured;
        let raw = median(raw.get(1..).unwrap_or_default()) / captured;
        let row =
            row(name, times, check).figure("of_captured", ratio).figure("raw_of_captured", raw);
        rows.push(row.at_most("of_captured", ratio, 1.1));
    }
    Ok(rows)
}
