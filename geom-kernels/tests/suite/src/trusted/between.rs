//! Launches of graphs between the steps of an operation: by code of users that it calls, and by other threads,
//! while the memory is borrowed that the graph writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use cuda_safe::{DeviceBuffer, DeviceSliceMut, GraphExec, Stream, WriteView};
use geom_kernels::Ray;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};
use geom_kernels::isosurface::{BlockField, Map, MarchingCubes};
use geom_kernels::mesh::{Mesh, MeshOptions, RayHit, shapes};

use super::locked;
use crate::Geometry;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "trusted",
        device(views_that_launch_graphs),
        device(keys_that_change_while_they_are_sorted),
        device(neighbors_that_change_between_count_and_faces),
        device(faces_of_contradictory_blocks),
    ]
}

/// A view whose conversion launches a graph.
struct Launches<'a, T, S> {
    to: &'a mut DeviceBuffer<T>,
    graph: &'a mut GraphExec<'static, S>,
    stream: &'a Stream,
    /// The result of the launch.
    launched: &'a mut cuda_safe::Result<()>,
}

impl<'a, T: Copy + 'static, S> WriteView<'a, T> for Launches<'a, T, S> {
    fn write_view(self) -> DeviceSliceMut<'a, T> {
        *self.launched = self.graph.launch(self.stream);
        self.to.as_slice_mut()
    }
}

type Shared<T> = Arc<Mutex<DeviceBuffer<T>>>;

/// A graph that owns where it copies to and from.
type Copies<T> = GraphExec<'static, (Shared<T>, DeviceBuffer<T>)>;

/// Values, origins, and two lists of neighbours.
type Blocks = (Vec<f32>, Vec<[i32; 3]>, [Vec<[u32; 27]>; 2]);

/// A graph that copies `from` to memory that its closure has locked.
fn copies<T: bytemuck::NoUninit + Send + Sync>(
    device: &TestDevice,
    to: &Shared<T>,
    from: &[T],
) -> Result<Copies<T>, Failure> {
    let from = DeviceBuffer::from_slice(&device.stream()?, from)?;
    Ok(device
        .context()
        .capture((to.clone(), from), |stream, (to, from)| locked(to).copy_from(stream, &*from))?)
}

/// The view of indices is asked for before offsets are made, so a graph that writes these comes before that.
fn views_that_launch_graphs(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (&device.stream()?, &device.geometry());
    let offsets = Arc::new(Mutex::new(DeviceBuffer::<u64>::zeroed(stream, 3)?));
    let mut graph = copies(device, &offsets, &[5u64, 0, 1 << 40])?;

    let points = DeviceBuffer::from_slice(stream, &[[0.0f32; 3], [0.25, 0.0, 0.0]])?;
    let grid = HashGrid::build(stream, geometry, &points, 0.5, GridOptions::default())?;
    let mut indices = DeviceBuffer::<u32>::zeroed(stream, 4)?;
    let mut launched = Ok(());
    let view = Launches { to: &mut indices, graph: &mut graph, stream, launched: &mut launched };
    let mut there = locked(&offsets);
    grid.neighbor_lists_into(stream, &GridQueries::at_grid_points(0.5), &mut *there, view)?;
    launched?;
    ensure_eq!(there.to_vec(stream)?, [0, 2, 4]);
    ensure_eq!(indices.to_vec(stream)?, [0, 1, 0, 1]);

    let ball = shapes::icosphere(1, 1.0)?;
    let mesh = Mesh::upload(stream, geometry, &ball, MeshOptions::default())?;
    let rays = DeviceBuffer::from_slice(stream, &[Ray::new([-2.0, 0.1, 0.2], [1.0, 0.0, 0.0]); 2])?;
    let mut hits = DeviceBuffer::<RayHit>::zeroed(stream, 4)?;
    let mut launched = Ok(());
    let view = Launches { to: &mut hits, graph: &mut graph, stream, launched: &mut launched };
    mesh.all_hits_into(stream, &rays, &mut *there, view)?;
    launched?;
    ensure_eq!(there.to_vec(stream)?, [0, 2, 4]);
    ensure!(hits.to_vec(stream)?.iter().all(|hit| hit.t > 0.5));
    Ok(())
}

/// The sorted keys are those of one moment.
fn keys_that_change_while_they_are_sorted(device: &TestDevice) -> TestResult {
    const N: u32 = 5000;
    const ROUNDS: usize = 60;
    let (stream, sort) = (device.stream()?, device.geometry().algorithms());
    let states: [Vec<u32>; 2] = [
        (0..N).map(|i| (i * 7919) % N).collect(),
        (0..N).map(|i| 1_000_000 + 255 * ((i * 7919) % N)).collect(),
    ];
    let sorted = states.clone().map(|mut state| {
        state.sort_unstable();
        state
    });
    let keys = Arc::new(Mutex::new(DeviceBuffer::from_slice(&stream, &states[0])?));
    let [first, second] = &states;
    let mut graphs = [copies(device, &keys, first)?, copies(device, &keys, second)?];
    let other = device.stream()?;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let launcher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                graphs.iter_mut().try_for_each(|graph| graph.launch(&other))?;
                // Otherwise each sort waits for all launches of the round before, which are ever more.
                other.synchronize()?;
            }
            Ok::<(), cuda_safe::Error>(())
        });
        let all = (|| {
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, N as usize)?;
            for round in 0..ROUNDS {
                sort.sort_keys(&stream, &*locked(&keys), &mut out, ..)?;
                let out = out.to_vec(&stream)?;
                ensure!(sorted.contains(&out), "round {round}: keys of two moments");
            }
            Ok(())
        })();
        done.store(true, Ordering::Relaxed);
        launcher.join().map_err(|_| Failure::new("the thread panicked"))??;
        all
    })
}

/// Fills memory with large numbers, which the next to allocate is likely to get.
fn spoil(stream: &Stream, number: u32) -> TestResult {
    drop(DeviceBuffer::from_slice(stream, &vec![number; 1 << 18])?);
    for bytes in [1 << 9, 1 << 11, 1 << 13, 1 << 15] {
        drop(DeviceBuffer::from_slice(stream, &vec![number; bytes])?);
    }
    Ok(())
}

/// Two blocks beside each other, and a surface through both.
fn blocks() -> Blocks {
    let values =
        (0..1024u32).map(|i| if i.wrapping_mul(0x9e37_79b9) >> 31 == 0 { 1.0 } else { -1.0 });
    let alone = vec![[u32::MAX; 27]; 2];
    let mut linked = alone.clone();
    linked[0][13 + 9] = 1;
    linked[1][13 - 9] = 0;
    (values.collect(), vec![[0; 3], [8, 0, 0]], [alone, linked])
}

/// While the number of faces is waited for, a graph changes the neighbours: faces are zeros, or name
/// vertices or the one after all.
fn neighbors_that_change_between_count_and_faces(device: &TestDevice) -> TestResult {
    let stream = &device.stream()?;
    let cubes = MarchingCubes::new(&device.geometry());
    let (values, origins, states) = blocks();
    let values = DeviceBuffer::from_slice(stream, &values)?;
    let origins = DeviceBuffer::from_slice(stream, &origins)?;
    for (before, after) in [(1, 0), (0, 1)] {
        let shared = Arc::new(Mutex::new(DeviceBuffer::from_slice(stream, &states[before])?));
        let mut graph = copies(device, &shared, &states[after])?;
        let other = device.stream()?;
        let there = locked(&shared);
        let field = BlockField::new(&values, 512, &origins, &*there, Map::default())?;
        // What is found without a change; and the kernels are loaded.
        let wanted = cubes.extract(stream, &field, 0.0)?.counts;
        spoil(stream, 0x7fff_fff0)?;
        stream.synchronize()?;
        // The stream stands still until the graph is launched.
        let (go, wait) = mpsc::channel::<()>();
        stream.host_function(move || {
            let _ = wait.recv_timeout(Duration::from_secs(20));
        })?;
        let surface = std::thread::scope(|scope| {
            let launcher = scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(200));
                let launched = graph.launch(&other);
                let _ = go.send(());
                launched
            });
            let surface = cubes.extract(stream, &field, 0.0);
            launcher.join().map_err(|_| Failure::new("the thread panicked"))??;
            Ok::<_, Failure>(surface?)
        })?;
        let mesh = surface.download(stream)?;
        ensure_eq!(there.to_vec(stream)?, states[after]);
        if surface.counts == wanted {
            let n = mesh.points.len() as u32;
            ensure!(n > 100 && mesh.faces.len() > 100);
            // A vertex that is not there is named as the one after those before it.
            let bad = mesh.faces.iter().flatten().filter(|vertex| **vertex > n).count();
            ensure_eq!(bad, 0);
        }
    }
    Ok(())
}

/// A block names two neighbours that don't know each other: the edge between them has no vertex. The faces do not
/// depend on what lay in the memory before.
fn faces_of_contradictory_blocks(device: &TestDevice) -> TestResult {
    const BLOCKS: usize = 24;
    let stream = &device.stream()?;
    let mut values = vec![-1.0f32; 512 * BLOCKS];
    values[512 * 20..512 * 21].fill(1.0);
    let origins: Vec<[i32; 3]> = (0..BLOCKS as i32).map(|i| [8 * i, 0, 0]).collect();
    let mut neighbors = vec![[u32::MAX; 27]; BLOCKS];
    neighbors[0][13 + 9] = 20;
    neighbors[0][13 + 3] = 21;
    neighbors[0][13 + 9 + 3] = 21;
    let values = DeviceBuffer::from_slice(stream, &values)?;
    let origins = DeviceBuffer::from_slice(stream, &origins)?;
    let neighbors = DeviceBuffer::from_slice(stream, &neighbors)?;
    let field = BlockField::new(&values, 512, &origins, &neighbors, Map::default())?;
    let cubes = MarchingCubes::new(&device.geometry());
    let mut found = Vec::new();
    for number in [0x7fff_fff0, 0x0012_3456] {
        spoil(stream, number)?;
        found.push(cubes.extract(stream, &field, 0.0)?.download(stream)?.faces);
    }
    ensure!(found[0].len() > 50);
    ensure_eq!(found[0], found[1]);
    Ok(())
}
