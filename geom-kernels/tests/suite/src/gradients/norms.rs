//! Norms, and their subgradients.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::tape::{DifferentiableValue, Summed};
use tape::{Differentiable, Recorder, Seeds, Tape};

use super::reductions::{SIZES, flat, values};
use super::{refused, within};
use crate::Geometry;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::norms",
        device(of_f32 = of::<f32>),
        device(of_f64 = of::<f64>),
        device(of_vectors = of::<[f32; 3]>),
        device(ties_and_zeros),
        device(behind_other_steps),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Norm {
    Two,
    One,
    Max,
}

const NORMS: [Norm; 3] = [Norm::Two, Norm::One, Norm::Max];

impl Norm {
    fn record<V: DifferentiableValue<Number: Summed>>(
        self,
        geometry: &GeometryKernels,
        t: &mut Recorder<'_>,
        x: &DeviceBuffer<V>,
        out: &mut DeviceBuffer<V::Number>,
    ) -> cuda_safe::Result<()> {
        match self {
            Self::Two => geometry.record_norm(t, x, out),
            Self::One => geometry.record_norm_1(t, x, out),
            Self::Max => geometry.record_norm_max(t, x, out),
        }
    }

    /// The norm and its gradient.
    fn of(self, x: &[f64]) -> (f64, Vec<f64>) {
        let sign = |x: f64| if x == 0.0 { 0.0 } else { x.signum() };
        match self {
            Self::Two => {
                let norm = x.iter().map(|x| x * x).sum::<f64>().sqrt();
                let one = |x: &f64| if norm == 0.0 { 0.0 } else { x / norm };
                (norm, x.iter().map(one).collect())
            }
            Self::One => (x.iter().map(|x| x.abs()).sum(), x.iter().map(|x| sign(*x)).collect()),
            Self::Max => {
                let norm = x.iter().fold(0.0f64, |most, x| most.max(x.abs()));
                let first = x.iter().position(|x| x.abs() == norm);
                let one = |(i, x): (usize, &f64)| if Some(i) == first { sign(*x) } else { 0.0 };
                (norm, x.iter().enumerate().map(one).collect())
            }
        }
    }
}

fn of<V>(device: &TestDevice) -> TestResult
where
    V: DifferentiableValue<Number: Summed + DifferentiableValue> + Differentiable<Gradient = V>,
{
    let (stream, geometry, mut rng) = (device.stream()?, device.geometry(), device.rng(1480));
    let tolerance = if size_of::<V::Number>() == 8 { 1e-12 } else { 1e-5 };
    for n in SIZES {
        let host = values::<V>(&mut rng, n);
        let x = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<V::Number>::zeroed(&stream, 1)?;
        for norm in NORMS {
            let (wanted, by) = norm.of(&flat(&host));
            let by: Vec<Option<f64>> = by.into_iter().map(Some).collect();
            let mut all = Vec::new();
            for deterministic in [false, true] {
                let mut tape = Tape::new(&stream)?;
                tape.set_deterministic(deterministic);
                tape.record_again(&stream, |t| {
                    t.watch(&x)?;
                    norm.record(&geometry, t, &x, &mut out)
                })?;
                let got = flat(&out.to_vec(&stream)?)[0];
                ensure!((got - wanted).abs() <= tolerance * wanted.max(1.0), "{got}, not {wanted}");
                tape.backward(&stream, &out)?;
                all.push(flat(&tape.gradient(&x)?.to_vec(&stream)?));
                within(tolerance, &all[all.len() - 1], &by)?;
                // The same again: what the adjoint keeps for itself is made anew.
                tape.backward(&stream, &out)?;
                ensure_eq!(flat(&tape.gradient(&x)?.to_vec(&stream)?), all[all.len() - 1]);
            }
            ensure_eq!(all[0], all[1]);
        }
    }
    Ok(())
}

/// What is as great as another, zeros, nothing, and NaN.
fn ties_and_zeros(device: &TestDevice) -> TestResult {
    let (stream, geometry) = (device.stream()?, device.geometry());
    let mut many = vec![0.25f32; 10_000];
    (many[4_500], many[9_999]) = (-3.0, 3.0);
    let lists: [Vec<f32>; 6] = [
        vec![],
        vec![0.0, -0.0, 0.0],
        vec![1.0, -2.0, 2.0, -2.0, 0.0],
        vec![-2.0; 5000],
        many,
        vec![0.0, -1.0],
    ];
    for list in lists {
        let x = DeviceBuffer::from_slice(&stream, &list)?;
        let mut out = DeviceBuffer::from_slice(&stream, &[7.0f32])?;
        let wide: Vec<f64> = list.iter().map(|x| f64::from(*x)).collect();
        for norm in NORMS {
            let (wanted, by) = norm.of(&wide);
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&x)?;
                norm.record(&geometry, t, &x, &mut out)
            })?;
            ensure!((f64::from(out.to_vec(&stream)?[0]) - wanted).abs() <= 1e-6 * wanted);
            if list.is_empty() {
                continue;
            }
            tape.backward(&stream, &out)?;
            let got = flat(&tape.gradient(&x)?.to_vec(&stream)?);
            let by: Vec<Option<f64>> = by.into_iter().map(Some).collect();
            within(1e-6, &got, &by)?;
        }
    }
    // NaN loses in the maximum norm, and nowhere else.
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32, f32::NAN, -2.0])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        geometry.record_norm_max(t, &x, &mut out)
    })?;
    tape.backward(&stream, &out)?;
    ensure_eq!(out.to_vec(&stream)?, [2.0]);
    ensure_eq!(tape.gradient(&x)?.to_vec(&stream)?, [0.0, 0.0, -1.0]);
    Tape::record(&stream, |t| geometry.record_norm(t, &x, &mut out))?;
    ensure!(out.to_vec(&stream)?[0].is_nan());
    let mut two = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
    for norm in NORMS {
        let long = Tape::record(&stream, |t| norm.record(&geometry, t, &x, &mut two));
        refused(long.map(|_| ()), "room for 2 sums")?;
    }
    Ok(())
}

/// Two norms of the same numbers, in one loss, whose seeds are not 1; and a norm that is overwritten by another
/// one before the pass: its value is kept.
fn behind_other_steps(device: &TestDevice) -> TestResult {
    let (stream, geometry, mut rng) = (device.stream()?, device.geometry(), device.rng(1481));
    let host = rng.floats(77);
    let x = DeviceBuffer::from_slice(&stream, &host)?;
    let mut all = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[2.0f32, -3.0, 0.5])?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        for (i, norm) in NORMS.into_iter().enumerate() {
            norm.record(&geometry, t, &x, &mut out)?;
            t.copy(&out, all.slice_mut(i..i + 1)?)?;
        }
        Ok(())
    })?;
    tape.backward_with(&stream, &Seeds::new().with(&all, &seeds)?)?;
    let wide: Vec<f64> = host.iter().map(|x| f64::from(*x)).collect();
    let parts: Vec<Vec<f64>> = NORMS.iter().map(|norm| norm.of(&wide).1).collect();
    let one = |i: usize| 2.0 * parts[0][i] - 3.0 * parts[1][i] + 0.5 * parts[2][i];
    let wanted: Vec<Option<f64>> = (0..host.len()).map(|i| Some(one(i))).collect();
    super::near(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)
}
