//! Attacks on builds that are recorded and do not run, or whose conditional body is left out.

use cuda_safe::{DeviceBuffer, GraphExec, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, NO_FACE, PointQueries, Sign, TriangleMesh, shapes,
};
use geom_kernels::{Aabb, GeometryKernels, Ray};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const N: usize = 40;

/// What is built. The memory that it gets was full of others' numbers.
struct State {
    grid: HashGrid<f32>,
    bvh: Bvh,
    mesh: Mesh<'static>,
    points: DeviceBuffer<[f32; 3]>,
    boxes: DeviceBuffer<Aabb<f32>>,
    flag: DeviceBuffer<u32>,
}

impl State {
    fn new(stream: &Stream, geometry: &GeometryKernels) -> cuda_safe::Result<Self> {
        let points: Vec<[f32; 3]> = (0..N).map(|i| [i as f32 * 0.01, 0.3, -0.2]).collect();
        let boxes: Vec<_> =
            points.iter().map(|p| Aabb { lower: *p, upper: p.map(|x| x + 1.0) }).collect();
        for fill in [0x7fff_fff0u32, 1, u32::MAX] {
            drop(DeviceBuffer::from_slice(stream, &vec![fill; 100_000])?);
        }
        let mut grid = HashGrid::new(stream, geometry, GridOptions::default())?;
        grid.reserve(stream, N)?;
        let bvh = Bvh::new(stream, geometry, N, BuildMode::Quality)?;
        let ball = shapes::icosphere(1, 1.0)?;
        // Faces without points: the first build finds none.
        let hidden = TriangleMesh {
            points: ball.points.clone(),
            faces: vec![[u32::MAX; 3]; ball.faces.len()],
        };
        let options = MeshOptions::default().topology().winding().skip_validation();
        let mut mesh = Mesh::upload(stream, geometry, &hidden, options)?;
        if let Some(mut faces) = mesh.faces_mut() {
            faces.upload(stream, &ball.faces)?;
        }
        Ok(Self {
            grid,
            bvh,
            mesh,
            points: DeviceBuffer::from_slice(stream, &points)?,
            boxes: DeviceBuffer::from_slice(stream, &boxes)?,
            flag: DeviceBuffer::zeroed(stream, 1)?,
        })
    }
}

/// What queries write.
struct Answers {
    offsets: DeviceBuffer<u64>,
    indices: DeviceBuffer<u32>,
    overlaps: DeviceBuffer<u32>,
    closest: DeviceBuffer<ClosestPoint>,
    distances: DeviceBuffer<f32>,
}

impl Answers {
    fn ask(&mut self, stream: &Stream, state: &State) -> cuda_safe::Result<()> {
        let at = PointQueries::at(&state.points);
        let own = GridQueries::at_grid_points(10.0);
        state.grid.neighbor_lists_into(stream, &own, &mut self.offsets, &mut self.indices)?;
        state.bvh.count_overlaps(stream, &state.boxes, &mut self.overlaps)?;
        state.mesh.closest_points(stream, &at, &mut self.closest)?;
        state.mesh.signed_distances(stream, &at, Sign::Normal, &mut self.distances)
    }
}

/// Asks grids, hierarchies and meshes whose builds were recorded and never launched, whose graph was dropped, or whose
/// body was left out, now and in another graph.
///
/// - row: queries follow only what a build has written
/// - row: an index that a kernel reads from memory
/// - targets: `HashGrid::rebuild`, `Bvh::rebuild`, `Mesh::rebuild`, `HashGrid::neighbor_lists_into`,
///   `Bvh::count_overlaps`, `Mesh::closest_points`, `Mesh::signed_distances`, `Mesh::count_hits`, `Stream::record_if`,
///   `Bvh::refit`, `Mesh::refit`, `Bvh::new`
fn builds_that_did_not_run(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let state = State::new(&stream, &geometry)?;
    let in_body = lab.variant() == "left out";
    let mut kept = None;
    let build = |s: &Stream, state: &mut State| {
        let State { grid, bvh, mesh, points, boxes, flag } = state;
        if in_body {
            // The others allocate, which can't be in a body.
            return s.record_if(&*flag, |s| grid.rebuild(s, &*points, 0.5));
        }
        grid.rebuild(s, &*points, 0.5)?;
        bvh.rebuild(s, &*boxes)?;
        mesh.rebuild(s)
    };
    let mut graph: Option<GraphExec<'_, State>> = match lab.variant() {
        "failed" => {
            // The closure takes the state back, and fails behind the builds.
            let failed = context.capture(Some(state), |s, state| {
                if let Some(state) = state {
                    build(s, state)?;
                }
                kept = state.take();
                Err(cuda_safe::Error::invalid("on purpose"))
            });
            ensure!(failed.map(drop).is_err());
            None
        }
        "dropped" => {
            kept = Some(context.capture(state, build)?.into_state());
            None
        }
        _ => Some(context.capture(state, build)?),
    };
    if in_body && let Some(graph) = &mut graph {
        graph.launch(&stream)?;
    }
    let zeros = || DeviceBuffer::<u32>::zeroed(&stream, N);
    let mut to = Answers {
        offsets: DeviceBuffer::zeroed(&stream, N + 1)?,
        indices: DeviceBuffer::zeroed(&stream, N * N)?,
        overlaps: zeros()?,
        closest: DeviceBuffer::zeroed(&stream, N)?,
        distances: DeviceBuffer::zeroed(&stream, N)?,
    };
    let rays: Vec<Ray> =
        (0..N).map(|i| Ray::new([-9.0, 0.1, i as f32 * 0.01], [1.0, 0.0, 0.0])).collect();
    let rays = DeviceBuffer::from_slice(&stream, &rays)?;
    let mut hits = zeros()?;
    for round in 0..3 {
        let built = round == 2;
        let state = match (&mut graph, &mut kept) {
            (Some(graph), _) => {
                if built {
                    graph.state_mut().flag.upload(&stream, &[1])?;
                    graph.launch(&stream)?;
                }
                graph.state_mut()
            }
            (None, Some(kept)) => {
                if built {
                    kept.grid.rebuild(&stream, &kept.points, 0.5)?;
                    kept.bvh.rebuild(&stream, &kept.boxes)?;
                    kept.mesh.rebuild(&stream)?;
                }
                kept
            }
            (None, None) => return Err(test_harness::Failure::new("the state is gone")),
        };
        if round == 1 {
            let asked: &State = state;
            let mut asks = context.capture((), |s, ()| to.ask(s, asked))?;
            asks.launch(&stream)?;
        } else {
            to.ask(&stream, state)?;
        }
        state.mesh.count_hits(&stream, &rays, &mut hits)?;
        let neighbors = to.offsets.to_vec(&stream)?;
        let overlaps = to.overlaps.to_vec(&stream)?;
        let closest = to.closest.to_vec(&stream)?;
        let found = closest.iter().filter(|at| at.face != NO_FACE).count();
        let finite = to.distances.to_vec(&stream)?.iter().filter(|d| d.is_finite()).count();
        let hits: u32 = hits.to_vec(&stream)?.iter().sum();
        ensure_eq!(neighbors[N], if built { (N * N) as u64 } else { 0 }, "round {round}");
        if built && !in_body {
            ensure_eq!(overlaps, [N as u32; N]);
            ensure_eq!((found, finite), (N, N));
            ensure!(hits >= N as u32, "{hits}");
        } else {
            ensure_eq!(overlaps, [0; N], "round {round}");
            ensure_eq!((found, finite, hits), (0, 0, 0), "round {round}");
            // A refit of what is not there.
            if !in_body {
                state.bvh.refit(&stream, &state.boxes)?;
            }
            state.mesh.refit(&stream)?;
        }
    }
    Ok(())
}

attacks![
    "geometry",
    right(builds_that_did_not_run).variants(&["never launched", "dropped", "left out", "failed"]),
];
