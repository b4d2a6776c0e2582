//! Operations of Rust kernels, whose adjoints are generated.

use cuda_safe::kernel::device::Float;
use cuda_safe::kernel::kernel::{Kernel, Param as Described, ParamKind};
use cuda_safe::kernel::recording::{self, Loaded};
use cuda_safe::{Error, Result, Stream, nvrtc::Arch};

use ptx_ad::{Place, Reason, Refusal};

use super::{Derivation, DifferentiateError, Op, OpSpec, Param};
use crate::element::{Element, FloatType};

/// Generates the adjoint of a Rust kernel, unless it was recorded or derived before, and returns how.
///
/// ```no_run
/// use cuda_safe::kernel::kernel;
///
/// #[kernel(gradient)]
/// fn square(x: &[f32], out: &mut [f32]) {
///     assert!(x.len() == out.len());
///     each(out, |i, out| *out = x[i] * x[i]);
/// }
///
/// # fn run(stream: &cuda_safe::Stream) -> cuda_safe::Result<()> {
/// println!("{}", cuda_tape::derivation(stream, square::kernel())?);
/// # Ok(()) }
/// ```
///
/// # Errors
/// The kernel has no correct adjoint, for reasons with lines, or does not compile.
pub fn derivation(stream: &Stream, kernel: &'static Kernel) -> Result<Derivation> {
    // SAFETY: `of` attaches the operation, which holds the only clones.
    let op = of(unsafe { recording::load(stream, kernel) }?)?;
    op.derivation().cloned().ok_or_else(|| Error::invalid("the adjoint was not generated"))
}

/// Returns the operation of a kernel. It is made at the first call in a context.
#[inline]
pub(crate) fn of(loaded: Loaded<'_>) -> Result<&Op> {
    loaded.attached(|loaded| {
        let op = make(loaded)?;
        let kernels = &op.inner.kernels;
        let wide = kernels.wide.as_ref().map(|(_, kernel)| kernel);
        let all = [kernels.adjoint.as_ref(), wide, kernels.deterministic.as_ref()];
        let all = all.into_iter().flatten().cloned().collect();
        Ok((op, all))
    })
}

#[cold]
fn make(loaded: &Loaded<'_>) -> Result<Op, DifferentiateError> {
    let (kernel, forward) = (loaded.description(), loaded.kernel());
    let spec = spec(kernel)?;
    let context = forward.module().context();
    let (major, minor) = context.device().compute_capability()?;
    let program = super::differentiate::copy(&loaded.program());
    let image = program
        .compile_for_driver(Arch::compute(major, minor), context.driver().version()?)
        .map_err(Error::from)?;
    let text = image.ptx.as_deref().unwrap_or_default();
    let files = loaded.files();
    let made = spec.generate(&context, forward.clone(), text, &|place| as_in_rust(place, &files));
    made.map_err(|error| match error {
        DifferentiateError::NotDifferentiable(mut error) => {
            for refusal in &mut error.refusals {
                say_for_rust(refusal);
                refusal.user.iter_mut().for_each(|place| as_in_rust(place, &files));
                // Lines of the C++ that the kernel became say nothing to its author.
                refusal.inner.take_if(|place| !files.iter().any(|file| place.file.ends_with(file)));
            }
            let in_rust = |refusal: &Refusal| {
                let place = refusal.user.as_ref();
                place.is_some_and(|place| files.iter().any(|file| place.file == **file))
            };
            if error.refusals.iter().any(in_rust) {
                error.refusals.retain(in_rust);
            }
            // Nothing is known of such memory, so other reasons follow from it.
            let is_slice = |refusal: &Refusal| refusal.message == OF_SLICES;
            if error.refusals.iter().any(is_slice) {
                error.refusals.retain(is_slice);
            }
            error.refusals.dedup_by(|a, b| (&a.user, &a.message) == (&b.user, &b.message));
            DifferentiateError::NotDifferentiable(error)
        }
        other => other,
    })
}

/// What messages name in C++, and what kernels in Rust have.
const WORDS: [(&str, &str); 3] = [
    (
        "give the array that the grid was built from",
        "compute it from the slice that the grid was built from, by the indices of neighbours",
    ),
    ("say `geom::ad::rule` if you know it, or `geom::ad::stop`", "say `stop_gradient`"),
    ("`geom::ad::stop`", "`stop_gradient`"),
];

const OF_SLICES: &str = "shared memory whose length comes with the launch can't be differentiated: use `block.shared`, whose \
     length is a constant, or an output";

/// Replaces the ways out of C++ by those of Rust.
fn say_for_rust(refusal: &mut Refusal) {
    let text = match refusal.reason {
        Reason::SharedMemory if refusal.message.contains("comes with the launch") => OF_SLICES,
        Reason::Bits => {
            "integer instructions change the bits of a number that depends on active inputs: compute with the number, \
             without `to_bits` and `from_bits`, or make it a constant by `stop_gradient`"
        }
        Reason::AtomicResult => {
            "the result of an atomic operation is used, so an adjoint can't repeat it: compute indices in a kernel of their \
             own, without a gradient, and read sums in a second one"
        }
        _ => {
            for (cpp, rust) in WORDS {
                refusal.message = refusal.message.replace(cpp, rust);
            }
            return;
        }
    };
    text.clone_into(&mut refusal.message);
}

/// Names a file as rustc does. NVRTC puts the current folder before names.
fn as_in_rust(place: &mut Place, files: &[&'static str]) {
    if let Some(file) = files.iter().find(|file| place.file.ends_with(**file)) {
        (*file).clone_into(&mut place.file);
    }
}

/// Returns the parameters of the C++: see [`Kernel`].
fn spec(kernel: &Kernel) -> Result<OpSpec, DifferentiateError> {
    const EXTENT: [&str; 3] = ["extent.x", "extent.y", "extent.z"];
    let mut spec = OpSpec::new(kernel.name).param(Param::value("faults"));
    for param in kernel.params {
        match param.kind {
            ParamKind::Value => {
                spec = spec.param(value(param));
                continue;
            }
            ParamKind::Structure => {
                spec = spec.param(structure(param));
                continue;
            }
            _ => {}
        }
        let len = format!("{}.len()", param.name);
        let count = if param.whole { EXTENT[0] } else { &len };
        let buffer = Param::buffer(param.name, element(kernel, param)?).len(count.to_owned());
        spec = spec.param(if param.active { buffer.active() } else { buffer });
        spec = spec.param(Param::value(len));
    }
    Ok(EXTENT.into_iter().fold(spec, |spec, name| spec.param(Param::value(name))))
}

/// Returns the offset and the type of each float in a value, or in an element.
fn floats(param: &Described) -> Vec<(usize, FloatType)> {
    let mut found = Vec::new();
    (param.floats)(0, &mut |at, float| found.push((at, float_type(float))));
    found
}

fn float_type(float: Float) -> FloatType {
    match float {
        Float::F16 => FloatType::F16,
        Float::Bf16 => FloatType::Bf16,
        Float::F32 => FloatType::F32,
        Float::F64 => FloatType::F64,
    }
}

/// Returns the parameter of a structure. What it was made of has a gradient if the parameter has one.
fn structure(param: &Described) -> Param {
    let sources = param.sources.iter().filter(|_| param.active);
    sources.fold(Param::queried(param.name, param.size), |made, source| {
        let element = Element::vector(float_type(source.float), source.floats);
        made.pointer(source.offset, element).active()
    })
}

fn value(param: &Described) -> Param {
    if !param.active {
        return Param::value(param.name);
    }
    let numbers = floats(param);
    let numbers = numbers.into_iter().map(|(at, real)| (at, Element::vector(real, 1)));
    Param::numbers(param.name, param.size, numbers.collect())
}

fn element(kernel: &Kernel, param: &Described) -> Result<Element, DifferentiateError> {
    let numbers = floats(param);
    let Some(&(_, real)) = numbers.first() else { return Ok(Element::bytes(param.size)) };
    if numbers.iter().any(|(_, other)| *other != real) {
        return match param.active {
            true => Err(wrong(kernel, param, "has floats of several types in an element")),
            false => Ok(Element::bytes(param.size)),
        };
    }
    if numbers.len() * real.size() == param.size {
        return Ok(Element::vector(real, numbers.len()));
    }
    let offsets: Vec<usize> = numbers.iter().map(|(at, _)| *at).collect();
    let known = offsets.iter().all(|at| at / real.size() < 64);
    let element = Element::structure(param.size, real);
    Ok(if known { element.numbers_at(&offsets) } else { element })
}

#[cold]
fn wrong(kernel: &Kernel, param: &Described, message: &str) -> DifferentiateError {
    DifferentiateError::Contradiction {
        kernel: kernel.name.to_owned(),
        param: param.name.to_owned(),
        message: message.to_owned(),
    }
}
