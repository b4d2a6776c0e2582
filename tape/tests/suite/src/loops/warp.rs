//! Kernels of whose kind NVIDIA Warp gives wrong gradients without saying so, against formulas.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use tape::{OpSpec, Param, Seeds, Tape};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::program;
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::loops",
        device(warp_product_in_a_dynamic_loop),
        device(warp_multiplied_in_place),
        device(warp_divided_in_place),
        device(warp_component_assigned_twice),
        device(warp_overwritten_array),
        device(warp_nested_dynamic_loops),
        device(warp_final_accumulator),
        device(warp_ternary),
    ]
}

/// What a kernel makes of x, of what lies in its output before, and of a number of iterations: the output's derivatives by
/// the first two.
type Slopes = fn(x: f64, before: f64, iterations: i32) -> [f64; 2];

/// Compares the gradient of `f(const real* x, real* out, const unsigned* iterations, unsigned n)`, given by what thread
/// i < n does, with formulas.
fn formula<T: Number>(device: &TestDevice, body: &str, slopes: Slopes) -> TestResult {
    let stream = device.stream()?;
    let source = program::<T>(&format!(
        "extern \"C\" __global__ void f(const real* x, real* out, const unsigned* iterations, unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             unsigned m = iterations[i];
             {body}
         }}"
    ));
    let buffer = |name| Param::buffer(name, <T as Number>::ELEMENT).len("n").active();
    let spec = OpSpec::new("f")
        .param(buffer("x"))
        .param(buffer("out"))
        .param(Param::buffer("iterations", tape::Element::bytes(4)).len("n"))
        .param(Param::value("n"));
    let op = differentiate(device, spec, &source).map_err(failure)?;
    for n in [1usize, 33, 500] {
        let mut rng = Rng::new(2340 + n as u64);
        // Away from zero, by which some divide.
        let mut draw = || -> Vec<f64> {
            (0..n).map(|_| f64::from(rng.float())).map(|x| x + 0.5f64.copysign(x)).collect()
        };
        let (x, before, weights) = (draw(), draw(), draw());
        let iterations: Vec<u32> = (0..n).map(|_| rng.below(6) as u32).collect();
        let upload = |numbers: &[f64]| {
            let numbers: Vec<T> = numbers.iter().map(|x| T::of(*x)).collect();
            DeviceBuffer::from_slice(&stream, &numbers)
        };
        let (given_x, given_out, seeds) = (upload(&x)?, upload(&before)?, upload(&weights)?);
        let given_turns = DeviceBuffer::from_slice(&stream, &iterations)?;
        let mut out = DeviceBuffer::<T>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&given_x)?;
            t.watch(&given_out)?;
            t.copy(&given_out, &mut out)?;
            let launch = LaunchConfig::cover(n, 64);
            t.launch(&op, launch, (&given_x, &mut out, &given_turns, n as u32))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let by_x = tape.gradient(&given_x)?.to_vec(&stream)?;
        let by_before = match tape.gradient(&given_out) {
            Ok(gradient) => gradient.to_vec(&stream)?,
            // Overwritten: nothing comes from it.
            Err(_) => vec![T::of(0.0); n],
        };
        let most = if T::SUFFIX == "f32" { 2e-6 } else { 1e-13 };
        let all = x.iter().zip(&before).zip(&iterations).zip(&weights);
        for ((((x, before), iterations), weight), given) in all.zip(by_x.into_iter().zip(by_before))
        {
            let wanted = slopes(*x, *before, *iterations as i32).map(|slope| slope * weight);
            let given = [given.0.to(), given.1.to()];
            for (given, wanted) in given.into_iter().zip(wanted) {
                let is_near = (given - wanted).abs() <= most * (1.0 + wanted.abs());
                ensure!(
                    is_near,
                    "x = {x}, {before}, {iterations} iterations: {given}, not {wanted}"
                );
            }
        }
    }
    Ok(())
}

fn both(device: &TestDevice, body: &str, slopes: Slopes) -> TestResult {
    formula::<f64>(device, body, slopes)?;
    formula::<f32>(device, body, slopes)
}

fn warp_product_in_a_dynamic_loop(device: &TestDevice) -> TestResult {
    let body = "real p = 1; for (unsigned k = 0; k < m; ++k) p = p * x[i]; out[i] = p;";
    both(device, body, |x, _, m| [f64::from(m) * x.powi(m - 1), 0.0])
}

/// `*=` of a local variable and of memory, once and in a loop.
fn warp_multiplied_in_place(device: &TestDevice) -> TestResult {
    both(device, "real y = x[i]; y *= y; y *= x[i]; out[i] = y;", |x, _, _| [3.0 * x * x, 0.0])?;
    both(device, "out[i] *= x[i];", |x, b, _| [b, x])?;
    let body = "for (unsigned k = 0; k < m; ++k) out[i] *= x[i];";
    both(device, body, |x, b, m| [b * f64::from(m) * x.powi(m - 1), x.powi(m)])
}

/// `/=`, likewise.
fn warp_divided_in_place(device: &TestDevice) -> TestResult {
    both(device, "real y = 1; y /= x[i]; y /= x[i]; out[i] = y;", |x, _, _| {
        [-2.0 / (x * x * x), 0.0]
    })?;
    both(device, "out[i] /= x[i];", |x, b, _| [-b / (x * x), 1.0 / x])?;
    let body = "real y = out[i]; for (unsigned k = 0; k < m; ++k) y /= x[i]; out[i] = y;";
    both(device, body, |x, b, m| [-b * f64::from(m) * x.powi(-m - 1), x.powi(-m)])?;
    let body = "for (unsigned k = 0; k < m; ++k) out[i] /= x[i];";
    both(device, body, |x, b, m| [-b * f64::from(m) * x.powi(-m - 1), x.powi(-m)])
}

fn warp_component_assigned_twice(device: &TestDevice) -> TestResult {
    let body =
        "real2 v; v.x = x[i]; v.y = 3; v.x = v.x * v.x; v.y = v.y * v.x; out[i] = v.x + v.y;";
    both(device, body, |x, _, _| [8.0 * x, 0.0])?;
    // v.x is assigned twice in each iteration; after m iterations it is x / 2^m.
    let body = "real2 v; v.x = x[i]; v.y = 0;
        for (unsigned k = 0; k < m; ++k) { real old = v.x; v.x = v.y; v.y = old * real(0.5); v.x = v.y + v.x * 0; }
        out[i] = v.x * v.x;";
    both(device, body, |x, _, m| [2.0 * x / 4f64.powi(m), 0.0])?;
    // And of memory, where the last one counts.
    let body = "real p = x[i]; out[i] = p; for (unsigned k = 0; k < m; ++k) { out[i] = p; p *= x[i]; out[i] = p; }";
    both(device, body, |x, _, m| [f64::from(m + 1) * x.powi(m), 0.0])
}

fn warp_overwritten_array(device: &TestDevice) -> TestResult {
    let body = "real v[2] = {x[i], 1}; v[0] = v[0] * v[0]; v[1] = v[0] * v[1]; v[0] = v[1] * x[i]; out[i] = v[0];";
    both(device, body, |x, _, _| [3.0 * x * x, 0.0])?;
    // v[k mod 3] becomes x times the one before: the last is x^m.
    let body =
        "real v[3] = {1, 1, 1}; for (unsigned k = 1; k <= m; ++k) v[k % 3] = v[(k + 2) % 3] * x[i];
        out[i] = v[m % 3];";
    both(device, body, |x, _, m| [f64::from(m) * x.powi(m - 1), 0.0])?;
    let body = "for (unsigned k = 0; k < m; ++k) out[i] = out[i] * out[i] * real(0.5) + x[i] * real(0.125);";
    both(device, body, |x, b, m| {
        let mut slopes = (b, 0.0, 1.0);
        for _ in 0..m {
            let (y, by_x, by_b) = slopes;
            slopes = (y * y * 0.5 + x * 0.125, y * by_x + 0.125, y * by_b);
        }
        [slopes.1, slopes.2]
    })
}

fn warp_nested_dynamic_loops(device: &TestDevice) -> TestResult {
    // The product of as many factors as there are pairs j <= k < m.
    let body = "real p = 1; for (unsigned j = 0; j < m; ++j) for (unsigned k = j; k < m; ++k) p *= x[i]; out[i] = p;";
    both(device, body, |x, _, m| {
        let count = m * (m + 1) / 2;
        [f64::from(count) * x.powi(count - 1), 0.0]
    })?;
    let body = "real sum = 0;
        for (unsigned j = 0; j < m; ++j) { real row = 1; for (unsigned k = 0; k < j; ++k) row *= x[i]; sum += row; }
        out[i] = sum;";
    both(device, body, |x, _, m| [(1..m).map(|j| f64::from(j) * x.powi(j - 1)).sum::<f64>(), 0.0])
}

fn warp_final_accumulator(device: &TestDevice) -> TestResult {
    let body =
        "real sum = 0; for (unsigned k = 0; k < m; ++k) sum += x[i] * x[i]; out[i] = sum * sum;";
    both(device, body, |x, _, m| [4.0 * f64::from(m * m) * x.powi(3), 0.0])?;
    let body = "real sum = 0; for (unsigned k = 0; k < m; ++k) { sum += x[i]; sum *= sum * real(0.125); } out[i] = sum * x[i];";
    both(device, body, |x, _, m| {
        let (sum, slope) = (0..m).fold((0.0, 0.0), |(sum, slope): (f64, f64), _| {
            ((sum + x).powi(2) / 8.0, (sum + x) * (slope + 1.0) / 4.0)
        });
        [slope * x + sum, 0.0]
    })
}

fn warp_ternary(device: &TestDevice) -> TestResult {
    let body = "out[i] = x[i] > 0 ? x[i] * x[i] : 3 * x[i];";
    both(device, body, |x, _, _| [if x > 0.0 { 2.0 * x } else { 3.0 }, 0.0])?;
    let body = "real p = x[i]; for (unsigned k = 0; k < m; ++k) p = k % 2 ? p * x[i] : p + x[i]; out[i] = p;";
    both(device, body, |x, _, m| {
        let (_, slope) = (0..m).fold((x, 1.0), |(p, slope), k| {
            if k % 2 == 1 { (p * x, slope * x + p) } else { (p + x, slope + 1.0) }
        });
        [slope, 0.0]
    })
}
