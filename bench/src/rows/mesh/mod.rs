//! Meshes: building, and what is asked of the knot.

mod checks;
mod curve;
mod inputs;

use cuda_safe::vector::Float3;
use cuda_safe::{DeviceBuffer, LaunchConfig, Stream, kernels};
use geom_kernels::QueryOrder;
use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, MeshView, Overlap, PointQueries, RayHit, Sign, TriangleMesh,
    shapes,
};
use geom_kernels::{Aabb, GeometryKernels, Ray};

use super::{Bench, Work};
use crate::gpu::Gpu;
use crate::replay::{Replays, SETS};
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;
use checks::Checks;
use inputs::Inputs;

pub(super) const WORKS: &[Work] = &[
    Work { names: &BUILDS, run: builds },
    Work { names: &POINTS, run: points },
    Work { names: &RAYS, run: rays },
    Work { names: &["aabb_count/knot/quality/random"], run: overlaps },
    Work { names: &curve::NAMES, run: curve::rows },
];

const BUILDS: [&str; 3] =
    ["mesh_build/knot/fast", "mesh_build/knot/quality", "mesh_refit/knot/quality"];
const POINTS: [&str; 9] = [
    "closest_nosign/knot/quality/random",
    "closest_nosign/knot/quality/morton",
    "closest_nosign/knot/quality/random/own_kernel",
    "closest_nosign/knot/fast/random",
    "closest_normal/knot/quality/random",
    "closest_normal/knot/quality/morton",
    "closest_parity/knot/quality/random",
    "closest_nosign/knot/quality/random/exact_arch",
    "closest_winding/knot/quality/random",
];
const RAYS: [&str; 4] = [
    "ray/knot/quality/camera",
    "ray/knot/quality/incoherent",
    "ray/knot/fast/incoherent",
    "ray_any/knot/quality/incoherent",
];

/// Queries of each set.
pub(super) const QUERIES: usize = 1_000_000;

kernels! {
    struct Own;
    // SAFETY: thread i writes result i, and only if i < n; it reads point i, and the mesh.
    unsafe in geom_kernels::program(OWN_CU).name("own.cu") {
        safe fn own_closest(mesh: MeshView<'_>, points: &[Float3], out: &mut [Float3], n: u32)
            where n <= points.len(), n <= out.len();
    }
}

/// As a user would write it.
const OWN_CU: &str = r#"
#include <geom/mesh.cuh>

extern "C" __global__ void __launch_bounds__(128, 10) own_closest(geom::Mesh mesh, const float3* points, float3* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::closest_point(mesh, points[i]).position;
}
"#;

/// The data of a graph of queries of points.
struct State {
    mesh: Mesh<'static>,
    points: Vec<DeviceBuffer<[f32; 3]>>,
    closest: Vec<DeviceBuffer<ClosestPoint>>,
    distances: DeviceBuffer<f32>,
}

fn target(row: Row, most: f64) -> Row {
    let value = row.stats.median;
    row.at_most("ms", value, most)
}

/// A row of so many queries.
fn row(work: &str, samples: &[f64], n: usize, gpu: &Gpu) -> Row {
    let rate = n as f64 / median(samples) / 1e3;
    Row::new(work, Unit::Ms, samples)
        .figure("mqueries_per_s", rate)
        .note(format!("{rate:.0} M/s"))
        .device(&gpu.name)
}

pub(super) fn upload(
    gpu: &Gpu,
    geometry: &GeometryKernels,
    host: &TriangleMesh,
    builder: BuildMode,
) -> Result<Mesh<'static>, Stop> {
    Ok(Mesh::upload(&gpu.stream, geometry, host, MeshOptions::default().build_mode(builder))?)
}

fn knot() -> Result<TriangleMesh, Stop> {
    Ok(shapes::knot(shapes::KNOT_ALONG, shapes::KNOT_AROUND)?)
}

fn builds(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let (replays, host) = (Replays::new(gpu, bench.samples)?, knot()?);
    let (geometry, mut rows) = (GeometryKernels::new(&gpu.context), Vec::new());
    for (name, builder, most) in
        [(BUILDS[0], BuildMode::Fast, 0.8), (BUILDS[1], BuildMode::Quality, 6.0)]
    {
        let mesh = upload(gpu, &geometry, &host, builder)?;
        let (samples, mesh) =
            replays.run(mesh, |stream, mesh: &mut Mesh<'static>, _| mesh.rebuild(stream))?;
        let report = mesh.bvh_report(&gpu.stream)?;
        if report.items != host.faces.len() {
            return Err(Stop::failed(format!("{report:?}")));
        }
        let bytes = mesh.size_bytes() as f64 / host.faces.len() as f64;
        let check = format!("{} nodes, depth {}", report.nodes, report.depth);
        let row = row(name, &samples, host.faces.len(), gpu)
            .figure("bytes_per_triangle", bytes)
            .check(check)
            .image("embedded PTX");
        rows.push(target(row, most));
    }
    let mesh = upload(gpu, &geometry, &host, BuildMode::Quality)?;
    let before = mesh.bvh_report(&gpu.stream)?;
    let (samples, mesh) =
        replays.run(mesh, |stream, mesh: &mut Mesh<'static>, _| mesh.refit(stream))?;
    if mesh.bvh_report(&gpu.stream)? != before {
        return Err(Stop::failed("refitting to the same points has changed the hierarchy"));
    }
    let row = row(BUILDS[2], &samples, host.faces.len(), gpu).image("embedded PTX");
    rows.push(target(row.check("bounds and nodes as before"), 0.10));
    Ok(rows)
}

impl State {
    fn new(gpu: &Gpu, mesh: Mesh<'static>, sets: &[Vec<[f32; 3]>]) -> Result<Self, Stop> {
        let stream = &gpu.stream;
        let n = sets.first().map_or(0, Vec::len);
        let points = sets.iter().map(|set| DeviceBuffer::from_slice(stream, set));
        let closest = sets.iter().map(|_| DeviceBuffer::zeroed(stream, n));
        Ok(Self {
            mesh,
            points: points.collect::<cuda_safe::Result<_>>()?,
            closest: closest.collect::<cuda_safe::Result<_>>()?,
            distances: DeviceBuffer::zeroed(stream, n)?,
        })
    }
}

fn points(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let (replays, host) = (Replays::new(gpu, bench.samples)?, knot()?);
    let checks = Checks::new(&host);
    let (embedded, compiled) =
        (GeometryKernels::new(&gpu.context), GeometryKernels::compiled(&gpu.context));
    let inputs = Inputs::new(&host)?;
    let sets: Vec<_> = (0..SETS).map(|set| inputs.points(QUERIES, set)).collect();
    let sorted: Vec<_> = sets.iter().map(|set| inputs.sorted(set)).collect();
    let exact = replays.exact_arch()?;
    let mut rows = Vec::new();
    let mut plain = [0.0; 2];
    let quality = || upload(gpu, &embedded, &host, BuildMode::Quality);
    let fast = || upload(gpu, &embedded, &host, BuildMode::Fast);

    type Run<'a> = (&'a str, &'a [Vec<[f32; 3]>], QueryOrder, Option<Sign>, Option<f64>);
    let runs: [Run<'_>; 5] = [
        (POINTS[0], &sets, QueryOrder::Auto, None, Some(12.0)),
        (POINTS[1], &sorted, QueryOrder::Given, None, Some(8.0)),
        (POINTS[4], &sets, QueryOrder::Auto, Some(Sign::Normal), None),
        (POINTS[5], &sorted, QueryOrder::Given, Some(Sign::Normal), None),
        (POINTS[6], &sets, QueryOrder::Auto, Some(Sign::Parity), None),
    ];
    for (index, (name, sets, order, sign, most)) in runs.into_iter().enumerate() {
        let state = State::new(gpu, quality()?, sets)?;
        let (samples, state) = replays.run(state, |stream, state: &mut State, number| {
            closest(stream, state, number, order, sign)
        })?;
        let mut row = row(name, &samples, QUERIES, gpu)
            .check(checks.closest(&gpu.stream, &state, sets, sign)?)
            .image("embedded PTX");
        match (sign, index) {
            (None, at) => plain[at] = row.stats.median,
            // 1.15 times the same without signs.
            (Some(Sign::Normal), at) => {
                let ratio = row.stats.median / plain[at - 2];
                row = row.figure("ratio_to_unsigned", ratio).at_most("ratio", ratio, 1.15);
            }
            _ => {}
        }
        rows.push(match most {
            Some(most) => target(row, most),
            None => row,
        });
    }

    for (name, mesh, image) in [
        (POINTS[3], fast()?, "embedded PTX"),
        (POINTS[7], upload(gpu, &compiled, &host, BuildMode::Quality)?, &exact),
    ] {
        let state = State::new(gpu, mesh, &sets)?;
        let (samples, state) = replays.run(state, |stream, state: &mut State, number| {
            closest(stream, state, number, QueryOrder::Auto, None)
        })?;
        let check = checks.closest(&gpu.stream, &state, &sets, None)?;
        rows.push(row(name, &samples, QUERIES, gpu).check(check).image(image));
    }

    let options = MeshOptions::default().winding();
    let state = State::new(gpu, Mesh::upload(&gpu.stream, &embedded, &host, options)?, &sets)?;
    let (samples, state) = replays.run(state, |stream, state: &mut State, number| {
        closest(stream, state, number, QueryOrder::Auto, Some(Sign::Winding))
    })?;
    let check = checks.closest(&gpu.stream, &state, &sets, Some(Sign::Winding))?;
    let winding = row(POINTS[8], &samples, QUERIES, gpu).check(check).image("embedded PTX");
    rows.push(target(winding, 30.0));

    // A user's kernel, in the order as drawn.
    let own = Own::load(&gpu.context)?;
    let state = State::new(gpu, quality()?, &sets)?;
    let mut out = Vec::new();
    for _ in 0..SETS {
        out.push(DeviceBuffer::<Float3>::zeroed(&gpu.stream, QUERIES)?);
    }
    let launch = LaunchConfig::cover(QUERIES, 128);
    let (samples, (state, out)) =
        replays.run((state, out), |stream, (state, out): &mut (State, Vec<_>), number| {
            let points = state.points[number].as_slice().cast::<Float3>()?;
            own.own_closest(
                stream,
                launch,
                state.mesh.view(),
                points,
                &mut out[number],
                QUERIES as u32,
            )
        })?;
    let check = checks.positions(&gpu.stream, &out, &sets)?;
    drop(state);
    let row = row(POINTS[2], &samples, QUERIES, gpu).check(check).image(&exact);
    rows.push(target(row, 1.2 * 12.0));
    Ok(rows)
}

fn closest(
    stream: &Stream,
    state: &mut State,
    number: usize,
    order: QueryOrder,
    sign: Option<Sign>,
) -> cuda_safe::Result<()> {
    let State { mesh, points, closest, distances } = state;
    let (points, closest) = (&points[number], &mut closest[number]);
    let queries = PointQueries::at(points).order(order);
    match sign {
        None => mesh.closest_points(stream, &queries, closest),
        Some(sign) => mesh.signed_closest_points(stream, &queries, sign, &mut *distances, closest),
    }
}

/// The data of a graph of rays.
struct RayState {
    mesh: Mesh<'static>,
    rays: Vec<DeviceBuffer<Ray>>,
    hits: Vec<DeviceBuffer<RayHit>>,
    any: DeviceBuffer<u8>,
}

fn rays(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let stream = &gpu.stream;
    let (replays, host) = (Replays::new(gpu, bench.samples)?, knot()?);
    let (checks, inputs) = (Checks::new(&host), Inputs::new(&host)?);
    let geometry = GeometryKernels::new(&gpu.context);
    let camera: Vec<_> = (0..SETS).map(|_| inputs.camera()).collect();
    let incoherent: Vec<_> = (0..SETS).map(|set| inputs.incoherent(set)).collect();
    let mut rows = Vec::new();
    let runs = [
        (RAYS[0], &camera, BuildMode::Quality, Some(0.20)),
        (RAYS[1], &incoherent, BuildMode::Quality, Some(0.55)),
        (RAYS[2], &incoherent, BuildMode::Fast, None),
        (RAYS[3], &incoherent, BuildMode::Quality, None),
    ];
    for (name, sets, builder, most) in runs {
        let n = sets.first().map_or(0, Vec::len);
        let mut state = RayState {
            mesh: upload(gpu, &geometry, &host, builder)?,
            rays: Vec::new(),
            hits: Vec::new(),
            any: DeviceBuffer::zeroed(stream, n)?,
        };
        for set in sets {
            state.rays.push(DeviceBuffer::from_slice(stream, set)?);
            state.hits.push(DeviceBuffer::zeroed(stream, n)?);
        }
        let only_any = name == RAYS[3];
        let (samples, state) = replays.run(state, |stream, state: &mut RayState, number| {
            let RayState { mesh, rays, hits, any } = state;
            if only_any {
                mesh.any_hits(stream, &rays[number], any)
            } else {
                mesh.closest_hits(stream, &rays[number], &mut hits[number])
            }
        })?;
        let check = if only_any {
            checks.any(stream, &state.any, &sets[(crate::replay::CALLS - 1) % SETS])?
        } else {
            checks.hits(stream, &state.hits, sets)?
        };
        let row = row(name, &samples, n, gpu).check(check).image("embedded PTX");
        rows.push(match most {
            Some(most) => target(row, most),
            None => row,
        });
    }
    Ok(rows)
}

/// The data of a graph of boxes.
struct BoxState {
    mesh: Mesh<'static>,
    boxes: Vec<DeviceBuffer<Aabb<f32>>>,
    counts: Vec<DeviceBuffer<u32>>,
}

fn overlaps(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let stream = &gpu.stream;
    let (replays, host) = (Replays::new(gpu, bench.samples)?, knot()?);
    let (checks, inputs) = (Checks::new(&host), Inputs::new(&host)?);
    let sets: Vec<_> = (0..SETS).map(|set| inputs.cubes(QUERIES, set)).collect();
    let mut state = BoxState {
        mesh: upload(gpu, &GeometryKernels::new(&gpu.context), &host, BuildMode::Quality)?,
        boxes: Vec::new(),
        counts: Vec::new(),
    };
    for set in &sets {
        state.boxes.push(DeviceBuffer::from_slice(stream, set)?);
        state.counts.push(DeviceBuffer::zeroed(stream, set.len())?);
    }
    let (samples, state) = replays.run(state, |stream, state: &mut BoxState, number| {
        let BoxState { mesh, boxes, counts } = state;
        mesh.count_overlaps(stream, &boxes[number], Overlap::Boxes, &mut counts[number])
    })?;
    let check = checks.counts(stream, &state.counts, &sets)?;
    let row = row("aabb_count/knot/quality/random", &samples, QUERIES, gpu);
    Ok(vec![target(row.check(check).image("embedded PTX"), 4.0)])
}
