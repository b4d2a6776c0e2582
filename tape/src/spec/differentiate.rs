//! Operations whose adjoint is generated from the compiled kernel.

use std::fmt;
use std::sync::Arc;

use cuda_safe::{Context, Error, Module, Result, nvrtc::Arch, nvrtc::Program};
use ptx_ad::{Kept, NotDifferentiable, Real, Reals, Spec};

use super::param::{Param, Pointer};
use super::{Effect, Kernels, Log, Op, OpSpec, Primal, Scratch, Settings, register};
use crate::element::{Element, FloatType};
use crate::kernels::{AD_HEADER, LIBM_HEADER, LIBM_HEADERS};

/// The iterations of each loop for which scratch memory and logs have room at first.
const ITERATIONS: usize = 32;

/// How an adjoint was generated; see [`Op::derivation`]. `Display` writes a report for people, without the PTX.
#[derive(Clone)]
pub struct Derivation {
    /// The PTX of the adjoint.
    pub text: String,
    /// What the kernel does with the memory of each pointer.
    pub accesses: Vec<DerivedAccess>,
    /// The number of launch dimensions that the kernel's indices depend on.
    pub dimensions: u32,
    /// What each loop saves in scratch memory per iteration.
    pub kept: Vec<Kept>,
    /// Pairs of pointers that must not lead to the same memory, see [`ptx_ad::Adjoint::apart`].
    pub(crate) apart: Vec<(usize, usize)>,
}

/// What was derived about the memory of one pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DerivedAccess {
    /// The parameter's name.
    pub param: String,
    /// The pointer's offset in the parameter, in bytes.
    pub offset: usize,
    /// The effect of the kernel on the memory.
    pub effect: Effect,
    /// The value of the memory that the adjoint reads.
    pub value: Primal,
    /// Whether each thread accesses elements that no other thread accesses: then gradients are added without atomics.
    pub own: bool,
    /// Whether each element below the declared length is accessed; see [`Param::each_element`].
    pub each_element: bool,
    /// Whether nothing that the kernel stores there depends on active arguments.
    pub(crate) constant: bool,
}

/// A failure of [`OpSpec::differentiate`].
#[derive(Clone)]
#[non_exhaustive]
pub enum DifferentiateError {
    /// The kernel has no correct adjoint, for these reasons.
    NotDifferentiable(NotDifferentiable),
    /// The declaration of a parameter contradicts the kernel.
    Contradiction {
        /// The kernel.
        kernel: String,
        /// The parameter.
        param: String,
        /// The contradiction.
        message: String,
    },
    /// Compiling, loading or registering failed.
    Cuda(Error),
}

impl fmt::Debug for DifferentiateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for DifferentiateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotDifferentiable(error) => error.fmt(f),
            Self::Contradiction { kernel, param, message } => {
                write!(f, "`{kernel}`: `{param}`: {message}")
            }
            Self::Cuda(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for DifferentiateError {}

impl From<Error> for DifferentiateError {
    fn from(error: Error) -> Self {
        Self::Cuda(error)
    }
}

impl From<DifferentiateError> for Error {
    fn from(error: DifferentiateError) -> Self {
        match error {
            DifferentiateError::Cuda(error) => error,
            other => Self::invalid(other.to_string()),
        }
    }
}

impl OpSpec {
    /// Generates the adjoint from the compiled kernel of `program`.
    ///
    /// The kernel is compiled twice: as usual for launches, and as PTX with line numbers and with `GEOM_AD` defined,
    /// from which the adjoint is generated. Effects ([`Param::reads`] and so on) and dimensions are derived from the
    /// code, and compared with those that were declared.
    ///
    /// ```no_run
    /// # fn run(context: &cuda_safe::Context) -> cuda_safe::Result<()> {
    /// use cuda_tape::{Element, OpSpec, Param};
    /// let program = cuda_safe::nvrtc::Program::new(r#"
    ///     extern "C" __global__ void scale(float a, const float* x, float* out, unsigned n) {
    ///         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    ///         if (i < n) out[i] = a * x[i];
    ///     }"#);
    /// let spec = OpSpec::new("scale")
    ///     .param(Param::scalar("a", Element::F32).active())
    ///     .param(Param::buffer("x", Element::F32).len("n").active())
    ///     .param(Param::buffer("out", Element::F32).len("n").active())
    ///     .param(Param::value("n"));
    /// // SAFETY: thread i touches element i of each buffer, and only if i < n.
    /// let scale = unsafe { spec.differentiate(context, &program) }?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Mathematical functions
    /// CUDA's mathematical functions and intrinsics of `float` and `double` have derivatives that are accurate over
    /// the whole domain: relative errors stay below 1e-6 and 1e-13. Macros rename the functions in the second
    /// compilation, so calls as `::sinf`, `std::sin` or `cuda::std::sin` are found. `DESIGN.md` of this crate lists
    /// them, with the derivatives at kinks and poles. Functions without a derivative (`nextafter`) are refused by
    /// name.
    ///
    /// A kernel may state derivatives itself, with the header of [`program`](crate::program):
    ///
    /// ```c++
    /// #include <geom/ad.cuh>
    /// __device__ float root(float x) {  // of y³ + y = x
    ///     float y = newton(x);
    ///     return geom::ad::rule(y, x, 1.0f / (3.0f * y * y + 1.0f));
    /// }
    /// ```
    ///
    /// `geom::ad::rule(y, x1, d1, x2, d2, ...)` is y, with the differential d1 dx1 + d2 dx2 + ... A derivative that
    /// is not finite makes the gradient infinite or NaN, unless the value is not selected. `geom::ad::stop(x)` is x
    /// as a constant, and `geom::ad::lost(x)` is x with an unknown derivative. Compiling fails if a `rule` has a
    /// wrong number of derivatives.
    ///
    /// # Errors
    /// [`DifferentiateError::NotDifferentiable`] names each line whose gradient would be wrong; [`ptx_ad`] lists what
    /// can be differentiated. Otherwise compiling, loading or registering failed, or the specification describes an
    /// adjoint by hand ([`shape`](Self::shape), [`scratch`](Self::scratch) or a primal). Converts to
    /// [`cuda_safe::Error`].
    ///
    /// Recording a launch fails if gradients flow through it and the kernel writes memory through one argument and
    /// then reads it through another; with a replay buffer ([`Param::replay`]), if the kernel writes memory that two
    /// arguments lead to.
    ///
    /// # Safety
    /// For every launch whose arguments pass the checks of this specification, the kernel accesses only the memory of
    /// its arguments, writes only through arguments passed as `&mut`, and has no data race. Its adjoint accesses
    /// memory and gradients at the indices where the kernel accesses memory. In a replay buffer, nothing overwrites
    /// an element after a result was stored there ([`Param::replay`]).
    pub unsafe fn differentiate(
        self,
        context: &Context,
        program: &Program,
    ) -> Result<Op, DifferentiateError> {
        let (major, minor) = context.device().compute_capability()?;
        let driver = context.driver().version()?;
        let arch = Arch::compute(major, minor);
        let copy = copy(program);
        // Both compilations take equally long, so they run in parallel.
        let (module, image) = std::thread::scope(|scope| {
            let read = || copy.compile_for_driver(arch, driver);
            let compiling = std::thread::Builder::new().spawn_scoped(scope, read);
            let module = Module::compile(context, program);
            let image = match compiling.map(std::thread::ScopedJoinHandle::join) {
                Ok(Ok(image)) => image,
                // No thread could be started, or it has panicked.
                Ok(Err(_)) | Err(_) => read(),
            };
            (module, image)
        });
        let (module, image) = (module?, image.map_err(Error::from)?);
        let name = module.kernel(&self.name)?;
        let text = image.ptx.as_deref().unwrap_or_default();
        self.generate(context, name, text, &|_| ())
    }

    /// Generates the adjoint of a kernel that was compiled from `program`.
    #[cold]
    pub(crate) fn differentiate_kernel(
        self,
        kernel: cuda_safe::Kernel,
        program: &Program,
    ) -> Result<Op, DifferentiateError> {
        let context = kernel.module().context();
        let (major, minor) = context.device().compute_capability()?;
        let arch = Arch::compute(major, minor);
        let image = copy(program).compile_for_driver(arch, context.driver().version()?);
        let image = image.map_err(Error::from)?;
        let text = image.ptx.as_deref().unwrap_or_default();
        self.generate(&context, kernel, text, &|_| ())
    }

    /// Generates the adjoint from a kernel in a PTX text, of NVRTC or another compiler. Mathematical functions that
    /// the compiler has inlined are differentiated only if they consist of arithmetic.
    ///
    /// # Errors
    /// As [`differentiate`](Self::differentiate).
    ///
    /// # Safety
    /// As for [`differentiate`](Self::differentiate).
    pub unsafe fn differentiate_ptx(
        self,
        context: &Context,
        text: &str,
    ) -> Result<Op, DifferentiateError> {
        let module = Module::from_ptx(context, text)?;
        let forward = module.kernel(&self.name)?;
        self.generate(context, forward, text, &|_| ())
    }

    pub(super) fn generate(
        mut self,
        context: &Context,
        forward: cuda_safe::Kernel,
        text: &str,
        name_file: &dyn Fn(&mut ptx_ad::Place),
    ) -> Result<Op, DifferentiateError> {
        let kernel = forward.name().to_owned();
        self.only_the_kernel(&kernel)?;
        let parsed =
            ptx_ad::parse(text).map_err(|error| Error::invalid(format!("`{kernel}`: {error}")))?;
        let spec = self.described(&kernel)?;
        let adjoint = ptx_ad::differentiate(&parsed, &spec).map_err(|mut error| {
            // The image may have a mangled name.
            self.name.as_ref().clone_into(&mut error.kernel);
            DifferentiateError::NotDifferentiable(error)
        })?;
        let mut accesses = Vec::new();
        let pointers = self.params.iter_mut().flat_map(|param| {
            let name = param.name.clone();
            param.pointers.iter_mut().map(move |pointer| (name.clone(), pointer))
        });
        for ((param, pointer), access) in pointers.zip(&adjoint.accesses) {
            let effect = effect(access.effect);
            if pointer.said && pointer.effect != effect {
                let said = pointer.effect;
                let message =
                    format!("the specification says {said:?}, the kernel does {effect:?}");
                return Err(DifferentiateError::Contradiction {
                    kernel,
                    param: param.into_owned(),
                    message,
                });
            }
            let covers = match effect {
                // The declaration of an output counts: `each_element` is the caller's promise.
                Effect::Overwrites => access.covers || pointer.covers,
                Effect::Reads => access.covers && pointer.active,
                Effect::Updates | Effect::Accumulates => false,
            };
            pointer.effect = effect;
            pointer.value = match (access.private, access.loaded) {
                (true, _) => Primal::EntryPrivate,
                (false, true) if access.replayed => Primal::Exit,
                (false, true) => Primal::Entry,
                (false, false) => Primal::None,
            };
            pointer.covers = covers;
            pointer.drops = access.drops;
            accesses.push(DerivedAccess {
                param: param.into_owned(),
                offset: pointer.offset,
                effect,
                value: pointer.value,
                own: access.own,
                each_element: covers,
                constant: access.constant,
            });
        }
        self.settings.log = match (&adjoint.deterministic, self.settings.log) {
            // Without shared sums, the adjoint logs nothing on a deterministic tape.
            _ if !adjoint.shares => Some(Log::EachThread(0, 0)),
            (Some(_), said @ Some(_)) => said,
            (Some(made), None) => {
                let (outside, inside) = logged(&made.added);
                Some(Log::EachThread(outside, inside))
            }
            (None, _) => None,
        };
        if adjoint.scratch {
            let words: u32 = adjoint.kept.iter().map(|kept| kept.words).sum();
            self.settings.scratch =
                Some(Scratch::EachThread(words.max(1) as usize * 4 * ITERATIONS));
        }
        self.settings.dimensions = adjoint.dimensions;
        self.settings.most_threads = adjoint.threads;
        let module = Module::from_ptx(context, &adjoint.text)?;
        let made = module.kernel(&adjoint.name)?;
        let most = made.attributes()?.max_threads_per_block;
        let wanted = forward.attributes()?.max_threads_per_block;
        let wide = if most < wanted {
            let module = Module::from_ptx(context, &adjoint.text_for_blocks_of(wanted))?;
            Some((u64::from(most), module.kernel(&adjoint.name)?))
        } else {
            None
        };
        let deterministic = match adjoint.deterministic_text_for_blocks_of(wanted) {
            Some(text) => {
                let image = cuda_safe::ModuleImage::Ptx(&text);
                Some(Module::load_lazily(context, image)?.kernel(&adjoint.name)?)
            }
            None => None,
        };
        let kernels = Kernels { forward, adjoint: Some(made), wide, deterministic, primal: None };
        let ptx_ad::Adjoint { text, dimensions, apart, mut kept, .. } = adjoint;
        kept.iter_mut().filter_map(|kept| kept.place.as_mut()).for_each(name_file);
        let derivation = Derivation { text, accesses, dimensions, kept, apart };
        Ok(register::compile(self, kernels, Some(Arc::new(derivation)))?)
    }

    /// Refuses a specification with parts of a hand-written adjoint, which the generated one does not have.
    fn only_the_kernel(&self, kernel: &str) -> Result<(), DifferentiateError> {
        let Settings { shape, scratch, .. } = self.settings;
        let said = [
            ("shape", shape.is_some()),
            ("scratch", scratch.is_some()),
            ("primal", self.primal.is_some()),
        ];
        match said.iter().find(|(_, said)| *said) {
            Some((name, _)) => Err(Error::invalid(format!(
                "`{kernel}`: `OpSpec::{name}` describes an adjoint by hand, and this one is generated"
            ))
            .into()),
            None => Ok(()),
        }
    }

    /// Returns the parameters in the form that the generator takes.
    fn described(&self, kernel: &str) -> Result<Spec, DifferentiateError> {
        let wrong = |param: &Param, message: &str| DifferentiateError::Contradiction {
            kernel: kernel.to_owned(),
            param: param.name.to_string(),
            message: message.to_owned(),
        };
        let mut params = Vec::new();
        for param in &self.params {
            let mut made = ptx_ad::Param {
                name: param.name.to_string(),
                active: param.active && !param.scalars.is_empty(),
                structure: param.shape.is_structure(),
                ..ptx_ad::Param::default()
            };
            for pointer in &param.pointers {
                let pointer = self.pointer(pointer).map_err(|message| wrong(param, message))?;
                made.pointers.push(pointer);
            }
            let replayed = param.pointers.iter().filter(|pointer| pointer.replay);
            made.replay =
                replayed.filter_map(|pointer| u32::try_from(pointer.offset).ok()).collect();
            for (offset, element) in &param.scalars {
                let number = element.real.map(real);
                let (Some(number), Ok(offset)) = (number, u32::try_from(*offset)) else {
                    if param.active {
                        return Err(wrong(param, "an active number must be a float"));
                    }
                    continue;
                };
                made.reals.push((offset, number));
            }
            params.push(made);
        }
        Ok(Spec { kernel: kernel.to_owned(), params })
    }

    fn pointer(&self, pointer: &Pointer) -> Result<ptx_ad::Pointer, &'static str> {
        let Element { size, real: numbers, mixed, .. } = pointer.element;
        let known = numbers.map(real);
        if pointer.active && known.is_none() {
            return Err("an active buffer must have elements of floats");
        }
        let reals = known.map(|known| if mixed { Reals::Some(known) } else { Reals::All(known) });
        let count = pointer.length.as_ref().and_then(|length| {
            let at =
                self.params.iter().position(|param| Some(&param.name) == length.param.as_ref())?;
            Some((u32::try_from(length.factor).ok()?, at))
        });
        Ok(ptx_ad::Pointer {
            offset: u32::try_from(pointer.offset).map_err(|_| "the offset is too large")?,
            size: u32::try_from(size).map_err(|_| "the elements are too large")?,
            reals,
            active: pointer.active,
            length: count,
        })
    }
}

/// Returns the program to differentiate: with line numbers, and with CUDA's mathematical functions marked with their
/// derivatives.
pub(super) fn copy(program: &Program) -> Program {
    let headers = [AD_HEADER].into_iter().chain(LIBM_HEADERS);
    headers
        .fold(program.clone(), |program, (name, text)| program.header(name, text))
        .pre_include(LIBM_HEADER)
        .with_options(|options| {
            options.lineinfo(true).define_flag("GEOM_AD").define("__noinline__", "")
        })
}

/// Returns how many numbers a thread adds to shared sums outside of loops, and a guess for those in loops.
fn logged(added: &[u64]) -> (usize, usize) {
    let mut counts = added.iter().map(|count| usize::try_from(*count).unwrap_or(usize::MAX));
    let outside = counts.next().unwrap_or(0);
    let mut iterations = 1usize;
    let inside = counts.fold(0usize, |sum, count| {
        iterations = iterations.saturating_mul(ITERATIONS);
        sum.saturating_add(count.saturating_mul(iterations))
    });
    (outside, inside)
}

fn effect(effect: ptx_ad::Effect) -> Effect {
    match effect {
        ptx_ad::Effect::Reads => Effect::Reads,
        ptx_ad::Effect::Overwrites => Effect::Overwrites,
        ptx_ad::Effect::Updates => Effect::Updates,
        ptx_ad::Effect::Accumulates => Effect::Accumulates,
    }
}

fn real(float: FloatType) -> Real {
    match float {
        FloatType::F32 => Real::F32,
        FloatType::F64 => Real::F64,
        FloatType::F16 => Real::F16,
        FloatType::Bf16 => Real::Bf16,
    }
}
