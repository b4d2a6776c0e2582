//! Second derivatives: gradients of directional derivatives, by kernels over dual numbers.

use cuda_safe::kernel::dual::{Dual32, Dual64};
use cuda_safe::kernel::kernel;
use cuda_safe::kernel::vector::Vec3;
use cuda_safe::{DeviceBuffer, Result, Stream};
use gpu_phases::kernel::CpuError;
use tape::{Recorder, Seeds, Tape};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::rust",
        device(of_a_valley),
        device(of_a_chain),
        device(functions_of_duals),
        device(of_vectors),
    ]
}

macro_rules! valley {
    ($name:ident $dual:ident) => {
        /// The terms of Rosenbrock's function.
        #[kernel(gradient)]
        fn $name(x: &[$dual], terms: &mut [$dual]) {
            assert!(x.len() == terms.len() + 1);
            each(terms, |i, term| {
                let (rise, left) = (x[i + 1] - x[i] * x[i], -x[i] + 1.0);
                *term = rise * rise * 100.0 + left * left;
            });
        }
    };
}
valley!(valley_f32 Dual32);
valley!(valley_f64 Dual64);

/// Returns the product of the Hessian and the tangents of `x`, and the gradient.
fn hessian_product(
    stream: &Stream,
    x: &[Dual64],
    outputs: usize,
    record: impl FnOnce(
        &mut Recorder<'_>,
        &DeviceBuffer<Dual64>,
        &mut DeviceBuffer<Dual64>,
    ) -> Result<()>,
) -> Result<Vec<Dual64>> {
    let x = DeviceBuffer::from_slice(stream, x)?;
    let mut out = DeviceBuffer::<Dual64>::zeroed(stream, outputs)?;
    let mut tape = Tape::record(stream, |t| {
        t.watch(&x)?;
        record(t, &x, &mut out)
    })?;
    let tangents = DeviceBuffer::from_slice(stream, &vec![Dual64::new(0.0, 1.0); outputs])?;
    tape.backward_with(stream, &Seeds::new().with(&out, &tangents)?)?;
    tape.gradient(&x)?.to_vec(stream)
}

fn duals(rng: &mut Rng, n: usize) -> Vec<Dual64> {
    (0..n).map(|_| Dual64::new(f64::from(rng.float()), f64::from(rng.float()))).collect()
}

/// Against the Hessian's formula.
fn of_a_valley(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(351));
    for n in [2, 33] {
        let x = duals(&mut rng, n);
        let got = hessian_product(&stream, &x, n - 1, |t, x, out| valley_f64::record(t, x, out))?;
        let single: Vec<Dual32> =
            x.iter().map(|x| Dual32::new(x.value as f32, x.tangent as f32)).collect();
        let single = DeviceBuffer::from_slice(&stream, &single)?;
        let mut out = DeviceBuffer::<Dual32>::zeroed(&stream, n - 1)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&single)?;
            valley_f32::record(t, &single, &mut out)
        })?;
        let tangents = DeviceBuffer::from_slice(&stream, &vec![Dual32::new(0.0, 1.0); n - 1])?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &tangents)?)?;
        let narrow = tape.gradient(&single)?.to_vec(&stream)?;
        for i in 0..n {
            let (mut by_place, mut by_speed) = (0.0, 0.0);
            if i + 1 < n {
                let (x, next) = (x[i], x[i + 1]);
                by_speed +=
                    -400.0 * x.value * (next.value - x.value * x.value) - 2.0 * (1.0 - x.value);
                by_place += (1200.0 * x.value * x.value - 400.0 * next.value + 2.0) * x.tangent
                    - 400.0 * x.value * next.tangent;
            }
            if i > 0 {
                let (before, x) = (x[i - 1], x[i]);
                by_speed += 200.0 * (x.value - before.value * before.value);
                by_place += 200.0 * x.tangent - 400.0 * before.value * before.tangent;
            }
            for (got, narrow, wanted) in [
                (got[i].value, narrow[i].value, by_place),
                (got[i].tangent, narrow[i].tangent, by_speed),
            ] {
                let size = 1e3 + wanted.abs();
                ensure!((got - wanted).abs() <= 1e-14 * size, "{i} of {n}: {got}, not {wanted}");
                ensure!(
                    (f64::from(narrow) - wanted).abs() <= 1e-6 * size,
                    "{i}: {narrow}, not {wanted}"
                );
            }
        }
    }
    Ok(())
}

#[kernel(gradient)]
fn layer(weights: &[f64], x: &[Dual64], out: &mut [Dual64]) {
    assert!(weights.len() == x.len() * out.len());
    each(out, |i, out| {
        let mut sum = Dual64::constant(0.1);
        for k in 0..x.len() {
            sum += x[k] * weights[i * x.len() + k];
        }
        *out = sum.tanh() + (sum * sum + 1.0).sqrt().ln();
    });
}

#[kernel(gradient)]
fn product(x: &[Dual64], out: &mut [Dual64]) {
    each(out, |_, out| {
        let mut product = Dual64::constant(1.0);
        for k in 0..x.len() {
            product *= (x[k].sin() + 1.5) / (x[k].exp() + 1.0).powf(0.3);
        }
        *out = product;
    });
}

/// Two kernels, against differences of the gradient along the direction.
fn of_a_chain(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(352));
    let n = 9;
    let weights: Vec<f64> = (0..n * n).map(|_| f64::from(rng.float())).collect();
    let weights = DeviceBuffer::from_slice(&stream, &weights)?;
    let of = |x: &[Dual64]| {
        hessian_product(&stream, x, 1, |t, x, out| {
            let mut hidden = DeviceBuffer::<Dual64>::zeroed(&stream, n)?;
            layer::record(t, &weights, x, &mut hidden)?;
            product::record(t, &hidden, out)
        })
    };
    let x = duals(&mut rng, n);
    let (got, step) = (of(&x)?, 1e-5);
    let moved = |by: f64| -> Result<Vec<Dual64>> {
        of(&x.iter().map(|x| Dual64::new(x.value + by * x.tangent, x.tangent)).collect::<Vec<_>>())
    };
    let (right, left) = (moved(step)?, moved(-step)?);
    let wanted =
        right.iter().zip(&left).map(|(right, left)| (right.tangent - left.tangent) / (2.0 * step));
    let wanted: Vec<f64> = wanted.collect();
    let size = wanted.iter().fold(0.0f64, |most, wanted| most.max(wanted.abs()));
    ensure!(size > 0.01, "there is nothing to compare: {size}");
    for (got, wanted) in got.iter().zip(&wanted) {
        ensure!((got.value - wanted).abs() <= 1e-8 * size, "{}, not {wanted}", got.value);
    }
    Ok(())
}

/// The functions that the other kernels do not call. `f64` has methods of these names, too.
#[kernel]
fn functions(x: &[Dual64], out: &mut [Dual64]) {
    assert!(x.len() == out.len());
    each(out, |i, out| {
        let x = x[i];
        let low = x.cos().min(x.recip()) - x.powi(3) * x.abs().powf(1.5);
        *out = low / x.max(-x) - x.powi(0) * x.exp();
    });
}

/// On the CPU against differences of the values, and with the same bits on the device.
fn functions_of_duals(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, Rng::new(353));
    let x = duals(&mut rng, 33);
    let on_cpu = |by: f64| -> std::result::Result<Vec<Dual64>, CpuError> {
        let x: Vec<Dual64> =
            x.iter().map(|x| Dual64::new(x.value + by * x.tangent, x.tangent)).collect();
        let mut out = vec![Dual64::default(); x.len()];
        functions::cpu(&x, &mut out)?;
        Ok(out)
    };
    let (here, right, left) = (on_cpu(0.0)?, on_cpu(1e-7)?, on_cpu(-1e-7)?);
    for (at, (right, left)) in right.iter().zip(&left).enumerate() {
        let (got, wanted) = (here[at].tangent, (right.value - left.value) / 2e-7);
        ensure!(
            (got - wanted).abs() <= 1e-4 * (1.0 + wanted.abs()),
            "{:?}: {got}, not {wanted}",
            x[at]
        );
    }
    let on_device = DeviceBuffer::from_slice(&stream, &x)?;
    let mut out = DeviceBuffer::<Dual64>::zeroed(&stream, x.len())?;
    functions::launch(&stream, &on_device, &mut out)?;
    let bits = |x: &Dual64| [x.value.to_bits(), x.tangent.to_bits()];
    let out = out.to_vec(&stream)?;
    ensure_eq!(out.iter().map(bits).collect::<Vec<_>>(), here.iter().map(bits).collect::<Vec<_>>());
    Ok(())
}

#[kernel(gradient)]
fn lengths(x: &[Vec3], out: &mut [f32]) {
    assert!(x.len() == out.len());
    each(out, |i, out| *out = x[i].length_squared());
}

/// The gradient of a buffer of the library's vectors.
fn of_vectors(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let x = DeviceBuffer::from_slice(&stream, &[Vec3::new(1.0, -2.0, 0.5)])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        lengths::record(t, &x, &mut out)
    })?;
    tape.backward(&stream, &out)?;
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, [Vec3::new(2.0, -4.0, 1.0)]);
    Ok(())
}
