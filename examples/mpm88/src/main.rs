//! A block of fluid is thrown so that its centre of mass comes to a target, found by gradients through all steps of a
//! simulation. `mpm88 [cpu]`: on a CPU there is no tape, and the block is thrown as it is.

use std::error::Error;
use std::path::Path;

use bytemuck::Zeroable;
use cuda_safe::kernel::Place;
use cuda_safe::{Context, DeviceBuffer, Stream};
use tape::{Seeds, Tape, Variable};

mod mpm;
#[cfg(test)]
mod tests;

use mpm::{Particle, STEPS, Simulation};

type Float = f32;

/// Steps for each cell that the unit square is wide: 0.35 seconds.
const DURATION: usize = 14;
const START: [Float; 2] = [0.25, 0.6];
const TARGET: [Float; 2] = [0.7, 0.3];
/// Metres a second.
const FIRST: [Float; 2] = [4.0, 1.0];
/// Pixels of the picture, along each side.
const SIZE: usize = 512;

fn main() -> Result<(), Box<dyn Error>> {
    let context = if std::env::args().nth(1).is_some() { None } else { Context::new(0).ok() };
    let stream = context.as_ref().map(Context::stream).transpose()?;
    let place = stream.as_ref().map_or(Place::Cpu, Place::Gpu);
    let name = context.as_ref().map_or(Ok("the CPU".to_owned()), |it| it.device().name())?;
    let nodes = if name.contains("software") { 32 } else { 64 };
    let (steps, block) = (DURATION * nodes, block(nodes));
    println!("{name}: {} particles, {nodes} x {nodes} nodes, {steps} steps", block.len());

    let mut simulation = Simulation::new(place, nodes, &block)?;
    let velocity = match &stream {
        Some(stream) => aim(stream, &mut simulation, nodes, steps)?,
        None => FIRST.map(|v| v / STEPS),
    };
    simulation.throw(velocity)?;
    let mut frames = Vec::new();
    for step in 0..=steps {
        if step % (steps / 4) == 0 {
            frames.push(simulation.particles.to_vec(place)?);
        }
        simulation.step()?;
    }
    let size = [SIZE as u32; 2];
    example_common::save(Path::new("target/mpm88/mpm88.png"), size, &draw(&frames, nodes))
}

/// A square at rest that is a quarter of the unit square wide.
fn block(nodes: usize) -> Vec<Particle> {
    let side = nodes / 2;
    let place = |i: usize, axis: usize| {
        START[axis] * nodes as Float + 0.5 * (i as Float + 0.5 - 0.5 * side as Float)
    };
    let at = |i| [place(i % side, 0), place(i / side, 1)];
    let particle = |i| Particle { x: at(i), j: 1.0, ..Zeroable::zeroed() };
    (0..side * side).map(particle).collect()
}

/// Searches the velocity with which the centre of mass is at the target after `steps`: by gradient descent
/// with momentum.
fn aim(
    stream: &Stream,
    simulation: &mut Simulation<'_>,
    nodes: usize,
    steps: usize,
) -> Result<[Float; 2], Box<dyn Error>> {
    let mut tape = Tape::new(stream)?;
    let mut thrown = Variable::new(stream, FIRST.map(|v| v / STEPS))?;
    let mut step = [0.0; 2];
    for _ in 0..40 {
        let centre = simulation.record(&mut tape, &thrown, steps)?;
        let at = centre.to_vec(stream)?;
        let off: Vec<_> = at.iter().zip(TARGET).map(|(x, t)| x - t * nodes as Float).collect();
        let miss = off[0].hypot(off[1]) / nodes as Float;
        let [x, y] = thrown.get().map(|v| v * STEPS);
        println!("thrown by {x:6.3} {y:6.3} m/s, the block is {miss:.5} m off");
        if miss < 2e-3 {
            return Ok(thrown.get());
        }
        // Of half the square of the distance.
        let seed = DeviceBuffer::from_slice(stream, &off)?;
        tape.backward_with(stream, &Seeds::new().with(centre, &seed)?)?;
        let gradient = tape.gradient(&thrown)?.to_vec(stream)?[0];
        // In free flight the second derivative is the square of the number of steps.
        let rate = 1.0 / (steps as Float * steps as Float);
        step = [0, 1].map(|k| 0.6 * step[k] - rate * gradient[k]);
        let [x, y] = thrown.get();
        thrown.set([x + step[0], y + step[1]]);
    }
    Err("no throw was found".into())
}

/// Draws particles as squares, the first frame pale and the last one strong, and a cross at the target.
fn draw(frames: &[Vec<Particle>], nodes: usize) -> Vec<u8> {
    let mut picture = vec![250; 3 * SIZE * SIZE];
    let scale = SIZE as Float / nodes as Float;
    let mut fill = |[x, y]: [Float; 2], [width, height]: [Float; 2], colour: [u8; 3]| {
        let range =
            |from: Float, to: Float| from.max(0.0) as usize..(to.max(0.0) as usize).min(SIZE);
        for row in range(SIZE as Float - y - height, SIZE as Float - y + height) {
            for column in range(x - width, x + width) {
                let pixel = 3 * (row * SIZE + column);
                picture[pixel..pixel + 3].copy_from_slice(&colour);
            }
        }
    };
    for (number, frame) in frames.iter().enumerate() {
        let part = number as Float / (frames.len() - 1) as Float;
        let colour = [[205.0, 30.0], [222.0, 90.0], [236.0, 170.0]];
        let colour = colour.map(|[first, last]| (first + part * (last - first)) as u8);
        for particle in frame {
            fill(particle.x.map(|x| x * scale), [0.25 * scale; 2], colour);
        }
    }
    for arm in [[12.0, 1.5], [1.5, 12.0]] {
        fill(TARGET.map(|t| t * SIZE as Float), arm, [220, 40, 30]);
    }
    picture
}
