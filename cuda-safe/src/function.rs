//! Kernels: functions of a module that can be launched.

mod clusters;
mod lookup;
mod macros;
mod occupancy;

use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use cuda_sys::{CUfunction, CUfunction_attribute, CUresult};

use crate::consume::ConsumeError;
use crate::context::list;
use crate::error::{Error, Result};
use crate::graph::Recording;
use crate::launch::{
    ArgClass, ArgType, KernelArgs, KernelLimits, LaunchConfig, Parameter, call_name, check,
    explain, issue, not_resident, special, within,
};
use crate::memory::{DirectEnqueuing, Enqueue, Enqueued, Enqueuing};
use crate::module::{KernelVariables, Module, ModuleInner};
use crate::quiet::Kept;
use crate::stream::{Stream, names};
use crate::sync::Once;
use crate::trace::event;

/// A kernel. A clone is another handle to the same kernel; each keeps the module loaded.
#[derive(Clone)]
pub struct Kernel {
    shared: Arc<Shared>,
}

/// What the handles to a kernel share.
struct Shared {
    module: Arc<ModuleInner>,
    name: &'static str,
    /// Its name in reports.
    shown: &'static str,
    /// Empty until the first use of a kernel whose module was loaded lazily.
    found: Once<KernelInner>,
}

struct KernelInner {
    raw: CUfunction,
    module: Arc<ModuleInner>,
    /// The module's variables that it reaches; `None` for most.
    variables: Option<Box<KernelVariables>>,
    /// Its name in reports, and the name's number.
    name: &'static str,
    number: u32,
    limits: KernelLimits,
    max_dynamic_shared: AtomicU32,
    /// Whether clusters may be larger than every device with clusters allows.
    non_portable_cluster: AtomicBool,
    /// `None` if neither the driver nor the image has it.
    parameters: Option<Vec<Parameter>>,
    /// The argument types that were checked last, by the address of their list.
    checked: AtomicPtr<ArgType>,
    /// The last cooperative launch found resident: threads per block, cluster and shared memory in
    /// one number, and how many such blocks the device holds.
    resident: [AtomicU64; 2],
}

// SAFETY: a CUfunction may be used from any thread; everything else is Send + Sync.
unsafe impl Send for KernelInner {}
// SAFETY: as above.
unsafe impl Sync for KernelInner {}

/// The resources that a kernel needs, as compiled for the device; see [`Kernel::attributes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// The largest block that can be launched.
    pub max_threads_per_block: u32,
    /// Registers of each thread.
    pub registers: u32,
    /// Static shared memory of each block, in bytes.
    pub static_shared: u32,
    /// The most dynamic shared memory that a launch may ask for, in bytes.
    pub max_dynamic_shared: u32,
    /// Local memory (stack and spills) of each thread, in bytes.
    pub local: u32,
    /// Constant memory of the module, in bytes.
    pub constant: u32,
    /// The PTX version that it was compiled for, as 10 × major + minor.
    pub ptx_version: u32,
    /// The architecture of its machine code, as 10 × major + minor.
    pub binary_version: u32,
}

/// The known properties of a kernel's parameter; see [`Kernel::parameters`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelParameter {
    /// Its size in bytes.
    pub size: usize,
    /// How it is passed, if the image has PTX with that information. A pointer is an integer here.
    pub class: Option<ArgClass>,
}

impl Kernel {
    /// Looks the kernel up in the module, or, if that was loaded lazily, leaves this to the first use.
    /// `shown` is its name in reports.
    pub(crate) fn new(module: &Arc<ModuleInner>, name: &str, shown: &str) -> Result<Self> {
        let (name, shown) = (names::intern(name)?.1, names::intern(shown)?.1);
        module.kernel_made();
        let shared = Shared { module: module.clone(), name, shown, found: Once::new() };
        if !module.is_lazy() {
            shared.find()?;
        }
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the kernel, which is compiled now if it was not yet.
    #[inline]
    fn found(&self) -> Result<&KernelInner> {
        match self.shared.found.get() {
            Some(found) => Ok(found),
            None => self.shared.find(),
        }
    }

    /// Returns the name in the image: mangled for a C++ function without `extern "C"`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.shared.name
    }

    /// Returns the module that the kernel is in.
    #[must_use]
    pub fn module(&self) -> Module {
        Module::from_inner(self.shared.module.clone())
    }

    /// Returns the raw handle. It stays valid while any handle to this kernel, or its module, lives.
    ///
    /// It is null if the kernel's module was loaded [lazily](Module::load_lazily) and the driver can't compile the
    /// kernel; [`load`](Self::load) returns the error.
    #[must_use]
    pub fn as_raw(&self) -> CUfunction {
        self.found().map_or(std::ptr::null_mut(), |found| found.raw)
    }

    /// Returns the parameters, in order, to launch kernels that are only known when the program runs.
    /// `None` if neither the driver nor the image lists them, or if the module was loaded lazily and the driver can't
    /// compile the kernel.
    #[must_use]
    pub fn parameters(&self) -> Option<Vec<KernelParameter>> {
        let known = self.found().ok()?.parameters.as_ref()?;
        let class = |class: ptx::Class| match class {
            ptx::Class::Int => Some(ArgClass::Int),
            ptx::Class::Float => Some(ArgClass::Float),
            ptx::Class::Bytes => Some(ArgClass::Bytes),
            ptx::Class::Bits => None,
        };
        let each = known
            .iter()
            .map(|known| KernelParameter { size: known.size, class: known.class.and_then(class) });
        Some(each.collect())
    }

    /// Compares types of arguments with the parameters, as each [`launch`](Self::launch) does once for each
    /// tuple of them. Use it to launch another kernel with these arguments and a few more.
    ///
    /// # Errors
    /// [`Argument`](crate::ErrorKind::Argument) names the first that does not fit.
    pub fn check_types(&self, types: &'static [ArgType]) -> Result<()> {
        self.found()?.check_types(types)
    }

    /// Enqueues the kernel on `stream`.
    ///
    /// `args` is a tuple: scalars, `#[repr(C)]` structures that are [`DeviceRepr`], and device
    /// memory as `&DeviceBuffer`, `&mut DeviceBuffer` or views. Number, size and class of the
    /// arguments are compared with the kernel's parameters at the first launch with these types;
    /// the shape is compared with the limits of device and kernel at every launch. A grid of 0 blocks is an error,
    /// except where [`LaunchConfig::cover`] made it for 0 elements: that is `Ok` and enqueues nothing.
    ///
    /// If a buffer was last used on another stream, `stream` waits for that use. If `stream` is the home stream of all
    /// buffers, a launch is one driver call and no heap allocation. The module's variables that the kernel reaches by
    /// name are ordered like buffers; see [`Global`](crate::Global).
    ///
    /// [`DeviceRepr`]: crate::DeviceRepr
    ///
    /// # Errors
    /// [`Argument`](crate::ErrorKind::Argument), [`Limit`](crate::ErrorKind::Limit), or
    /// [`Invalid`](crate::ErrorKind::Invalid) for 0 blocks or threads, before the driver is called; otherwise the error
    /// that the driver returns. Faults of the kernel itself come later,
    /// from whichever call waits for it.
    ///
    /// # Safety
    /// The kernel is foreign code: with these arguments and this shape it must access only the
    /// memory that it was given, within bounds, and variables of its module; write only what was
    /// passed as `&mut` and these variables; and not race with itself. [`kernels!`](crate::kernels) is the place to state that once.
    #[doc(alias = "cuLaunchKernel")]
    #[doc(alias = "cuLaunchCooperativeKernel")]
    #[inline]
    pub unsafe fn launch<A: KernelArgs>(
        &self,
        stream: &Stream,
        launch: impl Into<LaunchConfig>,
        args: A,
    ) -> Result<()> {
        let launch = launch.into();
        let kernel = self.found()?;
        let queue = stream.inner();
        if !queue.plain | kernel.variables.is_some() {
            if queue.capture.is_some() | kernel.variables.is_some() {
                // SAFETY: the caller's promise.
                return unsafe { kernel.launch_or_record(stream, &launch, &args) };
            }
            queue.usable_here()?;
        }
        let launched = {
            let mut graph_lock = None;
            let enqueuing = DirectEnqueuing::on(stream, &mut graph_lock)?;
            // SAFETY: the caller's promise.
            unsafe { kernel.enqueue(enqueuing, None, &launch, &args) }?
        };
        kernel.end(stream, &launch, launched)
    }

    /// Returns the resources that the kernel needs, as compiled for the device.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn attributes(&self) -> Result<KernelAttributes> {
        let inner = self.found()?;
        let get = |attribute| inner.attribute(attribute);
        Ok(KernelAttributes {
            max_threads_per_block: inner.limits.threads,
            registers: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            static_shared: inner.limits.static_shared,
            max_dynamic_shared: inner.max_dynamic_shared.load(Ordering::Relaxed),
            local: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            constant: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
            ptx_version: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            binary_version: get(CUfunction_attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        })
    }

    /// Allows launches to ask for up to `bytes` of dynamic shared memory. More than 48 KiB
    /// together with the static part must be allowed so, on devices that have it.
    ///
    /// # Errors
    /// [`Limit`](crate::ErrorKind::Limit) beyond what the device has; otherwise the error that the driver
    /// returns.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn set_max_dynamic_shared(&self, bytes: u32) -> Result<()> {
        let inner = self.found()?;
        let context = inner.module.context();
        context.state.usable()?;
        let device = context.device.max_shared_memory_per_block_optin()?;
        let most =
            u32::try_from(device).unwrap_or(u32::MAX).saturating_sub(inner.limits.static_shared);
        if bytes > most {
            return Err(Error::new(crate::ErrorKind::Limit {
                what: "bytes of dynamic shared memory",
                value: bytes.into(),
                limit: most.into(),
            }));
        }
        let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        // SAFETY: the function is live: its module is kept.
        unsafe { call!(context, cuFuncSetAttribute(inner.raw, attribute, value)) }?;
        inner.max_dynamic_shared.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// As [`set_max_dynamic_shared`](Self::set_max_dynamic_shared), unless launches may ask for as much already.
    #[cfg(feature = "rust-kernels")]
    pub(crate) fn allow_dynamic_shared(&self, bytes: u32) -> Result<()> {
        if bytes <= self.found()?.max_dynamic_shared.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.set_max_dynamic_shared(bytes)
    }

    /// Puts the kernel's code on the device now, and compiles it before if its module was loaded
    /// [lazily](Module::load_lazily). Otherwise the driver may do so at the first
    /// launch, which costs time there and is not possible while a stream is being captured.
    ///
    /// # Errors
    /// The error that the driver returns; drivers before 12.4 load with the module, and nothing more happens.
    #[doc(alias = "cuFuncLoad")]
    pub fn load(&self) -> Result<()> {
        let inner = self.found()?;
        let context = inner.module.context();
        context.state.usable()?;
        if !context.state.sys.supports("cuFuncLoad") {
            return Ok(());
        }
        // SAFETY: the function is live: its module is kept.
        unsafe { call!(context, cuFuncLoad(inner.raw)) }
    }

    /// Unloads the kernel's module now, as [`Module::close`] does. **Waits for the device** if it
    /// has work to do.
    ///
    /// # Errors
    /// The error holds the kernel and names the reason: live objects of it or its module, by kind and number, or the
    /// driver's error.
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        let unloaded = match Arc::get_mut(&mut self.shared) {
            Some(shared) => shared.close(),
            None => {
                let others = Arc::strong_count(&self.shared).saturating_sub(1);
                let left = list(&[(others, "other handle")]);
                Err(Error::invalid(format!("the kernel is still in use by {left}")))
            }
        };
        unloaded.map_err(|error| ConsumeError::new(self, error))
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.shared.name)
            .field("parameters", &self.shared.found.get().map(|found| &found.parameters))
            .finish()
    }
}

impl KernelInner {
    /// Returns whether arguments of these types and this shape fit the kernel: an error if not, `false` for
    /// a launch that covers nothing.
    #[inline]
    fn may_launch(
        &self,
        stream: &Stream,
        launch: &LaunchConfig,
        types: Option<&'static [ArgType]>,
    ) -> Result<bool> {
        if let Some(types) = types
            && self.checked.load(Ordering::Relaxed).cast_const() != types.as_ptr()
        {
            self.check_types(types)?;
        }
        let context = &stream.inner().context;
        let max_shared = self.max_dynamic_shared.load(Ordering::Relaxed);
        let fits = within(launch, &context.limits, &self.limits, max_shared)
            && std::ptr::eq(&raw const **context, &raw const **self.module.context())
            && launch.is_plain()
            && !self.limits.is_special();
        Ok(fits || self.fits_after_all(stream, launch, max_shared)?)
    }

    /// A launch on a stream that records (into the graph, or as the new parameters of a node). Or one on any stream of a
    /// kernel that reaches variables of its module.
    ///
    /// # Safety
    /// As [`Kernel::launch`].
    #[cold]
    unsafe fn launch_or_record<A: KernelArgs>(
        &self,
        stream: &Stream,
        launch: &LaunchConfig,
        args: &A,
    ) -> Result<()> {
        let (enqueuing, variables) = (Enqueuing::on(stream)?, self.variables.as_deref());
        // SAFETY: the caller's promise.
        let launched = unsafe { self.enqueue(enqueuing, variables, launch, args) }?;
        self.end(stream, launch, launched)
    }

    /// Checks a launch, and enqueues or records it; `None` for one that covers nothing.
    ///
    /// # Safety
    /// As [`Kernel::launch`]. `variables` are those of the kernel, if it reaches some.
    #[inline]
    unsafe fn enqueue<'a, A: KernelArgs>(
        &self,
        mut enqueuing: impl Enqueue<'a>,
        variables: Option<&KernelVariables>,
        launch: &LaunchConfig,
        args: &A,
    ) -> Result<Option<Enqueued<bool>>> {
        let stream = enqueuing.stream();
        if !self.may_launch(stream, launch, A::TYPED.then_some(A::TYPES))? {
            return Ok(None);
        }
        if let Some(recording) = enqueuing.recording().and_then(Recording::of) {
            recording.check(launch)?;
        }
        args.check_unborrowed()?;
        let enqueued = enqueuing.run(args, Some(self.number), |enqueuing| {
            let launching = match variables {
                Some(variables) => variables.begin(enqueuing)?,
                None => None,
            };
            args.with_pointers(|pointers| {
                // SAFETY: function and stream are live and of one context; there is one pointer for
                // each parameter, to a value of the parameter's size (both checked above, where the driver or the image
                // has them). The caller promises that the kernel's accesses are sound.
                unsafe { self.issue(enqueuing, launch, pointers) }
            })?;
            Ok(launching.is_none())
        })?;
        if let Some(variables) = variables {
            variables.end(&mut enqueuing, enqueued.output, enqueued.sequence);
        }
        Ok(Some(enqueued))
    }

    /// Reports a launch to the tracing crate, when no lock is held any more.
    #[inline]
    #[cfg_attr(
        not(feature = "tracing"),
        allow(clippy::unused_self, reason = "without the feature nothing is reported")
    )]
    fn end(
        &self,
        _stream: &Stream,
        _launch: &LaunchConfig,
        launched: Option<Enqueued<bool>>,
    ) -> Result<()> {
        let Some(Enqueued { sequence: _sequence, recorded, .. }) = launched else { return Ok(()) };
        event!(
            TRACE,
            kernel = self.name,
            grid = %_launch.grid,
            block = %_launch.block,
            shared = _launch.dynamic_shared_bytes,
            stream = _stream.id(),
            sequence = _sequence,
            "launch"
        );
        recorded
    }

    /// Calls the driver for a launch, or records it.
    ///
    /// # Safety
    /// As [`issue`], for the stream of `enqueuing`.
    #[inline(always)] // A call of its own adds 3 ns to a launch.
    unsafe fn issue<'a>(
        &self,
        enqueuing: &mut impl Enqueue<'a>,
        launch: &LaunchConfig,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        let stream = enqueuing.stream();
        let queue = stream.inner();
        if let Some(recording) = enqueuing.recording().and_then(Recording::of) {
            let module = Kept::new(self.module.clone());
            // SAFETY: the caller's promise.
            let recorded = unsafe { recording.launch(queue, self.raw, launch, module, pointers) };
            return recorded.map_err(|error| self.asked(launch, error));
        }
        // SAFETY: the caller's promise.
        match unsafe { issue(queue.state().sys, self.raw, launch, queue.raw, pointers) } {
            Ok(CUresult::CUDA_SUCCESS) => Ok(()),
            failed => Err(self.launch_failed(stream, launch, failed)),
        }
    }

    fn attribute(&self, attribute: CUfunction_attribute) -> Result<u32> {
        let context = self.module.context();
        context.state.usable()?;
        let mut value = 0;
        // SAFETY: `value` is a valid place for an int, and the function is live.
        unsafe { call!(context, cuFuncGetAttribute(&raw mut value, attribute, self.raw)) }?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    #[cold]
    fn check_types(&self, types: &'static [ArgType]) -> Result<()> {
        if let Some(parameters) = &self.parameters {
            check(self.name, parameters, types)?;
        }
        self.checked.store(types.as_ptr().cast_mut(), Ordering::Relaxed);
        Ok(())
    }

    /// The full check of a launch, after the quick one failed: returns an error, `false` for a launch that covers
    /// nothing, or `true`.
    #[cold]
    fn fits_after_all(
        &self,
        stream: &Stream,
        launch: &LaunchConfig,
        max_shared: u32,
    ) -> Result<bool> {
        let context = &stream.inner().context;
        if !Arc::ptr_eq(context, self.module.context()) {
            return Err(Error::invalid(format!(
                "kernel `{}` belongs to another context than the stream",
                self.name
            )));
        }
        let limits = &context.limits;
        if !within(launch, limits, &self.limits, max_shared) {
            return match explain(launch, limits, &self.limits, max_shared) {
                Some(error) => Err(self.asked(launch, error)),
                None => Ok(false),
            };
        }
        let non_portable = self.non_portable_cluster.load(Ordering::Relaxed);
        special(launch, limits, &self.limits, non_portable)
            .map_err(|error| self.asked(launch, error))?;
        if launch.cooperative {
            let blocks = launch.grid.count();
            let most = self.resident_blocks(launch)?;
            if blocks > most {
                return Err(self.asked(launch, not_resident(blocks, most)));
            }
        }
        Ok(true)
    }

    #[cold]
    fn launch_failed(
        &self,
        stream: &Stream,
        launch: &LaunchConfig,
        result: Result<CUresult, cuda_sys::MissingSymbol>,
    ) -> Error {
        match stream.inner().answer(call_name(launch), result) {
            Ok(()) => Error::invalid("the launch failed and succeeded"),
            Err(error) => self.asked(launch, error),
        }
    }

    /// Returns the error with what the launch was. A fatal one may be an earlier launch's.
    #[cold]
    fn asked(&self, launch: &LaunchConfig, error: Error) -> Error {
        if error.is_fatal() {
            return error;
        }
        error.with_asked(format!("kernel `{}`, {launch}", self.name))
    }
}

/// Returns the known facts about a kernel's parameters: sizes from the driver if it reports them, else from the image;
/// classes from the image's PTX; C++ types from the mangled name.
pub(crate) fn parameters(
    name: &str,
    sizes: &[usize],
    signature: Option<&ptx::Signature>,
) -> Vec<Parameter> {
    let cpp = match signature {
        Some(signature) => signature.types.clone(),
        None => ptx::mangled::parameters(name),
    };
    let params = signature.map_or(&[][..], |signature| &signature.params);
    (0..sizes.len().max(params.len()))
        .map(|index| Parameter {
            size: sizes.get(index).copied().or(params.get(index).map(|p| p.size)).unwrap_or(0),
            class: params.get(index).map(ptx::Param::class),
            cpp: cpp.get(index).cloned().unwrap_or(ptx::mangled::Type::Unknown),
        })
        .collect()
}
