//! A block of grains that falls, slides and breaks, in pictures: `dem [layers [frames [side]]]`.

mod picture;
mod step;

use cuda_safe::kernel::{Memory, Place, random::Random, vector::Vec4};
use example_common::places::{Grid, Machine, copy};
use std::{error::Error, mem::swap, time::Instant};

/// Positions and velocities of grains.
type Grains = (Memory<Vec4>, Memory<Vec4>);
/// The grid, the grains now and next, where they were when their neighbours were listed, and the lists.
type State = (Grid, Grains, Grains, Memory<Vec4>, Memory<u64>, Memory<u32>);

/// A frame. Neighbours are listed in every fourth step.
fn frame(place: Place<'_>, state: &mut State) -> cuda_safe::Result<()> {
    let (grid, now, next, old, offsets, lists) = state;
    for number in 0..64 {
        if number % 4 == 0 {
            copy(place, &now.0, old)?;
            grid.rebuild(place, &now.0, step::REACH)?;
            grid.neighbors(place, step::REACH, offsets, lists)?;
        }
        let ((x, v), (next_x, next_v)) = (&*now, &mut *next);
        step::step::launch(place, x, v, &*old, &*offsets, &*lists, next_x, next_v)?;
        swap(now, next);
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let machine = Machine::find()?;
    let on = |gpu, slow| if machine.is_gpu { gpu } else { slow };
    let mut given = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let layers = given.next().transpose()?.unwrap_or(on(128, 24));
    let frames = given.next().transpose()?.unwrap_or(on(240, 40));
    let slow = if machine.software { 6 } else { 12 };
    let side = given.next().transpose()?.unwrap_or(on(32, slow)).max(1);
    let (layer, n) = (side * side, side * side * layers);
    println!("{}: {n} grains, {frames} frames (fewer by default without a GPU)", machine.name);

    // Layers of `side` × `side` grains, moved a little at random.
    let mut random = Random::new(42, 0);
    let mut at = |i: usize| 0.2 * i as f32 + 0.01 * random.uniform();
    let x = |i| Vec4::new(at(i % side), 0.5 + at(i / layer), at(i / side % side), 0.0);
    let v = |i| Vec4::new(0.0, 0.0, 15.0, (i / layer) as f32 / layers as f32);
    let (x, v): (Vec<_>, Vec<_>) = ((0..n).map(x).collect(), (0..n).map(v).collect());
    let place = machine.place();
    let memory = |values: &[Vec4]| Memory::from_slice(place, values);
    let (now, next) = ((memory(&x)?, memory(&v)?), (memory(&x)?, memory(&v)?));
    let lists = (Memory::zeroed(place, n + 1)?, Memory::zeroed(place, 32 * n)?);
    let state = (Grid::new(place, n)?, now, next, memory(&x)?, lists.0, lists.1);
    let mut frame = machine.repeat(state, frame)?;

    let camera = picture::Camera::new([layers, side], on(1080, 480));
    let mut seconds = 0.0;
    for number in indicatif::ProgressIterator::progress(0..frames) {
        let start = Instant::now();
        frame.run()?; // an error if grains are too fast or too dense for their lists
        seconds += start.elapsed().as_secs_f64();
        let (grid, (x, v), ..) = frame.state_mut();
        camera.take(place, grid, [x, v], number)?;
    }
    if !machine.software {
        println!("{:.2} ms a frame", seconds * 1e3 / frames as f64);
    }
    println!("pictures in target/dem");
    Ok(())
}
