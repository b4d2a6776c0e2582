//! One step of the example `dem` in C++, for a block of grains that touch: the kernel, and its generated adjoint.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, LaunchConfig, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, NeighborLists, Pairs};
use tape::{Element, FloatType, Op, Param, Seeds, Tape};

use super::oracle::{check_states, chosen, slopes};
use super::spec;
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stop::Stop;

pub(super) const NAMES: [&str; 2] = ["tape_forward_dem_step/65536", "tape_backward_dem_step/65536"];

/// Grains along x and z; twice as many along y.
const SIDE: usize = 32;
const BLOCK: u32 = 128;
/// Of each set, how many grains' gradients are compared.
const COMPARED: usize = 2500;
/// Of the forward kernel.
const MOST_RATIO: f64 = 6.0;
/// As in the example: how far neighbours are listed.
const REACH: f32 = 0.2075 + 2.0 * 0.065;

type Vector = [f64; 3];

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn minus(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

/// `contact_force` of step.cu: the normal, the velocity from the other, the gap.
fn force(n: Vector, v: Vector, gap: f64, friction: f64, mu: f64) -> Vector {
    let vn = dot(n, v);
    let normal = gap * 8000.0 + vn.min(0.0) * 2.0;
    let along: Vector = std::array::from_fn(|axis| v[axis] - n[axis] * vn);
    let speed = dot(along, along).sqrt();
    let rubbed = (speed * friction).min(mu * normal.abs());
    let by = if speed > 0.0 { rubbed / speed } else { 0.0 };
    std::array::from_fn(|axis| -normal * n[axis] - by * along[axis])
}

/// Between two grains; zero if they do not touch.
fn contact(x: Vector, v: Vector, others_x: Vector, others_v: Vector) -> Vector {
    let apart = minus(x, others_x);
    let distance = dot(apart, apart).sqrt();
    let gap = distance - 2.0 * f64::from(0.1f32);
    if gap > f64::from(0.0075f32) {
        return [0.0; 3];
    }
    force(apart.map(|d| d / distance), minus(v, others_v), gap, 1.0, 1e5)
}

fn time_step() -> f64 {
    f64::from(1.0f32 / 60.0 / 64.0)
}

fn xyz(v: [f32; 4]) -> Vector {
    [v[0], v[1], v[2]].map(f64::from)
}

fn numbers(v: Float4) -> [f32; 4] {
    [v.x, v.y, v.z, v.w]
}

/// What a set is made from: places, then velocities; their cotangents likewise.
struct Host {
    grains: Vec<[f32; 4]>,
    g: Vec<[f32; 4]>,
}

struct Set {
    host: Host,
    now: DeviceBuffer<Float4>,
    next: DeviceBuffer<Float4>,
    g: DeviceBuffer<Float4>,
    lists: NeighborLists,
    trouble: DeviceBuffer<u32>,
    tape: Tape,
}

impl Host {
    fn state(&self, i: usize) -> [Vector; 2] {
        [xyz(self.grains[i]), xyz(self.grains[self.grains.len() / 2 + i])]
    }

    /// The velocity of a grain after the step.
    fn after(&self, [x, v]: [Vector; 2], others: &[u32]) -> Vector {
        let ground = x[1] < f64::from(0.02f32);
        let mut sum = if ground { force([0.0, 1.0, 0.0], v, x[1], 100.0, 0.5) } else { [0.0; 3] };
        for j in others {
            let [others_x, others_v] = self.state(*j as usize);
            let force = contact(x, v, others_x, others_v);
            sum = std::array::from_fn(|axis| sum[axis] + force[axis]);
        }
        let gravity = [0.0, f64::from(9.8f32), 0.0];
        std::array::from_fn(|axis| v[axis] + (sum[axis] * 64.0 - gravity[axis]) * time_step())
    }

    /// What the sum of next and its cotangents has of a grain's state: its own part, and that of all it touches.
    fn part(&self, i: usize, state: [f64; 6], others: &[u32]) -> f64 {
        let n = self.grains.len() / 2;
        let [x, v] = [0, 3].map(|at| [state[at], state[at + 1], state[at + 2]]);
        let speed = self.after([x, v], others);
        let dt = time_step();
        // The cotangent of a grain's velocity, which moves it, too.
        let pull = |i: usize| -> Vector {
            let (of_x, of_v) = (xyz(self.g[i]), xyz(self.g[n + i]));
            std::array::from_fn(|axis| of_v[axis] + dt * of_x[axis])
        };
        let own = dot(xyz(self.g[i]), x) + dot(pull(i), speed);
        let touched = others.iter().map(|j| {
            let [others_x, others_v] = self.state(*j as usize);
            dot(pull(*j as usize), contact(others_x, others_v, x, v)) * 64.0 * dt
        });
        own + touched.sum::<f64>()
    }

    /// The state of a grain, moved by so much into no special direction.
    fn moved(&self, i: usize, by: f64) -> [f64; 6] {
        let [x, v] = self.state(i);
        let way = [1.0, 0.7, 1.3];
        std::array::from_fn(|at| if at < 3 { x[at] + by * way[at] } else { v[at - 3] + by })
    }
}

impl Set {
    fn new(gpu: &Gpu, side: usize, seed: u64) -> Result<Self, Stop> {
        let (stream, n) = (&gpu.stream, 2 * side * side * side);
        // The lattice of the peers' workload, whose lowest layer touches the ground; and velocities of all directions.
        let (jitter, speeds) = (random(3 * n, 680 + seed), random(3 * n, 690 + seed));
        let place = |i: usize| {
            let at = |axis: usize| {
                let lattice = [i % side, i / (side * side), i / side % side][axis];
                0.2 * lattice as f32 + 0.005 * (jitter[3 * i + axis] + 1.0)
            };
            [at(0), at(1), at(2), 0.0]
        };
        let velocity =
            |i: usize| [speeds[3 * i], speeds[3 * i + 1], 15.0 + speeds[3 * i + 2], 0.25];
        let grains: Vec<_> = (0..n).map(place).chain((0..n).map(velocity)).collect();
        let g: Vec<[f32; 4]> =
            random(8 * n, 700 + seed).chunks_exact(4).map(|v| [v[0], v[1], v[2], v[3]]).collect();
        let upload = |all: &[[f32; 4]]| {
            let all: Vec<_> = all.iter().map(|v| Float4::from(*v)).collect();
            DeviceBuffer::from_slice(stream, &all)
        };
        let now = upload(&grains)?;
        let geometry = GeometryKernels::new(&gpu.context);
        let points = now.slice(..n)?;
        let grid = HashGrid::build(stream, &geometry, points, REACH, GridOptions::default())?;
        let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
        Ok(Self {
            lists: grid.neighbor_lists(stream, &others)?,
            next: DeviceBuffer::zeroed(stream, 2 * n)?,
            g: upload(&g)?,
            trouble: DeviceBuffer::zeroed(stream, 1)?,
            tape: Tape::new(stream)?,
            now,
            host: Host { grains, g },
        })
    }

    fn forward(&mut self, stream: &Stream, op: &Op) -> cuda_safe::Result<()> {
        let Self { now, next, lists, trouble, tape, .. } = self;
        let n = now.len() / 2;
        tape.record_again(stream, |t| {
            t.watch(&*now)?;
            let (offsets, indices) = (&lists.offsets, &lists.indices);
            let args = (&*now, &*now, offsets, indices, &mut *next, &mut *trouble, n as u32);
            t.launch(op, LaunchConfig::cover(n, BLOCK), args)
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { next, g, tape, .. } = self;
        tape.backward_with(stream, &Seeds::new().with(&*next, &*g)?)
    }

    /// The indices of all neighbours, by where they begin.
    fn neighbours(&self, stream: &Stream) -> Result<(Vec<u64>, Vec<u32>), Stop> {
        if self.trouble.to_vec(stream)? != [0] {
            return Err(Stop::failed("the lists of neighbours were not enough"));
        }
        Ok((self.lists.offsets.to_vec(stream)?, self.lists.indices.to_vec(stream)?))
    }

    fn check_speeds(&self, stream: &Stream) -> Result<usize, Stop> {
        let (offsets, indices) = self.neighbours(stream)?;
        let next = self.next.to_vec(stream)?;
        let n = next.len() / 2;
        let host = &self.host;
        let wanted = |i: usize, by: f64| {
            let state = host.moved(i, by);
            let [x, v] = [0, 3].map(|at| [state[at], state[at + 1], state[at + 2]]);
            host.after([x, v], &indices[offsets[i] as usize..offsets[i + 1] as usize])
        };
        check_states(
            &|i| [next[n + i].x, next[n + i].y, next[n + i].z],
            &chosen(n, COMPARED),
            wanted,
        )
    }

    fn check_gradients(&self, stream: &Stream) -> Result<usize, Stop> {
        let (offsets, indices) = self.neighbours(stream)?;
        let gradient = self.tape.gradient(&self.now)?.to_vec(stream)?;
        let n = gradient.len() / 2;
        let host = &self.host;
        let wanted = |i: usize, by: f64| {
            let others = &indices[offsets[i] as usize..offsets[i + 1] as usize];
            slopes(host.moved(i, by), |state| host.part(i, state, others))
        };
        let found = |i: usize| {
            let ([x, y, z, _], [u, v, w, _]) = (numbers(gradient[i]), numbers(gradient[n + i]));
            [x, y, z, u, v, w]
        };
        // Nothing depends on the fourth number of a place, and that of a velocity stays.
        for i in 0..n {
            if gradient[i].w != 0.0 || gradient[n + i].w != self.host.g[n + i][3] {
                return Err(Stop::failed(format!("grain {i}: {:?}", gradient[n + i])));
            }
        }
        check_states(&found, &chosen(n, COMPARED), wanted)
    }
}

fn operation(gpu: &Gpu) -> Result<Op, Stop> {
    let source = include_str!("../../../../examples/dem/tests/step.cu");
    let source = geom_kernels::program(source).name("step.cu");
    let grains = |name| {
        let element = Element::vector(FloatType::F32, 4);
        Param::buffer(name, element).len_times(2, "n").active()
    };
    let raw = |name, bytes| Param::buffer(name, Element::bytes(bytes));
    let params = [
        grains("now"),
        raw("old", 16).len("n"),
        raw("offsets", 8).len("n"),
        raw("lists", 4),
        grains("next"),
        raw("trouble", 4).len_fixed(1),
        Param::value("n"),
    ];
    // SAFETY: thread i reads what belongs to grain i and to those in its list, which are
    // below n, and writes what belongs to grain i, or by atomics.
    Ok(unsafe { spec("step", params).differentiate(&gpu.context, &source) }?)
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, SIDE)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, side: usize) -> Result<Vec<Row>, Stop> {
    let (stream, op, replays) = (&gpu.stream, operation(gpu)?, Replays::new(gpu, samples)?);
    let sets =
        (0..SETS as u64).map(|seed| Set::new(gpu, side, seed)).collect::<Result<Vec<_>, _>>()?;
    let row = |name, times: &[f64], what: &str, right: usize| {
        let check = format!("{what} of {right} grains equal f64 to 1e-4, over {SETS} inputs");
        Row::new(name, Unit::Ms, times).check(check).device(&gpu.name)
    };
    let (times, mut sets) = replays
        .run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].forward(stream, &op))?;
    let right = sets.iter().map(|set| set.check_speeds(stream)).sum::<Result<usize, _>>()?;
    let forward = row(NAMES[0], &times, "velocities", right);
    for set in &mut sets {
        set.forward(stream, &op)?;
        // So that the pass that is captured has enough scratch memory.
        set.backward(stream)?;
    }
    let (times, sets) =
        replays.run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
    let right = sets.iter().map(|set| set.check_gradients(stream)).sum::<Result<usize, _>>()?;
    let backward = row(NAMES[1], &times, "gradients", right);
    let ratio = backward.stats.median / forward.stats.median;
    let backward = backward.note(format!("{ratio:.2} of forward"));
    Ok(vec![forward, backward.figure("of_forward", ratio).at_most("of_forward", ratio, MOST_RATIO)])
}
