//! Errors: the kind, the driver call and its code, the request, and the launches before it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use cuda_sys::{CUresult, MissingLibrary, MissingSymbol};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure: the call that failed, the code that the driver returned, the values of the call, and what to do.
///
/// Cheap to clone: after a fatal error (see [`Error::is_fatal`]) every later call on that device
/// returns the same error. Formatting one never calls the driver.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    call: Option<&'static str>,
    asked: Option<String>,
    hint: Option<Cow<'static, str>>,
    asynchronous: bool,
    /// Whether the context was found to be gone, and all handles in it with it.
    gone: bool,
    launches: Vec<LaunchRecord>,
}

/// The kind of failure of an [`Error`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The driver returned this code.
    Driver(CUresult),
    /// Device memory ran out; all numbers are bytes, read when it happened.
    OutOfMemory {
        /// The number of bytes requested.
        requested: usize,
        /// The number of bytes that were free on the device.
        free: usize,
        /// The number of bytes of the device.
        total: usize,
    },
    /// No driver library could be loaded.
    MissingLibrary(MissingLibrary),
    /// The driver is older than the function that was needed.
    MissingSymbol(MissingSymbol),
    /// NVRTC could not be loaded or the source did not compile.
    Compile(Arc<nvrtc::Error>),
    /// A kernel argument does not fit the kernel's parameter.
    Argument {
        /// The kernel's name.
        kernel: String,
        /// The argument's index, from 0; `None` when the number of arguments is wrong. The text of the error counts
        /// from 1.
        index: Option<usize>,
        /// The name of the parameter in the declaration of [`kernels!`](crate::kernels), if the launch is a method's.
        parameter: Option<&'static str>,
        /// The mismatch.
        message: String,
    },
    /// A launch or request is beyond what the device or the kernel allows.
    Limit {
        /// The quantity that exceeds its limit, such as `threads per block`.
        what: &'static str,
        /// The value asked for.
        value: u64,
        /// The largest value allowed.
        limit: u64,
    },
    /// A `where` clause of a kernel declared by [`kernels!`](crate::kernels) did not hold, or a parameter
    /// or launch that the declaration derives has no valid value.
    Precondition {
        /// The kernel's name.
        kernel: &'static str,
        /// The clause as written.
        clause: &'static str,
        /// Each name or length in the clause and its value.
        values: Vec<(&'static str, i128)>,
    },
    /// A check in a kernel that is a Rust function failed. Waits and downloads return this until
    /// [`Context::take_fault`](crate::Context::take_fault) takes the fault; see the module [`kernel`](crate::kernel).
    #[cfg(feature = "rust-kernels")]
    KernelFault(gpu_phases::Fault),
    /// The request makes no sense; refused before the driver was asked.
    Invalid(Cow<'static, str>),
    /// The process was forked after the driver was initialised: CUDA does not survive `fork`.
    Forked,
}

/// One launch that a stream remembered, newest first in [`Error::launches`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRecord {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The number of the enqueue on its stream.
    pub index: u64,
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Arc::new(Inner {
            kind,
            call: None,
            asked: None,
            hint: None,
            asynchronous: false,
            gone: false,
            launches: Vec::new(),
        }))
    }

    /// Creates the error of a driver function that returned this code: for functions that are called by their addresses,
    /// such as those of [`Driver::extension`](crate::Driver::extension).
    #[cold]
    #[must_use]
    pub fn driver(call: &'static str, code: CUresult) -> Self {
        Self::new(ErrorKind::Driver(code)).with_call(call).edit(|inner| {
            inner.asynchronous = is_fatal_code(code);
            inner.hint = hint_for(code);
        })
    }

    /// Returns the error of a call that found the context gone. `driver` with the same code is an error of the call
    /// alone.
    #[cold]
    pub(crate) fn gone(call: &'static str, code: CUresult) -> Self {
        Self::driver(call, code).edit(|inner| inner.gone = true).with_hint(
            "another library has reset the device's primary context (cudaDeviceReset, \
                 cuDevicePrimaryCtxReset), or released it once too often; a new Context starts \
                 afresh",
        )
    }

    /// Creates an error of kind [`ErrorKind::Invalid`]: for crates on top of this one, which check what they are
    /// asked before the driver is.
    #[cold]
    #[must_use]
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid(message.into()))
    }

    /// Returns the error of a Rust kernel whose check failed.
    #[cfg(feature = "rust-kernels")]
    #[cold]
    pub(crate) fn kernel_fault(fault: gpu_phases::Fault) -> Self {
        Self::new(ErrorKind::KernelFault(fault)).edit(|inner| inner.asynchronous = true).with_hint(
            "the context works on; what the launch has written is unspecified, and waits return this error until \
             `Context::take_fault` is called",
        )
    }

    #[cold]
    pub(crate) fn forked() -> Self {
        Self::new(ErrorKind::Forked).with_hint(
            "create the context in the process that uses it; start workers with a fresh process \
             (std::process::Command) instead of fork",
        )
    }

    pub(crate) fn with_call(self, call: &'static str) -> Self {
        self.edit(|inner| inner.call = Some(call))
    }

    /// Says what the call was asked. An asynchronous error is not about that.
    pub(crate) fn with_asked(self, asked: impl Into<String>) -> Self {
        if self.is_asynchronous() {
            return self;
        }
        let asked = asked.into();
        self.edit(|inner| inner.asked = Some(asked))
    }

    /// Adds a hint at what to do about it.
    #[must_use]
    pub fn with_hint(self, hint: impl Into<Cow<'static, str>>) -> Self {
        let hint = hint.into();
        self.edit(|inner| inner.hint = Some(hint))
    }

    pub(crate) fn with_kind(self, kind: ErrorKind) -> Self {
        self.edit(|inner| inner.kind = kind)
    }

    pub(crate) fn with_launches(self, launches: Vec<LaunchRecord>) -> Self {
        self.edit(|inner| inner.launches = launches)
    }

    /// Errors are built once and shared afterwards; a shared one is copied before it is changed.
    fn edit(mut self, change: impl FnOnce(&mut Inner)) -> Self {
        if Arc::get_mut(&mut self.0).is_none() {
            let inner = &*self.0;
            self.0 = Arc::new(Inner {
                kind: inner.kind.clone(),
                call: inner.call,
                asked: inner.asked.clone(),
                hint: inner.hint.clone(),
                asynchronous: inner.asynchronous,
                gone: inner.gone,
                launches: inner.launches.clone(),
            });
        }
        if let Some(inner) = Arc::get_mut(&mut self.0) {
            change(inner);
        }
        self
    }

    /// Returns the kind of failure.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the driver function that met the failure, if the driver was asked at all.
    #[must_use]
    pub fn call(&self) -> Option<&'static str> {
        self.0.call
    }

    /// Returns the driver's code, if the driver returned one.
    #[must_use]
    pub fn code(&self) -> Option<CUresult> {
        match self.0.kind {
            ErrorKind::Driver(code) => Some(code),
            ErrorKind::OutOfMemory { .. } => Some(CUresult::CUDA_ERROR_OUT_OF_MEMORY),
            _ => None,
        }
    }

    /// Returns the code's name, such as `CUDA_ERROR_OUT_OF_MEMORY`; `None` if the driver returned no code, or a code
    /// newer than these bindings.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.code().and_then(CUresult::name)
    }

    /// Returns the meaning of the code, from a table in this crate.
    #[must_use]
    pub fn description(&self) -> Option<&'static str> {
        self.code().and_then(CUresult::description)
    }

    /// Returns the values of the failing call.
    #[must_use]
    pub fn asked(&self) -> Option<&str> {
        self.0.asked.as_deref()
    }

    /// Returns a hint at what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        // The error of the compiler displays its hint itself.
        let of_the_compiler = || match &self.0.kind {
            ErrorKind::Compile(error) => match &**error {
                nvrtc::Error::Compile(error) => error.hint.as_deref(),
                _ => None,
            },
            _ => None,
        };
        self.0.hint.as_deref().or_else(of_the_compiler)
    }

    /// Returns whether earlier, asynchronous work failed and [`Error::call`] only met it.
    #[must_use]
    pub fn is_asynchronous(&self) -> bool {
        self.0.asynchronous
    }

    /// Returns the last launches before an asynchronous failure, newest first. One of them, or work
    /// enqueued through raw handles, is the culprit.
    #[must_use]
    pub fn launches(&self) -> &[LaunchRecord] {
        &self.0.launches
    }

    /// Returns whether everything is lost: every later call on the device returns this error.
    ///
    /// If only the context is gone, because other code reset it, a new [`Context::new`](crate::Context::new) starts
    /// afresh. `CUDA_ERROR_INVALID_CONTEXT` and `CUDA_ERROR_CONTEXT_IS_DESTROYED` alone do not imply that: after them
    /// the crate queries whether the primary context is still the one that it retained. If it is, the error belongs to
    /// that call alone and is not fatal.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self.0.kind {
            ErrorKind::Driver(code) => {
                self.0.gone || is_fatal_code(code) || code == CUresult::CUDA_ERROR_DEINITIALIZED
            }
            ErrorKind::Forked => true,
            _ => false,
        }
    }
}

/// Codes after which the driver returns nothing else: the work that ran has failed, not the call.
pub(crate) fn is_fatal_code(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
    )
}

/// Returns whether the code means an invalid context: ours, or another one, such as a destroyed context that is current
/// on the calling thread.
pub(crate) fn is_context_code(code: CUresult) -> bool {
    matches!(code, CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED | CUresult::CUDA_ERROR_INVALID_CONTEXT)
}

fn hint_for(code: CUresult) -> Option<Cow<'static, str>> {
    let hint = match code {
        CUresult::CUDA_ERROR_NO_DEVICE => {
            "no GPU is visible: check the driver with nvidia-smi, and CUDA_VISIBLE_DEVICES; without a GPU, run `eval \
             \"$(cargo xtask env)\"` in a checkout of this project: it names the software device to your program"
        }
        CUresult::CUDA_ERROR_STUB_LIBRARY => {
            "the toolkit's stub was loaded instead of the driver: remove its folder from \
             LD_LIBRARY_PATH, or set CUDA_DRIVER to the real libcuda.so.1"
        }
        CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
            "the kernel module and libcuda have different versions: reboot after a driver update"
        }
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS => {
            "run under compute-sanitizer, or on the software device of the crate cuda-emu, to see \
             which thread accessed which address"
        }
        CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU => {
            "the image has no code for this device: compile for its architecture, or keep PTX"
        }
        _ => return None,
    };
    Some(Cow::Borrowed(hint))
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if inner.asynchronous {
            f.write_str("earlier work on the device failed: ")?;
        } else if let Some(call) = inner.call {
            write!(f, "{call}: ")?;
        }
        match &inner.kind {
            ErrorKind::Driver(code) => match (code.description(), code.name()) {
                (Some(description), Some(name)) => write!(f, "{description} ({name})")?,
                _ => write!(f, "the driver returned code {}", code.0)?,
            },
            ErrorKind::OutOfMemory { requested, free, total } => write!(
                f,
                "out of device memory (CUDA_ERROR_OUT_OF_MEMORY): requested {requested} bytes, \
                 {free} of {total} bytes free"
            )?,
            ErrorKind::MissingLibrary(error) => write!(f, "{error}")?,
            ErrorKind::MissingSymbol(error) => write!(f, "{error}")?,
            ErrorKind::Compile(error) => write!(f, "{error}")?,
            ErrorKind::Argument { kernel, parameter: Some(parameter), message, .. } => {
                write!(f, "argument `{parameter}` of kernel `{kernel}`: {message}")?;
            }
            ErrorKind::Argument { kernel, index: Some(index), message, .. } => {
                let number = index.saturating_add(1);
                write!(f, "argument {number} of kernel `{kernel}`: {message}")?;
            }
            ErrorKind::Argument { kernel, index: None, message, .. } => {
                write!(f, "kernel `{kernel}`: {message}")?;
            }
            ErrorKind::Limit { what, value, limit } => {
                write!(f, "{what}: {value} asked, at most {limit} allowed")?;
            }
            ErrorKind::Precondition { kernel, clause, values } => {
                write!(f, "kernel `{kernel}`: `{clause}` does not hold")?;
                for (position, (name, value)) in values.iter().enumerate() {
                    let separator = if position == 0 { ": " } else { ", " };
                    write!(f, "{separator}{name} = {value}")?;
                }
            }
            #[cfg(feature = "rust-kernels")]
            ErrorKind::KernelFault(fault) => write!(f, "{fault}")?,
            ErrorKind::Invalid(message) => f.write_str(message)?,
            ErrorKind::Forked => {
                f.write_str("the process was forked after CUDA was initialised")?;
            }
        }
        if inner.asynchronous
            && let Some(call) = inner.call
        {
            write!(f, "; met by {call}")?;
        }
        if let Some(asked) = &inner.asked {
            write!(f, "; asked: {asked}")?;
        }
        if !inner.launches.is_empty() {
            f.write_str("; last launches, newest first:")?;
            for launch in &inner.launches {
                write!(f, " {} (#{})", launch.kernel, launch.index)?;
            }
        }
        if let Some(hint) = &inner.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `main() -> Result` and `unwrap` print Debug: a person reads it.
        fmt::Display::fmt(self, f)
    }
}

/// Without a source: the text contains those of the errors that [`Error::kind`] holds.
impl std::error::Error for Error {}

impl From<MissingLibrary> for Error {
    fn from(error: MissingLibrary) -> Self {
        Self::new(ErrorKind::MissingLibrary(error)).with_hint(
            "install NVIDIA's driver (a container has to be given the GPU, as with --gpus all), or \
             set CUDA_DRIVER to the library; without a GPU, run `eval \"$(cargo xtask env)\"` in a checkout of this \
             project: it names the software device to your program",
        )
    }
}

impl From<MissingSymbol> for Error {
    fn from(error: MissingSymbol) -> Self {
        Self::new(ErrorKind::MissingSymbol(error))
    }
}

impl From<nvrtc::Error> for Error {
    fn from(error: nvrtc::Error) -> Self {
        Self::new(ErrorKind::Compile(Arc::new(error)))
    }
}
