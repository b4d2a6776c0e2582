//! One step of the example `trajectory`, for a million balls: the kernel, and its generated adjoint.

use cuda_safe::{DeviceBuffer, Stream};
use tape::{Seeds, Tape};

use super::oracle::{check_states, chosen, slopes};
use crate::data::random;
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::rows::Bench;
use crate::stop::Stop;

#[path = "../../../../examples/trajectory/src/ball.rs"]
mod ball;

pub(super) const NAMES: [&str; 2] =
    ["tape_forward_flight_step/1000000", "tape_backward_flight_step/1000000"];

const N: usize = 1_000_000;
/// Of each set, how many balls' gradients are compared.
const COMPARED: usize = 2500;
/// Of the forward kernel.
const MOST_RATIO: f64 = 3.0;
/// Gravity, drag, radius, wall, and what stays of a velocity towards what is hit and along it.
const WORLD: [f32; 6] = [9.81, 0.02, 0.1, 1.5, 0.8, 0.9];
const DT: f32 = 0.05;

type State = [f64; 4];

fn fly([x, y, u, v]: State, t: f64) -> State {
    let [a, b] = acceleration([u, v]);
    [x + t * (u + 0.5 * t * a), y + t * (v + 0.5 * t * b), u + t * a, v + t * b]
}

fn acceleration([u, v]: [f64; 2]) -> [f64; 2] {
    let [gravity, drag, ..] = WORLD.map(f64::from);
    let speed = u.hypot(v);
    [-drag * speed * u, -gravity - drag * speed * v]
}

/// When a gap closes within a step, if it does.
fn hit(gap: f64, v: f64, a: f64, t: f64) -> Option<f64> {
    if gap + t * (v + 0.5 * t * a) >= 0.0 {
        None
    } else if gap > 0.0 {
        let root = (v * v - 2.0 * a * gap).max(0.0).sqrt();
        Some((2.0 * gap / (root - v)).min(t))
    } else {
        (v < 0.0).then_some(0.0)
    }
}

/// Where a ball is after a step: `step` of ball.rs.
fn step(s: State) -> State {
    let [_, _, radius, wall, bounce, slide] = WORLD.map(f64::from);
    let (t, [a, b]) = (f64::from(DT), acceleration([s[2], s[3]]));
    let ground = hit(s[1] - radius, s[3], b, t).map(|time| (time, 1));
    let side = hit(wall - radius - s[0], -s[2], -a, t).map(|time| (time, 0));
    let first = match (ground, side) {
        (Some(ground), Some(side)) => Some(if side.0 < ground.0 { side } else { ground }),
        (ground, side) => ground.or(side),
    };
    let Some((time, axis)) = first else { return fly(s, t) };
    let mut s = fly(s, time);
    s[2 + axis] *= -bounce;
    s[3 - axis] *= slide;
    fly(s, t - time)
}

/// Place and velocity.
type Ball = [[f32; 2]; 2];

fn numbers([[x, y], [u, v]]: Ball) -> [f32; 4] {
    [x, y, u, v]
}

struct Set {
    host: Vec<[f32; 4]>,
    host_g: Vec<[f32; 4]>,
    from: DeviceBuffer<Ball>,
    to: DeviceBuffer<Ball>,
    g: DeviceBuffer<Ball>,
    tape: Tape,
}

impl Set {
    fn new(gpu: &Gpu, n: usize, seed: u64) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let four = |v: &[f32]| [v[0], v[1], v[2], v[3]];
        // Above the ground, before the wall: a third of them hits something.
        let ball = |v: &[f32]| [0.75 + 0.6 * v[0], 1.0 + 0.85 * v[1], 6.0 * v[2], 6.0 * v[3]];
        let host: Vec<_> = random(4 * n, 660 + seed).chunks_exact(4).map(ball).collect();
        let host_g: Vec<_> = random(4 * n, 670 + seed).chunks_exact(4).map(four).collect();
        let upload = |all: &[[f32; 4]]| {
            let all: Vec<Ball> = all.iter().map(|&[x, y, u, v]| [[x, y], [u, v]]).collect();
            DeviceBuffer::from_slice(stream, &all)
        };
        Ok(Self {
            from: upload(&host)?,
            to: DeviceBuffer::zeroed(stream, n)?,
            g: upload(&host_g)?,
            tape: Tape::new(stream)?,
            host,
            host_g,
        })
    }

    fn forward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let [gravity, drag, radius, wall, bounce, slide] = WORLD;
        let world = ball::World { gravity, drag, radius, wall, bounce, slide };
        let Self { from, to, tape, .. } = self;
        tape.record_again(stream, |t| {
            t.watch(&*from)?;
            ball::step::record(t, world, DT, &*from, &mut *to)
        })
    }

    fn backward(&mut self, stream: &Stream) -> cuda_safe::Result<()> {
        let Self { to, g, tape, .. } = self;
        tape.backward_with(stream, &Seeds::new().with(&*to, &*g)?)
    }

    fn check_ends(&self, stream: &Stream) -> Result<usize, Stop> {
        let found = self.to.to_vec(stream)?;
        let chosen = chosen(found.len(), COMPARED);
        let host = &self.host;
        let state = |i: usize, moved: f64| step(host[i].map(|x| f64::from(x) + moved));
        check_states(&|i| numbers(found[i]), &chosen, state)
    }

    fn check_gradients(&self, stream: &Stream) -> Result<usize, Stop> {
        let found = self.tape.gradient(&self.from)?.to_vec(stream)?;
        let chosen = chosen(found.len(), COMPARED);
        let (host, g) = (&self.host, &self.host_g);
        let wanted = |i: usize, moved: f64| {
            let of =
                |state| step(state).iter().zip(g[i]).map(|(x, g)| x * f64::from(g)).sum::<f64>();
            slopes(host[i].map(|x| f64::from(x) + moved), of)
        };
        check_states(&|i| numbers(found[i]), &chosen, wanted)
    }
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    measure(bench.gpu()?, bench.samples, N)
}

pub(super) fn measure(gpu: &Gpu, samples: usize, n: usize) -> Result<Vec<Row>, Stop> {
    let (stream, replays) = (&gpu.stream, Replays::new(gpu, samples)?);
    // A capture can't load the adjoint.
    tape::derivation(stream, ball::step::kernel())?;
    let sets =
        (0..SETS as u64).map(|seed| Set::new(gpu, n, seed)).collect::<Result<Vec<_>, _>>()?;
    let row = |name, times: &[f64], what: &str, right: usize| {
        let check = format!("{what} of {right} balls equal f64 to 1e-4, over {SETS} inputs");
        Row::new(name, Unit::Ms, times).check(check).device(&gpu.name)
    };
    let (times, mut sets) =
        replays.run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].forward(stream))?;
    let right = sets.iter().map(|set| set.check_ends(stream)).sum::<Result<usize, _>>()?;
    let forward = row(NAMES[0], &times, "states", right);
    for set in &mut sets {
        set.forward(stream)?;
    }
    let (times, sets) =
        replays.run(sets, |stream, sets: &mut Vec<Set>, number| sets[number].backward(stream))?;
    let right = sets.iter().map(|set| set.check_gradients(stream)).sum::<Result<usize, _>>()?;
    let backward = row(NAMES[1], &times, "gradients", right);
    let ratio = backward.stats.median / forward.stats.median;
    let backward = backward.note(format!("{ratio:.2} of forward"));
    Ok(vec![forward, backward.figure("of_forward", ratio).at_most("of_forward", ratio, MOST_RATIO)])
}
