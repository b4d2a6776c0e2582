//! saxpy backwards, with the gradient of the factor: a sum over all elements. By hand and generated, with an element for
//! each thread and with four.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, DeviceRepr, LaunchConfig};
use tape::{Differentiable, Element, Op, Param, Primal, Seeds, Tape, Variable};

use super::{BLOCK, Ops, spec};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stop::Stop;

pub(super) const NAMES: [&str; 5] = [
    "tape_saxpy_backward/16777216",
    "tape_saxpy_backward/16777216/deterministic",
    "tape_saxpy_backward/16777216/one",
    "tape_saxpy_backward/16777216/one/generated",
    "tape_saxpy_backward/16777216/float4/generated",
];

const N: usize = 16_777_216;
const A: f32 = 2.5;

/// What a thread of a kernel works on.
trait Lane: DeviceRepr + Differentiable<Gradient = Self> + bytemuck::Pod + Send {
    fn pack(numbers: &[f32]) -> Vec<Self>;
    fn unpack(lanes: &[Self]) -> Vec<f32>;
}

impl Lane for f32 {
    fn pack(numbers: &[f32]) -> Vec<Self> {
        numbers.to_vec()
    }

    fn unpack(lanes: &[Self]) -> Vec<f32> {
        lanes.to_vec()
    }
}

impl Lane for Float4 {
    fn pack(numbers: &[f32]) -> Vec<Self> {
        numbers.chunks_exact(4).map(|v| Self::new(v[0], v[1], v[2], v[3])).collect()
    }

    fn unpack(lanes: &[Self]) -> Vec<f32> {
        lanes.iter().flat_map(|v| [v.x, v.y, v.z, v.w]).collect()
    }
}

struct Set<T: Lane> {
    host_x: Vec<f32>,
    host_g: Vec<f32>,
    a: Variable<f32>,
    x: DeviceBuffer<T>,
    y: DeviceBuffer<T>,
    out: DeviceBuffer<T>,
    g: DeviceBuffer<T>,
    tape: Tape,
}

impl<T: Lane> Set<T> {
    fn new(gpu: &Gpu, op: &Op, n: usize, seed: u64, deterministic: bool) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let (host_x, host_g) = (random(n, 500 + seed), random(n, 510 + seed));
        let a = Variable::new(stream, A)?;
        let x = DeviceBuffer::from_slice(stream, &T::pack(&host_x))?;
        let g = DeviceBuffer::from_slice(stream, &T::pack(&host_g))?;
        let y = DeviceBuffer::<T>::zeroed(stream, x.len())?;
        let mut out = DeviceBuffer::<T>::zeroed(stream, x.len())?;
        let mut tape = Tape::new(stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(stream, |t| {
            t.watch(&a)?;
            t.watch(&x)?;
            t.watch(&y)?;
            let launch = LaunchConfig::cover(x.len(), BLOCK);
            t.launch(op, launch, (&a, &x, &y, &mut out, x.len() as u64))
        })?;
        Ok(Self { host_x, host_g, a, x, y, out, g, tape })
    }

    /// All elements, and the sum.
    fn check(&self, gpu: &Gpu) -> Result<(), Stop> {
        let stream = &gpu.stream;
        let by_x = T::unpack(&self.tape.gradient(&self.x)?.to_vec(stream)?);
        let by_y = T::unpack(&self.tape.gradient(&self.y)?.to_vec(stream)?);
        let by_a = self.tape.gradient(&self.a)?.to_vec(stream)?;
        let scaled: Vec<f32> = self.host_g.iter().map(|g| A * g).collect();
        if by_x != scaled || by_y != self.host_g {
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

/// The operations that `Ops` lacks.
struct More {
    one: Op,
    one_generated: Op,
    four_generated: Op,
}

impl More {
    fn new(gpu: &Gpu, ops: &Ops) -> Result<Self, Stop> {
        let source = geom_kernels::program(include_str!("../../tape.cu")).name("tape.cu");
        let params = |[x, y, out]: [Param; 3]| {
            let a = Param::scalar("a", Element::F32).active();
            [a, x, y, out, Param::value("n")]
        };
        let each =
            |element| ["x", "y", "out"].map(|name| Param::buffer(name, element).len("n").active());
        let [x, y, out] = each(Element::F32).map(Param::each_element);
        let by_hand = [x.reads(Primal::Entry), y.reads(Primal::None), out.overwrites()];
        let generated = |name, element| spec(name, params(each(element)));
        let context = &gpu.context;
        // SAFETY: thread i of the kernels and adjoints touches element i of each buffer, and only if i < n.
        unsafe {
            Ok(Self {
                one: spec("saxpy_one", params(by_hand)).summands(|_| 0).register(&ops.module)?,
                one_generated: generated("saxpy_one", Element::F32)
                    .differentiate(context, &source)?,
                four_generated: generated("saxpy_four", Float4::ELEMENT)
                    .differentiate(context, &source)?,
            })
        }
    }
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, N)
}

/// Measures passes of an operation. `n` is the number of elements, in whatever groups threads take them.
fn row<T: Lane>(
    replays: &Replays<'_>,
    name: &str,
    op: &Op,
    n: usize,
    deterministic: bool,
) -> Result<Row, Stop> {
    let gpu = replays.gpu;
    let set = |seed| Set::<T>::new(gpu, op, n, seed, deterministic);
    let sets = (0..SETS as u64).map(set).collect::<Result<Vec<_>, _>>()?;
    let (times, mut sets) = replays.run(sets, |stream, sets: &mut Vec<Set<T>>, number| {
        let Set { tape, out, g, .. } = &mut sets[number];
        tape.backward_with(stream, &Seeds::new().with(&*out, &*g)?)
    })?;
    for set in &mut sets {
        set.tape.check(&gpu.stream)?;
        set.check(gpu)?;
    }
    let check = format!("all {n} gradients equal, and their sum f64 to 1e-6, over {SETS} inputs");
    Ok(Row::new(name, Unit::Ms, &times).check(check).device(&gpu.name))
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (ops, replays) = (Ops::new(gpu)?, Replays::new(gpu, samples)?);
    let (more, image) = (More::new(gpu, &ops)?, ops.image(gpu)?);
    let one = |name, op, deterministic| row::<f32>(&replays, name, op, n, deterministic);
    let [few, deterministic, by_hand, generated, four] = NAMES;
    let rows = [
        one(few, &ops.saxpy, false)?,
        one(deterministic, &ops.saxpy, true)?,
        one(by_hand, &more.one, false)?,
        one(generated, &more.one_generated, false)?,
        row::<Float4>(&replays, four, &more.four_generated, n, false)?,
    ];
    let fast = rows[0].stats.median;
    let bounds = [Some(0.115), None, None, Some(0.150), Some(0.115)];
    let all = rows.into_iter().zip(bounds).map(|(row, bound)| {
        let time = row.stats.median;
        let row = row.image(&*image);
        match bound {
            Some(most) => row.at_most("ms", time, most),
            None => {
                let percent = 100.0 * (time / fast - 1.0);
                row.figure("cost_percent", percent).note(format!("{percent:+.0}% of the first"))
            }
        }
    });
    Ok(all.collect())
}
