//! Moves random points onto the surface of a mesh: a kernel in Rust that asks for closest points, on a GPU if there is
//! one, else on all cores.

use std::error::Error;
use std::time::Instant;

use cuda_safe::kernel::kernel;
use cuda_safe::{Context, DeviceBuffer};
use geom_kernels::GeometryKernels;
use geom_kernels::mesh::shapes::{self, Noise};
use geom_kernels::mesh::{self, ClosestPoint, MeshOptions, PointQueries, TriangleMesh};
use geom_kernels::structures::{Limit, Mesh};

#[kernel]
fn project(mesh: &Mesh, positions: &mut [[f32; 3]]) {
    each(positions, |_, position| {
        if let Some(closest) = mesh.closest_point(*position) {
            *position = closest.position;
        }
    });
}

/// The points after the kernel, what a batch call finds for them before, and what it finds after.
type Found = (Vec<[f32; 3]>, Vec<ClosestPoint>, Vec<ClosestPoint>);

fn main() -> Result<(), Box<dyn Error>> {
    let context = Context::new(0).ok();
    let name = context.as_ref().map(|context| context.device().name()).transpose()?;
    let name = name.unwrap_or_else(|| "the CPU".to_owned());
    let is_gpu = context.is_some() && !name.contains("software");
    let (detail, n) = if is_gpu { (8, 4_000_000) } else { (5, 20_000) };

    // A bumpy stone; `TriangleMesh::load` reads one from a file.
    let mut stone = shapes::icosphere(detail, 1.0)?;
    stone.displace(&Noise::new(7), 0.3, 2.0)?;
    println!("{name}: {n} points onto {} faces", stone.faces.len());

    let before = random_points(n);
    let (after, expected, again) = match &context {
        Some(context) => on_device(context, &stone, &before)?,
        None => on_cpu(&stone, &before)?,
    };

    // The batch call asks the same question. Of the points as they were, it has the same results; of those on the
    // surface, that they are on it.
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

fn on_device(
    context: &Context,
    stone: &TriangleMesh,
    before: &[[f32; 3]],
) -> Result<Found, Box<dyn Error>> {
    let (stream, geometry) = (context.stream()?, GeometryKernels::new(context));
    let mesh = mesh::Mesh::upload(&stream, &geometry, stone, MeshOptions::default())?;
    let mut positions = DeviceBuffer::from_slice(&stream, before)?;
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, before.len())?;
    mesh.closest_points(&stream, &PointQueries::at(&positions), &mut closest)?;
    let expected = closest.to_vec(&stream)?;
    project::launch(&stream, &mesh, &mut positions)?;
    mesh.closest_points(&stream, &PointQueries::at(&positions), &mut closest)?;
    Ok((positions.to_vec(&stream)?, expected, closest.to_vec(&stream)?))
}

fn on_cpu(stone: &TriangleMesh, before: &[[f32; 3]]) -> Result<Found, Box<dyn Error>> {
    let mesh = Mesh::new(stone, MeshOptions::default())?;
    let mut positions = before.to_vec();
    let mut expected = vec![bytemuck::Zeroable::zeroed(); before.len()];
    let mut again = expected.clone();
    mesh.closest_points(before, Limit::None, &mut expected)?;
    let start = Instant::now();
    project::cpu(&mesh, &mut positions)?;
    println!("the kernel took {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    mesh.closest_points(&positions, Limit::None, &mut again)?;
    Ok((positions, expected, again))
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
