//! Loads a sparse volume from a NanoVDB file or makes one by rule. Prints its properties, draws a picture of it by
//! rays, and measures the speed of samples on a GPU.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use cuda_safe::Stream;
use example_common::save;
use geom_kernels::GeometryKernels;
use geom_kernels::volume::Volume;
use geom_kernels::volume::nanovdb::{self, Grid, ValueType, WriteOptions};

mod gyroid;
mod picture;
mod report;
mod speed;

/// Draws a sparse volume, and measures how fast it is sampled.
#[derive(Parser)]
struct Arguments {
    /// A NanoVDB file [default: a gyroid in a sphere]
    file: Option<PathBuf>,
    /// The name of a grid of it [default: the first of f32 or f64]
    #[arg(long)]
    grid: Option<String>,
    /// How many voxels wide the gyroid is [default: 512]
    #[arg(long, value_parser = clap::value_parser!(u16).range(16..=2048))]
    resolution: Option<u16>,
    /// Draws the surface of this value [default: 0 of level sets; others are drawn as fog]
    #[arg(long, allow_negative_numbers = true)]
    iso: Option<f64>,
    /// The size of the picture [default: 1920 1080]
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"],
        value_parser = clap::value_parser!(u32).range(1..=16384))]
    size: Vec<u32>,
    /// The picture
    #[arg(long, default_value = "target/volume/volume.png")]
    output: PathBuf,
    /// Writes the volume to a NanoVDB file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
}

/// The data of all parts.
struct Scene<'a> {
    stream: &'a Stream,
    volume: &'a Volume,
    /// The world's box of active voxels.
    bounds: [[f32; 3]; 2],
    /// The world's corners of leaves and of active tiles.
    corners: Vec<[f32; 3]>,
    /// The least edge of a voxel.
    voxel: f32,
    /// Of the picture: width and height.
    size: [u32; 2],
    /// Whether the device is slow.
    software: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let context = example_common::context();
    let device = context.device().name()?;
    let software = device.contains("software");
    println!("device: {device}");
    let (stream, geometry) = (context.stream()?, GeometryKernels::new(&context));

    let (grid, volume) = match &arguments.file {
        Some(file) => {
            let grid = choose(nanovdb::read_file(file)?, arguments.grid.as_deref())?;
            let volume = Volume::upload(&stream, &geometry, &grid)?;
            (grid, volume)
        }
        None => {
            let resolution = arguments.resolution.unwrap_or(if software { 96 } else { 512 });
            let volume = gyroid::make(&stream, &geometry, resolution)?;
            (volume.download(&stream)?, volume)
        }
    };
    report::print(&grid)?;
    if let Some(file) = &arguments.save {
        nanovdb::write_file(file, std::slice::from_ref(&grid), &WriteOptions::default())?;
        println!("{}", file.display());
    }

    let info = grid.info();
    let Some(bounds) = info.world_box else {
        println!("no active voxels: nothing to draw");
        return Ok(());
    };
    let scene = Scene {
        stream: &stream,
        volume: &volume,
        bounds: bounds.map(|corner| corner.map(|x| x as f32)),
        corners: report::corners(&grid),
        voxel: info.voxel_size.iter().copied().fold(f64::INFINITY, f64::min) as f32,
        size: match arguments.size[..] {
            [width, height] => [width, height],
            _ if software => [1280, 720],
            _ => [1920, 1080],
        },
        software,
    };
    if !software {
        speed::measure(&scene)?;
    }
    let is_surface = info.class == nanovdb::GridClass::LEVEL_SET;
    let picture = match arguments.iso.or(is_surface.then_some(0.0)) {
        Some(iso) => picture::surface(&scene, iso)?,
        None => picture::fog(&scene)?,
    };
    save(&arguments.output, scene.size, &picture)
}

/// The grid of a name, or the first that can be drawn.
fn choose(grids: Vec<Grid>, name: Option<&str>) -> Result<Grid, String> {
    let numbers = |grid: &Grid| matches!(grid.value_type(), ValueType::F32 | ValueType::F64);
    let said: Vec<String> =
        grids.iter().map(|grid| format!("{:?} ({})", grid.name(), grid.value_type())).collect();
    let wanted = |grid: &Grid| numbers(grid) && name.is_none_or(|name| grid.name() == name);
    grids
        .into_iter()
        .find(wanted)
        .ok_or_else(|| format!("no such grid of f32 or f64; there are: {}", said.join(", ")))
}
