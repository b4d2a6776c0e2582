//! The surface in a sparse volume, from a NanoVDB file or made by rule: as a triangle mesh, which is checked
//! and written to an OBJ file, and a picture of it by rays.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use cuda_safe::Stream;
use example_common::save;
use geom_kernels::mesh::{Mesh, TriangleMesh};
use geom_kernels::volume::Volume;
use geom_kernels::volume::nanovdb::{GridClass, read_file};
use geom_kernels::{Aabb, GeometryKernels};

mod blobs;
mod check;
mod field;
mod picture;
mod surface;

/// Finds the surface where a volume has a value.
#[derive(Parser)]
struct Arguments {
    /// A NanoVDB file [default: drops that flow together]
    file: Option<PathBuf>,
    /// The name of a grid of it [default: the first of f32]
    #[arg(long)]
    grid: Option<String>,
    /// How many voxels wide the drops' box is [default: 256]
    #[arg(long, value_parser = clap::value_parser!(u16).range(48..=1000))]
    resolution: Option<u16>,
    /// The value [default: 0.5 of fog, 0 of others]
    #[arg(long, allow_negative_numbers = true)]
    iso: Option<f32>,
    /// The size of the picture [default: 1920 1080]
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"],
        value_parser = clap::value_parser!(u32).range(1..=16384))]
    size: Vec<u32>,
    /// The folder that the mesh and the picture go to
    #[arg(long, default_value = "target/isosurface")]
    output: PathBuf,
}

/// The object to draw.
struct Scene<'a> {
    stream: &'a Stream,
    host: &'a TriangleMesh,
    mesh: &'a Mesh<'a>,
    bounds: Aabb<f32>,
    /// Of the picture: width and height.
    size: [u32; 2],
    /// How many rows of it are made at once: a GPU is to have something to do.
    rows: u32,
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
            let grid = field::choose(read_file(file)?, arguments.grid.as_deref())?;
            let volume = Volume::upload(&stream, &geometry, &grid)?;
            (grid, volume)
        }
        None => {
            let resolution = arguments.resolution.unwrap_or(if software { 64 } else { 256 });
            let volume = blobs::make(&stream, &geometry, resolution)?;
            (volume.download(&stream)?, volume)
        }
    };
    let info = grid.info();
    let is_fog = info.class == GridClass::FOG_VOLUME;
    let field = field::Field::new(&grid, arguments.iso.unwrap_or(if is_fog { 0.5 } else { 0.0 }))?;
    let [nx, ny, nz] = field.dims;
    println!(
        "{:?}, {}: {} active voxels in {nx} x {ny} x {nz}; the surface of {}",
        info.name, info.class, info.active_voxels, field.iso
    );

    let runs = if software { 1 } else { 20 };
    let surface = surface::find(&stream, &geometry, &volume, &field, runs)?;
    let report = surface.mesh.report(&stream)?;
    let is = if report.watertight { "" } else { "not " };
    println!(
        "{} vertices, {} faces, {is}watertight, Euler characteristic {}",
        report.points, report.faces, report.euler_characteristic
    );
    if !software {
        println!("{}", surface.times);
    }
    // A mesh cuts off what is sharper than voxels, which a file may have, but drops do not.
    let voxel = info.voxel_size.iter().copied().fold(0.0, f64::max);
    let off = if arguments.file.is_some() { 0.1 * voxel } else { 0.0 };
    let checked = check::check(&report, check::volume(&grid, &field), off);

    std::fs::create_dir_all(&arguments.output)?;
    let path = arguments.output.join("isosurface.obj");
    surface.host.save(&path).map_err(|error| error.to_string())?;
    println!("{}", path.display());
    let scene = Scene {
        stream: &stream,
        host: &surface.host,
        mesh: &surface.mesh,
        bounds: surface.host.bounds().ok_or("a mesh without points")?,
        size: match arguments.size[..] {
            [width, height] => [width, height],
            _ if software => [320, 180],
            _ => [1920, 1080],
        },
        rows: if software { 9 } else { 120 },
    };
    save(&arguments.output.join("isosurface.png"), scene.size, &picture::draw(&scene)?)?;
    println!("{}", checked?);
    Ok(())
}
