//! Gradients of Rust kernels: against differences of the kernels on the CPU in `f64`, and formulas.

mod duals;
mod kernels;
mod outputs;
mod programs;
mod structures;

use cuda_safe::{DeviceBuffer, Result, Stream};
use gpu_phases::kernel::CpuError;
use tape::check::{Jacobian, jacobian};
use tape::{Recorder, Tape};

use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    let jacobians = cases![
        "tape::rust",
        device(of_elements),
        device(of_functions),
        device(of_loops),
        device(of_gathers),
        device(of_images),
        device(of_blocks),
        device(of_elementary_functions),
    ];
    [jacobians, duals::cases(), programs::cases(), outputs::cases(), structures::cases()].concat()
}

/// Integers that kernels read.
struct Indices<S> {
    first: S,
    second: S,
}

type Run = dyn Fn(&[f64], &mut [f64], &Indices<Vec<u32>>) -> std::result::Result<(), CpuError>;

type Launch<T> = dyn Fn(
    &mut Recorder<'_>,
    &DeviceBuffer<T>,
    &mut DeviceBuffer<T>,
    &Indices<DeviceBuffer<u32>>,
) -> Result<()>;

/// A function from numbers to numbers, by a kernel.
struct Function {
    name: &'static str,
    cpu: Box<Run>,
    wide: Box<Launch<f64>>,
    narrow: Box<Launch<f32>>,
}

/// The function of `x` that a call of a kernel is. `of` converts a constant to the type of its numbers.
macro_rules! function {
    (|$x:ident, $out:ident, $at:ident, $of:ident| $kernel:ident($($arg:expr),* $(,)?)) => {
        Function {
            name: stringify!($kernel),
            cpu: Box::new(|$x, $out, $at| {
                let $of = |value: f64| value;
                let _ = ($at, $of);
                kernels::$kernel::cpu($($arg),*)
            }),
            wide: Box::new(|t, $x, $out, $at| {
                let $of = |value: f64| value;
                let _ = ($at, $of);
                kernels::$kernel::record(t, $($arg),*)
            }),
            narrow: Box::new(|t, $x, $out, $at| {
                let $of = |value: f64| value as f32;
                let _ = ($at, $of);
                kernels::$kernel::record(t, $($arg),*)
            }),
        }
    };
}

/// Compares the derivatives of `outputs` outputs by each `x`.
fn agrees(
    stream: &Stream,
    function: &Function,
    x: &[f64],
    outputs: usize,
    at: &Indices<Vec<u32>>,
) -> TestResult {
    let name = function.name;
    let on_device = Indices {
        first: DeviceBuffer::from_slice(stream, &at.first)?,
        second: DeviceBuffer::from_slice(stream, &at.second)?,
    };
    let step = 1e-6;
    let value = |x: &[f64]| -> std::result::Result<Vec<f64>, Failure> {
        let mut out = vec![0.0; outputs];
        (function.cpu)(x, &mut out, at)?;
        Ok(out)
    };
    let mut rows = vec![Vec::new(); outputs];
    for moved in 0..x.len() {
        let side = |by: f64| {
            let mut x = x.to_vec();
            x[moved] += by;
            value(&x)
        };
        for (row, (right, left)) in rows.iter_mut().zip(side(step)?.iter().zip(side(-step)?)) {
            row.push((right - left) / (2.0 * step));
        }
    }
    let wanted = Jacobian::from_rows(&rows)?;
    let wide = of_launch(stream, &*function.wide, x, outputs, &on_device)?;
    let compared = wide.compare(&wanted, |_, _| false)?;
    ensure!(compared.error <= 1e-8, "{name}: {compared}");
    let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
    let compared = of_launch(stream, &*function.narrow, &x, outputs, &on_device)?
        .compare(&wide, |_, _| false)?;
    ensure!(compared.error <= 1e-5, "{name} in f32: {compared}");
    Ok(())
}

fn of_launch<T: tape::Differentiable + bytemuck::Pod>(
    stream: &Stream,
    launch: &Launch<T>,
    x: &[T],
    outputs: usize,
    at: &Indices<DeviceBuffer<u32>>,
) -> Result<Jacobian> {
    let x = DeviceBuffer::from_slice(stream, x)?;
    let mut out = DeviceBuffer::<T>::zeroed(stream, outputs)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        launch(t, &x, &mut out, at)
    })?;
    jacobian(&mut tape, stream, &x, &out)
}

fn random(rng: &mut Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| f64::from(2.0 * rng.float())).collect()
}

fn none() -> Indices<Vec<u32>> {
    Indices { first: vec![0], second: vec![0] }
}

fn of_elements(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(301));
    for function in [
        function!(|x, out, at, of| saxpy(of(0.75), x, x, out)),
        function!(|x, out, at, of| checked(of(0.75), x, x, out)),
        function!(|x, out, at, of| cases_of(x, out)),
    ] {
        for n in [1, 2, 31, 33, 300] {
            agrees(&stream, &function, &random(&mut rng, n), n, &none())?;
        }
    }
    Ok(())
}

fn of_functions(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(302));
    for function in [
        function!(|x, out, at, of| bend(x, out)),
        function!(|x, out, at, of| contracted(x, out)),
        function!(|x, out, at, of| rounded(x, out)),
    ] {
        agrees(&stream, &function, &random(&mut rng, 40), 40, &none())?;
    }
    Ok(())
}

fn of_loops(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(303));
    // More iterations than scratch memory has room for at first, none, and what is left of unrolled ones.
    for steps in ["0", "1", "3", "4", "70"] {
        let steps: u32 = steps.parse().unwrap_or(0);
        let at = Indices { first: vec![steps], second: vec![0] };
        let function = function!(|x, out, at, of| places(of(0.5), of(0.05), &at.first, x, x, out));
        agrees(&stream, &function, &random(&mut rng, 5), 5, &at)?;
    }
    for (inputs, outputs) in [(1, 1), (3, 2), (17, 3)] {
        let function = function!(|x, out, at, of| dense(x, x, out));
        // `dense` reads a matrix of outputs × columns from the same numbers, so the columns are few.
        let square = function!(|x, out, at, of| rows(x, out));
        let x = random(&mut rng, inputs * outputs);
        if outputs == 1 {
            agrees(&stream, &function, &x, outputs, &none())?;
        }
        agrees(&stream, &square, &x, outputs, &none())?;
    }
    for function in [
        function!(|x, out, at, of| roots(x, out)),
        function!(|x, out, at, of| windows(x, out)),
        function!(|x, out, at, of| arrays(x, out)),
    ] {
        agrees(&stream, &function, &random(&mut rng, 9), 9, &none())?;
    }
    Ok(())
}

fn of_gathers(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(304));
    let gather = function!(|x, out, at, of| gather(&at.first, x, out));
    let at = Indices { first: (0..50).map(|_| rng.below(7) as u32).collect(), second: vec![0] };
    agrees(&stream, &gather, &random(&mut rng, 7), 50, &at)?;
    // Rows of none, some and more elements than are read ahead.
    let spmv = function!(|x, out, at, of| spmv(&at.first, &at.second, x, x, out));
    let counts = [0, 1, 3, 16, 17, 40, 0];
    let mut starts = vec![0];
    for count in counts {
        starts.push(starts[starts.len() - 1] + count);
    }
    let entries = starts[counts.len()] as usize;
    let columns = (0..entries).map(|_| rng.below(entries) as u32).collect();
    let at = Indices { first: starts, second: columns };
    agrees(&stream, &spmv, &random(&mut rng, entries), counts.len(), &at)
}

fn of_images(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(305));
    let laplace = function!(|x, out, at, of| laplace(7, 5, x, out));
    agrees(&stream, &laplace, &random(&mut rng, 35), 35, &none())?;
    let volume = function!(|x, out, at, of| cubes(2, 3, 4, x, out));
    agrees(&stream, &volume, &random(&mut rng, 24), 24, &none())
}

/// Kernels whose threads exchange values by shared memory.
fn of_blocks(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(306));
    let lengths = function!(|x, out, at, of| lengths(x, out));
    for (n, blocks) in [(1, 1), (64, 1), (65, 2), (150, 3)] {
        agrees(&stream, &lengths, &random(&mut rng, n), blocks, &none())?;
    }
    let smoothed = function!(|x, out, at, of| smoothed(x, out));
    for n in [1, 31, 32, 33, 70] {
        agrees(&stream, &smoothed, &random(&mut rng, n), n, &none())?;
    }
    let products = function!(|x, out, at, of| products(x, out));
    agrees(&stream, &products, &random(&mut rng, 36), 36, &none())
}

fn of_elementary_functions(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(307));
    let function = Function {
        name: "waves",
        cpu: Box::new(|x, out, _| kernels::waves_f64::cpu(x, out)),
        wide: Box::new(|t, x, out, _| kernels::waves_f64::record(t, x, out)),
        narrow: Box::new(|t, x, out, _| kernels::waves_f32::record(t, x, out)),
    };
    let x: Vec<f64> = random(&mut rng, 30).into_iter().map(|x| 0.1 + 0.4 * x.abs()).collect();
    agrees(&stream, &function, &x, 30, &none())?;
    // A factor that is a constant for the tape.
    let x = DeviceBuffer::from_slice(&stream, &[3.0f32, -2.0, 0.5])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::held::record(t, &x, &mut out)
    })?;
    let found = jacobian(&mut tape, &stream, &x, &out)?;
    let wanted = [vec![3.0, 0.0, 0.0], vec![0.0, -2.0, 0.0], vec![0.0, 0.0, 0.5]];
    let compared = found.compare(&Jacobian::from_rows(&wanted)?, |_, _| false)?;
    ensure!(compared.error <= 1e-6, "held: {compared}");
    let angles = [1e12f64, -3e15, 2.0];
    let x = DeviceBuffer::from_slice(&stream, &angles)?;
    let mut out = DeviceBuffer::<f64>::zeroed(&stream, 3)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        kernels::sine::record(t, &x, &mut out)
    })?;
    let found = jacobian(&mut tape, &stream, &x, &out)?;
    let row = |of: usize| (0..3).map(|at| if at == of { angles[at].cos() } else { 0.0 }).collect();
    let compared = found.compare(&Jacobian::from_rows(&[0, 1, 2].map(row))?, |_, _| false)?;
    ensure!(compared.error <= 1e-12, "sine: {compared}");
    Ok(())
}
