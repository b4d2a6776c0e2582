//! The ported CUDA C++ programs, against the same computations in double precision on the host.

use ports::{Output, PORTS, digest};

use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "ports",
        device(async_streams = |device| check(device, "async_streams", 1e-6)),
        device(black_scholes = |device| check(device, "black_scholes", 2e-5)),
        device(conjugate_gradient = |device| { check(device, "conjugate_gradient", 1e-4) }),
        device(fdtd3d = |device| check(device, "fdtd3d", 1e-6)),
        device(functors = |device| check(device, "functors", 0.0)),
        device(matrix_mul = |device| check(device, "matrix_mul", 0.0)),
        device(multi_file = |device| check(device, "multi_file", 0.0)),
        device(nbody = |device| check(device, "nbody", 1e-5)),
        device(reduction = |device| check(device, "reduction", 0.0)),
        device(simple_graphs = |device| check(device, "simple_graphs", 1e-5)),
        host(each_is_checked),
        host(digests_are_those_of_printf),
    ]
}

/// What a port of this name computes.
fn expected(name: &str) -> Option<Vec<f64>> {
    Some(match name {
        "async_streams" => (0..1 << 18).map(|i| f64::from(i % 100) + 1.0).collect(),
        "black_scholes" => black_scholes(),
        "conjugate_gradient" => (0..10_000).map(|i| f64::from(1 + i % 3)).collect(),
        "fdtd3d" => fdtd3d(),
        "functors" => (0..1000).map(|i| (f64::from(i) * 0.5).clamp(10.0, 400.0)).collect(),
        "matrix_mul" => matrix_mul(),
        "multi_file" => (0..1000)
            .map(|i| 1.0 - 2.0 * f64::from(i) + 0.5 * f64::from(i * i))
            .map(f64::round_ties_even)
            .collect(),
        "nbody" => nbody(),
        "reduction" => vec![(0..1 << 20).map(|i| f64::from(i % 10)).sum()],
        "simple_graphs" => simple_graphs(),
        _ => return None,
    })
}

/// Compares each value, with an allowance relative to the greatest.
fn check(device: &TestDevice, name: &str, tolerance: f64) -> TestResult {
    let port = PORTS.iter().find(|(port, _)| *port == name);
    let (Some((_, run)), Some(expected)) = (port, expected(name)) else {
        return Err(Failure::new(format!("there is no port {name}")));
    };
    let run: fn(&cuda_safe::Context) -> Output = *run;
    let values = run(device.context()).map_err(|error| Failure::new(error.to_string()))?;
    ensure_eq!(values.len(), expected.len());
    let greatest = expected.iter().fold(0.0_f64, |most, value| most.max(value.abs()));
    for (i, (value, expected)) in values.iter().zip(&expected).enumerate() {
        let error = (f64::from(*value) - expected).abs();
        ensure!(error <= tolerance * greatest, "element {i}: {value} instead of {expected}");
    }
    Ok(())
}

fn matrix_mul() -> Vec<f64> {
    let (ha, wa, wb) = (96, 64, 160);
    let product = |row: usize, column: usize| -> usize {
        (0..wa).map(|k| (row * wa + k) % 7 * ((k * wb + column) % 5)).sum()
    };
    (0..ha * wb).map(|i| product(i / wb, i % wb) as f64).collect()
}

fn nbody() -> Vec<f64> {
    let (n, steps, softening, dt) = (300, 5, f64::from(0.01_f32), f64::from(0.001_f32));
    let body = |i: usize| [i % 10, i / 10 % 10, i / 100, 1 + i % 3].map(|x| x as f64);
    let mut bodies: Vec<[f64; 4]> = (0..n).map(body).collect();
    let mut velocities = vec![[0.0; 3]; n];
    for _ in 0..steps {
        let old = bodies.clone();
        for (body, velocity) in bodies.iter_mut().zip(&mut velocities) {
            let mut acceleration = [0.0; 3];
            for other in &old {
                let r: [f64; 3] = std::array::from_fn(|axis| other[axis] - body[axis]);
                let distance = r.iter().map(|x| x * x).sum::<f64>() + softening;
                for axis in 0..3 {
                    acceleration[axis] += r[axis] * other[3] / distance.powf(1.5);
                }
            }
            for axis in 0..3 {
                velocity[axis] += acceleration[axis] * dt;
                body[axis] += velocity[axis] * dt;
            }
        }
    }
    bodies.iter().map(|body| body[0]).collect()
}

fn simple_graphs() -> Vec<f64> {
    let n = 1000;
    let mut x: Vec<f64> = (0..n).map(|i| if i == n / 2 { 1000.0 } else { 0.0 }).collect();
    for _ in 0..40 {
        let smooth =
            |i: usize| 0.25 * x[i.saturating_sub(1)] + 0.5 * x[i] + 0.25 * x[(i + 1).min(n - 1)];
        x = (0..n).map(smooth).collect();
    }
    x
}

fn fdtd3d() -> Vec<f64> {
    let size = [50, 40, 30];
    let strides = [1, size[0], size[0] * size[1]];
    let weights = [0.4_f32, 0.04, 0.03, 0.02, 0.01].map(f64::from);
    let mut values: Vec<f64> = (0..size.iter().product()).map(|i: usize| (i % 11) as f64).collect();
    for _ in 0..5 {
        let next = |i: usize| {
            let inside =
                (0..3).all(|axis| (4..size[axis] - 4).contains(&(i / strides[axis] % size[axis])));
            if !inside {
                return values[i];
            }
            let around = |r: usize| -> f64 {
                strides.iter().map(|stride| values[i - r * stride] + values[i + r * stride]).sum()
            };
            weights[0] * values[i] + (1..5).map(|r| weights[r] * around(r)).sum::<f64>()
        };
        values = (0..values.len()).map(next).collect();
    }
    values
}

/// The distribution function of the normal distribution, by Simpson's rule on its density.
fn normal(x: f64) -> f64 {
    let (steps, width) = (400, x.abs().min(9.0));
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let step = width / f64::from(steps);
    let weight = |k: i32| if k == 0 || k == steps { 1.0 } else { f64::from(2 + 2 * (k % 2)) };
    let half: f64 =
        (0..=steps).map(|k| weight(k) * density(step * f64::from(k))).sum::<f64>() * step / 3.0;
    if x < 0.0 { 0.5 - half } else { 0.5 + half }
}

fn black_scholes() -> Vec<f64> {
    let (risk_free, volatility) = (f64::from(0.02_f32), f64::from(0.3_f32));
    // The inputs repeat after 26 · 100 · 10 / 20 options.
    let prices = |i: u32| {
        let (price, strike, years) =
            (f64::from(5 + i % 26), f64::from(1 + i % 100), 0.25 + f64::from(i % 10));
        let d1 = ((price / strike).ln() + (risk_free + 0.5 * volatility * volatility) * years)
            / (volatility * years.sqrt());
        let d2 = d1 - volatility * years.sqrt();
        let discounted = strike * (-risk_free * years).exp();
        let call = price * normal(d1) - discounted * normal(d2);
        (call, discounted * normal(-d2) - price * normal(-d1))
    };
    let of: Vec<(f64, f64)> = (0..1300).map(prices).collect();
    let each = || (0..100_000).map(|i| of[i % of.len()]);
    each().map(|(call, _)| call).chain(each().map(|(_, put)| put)).collect()
}

fn each_is_checked() -> TestResult {
    let cases = cases();
    for (name, _) in PORTS {
        let case = format!("ports::{name}");
        ensure!(cases.iter().any(|it| it.name == case), "{name} has no test");
        ensure!(expected(name).is_some(), "{name} has no oracle");
    }
    ensure_eq!(cases.len(), PORTS.len() + 2);
    Ok(())
}

fn digests_are_those_of_printf() -> TestResult {
    ensure_eq!(digest(&[]), "0 values: - - -");
    ensure_eq!(digest(&[1.0]), "1 values: 1.0000e+00 1.0000e+00 1.0000e+00");
    ensure_eq!(digest(&[-0.000_012_345, 0.0, 1e30]), "3 values: -1.2345e-05 0.0000e+00 1.0000e+30");
    Ok(())
}
