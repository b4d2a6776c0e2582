//! Modules: compiled code, loaded on a device.

mod declared;
mod declared_global;
mod fatbin;
mod global;
mod globals;
mod jit;
mod lazy;
mod linker;
mod load;
#[cfg(feature = "packed-ptx")]
mod packed;
mod signatures;
mod source;
mod variables;

use std::ffi::CString;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_sys::{CUfunction, CUmodule, CUresult};

pub use declared::{
    Declared, DeclaredIn, DeclaredInstances, DeclaredKernels, DeclaredSource, Instance, instance,
    symbol,
};
pub use declared_global::DeclaredGlobal;
pub use global::Global;
pub use globals::{GlobalInfo, GlobalKind};
pub use jit::{JitOptions, OptimizationLevel};
use lazy::Lazy;
pub use linker::Linker;
pub use load::{LoadedFrom, ModuleImage};
#[cfg(feature = "packed-ptx")]
pub use packed::PackedPtx;
pub use signatures::KernelSignatures;
pub use source::KernelSource;
pub(crate) use variables::KernelVariables;
use variables::Variables;

use crate::consume::ConsumeError;
use crate::context::{Context, ContextInner, Counted, Deferred, list};
use crate::error::{Error, Result};
use crate::function::Kernel;

/// A loaded module: kernels and global variables. A clone is another handle to the same module.
///
/// Dropping the last handle, with no kernel or global of it left, does not unload it: that would
/// wait for the device. It lies in the context's deferred-free list until [`Context::free_deferred`].
#[derive(Clone)]
pub struct Module {
    inner: Arc<ModuleInner>,
}

pub(crate) struct ModuleInner {
    context: Arc<ContextInner>,
    /// Null once it is unloaded, and if it was loaded lazily.
    raw: CUmodule,
    /// The parts of a module that was loaded lazily.
    lazy: Option<Box<Lazy>>,
    /// The kernels that the image's PTX declares; empty if there is no PTX.
    signatures: KernelSignatures,
    loaded_from: LoadedFrom,
    log: String,
    /// NVRTC's log.
    compile_log: String,
    /// Orders the uses of its variables.
    variables: Variables,
    /// Kernels that are alive, for the errors of `close`.
    kernels: AtomicUsize,
    /// Handles to variables that are alive, likewise.
    globals: AtomicUsize,
}

// SAFETY: a CUmodule and a CUlibrary may be used from any thread; everything else is Send + Sync.
unsafe impl Send for ModuleInner {}
// SAFETY: as above; the driver locks its own state.
unsafe impl Sync for ModuleInner {}

impl Module {
    /// Loads what NVRTC made: the cubin, or, where the driver can't use that, the PTX.
    ///
    /// # Errors
    /// The error that the driver returns, with the log of its compiler if that ran.
    #[doc(alias = "cuModuleLoadData")]
    pub fn load(context: &Context, image: &nvrtc::Image) -> Result<Self> {
        Self::load_with(context, image, &JitOptions::default())
    }

    /// Loads an image: a [`nvrtc::Image`], or PTX, a cubin or a fatbin as
    /// [`ModuleImage`], with options for the driver's own compiler.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the bytes are not an image or are cut
    /// short; otherwise the error that the driver returns, with the log of its compiler if that ran.
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load_with<'a>(
        context: &Context,
        image: impl Into<ModuleImage<'a>>,
        options: &JitOptions,
    ) -> Result<Self> {
        let inner = load::load(context.inner(), image.into(), options)?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Loads PTX whose kernels the driver compiles one at a time, each at its first use: its first launch, query or
    /// [`Kernel::load`]. A program that uses few kernels of a large text starts sooner, and
    /// [`prepare_kernels`](Self::prepare_kernels) compiles several on all cores.
    ///
    /// The text is split with [`ptx::Parts`], and each kernel becomes a `CUlibrary` of its own. The driver's cache has an
    /// entry for each. The first use of a kernel returns the errors that [`load`](Self::load) returns for the whole
    /// text. The module has no variables for [`global`](Self::global), and [`jit_log`](Self::jit_log) and
    /// [`as_raw`](Self::as_raw) are empty and null. These images are loaded as a whole, as by `load`: one with machine
    /// code, PTX with kernels that may write a variable of the module, since kernels share it, and PTX that can't be
    /// split.
    ///
    /// # Errors
    /// As [`load`](Self::load) for an image that is loaded as a whole; otherwise
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if packed PTX can't be unpacked.
    #[doc(alias = "cuLibraryLoadData")]
    pub fn load_lazily<'a>(context: &Context, image: impl Into<ModuleImage<'a>>) -> Result<Self> {
        let inner = lazy::load(context.inner(), image.into())?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Compiles kernels of lazily loaded modules on all cores, and loads them: names as [`kernel`](Self::kernel) takes
    /// them. Without it, each is compiled at its first use. Kernels that are loaded already, and those of modules that
    /// were loaded as a whole, are skipped. Returns when all are loaded.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if a module has no kernel of a name; otherwise the error that
    /// the driver returns for the first of the kernels, in their order, that it can't compile. The others are compiled.
    pub fn prepare_kernels<'a>(
        kernels: impl IntoIterator<Item = (&'a Self, &'a str)>,
    ) -> Result<()> {
        let mut wanted = Vec::new();
        for (module, name) in kernels {
            let (name, _) = module.inner.find(name)?;
            wanted.push((&*module.inner, name));
        }
        lazy::prepare(&wanted)
    }

    /// Returns the names of the kernels that were passed to the driver's compiler, if the module was loaded
    /// [lazily](Self::load_lazily); otherwise nothing, as in a subscriber of `tracing` and in a forked child.
    #[must_use]
    pub fn compiled_kernels(&self) -> Vec<String> {
        self.inner.lazy.as_ref().map_or_else(Vec::new, |lazy| lazy.compiled())
    }

    /// Loads PTX, which the driver compiles for the device.
    ///
    /// # Errors
    /// As [`Module::load_with`].
    pub fn from_ptx(context: &Context, ptx: &str) -> Result<Self> {
        Self::load_with(context, ModuleImage::Ptx(ptx), &JitOptions::default())
    }

    /// Unpacks PTX in memory and loads it.
    ///
    /// # Errors
    /// As [`PackedPtx::unpack`] and [`Module::load_with`]. Either names the module.
    #[cfg(feature = "packed-ptx")]
    pub fn from_packed_ptx(context: &Context, packed: PackedPtx<'_>) -> Result<Self> {
        Self::load_with(context, packed, &JitOptions::default())
    }

    /// Loads a cubin: machine code for one architecture.
    ///
    /// Without PTX beside it the driver alone knows how many parameters a kernel has, and says so by
    /// failing to describe one more: tools that report failed calls will show that.
    ///
    /// # Errors
    /// As [`Module::load_with`].
    pub fn from_cubin(context: &Context, cubin: &[u8]) -> Result<Self> {
        Self::load_with(context, ModuleImage::Cubin(cubin), &JitOptions::default())
    }

    /// Loads a fatbin: images for several architectures in one. As to parameters see
    /// [`Module::from_cubin`].
    ///
    /// # Errors
    /// As [`Module::load_with`].
    pub fn from_fatbin(context: &Context, fatbin: &[u8]) -> Result<Self> {
        Self::load_with(context, ModuleImage::Fatbin(fatbin), &JitOptions::default())
    }

    /// Compiles CUDA C++ for the context's device, or finds it in the cache, and loads it: text, or an
    /// [`nvrtc::Program`], which has options, headers and templates.
    ///
    /// # Errors
    /// [`ErrorKind::Compile`](crate::ErrorKind::Compile) with the compiler's log; otherwise as
    /// [`Module::load`].
    pub fn compile(context: &Context, source: impl KernelSource) -> Result<Self> {
        source.load_kernels(context, &[])
    }

    /// Returns the kernel with this name: the name in the image, a name expression that the program was
    /// compiled with (`axpy<float>`), or the plain name of a C++ function that the module has just
    /// one of.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) lists the kernels that there are;
    /// otherwise the error that the driver returns.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let (image_name, _) = self.inner.find(name)?;
        Kernel::new(&self.inner, image_name, &signatures::shown(name))
    }

    /// Works like [`kernel`](Self::kernel); reports call the kernel `shown`.
    #[cfg(feature = "rust-kernels")]
    pub(crate) fn kernel_shown(&self, name: &str, shown: &str) -> Result<Kernel> {
        let (image_name, _) = self.inner.find(name)?;
        Kernel::new(&self.inner, image_name, shown)
    }

    /// Returns the names of the kernels in the image, as far as they are known: from the PTX, or else from
    /// drivers of 12.4 and later.
    #[must_use]
    pub fn kernel_names(&self) -> Vec<String> {
        self.inner.kernel_names()
    }

    /// Returns the log of the driver's compiler from loading the module; empty if that was lazy.
    #[must_use]
    pub fn jit_log(&self) -> &str {
        &self.inner.log
    }

    /// Returns NVRTC's log from compiling the module: its warnings, also if the image came from the cache. Empty if there
    /// are none, and of modules that were not loaded from an [`nvrtc::Image`] or compiled by this program.
    #[doc(alias = "nvrtcGetProgramLog")]
    #[must_use]
    pub fn compile_log(&self) -> &str {
        &self.inner.compile_log
    }

    /// Returns the part of the image that the driver loaded.
    #[must_use]
    pub fn loaded_from(&self) -> LoadedFrom {
        self.inner.loaded_from
    }

    /// Returns the context that the module is loaded in.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::from_inner(self.inner.context.clone())
    }

    /// Returns the raw handle; null if the module was loaded [lazily](Self::load_lazily). It stays valid while any handle
    /// to the module lives.
    #[must_use]
    pub fn as_raw(&self) -> CUmodule {
        self.inner.raw
    }

    pub(crate) fn from_inner(inner: Arc<ModuleInner>) -> Self {
        Self { inner }
    }

    /// Unloads the module now instead of leaving it to the context's deferred-free list. **Waits for the device**
    /// if it has work to do.
    ///
    /// # Errors
    /// The error holds the module and names the reason: its live objects by kind and number, or the driver's error.
    #[doc(alias = "cuModuleUnload")]
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        match ModuleInner::unload(&mut self.inner, 0) {
            Ok(()) => Ok(()),
            Err(error) => Err(ConsumeError::new(self, error)),
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernels = self.inner.signatures.kernels.iter().map(|signature| &signature.name);
        f.debug_struct("Module")
            .field("raw", &self.inner.raw)
            .field("loaded_from", &self.inner.loaded_from)
            .field("kernels", &kernels.collect::<Vec<_>>())
            .finish()
    }
}

impl ModuleInner {
    #[inline]
    pub(crate) fn context(&self) -> &Arc<ContextInner> {
        &self.context
    }

    /// Returns whether its kernels are compiled at their first use.
    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy.is_some()
    }

    /// Returns the driver's handle to a kernel, given its name in the image, and its signature if the image has PTX. A
    /// kernel of a lazily loaded module is compiled now if it was not yet.
    pub(crate) fn function(&self, name: &str) -> Result<(CUfunction, Option<&ptx::Signature>)> {
        let text = CString::new(name)
            .map_err(|_| Error::invalid(format!("{name:?} is no kernel name")))?;
        self.context.state.usable()?;
        let module = match &self.lazy {
            Some(lazy) => lazy.module_of(&self.context, name)?,
            None => self.raw,
        };
        let mut raw: CUfunction = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle, the module is live, the name is a C string.
        let result = unsafe {
            self.context.state.sys.cuModuleGetFunction(&raw mut raw, module, text.as_ptr())
        };
        if let Ok(CUresult::CUDA_ERROR_NOT_FOUND) = result {
            return Err(self.no_such_kernel(name));
        }
        self.context.answer("cuModuleGetFunction", result)?;
        Ok((raw, self.signatures.of_symbol(name)))
    }

    /// Returns the name in the image for `name`, and the signature if the image has PTX.
    fn find<'a>(&'a self, name: &'a str) -> Result<(&'a str, Option<&'a ptx::Signature>)> {
        self.signatures.find(name, || self.kernel_names())
    }

    #[cold]
    fn no_such_kernel(&self, name: &str) -> Error {
        signatures::no_such_kernel(name, &self.kernel_names())
    }

    fn kernel_names(&self) -> Vec<String> {
        if !self.signatures.kernels.is_empty() {
            return self.signatures.names();
        }
        self.enumerate().unwrap_or_default()
    }

    /// Returns the kernels' names from the driver, if it can list them.
    fn enumerate(&self) -> Result<Vec<String>> {
        let sys = self.context.state.sys;
        if !self.context.state.is_usable() || !sys.supports("cuModuleEnumerateFunctions") {
            return Ok(Vec::new());
        }
        self.context.with_current(|| {
            let mut count = 0;
            // SAFETY: `count` is a valid place for an unsigned int, and the module is live.
            let result = unsafe { sys.cuModuleGetFunctionCount(&raw mut count, self.raw) };
            self.context.answer("cuModuleGetFunctionCount", result)?;
            let mut functions: Vec<CUfunction> = vec![std::ptr::null_mut(); count as usize];
            let to = functions.as_mut_ptr();
            // SAFETY: there is room for `count` handles.
            let result = unsafe { sys.cuModuleEnumerateFunctions(to, count, self.raw) };
            self.context.answer("cuModuleEnumerateFunctions", result)?;
            let names = functions.into_iter().filter(|function| !function.is_null());
            names
                .map(|function| {
                    let mut name = std::ptr::null();
                    // SAFETY: `name` is a valid place for a pointer, and the function is live.
                    let result = unsafe { sys.cuFuncGetName(&raw mut name, function) };
                    self.context.answer("cuFuncGetName", result)?;
                    if name.is_null() {
                        return Ok(String::new());
                    }
                    // SAFETY: the driver returned a C string that lives as long as the module.
                    let name = unsafe { std::ffi::CStr::from_ptr(name) };
                    Ok(name.to_string_lossy().into_owned())
                })
                .collect()
        })
    }

    /// Counts a kernel of the module.
    pub(crate) fn kernel_made(&self) {
        self.kernels.fetch_add(1, Ordering::Relaxed);
        self.context.census.add(Counted::Kernel);
    }

    /// Counts one less.
    pub(crate) fn kernel_dropped(&self) {
        self.kernels.fetch_sub(1, Ordering::Relaxed);
        self.context.census.remove(Counted::Kernel);
    }

    /// Returns the error for a module that others hold besides the caller, whose kernels are `own`.
    #[cold]
    fn in_use(this: &Arc<Self>, own: usize) -> Error {
        let others = Arc::strong_count(this).saturating_sub(1);
        let kernels = this.kernels.load(Ordering::Relaxed).saturating_sub(own);
        let globals = this.globals.load(Ordering::Relaxed);
        // Graphs hold the module too.
        let handles = others.saturating_sub(kernels + globals);
        let left = list(&[(kernels, "kernel"), (globals, "global"), (handles, "other handle")]);
        Error::invalid(format!("the module is still in use by {left}"))
    }

    /// Unloads the module if `this` is the only handle to it, but for `own` kernels of the caller's.
    /// Nothing is left for the drop if it went well.
    pub(crate) fn unload(this: &mut Arc<Self>, own: usize) -> Result<()> {
        let Some(inner) = Arc::get_mut(this) else {
            return Err(Self::in_use(this, own));
        };
        let context = &inner.context;
        if let Some(lazy) = &mut inner.lazy {
            return lazy.unload(context);
        }
        context.with_current(|| {
            // SAFETY: this is the only handle; the call waits for the module's kernels.
            let result = unsafe { context.state.sys.cuModuleUnload(inner.raw) };
            context.answer("cuModuleUnload", result)
        })?;
        inner.raw = std::ptr::null_mut();
        Ok(())
    }
}

impl Drop for ModuleInner {
    fn drop(&mut self) {
        self.context.census.remove(Counted::Module);
        if let Some(lazy) = &mut self.lazy {
            for library in lazy.take() {
                self.context.deferred.put(Deferred::Library(library));
            }
        }
        if !self.raw.is_null() && self.context.state.may_defer() {
            self.context.deferred.put(Deferred::Module(self.raw));
        }
    }
}
