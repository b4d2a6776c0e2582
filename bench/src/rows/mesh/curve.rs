//! Meshes of ten thousand to ten million triangles: the knot, finer and finer, and uneven.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{ClosestPoint, Mesh, PointQueries, TriangleMesh, shapes};

use super::inputs::Inputs;
use super::{QUERIES, row, upload};
use crate::replay::{Replays, SETS};
use crate::report::Row;
use crate::rows::Bench;
use crate::stop::Stop;

pub(super) const NAMES: [&str; 5] = [
    "closest_curve/knot/10000",
    "closest_curve/knot/100000",
    "closest_curve/knot/1000000",
    "closest_curve/knot/10000000",
    "closest_curve/uneven/1000000",
];

/// Quads along and around.
const SIZES: [(u32, u32); 4] = [(200, 25), (632, 79), (2000, 250), (6325, 791)];

struct State {
    mesh: Mesh<'static>,
    points: Vec<DeviceBuffer<[f32; 3]>>,
    closest: DeviceBuffer<ClosestPoint>,
}

/// Triangles of sizes between 1 and 10^-6: the knot with its points drawn towards one side.
fn uneven() -> Result<TriangleMesh, Stop> {
    let mut mesh = shapes::knot(2000, 250)?;
    for point in &mut mesh.points {
        let size = point.iter().map(|x| x * x).sum::<f32>().sqrt().max(1e-6);
        let factor = (size / 4.0).powi(6);
        *point = point.map(|x| x * factor);
    }
    Ok(mesh)
}

pub(super) fn rows(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let replays = Replays::new(gpu, bench.samples)?;
    let mut meshes = Vec::new();
    for (along, around) in SIZES {
        meshes.push(shapes::knot(along, around)?);
    }
    meshes.push(uneven()?);
    let mut rows = Vec::new();
    for (name, host) in NAMES.into_iter().zip(&meshes) {
        let mesh = upload(gpu, &GeometryKernels::new(&gpu.context), host, BuildMode::Quality)?;
        let (report, inputs) = (mesh.bvh_report(&gpu.stream)?, Inputs::new(host)?);
        let mut points = Vec::new();
        for set in 0..SETS {
            points.push(DeviceBuffer::from_slice(&gpu.stream, &inputs.points(QUERIES, set))?);
        }
        let closest = DeviceBuffer::zeroed(&gpu.stream, QUERIES)?;
        let state = State { mesh, points, closest };
        let (samples, state) = replays.run(state, |stream, state: &mut State, number| {
            let State { mesh, points, closest } = state;
            mesh.closest_points(stream, &PointQueries::at(&points[number]), closest)
        })?;
        let found = state.closest.to_vec(&gpu.stream)?;
        if found.iter().any(|point| !point.distance_squared.is_finite()) {
            return Err(Stop::failed("a point without a closest one"));
        }
        rows.push(
            row(name, &samples, QUERIES, gpu)
                .figure("triangles", host.faces.len() as f64)
                .figure("depth", report.depth as f64)
                .figure("nodes", report.nodes as f64)
                .note(format!("{} triangles, depth {}", host.faces.len(), report.depth))
                .image("embedded PTX"),
        );
    }
    Ok(rows)
}
