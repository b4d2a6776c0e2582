//! The specification of an operation: its kernels, and what they do with each parameter.

mod derivation;
mod differentiate;
mod op;
mod param;
mod register;
#[cfg(feature = "rust-kernels")]
mod rust;

use std::borrow::Cow;

use cuda_safe::{Error, Kernel, LaunchConfig, Module, Result};

pub use differentiate::{Derivation, DerivedAccess, DifferentiateError};
pub(crate) use op::Inner as OpInner;
pub use op::Op;
pub(crate) use op::{OpPointer, Slot};
pub use param::{Effect, Param, Primal};
#[cfg(feature = "rust-kernels")]
pub use rust::derivation;
#[cfg(feature = "rust-kernels")]
pub(crate) use rust::of as rust_op;

/// The size of a primal's tape memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TapeBytes {
    /// The number of bytes that the function returns for this launch.
    Of(fn(&LaunchConfig) -> usize),
    /// The number of bytes that the primal returns when it is launched with `COUNT`.
    Counted,
}

/// An operation: a kernel, its adjoint, and what they do with their parameters.
///
/// The adjoint of `name` is the kernel `name_adjoint(P…, G…, geom::tape::Frame)`: P are the parameters of the kernel,
/// G the gradient parameters, one for each active parameter in their order. For a pointer, G is a pointer to the
/// gradients, null if they are not wanted (or, for overwritten memory, if they are all zero). For a number, it is a
/// pointer to partial sums. For a structure, it is the same structure with pointers to gradients, followed by partial
/// sums if numbers in it are active. See `geom/tape.cuh` and the crate's documentation.
///
/// ```no_run
/// # fn register(module: &cuda_safe::Module) -> cuda_safe::Result<()> {
/// use cuda_tape::{Element, OpSpec, Param, Primal};
/// let spec = OpSpec::new("saxpy")
///     .param(Param::scalar("a", Element::F32).active())
///     .param(Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").each_element().active())
///     .param(Param::buffer("out", Element::F32).overwrites().len("n").each_element().active())
///     .param(Param::value("n"));
/// // SAFETY: thread i touches element i of each buffer, in both kernels, and only if i < n; the adjoint
/// // follows the binary interface.
/// let saxpy = unsafe { spec.register(module) }?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct OpSpec {
    pub(crate) name: Cow<'static, str>,
    pub(crate) adjoint: Option<Cow<'static, str>>,
    pub(crate) primal: Option<(Cow<'static, str>, TapeBytes)>,
    pub(crate) params: Vec<Param>,
    pub(crate) settings: Settings,
}

/// An estimate of the scratch memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scratch {
    /// The number of bytes that the function returns.
    Guess(fn(&LaunchConfig) -> usize),
    /// This many bytes per thread.
    EachThread(usize),
}

/// The most scratch memory that a generated adjoint gets at first.
const MOST_FIRST: usize = 256 << 20;

impl Scratch {
    /// Returns the number of bytes that a launch gets first.
    pub(crate) fn guess(self, launch: &LaunchConfig) -> usize {
        match self {
            Self::Guess(guess) => guess(launch),
            Self::EachThread(bytes) => {
                let threads = usize::try_from(launch.threads()).unwrap_or(usize::MAX);
                threads.saturating_mul(bytes).min(MOST_FIRST)
            }
        }
    }
}

/// How many summands an adjoint adds to gradients that several threads may add to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Log {
    /// At most as many as the function returns.
    Most(fn(&LaunchConfig) -> usize),
    /// Each thread adds at most the first number outside of loops, and about the second in loops.
    EachThread(usize, usize),
}

/// The most summands of loops that a log has room for at first.
const MOST_LOGGED: usize = 1 << 22;

impl Log {
    /// Returns how many summands the log has room for.
    pub(crate) fn most(self, launch: &LaunchConfig) -> usize {
        match self {
            Self::Most(most) => most(launch),
            Self::EachThread(outside, inside) => {
                let threads = usize::try_from(launch.threads()).unwrap_or(usize::MAX);
                let inside = threads.saturating_mul(inside).min(MOST_LOGGED);
                threads.saturating_mul(outside).saturating_add(inside)
            }
        }
    }

    /// Returns whether the log may be too small.
    pub(crate) fn is_a_guess(self) -> bool {
        matches!(self, Self::EachThread(_, inside) if inside > 0)
    }
}

/// The part of the specification that an [`Op`] takes over unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) shape: Option<fn(&LaunchConfig) -> LaunchConfig>,
    pub(crate) scratch: Option<Scratch>,
    pub(crate) log: Option<Log>,
    pub(crate) dimensions: u32,
    /// Whether the kernels have a grid-stride loop.
    pub(crate) grid_stride: bool,
    /// The most threads that a launch may have.
    pub(crate) most_threads: u64,
}

impl OpSpec {
    /// Creates an operation for the kernel `name`, whose adjoint is the kernel `name_adjoint`.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>) -> Self {
        let name = name.into();
        let adjoint = Some(Cow::Owned(format!("{name}_adjoint")));
        let settings = Settings {
            shape: None,
            scratch: None,
            log: None,
            dimensions: 1,
            grid_stride: false,
            most_threads: u64::MAX,
        };
        Self { name, adjoint, primal: None, params: Vec::new(), settings }
    }

    /// Adds the next parameter.
    #[must_use]
    pub fn param(mut self, param: Param) -> Self {
        self.params.push(param);
        self
    }

    /// Sets the adjoint's name, if it is not `name_adjoint`.
    #[must_use]
    pub fn adjoint(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.adjoint = Some(name.into());
        self
    }

    /// Declares that there is no adjoint: recording the operation fails if a gradient would flow through it.
    #[must_use]
    pub fn without_adjoint(mut self) -> Self {
        self.adjoint = None;
        self
    }

    /// Sets a primal: when recorded, `name(P…, Frame)` runs instead of the kernel. It does the same, and stores data
    /// for the adjoint in `Frame::tape`, whose size `bytes` returns for each launch.
    #[must_use]
    pub fn primal(
        mut self,
        name: impl Into<Cow<'static, str>>,
        bytes: fn(&LaunchConfig) -> usize,
    ) -> Self {
        self.primal = Some((name.into(), TapeBytes::Of(bytes)));
        self
    }

    /// Works like [`primal`](Self::primal) if only the primal knows how much memory it needs: it is launched with
    /// `COUNT` first, and the recording waits for the result.
    #[must_use]
    pub fn two_pass_primal(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.primal = Some((name.into(), TapeBytes::Counted));
        self
    }

    /// Sets the adjoint's grid, block and shared memory as a function of the kernel's. By default they are the same.
    #[must_use]
    pub fn shape(mut self, shape: fn(&LaunchConfig) -> LaunchConfig) -> Self {
        self.settings.shape = Some(shape);
        self
    }

    /// Declares that the adjoint takes scratch memory (`geom::tape::Scratch`), about `guess` bytes for a launch of
    /// the kernel. If that is too little, the adjoint runs again with more.
    ///
    /// Adjoints that use `Scratch` or `BlockScratch` need this declaration, with any guess. Without it they get no
    /// such memory and cannot report that they need some (unless another step of the pass may raise the status: then
    /// the pass fails), so the kernel traps, after which the context is unusable.
    #[must_use]
    pub fn scratch(mut self, guess: fn(&LaunchConfig) -> usize) -> Self {
        self.settings.scratch = Some(Scratch::Guess(guess));
        self
    }

    /// Declares that the adjoint fits deterministic tapes: it adds only with the functions of `geom/tape.cuh`, and
    /// adds at most `most` numbers per launch with `grad_add` (three for a `float3`), not counting those of
    /// `partial_add`.
    ///
    /// A generated adjoint knows the number of additions outside of loops, and assumes 32 iterations of each loop;
    /// this replaces both.
    #[must_use]
    pub fn summands(mut self, most: fn(&LaunchConfig) -> usize) -> Self {
        self.settings.log = Some(Log::Most(most));
        self
    }

    /// Declares that the kernels take their index from this many dimensions; the default is 1. A launch that is
    /// larger than 1 in another dimension is refused, since its threads would repeat work and race.
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.settings.dimensions = dimensions;
        self
    }

    /// Declares that the kernels have a grid-stride loop: a launch of any size covers all elements of parameters with
    /// [`Param::each_element`].
    ///
    /// Without this, a launch with fewer threads than such elements (or than the `count` of [`Param::len`]) is
    /// refused: the gradients of the elements that no thread reaches would stay uninitialised.
    #[must_use]
    pub fn grid_stride(mut self) -> Self {
        self.settings.grid_stride = true;
        self
    }

    /// Finds the kernels in `module` and compares their parameters with the declarations.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) names the mismatch.
    ///
    /// # Safety
    /// For every launch whose arguments pass the checks of this specification (lengths, dimensions), the kernel, its
    /// primal and its adjoint access only the memory that they are given, write only through arguments passed as
    /// `&mut`, to gradients and to the frame's memory, and have no data races; and the adjoint does with gradients
    /// what this specification says. It reads and writes nothing if `geom::tape::begin` (or `Scratch::begin`) returns
    /// `false`: the recorded launches may not have run, and then their outputs are not written.
    pub unsafe fn register(self, module: &Module) -> Result<Op> {
        if self.adjoint.is_some() || self.primal.is_some() {
            register::same_abi(module)?;
        }
        let is_replay = |param: &&Param| param.pointers.iter().any(|pointer| pointer.replay);
        if let Some(param) = self.params.iter().find(is_replay) {
            return Err(Error::invalid(format!(
                "`{}`: `{}` is a replay buffer, which only generated adjoints load from",
                self.name, param.name
            ))
            .with_hint("of an adjoint by hand, `Param::with_value(Primal::Exit)` says that it reads the buffer"));
        }
        let forward = module.kernel(&self.name)?;
        let adjoint = self.adjoint.as_ref().map(|name| module.kernel(name)).transpose()?;
        let primal = self.primal.as_ref().map(|(name, _)| module.kernel(name)).transpose()?;
        register::compile(
            self,
            Kernels { forward, adjoint, wide: None, deterministic: None, primal },
            None,
        )
    }
}

/// The kernels of an operation.
#[derive(Debug, Clone)]
pub(crate) struct Kernels {
    pub(crate) forward: Kernel,
    pub(crate) adjoint: Option<Kernel>,
    /// The adjoint for blocks of more threads than this number, where `adjoint` takes no larger ones.
    pub(crate) wide: Option<(u64, Kernel)>,
    /// The adjoint for deterministic tapes, if it differs. It is compiled when it is needed.
    pub(crate) deterministic: Option<Kernel>,
    pub(crate) primal: Option<Kernel>,
}

impl Kernels {
    pub(crate) fn adjoint_for(&self, shape: &LaunchConfig, deterministic: bool) -> Option<&Kernel> {
        if let Some(kernel) = self.deterministic.as_ref().filter(|_| deterministic) {
            return Some(kernel);
        }
        let wide = self.wide.as_ref().filter(|(most, _)| shape.block.count() > *most);
        wide.map(|(_, kernel)| kernel).or(self.adjoint.as_ref())
    }
}
