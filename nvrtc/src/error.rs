//! Everything that can go wrong between a source and its image.

use std::fmt;
use std::path::PathBuf;

use cuda_sys::nvrtcResult;

use crate::hint::Source;
use crate::{Arch, Diagnostic, NvrtcVersion};

/// Makes `Debug` the same as `Display`: `unwrap` and a `main` that returns an error print `Debug`, and people read it.
macro_rules! debug_as_display {
    ($($error:ty),+) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}
debug_as_display!(Error, LinkError, LibraryError, CompileError, NotFound, crate::ParseArchError);

/// Why there is no image.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source does not compile. The message is the compiler's log.
    #[error(transparent)]
    Compile(CompileError),
    /// No NVRTC was found.
    #[error(transparent)]
    NotFound(NotFound),
    /// The library is there but cannot be loaded.
    #[error("NVRTC cannot be loaded: {0}")]
    Load(cuda_sys::MissingLibrary),
    /// This NVRTC is too old (or too new) to have a function.
    #[error("this NVRTC ({library}) lacks {symbol}")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// Where the library came from.
        library: String,
    },
    /// The compiler's builtins (`libnvrtc-builtins.so`) are out of its reach.
    #[error(
        "NVRTC cannot find its builtins: {expected} belongs beside the library{}; \
         put it there, or set CUDA_NVRTC to an installation that has it",
        log_suffix(.log)
    )]
    Builtins {
        /// The file that NVRTC needs.
        expected: String,
        /// The compiler's log.
        log: String,
    },
    /// An input that the compiler cannot take: a NUL byte, or two headers of one name.
    #[error("{what}: {why}")]
    InvalidInput {
        /// The input.
        what: String,
        /// The reason.
        why: String,
    },
    /// The compiler refuses an option. The message is the compiler's log.
    #[error("{}", .log.trim_end())]
    InvalidOption {
        /// The compiler's log.
        log: String,
    },
    /// This NVRTC cannot compile for the architecture, nor for an older one in its place.
    #[error("NVRTC {version} cannot compile for {asked}: it knows {}", known_archs(.supported))]
    UnsupportedArch {
        /// The architecture that was requested.
        asked: Arch,
        /// The architectures that this NVRTC supports, as numbers like 90.
        supported: Vec<u32>,
        /// This NVRTC.
        version: NvrtcVersion,
    },
    /// A call failed for another reason.
    #[error("{call}: {}{}", code_name(*.code), log_suffix(.log))]
    Status {
        /// The function.
        call: &'static str,
        /// The code that it returned.
        code: nvrtcResult,
        /// The compiler's log, often empty.
        log: String,
    },
    /// Code that was compiled apart does not link.
    #[error(transparent)]
    Link(Box<LinkError>),
    /// A library such as cuBLAS can't be used.
    #[error(transparent)]
    Library(LibraryError),
    /// The compiler's own PTX could not be scanned for kernels.
    #[error("the compiler's PTX: {0}")]
    Ptx(ptx::Error),
}

/// Why a [`Linker`](crate::Linker) makes no image.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// There is no input.
    #[error("there is no input to link: add PTX, a cubin, a fat binary, LTO-IR or an image")]
    NoInput,
    /// An input that the linker cannot take.
    #[error("input `{name}`: {why}")]
    Input {
        /// The input's name.
        name: String,
        /// The reason.
        why: String,
    },
    /// No nvJitLink was found.
    #[error(
        "no nvJitLink was found; install it (`pip install nvidia-nvjitlink`, or the CUDA toolkit), or name it in \
         CUDA_NVJITLINK. Searched:{}",
        places(.tried)
    )]
    NotFound {
        /// Every place that was searched.
        tried: Vec<Attempt>,
    },
    /// The library is there but cannot be loaded.
    #[error("nvJitLink cannot be loaded: {0}")]
    Load(cuda_sys::MissingLibrary),
    /// This nvJitLink lacks a function.
    #[error("this nvJitLink ({library}) lacks {symbol}")]
    MissingSymbol {
        /// The function.
        symbol: &'static str,
        /// Where the library came from.
        library: String,
    },
    /// Two inputs define a symbol, neither as weak.
    #[error("`{name}` is defined in {first} and in {second}")]
    DefinedTwice {
        /// The symbol.
        name: String,
        /// The first input.
        first: String,
        /// The other input.
        second: String,
    },
    /// nvJitLink refuses an input, or the inputs do not fit together.
    #[error("{what}: {call}: {code}{}", log_suffix(.log))]
    Failed {
        /// The function.
        call: &'static str,
        /// The input that it was about.
        what: String,
        /// The name of the code that it returned.
        code: String,
        /// The linker's log.
        log: String,
    },
    /// PTX does not link.
    #[error(transparent)]
    Ptx(ptx::link::LinkError),
}

/// Why a library that is not NVRTC is not there.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibraryError {
    /// None was found.
    #[error(
        "no {name} was found; install it (`pip install nvidia-{package}`, `nvidia-{package}-cu12` for drivers 12.x, or \
         the CUDA toolkit), or name it in {variable}. Searched:{}",
        places(.tried)
    )]
    NotFound {
        /// The library's name.
        name: &'static str,
        /// The variable that may name the library or its folder.
        variable: &'static str,
        /// The name in those of pip's packages.
        package: &'static str,
        /// Every place that was searched.
        tried: Vec<Attempt>,
    },
    /// The library is there but cannot be loaded.
    #[error(transparent)]
    Load(cuda_sys::MissingLibrary),
}

fn places(tried: &[Attempt]) -> String {
    let line = |attempt: &Attempt| {
        format!("\n  {} ({}): {}", attempt.path.display(), attempt.origin, attempt.reason)
    };
    tried.iter().map(line).collect()
}

fn log_suffix(log: &str) -> String {
    let log = log.trim_end();
    if log.is_empty() { String::new() } else { format!("\n{log}") }
}

fn known_archs(supported: &[u32]) -> String {
    match (supported.iter().min(), supported.iter().max()) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "none".into(),
    }
}

fn code_name(code: nvrtcResult) -> String {
    match code.name() {
        Some(name) => format!("{name} ({})", code.0),
        None => format!("unknown code {}", code.0),
    }
}

/// A source that does not compile. Displays as the compiler's log, and the hint.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompileError {
    /// The compiler's log.
    pub log: String,
    /// The log's messages, as far as they were recognised: warnings too.
    pub diagnostics: Vec<Diagnostic>,
    /// What to do about it, if the log shows host code or a missing header: it names the line.
    pub hint: Option<String>,
}

impl CompileError {
    pub(crate) fn new(log: String, source: Source<'_>) -> Self {
        let diagnostics = crate::diagnostic::parse(&log);
        let hint = crate::hint::hint(&diagnostics, source);
        Self { log, diagnostics, hint }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let log = self.log.trim_end();
        f.write_str(if log.is_empty() {
            "the source does not compile; NVRTC gives no reason"
        } else {
            log
        })?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CompileError {}

/// No NVRTC in any place that was searched.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotFound {
    /// The newest major version that would do, if there was such a bound.
    pub max_major: Option<u32>,
    /// Every place, in order, and why it gave nothing.
    pub tried: Vec<Attempt>,
}

/// A place where the search found no usable NVRTC.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attempt {
    /// Why this place was searched: a variable's name, 'loader path'.
    pub origin: String,
    /// The file or folder.
    pub path: PathBuf,
    /// The reason why it was not used.
    pub reason: String,
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no NVRTC")?;
        if let Some(major) = self.max_major {
            write!(f, " of version {major} or older")?;
        }
        let package = match self.max_major {
            Some(..=12) => "nvidia-cuda-nvrtc-cu12==12.0.140",
            _ => "nvidia-cuda-nvrtc==13.0.88",
        };
        write!(
            f,
            " was found; install it (`python3 -m pip install {package}`, or a CUDA toolkit), set CUDA_NVRTC, or run \
             `eval \"$(cargo xtask env)\"` in a checkout of this project. Searched:"
        )?;
        for Attempt { origin, path, reason } in &self.tried {
            if path.as_os_str().is_empty() {
                write!(f, "\n  {origin}: {reason}")?;
            } else {
                write!(f, "\n  {origin}: {}: {reason}", path.display())?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for NotFound {}

impl From<ptx::Error> for Error {
    fn from(error: ptx::Error) -> Self {
        Self::Ptx(error)
    }
}

impl From<NotFound> for Error {
    fn from(error: NotFound) -> Self {
        Self::NotFound(error)
    }
}
