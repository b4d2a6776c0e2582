//! `geom::ad::{rule, stop, lost}`.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use tape::ptx_ad::Reason;
use tape::{DifferentiateError, Seeds, Tape};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::{function, is_refused, refusals, spec};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::libm",
        device(rules),
        device(rules_with_derivatives_that_are_not_finite),
        device(rules_with_wrong_derivatives_do_not_compile),
        device(stopped_and_lost_values),
        device(programs_without_the_markers),
    ]
}

/// The gradients of the sum of `out`, by x.
fn gradient<T: Number>(device: &TestDevice, body: &str, x: &[f64]) -> Result<Vec<f64>, Failure> {
    let before = "namespace geom { template <class T> struct vec3 { T x, y, z; }; }";
    let op = differentiate(device, spec::<T>(), &function::<T>(before, body)).map_err(failure)?;
    let (stream, count) = (device.stream()?, x.len());
    let numbers: Vec<T> = x.iter().map(|&x| T::of(x)).collect();
    let from = DeviceBuffer::from_slice(&stream, &numbers)?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, count)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&from)?;
        let launch = LaunchConfig::cover(count, 32);
        t.launch(&op, launch, (T::of(2.0), &from, &mut out, count as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![T::of(1.0); count])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
    Ok(tape.gradient(&from)?.to_vec(&stream)?.into_iter().map(T::to).collect())
}

fn rules(device: &TestDevice) -> TestResult {
    // Newton's iteration, whose steps are not differentiated.
    let root = "real y = x[i]; for (int k = 0; k < 40; ++k) y -= (y * y * y - x[i]) / (3 * y * y);
        out[i] = geom::ad::rule(y, x[i], 1 / (3 * y * y)) * 3;";
    for (given, x) in gradient::<f64>(device, root, &[0.5, 8.0])?.iter().zip([0.5f64, 8.0]) {
        let wanted = 1.0 / x.cbrt().powi(2);
        ensure!((given - wanted).abs() < 1e-14 * wanted, "{given}, not {wanted}");
    }
    // The derivatives are believed; the argument is v = x, with x as well.
    let begin = "using namespace geom::ad; real v = x[i]; geom::vec3<real> p = {v, 2 * v, 3 * v}; \
                 float3 q = {(float)v, 0, (float)(v * v)};";
    for (rule, wanted) in [
        ("rule(v, v, 5)", 5.0),
        ("rule(v * v, v, 5.0f, v, 0.25)", 5.25),
        ("rule(v, v, 1, v, 2, v, 3)", 6.0),
        ("rule(v, v, 1, v, 2, v, 3, v, 4)", 10.0),
        ("rule(v, v, 1, v, 2, v, 3, v, 4, v, 5)", 15.0),
        ("rule(v, v, 1, v, 2, v, 3, v, 4, v, 5, v, 6, v, 7, v, 8, v, 9)", 45.0),
        ("rule(v, p, geom::vec3<real>{1, 10, 100})", 321.0),
        ("rule(v * v, p, geom::vec3<real>{1, 10, 100}, v, 1, 2 * v, 1)", 324.0),
        ("rule(v, q, float3{1, 10, 100})", 301.0),
        ("rule(rule(v, v, 3), v, 0.5) + rule(rule(v, v, 3) * 1, v, 0.5)", 1.0),
        ("rule(v, real(1), 7, a, 7, v, 2)", 2.0),
    ] {
        let body = format!("{begin} out[i] = {rule};");
        let both =
            [gradient::<f32>(device, &body, &[1.5])?, gradient::<f64>(device, &body, &[1.5])?];
        ensure_eq!(both.concat(), [wanted, wanted], "{rule}");
    }
    Ok(())
}

/// A gradient of zero is zero where the value may not be chosen; else the gradient is not finite either.
fn rules_with_derivatives_that_are_not_finite(device: &TestDevice) -> TestResult {
    let rule = "real v = x[i], d = 1 / (v - 1); real y = geom::ad::rule(v * 2, v, d);";
    let chosen = format!("{rule} out[i] = v > 1 ? y : 3 * v;");
    ensure_eq!(gradient::<f32>(device, &chosen, &[1.0, 3.0])?, [3.0, 0.5]);
    let always = format!("{rule} out[i] = y;");
    ensure_eq!(gradient::<f64>(device, &always, &[1.0, 3.0])?, [f64::INFINITY, 0.5]);
    let nan = "out[i] = geom::ad::rule(x[i], x[i], 0 / (x[i] - 1));";
    let given = gradient::<f32>(device, nan, &[1.0, 3.0])?;
    ensure!(given[0].is_nan() && given[1] == 0.0, "{given:?}");
    Ok(())
}

fn rules_with_wrong_derivatives_do_not_compile(device: &TestDevice) -> TestResult {
    for (rule, message) in [
        ("rule(y)", "there is no x"),
        ("rule(y, y)", "the last x has no derivative"),
        ("rule(y, y, 1.0f, y)", "the last x has no derivative"),
        ("rule(1, y, 1.0f)", "y must be a float or a double"),
        ("rule(y, float2{y, y}, 1.0f)", "differ in the number of components"),
        ("rule(y, y, float3{1, 2, 3})", "differ in the number of components"),
    ] {
        let body = format!("float y = a * x[i]; out[i] = geom::ad::{rule};");
        match differentiate(device, spec::<f32>(), &function::<f32>("", &body)) {
            Err(DifferentiateError::Cuda(error)) => {
                let text = error.to_string();
                ensure!(text.contains(message), "{rule}: {text}");
            }
            other => return Err(Failure::new(format!("{rule}: {other:?}"))),
        }
    }
    Ok(())
}

fn stopped_and_lost_values(device: &TestDevice) -> TestResult {
    // Half of the derivative of a product.
    let half = "out[i] = x[i] * geom::ad::stop(x[i]);";
    ensure_eq!(gradient::<f32>(device, half, &[1.5, -4.0])?, [1.5, -4.0]);
    let vector = "float3 v = geom::ad::stop(float3{(float)x[i], (float)a, 1}); out[i] = (v.x + v.y + v.z) * x[i];";
    ensure_eq!(gradient::<f64>(device, vector, &[1.5])?, [4.5]);
    let lost = "out[i] = geom::ad::lost(x[i]) > 2 ? x[i] * 3 : x[i];";
    ensure_eq!(gradient::<f32>(device, lost, &[1.5, 4.0])?, [1.0, 3.0]);
    // Without any path there is no gradient, and not a gradient of zero.
    let found = refusals(device, "float y = a * x[i];\nout[i] = geom::ad::stop(y);")?;
    ensure!(found.iter().any(|refusal| refusal.reason == Reason::NoPath), "{found:?}");
    ensure!(found.iter().all(|refusal| refusal.reason == Reason::NoPath), "{found:?}");
    let found = refusals(device, "float y = a * x[i];\nout[i] = geom::ad::lost(y) * 2;")?;
    ensure!(is_refused(&found, &Reason::Lost, 8, "not known"), "{found:?}");
    let found =
        refusals(device, "float4 y = {x[i], a, 0, 0};\nout[i] = geom::ad::lost(y).y + x[i];")?;
    ensure!(is_refused(&found, &Reason::Lost, 8, "not known"), "{found:?}");
    Ok(())
}

/// Elsewhere each is its first argument, and what only a derivative needs is removed.
fn programs_without_the_markers(device: &TestDevice) -> TestResult {
    use cuda_safe::nvrtc::Arch;
    let text = |expression: &str| -> Result<String, Failure> {
        let body = format!("float y = a * x[i]; out[i] = {expression};");
        let image = function::<f32>("", &body).cuda_headers(false).compile(Arch::compute(9, 0))?;
        Ok(image.ptx.unwrap_or_default())
    };
    device.context();
    // As many of each instruction: their order may differ.
    let opcodes = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.ends_with(';') && !line.contains(".reg"));
        let mut all: Vec<String> =
            lines.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect();
        all.sort();
        all
    };
    let bare = text("y")?;
    for expression in ["rule(y, x[i], sinf(a))", "stop(y)", "lost(y)"] {
        let marked = text(&format!("geom::ad::{expression}"))?;
        let markers = ["ad.rule", "ad.stop", "ad.lost"];
        ensure!(!markers.iter().any(|marker| marked.contains(marker)), "{marked}");
        ensure_eq!(opcodes(&marked), opcodes(&bare), "{expression}");
    }
    Ok(())
}
