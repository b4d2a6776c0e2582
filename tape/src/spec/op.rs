//! An operation, ready to be launched.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use cuda_safe::{
    Error, Kernel, LaunchConfig, Result,
    arg::{ArgClass, ArgKind, ArgType},
};

use super::param::Argument;
use super::{Derivation, Effect, Kernels, Primal, Settings, TapeBytes};
use crate::element::Element;
use crate::frame::Members;
use crate::record::{Target, Use};

/// An operation that can be launched on a tape; [`OpSpec::register`](crate::OpSpec::register) creates it. A clone is
/// another handle to the same operation.
#[derive(Clone)]
pub struct Op {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Detached {
    /// Masks of pointers and scalars that get no gradient.
    pub(crate) pointers: u64,
    pub(crate) scalars: u64,
}

pub(crate) struct Inner {
    pub(crate) name: Cow<'static, str>,
    pub(crate) kernels: Kernels,
    pub(crate) tape_bytes: Option<TapeBytes>,
    pub(crate) params: Vec<OpParam>,
    /// The pointers of all parameters; those of one parameter are contiguous.
    pub(crate) pointers: Vec<OpPointer>,
    pub(crate) scalars: Vec<OpScalar>,
    /// The adjoint's gradient parameters.
    pub(crate) slots: Vec<Slot>,
    /// The size of all parameters together, each at a multiple of 16.
    pub(crate) bytes: usize,
    pub(crate) settings: Settings,
    /// How the adjoint was generated, if it was.
    pub(crate) derivation: Option<Arc<Derivation>>,
    pub(crate) detached: Detached,
    /// The address of the list of argument types that was checked last.
    pub(crate) checked: AtomicPtr<ArgType>,
    /// The tape's own kernels, for adjoints that are called without one.
    pub(crate) helpers: Arc<OnceLock<crate::kernels::Kernels>>,
}

#[derive(Clone)]
pub(crate) struct OpParam {
    pub(crate) name: Cow<'static, str>,
    pub(crate) size: usize,
    /// The offset of its bytes in those of a launch.
    pub(crate) at: usize,
    pub(crate) is_buffer: bool,
    pub(crate) argument: Option<Argument>,
    pub(crate) pointers: std::ops::Range<usize>,
    pub(crate) scalar: Option<usize>,
}

#[derive(Clone, Copy)]
pub(crate) struct OpPointer {
    pub(crate) param: usize,
    pub(crate) offset: usize,
    pub(crate) element: Element,
    pub(crate) value: Primal,
    pub(crate) effect: Effect,
    /// Factor, parameter and constant.
    pub(crate) length: Option<(usize, Option<usize>, usize)>,
    pub(crate) covers: bool,
    /// The bit of its gradient parameter in the frame's masks, if it has one.
    pub(crate) slot: Option<u8>,
    /// Whether it has a gradient parameter of its own, instead of a part of a structure's.
    pub(crate) alone: bool,
    /// Whether the adjoint is known to only read a gradient whose DROP bit is set.
    pub(crate) drops: bool,
}

/// The numbers of a parameter that have gradients.
#[derive(Clone, Copy)]
pub(crate) struct OpScalar {
    pub(crate) param: usize,
    pub(crate) element: Element,
    pub(crate) members: Members,
    /// Whether the members with gradients are the whole parameter.
    pub(crate) covers: bool,
}

/// A gradient parameter of the adjoint.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Slot {
    Pointer(usize),
    /// A parameter that is passed as its structure.
    Structure(usize),
    Partials(usize),
}

impl Op {
    /// Returns the kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.inner.kernels.forward
    }

    /// Returns how the adjoint was generated; `None` if it was written by hand.
    #[must_use]
    pub fn derivation(&self) -> Option<&Derivation> {
        self.inner.derivation.as_deref()
    }

    /// Returns the same operation with a detached parameter: its argument gets no gradient and counts as constant.
    /// For memory that the kernel updates or adds to, this means the old contents; for memory that it overwrites, the
    /// new contents.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](cuda_safe::ErrorKind::Invalid) if there is no such parameter.
    pub fn detach(&self, param: &str) -> Result<Self> {
        let inner = &*self.inner;
        let Some(found) = inner.params.iter().find(|found| found.name == param) else {
            return Err(Error::invalid(format!("`{}` has no parameter `{param}`", inner.name)));
        };
        let mut detached = inner.detached;
        for pointer in found.pointers.clone() {
            detached.pointers |= 1 << pointer;
        }
        if let Some(scalar) = found.scalar {
            detached.scalars |= 1 << scalar;
        }
        Ok(Self { inner: Arc::new(inner.with_detached(detached)) })
    }

    /// Fails if arguments of these types or a launch of this shape do not fit.
    #[inline]
    pub(crate) fn check(&self, launch: &LaunchConfig, types: &'static [ArgType]) -> Result<()> {
        let inner = &*self.inner;
        if inner.checked.load(Ordering::Relaxed).cast_const() != types.as_ptr() {
            inner.check_types(types)?;
        }
        if launch.threads() == 0 && !(launch.covers_nothing() && launch.block.count() > 0) {
            return Err(self.empty(launch));
        }
        let beyond = |(grid, block): (u32, u32)| grid > 1 || block > 1;
        let dimensions = inner.settings.dimensions;
        if (dimensions < 2 && beyond((launch.grid.y, launch.block.y)))
            || (dimensions < 3 && beyond((launch.grid.z, launch.block.z)))
        {
            return Err(Error::invalid(format!(
                "`{}` takes its index from {dimensions} dimensions, the launch has more: {launch}",
                inner.name
            ))
            .with_hint("`OpSpec::dimensions` says from how many"));
        }
        self.threads_fit(launch)
    }

    /// Fails if a launch has more threads than its adjoint can have.
    #[inline]
    pub(crate) fn threads_fit(&self, launch: &LaunchConfig) -> Result<()> {
        let most = self.inner.settings.most_threads;
        if most < u64::MAX && launch.threads() > most {
            let (name, threads) = (&self.inner.name, launch.threads());
            let message =
                format!("`{name}` has an adjoint for {most} threads at most, not {threads}");
            return Err(Error::invalid(message));
        }
        Ok(())
    }

    /// Returns the error of a launch without blocks or threads, unless there are no elements. `cuda-safe` refuses it,
    /// too, but `vjp` may launch nothing.
    #[cold]
    fn empty(&self, launch: &LaunchConfig) -> Error {
        let (name, grid, block) = (&self.inner.name, launch.grid, launch.block);
        if block.count() == 0 {
            return Error::invalid(format!("`{name}`: a block of {block} has no threads"));
        }
        Error::invalid(format!("`{name}`: a grid of {grid} has no blocks"))
            .with_hint("use `LaunchConfig::cover(n, block)`: it launches nothing for n = 0")
    }

    pub(crate) fn shape(&self, launch: &LaunchConfig) -> LaunchConfig {
        self.inner.settings.shape.map_or(*launch, |shape| shape(launch))
    }
}

impl Inner {
    fn with_detached(&self, detached: Detached) -> Self {
        Self {
            name: self.name.clone(),
            kernels: self.kernels.clone(),
            tape_bytes: self.tape_bytes,
            params: self.params.clone(),
            pointers: self.pointers.clone(),
            scalars: self.scalars.clone(),
            slots: self.slots.clone(),
            bytes: self.bytes,
            settings: self.settings,
            derivation: self.derivation.clone(),
            detached,
            checked: AtomicPtr::default(),
            helpers: self.helpers.clone(),
        }
    }

    /// Returns whether an active parameter that is read shares elements with one before it, and other threads access
    /// them: both would add to one gradient, perhaps without atomics.
    pub(crate) fn meet(&self, uses: &[Use], at: usize) -> bool {
        let reads = |used: &Use| used.active && used.effect == Effect::Reads;
        let threads = |used: &Use| match used.target {
            Target::Pointer(at) if used.covers => {
                self.pointers.get(usize::from(at)).map(|pointer| (pointer.element, pointer.length))
            }
            _ => None,
        };
        let is_pointer = |used: &Use| matches!(used.target, Target::Pointer(_));
        let Some(used) = uses.get(at).filter(|used| reads(used) && is_pointer(used)) else {
            return false;
        };
        uses.iter().take(at).any(|other| {
            let by_the_same = other.range() == used.range()
                && threads(used).is_some_and(|by| threads(other) == Some(by));
            reads(other)
                && is_pointer(other)
                && other.overlaps(used.memory, &used.range())
                && !by_the_same
        })
    }

    #[cold]
    fn check_types(&self, types: &'static [ArgType]) -> Result<()> {
        let wrong = |message: String| Error::invalid(format!("`{}`: {message}", self.name));
        if types.len() != self.params.len() {
            let (takes, given) = (self.params.len(), types.len());
            return Err(wrong(format!("takes {takes} arguments, {given} given")));
        }
        let is_length = |at: usize| {
            self.pointers.iter().any(|p| p.length.is_some_and(|(_, param, _)| param == Some(at)))
        };
        for (at, (param, arg)) in self.params.iter().zip(types).enumerate() {
            let (name, of) = (&param.name, (arg.name)());
            let is_integer = arg.size <= 8 && matches!(arg.kind, ArgKind::Value(ArgClass::Int));
            if is_length(at) && !is_integer {
                return Err(wrong(format!("`{of}` is no integer, and `{name}` a length")));
            }
            if arg.size != param.size {
                let size = param.size;
                return Err(wrong(format!("`{of}` has {} bytes, `{name}` {size}", arg.size)));
            }
            if let Some(argument) = param.argument.filter(|argument| !argument.is(arg)) {
                let wanted = (argument.name)();
                return Err(wrong(format!("`{of}` is given, and `{name}` is a `{wanted}`")));
            }
            let ArgKind::Pointer { element_size, writable, .. } = arg.kind else {
                // A raw address is memory that the argument already reports as a use.
                continue;
            };
            let Some(pointer) = self.pointers.get(param.pointers.clone()).and_then(<[_]>::first)
            else {
                return Err(wrong(format!("`{of}` is device memory, `{name}` is not")));
            };
            let number = pointer.element.real.map_or(pointer.element.size, crate::FloatType::size);
            if !param.is_buffer || element_size % number.max(1) != 0 {
                return Err(wrong(format!("the elements of `{of}` are not those of `{name}`")));
            }
            if pointer.effect != Effect::Reads && !writable {
                return Err(wrong(format!("`{name}` is written: pass it as `&mut`")));
            }
        }
        // A primal may be launched instead of the kernel, with the same arguments.
        self.kernels.forward.check_types(types)?;
        self.checked.store(types.as_ptr().cast_mut(), Ordering::Relaxed);
        Ok(())
    }
}

impl fmt::Debug for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let params: Vec<_> = self.inner.params.iter().map(|param| &param.name).collect();
        f.debug_struct("Op").field("name", &self.inner.name).field("params", &params).finish()
    }
}
