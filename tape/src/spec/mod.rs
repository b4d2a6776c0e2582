//! The specification of an operation: its kernels, and what they do with each parameter.

mod derivation;
mod differentiate;
mod op;
mod param;
mod register;

use std::borrow::Cow;

use cuda_safe::{Error, Kernel, LaunchConfig, Module, Result};

pub use differentiate::{Derivation, DerivedAccess, DifferentiateError};
pub(crate) use op::Inner as OpInner;
pub use op::Op;
pub(crate) use op::{OpPointer, Slot};
pub use param::{Effect, Param, Primal};

/// The size of a primal's tape memory.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TapeBytes {
    /// As many bytes for this launch.
    Of(fn(&LaunchConfig) -> usize),
    /// As many as the primal itself says in a launch with `COUNT`.
    Counted,
}

/// An operation: a kernel, its adjoint, and what they do with their parameters.
///
/// The adjoint of `name` is the kernel `name_adjoint(P…, G…, geom::tape::Frame)`: P are the parameters of
/// the kernel itself, G those for gradients, one for each active parameter in their order. A pointer has a pointer to
/// the gradients, null if they are not wanted (or, for overwritten memory, if they are all zero); a number has a
/// pointer to partial sums; a structure has the same structure with pointers to gradients, followed by partial sums if
/// numbers in it are active. See `geom/tape.cuh` and the crate's documentation.
///
/// ```no_run
/// # fn register(module: &cuda_safe::Module) -> cuda_safe::Result<()> {
/// use cuda_tape::{Element, OpSpec, Param, Primal};
/// let spec = OpSpec::new("saxpy")
///     .param(Param::scalar("a", Element::F32).active())
///     .param(Param::buffer("x", Element::F32).reads(Primal::Entry).len("n").covers_all().active())
///     .param(Param::buffer("out", Element::F32).overwrites().len("n").covers_all().active())
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

/// How much scratch memory the threads of a launch take, about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Scratch {
    /// As many bytes as this returns.
    Guess(fn(&LaunchConfig) -> usize),
    /// So many bytes for each thread.
    EachThread(usize),
}

/// At first the stacks of generated adjoints get no more memory than this.
const MOST_FIRST: usize = 256 << 20;

impl Scratch {
    /// Returns the bytes that a launch gets first.
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

/// How many numbers an adjoint adds to gradients that several threads may add to.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Log {
    /// At most as many as this returns.
    Most(fn(&LaunchConfig) -> usize),
    /// Each thread at most so many outside of loops, and about so many more in loops.
    EachThread(usize, usize),
}

/// Of numbers that are added in loops the log has room for no more than this at first.
const MOST_LOGGED: usize = 1 << 22;

impl Log {
    /// Returns how many numbers there is room for.
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

    /// Returns whether it may be too little.
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
    /// Whether threads go on to further elements.
    pub(crate) grid_stride: bool,
    /// The threads of a launch at most.
    pub(crate) most_threads: u64,
}

impl OpSpec {
    /// Creates an operation whose kernel has this name, and whose adjoint this name with `_adjoint`.
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

    /// Sets the adjoint's name, if it is another.
    #[must_use]
    pub fn adjoint(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.adjoint = Some(name.into());
        self
    }

    /// Declares that there is no adjoint: recording the operation is an error where a gradient would pass through it.
    #[must_use]
    pub fn without_adjoint(mut self) -> Self {
        self.adjoint = None;
        self
    }

    /// Sets a primal: when recorded, `name(P…, Frame)` runs instead of the kernel. It does the same, and stores data
    /// for the adjoint in `Frame::tape`, of as many bytes as `bytes` returns for the launch.
    #[must_use]
    pub fn primal(
        mut self,
        name: impl Into<Cow<'static, str>>,
        bytes: fn(&LaunchConfig) -> usize,
    ) -> Self {
        self.primal = Some((name.into(), TapeBytes::Of(bytes)));
        self
    }

    /// Works like [`primal`](Self::primal), where only the primal itself knows how much it needs: it is launched
    /// with `COUNT` first, which the recording waits for.
    #[must_use]
    pub fn counted_primal(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.primal = Some((name.into(), TapeBytes::Counted));
        self
    }

    /// Sets the adjoint's grid, block and shared memory as a function of the kernel's. By default they are the same.
    #[must_use]
    pub fn shape(mut self, shape: fn(&LaunchConfig) -> LaunchConfig) -> Self {
        self.settings.shape = Some(shape);
        self
    }

    /// Declares that the adjoint takes scratch memory (`geom::tape::Scratch`), about as many bytes as `guess` returns
    /// for a launch of the kernel. If that is too little, the adjoint runs again with more.
    ///
    /// Adjoints that use `Scratch` or `BlockScratch` need this said, with any guess. Without, they are given no
    /// such memory, and nowhere to say that it is too little (unless another step of the pass may raise the
    /// status: then the pass fails): the kernel traps, which the context does not survive.
    #[must_use]
    pub fn scratch(mut self, guess: fn(&LaunchConfig) -> usize) -> Self {
        self.settings.scratch = Some(Scratch::Guess(guess));
        self
    }

    /// Declares that the adjoint fits deterministic tapes: it adds only with the functions of `geom/tape.cuh`, at most
    /// `most` numbers in one launch with `grad_add` (three for a `float3`); those of `partial_add` are not counted.
    ///
    /// For a generated adjoint it is known how many numbers are added outside of loops, and 32 turns are assumed of each
    /// loop; this replaces both.
    #[must_use]
    pub fn log(mut self, most: fn(&LaunchConfig) -> usize) -> Self {
        self.settings.log = Some(Log::Most(most));
        self
    }

    /// Declares that the kernels take their index from this many dimensions; the default is 1. A launch that is larger
    /// than 1 in another dimension is refused, since its threads would do the same work and race.
    #[must_use]
    pub fn dimensions(mut self, dimensions: u32) -> Self {
        self.settings.dimensions = dimensions;
        self
    }

    /// Declares that the kernels' threads go on to further elements until all are done, so that a launch of any size
    /// covers all elements of parameters with [`Param::covers_all`].
    ///
    /// Without, a launch is refused that has fewer threads than there are such elements (counted as
    /// [`Param::len`] counts them: a thread for each of its `count`): those that no thread reaches would be
    /// left with whatever lies in their gradient's memory.
    #[must_use]
    pub fn grid_stride(mut self) -> Self {
        self.settings.grid_stride = true;
        self
    }

    /// Finds the kernels in `module` and compares their parameters with what was said of them.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) names what does not fit.
    ///
    /// # Safety
    /// For every launch whose arguments pass the checks of this specification (lengths, dimensions), the
    /// kernel, its primal and its adjoint stay inside the memory that they are given, write only through arguments
    /// passed as `&mut`, to gradients and to the frame's memory, and don't race with themselves; and the adjoint does
    /// with gradients what this specification says. It reads and writes nothing if `geom::tape::begin` (or
    /// `Scratch::begin`) returns `false`: the recorded launches may not have run, and then their outputs are not
    /// written.
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
    /// The adjoint for blocks of more threads than this, where the first takes no larger ones.
    pub(crate) wide: Option<(u64, Kernel)>,
    /// The adjoint for deterministic tapes, if it is another. It is compiled when it is needed.
    pub(crate) deterministic: Option<Kernel>,
    pub(crate) primal: Option<Kernel>,
}

impl Kernels {
    /// Returns the adjoint for a launch of this shape, on a deterministic tape or another.
    pub(crate) fn adjoint_for(&self, shape: &LaunchConfig, deterministic: bool) -> Option<&Kernel> {
        if let Some(kernel) = self.deterministic.as_ref().filter(|_| deterministic) {
            return Some(kernel);
        }
        let wide = self.wide.as_ref().filter(|(most, _)| shape.block.count() > *most);
        wide.map(|(_, kernel)| kernel).or(self.adjoint.as_ref())
    }
}
