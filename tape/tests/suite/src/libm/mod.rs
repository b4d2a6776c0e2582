//! Derivatives of CUDA's mathematical functions, and those that a kernel states itself: `geom/ad.cuh`.

mod book;
mod forms;
mod marks;
mod table;

use cuda_safe::nvrtc::Program;
use tape::ptx_ad::{Reason, Refusal};
use tape::{DifferentiateError, OpSpec, Param};

use super::generated::{differentiate, failure};
use super::ops::Number;
use test_harness::{Case, Failure, TestDevice};

pub(super) fn cases() -> Vec<Case> {
    [table::cases(), forms::cases(), marks::cases()].concat()
}

/// A program with `geom/ad.cuh`, and the kernel `f(real a, const real* x, real* out, unsigned n)` of this body for each
/// i < n. The body's first line is the seventh.
fn function<T: Number>(before: &str, body: &str) -> Program {
    let real = if T::SUFFIX == "f32" { "float" } else { "double" };
    tape::program(format!(
        "typedef {real} real;
         #include <geom/ad.cuh>
         {before}
         extern \"C\" __global__ void f(real a, const real* x, real* out, unsigned n) {{
         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
         if (i < n) {{
             {body}
         }}
         }}"
    ))
    .name("libm.cu")
}

fn spec<T: Number>() -> OpSpec {
    let element = <T as Number>::ELEMENT;
    OpSpec::new("f")
        .param(Param::scalar("a", element))
        .param(Param::buffer("x", element).len("n").active())
        .param(Param::buffer("out", element).len("n").active())
        .param(Param::value("n"))
}

/// The reasons for which a body is refused.
fn refusals(device: &TestDevice, body: &str) -> Result<Vec<Refusal>, Failure> {
    match differentiate(device, spec::<f32>(), &function::<f32>("", body)) {
        Err(DifferentiateError::NotDifferentiable(error)) => Ok(error.refusals),
        Err(other) => Err(failure(other)),
        Ok(_) => Err(Failure::new(format!("{body}: it was differentiated"))),
    }
}

/// Whether a body is refused for a reason, at a line of its own, with a message that has these words.
fn is_refused(found: &[Refusal], reason: &Reason, line: u32, words: &str) -> bool {
    found.iter().any(|refusal| {
        let user = refusal.user.as_ref();
        let at = user.is_some_and(|at| at.file.ends_with("libm.cu") && at.line == line);
        at && refusal.reason == *reason && refusal.message.contains(words)
    })
}
