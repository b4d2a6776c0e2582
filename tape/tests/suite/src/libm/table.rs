//! Each function over its domain, with poles, branch cuts, signed zeros, subnormal and huge numbers, infinities and NaN.

use cuda_safe::{DeviceBuffer, LaunchConfig};
use tape::{Element, Op, OpSpec, Param, Seeds, Tape};

use super::super::generated::{differentiate, failure};
use super::super::ops::Number;
use super::book::{Function, functions};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "tape::libm",
        device(
            derivatives_of_elementary_functions_f32 = |device| {
                derivatives::<f32>(device, |name| !is_special(name) && !is_intrinsic(name))
            }
        ),
        device(
            derivatives_of_elementary_functions_f64 = |device| {
                derivatives::<f64>(device, |name| !is_special(name) && !is_intrinsic(name))
            }
        ),
        device(
            derivatives_of_special_functions_f32 =
                |device| { derivatives::<f32>(device, is_special) }
        ),
        device(
            derivatives_of_special_functions_f64 =
                |device| { derivatives::<f64>(device, is_special) }
        ),
        device(
            derivatives_of_intrinsics_f32 = |device| { derivatives::<f32>(device, is_intrinsic) }
        ),
        device(
            derivatives_of_intrinsics_f64 = |device| { derivatives::<f64>(device, is_intrinsic) }
        ),
    ]
}

fn is_intrinsic(name: &str) -> bool {
    name.starts_with("__") || name == "fdividef"
}

fn is_special(name: &str) -> bool {
    let families =
        ["erf", "normcdf", "lgamma", "tgamma", "j0", "j1", "jn", "y0", "y1", "yn", "cyl_bessel"];
    families.iter().any(|family| name.starts_with(family))
}

/// The arguments of a point lie in so many numbers.
const ARGS: usize = 4;
/// So many functions are in a kernel.
const GROUP: usize = 8;

/// Element i of `out` is one of the functions of element i of `x`. Its bits go to `bits`, 16 in each, times `w`: the
/// gradient of `w` is the bits that the adjoint has.
fn operation<T: Number>(device: &TestDevice, group: &[Function]) -> Result<Op, Failure> {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    let cases = group.iter().enumerate().map(|(at, function)| {
        let args: Vec<String> = (0..function.arity()).map(|arg| format!("x[{arg}]")).collect();
        let args = args.join(", ");
        // Some have a first argument that is an integer.
        let call = match function.name.split_once('$') {
            Some((name, end)) => format!("{name}{args}{end}"),
            None => format!("{}({args})", function.name),
        };
        format!("case {at}: y = {call}; break;\n")
    });
    let bits = if T::SUFFIX == "f32" { "__float_as_uint" } else { "__double_as_longlong" };
    let program = tape::program(format!(
        "#include <geom/ad.cuh>
         extern \"C\" __global__ void f(unsigned which, const {real}* from, {real}* out, const float* w, float* bits,
                                        unsigned n) {{
             unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
             if (i >= n) return;
             const {real}* x = from + {ARGS} * i;
             {real} y = 0;
             switch (which) {{
             {}
             }}
             out[i] = y;
             unsigned long long b = {bits}(geom::ad::stop(y));
             for (int k = 0; k < 4; ++k) bits[4 * i + k] = w[4 * i + k] * (float)(b >> 16 * k & 0xffff);
         }}",
        cases.collect::<String>()
    ))
    .name("table.cu");
    let element = <T as Number>::ELEMENT;
    let spec = OpSpec::new("f")
        .param(Param::value("which"))
        .param(Param::buffer("from", element).len_times(ARGS, "n").active())
        .param(Param::buffer("out", element).len("n").active())
        .param(Param::buffer("w", Element::F32).len_times(4, "n").active())
        .param(Param::buffer("bits", Element::F32).len_times(4, "n").active())
        .param(Param::value("n"));
    differentiate(device, spec, &program).map_err(failure)
}

fn derivatives<T: Number>(device: &TestDevice, wanted: fn(&str) -> bool) -> TestResult {
    let mut all = functions()?;
    all.retain(|function| function.suffix == T::SUFFIX && wanted(&function.name));
    ensure!(!all.is_empty(), "no function of {}", T::SUFFIX);
    let mut wrong = Vec::new();
    for group in all.chunks(GROUP) {
        let op = operation::<T>(device, group)?;
        for (which, function) in (0u32..).zip(group) {
            one::<T>(device, &op, which, function, &mut wrong)?;
        }
    }
    let few: Vec<String> = wrong.iter().take(20).cloned().collect();
    ensure!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), few.join("\n"));
    Ok(())
}

/// Compares the derivatives of a function, and the values that the adjoint has.
fn one<T: Number>(
    device: &TestDevice,
    op: &Op,
    which: u32,
    function: &Function,
    wrong: &mut Vec<String>,
) -> TestResult {
    let stream = device.stream()?;
    let (name, count) = (&function.name, function.points.len());
    let padded = function.points.iter().flat_map(|point| {
        let arg = |at: usize| T::of(point.args.get(at).copied().unwrap_or(0.0));
        (0..ARGS).map(arg).collect::<Vec<T>>()
    });
    let x = DeviceBuffer::from_slice(&stream, &padded.collect::<Vec<T>>())?;
    let w = DeviceBuffer::from_slice(&stream, &vec![1.0f32; 4 * count])?;
    let mut out = DeviceBuffer::<T>::zeroed(&stream, count)?;
    let mut bits = DeviceBuffer::<f32>::zeroed(&stream, 4 * count)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        t.watch(&w)?;
        let launch = LaunchConfig::cover(count, 64);
        t.launch(op, launch, (which, &x, &mut out, &w, &mut bits, count as u32))
    })?;
    let ones = DeviceBuffer::from_slice(&stream, &vec![T::of(1.0); count])?;
    tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?.with(&bits, &w)?)?;
    let given = tape.gradient(&x)?.to_vec(&stream)?;
    let (forward, backward) = (bits.to_vec(&stream)?, tape.gradient(&w)?.to_vec(&stream)?);
    let values = out.to_vec(&stream)?;
    for (at, point) in function.points.iter().enumerate() {
        let args = &point.args;
        let bits = 4 * at..4 * at + 4;
        let is_same = if device.runs_machine_code() {
            near::<T>(name, values[at].to(), value_of::<T>(&backward[bits]))
        } else {
            forward[bits.clone()] == backward[bits]
        };
        if !is_same {
            wrong.push(format!("{name}{args:?}: the adjoint has another value than the kernel"));
        }
        // A value that overflows may have an infinite derivative.
        let overflows = values[at].to().is_infinite() && args.iter().all(|arg| arg.is_finite());
        for by in 0..ARGS {
            let given = given[ARGS * at + by].to();
            let Some(wanted) = point.wanted.get(by) else {
                if given != 0.0 {
                    wrong.push(format!("{name}{args:?}: {given} by an argument that it has not"));
                }
                continue;
            };
            let right = if wanted.value.is_finite() && wanted.allowed > 0.0 {
                (given - wanted.value).abs() <= wanted.allowed || (overflows && given.is_infinite())
            } else {
                given == wanted.value || (given.is_nan() && wanted.value.is_nan())
            };
            if !right {
                let wanted = wanted.value;
                wrong.push(format!("{name}{args:?}: {given} by argument {by}, not {wanted}"));
            }
        }
    }
    Ok(())
}

/// The number whose bits are given, 16 in each float.
fn value_of<T: Number>(parts: &[f32]) -> f64 {
    let bits = parts.iter().rev().fold(0u64, |bits, part| bits << 16 | *part as u64);
    match T::SUFFIX {
        "f32" => f32::from_bits(bits as u32).into(),
        _ => f64::from_bits(bits),
    }
}

/// Returns whether an adjoint has the kernel's value. The driver's compiler fuses products and sums of the kernel, and not of
/// the adjoint, and a NaN may have other bits.
fn near<T: Number>(name: &str, value: f64, replayed: f64) -> bool {
    let epsilon = if T::SUFFIX == "f32" { f64::from(f32::EPSILON) } else { f64::EPSILON };
    // Recurrences of Bessel functions add numbers up to one.
    let terms = if name.starts_with(['j', 'y']) { 1.0 } else { 0.0 };
    value == replayed
        || (value - replayed).abs() <= 16.0 * epsilon * value.abs().max(terms)
        || value.is_nan() && replayed.is_nan()
}
