//! A block of grains that falls, slides and breaks, in pictures: `dem [layers [frames [side]]]`.

mod cpu;
mod picture;
mod step;

use cuda_safe::kernel::{random::Random, vector::Vec4};
use cuda_safe::{Context, DeviceBuffer};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};
use std::{error::Error, mem::swap, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new(0).ok();
    let device = context.as_ref().map_or(Ok("the CPU".to_owned()), |it| it.device().name())?;
    let software = device.contains("software");
    let on = |gpu, slow| if software || context.is_none() { slow } else { gpu };
    let mut given = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let layers = given.next().transpose()?.unwrap_or(on(128, 24));
    let frames = given.next().transpose()?.unwrap_or(on(240, 40));
    let side = given.next().transpose()?.unwrap_or(on(32, if software { 6 } else { 12 })).max(1);
    let (layer, n) = (side * side, side * side * layers);
    println!("{device}: {n} grains, {frames} frames (fewer by default without a GPU)");

    // Layers of `side` × `side` grains, moved a little at random.
    let mut random = Random::new(42, 0);
    let mut place = |i: usize| 0.2 * i as f32 + 0.01 * random.uniform();
    let x = |i| Vec4::new(place(i % side), 0.5 + place(i / layer), place(i / side % side), 0.0);
    let v = |i| Vec4::new(0.0, 0.0, 15.0, (i / layer) as f32 / layers as f32);
    let (x, v): (Vec<_>, Vec<_>) = ((0..n).map(x).collect(), (0..n).map(v).collect());
    let Some(context) = &context else { return cpu::run([layers, frames, side], (x, v)) };
    let stream = context.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &x)?;
    let v = DeviceBuffer::from_slice(&stream, &v)?;
    let (old, next) = (x.try_clone(&stream)?, (x.try_clone(&stream)?, v.try_clone(&stream)?));
    let offsets = DeviceBuffer::<u64>::zeroed(&stream, n + 1)?;
    let lists = DeviceBuffer::<u32>::zeroed(&stream, 32 * n)?;
    let mut grid = HashGrid::new(&stream, &GeometryKernels::new(context), GridOptions::default())?;
    grid.reserve(&stream, n)?;

    // A frame is one graph. Neighbours are listed in every fourth step.
    let state = (grid, (x, v), next, old, offsets, lists);
    let mut frame = context.capture(state, |stream, state| {
        let (grid, now, next, old, offsets, lists) = state;
        for number in 0..64 {
            if number % 4 == 0 {
                old.copy_from(stream, &now.0)?;
                grid.rebuild(stream, &now.0, step::REACH)?;
                let others = GridQueries::at_grid_points(step::REACH).pairs(Pairs::Others);
                grid.neighbor_lists_into(stream, &others, &mut *offsets, &mut *lists)?;
            }
            let ((x, v), (next_x, next_v)) = (&*now, &mut *next);
            step::step::launch(stream, x, v, &*old, &*offsets, &*lists, next_x, next_v)?;
            swap(now, next);
        }
        Ok(())
    })?;
    let camera = picture::Camera::new([layers, side], on(1080, 480));
    let mut seconds = 0.0;
    for number in indicatif::ProgressIterator::progress(0..frames) {
        let start = Instant::now();
        frame.launch(&stream)?;
        stream.synchronize()?; // an error if grains are too fast or too dense for their lists
        seconds += start.elapsed().as_secs_f64();
        let (grid, (x, v), ..) = frame.state_mut();
        camera.take(&stream, grid, [x, v], number)?;
    }
    // How fast a software device is says nothing about a GPU.
    if !software {
        println!("{:.2} ms a frame", seconds * 1e3 / frames as f64);
    }
    println!("pictures in target/dem");
    Ok(())
}
