//! Loads a triangle mesh from a file or makes one by rule. Prints its properties and, on a GPU, the speed of queries, and
//! draws a picture of it by rays and a slice of its signed distance.

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;
use cuda_safe::Stream;
use example_common::{save, time};
use geom_kernels::mesh::shapes::{self, KNOT_ALONG, KNOT_AROUND};
use geom_kernels::mesh::{Mesh, MeshOptions, TriangleMesh};
use geom_kernels::{Aabb, GeometryKernels};

mod check;
mod render;
mod slice;
mod speed;

/// Draws a triangle mesh, and measures queries.
#[derive(Parser)]
struct Arguments {
    /// A mesh: an OBJ, STL or PLY file [default: a knot]
    file: Option<PathBuf>,
    /// The size of the pictures [default: 1920 1080]
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"],
        value_parser = clap::value_parser!(u32).range(1..=16384))]
    size: Vec<u32>,
    /// The folder that they go to
    #[arg(long, default_value = "target/mesh")]
    output: PathBuf,
}

/// The data of all parts.
struct Scene<'a> {
    stream: &'a Stream,
    host: &'a TriangleMesh,
    mesh: &'a Mesh<'a>,
    bounds: Aabb<f32>,
    /// Of the pictures: width and height.
    size: [u32; 2],
    /// How many rows of them are made at once: a GPU is to have something to do.
    rows: u32,
    /// Whether the device is slow.
    software: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let context = example_common::context();
    let device = context.device().name()?;
    let software = device.contains("software");
    println!("device: {device}");
    let host = match &arguments.file {
        Some(file) => TriangleMesh::load(file).map_err(|error| error.to_string())?,
        None if software => shapes::knot(512, 64)?,
        None => shapes::knot(KNOT_ALONG, KNOT_AROUND)?,
    };
    let bounds = host.bounds().ok_or("a mesh without points")?;
    let size = match arguments.size[..] {
        [width, height] => [width, height],
        _ if software => [400, 225],
        _ => [1920, 1080],
    };

    // With topology, as a mesh from a file may be open.
    let (stream, options) = (context.stream()?, MeshOptions::default().topology());
    let mut mesh = Mesh::upload(&stream, &GeometryKernels::new(&context), &host, options)?;
    let report = mesh.report(&stream)?;
    let tree = mesh.bvh_report(&stream)?;
    let is = |yes, what| format!("{}{what}", if yes { "" } else { "not " });
    println!(
        "{} points, {} faces, {}",
        report.points,
        report.faces,
        is(report.watertight, "watertight")
    );
    // How fast a software device is says nothing about a GPU.
    let build = match software {
        true => String::new(),
        false => {
            let build = time(&stream, 20, || mesh.rebuild(&stream))?.0;
            format!(", built in {build:.2} ms")
        }
    };
    println!("a hierarchy of {} nodes{build}", tree.nodes);

    let scene = Scene {
        stream: &stream,
        host: &host,
        mesh: &mesh,
        bounds,
        size,
        rows: if software { 8 } else { 120 },
        software,
    };
    let answers = speed::measure(&scene)?;
    // Where the inside is, is beyond doubt only of the knot.
    println!("{}", check::check(&host, &answers, arguments.file.is_none())?);

    let picture = render::render(&scene, &context)?;
    save(&arguments.output.join("mesh.png"), size, &picture)?;
    let picture = slice::slice(&scene)?;
    save(&arguments.output.join("slice.png"), size, &picture)
}
