//! Rust kernels that query structures: against differences of the same kernels on the CPU, and recorded queries.

mod boxes;
mod kernels;
mod wrong;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, HashGrid};
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries, RayHit, Sign, shapes};
use geom_kernels::structures;
use geom_kernels::volume::nanovdb::{Builder, Map, ValueOnIndex};
use geom_kernels::volume::{OnIndex, Volume};
use tape::check::{Jacobian, jacobian};
use tape::{Differentiable, Recorder, Seeds, Tape};

use kernels::{narrow, wide};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    let right = cases![
        "tape::rust",
        device(sums_over_neighbors),
        device(neighbors_in_periodic_boxes),
        device(neighbors_over_blocks),
        device(samples_of_volumes),
        device(samples_of_arrays),
        device(closest_points),
        device(hits_of_rays),
    ];
    [right, boxes::cases(), wrong::cases()].concat()
}

/// The step of differences: exact for numbers of a few thousand.
const STEP: f64 = 1.0 / 1_048_576.0;

/// Returns the derivatives of a kernel's outputs on the CPU by central differences.
fn differences(
    x: &[f64],
    step: f64,
    outputs: impl Fn(&[f64]) -> Result<Vec<f64>, Failure>,
) -> Result<Jacobian, Failure> {
    let mut rows = vec![Vec::new(); outputs(x)?.len()];
    for moved in 0..x.len() {
        let side = |by: f64| {
            let mut x = x.to_vec();
            x[moved] += by;
            outputs(&x)
        };
        for (row, (right, left)) in rows.iter_mut().zip(side(step)?.iter().zip(side(-step)?)) {
            row.push((right - left) / (2.0 * step));
        }
    }
    Ok(Jacobian::from_rows(&rows)?)
}

/// Returns the derivatives of a recorded kernel's outputs.
fn recorded<X, Y>(
    stream: &Stream,
    x: &[X],
    outputs: usize,
    record: impl FnOnce(
        &mut Recorder<'_>,
        &DeviceBuffer<X>,
        &mut DeviceBuffer<Y>,
    ) -> cuda_safe::Result<()>,
) -> Result<Jacobian, Failure>
where
    X: Differentiable + bytemuck::Pod,
    Y: Differentiable + bytemuck::Pod,
{
    let x = DeviceBuffer::from_slice(stream, x)?;
    let mut out = DeviceBuffer::<Y>::zeroed(stream, outputs)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        record(t, &x, &mut out)
    })?;
    Ok(jacobian(&mut tape, stream, &x, &out)?)
}

fn same(name: &str, given: &Jacobian, wanted: &Jacobian, bound: f64) -> TestResult {
    let compared = given.compare(wanted, |_, _| false)?;
    ensure!(compared.error <= bound, "{name}: {compared}");
    let any = wanted.rows().flatten().any(|x| *x != 0.0);
    ensure!(any, "{name}: there are no gradients to compare");
    Ok(())
}

fn triples(x: &[f64]) -> Vec<[f64; 3]> {
    x.as_chunks().0.to_vec()
}

fn single(x: &[[f64; 3]]) -> Vec<[f32; 3]> {
    x.iter().map(|x| x.map(|x| x as f32)).collect()
}

fn points(rng: &mut Rng, n: usize, size: f64) -> Vec<[f64; 3]> {
    let mut one = || size * f64::from(rng.float());
    (0..n).map(|_| [one(), one(), one()]).collect()
}

type Run = fn(
    &structures::HashGrid<f64>,
    &[[f64; 3]],
    &mut [[f64; 3]],
) -> Result<(), gpu_phases::kernel::CpuError>;

type Launch<T> = fn(
    &mut Recorder<'_>,
    &HashGrid<T>,
    &DeviceBuffer<[T; 3]>,
    &mut DeviceBuffer<[T; 3]>,
) -> cuda_safe::Result<()>;

/// A kernel over the grid of the points that it has.
struct OverGrid {
    name: &'static str,
    cpu: Run,
    wide: Launch<f64>,
    narrow: Launch<f32>,
}

/// The function of `x` that a call of a kernel is. `of` converts a constant to the type of its numbers.
macro_rules! over_grid {
    (|$grid:ident, $x:ident, $out:ident, $of:ident| $kernel:ident($($arg:expr),* $(,)?)) => {
        OverGrid {
            name: stringify!($kernel),
            cpu: |$grid, $x, $out| {
                let $of = |value: f64| value;
                wide::$kernel::cpu($($arg),*)
            },
            wide: |t, $grid, $x, $out| {
                let $of = |value: f64| value;
                wide::$kernel::record(t, $($arg),*)
            },
            narrow: |t, $grid, $x, $out| {
                let $of = |value: f64| value as f32;
                narrow::$kernel::record(t, $($arg),*)
            },
        }
    };
}

/// The half of the size of a periodic box, or none.
type HalfBox = Option<f64>;

fn options<T: geom_kernels::Real>(half: HalfBox) -> GridOptions<T> {
    let options = GridOptions::default();
    match half {
        Some(half) => options.periodic([T::narrow(-half); 3], [T::narrow(half); 3]),
        None => options,
    }
}

/// Compares the derivatives by all points. The grid is built for half the radius that is asked for.
fn agrees(device: &TestDevice, kernel: &OverGrid, x: &[[f64; 3]], half: HalfBox) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let (radius, n) = (0.2, x.len());
    let wanted = differences(x.as_flattened(), STEP, |x| {
        let x = triples(x);
        let grid = structures::HashGrid::build(&x, radius, options(half))?;
        let mut out = vec![[0.0; 3]; n];
        (kernel.cpu)(&grid, &x, &mut out)?;
        Ok(out.as_flattened().to_vec())
    })?;
    let at = DeviceBuffer::from_slice(&stream, x)?;
    let grid = HashGrid::build(&stream, &geometry, &at, radius, options(half))?;
    let given = recorded(&stream, x, n, |t, x, out| (kernel.wide)(t, &grid, x, out))?;
    same(kernel.name, &given, &wanted, 1e-8)?;
    let x = single(x);
    let at = DeviceBuffer::from_slice(&stream, &x)?;
    let grid = HashGrid::build(&stream, &geometry, &at, radius as f32, options(half))?;
    let narrow = recorded(&stream, &x, n, |t, x, out| (kernel.narrow)(t, &grid, x, out))?;
    same(kernel.name, &narrow, &given, 1e-4)
}

fn sums_over_neighbors(device: &TestDevice) -> TestResult {
    let mut rng = Rng::new(341);
    for kernel in [
        over_grid!(|grid, x, out, of| densities(grid, of(0.4), x, out)),
        over_grid!(|grid, x, out, of| contacts(grid, of(30.0), of(0.4), x, x, out)),
        over_grid!(|grid, x, out, of| flock(grid, of(0.4), x, x, out)),
    ] {
        for (n, size) in [(2, 0.1), (14, 0.4)] {
            agrees(device, &kernel, &points(&mut rng, n, size), None)?;
        }
    }
    // Pairs so far apart that a table of cells would be too large. Their differences are exact in `f32`.
    let pairs = points(&mut rng, 4, 4000.0).into_iter().flat_map(|p| {
        let by = points(&mut rng, 1, 0.15)[0];
        [p, std::array::from_fn(|k| p[k] + by[k])].map(|p| p.map(|x| (x * 64.0).round() / 64.0))
    });
    let kernel = over_grid!(|grid, x, out, of| densities(grid, of(0.4), x, out));
    agrees(device, &kernel, &pairs.collect::<Vec<_>>(), None)
}

fn neighbors_in_periodic_boxes(device: &TestDevice) -> TestResult {
    let mut rng = Rng::new(342);
    let kernel = over_grid!(|grid, x, out, of| attractions(grid, of(0.4), x, out));
    // Some points lie outside of the box.
    agrees(device, &kernel, &points(&mut rng, 24, 0.8), Some(0.6))?;
    agrees(device, &kernel, &points(&mut rng, 24, 0.8), None)
}

/// Blocks whose threads query the grid.
fn neighbors_over_blocks(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let x = points(&mut Rng::new(343), 40, 0.5);
    let wanted = differences(x.as_flattened(), STEP, |x| {
        let x = triples(x);
        let grid = structures::HashGrid::build(&x, 0.2, GridOptions::default())?;
        let mut out = vec![0.0; x.len()];
        kernels::energies::cpu(&grid, 0.4, &x, &mut out)?;
        Ok(out)
    })?;
    let at = DeviceBuffer::from_slice(&stream, &x)?;
    let grid = HashGrid::build(&stream, &geometry, &at, 0.2, GridOptions::default())?;
    let given = recorded(&stream, &x, x.len(), |t, x, out| {
        kernels::energies::record(t, &grid, 0.4, x, out)
    })?;
    same("energies", &given, &wanted, 1e-8)
}

/// A field that is neither linear nor symmetric.
fn field(at: [i32; 3]) -> f64 {
    let [x, y, z] = at.map(f64::from);
    (0.7 * x + 0.2 * y).sin() + (0.5 * y - 0.3 * z).cos() * 0.1 * x + 0.05 * z * z
}

fn voxels() -> impl Iterator<Item = [i32; 3]> {
    (0..10i32.pow(3)).map(|i| [i / 100 - 5, i / 10 % 10 - 5, i % 10 - 5])
}

/// Positions in the world away from the faces of cells, where a trilinear sample has kinks.
fn between(rng: &mut Rng, n: usize) -> Vec<[f64; 3]> {
    let mut one = || 0.5 * (rng.below(7) as f64 - 3.5 + 0.4 * f64::from(rng.float())) + 0.25;
    (0..n).map(|_| [one(), one(), one()]).collect()
}

fn samples_of_volumes(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let map = Map::uniform(0.5, [0.0; 3])?;
    let (mut of_f64, mut of_f32) = (Builder::<f64>::new(0.25), Builder::<f32>::new(0.25));
    of_f64.map(map);
    of_f32.map(map);
    for voxel in voxels() {
        of_f64.set(voxel, f64::from(field(voxel) as f32));
        of_f32.set(voxel, field(voxel) as f32);
    }
    let here = structures::Volume::<f64>::new(of_f64.build()?)?;
    let volume = Volume::upload(&stream, &geometry, here.grid())?;
    let single_volume = Volume::upload(&stream, &geometry, &of_f32.build()?)?;
    let (there, narrow_there) = (volume.view::<f64>()?, single_volume.view::<f32>()?);
    let x = between(&mut Rng::new(344), 12);
    let wanted = differences(x.as_flattened(), STEP, |x| {
        let mut out = vec![[0.0; 3]; x.len() / 3];
        wide::samples::cpu(&here, &triples(x), &mut out)?;
        Ok(out.as_flattened().to_vec())
    })?;
    let given =
        recorded(&stream, &x, x.len(), |t, x, out| wide::samples::record(t, &there, x, out))?;
    same("samples", &given, &wanted, 1e-8)?;
    let narrow = recorded(&stream, &single(&x), x.len(), |t, x, out| {
        narrow::samples::record(t, &narrow_there, x, out)
    })?;
    same("samples in f32", &narrow, &given, 1e-4)
}

/// Samples of a volume of indices, whose values are in an array with a gradient.
fn samples_of_arrays(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let mut builder = Builder::<ValueOnIndex>::new(());
    builder.map(Map::uniform(0.5, [0.0; 3])?);
    voxels().for_each(|voxel| {
        builder.set(voxel, ());
    });
    let here = structures::Volume::<OnIndex>::new(builder.build()?)?;
    let volume = Volume::upload(&stream, &geometry, here.grid())?;
    let there = volume.view::<OnIndex>()?;
    let mut rng = Rng::new(345);
    let (x, values) = (between(&mut rng, 3), points(&mut rng, 1000 / 3, 1.0));
    let values = values.as_flattened();
    // By positions.
    let at_values = DeviceBuffer::from_slice(&stream, values)?;
    let by_x = |x: &[f64]| {
        let mut out = vec![0.0; x.len() / 3];
        wide::of_array::cpu(&here, values, &triples(x), &mut out)?;
        Ok(out)
    };
    let given = recorded(&stream, &x, x.len(), |t, x, out| {
        wide::of_array::record(t, &there, &at_values, x, out)
    })?;
    same("by positions", &given, &differences(x.as_flattened(), STEP, by_x)?, 1e-8)?;
    // By values: sums of products with constants, whatever the step.
    let at_x = DeviceBuffer::from_slice(&stream, &x)?;
    let by_values = |values: &[f64]| {
        let mut out = vec![0.0; x.len()];
        wide::of_array::cpu(&here, values, &x, &mut out)?;
        Ok(out)
    };
    let given = recorded(&stream, values, x.len(), |t, values, out| {
        wide::of_array::record(t, &there, values, &at_x, out)
    })?;
    same("by values", &given, &differences(values, 0.5, by_values)?, 1e-11)
}

/// Gradients by points and vertices.
fn of_mesh<Y: Differentiable<Gradient = Y> + bytemuck::Pod>(
    stream: &Stream,
    mesh: &Mesh<'_>,
    x: &DeviceBuffer<[f32; 3]>,
    seeds: &[Y],
    record: impl FnOnce(&mut Recorder<'_>, &mut DeviceBuffer<Y>) -> cuda_safe::Result<()>,
) -> Result<[Vec<f32>; 2], Failure> {
    let mut out = DeviceBuffer::<Y>::zeroed(stream, seeds.len())?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(x)?;
        t.watch(mesh.points())?;
        record(t, &mut out)
    })?;
    let seeds = DeviceBuffer::from_slice(stream, seeds)?;
    tape.backward_with(stream, &Seeds::new().with(&out, &seeds)?)?;
    let by_x = tape.gradient(x)?.to_vec(stream)?;
    let by_vertex = tape.gradient(mesh.points())?.to_vec(stream)?;
    Ok([by_x, by_vertex].map(|points| points.as_flattened().to_vec()))
}

fn near(name: &str, given: &[Vec<f32>; 2], wanted: &[Vec<f32>; 2]) -> TestResult {
    for (what, (given, wanted)) in ["x", "vertices"].into_iter().zip(given.iter().zip(wanted)) {
        ensure_eq!(given.len(), wanted.len());
        let most = wanted.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        ensure!(most > 0.0, "{name} by {what}: there is no gradient");
        for (i, (a, b)) in given.iter().zip(wanted).enumerate() {
            ensure!((a - b).abs() <= 1e-5 * most, "{name} by {what}: {i} is {a}, not {b}");
        }
    }
    Ok(())
}

fn closest_points(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let shape = shapes::icosphere(1, 1.0)?;
    let mesh = Mesh::upload(&stream, &geometry, &shape, MeshOptions::default())?;
    let mut rng = Rng::new(346);
    let x = single(&points(&mut rng, 20, 1.5));
    let at = DeviceBuffer::from_slice(&stream, &x)?;
    let seeds: Vec<f32> = (0..x.len()).map(|_| rng.float()).collect();
    let wanted = of_mesh(&stream, &mesh, &at, &seeds, |t, out| {
        mesh.record_signed_distances(t, &PointQueries::at(&at), Sign::Parity, out)
    })?;
    let given = of_mesh(&stream, &mesh, &at, &seeds, |t, out| {
        kernels::distances::record(t, &mesh, &at, out)
    })?;
    near("distances", &given, &wanted)?;
    // The sum of squared distances and coordinates of closest points.
    let ones = vec![1.0f32; x.len()];
    let one = ClosestPoint {
        position: [1.0, 2.0, 3.0],
        distance_squared: 1.0,
        u: 4.0,
        v: 5.0,
        ..bytemuck::Zeroable::zeroed()
    };
    let wanted = of_mesh(&stream, &mesh, &at, &vec![one; x.len()], |t, out| {
        mesh.record_closest_points(t, &PointQueries::at(&at), out)
    })?;
    let given =
        of_mesh(&stream, &mesh, &at, &ones, |t, out| kernels::closest::record(t, &mesh, &at, out))?;
    near("closest points", &given, &wanted)?;
    // Against differences of the CPU's: the faces are flat, and few points are near where others are closest.
    let here = structures::Mesh::new(&shape, MeshOptions::default())?;
    let step = 1.0 / 64.0;
    let mut close = 0;
    for (i, gradient) in given[0].as_chunks::<3>().0.iter().enumerate() {
        for axis in 0..3 {
            let side = |by: f32| -> Result<f32, Failure> {
                let (mut x, mut out) = ([x[i]], [0.0]);
                x[0][axis] += by;
                kernels::closest::cpu(&here, &x, &mut out)?;
                Ok(out[0])
            };
            let slope = (side(step)? - side(-step)?) / (2.0 * step);
            close += usize::from((slope - gradient[axis]).abs() < 1e-2);
        }
    }
    ensure!(close > 40, "{close} of {} slopes agree", 3 * x.len());
    Ok(())
}

fn hits_of_rays(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.shared(GeometryKernels::new));
    let mesh =
        Mesh::upload(&stream, &geometry, &shapes::icosphere(1, 1.0)?, MeshOptions::default())?;
    let mut rng = Rng::new(347);
    let from: Vec<[f32; 3]> =
        single(&points(&mut rng, 40, 0.5)).iter().map(|[x, y, z]| [*x, *y, z - 2.0]).collect();
    let at = DeviceBuffer::from_slice(&stream, &from)?;
    let one = RayHit { t: 1.0, u: 2.0, v: 3.0, ..bytemuck::Zeroable::zeroed() };
    let rays: Vec<_> = from.iter().map(|x| geom_kernels::Ray::new(*x, [x[1], x[0], 1.0])).collect();
    let rays = DeviceBuffer::from_slice(&stream, &rays)?;
    let mut out = DeviceBuffer::<RayHit>::zeroed(&stream, from.len())?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&rays)?;
        t.watch(mesh.points())?;
        mesh.record_closest_hits(t, &rays, &mut out)
    })?;
    let seeds = DeviceBuffer::from_slice(&stream, &vec![one; from.len()])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
    let by_ray = tape.gradient(&rays)?.to_vec(&stream)?;
    let by_x = by_ray.iter().flat_map(|ray| {
        let ([x, y, z], [of_y, of_x, _]) = (ray.origin, ray.direction);
        [x + of_x, y + of_y, z]
    });
    let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
    let wanted = [by_x.collect(), by_vertex.as_flattened().to_vec()];
    let given = of_mesh(&stream, &mesh, &at, &vec![1.0f32; from.len()], |t, out| {
        kernels::hits::record(t, &mesh, &at, out)
    })?;
    near("hits", &given, &wanted)
}
