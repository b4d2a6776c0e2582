//! Moves random points onto the surface of a mesh: a user's kernel that asks for closest points.

use std::error::Error;

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, kernels};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::shapes::{self, Noise};
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, MeshView, PointQueries};

kernels! {
    // SAFETY: thread i reads the mesh, and reads and writes position i if i < n.
    unsafe in geom_kernels::program(include_str!("project.cu")).name("project.cu") {
        safe fn project(mesh: MeshView<'_>, positions: &mut [[f32; 3]], n: u32)
            where n <= positions.len();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new(0).unwrap_or_else(|error| {
        eprintln!("no device to run on: {error}");
        std::process::exit(3)
    });
    let device = context.device().name()?;
    let (detail, n) = if device.contains("software") { (5, 20_000) } else { (8, 4_000_000) };
    let stream = context.stream()?;

    // A bumpy stone; `TriangleMesh::load` reads one from a file.
    let mut stone = shapes::icosphere(detail, 1.0)?;
    stone.displace(&Noise::new(7), 0.3, 2.0)?;
    let mesh =
        Mesh::upload(&stream, &GeometryKernels::new(&context), &stone, MeshOptions::default())?;
    println!("{device}: {n} points onto {} faces", stone.faces.len());

    let before = random_points(n);
    let mut positions = DeviceBuffer::from_slice(&stream, &before)?;
    let kernels = Kernels::load(&context)?;
    kernels.project(&stream, LaunchConfig::cover(n, 128), mesh.view(), &mut positions, n as u32)?;
    let after = positions.to_vec(&stream)?;

    // The same question as a batch call. Of the points as they were, it has the same results; of those
    // on the surface, that they are on it.
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    let asked = DeviceBuffer::from_slice(&stream, &before)?;
    mesh.closest_points(&stream, &PointQueries::at(&asked), &mut closest)?;
    let expected = closest.to_vec(&stream)?;
    mesh.closest_points(&stream, &PointQueries::at(&positions), &mut closest)?;
    let again = closest.to_vec(&stream)?;

    let (mut way, mut farthest_off) = (0.0, 0.0f32);
    for i in 0..n {
        let off = again[i].distance_squared.sqrt();
        // Rounding moves a point off the surface by an ulp or two of its coordinates. NaN is refused.
        let is_on_surface = off <= 1e-6;
        if after[i] != expected[i].position || !is_on_surface {
            return Err(format!("{:?} went to {:?}, {off} off", before[i], after[i]).into());
        }
        way += f64::from(expected[i].distance_squared).sqrt() / n as f64;
        farthest_off = farthest_off.max(off);
    }
    println!("moved by {way:.3} on average; all are on the surface, to {farthest_off:.1e}");
    Ok(())
}

/// Points in the cube from -2 to 2, the same in every run.
fn random_points(n: usize) -> Vec<[f32; 3]> {
    let mut seed = 42u64;
    let mut next = || {
        // D. Knuth, MMIX.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f32 / (1 << 22) as f32 - 2.0
    };
    (0..n).map(|_| [next(), next(), next()]).collect()
}
