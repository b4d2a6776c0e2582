//! A block of grains that falls, slides and breaks, in pictures: `dem [layers [frames [side]]]`.

use cuda_safe::vector::{Float4, UChar4};
use cuda_safe::{Context, DeviceBuffer, LaunchConfig, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, GridView, HashGrid, Pairs};
use std::{error::Error, fs, io::BufWriter, mem::swap, time::Instant};

/// The distance up to which grains are listed as neighbours: they touch (0.2075) if both move by the `slack` of dem.cu.
const REACH: f32 = 0.2075 + 2.0 * 0.065;

kernels! {
    // SAFETY: thread i writes what belongs to grain or pixel i, or by atomics; what comes from memory
    // is bounded by n, or by the room for lists, before it is an index.
    unsafe in geom_kernels::program(include_str!("dem.cu")).name("dem.cu") {
        safe fn step(now: &[Float4], old: &[Float4], offsets: &[u64], lists: &[u32], next: &mut [Float4],
            trouble: &mut [u32], n: u32) where 2 * n <= now.len(), n <= old.len(), n < offsets.len(),
            32 * n <= lists.len(), 2 * n <= next.len(), 1 <= trouble.len();
        safe fn splat(now: &[Float4], n: u32, centre: Float4, size: u32, pixels: &mut [u64])
            where 1 <= n <= now.len(), 2 * size * size <= pixels.len();
        safe fn shade(grid: GridView<'_, f32>, now: &[Float4], n: u32, centre: Float4, size: u32,
            pixels: &[u64], image: &mut [UChar4]) where 2 * n <= now.len(),
            2 * size * size <= pixels.len(), size * size <= image.len();
    }
}

/// Layers of `side` × `side` grains, moved a little at random (Numerical Recipes, 7.1); then their velocities.
fn block(layers: u32, side: u32) -> Vec<Float4> {
    let layer = side * side;
    let mut seed = 42u32;
    let mut place = |i: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        0.2 * i as f32 + 0.01 * (seed >> 8) as f32 / (1 << 24) as f32
    };
    let position =
        |i| Float4::new(place(i % side), 0.5 + place(i / layer), place(i / side % side), 0.0);
    let velocity = |i| Float4::new(0.0, 0.0, 15.0, (i / layer) as f32 / layers as f32);
    (0..layer * layers).map(position).chain((0..layer * layers).map(velocity)).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let (device, stream) = (context.device().name()?, context.stream()?);
    let on = |gpu, software| if device.contains("software") { software } else { gpu };
    let mut given = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let layers = given.next().transpose()?.unwrap_or(on(128, 24));
    let frames = given.next().transpose()?.unwrap_or(on(240, 40));
    let side = given.next().transpose()?.unwrap_or(on(32, 6)).max(1);
    let (n, size) = (side * side * layers, on(1080, 480));
    let all = n as usize;
    println!("device: {device}: {n} grains, {frames} frames (fewer by default in software)");
    let kernels = Kernels::load(&context)?;
    let now = DeviceBuffer::from_slice(&stream, &block(layers, side))?;
    let [next, old] = [now.try_clone(&stream)?, now.try_clone(&stream)?];
    let offsets = DeviceBuffer::<u64>::zeroed(&stream, all + 1)?;
    let lists = DeviceBuffer::<u32>::zeroed(&stream, 32 * all)?;
    let trouble = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut grid = HashGrid::new(&stream, &GeometryKernels::new(&context), GridOptions::default())?;
    grid.reserve(&stream, all)?;
    let state = (grid, now, next, old, offsets, lists, trouble);
    let mut frame = context.capture(state, |stream, state| {
        let (grid, now, next, old, offsets, lists, trouble) = state;
        for substep in 0..64 {
            if substep % 4 == 0 {
                old.copy_from(stream, &*now)?;
                grid.rebuild(stream, now.slice(..all)?, REACH)?;
                let others = GridQueries::at_grid_points(REACH).pairs(Pairs::Others);
                grid.neighbor_lists_into(stream, &others, &mut *offsets, &mut *lists)?;
            }
            let (each, flag) = (LaunchConfig::cover(all, 128), &mut *trouble);
            kernels.step(stream, each, &*now, &*old, &*offsets, &*lists, &mut *next, flag, n)?;
            swap(now, next);
        }
        Ok(())
    })?;
    let mut pixels = DeviceBuffer::<u64>::zeroed(&stream, (2 * size * size) as usize)?;
    let mut image = DeviceBuffer::<UChar4>::zeroed(&stream, (size * size) as usize)?;
    let mut seconds = 0.0;
    fs::create_dir_all("target/dem")?;
    for number in indicatif::ProgressIterator::progress(0..frames) {
        let start = Instant::now();
        frame.launch(&stream)?;
        let (grid, now, .., trouble) = frame.state_mut();
        if trouble.to_vec(&stream)? != [0] {
            return Err("grains are too fast or too dense for their lists".into());
        }
        seconds += start.elapsed().as_secs_f64();
        // Around a grain in the middle, so large that the block may fall over.
        let middle = (layers / 2 * side + side / 2) * side + side / 2;
        let (i, wide) = (middle as usize, 0.375 * side as f32 + 0.3 * layers as f32);
        let middle = now.slice(i..=i)?.to_vec(&stream)?[0];
        let at = Float4::new(middle.x, wide / 7.0, middle.z, wide / size as f32);
        grid.rebuild(&stream, now.slice(..all)?, REACH)?;
        pixels.fill(&stream, u64::MAX)?;
        let shade = LaunchConfig::cover(image.len(), 128);
        kernels.splat(
            &stream,
            LaunchConfig::cover(2 * all, 128),
            &*now,
            n,
            at,
            size,
            &mut pixels,
        )?;
        kernels.shade(&stream, shade, grid.view(), &*now, n, at, size, &pixels, &mut image)?;
        let file = BufWriter::new(fs::File::create(format!("target/dem/{number:04}.png"))?);
        let mut png = png::Encoder::new(file, size, size);
        png.set_color(png::ColorType::Rgba);
        let bytes: Vec<_> = image.to_vec(&stream)?.into_iter().flat_map(<[u8; 4]>::from).collect();
        png.write_header()?.write_image_data(&bytes)?;
    }
    // How fast a software device is says nothing about a GPU.
    if !device.contains("software") {
        println!("{:.2} ms a frame", seconds * 1e3 / f64::from(frames));
    }
    println!("pictures in target/dem");
    Ok(())
}
