//! The modules of this crate, loaded in a context.

use std::fmt;
use std::sync::{Arc, OnceLock};

use cuda_safe::nvrtc::Options;
use cuda_safe::{Context, KernelSource, Module, Result};

use crate::headers::program;

/// The kernels of this crate in one context. A clone is another handle to the same.
///
/// Nothing is loaded before it is needed; the driver compiles a module when it is loaded for the first
/// time on a machine, and keeps the result itself.
#[derive(Clone)]
pub struct Geometry {
    inner: Arc<Inner>,
}

struct Inner {
    context: Context,
    exact_arch: bool,
    modules: [OnceLock<Module>; SOURCES],
}

/// How many [`Source`]s there are.
const SOURCES: usize = 2;

/// A source of kernels: an index into `Inner::modules`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    Sort,
    HashGrid,
}

/// The texts of a source: CUDA C++, its file's name, PTX.
macro_rules! texts {
    ($name:literal) => {
        (
            include_str!(concat!("../device/kernels/", $name, ".cu")),
            concat!($name, ".cu"),
            include_str!(concat!("../ptx/", $name, ".ptx")),
        )
    };
}

impl Source {
    /// The kernels in CUDA C++, their file's name, and what NVRTC made of them.
    fn texts(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Sort => texts!("sort"),
            Self::HashGrid => texts!("hash_grid"),
        }
    }
}

impl Geometry {
    /// From PTX that is part of this crate: no compiler is needed. It suits every driver from CUDA
    /// 12.0 and every device from Turing on (compute capability 7.5).
    #[must_use]
    pub fn new(context: &Context) -> Self {
        Self::with(context, false)
    }

    /// Compiled by NVRTC for exactly the context's device, from the same sources.
    #[must_use]
    pub fn compiled(context: &Context) -> Self {
        Self::with(context, true)
    }

    fn with(context: &Context, exact_arch: bool) -> Self {
        let modules = [const { OnceLock::new() }; SOURCES];
        Self { inner: Arc::new(Inner { context: context.clone(), exact_arch, modules }) }
    }

    /// The context that the kernels are loaded in.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.inner.context
    }

    /// The module of a source, loaded now if nobody has asked for it before.
    pub(crate) fn module(&self, source: Source) -> Result<Module> {
        let slot = &self.inner.modules[source as usize];
        if let Some(module) = slot.get() {
            return Ok(module.clone());
        }
        let (text, name, ptx) = source.texts();
        let module = if self.inner.exact_arch {
            let program = program(text).name(name).options(Options::new());
            program.load_kernels(&self.inner.context, &[])?
        } else {
            Module::from_ptx(&self.inner.context, ptx)?
        };
        // Two threads may both have loaded it; the module of the second goes to the bin.
        Ok(slot.get_or_init(|| module).clone())
    }
}

impl fmt::Debug for Geometry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let loaded = self.inner.modules.iter().filter(|module| module.get().is_some()).count();
        f.debug_struct("Geometry")
            .field("context", &self.inner.context)
            .field("exact_arch", &self.inner.exact_arch)
            .field("loaded", &loaded)
            .finish()
    }
}
