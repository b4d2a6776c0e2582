//! `geom/math/angle.cuh`.

use cuda_safe::{DeviceBuffer, LaunchConfig};

use crate::flags::{flags, module};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

const SOURCE: &str = include_str!("../../kernels/angle.cu");

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh_topology",
        device(angles_are_those_of_the_host),
        device(angles_of_f32_are_those_of_the_host),
    ]
}

fn angles_are_those_of_the_host(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(610);
    let diagonal = (std::f64::consts::PI / 12.0).tan();
    let special = [0.0, -0.0, 1.0, -1.0, 0.5, diagonal, diagonal.next_up(), diagonal.next_down()];
    let ends = [1e-270, 1e300, -1e300, 3e-308];
    let some: Vec<f64> = special.into_iter().chain(ends).collect();
    let mut pairs = vec![[0.0, 0.0], [-0.0, -0.0], [0.0, -0.0]];
    for y in &some {
        pairs.extend(some.iter().map(|x| [*y, *x]));
    }
    for _ in 0..3000 {
        let scale = 2f64.powi(rng.below(120) as i32 - 60);
        pairs.push([f64::from(rng.float()) * scale, f64::from(rng.float()) + 1e-9]);
    }
    // What the function promises nothing of.
    pairs.retain(|[y, x]| (y.abs().max(x.abs()) > 2f64.powi(-900)) || (*y == 0.0 && *x == 0.0));
    let (ys, xs): (Vec<f64>, Vec<f64>) = pairs.iter().map(|[y, x]| (*y, *x)).unzip();
    let (y, x) = (DeviceBuffer::from_slice(&stream, &ys)?, DeviceBuffer::from_slice(&stream, &xs)?);
    let mut before: Option<Vec<u64>> = None;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel("angles")?;
        let n = pairs.len();
        let mut out = DeviceBuffer::from_slice(&stream, &vec![99.0f64; n])?;
        // SAFETY: the kernel reads n numbers of two arrays and writes n of the third.
        unsafe {
            device.launch(
                &kernel,
                &stream,
                LaunchConfig::cover(n, 128),
                (&y, &x, &mut out, n as u32),
            )
        }?;
        let got = out.to_vec(&stream)?;
        for (pair, got) in pairs.iter().zip(&got) {
            // A zero has no sign.
            let [y, x] = pair.map(|value| value + 0.0);
            let wanted = y.atan2(x);
            ensure!((got - wanted).abs() <= 1e-15, "{got} of {pair:?}, not {wanted}, {flag}");
        }
        let bits: Vec<u64> = got.iter().map(|angle| angle.to_bits()).collect();
        if let Some(before) = &before {
            ensure_eq!(*before, bits, "{flag}");
        }
        before = Some(bits);
    }
    Ok(())
}

fn angles_of_f32_are_those_of_the_host(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(611);
    let some =
        [0.0, -0.0, 1.0, -1.0, 0.5, 1f32.next_up(), 1f32.next_down(), 1e-30, 1e35, -1e35, 1e-44];
    let mut pairs = vec![[0.0, 0.0], [-0.0, -0.0], [0.0, -0.0]];
    for y in some {
        pairs.extend(some.iter().map(|x| [y, *x]));
    }
    for _ in 0..4000 {
        let scale = 2f32.powi(rng.below(60) as i32 - 30);
        pairs.push([rng.float() * scale, rng.float()]);
    }
    // What the function promises nothing of.
    pairs.retain(|[y, x]| (y.abs().max(x.abs()) > 2f32.powi(-100)) || (*y == 0.0 && *x == 0.0));
    let (ys, xs): (Vec<f32>, Vec<f32>) = pairs.iter().map(|[y, x]| (*y, *x)).unzip();
    let (y, x) = (DeviceBuffer::from_slice(&stream, &ys)?, DeviceBuffer::from_slice(&stream, &xs)?);
    let mut before: Option<Vec<u32>> = None;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel("angles_f32")?;
        let n = pairs.len();
        let mut out = DeviceBuffer::from_slice(&stream, &vec![99.0f32; n])?;
        // SAFETY: the kernel reads n numbers of two arrays and writes n of the third.
        unsafe {
            device.launch(
                &kernel,
                &stream,
                LaunchConfig::cover(n, 128),
                (&y, &x, &mut out, n as u32),
            )
        }?;
        let got = out.to_vec(&stream)?;
        for (pair, got) in pairs.iter().zip(&got) {
            // A zero has no sign.
            let [y, x] = pair.map(|value| f64::from(value + 0.0));
            let wanted = y.atan2(x);
            let most = (2e-7 * wanted.abs() + 1e-38).min(3e-7);
            let error = (f64::from(*got) - wanted).abs();
            ensure!(error <= most, "{got} of {pair:?}, not {wanted}, {flag}");
        }
        let bits: Vec<u32> = got.iter().map(|angle| angle.to_bits()).collect();
        if let Some(before) = &before {
            ensure_eq!(*before, bits, "{flag}");
        }
        before = Some(bits);
    }
    Ok(())
}
