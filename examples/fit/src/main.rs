//! A triangle mesh that is fitted to a volume of signed distances, by gradients through samples of the volume.

use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use example_common::save;
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::{Mesh, MeshOptions, shapes};

mod check;
mod fit;
mod kernels;
mod picture;
mod render;
mod shape;

use fit::Fit;
use picture::{Panel, Scene};

/// Fits a ball to a bear.
#[derive(Parser)]
struct Arguments {
    /// How often each face of an icosahedron is divided by four [default: 6]
    #[arg(long, value_parser = clap::value_parser!(u32).range(3..=8))]
    subdivisions: Option<u32>,
    /// How many voxels wide the volume is [default: 128]
    #[arg(long, value_parser = clap::value_parser!(u16).range(32..=512))]
    resolution: Option<u16>,
    /// How many steps it goes
    #[arg(long, default_value_t = 500)]
    steps: u32,
    /// The size of the picture [default: 1920 720]
    #[arg(long, num_args = 2, value_names = ["WIDTH", "HEIGHT"],
        value_parser = clap::value_parser!(u32).range(3..=16384))]
    size: Vec<u32>,
    /// The picture
    #[arg(long, default_value = "target/fit/fit.png")]
    output: PathBuf,
}

/// The radius of the ball, which is around all of the bear.
const RADIUS: f32 = 1.2;

/// The required ratio of the final loss to the initial one.
const LOSS_DOWN_BY: f64 = 1e3;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let context = example_common::context();
    let device = context.device().name()?;
    let software = device.contains("software");
    println!("device: {device}");
    let (stream, geometry) = (context.stream()?, GeometryKernels::new(&context));
    let options = MeshOptions::default().topology();
    let resolution = arguments.resolution.unwrap_or(if software { 64 } else { 128 });
    let volume = shape::make(&stream, &geometry, resolution)?;
    let subdivisions = arguments.subdivisions.unwrap_or(if software { 4 } else { 6 });
    let mut host = shapes::icosphere(subdivisions, RADIUS)?;
    let before = Mesh::upload(&stream, &geometry, &host, options)?;
    println!(
        "a ball of {} points and {} faces, to a bear in {resolution}^3 voxels",
        host.points.len(),
        host.faces.len()
    );

    let mut fit = Fit::new(&context, &geometry, &volume, &host)?;
    fit.look()?;
    check::gradient(&volume.download(&stream)?, &host, &fit.gradient()?)?;
    println!("the gradient is that by central differences in f64");
    let begin = Instant::now();
    let [first, last] = descend(&mut fit, arguments.steps)?;
    let took = match software {
        true => String::new(),
        false => format!(" in {:.0} ms", begin.elapsed().as_secs_f64() * 1e3),
    };
    println!("{} steps{took}; the loss is down by {:.1e}", arguments.steps, first / last);

    host.points = fit.points()?;
    let after = Mesh::upload(&stream, &geometry, &host, options)?;
    let surface = shape::surface(&stream, &geometry, &volume)?;
    let ground = host.bounds().ok_or("a mesh without points")?.lower[1];
    let panels = [
        Panel { mesh: &before, ground: -RADIUS, edges: true },
        Panel { mesh: &after, ground, edges: true },
        Panel { mesh: &surface, ground, edges: false },
    ];
    let [width, height] = match arguments.size[..] {
        [width, height] => [width / 3, height],
        _ if software => [240, 270],
        _ => [640, 720],
    };
    let scene = Scene { volume: &volume, radius: RADIUS, size: [width, height], software };
    let picture = picture::draw(&stream, &scene, &panels)?;
    save(&arguments.output, [3 * width, height], &picture)?;

    let apart = check::compare(&stream, &after, &surface)?;
    println!("{apart}");
    // So written that a NaN has not converged.
    if !(first / last >= LOSS_DOWN_BY && apart.is_small()) {
        return Err("the mesh has not become the bear".into());
    }
    Ok(())
}

/// Goes so many steps, and says what the loss was at first and is at last.
fn descend(fit: &mut Fit<'_>, steps: u32) -> Result<[f64; 2], Box<dyn Error>> {
    let often = (steps / 10).max(1);
    println!("  step          loss  distances' root mean square");
    let (mut first, mut last) = (f64::NAN, f64::NAN);
    for step in 0..=steps {
        fit.look()?;
        if step % often == 0 || step == steps {
            last = fit.loss()?;
            let each = (last / fit.places() as f64).sqrt();
            println!("{step:6}  {last:12.4e}  {each:9.6}");
        }
        if step == 0 {
            first = last;
        }
        if step < steps {
            fit.step()?;
        }
    }
    Ok([first, last])
}
