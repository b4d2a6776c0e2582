//! Structures that change, that belong elsewhere, and queries without a gradient.

use cuda_safe::{DeviceBuffer, ErrorKind, Result, Stream, UnifiedBuffer};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, HashGrid};
use geom_kernels::mesh::{Mesh, MeshOptions, shapes};
use geom_kernels::volume::Volume;
use geom_kernels::volume::nanovdb::Builder;
use tape::{Seeds, Tape};

use super::super::outputs::{line_in, refused};
use super::kernels::{self, narrow};
use super::{points, single};
use test_harness::{
    Case, Failure, Rng, SEVERAL_DEVICES, TestDevice, TestResult, cases, ensure, ensure_eq,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::rust",
        device(grids_that_are_built_again),
        device(meshes_that_change),
        device(volumes_that_change),
        fault(structures_of_other_contexts).variables(SEVERAL_DEVICES),
        device(queries_without_a_gradient),
        device(faults_beside_a_grid),
        device(launches_on_the_cpu_in_between),
    ]
}

/// Points, and memory for results.
struct Fixture {
    stream: Stream,
    geometry: GeometryKernels,
    x: DeviceBuffer<[f32; 3]>,
    out: DeviceBuffer<[f32; 3]>,
    numbers: DeviceBuffer<f32>,
}

impl Fixture {
    fn new(device: &TestDevice) -> Result<Self> {
        let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
        let x = single(&points(&mut Rng::new(351), 20, 0.5));
        Ok(Self {
            x: DeviceBuffer::from_slice(&stream, &x)?,
            out: DeviceBuffer::zeroed(&stream, x.len())?,
            numbers: DeviceBuffer::zeroed(&stream, x.len())?,
            stream,
            geometry,
        })
    }

    fn grid(&self) -> Result<HashGrid<f32>> {
        HashGrid::build(&self.stream, &self.geometry, &self.x, 0.4, GridOptions::default())
    }

    fn mesh(&self) -> std::result::Result<Mesh<'static>, Failure> {
        let sphere = shapes::icosphere(1, 1.0)?;
        Ok(Mesh::upload(&self.stream, &self.geometry, &sphere, MeshOptions::default())?)
    }

    fn densities(&mut self, grid: &HashGrid<f32>) -> Result<Tape> {
        let Self { stream, x, out, .. } = self;
        Tape::record(stream, |t| {
            t.watch(&*x)?;
            narrow::densities::record(t, grid, 0.4, &*x, out)
        })
    }

    /// Runs backwards from the numbers.
    fn backward(&self, tape: &mut Tape) -> Result<()> {
        let ones = DeviceBuffer::from_slice(&self.stream, &vec![1.0f32; self.numbers.len()])?;
        tape.backward_with(&self.stream, &Seeds::new().with(&self.numbers, &ones)?)
    }
}

/// Fails unless there is an error with these parts.
#[track_caller]
fn fails<T>(done: Result<T>, parts: &[&str]) -> TestResult {
    match done {
        Ok(_) => Err(Failure::new(format!("it was not refused with {parts:?}"))),
        Err(error) => {
            let message = error.to_string();
            parts.iter().try_for_each(|part| {
                ensure!(message.contains(part), "{message:?} lacks {part:?}");
                Ok(())
            })
        }
    }
}

const OVERWRITTEN: &str = "was overwritten after it was recorded";

fn grids_that_are_built_again(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let mut grid = all.grid()?;
    let mut tape = all.densities(&grid)?;
    grid.rebuild(&all.stream, &all.x, 0.3)?;
    let ones = DeviceBuffer::from_slice(&all.stream, &[[1.0f32; 3]; 20])?;
    let done = tape.backward_with(&all.stream, &Seeds::new().with(&all.out, &ones)?);
    fails(done, &["`grid` of step 1 (`densities`)", OVERWRITTEN])?;
    // The tape keeps the memory of a grid that is gone.
    let mut by = Vec::new();
    for gone in [false, true] {
        let mut tape = all.densities(&grid)?;
        if gone {
            grid = HashGrid::new(&all.stream, &all.geometry, GridOptions::default())?;
        }
        tape.backward_with(&all.stream, &Seeds::new().with(&all.out, &ones)?)?;
        by.push(tape.gradient(&all.x)?.to_vec(&all.stream)?);
    }
    ensure_eq!(grid.len(), 0);
    ensure!(by[0] == by[1] && by[0].as_flattened().iter().any(|x| *x != 0.0), "{by:?}");
    Ok(())
}

fn meshes_that_change(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let mut mesh = all.mesh()?;
    let mut tape = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        kernels::closest::record(t, &mesh, &all.x, &mut all.numbers)
    })?;
    mesh.refit(&all.stream)?;
    fails(all.backward(&mut tape), &["`mesh` of step 1 (`closest`)", OVERWRITTEN])?;
    // Points that the hierarchy does not have yet.
    let moved =
        mesh.points().to_vec(&all.stream)?.iter().map(|p| p.map(|x| 2.0 * x)).collect::<Vec<_>>();
    let mut points = mesh.points_mut().ok_or_else(|| Failure::new("the mesh has its points"))?;
    points.upload(&all.stream, &moved)?;
    let old = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        kernels::closest::record(t, &mesh, &all.x, &mut all.numbers)
    });
    refused(old, &["the mesh's points were changed since it was built", "refit"])?;
    mesh.refit(&all.stream)?;
    let mut tape = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        t.watch(mesh.points())?;
        kernels::closest::record(t, &mesh, &all.x, &mut all.numbers)
    })?;
    all.backward(&mut tape)?;
    // A mesh without a gradient by its points.
    let watched = Tape::record(&all.stream, |t| {
        t.watch(mesh.points())?;
        kernels::fixed::record(t, &mesh, &all.x, &mut all.numbers)
    });
    refused(watched, &["`mesh` of `fixed`", "depends on something watched"])?;
    let mut tape = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        kernels::fixed::record(t, &mesh, &all.x, &mut all.numbers)
    })?;
    all.backward(&mut tape)?;
    Ok(())
}

fn volumes_that_change(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let mut builder = Builder::<f32>::new(0.0);
    (0..8).for_each(|i| {
        builder.set([i & 1, i >> 1 & 1, i >> 2], i as f32);
    });
    let mut volume = Volume::upload(&all.stream, &all.geometry, &builder.build()?)?;
    let mut tape = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        narrow::samples::record(t, &volume.view::<f32>()?, &all.x, &mut all.out)
    })?;
    let voxel = DeviceBuffer::from_slice(&all.stream, &[[0i32; 3]])?;
    let value = DeviceBuffer::from_slice(&all.stream, &[5.0f32])?;
    let mut missing = DeviceBuffer::<u64>::zeroed(&all.stream, 1)?;
    volume.store(&all.stream, &voxel, &value, &mut missing)?;
    let ones = DeviceBuffer::from_slice(&all.stream, &[[1.0f32; 3]; 20])?;
    let done = tape.backward_with(&all.stream, &Seeds::new().with(&all.out, &ones)?);
    fails(done, &["`volume` of step 1 (`samples`)", OVERWRITTEN])?;
    // Values have a gradient in the array of a volume of indices alone.
    let watched = Tape::record(&all.stream, |t| {
        t.watch(volume.variables::<f32>()?)?;
        narrow::samples::record(t, &volume.view::<f32>()?, &all.x, &mut all.out)
    });
    refused(watched, &["`volume` of `samples`", "depends on something watched"])?;
    fails(volume.view::<f64>().map(drop), &["values of float, not of double"])
}

fn structures_of_other_contexts(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let contexts = device.all_contexts()?;
    let [_, other, ..] = &contexts[..] else {
        println!("one device: nothing is tested");
        return Ok(());
    };
    let (stream, geometry) = (other.stream()?, GeometryKernels::new(other));
    let x = DeviceBuffer::from_slice(&stream, &all.x.to_vec(&all.stream)?)?;
    let grid = HashGrid::build(&stream, &geometry, &x, 0.4, GridOptions::default())?;
    let launched = narrow::densities::launch(&all.stream, &grid, 0.4, &all.x, &mut all.out);
    let recorded = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        narrow::densities::record(t, &grid, 0.4, &all.x, &mut all.out)
    });
    fails(launched, &["context"])?;
    refused(recorded, &["context"])
}

fn queries_without_a_gradient(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let grid = all.grid()?;
    let copies =
        Tape::record(&all.stream, |t| kernels::copies::record(t, &grid, &all.x, &mut all.numbers));
    let line =
        line_in("structures/kernels.rs", include_str!("kernels.rs"), "in grid.near(x[i], 0.5)");
    let wanted = "compute it from the slice that the grid was built from";
    refused(copies, &[&line, wanted, "`stop_gradient`"])?;
    let counts =
        Tape::record(&all.stream, |t| kernels::counts::record(t, &grid, &all.x, &mut all.numbers));
    refused(counts, &["`counts` can't be", "no active output depends on `x`"])
}

/// A launch on the CPU changes memory that recorded launches write before it and read after it.
fn launches_on_the_cpu_in_between(device: &TestDevice) -> TestResult {
    let mut all = Fixture::new(device)?;
    let mesh = all.mesh()?;
    let mut y = UnifiedBuffer::<f32>::pinned(&all.stream, all.numbers.len())?;
    let recorded = Tape::record(&all.stream, |t| {
        t.watch(&all.x)?;
        kernels::closest::record(t, &mesh, &all.x, &mut y)?;
        let mut host = y.host_mut()?;
        let before = host.to_vec();
        super::super::kernels::saxpy::cpu(2.0, &before, &before, &mut host[..])?;
        drop(host);
        super::super::kernels::saxpy::record(t, 2.0, &y, &y, &mut all.numbers)
    });
    refused(recorded, &["`x` of `saxpy`", "was written since by something that is not recorded"])
}

/// A neighbour that the slice does not have: the thread ends, in the adjoint too.
fn faults_beside_a_grid(device: &TestDevice) -> TestResult {
    let all = Fixture::new(device)?;
    let grid = all.grid()?;
    let few = DeviceBuffer::from_slice(&all.stream, &all.x.to_vec(&all.stream)?[..10])?;
    let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&all.stream, 10)?;
    let mut tape = Tape::record(&all.stream, |t| {
        t.watch(&few)?;
        narrow::densities::record(t, &grid, 2.0, &few, &mut out)
    })?;
    let waited = all.stream.synchronize();
    let is_fault = |kind: &ErrorKind| matches!(kind, ErrorKind::KernelFault(_));
    ensure!(waited.as_ref().is_err_and(|error| is_fault(error.kind())), "{waited:?}");
    ensure!(device.context().take_fault().is_some(), "the fault is recorded");
    let ones = DeviceBuffer::from_slice(&all.stream, &[[1.0f32; 3]; 10])?;
    tape.backward_with(&all.stream, &Seeds::new().with(&out, &ones)?)?;
    ensure_eq!(tape.gradient(&few)?.to_vec(&all.stream)?, [[0.0; 3]; 10]);
    Ok(())
}
