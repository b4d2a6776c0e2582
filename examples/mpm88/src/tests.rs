//! A step against the same by plain loops in f64, and gradients against differences.

use cuda_safe::kernel::Place;
use cuda_safe::{Context, DeviceBuffer, Driver};
use tape::{Seeds, Tape, Variable};

use crate::mpm;

/// That of the kernels in `wide`.
type Float = f64;

#[allow(clippy::duplicate_mod, reason = "the other one is of f32")]
#[path = "mpm.rs"]
mod wide;
use wide::{Particle, Simulation};

const NODES: usize = 16;
/// What nodes fall by in a step.
const FALL: f64 = 9.8 / 40.0 / 40.0 / NODES as f64;

fn narrow(p: &Particle) -> mpm::Particle {
    let two = |a: [f64; 2]| a.map(|x| x as f32);
    mpm::Particle { x: two(p.x), v: two(p.v), c: p.c.map(two), j: p.j as f32 }
}

fn numbers(p: &Particle) -> [f64; 9] {
    let Particle { x, v, c: [a, b], j } = *p;
    [x[0], x[1], v[0], v[1], a[0], a[1], b[0], b[1], j]
}

fn software_device() -> Context {
    let driver = Driver::from_sys(cuda_emu::driver()).unwrap();
    driver.device(0).unwrap().context().unwrap()
}

/// Particles between `low` and `high` along both axes.
fn particles(n: usize, seed: u32, [low, high]: [f64; 2]) -> Vec<Particle> {
    let mut seed = seed;
    let mut random = |from: f64, to: f64| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        from + (to - from) * f64::from(seed >> 8) / f64::from(1u32 << 24)
    };
    let mut two = |from, to| [random(from, to), random(from, to)];
    (0..n)
        .map(|_| Particle {
            x: two(low, high),
            v: two(-0.4, 0.4),
            c: [two(-0.2, 0.2), two(-0.2, 0.2)],
            j: two(0.8, 1.2)[0],
        })
        .collect()
}

fn spline(distance: f64) -> f64 {
    match distance.abs() {
        d if d < 0.5 => 0.75 - d * d,
        d if d < 1.5 => 0.5 * (1.5 - d) * (1.5 - d),
        _ => 0.0,
    }
}

/// A step, over all pairs of a particle and a node.
fn oracle(particles: &[Particle]) -> Vec<Particle> {
    let nodes = || (0..NODES * NODES).map(|at| [at % NODES, at / NODES]);
    let away = |p: &Particle, node: [usize; 2]| [0, 1].map(|k| node[k] as f64 - p.x[k]);
    let weight = |d: [f64; 2]| spline(d[0]) * spline(d[1]);
    let velocity = |node: [usize; 2]| {
        let (mut momentum, mut mass) = ([0.0; 2], 0.0);
        for p in particles {
            let d = away(p, node);
            for k in 0..2 {
                let affine = p.c[k][0] * d[0] + p.c[k][1] * d[1];
                momentum[k] += weight(d) * (p.v[k] + affine + 0.25 * (1.0 - p.j) * d[k]);
            }
            mass += weight(d);
        }
        if mass == 0.0 {
            return [0.0; 2];
        }
        let fallen = [momentum[0] / mass, momentum[1] / mass - FALL];
        [0, 1].map(|k| match node[k] {
            0..3 => fallen[k].max(0.0),
            at if at > NODES - 3 => fallen[k].min(0.0),
            _ => fallen[k],
        })
    };
    let velocities: Vec<_> = nodes().map(|node| (node, velocity(node))).collect();
    let moved = |p: &Particle| {
        let mut p = Particle { v: [0.0; 2], c: [[0.0; 2]; 2], ..*p };
        for (node, velocity) in &velocities {
            let d = away(&p, *node);
            for (k, velocity) in velocity.iter().enumerate() {
                p.v[k] += weight(d) * velocity;
                p.c[k] = [0, 1].map(|l| p.c[k][l] + 4.0 * weight(d) * velocity * d[l]);
            }
        }
        p.x = [0, 1].map(|k| p.x[k] + p.v[k]);
        p.j *= 1.0 + p.c[0][0] + p.c[1][1];
        p
    };
    particles.iter().map(moved).collect()
}

fn agree(found: &[Particle], wanted: &[Particle], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        let near = |(a, b): (f64, f64)| (a - b).abs() <= tolerance * b.abs().max(1.0);
        assert!(
            numbers(found).into_iter().zip(numbers(wanted)).all(near),
            "{found:?}, not {wanted:?}"
        );
    }
}

fn widened(found: &[mpm::Particle]) -> Vec<Particle> {
    let two = |a: [f32; 2]| a.map(f64::from);
    let wide =
        |p: &mpm::Particle| Particle { x: two(p.x), v: two(p.v), c: p.c.map(two), j: p.j.into() };
    found.iter().map(wide).collect()
}

#[test]
fn a_step_is_that_by_plain_loops() {
    let stream = software_device().stream().unwrap();
    let places = [Place::Gpu(&stream), Place::Cpu];
    for (place, n) in places.into_iter().flat_map(|place| [0, 1, 2, 33, 200].map(|n| (place, n))) {
        let start = particles(n, 7 + n as u32, [2.6, NODES as f64 - 2.6]);
        let mut simulation = Simulation::new(place, NODES, &start).unwrap();
        simulation.step().unwrap();
        let wanted = oracle(&start);
        agree(&simulation.particles.to_vec(place).unwrap(), &wanted, 1e-12);
        // The nodes have all of the mass and the momentum.
        let sums = simulation.sums.to_vec(place).unwrap();
        let total = |k: usize| sums.iter().skip(k).step_by(3).sum::<f64>();
        assert!((total(2) - n as f64).abs() <= 1e-10);
        for k in 0..2 {
            assert!((total(k) - start.iter().map(|p| p.v[k]).sum::<f64>()).abs() <= 1e-10);
        }

        let start: Vec<_> = start.iter().map(narrow).collect();
        let mut simulation = mpm::Simulation::new(place, NODES, &start).unwrap();
        simulation.step().unwrap();
        agree(&widened(&simulation.particles.to_vec(place).unwrap()), &wanted, 1e-5);
    }
}

#[test]
fn momentum_only_falls_and_what_leaves_the_grid_is_an_error() {
    let start = particles(100, 3, [7.0, 9.0]);
    let mut simulation = Simulation::new(Place::Cpu, NODES, &start).unwrap();
    let momentum = |all: &[Particle], k: usize| all.iter().map(|p| p.v[k]).sum::<f64>();
    for step in 1..=5 {
        simulation.step().unwrap();
        let now = simulation.particles.to_vec(Place::Cpu).unwrap();
        let fallen = 100.0 * FALL * f64::from(step);
        assert!((momentum(&now, 0) - momentum(&start, 0)).abs() <= 1e-10);
        assert!((momentum(&now, 1) - momentum(&start, 1) + fallen).abs() <= 1e-10);
    }
    let outside = [Particle { x: [NODES as f64 + 4.0; 2], ..start[0] }];
    let mut simulation = Simulation::new(Place::Cpu, NODES, &outside).unwrap();
    assert!(simulation.step().unwrap_err().to_string().contains("index"));
}

/// The derivatives of both coordinates of the centre of mass by those of the velocity.
macro_rules! by_tape {
    ($simulation:expr, $stream:expr, $thrown:expr, $steps:expr) => {{
        let thrown = Variable::new($stream, $thrown).unwrap();
        let mut tape = Tape::new($stream).unwrap();
        let centre = $simulation.record(&mut tape, &thrown, $steps).unwrap();
        [[1.0, 0.0], [0.0, 1.0]].map(|seed| {
            let seed = DeviceBuffer::from_slice($stream, &seed).unwrap();
            let seeds = Seeds::new().with(centre, &seed).unwrap();
            tape.backward_with($stream, &seeds).unwrap();
            tape.gradient(&thrown).unwrap().to_vec($stream).unwrap()[0].map(f64::from)
        })
    }};
}

#[test]
fn gradients_are_those_by_differences() {
    let context = software_device();
    let stream = context.stream().unwrap();
    let (steps, thrown) = (40, [0.15, -0.1]);
    let start = particles(60, 11, [4.0, 9.0]);
    let centre = |thrown: [f64; 2]| {
        let mut simulation = Simulation::new(Place::Cpu, NODES, &start).unwrap();
        simulation.throw(thrown).unwrap();
        (0..steps).for_each(|_| simulation.step().unwrap());
        let end = simulation.particles.to_vec(Place::Cpu).unwrap();
        [0, 1].map(|k| end.iter().map(|p| p.x[k]).sum::<f64>() / end.len() as f64)
    };
    let slopes = [[1e-6, 0.0], [0.0, 1e-6]].map(|[x, y]| {
        let right = centre([thrown[0] + x, thrown[1] + y]);
        let left = centre([thrown[0] - x, thrown[1] - y]);
        [0, 1].map(|of| (right[of] - left[of]) / 2e-6)
    });
    let wanted = [0, 1].map(|of| slopes.map(|slope| slope[of]));
    // Walls take some of the 40 cells that a cell a step would be without them.
    assert!(wanted[0][0] < 39.0 && wanted[1][1] < 39.0, "{wanted:?}");
    let compare = |found: [[f64; 2]; 2], tolerance: f64| {
        let off = |of: usize, by: usize| (found[of][by] - wanted[of][by]).abs();
        let most = (0..4).map(|at| off(at / 2, at % 2)).fold(0.0, f64::max);
        assert!(most <= tolerance * steps as f64, "{found:?}, not {wanted:?}");
    };
    let mut simulation = Simulation::new(Place::Gpu(&stream), NODES, &start).unwrap();
    compare(by_tape!(simulation, &stream, thrown, steps), 1e-7);
    let start: Vec<_> = start.iter().map(narrow).collect();
    let place = Place::Gpu(&stream);
    let mut simulation = mpm::Simulation::new(place, NODES, &start).unwrap();
    compare(by_tape!(simulation, &stream, thrown.map(|v| v as f32), steps), 1e-3);

    let mut simulation = Simulation::new(Place::Cpu, NODES, &[]).unwrap();
    let thrown = Variable::new(&stream, thrown).unwrap();
    assert!(simulation.record(&mut Tape::new(&stream).unwrap(), &thrown, 1).is_err());
}

#[test]
fn a_throw_is_found() {
    let context = software_device();
    let stream = context.stream().unwrap();
    let nodes = 24;
    let (block, steps) = (crate::block(nodes), crate::DURATION * nodes);
    let mut simulation = mpm::Simulation::new(Place::Gpu(&stream), nodes, &block).unwrap();
    let thrown = crate::aim(&stream, &mut simulation, nodes, steps).unwrap();
    let mut simulation = mpm::Simulation::new(Place::Cpu, nodes, &block).unwrap();
    simulation.throw(thrown).unwrap();
    (0..steps).for_each(|_| simulation.step().unwrap());
    let end = simulation.particles.to_vec(Place::Cpu).unwrap();
    for k in 0..2 {
        let centre = end.iter().map(|p| p.x[k]).sum::<f32>() / (end.len() * nodes) as f32;
        assert!((centre - crate::TARGET[k]).abs() <= 3e-3, "{centre}");
    }
}
