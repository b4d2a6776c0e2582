//! Attacks on what the kernels of geometry trust: launches of builds that are replaced in a graph, and memory that
//! a graph writes while it is borrowed.

use std::sync::{Arc, Mutex, PoisonError};

use cuda_safe::{DeviceBuffer, DeviceSliceMut, GraphExec, Stream, WriteView};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};
use geom_kernels::isosurface::{BlockField, Map, MarchingCubes};
use geom_kernels::mesh::{Mesh, MeshOptions, shapes};
use geom_kernels::volume::{Capacity, Volume, VolumeOptions};
use geom_kernels::{Aabb, GeometryKernels};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const POINTS: [[f32; 3]; 4] = [[0.0; 3], [0.25, 0.0, 0.0], [0.0, 0.25, 0.0], [9.0, 9.0, 9.0]];

/// Names the last launch of a build, so that another one can be put in its place.
///
/// - row: what a build leaves in a grid
/// - targets: `Stream::last_node`, `HashGrid::rebuild`, `Bvh::rebuild`, `Bvh::refit`, `Mesh::rebuild`, `Mesh::refit`,
///   `Volume::rebuild_from_leaves`
fn last_launch_of_a_build(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let points = DeviceBuffer::from_slice(&stream, &POINTS)?;
    let boxes = POINTS.map(|lower| Aabb { lower, upper: lower.map(|x| x + 0.5) });
    let boxes = DeviceBuffer::from_slice(&stream, &boxes)?;
    let mut grid = HashGrid::new(&stream, &geometry, GridOptions::default())?;
    grid.reserve(&stream, POINTS.len())?;
    let mut bvh = Bvh::build(&stream, &geometry, &boxes, BuildMode::Quality)?;
    let options = MeshOptions::default().topology().winding();
    let mut mesh = Mesh::upload(&stream, &geometry, &shapes::icosphere(1, 1.0)?, options)?;
    let voxels = DeviceBuffer::from_slice(&stream, &[[1i32, 2, 3], [100, 0, -7]])?;
    let capacity = Capacity { leaves: 4, lower: 4, upper: 4, entries: 4 };
    let options = VolumeOptions::new(0.0f32).capacity(capacity);
    let mut volume = Volume::from_leaves(&stream, &geometry, &voxels, options)?;
    let graph = context.capture((), |stream, ()| {
        match lab.variant() {
            "grid" => grid.rebuild(stream, &points, 0.5)?,
            "hierarchy" => bvh.rebuild(stream, &boxes)?,
            "refit" => bvh.refit(stream, &boxes)?,
            "mesh" => mesh.rebuild(stream)?,
            "moved" => mesh.refit(stream)?,
            _ => volume.rebuild_from_leaves(stream, &voxels)?,
        }
        lab.refused(stream.last_node(), "launch")
            .map_err(|failure| cuda_safe::Error::invalid(failure.to_string()))
    })?;
    ensure_eq!(graph.nodes().count(), 0);
    Ok(())
}

type Shared<T> = Arc<Mutex<DeviceBuffer<T>>>;

/// A graph that copies to memory that its closure has locked.
type Copies<T> = GraphExec<'static, (Shared<T>, DeviceBuffer<T>)>;

fn copies<T: bytemuck::NoUninit + Send + Sync>(
    lab: &Lab,
    to: &Shared<T>,
    from: &[T],
) -> cuda_safe::Result<Copies<T>> {
    let context = lab.context().map_err(|error| cuda_safe::Error::invalid(error.to_string()))?;
    let from = DeviceBuffer::from_slice(&context.stream()?, from)?;
    context.capture((to.clone(), from), |stream, (to, from)| {
        to.lock().unwrap_or_else(PoisonError::into_inner).copy_from(stream, &*from)
    })
}

/// A view whose conversion launches a graph.
struct Launches<'a> {
    to: &'a mut DeviceBuffer<u32>,
    graph: &'a mut Copies<u64>,
    stream: &'a Stream,
}

impl<'a> WriteView<'a, u32> for Launches<'a> {
    fn write_view(self) -> DeviceSliceMut<'a, u32> {
        let launched = self.graph.launch(self.stream);
        assert!(launched.is_ok(), "{launched:?}");
        self.to.as_slice_mut()
    }
}

/// Writes other offsets by a graph that is launched while a view of the indices is asked for.
///
/// - row: no code of users and no graph of another thread
/// - targets: `HashGrid::neighbor_lists_into`
fn offsets_that_a_view_changes(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let points = DeviceBuffer::from_slice(&stream, &POINTS)?;
    let grid = HashGrid::build(&stream, &geometry, &points, 0.3, GridOptions::default())?;
    let offsets = Arc::new(Mutex::new(DeviceBuffer::<u64>::zeroed(&stream, 5)?));
    // All lists would lie in the same place.
    let mut graph = copies(lab, &offsets, &[0u64, 3, 0, 3, 1 << 40])?;
    let mut indices = DeviceBuffer::<u32>::zeroed(&stream, 16)?;
    let view = Launches { to: &mut indices, graph: &mut graph, stream: &stream };
    let mut there = offsets.lock().unwrap_or_else(PoisonError::into_inner);
    grid.neighbor_lists_into(&stream, &GridQueries::at_grid_points(0.3), &mut *there, view)?;
    ensure_eq!(there.to_vec(&stream)?, [0, 3, 5, 7, 8]);
    let mut lists = indices.to_vec(&stream)?;
    lists[..3].sort_unstable();
    lists[3..5].sort_unstable();
    lists[5..7].sort_unstable();
    ensure_eq!(lists[..8].to_vec(), [0, 1, 2, 0, 1, 0, 2, 3]);
    Ok(())
}

/// Sorts keys that another thread's graph changes all the time.
///
/// - row: no code of users and no graph of another thread
/// - targets: `Algorithms::sort_keys`, `GraphExec::launch`
fn keys_that_a_graph_changes(lab: &Lab) -> TestResult {
    const N: u32 = 600;
    let (stream, other) = (lab.stream()?, lab.stream()?);
    let sort = GeometryKernels::new(&lab.context()?).algorithms();
    let states: [Vec<u32>; 2] =
        [(0..N).rev().collect(), (0..N).map(|i| 1_000_000 + 255 * ((i * 7919) % N)).collect()];
    let sorted = states.clone().map(|mut keys| {
        keys.sort_unstable();
        keys
    });
    let [first, second] = &states;
    let keys = Arc::new(Mutex::new(DeviceBuffer::from_slice(&stream, first)?));
    let mut graphs = [copies(lab, &keys, first)?, copies(lab, &keys, second)?];
    std::thread::scope(|scope| {
        let launcher = scope.spawn(|| {
            for _ in 0..100 {
                graphs.iter_mut().try_for_each(|graph| graph.launch(&other))?;
            }
            Ok::<(), cuda_safe::Error>(())
        });
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, N as usize)?;
        while !launcher.is_finished() {
            let keys = keys.lock().unwrap_or_else(PoisonError::into_inner);
            sort.sort_keys(&stream, &*keys, &mut out, ..)?;
            let out = out.to_vec(&stream)?;
            ensure!(sorted.contains(&out), "keys of two moments");
        }
        let launched = launcher.join();
        ensure!(matches!(launched, Ok(Ok(()))), "{launched:?}");
        Ok(())
    })
}

/// Lets a block name two neighbours that don't know each other: the edge between them has no vertex.
///
/// - row: a surface holds nothing that nobody has written
/// - targets: `BlockField::new`, `MarchingCubes::extract`
fn blocks_that_contradict_each_other(lab: &Lab) -> TestResult {
    const BLOCKS: usize = 24;
    let stream = lab.stream()?;
    let mut values = vec![-1.0f32; 512 * BLOCKS];
    values[512 * 20..512 * 21].fill(1.0);
    let origins: Vec<[i32; 3]> = (0..BLOCKS as i32).map(|i| [8 * i, 0, 0]).collect();
    let mut neighbors = vec![[u32::MAX; 27]; BLOCKS];
    neighbors[0][13 + 9] = 20;
    neighbors[0][13 + 3] = 21;
    neighbors[0][13 + 9 + 3] = 21;
    let values = DeviceBuffer::from_slice(&stream, &values)?;
    let origins = DeviceBuffer::from_slice(&stream, &origins)?;
    let neighbors = DeviceBuffer::from_slice(&stream, &neighbors)?;
    let field = BlockField::new(&values, 512, &origins, &neighbors, Map::default())?;
    let cubes = MarchingCubes::new(&GeometryKernels::new(&lab.context()?));
    // What memory is likely to hold that nobody has written.
    for bytes in [1 << 18, 1 << 15, 1 << 13] {
        drop(DeviceBuffer::from_slice(&stream, &vec![0x7fff_fff0u32; bytes])?);
    }
    let surface = cubes.extract(&stream, &field, 0.0)?;
    let mesh = surface.download(&stream)?;
    let n = mesh.points.len() as u32;
    ensure!(mesh.faces.len() > 50);
    // A vertex that is not there is named as the one after those before it.
    ensure!(mesh.faces.iter().flatten().all(|vertex| *vertex <= n));
    Ok(())
}

attacks![
    "geometry",
    refused(last_launch_of_a_build).variants(&[
        "grid",
        "hierarchy",
        "refit",
        "mesh",
        "moved",
        "volume"
    ]),
    right(offsets_that_a_view_changes),
    right(keys_that_a_graph_changes).limit(120),
    right(blocks_that_contradict_each_other),
];
