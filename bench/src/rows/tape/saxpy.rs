//! saxpy backwards, with the gradient of the factor: a sum over all elements.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use tape::{Seeds, Tape, Variable};

use super::{BLOCK, Ops};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stats::median;
use crate::stop::Stop;

pub(super) const NAMES: [&str; 2] =
    ["tape_saxpy_backward/16777216", "tape_saxpy_backward/16777216/deterministic"];

const N: usize = 16_777_216;
const A: f32 = 2.5;

struct Set {
    host_x: Vec<f32>,
    host_g: Vec<f32>,
    a: Variable<f32>,
    x: DeviceBuffer<f32>,
    y: DeviceBuffer<f32>,
    out: DeviceBuffer<f32>,
    g: DeviceBuffer<f32>,
    tape: Tape,
}

impl Set {
    fn new(gpu: &Gpu, ops: &Ops, n: usize, seed: u64, deterministic: bool) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let (host_x, host_g) = (random(n, 500 + seed), random(n, 510 + seed));
        let a = Variable::new(stream, A)?;
        let (x, y) = (DeviceBuffer::from_slice(stream, &host_x)?, DeviceBuffer::zeroed(stream, n)?);
        let mut out = DeviceBuffer::<f32>::zeroed(stream, n)?;
        let g = DeviceBuffer::from_slice(stream, &host_g)?;
        let mut tape = Tape::new(stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.watch(&y)?;
            t.launch(&ops.saxpy, LaunchConfig::cover(n, BLOCK), (&a, &x, &y, &mut out, n as u64))
        })?;
        Ok(Self { host_x, host_g, a, x, y, out, g, tape })
    }

    /// All elements, and the sum.
    fn check(&self, gpu: &Gpu) -> Result<(), Stop> {
        let stream = &gpu.stream;
        let by_x = self.tape.gradient(&self.x)?.to_vec(stream)?;
        let by_y = self.tape.gradient(&self.y)?.to_vec(stream)?;
        let by_a = self.tape.gradient(&self.a)?.to_vec(stream)?;
        let scaled: Vec<f32> = self.host_g.iter().map(|g| A * g).collect();
        if by_x != scaled || by_y != self.host_g || self.out.len() != by_x.len() {
            return Err(Stop::failed("an element's gradient is wrong"));
        }
        let terms =
            || self.host_x.iter().zip(&self.host_g).map(|(x, g)| f64::from(*x) * f64::from(*g));
        let (wanted, size) = (terms().sum::<f64>(), terms().map(f64::abs).sum::<f64>());
        let found: f64 = by_a.iter().copied().map(f64::from).sum();
        if by_a.len() == 1 && (found - wanted).abs() <= 1e-6 * size {
            return Ok(());
        }
        Err(Stop::failed(format!("the factor's gradient is {found}, not {wanted}")))
    }
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, N)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (ops, replays) = (Ops::new(gpu)?, Replays::new(gpu, samples)?);
    let (mut rows, mut fast) = (Vec::new(), f64::NAN);
    for (name, deterministic) in NAMES.into_iter().zip([false, true]) {
        let set = |seed| Set::new(gpu, &ops, n, seed, deterministic);
        let sets = (0..SETS as u64).map(set).collect::<Result<Vec<_>, _>>()?;
        let (times, mut sets) = replays.run(sets, |stream, sets: &mut Vec<Set>, number| {
            let Set { tape, out, g, .. } = &mut sets[number];
            tape.backward_with(stream, &Seeds::new().with(&*out, &*g)?)
        })?;
        for set in &mut sets {
            set.tape.check(&gpu.stream)?;
            set.check(gpu)?;
        }
        let check =
            format!("all {n} gradients equal, and their sum f64 to 1e-6, over {SETS} inputs");
        let row =
            Row::new(name, Unit::Ms, &times).check(check).image(ops.image(gpu)?).device(&gpu.name);
        let time = median(&times);
        rows.push(if deterministic {
            let percent = 100.0 * (time / fast - 1.0);
            row.figure("cost_percent", percent).note(format!("{percent:+.0}% of the fast one"))
        } else {
            fast = time;
            row.at_most("ms", time, 0.115)
        });
    }
    Ok(rows)
}
