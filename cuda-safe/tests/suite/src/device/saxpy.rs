//! The project's first kernel: against sums in double precision.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, ErrorKind, LaunchConfig, kernels};

use super::SIZES;
use test_harness::programs::Saxpy;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "saxpy",
        device(one_float_a_thread),
        device(four_floats_a_thread),
        device(as_a_user_writes_it),
    ]
}

/// Compares with the exact result, which f64 holds (see `Rng::float`). The compiler may fuse the
/// operations or not, so each may be rounded once.
fn check(a: f32, x: &[f32], y: &[f32], out: &[f32]) -> TestResult {
    ensure_eq!(out.len(), x.len());
    let unit = f64::from(f32::EPSILON) / 2.0;
    let n = x.len();
    for (i, ((x, y), out)) in x.iter().zip(y).zip(out).enumerate() {
        let product = f64::from(a) * f64::from(*x);
        let exact = product + f64::from(*y);
        let bound = 1.001 * unit * (product.abs() + exact.abs());
        let error = (f64::from(*out) - exact).abs();
        if error > bound {
            return Err(Failure::new(format!("element {i} of {n}: {out} instead of {exact}")));
        }
    }
    Ok(())
}

fn one_float_a_thread(device: &TestDevice) -> TestResult {
    let (stream, saxpy) = (device.stream()?, Saxpy::of(device)?);
    let mut rng = device.rng(1);
    for n in SIZES {
        let (a, x, y) = (rng.float(), rng.floats(n), rng.floats(n));
        let device_x = DeviceBuffer::from_slice(&stream, &x)?;
        let device_y = DeviceBuffer::from_slice(&stream, &y)?;
        let mut out = DeviceBuffer::zeroed(&stream, n)?;
        let launch = LaunchConfig::cover(n, 256);
        let launched = saxpy.saxpy(&stream, launch, a, &device_x, &device_y, &mut out, n as u64);
        if n == 0 {
            launched?;
        } else {
            device.count(launched)?;
        }
        check(a, &x, &y, &out.to_vec(&stream)?)?;
    }
    Ok(())
}

fn four_floats_a_thread(device: &TestDevice) -> TestResult {
    let (stream, saxpy) = (device.stream()?, Saxpy::of(device)?);
    let mut rng = device.rng(2);
    for n in SIZES {
        let (a, x, y) = (rng.float(), rng.floats(4 * n), rng.floats(4 * n));
        let device_x = DeviceBuffer::from_slice(&stream, &x)?;
        let device_y = DeviceBuffer::from_slice(&stream, &y)?;
        let out = DeviceBuffer::<f32>::zeroed(&stream, 4 * n)?;
        // Buffers are aligned for it, so the floats can be taken four at a time.
        let mut out: DeviceBuffer<Float4> = out.cast()?;
        let (fours_x, fours_y) = (device_x.as_slice().cast()?, device_y.as_slice().cast()?);
        let launch = LaunchConfig::cover(n, 128);
        let launched = saxpy.saxpy4(&stream, launch, a, fours_x, fours_y, &mut out, n as u64);
        if n == 0 {
            launched?;
        } else {
            device.count(launched)?;
        }
        let out: Vec<Float4> = out.to_vec(&stream)?;
        let out: Vec<f32> = out.into_iter().flat_map(<[f32; 4]>::from).collect();
        check(a, &x, &y, &out)?;
    }
    Ok(())
}

kernels! {
    /// Declared beside its source, as users do.
    struct Mine;
    // SAFETY: thread i touches element i of x and y, and only if i < n.
    unsafe in r#"
        extern "C" __global__ void scale(float a, const float* x, float* y, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] = a * x[i];
        }
        template <class T> __global__ void set(T* x, T value) { x[0] = value; }
    "# {
        safe fn scale(a: f32, x: &[f32], y: &mut [f32], n: u32)
            where n <= x.len(), n <= y.len();
        #[name = "set<double>"]
        unsafe fn set(x: &mut [f64], value: f64);
    }
}

fn as_a_user_writes_it(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mine = Mine::load(device.context())?;
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32, -2.0, 0.5, 8.0])?;
    let mut y = DeviceBuffer::zeroed(&stream, 4)?;
    device.count(mine.scale(&stream, LaunchConfig::cover(4, 32), 3.0, &x, &mut y, 4))?;
    ensure_eq!(y.to_vec(&stream)?, [3.0, -6.0, 1.5, 24.0]);

    // Views, and fewer elements.
    let (low, mut high) = y.split_at_mut(2)?;
    device.count(mine.scale(&stream, (1, 32), 0.5, x.slice(2..)?, &mut high, 2))?;
    ensure_eq!(low.to_vec(&stream)?, [3.0, -6.0]);
    ensure_eq!(high.to_vec(&stream)?, [0.25, 4.0]);

    // The clause holds for no more elements than there are.
    let refused = mine.scale(&stream, (1, 32), 1.0, &x, &mut y, 5);
    match refused.as_ref().map_err(cuda_safe::Error::kind) {
        Err(ErrorKind::Precondition { kernel, values, .. }) => {
            ensure!(kernel.contains("scale"));
            ensure!(values.iter().any(|(_, value)| *value == 5), "{values:?}");
        }
        _ => return Err(Failure::new(format!("5 of 4 elements: {refused:?}"))),
    }

    let mut double = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
    // SAFETY: `set` writes the first element, of which there is one.
    device.count(unsafe { mine.set(&stream, (1, 1), &mut double, 0.1) })?;
    ensure_eq!(double.to_vec(&stream)?, [0.1]);
    Ok(())
}
