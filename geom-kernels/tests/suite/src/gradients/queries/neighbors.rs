//! Sums over neighbours, with the array that the grid was built from, against sums over all pairs in f64.

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, DeviceRepr, KernelArg};
use geom_kernels::hash_grid::{GridOptions, GridView, HashGrid};
use geom_kernels::{Points, Real};
use tape::{Differentiable, Element, Op, Param, Seeds, Tape, Variable};

use super::super::{fine_slopes, points, refused, within};
use super::{differentiate, input, threads};
use crate::Geometry;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::queries",
        device(densities_f32 = densities::<f32>),
        device(densities_f64 = densities::<f64>),
        device(densities_in_periodic_boxes),
        device(nearest_neighbors = nearest),
        device(grids_that_change),
    ]
}

trait Number: Real + DeviceRepr + Pod + Differentiable<Gradient = Self> + PartialEq {
    const NAME: &'static str;
    const NUMBER: Element;
    const TOLERANCE: f64;
}

impl Number for f32 {
    const NAME: &'static str = "float";
    const NUMBER: Element = Element::F32;
    const TOLERANCE: f64 = 1e-4;
}

impl Number for f64 {
    const NAME: &'static str = "double";
    const NUMBER: Element = Element::F64;
    const TOLERANCE: f64 = 1e-8;
}

/// Threads go by cells; by points; by cells with the iterator.
const KERNELS: [(&str, &str); 3] = [
    (
        "by_cell",
        r#"
    unsigned slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot >= geom::point_count(grid)) return;
    auto p = geom::point_at(grid, x, slot);
    if (p.index >= n) return;
    real sum = 0;
    geom::for_each_neighbor(grid, x, {p.x, p.y, p.z}, h, [&](const geom::Neighbor<real>& j) {
        real inside = h * h - j.distance_squared;
        sum += mass[j.index] * inside * inside * inside;
    });
    out[p.index] = sum;"#,
    ),
    (
        "by_point",
        r#"
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    real sum = 0;
    geom::for_each_neighbor(grid, x, x[i], h, [&](const geom::Neighbor<real>& j) {
        real inside = h * h - dot(j.delta, j.delta);
        sum += mass[j.index] * inside * inside * inside;
    });
    out[i] = sum;"#,
    ),
    (
        "by_iterator",
        r#"
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        real sum = 0;
        geom::NeighborIterator<real> all(grid, x[i], h);
        geom::Neighbor<real> j;
        while (all.next(x, j)) {
            real inside = h * h - j.distance_squared;
            sum += mass[j.index] * inside * inside * inside;
        }
        out[i] = sum;
    }"#,
    ),
];

fn op<T: Number>(device: &TestDevice, name: &str, body: &str) -> Result<Op, Failure>
where
    [T; 3]: Differentiable,
{
    let text = format!(
        "#include <geom/hash_grid.cuh>
typedef {} real;
extern \"C\" __global__ void {name}(
    geom::HashGrid<real> grid, const geom::vec3<real>* x, const real* mass, real h, real* out, unsigned n
) {{{body}
}}",
        T::NAME
    );
    let point = <[T; 3] as Differentiable>::ELEMENT;
    let params = vec![
        Param::argument::<GridView<'_, T>>("grid"),
        input("x", point),
        input("mass", T::NUMBER),
        Param::scalar("h", T::NUMBER).active(),
        Param::buffer("out", T::NUMBER).active(),
    ];
    differentiate(device, &text, name, params)
}

fn narrow<T: Number>(numbers: &[f64]) -> Vec<T> {
    numbers.iter().map(|x| T::narrow(*x)).collect()
}

fn triples<T: Number>(numbers: &[f64]) -> Vec<[T; 3]> {
    numbers.chunks_exact(3).map(|p| [0, 1, 2].map(|k| T::narrow(p[k]))).collect()
}

fn wide<T: Number>(numbers: &[T]) -> Vec<f64> {
    numbers.iter().map(|x| x.wide()).collect()
}

/// The loss: the sum of w density; and its gradients by x, mass and h.
struct Pairs<'a> {
    w: &'a [f64],
    /// The extent of a periodic box, or 0.
    period: f64,
}

impl Pairs<'_> {
    fn delta(&self, x: &[f64], i: usize, j: usize) -> [f64; 3] {
        std::array::from_fn(|k| {
            let d = x[3 * i + k] - x[3 * j + k];
            if self.period > 0.0 { d - (d / self.period).round() * self.period } else { d }
        })
    }

    fn loss(&self, x: &[f64], mass: &[f64], h: f64) -> f64 {
        self.gradients(x, mass, h).3
    }

    fn gradients(&self, x: &[f64], mass: &[f64], h: f64) -> (Vec<f64>, Vec<f64>, f64, f64) {
        let n = mass.len();
        let (mut by_x, mut by_mass, mut by_h, mut loss) =
            (vec![0.0; 3 * n], vec![0.0; n], 0.0, 0.0);
        for i in 0..n {
            for j in 0..n {
                let d = self.delta(x, i, j);
                let inside = h * h - d.iter().map(|d| d * d).sum::<f64>();
                if inside < 0.0 {
                    continue;
                }
                loss += self.w[i] * mass[j] * inside.powi(3);
                by_mass[j] += self.w[i] * inside.powi(3);
                let slope = 3.0 * self.w[i] * mass[j] * inside * inside;
                by_h += slope * 2.0 * h;
                for k in 0..3 {
                    by_x[3 * i + k] -= slope * 2.0 * d[k];
                    by_x[3 * j + k] += slope * 2.0 * d[k];
                }
            }
        }
        (by_x, by_mass, by_h, loss)
    }
}

struct Run<T: Number> {
    options: GridOptions<T>,
    /// Points lie in -size..size; or one of two does, and the next is near it.
    size: f32,
    pairs: bool,
    period: f64,
}

fn check<T: Number>(device: &TestDevice, op: &Op, run: &Run<T>, n: usize) -> TestResult
where
    for<'a> Points<'a, T>: From<&'a DeviceBuffer<[T; 3]>>,
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
    for<'a> &'a Variable<T>: KernelArg,
{
    let (stream, mut rng) = (device.stream()?, device.rng(1520 + n as u64));
    let h = 0.4f32;
    let mut x: Vec<f64> = super::super::wide(&points(&mut rng, n, run.size));
    if run.pairs {
        let by = super::super::wide(&points(&mut rng, n, 0.15));
        for i in (3..3 * n).filter(|i| i / 3 % 2 == 1) {
            x[i] = f64::from((x[i - 3] + by[i]) as f32);
        }
    }
    let mass: Vec<f64> = rng.floats(n).into_iter().map(|m| f64::from(1.5 + m)).collect();
    let w: Vec<f64> = rng.floats(n).into_iter().map(f64::from).collect();
    let at = DeviceBuffer::from_slice(&stream, &triples::<T>(&x))?;
    let masses = DeviceBuffer::from_slice(&stream, &narrow::<T>(&mass))?;
    let given = DeviceBuffer::from_slice(&stream, &narrow::<T>(&w))?;
    let radius = Variable::new(&stream, T::narrow(h.into()))?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, n)?;
    let options = run.options;
    let grid = HashGrid::build(&stream, &device.geometry(), &at, T::narrow(h.into()), options)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.watch(&masses)?;
        t.watch(&radius)?;
        t.launch(op, threads(n), (grid.view(), &at, &masses, &radius, &mut out, n as u32))
    })?;
    if n == 0 {
        return Ok(());
    }
    tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
    let pairs = Pairs { w: &w, period: run.period };
    let h = f64::from(h);
    let (by_x, by_mass, by_h, loss) = pairs.gradients(&x, &mass, h);
    let found: f64 = wide(&out.to_vec(&stream)?).iter().zip(&w).map(|(d, w)| d * w).sum();
    ensure!((found - loss).abs() <= 1e-4 * loss.abs().max(1e-3), "the loss is {found}, not {loss}");
    let all = |numbers: &[f64]| numbers.iter().copied().map(Some).collect::<Vec<_>>();
    if n <= 33 && run.period == 0.0 {
        // The sums are those that differences have.
        let slopes = fine_slopes(&x, 1e-4, |x| Some(pairs.loss(x, &mass, h)));
        within(1e-7, &by_x, &slopes)?;
    }
    let got = tape.gradient(&at)?.to_vec(&stream)?;
    within(T::TOLERANCE, &wide(got.as_flattened()), &all(&by_x))?;
    within(T::TOLERANCE, &wide(&tape.gradient(&masses)?.to_vec(&stream)?), &all(&by_mass))?;
    within(T::TOLERANCE, &wide(&tape.gradient(&radius)?.to_vec(&stream)?), &[Some(by_h)])
}

fn densities<T: Number>(device: &TestDevice) -> TestResult
where
    for<'a> Points<'a, T>: From<&'a DeviceBuffer<[T; 3]>>,
    [T; 3]: Pod + Differentiable<Gradient = [T; 3]>,
    for<'a> &'a Variable<T>: KernelArg,
{
    let (lower, upper) = ([T::narrow(-1.0); 3], [T::narrow(1.0); 3]);
    for (name, body) in KERNELS {
        let op = op::<T>(device, name, body)?;
        let free = Run { options: GridOptions::default(), size: 0.7, pairs: false, period: 0.0 };
        let dense = GridOptions::default().bounds(lower, upper);
        let dense = Run { options: dense, size: 1.0, pairs: false, period: 0.0 };
        for n in [0, 1, 31, 32, 33] {
            check::<T>(device, &op, &free, n)?;
            check::<T>(device, &op, &dense, n)?;
        }
        // So far apart that a table of cells would be too large.
        let hashed = Run { options: GridOptions::default(), size: 500.0, pairs: true, period: 0.0 };
        check::<T>(device, &op, &hashed, 300)?;
        if name == "by_cell" {
            check::<T>(device, &op, &Run { size: 2.0, ..dense }, 2000)?;
        }
    }
    Ok(())
}

fn densities_in_periodic_boxes(device: &TestDevice) -> TestResult {
    let body = KERNELS[0].1;
    let op32 = op::<f32>(device, "by_cell", body)?;
    let op64 = op::<f64>(device, "by_cell", body)?;
    // The points leave the box: they are wrapped.
    for (half, size) in [(0.5, 0.8), (2.0, 2.5)] {
        let options = GridOptions::default().periodic([-half as f32; 3], [half as f32; 3]);
        check(device, &op32, &Run { options, size, pairs: false, period: 2.0 * half }, 90)?;
        let options = GridOptions::default().periodic([-half; 3], [half; 3]);
        check(device, &op64, &Run { options, size, pairs: false, period: 2.0 * half }, 90)?;
    }
    Ok(())
}

const NEAREST: &str = r#"
#include <geom/hash_grid.cuh>
extern "C" __global__ void nearest(geom::HashGrid<float> grid, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    geom::Nearest<float, 4> found;
    geom::nearest_neighbors(grid, x, x[i], 4u, 10.0f, found, 0u, i);
    float sum = 0.0f;
    for (unsigned k = 0; k < found.count; ++k) sum += sqrtf(found.distance_squared[k]);
    out[i] = sum;
}"#;

fn nearest(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1530));
    let point = <[f32; 3] as Differentiable>::ELEMENT;
    let params = vec![
        Param::argument::<GridView<'_, f32>>("grid"),
        input("x", point),
        Param::buffer("out", Element::F32).len("n").active(),
    ];
    let op = differentiate(device, NEAREST, "nearest", params)?;
    for n in [1, 3, 32, 90] {
        let host = points(&mut rng, n, 0.7);
        let at = DeviceBuffer::from_slice(&stream, &host)?;
        let weights = rng.floats(n);
        let given = DeviceBuffer::from_slice(&stream, &weights)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let grid = HashGrid::build(&stream, &device.geometry(), &at, 0.3, GridOptions::default())?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&at)?;
            t.launch(&op, threads(n), (grid.view(), &at, &mut out, n as u32))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
        let x = super::super::wide(&host);
        let mut wanted = vec![0.0f64; 3 * n];
        for i in 0..n {
            let delta = |j: usize| [0, 1, 2].map(|k| x[3 * i + k] - x[3 * j + k]);
            let length = |d: [f64; 3]| d.iter().map(|d| d * d).sum::<f64>().sqrt();
            let mut others: Vec<usize> = (0..n).filter(|j| *j != i).collect();
            others.sort_by(|a, b| length(delta(*a)).total_cmp(&length(delta(*b))));
            for &j in others.iter().take(4) {
                let (d, size) = (delta(j), length(delta(j)));
                for k in 0..3 {
                    wanted[3 * i + k] += f64::from(weights[i]) * d[k] / size;
                    wanted[3 * j + k] -= f64::from(weights[i]) * d[k] / size;
                }
            }
        }
        let got = tape.gradient(&at)?.to_vec(&stream)?;
        let wanted: Vec<Option<f64>> = wanted.into_iter().map(Some).collect();
        within(1e-5, &wide(got.as_flattened()), &wanted)?;
    }
    Ok(())
}

/// A grid that is built again before the pass; and an array that was changed since the grid was built: then distances
/// are those of the array.
fn grids_that_change(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n) = (device.stream()?, device.rng(1531), 40);
    let op = op::<f32>(device, KERNELS[1].0, KERNELS[1].1)?;
    let host = points(&mut rng, n, 0.5);
    let mut at = DeviceBuffer::from_slice(&stream, &host)?;
    let masses = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let given = DeviceBuffer::from_slice(&stream, &vec![1.0f32; n])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut grid = HashGrid::new(&stream, &device.geometry(), GridOptions::default())?;
    grid.reserve(&stream, n)?;
    grid.rebuild(&stream, &at, 0.5)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.launch(&op, threads(n), (grid.view(), &at, &masses, 0.5f32, &mut out, n as u32))
    })?;
    grid.rebuild(&stream, &at, 0.5)?;
    let done = tape.backward_with(&stream, &Seeds::new().with(&out, &given)?);
    refused(done, "was overwritten after it was recorded")?;
    // No point comes nearer than h, or leaves it, so far as the grid sees.
    let moved: Vec<[f32; 3]> = host.iter().map(|p| p.map(|x| 0.9 * x)).collect();
    at.upload(&stream, &moved)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&at)?;
        t.launch(&op, threads(n), (grid.view(), &at, &masses, 2.0f32, &mut out, n as u32))
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &given)?)?;
    let (x, w) = (super::super::wide(&moved), vec![1.0; n]);
    let wanted = Pairs { w: &w, period: 0.0 }.gradients(&x, &w, 2.0).0;
    let wanted: Vec<Option<f64>> = wanted.into_iter().map(Some).collect();
    let got = tape.gradient(&at)?.to_vec(&stream)?;
    within(1e-4, &wide(got.as_flattened()), &wanted)
}
