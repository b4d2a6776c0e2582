//! A fluid by the material point method (MLS-MPM: Y. Hu and others, 2018), as in the 88 lines of Taichi's mpm88: particles
//! give their momentum to a grid, the grid moves, and particles take their velocity from it. Lengths are in cells, and times
//! in steps.

use bytemuck::{Pod, Zeroable};
use cuda_safe::kernel::{Atomic, Device, Memory, Place, device, kernel};
use cuda_safe::{DeviceBuffer, Error, Result};
use tape::{Tape, Variable};

use super::Float;

/// A unit of length has `nodes` cells, and a second `nodes` times as many steps as this.
pub(crate) const STEPS: Float = 40.0;
pub(crate) const GRAVITY: Float = 9.8;
/// How many nodes thick the walls are.
const WALL: usize = 3;
/// Four times the square of the speed of sound.
const STIFFNESS: Float = 0.25;

/// A quarter of a cell of fluid. `c[i][k]` is the derivative of `v[i]` along axis `k`, and `j` the volume relative to that at
/// rest.
#[derive(Debug, Clone, Copy, PartialEq, Device, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Particle {
    pub(crate) x: [Float; 2],
    pub(crate) v: [Float; 2],
    pub(crate) c: [[Float; 2]; 2],
    pub(crate) j: Float,
}

/// The first of 3 x 3 nodes around a place, the place relative to it, and the nodes' weights along each axis.
#[device]
fn around(x: [Float; 2]) -> ([usize; 2], [Float; 2], [[Float; 2]; 3]) {
    let (mut base, mut f, mut w) = ([0usize; 2], [0.0; 2], [[0.0; 2]; 3]);
    for k in 0..2usize {
        base[k] = (x[k] - 0.5) as usize;
        f[k] = x[k] - base[k] as Float;
        w[0][k] = 0.5 * (1.5 - f[k]) * (1.5 - f[k]);
        w[1][k] = 0.75 - (f[k] - 1.0) * (f[k] - 1.0);
        w[2][k] = 0.5 * (f[k] - 0.5) * (f[k] - 0.5);
    }
    (base, f, w)
}

/// Adds momentum and mass of particles, one for each thread, to the nodes around them.
#[kernel(gradient)]
fn scatter(nodes: usize, particles: &[Particle], threads: &mut [u8], sums: &Atomic<[Float]>) {
    assert!(particles.len() == threads.len() && sums.len() == 3 * nodes * nodes);
    each(threads, |i, _| {
        let Particle { x, v, c, j } = particles[i];
        let (base, f, w) = around(x);
        for n in 0..9usize {
            let (column, row) = (n % 3, n / 3);
            let weight = w[column][0] * w[row][1];
            let d = [column as Float - f[0], row as Float - f[1]];
            let node = 3 * ((base[1] + row) * nodes + base[0] + column);
            for k in 0..2usize {
                let affine = v[k] + c[k][0] * d[0] + c[k][1] * d[1];
                sums.fetch_add(node + k, weight * (affine + STIFFNESS * (1.0 - j) * d[k]));
            }
            sums.fetch_add(node + 2, weight);
        }
    });
}

/// Makes velocities of what was added up at the nodes. They fall, and do not go into walls.
#[kernel(gradient)]
fn advance(nodes: usize, sums: &[Float], velocities: &mut [[Float; 2]]) {
    assert!(sums.len() == 3 * velocities.len());
    each(image(velocities, [nodes, nodes]), |at, velocity| {
        let first = 3 * (at[1] * nodes + at[0]);
        let mass = sums[first + 2];
        let mut v = [0.0; 2];
        if mass > 0.0 {
            let fall = GRAVITY / (STEPS * STEPS * nodes as Float);
            v = [sums[first] / mass, sums[first + 1] / mass - fall];
        }
        for k in 0..2usize {
            if (at[k] < WALL && v[k] < 0.0) || (at[k] + WALL > nodes && v[k] > 0.0) {
                v[k] = 0.0;
            }
        }
        *velocity = v;
    });
}

/// Moves particles with the nodes around them.
#[kernel(gradient)]
fn gather(nodes: usize, velocities: &[[Float; 2]], particles: &mut [Particle]) {
    assert!(velocities.len() == nodes * nodes);
    each(particles, |_, particle| {
        let Particle { x, j, .. } = *particle;
        let (base, f, w) = around(x);
        let (mut v, mut c) = ([0.0; 2], [[0.0; 2]; 2]);
        for n in 0..9usize {
            let (column, row) = (n % 3, n / 3);
            let weight = w[column][0] * w[row][1];
            let d = [column as Float - f[0], row as Float - f[1]];
            let velocity = velocities[(base[1] + row) * nodes + base[0] + column];
            for k in 0..2usize {
                v[k] += weight * velocity[k];
                c[k][0] += 4.0 * weight * velocity[k] * d[0];
                c[k][1] += 4.0 * weight * velocity[k] * d[1];
            }
        }
        let x = [x[0] + v[0], x[1] + v[1]];
        *particle = Particle { x, v, c, j: j * (1.0 + c[0][0] + c[1][1]) };
    });
}

/// Gives all particles a velocity.
#[kernel(gradient)]
fn throw(#[active] velocity: [Float; 2], start: &[Particle], particles: &mut [Particle]) {
    assert!(start.len() == particles.len());
    each(particles, |i, particle| {
        *particle = start[i];
        particle.v = velocity;
    });
}

/// Adds up the centre of mass.
#[kernel(gradient)]
fn centre(particles: &[Particle], threads: &mut [u8], centre: &Atomic<[Float]>) {
    assert!(particles.len() == threads.len() && centre.len() == 2);
    each(threads, |i, _| {
        for k in 0..2usize {
            centre.fetch_add(k, particles[i].x[k] / particles.len() as Float);
        }
    });
}

/// A simulation on a device or on the CPU.
pub(crate) struct Simulation<'s> {
    place: Place<'s>,
    nodes: usize,
    start: Memory<Particle>,
    pub(crate) particles: Memory<Particle>,
    threads: Memory<u8>,
    pub(crate) sums: Memory<Float>,
    velocities: Memory<[Float; 2]>,
    centre: Memory<Float>,
}

impl<'s> Simulation<'s> {
    pub(crate) fn new(place: Place<'s>, nodes: usize, start: &[Particle]) -> Result<Self> {
        Ok(Self {
            place,
            nodes,
            start: Memory::from_slice(place, start)?,
            particles: Memory::from_slice(place, start)?,
            threads: Memory::zeroed(place, start.len())?,
            sums: Memory::zeroed(place, 3 * nodes * nodes)?,
            velocities: Memory::zeroed(place, nodes * nodes)?,
            centre: Memory::zeroed(place, 2)?,
        })
    }

    /// Goes back to the start, with another velocity.
    pub(crate) fn throw(&mut self, velocity: [Float; 2]) -> Result<()> {
        throw::launch(self.place, velocity, &self.start, &mut self.particles)
    }

    pub(crate) fn step(&mut self) -> Result<()> {
        let Self { place, nodes, particles, threads, sums, velocities, .. } = self;
        sums.fill(*place, 0.0)?;
        scatter::launch(*place, *nodes, &*particles, threads, &mut *sums)?;
        advance::launch(*place, *nodes, &*sums, &mut *velocities)?;
        gather::launch(*place, *nodes, &*velocities, particles)
    }

    /// Records a throw and `steps` steps. Returns the centre of mass after them.
    pub(crate) fn record(
        &mut self,
        tape: &mut Tape,
        thrown: &Variable<[Float; 2]>,
        steps: usize,
    ) -> Result<&DeviceBuffer<Float>> {
        use Memory::Device;
        let nodes = self.nodes;
        let Self {
            place: Place::Gpu(stream),
            start: Device(start),
            particles: Device(particles),
            threads: Device(threads),
            sums: Device(sums),
            velocities: Device(velocities),
            centre: Device(centre),
            ..
        } = self
        else {
            return Err(Error::invalid("a tape needs a device"));
        };
        tape.record_again(stream, |t| {
            t.watch(thrown)?;
            throw::record(t, thrown, &*start, &mut *particles)?;
            for _ in 0..steps {
                t.fill(&mut *sums, 0.0)?;
                scatter::record(t, nodes, &*particles, &mut *threads, &mut *sums)?;
                advance::record(t, nodes, &*sums, &mut *velocities)?;
                gather::record(t, nodes, &*velocities, &mut *particles)?;
            }
            t.fill(&mut *centre, 0.0)?;
            centre::record(t, &*particles, &mut *threads, &mut *centre)
        })?;
        Ok(centre)
    }
}
