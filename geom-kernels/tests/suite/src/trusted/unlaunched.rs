//! Builds that were recorded and did not run, or whose conditional body was left out: queries, also those in other
//! graphs, find what was there before.

use cuda_safe::{DeviceBuffer, GraphExec, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, NO_FACE, PointQueries, Sign, TriangleMesh, shapes,
};
use geom_kernels::volume::{Capacity, Volume, VolumeOptions};
use geom_kernels::{Aabb, Ray};

use crate::Geometry;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "trusted",
        device(builds_in_graphs_that_are_not_launched),
        device(builds_in_bodies_that_are_left_out),
    ]
}

/// All that is built and asked.
struct State {
    grid: HashGrid<f32>,
    bvh: Bvh,
    mesh: Mesh<'static>,
    volume: Volume,
    points: DeviceBuffer<[f32; 3]>,
    boxes: DeviceBuffer<Aabb<f32>>,
    voxels: DeviceBuffer<[i32; 3]>,
    flag: DeviceBuffer<u32>,
}

/// What queries write.
struct Answers {
    offsets: DeviceBuffer<u64>,
    indices: DeviceBuffer<u32>,
    overlaps: DeviceBuffer<u32>,
    closest: DeviceBuffer<ClosestPoint>,
    distances: DeviceBuffer<f32>,
    winding: DeviceBuffer<f32>,
    hits: DeviceBuffer<u32>,
    samples: DeviceBuffer<f32>,
}

impl Answers {
    fn new(stream: &Stream) -> cuda_safe::Result<Self> {
        Ok(Self {
            offsets: DeviceBuffer::zeroed(stream, N + 1)?,
            indices: DeviceBuffer::zeroed(stream, N * N)?,
            overlaps: DeviceBuffer::zeroed(stream, N)?,
            closest: DeviceBuffer::zeroed(stream, N)?,
            distances: DeviceBuffer::zeroed(stream, N)?,
            winding: DeviceBuffer::zeroed(stream, N)?,
            hits: DeviceBuffer::zeroed(stream, N)?,
            samples: DeviceBuffer::zeroed(stream, N)?,
        })
    }
}

const N: usize = 50;

fn ask(stream: &Stream, state: &State, to: &mut Answers) -> cuda_safe::Result<()> {
    let queries = PointQueries::at(&state.points);
    state.grid.neighbor_lists_into(
        stream,
        &GridQueries::at_grid_points(0.5),
        &mut to.offsets,
        &mut to.indices,
    )?;
    state.bvh.count_overlaps(stream, &state.boxes, &mut to.overlaps)?;
    state.mesh.closest_points(stream, &queries, &mut to.closest)?;
    state.mesh.signed_distances(stream, &queries, Sign::Normal, &mut to.distances)?;
    state.mesh.winding_numbers(stream, &queries, 2.0, &mut to.winding)?;
    state.volume.lookup(stream, &state.voxels, &mut to.samples)
}

fn builds_in_graphs_that_are_not_launched(device: &TestDevice) -> TestResult {
    builds(device, false)
}

/// Drivers before 12.4 have no conditional nodes.
fn builds_in_bodies_that_are_left_out(device: &TestDevice) -> TestResult {
    builds(device, true)
}

fn builds(device: &TestDevice, in_body: bool) -> TestResult {
    let (stream, geometry) = (&device.stream()?, &device.geometry());
    let mut rng = device.rng(990);
    let points: Vec<[f32; 3]> = (0..N).map(|_| [(); 3].map(|()| rng.float())).collect();
    let boxes: Vec<_> =
        points.iter().map(|p| Aabb { lower: *p, upper: p.map(|x| x + 0.1) }).collect();
    // Memory that others have left full of large numbers is what builds are likely to get.
    drop(DeviceBuffer::from_slice(stream, &vec![0x7fff_fff0u32; 500_000])?);
    let mut grid = HashGrid::new(stream, geometry, GridOptions::default())?;
    grid.reserve(stream, N)?;
    let bvh = Bvh::new(stream, geometry, N, BuildMode::Quality)?;
    // Faces that no point is there for: the first build finds none.
    let ball = shapes::icosphere(1, 1.0)?;
    let hidden =
        TriangleMesh { points: ball.points.clone(), faces: vec![[u32::MAX; 3]; ball.faces.len()] };
    let options = MeshOptions::default().topology().winding().skip_validation();
    let mut mesh = Mesh::upload(stream, geometry, &hidden, options)?;
    if let Some(mut faces) = mesh.faces_mut() {
        faces.upload(stream, &ball.faces)?;
    }
    let capacity = Capacity { leaves: 8, lower: 8, upper: 8, entries: 8 };
    let options = VolumeOptions::<f32>::new(2.0).capacity(capacity);
    let none = DeviceBuffer::<[i32; 3]>::zeroed(stream, 0)?;
    let volume = Volume::from_leaves(stream, geometry, &none, options)?;
    let state = State {
        grid,
        bvh,
        mesh,
        volume,
        points: DeviceBuffer::from_slice(stream, &points)?,
        boxes: DeviceBuffer::from_slice(stream, &boxes)?,
        voxels: DeviceBuffer::from_slice(stream, &[[1i32, 2, 3]; N][..8])?,
        flag: DeviceBuffer::zeroed(stream, 1)?,
    };
    let captured = device.context().capture(state, |stream, state| {
        let State { grid, bvh, mesh, volume, points, boxes, voxels, flag } = state;
        if !in_body {
            grid.rebuild(stream, &*points, 0.5)?;
            bvh.rebuild(stream, &*boxes)?;
            mesh.rebuild(stream)?;
            return volume.rebuild_from_voxels(stream, &*voxels);
        }
        // What allocates can't be in a body.
        stream.record_if(&*flag, |body| {
            grid.rebuild(body, &*points, 0.5)?;
            volume.rebuild_from_voxels(body, &*voxels)
        })
    });
    let mut build: GraphExec<'_, State> = match captured {
        Err(error) if in_body && error.to_string().contains("12.4") => return Ok(()),
        captured => captured?,
    };
    let mut to = Answers::new(stream)?;
    to.samples = DeviceBuffer::zeroed(stream, 8)?;
    let rays: Vec<Ray> = points.iter().map(|p| Ray::new(*p, [1.0, 0.0, 0.0])).collect();
    let rays = DeviceBuffer::from_slice(stream, &rays)?;
    // Never launched, launched without the body, and launched with it.
    for flag in [None, Some(0), Some(1)] {
        if let Some(flag) = flag.filter(|flag| in_body || *flag != 0) {
            build.state_mut().flag.upload(stream, &[flag])?;
            build.launch(stream)?;
        }
        let built = flag == Some(1);
        for in_graph in [false, true] {
            if in_graph {
                let state = build.state();
                let mut graph =
                    device.context().capture((), |stream, ()| ask(stream, state, &mut to))?;
                graph.launch(stream)?;
            } else {
                ask(stream, build.state(), &mut to)?;
            }
            build.state().mesh.count_hits(stream, &rays, &mut to.hits)?;
            let neighbors = to.offsets.to_vec(stream)?.last().copied().unwrap_or(0);
            let overlaps: u32 = to.overlaps.to_vec(stream)?.iter().sum();
            let found = to.closest.to_vec(stream)?.iter().filter(|at| at.face != NO_FACE).count();
            let inside = to.winding.to_vec(stream)?.iter().filter(|w| **w > 0.5).count();
            let hits: u32 = to.hits.to_vec(stream)?.iter().sum();
            let finite = to.distances.to_vec(stream)?.iter().filter(|d| d.is_finite()).count();
            ensure_eq!(neighbors >= N as u64, built);
            ensure_eq!(neighbors == 0, !built);
            if built && !in_body {
                ensure!(overlaps >= N as u32 && hits > 0 && inside > 0);
                ensure_eq!((found, finite), (N, N));
            } else {
                ensure_eq!((overlaps, hits), (0, 0));
                ensure_eq!((found, finite, inside), (0, 0, 0));
            }
            ensure_eq!(to.samples.to_vec(stream)?, [2.0f32; 8]);
        }
        // A refit of what was not built.
        let State { bvh, boxes, mesh, .. } = build.state_mut();
        if !in_body {
            bvh.refit(stream, &*boxes)?;
        }
        mesh.refit(stream)?;
        ensure_eq!(bvh.report(stream)?.items, if built && !in_body { N } else { 0 });
    }
    Ok(())
}
