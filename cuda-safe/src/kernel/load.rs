//! The first launch of a kernel in a context: its C++ is compiled, or found in a pack, and loaded.

use gpu_phases::kernel::{Kernel, ParamKind};
use gpu_phases::text::{Header, Text};
use nvrtc::{Options, Program, Std};

use super::loaded::{Entry, Key};
use super::{RustKernels, pack};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::function::{self, KernelAttributes};
use crate::module::{KernelSource, Module};
use crate::stream::Stream;

/// The C++ of a kernel.
pub(super) struct Source {
    pub(super) text: String,
    pub(super) files: Vec<&'static str>,
    /// What the text includes.
    pub(super) headers: Vec<Header>,
    pub(super) len64: bool,
}

impl Source {
    /// Writes the C++. `number` is what faults carry.
    pub(super) fn of(kernel: &Kernel, number: u32, len64: bool) -> Self {
        let mut text = Text::new(number);
        (kernel.write)(&mut text);
        let (files, headers) = (text.files().to_vec(), text.headers().to_vec());
        Self { text: text.finish(), files, headers, len64 }
    }

    pub(super) fn options(&self) -> Options {
        let options = Options::new().std(Std::Cpp17).fmad(false).extra("-default-device");
        if self.len64 { options.define_flag("PHASES_LEN64") } else { options }
    }

    /// Returns the program for the compiler.
    pub(super) fn program(&self, kernel: &Kernel) -> Program {
        let program = Program::new(self.text.as_str())
            .name(format!("{}.cu", kernel.name))
            .options(self.options())
            .host_headers(false)
            .kernel(kernel.entry());
        self.headers.iter().fold(program, |program, (name, text)| program.header(*name, *text))
    }
}

/// Returns the resources that a kernel needs, as compiled for the stream's device and slices of fewer than 2^32 elements.
/// Compiles and loads it, unless it is loaded.
///
/// # Errors
/// The kernel does not load, or the error that the driver returns.
#[doc(alias = "cuFuncGetAttribute")]
pub fn attributes(stream: &Stream, kernel: &'static Kernel) -> Result<KernelAttributes> {
    loaded(stream, kernel, false)?.kernel.attributes()
}

/// Returns the kernel, which is loaded now if it was not yet.
#[inline]
pub(super) fn loaded<'s>(
    stream: &'s Stream,
    kernel: &'static Kernel,
    len64: bool,
) -> Result<&'s Entry> {
    match super::loaded(stream).and_then(|loaded| loaded.get(Key::new(kernel, len64))) {
        Some(entry) => Ok(entry),
        None => load(stream, kernel, len64),
    }
}

/// Compiles or finds the kernel, loads it, and keeps it for later launches.
#[cold]
fn load<'s>(stream: &'s Stream, kernel: &'static Kernel, len64: bool) -> Result<&'s Entry> {
    let context = stream.context();
    context.inner().state.usable()?;
    let faults = &RustKernels::of(context.inner())?.faults;
    let instance = (kernel.instance)();
    let number = faults.number(kernel, &instance)?;
    let source = Source::of(kernel, number, len64);
    faults.note(number, kernel, instance, &source.files)?;
    let fault = faults.device_address(context.inner())?;
    let (loaded, content) = (super::to_load(stream)?, (number, pack::hash(&source)));
    let known = loaded.same(&content)?;
    let first = known.is_none();
    let function = match known {
        Some(function) => function,
        None => {
            let module = match pack::find(kernel, &source, context.device().arch()?)? {
                Some(image) => Module::load(&context, &image)?,
                None => compile(&context, kernel, &source)?,
            };
            let function = function(&module, kernel)?;
            // The function is loaded now, because a stream may be captured later, when loading is impossible.
            function.load()?;
            function
        }
    };
    check_parameters(&function, kernel, len64)?;
    loaded.insert(Entry::new(Key::new(kernel, len64), content, first, function, fault))
}

fn compile(context: &Context, kernel: &Kernel, source: &Source) -> Result<Module> {
    source.program(kernel).load_kernels(context, &[]).map_err(|error| match error.kind() {
        ErrorKind::Compile(compile) if matches!(**compile, nvrtc::Error::NotFound(_)) => {
            error.with_hint(pack::missing(kernel, source))
        }
        _ => explained(error, kernel),
    })
}

/// Adds to an error of the compiler whose mistake it is.
pub(super) fn explained(error: Error, kernel: &Kernel) -> Error {
    let ErrorKind::Compile(compile) = error.kind() else { return error };
    let compile = compile.clone();
    match &*compile {
        nvrtc::Error::Compile(compile) => {
            let errors =
                compile.diagnostics.iter().filter(|found| found.severity == nvrtc::Severity::Error);
            // The text itself has the message.
            if errors.clone().any(|found| found.message.contains("#error")) {
                return error;
            }
            let places = errors.filter_map(|found| Some((found.file.as_deref()?, found.line?)));
            let (file, line) = places
                .into_iter()
                .find(|(file, _)| file.ends_with(".rs"))
                .unwrap_or((kernel.file, kernel.line));
            error.with_hint(format!(
                "rustc accepts the kernel `{}` and NVRTC refuses its C++, so this is a bug of gpu-phases: report it with \
                 the line {file}:{line}, and write that line in another way until it is fixed",
                kernel.name
            ))
        }
        _ => error,
    }
}

/// Returns the one kernel of the module, which reports call by the name of the function in Rust.
fn function(module: &Module, kernel: &Kernel) -> Result<function::Kernel> {
    match &module.kernel_names()[..] {
        [name] => module.kernel_shown(name, kernel.name),
        names => Err(Error::invalid(format!(
            "the image of kernel `{}` has {} kernels instead of one",
            kernel.name,
            names.len()
        ))),
    }
}

/// Compares the parameters of the compiled kernel with its description: launches pass as many pointers.
fn check_parameters(function: &function::Kernel, kernel: &Kernel, len64: bool) -> Result<()> {
    let len = if len64 { 8 } else { 4 };
    let of_param = |param: &gpu_phases::kernel::Param| match param.kind {
        ParamKind::Value | ParamKind::Structure => vec![param.passed_size(len64)],
        _ => vec![8, len],
    };
    let params = kernel.params.iter().flat_map(of_param);
    let carry = (kernel.carries > 0).then_some(8);
    let expected: Vec<usize> =
        std::iter::once(8).chain(params).chain([len; 3]).chain(carry).collect();
    let found: Option<Vec<usize>> = function
        .parameters()
        .map(|parameters| parameters.iter().map(|parameter| parameter.size).collect());
    if found.as_ref() == Some(&expected) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the compiled kernel `{}` has parameters of {found:?} bytes instead of {expected:?}",
        kernel.name
    )))
}
