//! The density of a million points, a sum over neighbours: its adjoint by hand, which gathers, and the generated one,
//! which adds to each neighbour.

use cuda_safe::{DeviceBuffer, LaunchConfig, Module, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};
use rayon::prelude::*;
use tape::{Element, FloatType, Op, Param, Primal, Seeds, Tape, Variable};

use super::spec;
use crate::cells::Cells;
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::rows::hash_grid::{points, radius_of};
use crate::stop::Stop;

pub(super) const NAMES: [&str; 3] = [
    "tape_forward_density/1000000",
    "tape_backward_density/1000000",
    "tape_backward_density/1000000/generated",
];

const N: usize = 1_000_000;
const BLOCK: u32 = 128;
/// Of each set, how many points' gradients are compared.
const COMPARED: usize = 2500;
/// Of the adjoint by hand.
const MOST_RATIO: f64 = 4.0;

/// What a set is made from.
struct Host {
    x: Vec<[f32; 3]>,
    mass: Vec<f32>,
    g: Vec<f32>,
    h: f32,
}

struct Set {
    host: Host,
    x: DeviceBuffer<[f32; 3]>,
    mass: DeviceBuffer<f32>,
    radius: Variable<f32>,
    grid: HashGrid<f32>,
    out: DeviceBuffer<f32>,
    g: DeviceBuffer<f32>,
    tape: Tape,
}

/// W, and its derivatives by the squared distance and by h.
fn weight(square: f64, h: f64) -> [f64; 3] {
    let inside = h * h - square;
    let scale = 315.0 / (64.0 * std::f64::consts::PI * h.powi(9));
    let w = scale * inside.powi(3);
    [w, -3.0 * scale * inside.powi(2), 6.0 * h * scale * inside.powi(2) - 9.0 / h * w]
}

/// The gradients of a point by its place and mass, with the sums of their terms' magnitudes; its density; and its
/// part of the gradient by h.
struct Wanted {
    by_x: [[f64; 2]; 3],
    by_mass: [f64; 2],
    density: f64,
    by_h: [f64; 2],
}

impl Host {
    fn wanted(&self, cells: &Cells<'_>, i: usize) -> Wanted {
        let mut wanted =
            Wanted { by_x: [[0.0; 2]; 3], by_mass: [0.0; 2], density: 0.0, by_h: [0.0; 2] };
        let add = |to: &mut [f64; 2], term: f64| {
            to[0] += term;
            to[1] += term.abs();
        };
        let (p, mass, g) = (self.x[i].map(f64::from), &self.mass, &self.g);
        cells.within(self.x[i], |j| {
            let j = j as usize;
            let apart: [f64; 3] = std::array::from_fn(|axis| p[axis] - f64::from(self.x[j][axis]));
            let square = apart.iter().map(|d| d * d).sum();
            let [w, by_square, by_h] = weight(square, f64::from(self.h));
            let [own, other] = [g[i], g[j]].map(f64::from);
            let [own_mass, other_mass] = [mass[i], mass[j]].map(f64::from);
            let pull = 2.0 * by_square * (own * other_mass + other * own_mass);
            for (sum, apart) in wanted.by_x.iter_mut().zip(apart) {
                add(sum, apart * pull);
            }
            add(&mut wanted.by_mass, other * w);
            add(&mut wanted.by_h, own * other_mass * by_h);
            wanted.density += other_mass * w;
        });
        wanted
    }
}

impl Set {
    fn new(gpu: &Gpu, n: usize, seed: u64) -> Result<Self, Stop> {
        let (stream, h) = (&gpu.stream, radius_of(n));
        let mass = random(n, 640 + seed).iter().map(|m| 1.5 + m).collect();
        let host = Host { x: points(n, 630 + seed), mass, g: random(n, 650 + seed), h };
        let x = DeviceBuffer::from_slice(stream, &host.x)?;
        let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
        let geometry = GeometryKernels::new(&gpu.context);
        Ok(Self {
            grid: HashGrid::build(stream, &geometry, &x, h, bounded)?,
            x,
            mass: DeviceBuffer::from_slice(stream, &host.mass)?,
            radius: Variable::new(stream, h)?,
            out: DeviceBuffer::zeroed(stream, n)?,
            g: DeviceBuffer::from_slice(stream, &host.g)?,
            tape: Tape::new(stream)?,
            host,
        })
    }

    /// Records the densities, which are added to zeros.
    fn forward(&mut self, stream: &Stream, op: &Op) -> cuda_safe::Result<()> {
        let Self { x, mass, radius, grid, out, tape, .. } = self;
        tape.record_again(stream, |t| {
            t.watch(&*x)?;
            t.watch(&*mass)?;
            t.watch(&*radius)?;
            t.fill(&mut *out, 0.0)?;
            let (launch, n) = (LaunchConfig::cover(x.len(), BLOCK), x.len() as u32);
            t.launch(op, launch, (grid.view(), &*x, &*mass, &*radius, &mut *out, n))
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { out, g, tape, .. } = self;
        tape.backward_with(stream, &Seeds::new().with(&*out, &*g)?)
    }

    fn check_densities(&self, stream: &Stream) -> Result<usize, Stop> {
        let (found, cells) = (self.out.to_vec(stream)?, Cells::new(&self.host.x, self.host.h));
        let mut compared = 0;
        for i in self.chosen() {
            let (wanted, found) = (self.host.wanted(&cells, i).density, f64::from(found[i]));
            let is_right = (found - wanted).abs() <= 1e-5 * wanted;
            if !is_right {
                return Err(Stop::failed(format!("density {i} is {found}, not {wanted}")));
            }
            compared += 1;
        }
        Ok(compared)
    }

    fn chosen(&self) -> impl Iterator<Item = usize> + use<> {
        let n = self.host.x.len();
        (0..n).step_by((n / COMPARED).max(1))
    }

    /// Gradients by places and masses of some points, and the one by h, which is a sum over all.
    fn check_gradients(&self, stream: &Stream) -> Result<usize, Stop> {
        let by_x = self.tape.gradient(&self.x)?.to_vec(stream)?;
        let by_mass = self.tape.gradient(&self.mass)?.to_vec(stream)?;
        let by_h = self.tape.gradient(&self.radius)?.to_vec(stream)?;
        let cells = Cells::new(&self.host.x, self.host.h);
        // Relative to the terms.
        let near = |what: &str, i: usize, found: f32, [wanted, size]: [f64; 2]| {
            let is_right = (f64::from(found) - wanted).abs() <= 1e-5 * size;
            let wrong = || format!("the gradient by {what} {i} is {found}, not {wanted} ({size})");
            if is_right { Ok(()) } else { Err(Stop::failed(wrong())) }
        };
        let mut compared = 0;
        for i in self.chosen() {
            let wanted = self.host.wanted(&cells, i);
            for (found, wanted) in by_x[i].into_iter().zip(wanted.by_x) {
                near("place", i, found, wanted)?;
            }
            near("mass", i, by_mass[i], wanted.by_mass)?;
            compared += 1;
        }
        let host = &self.host;
        let parts = (0..host.x.len()).into_par_iter().map(|i| host.wanted(&cells, i).by_h);
        let wanted = parts.reduce(|| [0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
        near("radius", 0, by_h.first().copied().unwrap_or(f32::NAN), wanted)?;
        Ok(compared)
    }
}

/// By hand, and generated.
fn operations(gpu: &Gpu) -> Result<[Op; 2], Stop> {
    let by_hand = include_str!("../../../../geom-kernels/tests/suite/kernels/neighbor_sums.cu");
    let by_hand = geom_kernels::program(by_hand).name("neighbor_sums.cu");
    let module = Module::compile(&gpu.context, by_hand)?;
    let source = geom_kernels::program(include_str!("../../density.cu")).name("density.cu");
    let params = |[x, mass, out]: [Param; 3]| {
        let grid = Param::argument::<GridView<'_, f32>>("grid");
        let h = Param::scalar("h", Element::F32).active();
        [grid, x, mass, h, out, Param::value("n")]
    };
    let each = || {
        let x = Param::buffer("x", Element::vector(FloatType::F32, 3)).len("n").active();
        let [mass, out] =
            ["mass", "out"].map(|name| Param::buffer(name, Element::F32).len("n").active());
        [x, mass, out]
    };
    let [x, mass, out] = each();
    let said = [x, mass].map(|param| param.reads(Primal::Entry).each_element());
    let [x, mass] = said;
    let by_hand = spec("density_f32", params([x, mass, out.accumulates()])).summands(|_| 0);
    // SAFETY: thread i reads points and masses of neighbours below n, and writes density i, only if i < n; the
    // adjoint by hand adds to the gradients of point i alone.
    unsafe {
        let generated = spec("density", params(each())).differentiate(&gpu.context, &source)?;
        Ok([by_hand.register(&module)?, generated])
    }
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, N)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (stream, [by_hand, generated]) = (&gpu.stream, operations(gpu)?);
    let replays = Replays::new(gpu, samples)?;
    let sets =
        (0..SETS as u64).map(|seed| Set::new(gpu, n, seed)).collect::<Result<Vec<_>, _>>()?;
    let row = |name, times: &[f64], check: String| {
        Row::new(name, Unit::Ms, times).check(check).device(&gpu.name)
    };
    let (times, mut sets) = replays.run(sets, |stream, sets: &mut Vec<Set>, number| {
        sets[number].forward(stream, &generated)
    })?;
    let right = sets.iter().map(|set| set.check_densities(stream)).sum::<Result<usize, _>>()?;
    let check = format!("the densities of {right} points equal f64 to 1e-5, over {SETS} inputs");
    let mut rows = vec![row(NAMES[0], &times, check)];
    for (name, op) in [(NAMES[1], &by_hand), (NAMES[2], &generated)] {
        for set in &mut sets {
            set.forward(stream, op)?;
            // So that the pass that is captured has enough scratch memory.
            set.backward(stream)?;
        }
        let (times, back) = replays
            .run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
        sets = back;
        let right = sets.iter().map(|set| set.check_gradients(stream)).sum::<Result<usize, _>>()?;
        let check = format!(
            "gradients by {right} points, their masses and the radius equal f64 to 1e-5 of the terms, over {SETS} inputs"
        );
        rows.push(row(name, &times, check));
    }
    let [forward, by_hand, generated] = [0, 1, 2].map(|at| rows[at].stats.median);
    let ratio = generated / by_hand;
    if let Some(last) = rows.pop() {
        let row = last.figure("of_by_hand", ratio).figure("of_forward", generated / forward);
        rows.push(row.at_most("of_by_hand", ratio, MOST_RATIO));
    }
    Ok(rows)
}
