//! Kernels of a user that query geometry, with generated adjoints: against the recorded calls, and against sums and
//! differences in f64.

mod meshes;
mod neighbors;
mod rays;
mod refusals;
mod volumes;

use cuda_safe::{Context, LaunchConfig};
use tape::{DifferentiateError, Element, FloatType, Op, OpSpec, Param};

use test_harness::{Case, Failure, TestDevice, TestResult, ensure};

pub(super) fn cases() -> Vec<Case> {
    [meshes::cases(), rays::cases(), neighbors::cases(), volumes::cases(), refusals::cases()]
        .concat()
}

const POINT: Element = Element::vector(FloatType::F32, 3);

/// A kernel with the parameters `name(params…, unsigned n)`, whose thread i uses element i alone, if i < n.
fn spec(name: &str, params: Vec<Param>) -> OpSpec {
    let spec = params.into_iter().fold(OpSpec::new(name.to_owned()), OpSpec::param);
    spec.param(Param::value("n"))
}

fn try_differentiate(
    context: &Context,
    spec: OpSpec,
    text: &str,
) -> Result<Op, DifferentiateError> {
    let program = geom_kernels::program(format!("#line 1\n{text}")).name("user.cu");
    // SAFETY: the kernels of these tests stay within their buffers, as `spec` says, and don't race.
    unsafe { spec.differentiate(context, &program) }
}

fn differentiate(
    device: &TestDevice,
    text: &str,
    name: &str,
    params: Vec<Param>,
) -> Result<Op, Failure> {
    try_differentiate(device.context(), spec(name, params), text)
        .map_err(|error| Failure::new(error.to_string()))
}

fn input(name: &'static str, element: Element) -> Param {
    Param::buffer(name, element).active()
}

fn each(name: &'static str, element: Element) -> Param {
    Param::buffer(name, element).len("n").active()
}

fn threads(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n, 64)
}

/// Fails unless vectors of `width` numbers differ by at most `bound` of the length of the one that is wanted.
fn same_vectors(what: &str, given: &[f32], wanted: &[f32], width: usize, bound: f64) -> TestResult {
    ensure!(given.len() == wanted.len(), "{what}: {} numbers, not {}", given.len(), wanted.len());
    for (i, (given, wanted)) in given.chunks(width).zip(wanted.chunks(width)).enumerate() {
        let length = wanted.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        for (a, b) in given.iter().zip(wanted) {
            let off = (f64::from(*a) - f64::from(*b)).abs();
            ensure!(off <= bound * length, "{what}: vector {i} is {given:?}, not {wanted:?}");
        }
    }
    Ok(())
}

/// Fails unless numbers differ by at most `bound` of the largest that is wanted.
fn same_sums(what: &str, given: &[f32], wanted: &[f32], bound: f64) -> TestResult {
    ensure!(given.len() == wanted.len(), "{what}: {} numbers, not {}", given.len(), wanted.len());
    let most = wanted.iter().fold(0.0f64, |most, x| most.max(f64::from(x.abs())));
    for (i, (a, b)) in given.iter().zip(wanted).enumerate() {
        let off = (f64::from(*a) - f64::from(*b)).abs();
        ensure!(off <= bound * most, "{what}: number {i} is {a}, not {b}; the largest is {most}");
    }
    Ok(())
}
