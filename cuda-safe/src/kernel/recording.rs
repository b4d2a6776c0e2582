//! Launches of Rust kernels that another crate records, to run them backwards.

use std::any::Any;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Arc;

use gpu_phases::kernel::{Extent, Kernel, ParamKind};
use gpu_phases::target::Args;
use gpu_phases::trust::Checked;
use nvrtc::Program;

use super::args::{Params, Store};
use super::load::Source;
use super::loaded::Entry;
use super::queried::Reaches;
use super::stream::{enqueue, prepare};
use crate::error::{Error, Result};
use crate::function;
use crate::launch::LaunchConfig;
use crate::memory::{Access, Allocation};
use crate::stream::Stream;

/// A kernel that is loaded for launches on a stream.
#[derive(Clone, Copy)]
#[allow(missing_debug_implementations, reason = "it lives within one call")]
pub struct Loaded<'q> {
    stream: &'q Stream,
    kernel: &'static Kernel,
    entry: &'q Entry,
    len64: bool,
}

/// A launch whose arguments are collected and checked, and that is not enqueued yet.
#[allow(missing_debug_implementations, reason = "it lives within one call")]
pub struct Collected<'a, 's, 'q> {
    loaded: Loaded<'q>,
    params: Params<'a, 's>,
    extent: Extent,
    config: LaunchConfig,
}

/// Loads a kernel for slices of fewer than 2^32 elements, unless it is loaded.
///
/// # Safety
/// Clones of [`Loaded::kernel`] are held by what is [attached](Loaded::attached) alone, whose kernels `make` returns: the
/// close of a context counts no others.
///
/// # Errors
/// The kernel does not load.
pub unsafe fn load<'q>(stream: &'q Stream, kernel: &'static Kernel) -> Result<Loaded<'q>> {
    let entry = super::load::loaded(stream, kernel, false)?;
    Ok(Loaded { stream, kernel, entry, len64: false })
}

/// Collects the arguments of a launch on the stream, and passes it to `then`. The first call for a kernel loads it. Who has
/// a `Checked` promises for the loaded kernel what [`load`] says.
///
/// # Errors
/// The kernel does not load, or the error of `then`.
pub fn collect<'a, 'q, A: Args<'a, &'q Stream>>(
    stream: &'q Stream,
    kernel: &'static Kernel,
    extent: Extent,
    args: A,
    _checked: Checked,
    then: impl FnOnce(Collected<'a, '_, 'q>) -> Result<()>,
) -> Result<()> {
    if kernel.carries > 0 {
        let kernel = kernel.name;
        return Err(Error::invalid(format!(
            "no tape records kernel `{kernel}`: its blocks pass values on"
        ))
        .with_hint("write a kernel each for sums of blocks, their scan, and the rest"));
    }
    let mut store = Store::new();
    let mut params = Params::new(&mut store);
    args.visit(&mut params)?;
    let structures = kernel.params.iter().filter(|param| param.kind == ParamKind::Structure);
    for (param, (structure, _)) in structures.zip(params.structures()) {
        if param.active {
            structure.is_current(stream)?;
        }
    }
    let (entry, config, len64) = prepare(stream, kernel, &extent, &mut params)?;
    let loaded = Loaded { stream, kernel, entry, len64 };
    then(Collected { loaded, params, extent, config })
}

impl<'q> Loaded<'q> {
    /// Returns the description of the kernel.
    #[must_use]
    pub fn description(&self) -> &'static Kernel {
        self.kernel
    }

    /// Returns the kernel.
    #[must_use]
    pub fn kernel(&self) -> &'q function::Kernel {
        &self.entry.kernel
    }

    /// Returns what `make` has made for this kernel in the context, which keeps it as long as the kernel. `make`
    /// returns the kernels that the value holds, too, each the only one of its module.
    ///
    /// # Errors
    /// The error of `make`, or a value of another type was made before.
    #[inline]
    pub fn attached<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce(&Self) -> Result<(T, Vec<function::Kernel>)>,
    ) -> Result<&'q T> {
        let known = match self.entry.attached() {
            Some(known) => known,
            None => {
                let (value, kernels) = make(self)?;
                super::to_load(self.stream)?.attach(self.entry, Box::new(value), kernels)?
            }
        };
        known.downcast_ref().ok_or_else(|| Error::invalid("a value of another type is attached"))
    }

    /// Returns the source files of the kernel, as `file!()` names them.
    #[must_use]
    pub fn files(&self) -> Vec<&'static str> {
        Source::of(self.kernel, 0, self.len64).files
    }

    /// Returns the program to differentiate: the kernel's, with `PHASES_GRADIENT`.
    pub fn program(&self) -> Program {
        let program = Source::of(self.kernel, 0, self.len64).program(self.kernel);
        program.with_options(|options| options.define_flag("PHASES_GRADIENT"))
    }
}

impl<'a, 'q> Collected<'a, '_, 'q> {
    /// Returns the kernel.
    #[must_use]
    pub fn loaded(&self) -> Loaded<'q> {
        self.loaded
    }

    /// Returns the shape of the launch.
    #[must_use]
    pub fn config(&self) -> &LaunchConfig {
        &self.config
    }

    /// Passes the number and the bytes of each parameter of the C++ to `visit`, in order.
    ///
    /// # Errors
    /// The error of `visit`.
    #[inline]
    pub fn each_parameter(
        &self,
        mut visit: impl FnMut(usize, &[MaybeUninit<u8>]) -> Result<()>,
    ) -> Result<()> {
        let len = if self.loaded.len64 { 8 } else { 4 };
        let mut next = 0;
        let mut pass = |size: usize| {
            next += 1;
            // SAFETY: `Params` has the parameters that the description says, after the fault slot and before the
            // extent: the launch is checked. Lengths and values that are passed as such were pushed as 8
            // bytes.
            visit(next - 1, unsafe { self.params.bytes_of(next - 1, size) })
        };
        pass(8)?;
        for param in self.loaded.kernel.params {
            match param.kind {
                ParamKind::Value | ParamKind::Structure => {
                    pass(param.passed_size(self.loaded.len64))?;
                }
                _ => {
                    pass(8)?;
                    pass(len)?;
                }
            }
        }
        self.extent.size.iter().try_for_each(|_| pass(len))
    }

    /// Returns the memory that parameters lead to, in their order: bytes of an allocation, how they are used, and the
    /// number of the parameter. That of an active value identifies its gradient.
    #[inline]
    pub fn memories(
        &self,
    ) -> impl Iterator<Item = (&'a Arc<Allocation>, Range<usize>, Access, usize)> {
        let each = self.params.memories();
        each.map(|(allocation, range, access, at)| (*allocation, range.clone(), *access, *at))
    }

    /// Returns the structures, in the order of the parameters, and the numbers of these.
    #[inline]
    pub fn structures(&self) -> impl Iterator<Item = (&'a dyn Reaches, usize)> {
        self.params.structures().copied()
    }

    /// Enqueues the launch.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[inline]
    pub fn enqueue(self) -> Result<()> {
        enqueue(self.loaded.stream, self.loaded.entry, self.config, &self.params)
    }
}
