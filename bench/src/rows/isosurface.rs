//! The surface of the sphere of `volume`, by marching cubes.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::isosurface::{Counts, DenseField, Map, MarchingCubes, Output};
use geom_kernels::mesh::TriangleMesh;

use super::volume::{FIRST, N, SPACING, sphere};
use super::{Bench, Work};
use crate::replay::Replays;
use crate::report::{Row, Unit};
use crate::stop::Stop;

pub(super) const WORKS: &[Work] = &[Work { names: &["marching_cubes/256"], run: dense }];

/// How many triangles the peers find.
const FACES: u64 = 302_540;
/// Room for somewhat more.
const ROOM: usize = 320_000;

struct State {
    cubes: MarchingCubes,
    field: DeviceBuffer<f32>,
    vertices: DeviceBuffer<[f32; 3]>,
    faces: DeviceBuffer<[u32; 3]>,
    counts: DeviceBuffer<Counts>,
}

fn dense(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let (stream, replays) = (&gpu.stream, Replays::new(gpu, bench.samples)?);
    let map = Map::scaled([SPACING; 3], [FIRST; 3])?;
    let state = State {
        cubes: MarchingCubes::new(&GeometryKernels::new(&gpu.context)),
        field: DeviceBuffer::from_slice(stream, &sphere())?,
        vertices: DeviceBuffer::zeroed(stream, ROOM / 2 + ROOM / 8)?,
        faces: DeviceBuffer::zeroed(stream, ROOM)?,
        counts: DeviceBuffer::zeroed(stream, 1)?,
    };
    // Loads the kernels, which a recording can't.
    state.cubes.extract(stream, &DenseField::new(&state.field, [N; 3], map)?, 0.0)?;
    let (times, state) = replays.run(state, move |stream, state: &mut State, _| {
        let State { cubes, field, vertices, faces, counts } = state;
        let field = DenseField::new(&*field, [N; 3], map)?;
        cubes.extract_into(stream, &field, 0.0, Output::new(vertices, faces, counts))
    })?;
    let counts = state.counts.to_vec(stream)?.first().copied().unwrap_or_default();
    let (vertices, faces) = (state.vertices.to_vec(stream)?, state.faces.to_vec(stream)?);
    let mesh = TriangleMesh {
        points: vertices.into_iter().take(counts.vertices as usize).collect(),
        faces: faces.into_iter().take(counts.faces as usize).collect(),
    };
    let check = check(&mesh, counts)?;
    let row = Row::new("marching_cubes/256", Unit::Ms, &times)
        .check(check)
        .image("embedded PTX")
        .device(&gpu.name);
    let value = row.stats.median;
    Ok(vec![row.at_most("ms", value, 0.25)])
}

/// A closed sphere, as far as the field is one: every edge is run in both directions once, and vertices lie where
/// the radius is right.
fn check(mesh: &TriangleMesh, counts: Counts) -> Result<String, Stop> {
    if counts.status != 0 || counts.faces != FACES {
        return Err(Stop::failed(format!("{counts:?}, not {FACES} faces")));
    }
    let mut edges: Vec<[u32; 2]> = Vec::with_capacity(3 * mesh.faces.len());
    for &[a, b, c] in &mesh.faces {
        edges.extend([[a, b], [b, c], [c, a]]);
    }
    edges.sort_unstable();
    let both = edges.iter().all(|&[a, b]| edges.binary_search(&[b, a]).is_ok());
    if !both || edges.windows(2).any(|two| two[0] == two[1]) {
        return Err(Stop::failed("the surface is not closed"));
    }
    let radius = |p: &[f32; 3]| p.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    let worst = mesh.points.iter().map(|p| (radius(p) - 0.7).abs()).fold(0.0, f64::max);
    // The field is a square root, of which a line is at most (h^2 / 8) / radius away.
    if worst > 2e-5 {
        return Err(Stop::failed(format!("a vertex is {worst:e} off the sphere")));
    }
    Ok(format!(
        "{} faces, {} vertices, closed; vertices at most {worst:.1e} off the sphere",
        counts.faces, counts.vertices
    ))
}
