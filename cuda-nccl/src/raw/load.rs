//! Loading NCCL: the library that was found, one at a path, or one made of functions.

use core::error::Error as _;
use core::ffi::{CStr, c_int, c_void};
use core::fmt;
use std::path::Path;

use cuda_safe::nvrtc::{self, Attempt};
use cuda_sys::nccl::{nccl_version, ncclResult_t};
use libloading::Library;

use super::table::NcclFns;
use crate::sync::Lock;

/// The oldest version that is taken: 2.18, which has non-blocking communicators and `ncclCommSplit`.
pub const OLDEST: c_int = nccl_version(2, 18, 0);

/// A loaded NCCL, of version 2.18 or later.
///
/// Each function of `nccl.h` that this crate uses is a method under its exported name. Several libraries can live in
/// one process; none is ever unloaded.
///
/// # Errors
/// A method fails with [`MissingSymbol`] if this library lacks the function. The code that NCCL returns is the
/// [`ncclResult_t`] in the `Ok`.
pub struct Nccl {
    fns: NcclFns,
    source: String,
    version: c_int,
    /// Whether it is a shared library, not functions of the program.
    library: bool,
}

/// The loaded library does not have the function that was called.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this NCCL ({}) has no {name}, which came with NCCL {}", version_text(*.version), version_text(*.needs))]
pub struct MissingSymbol {
    /// The exported name.
    pub name: &'static str,
    /// The version that introduced it: 22800 is 2.28.0.
    pub needs: c_int,
    /// The version of the loaded library.
    pub version: c_int,
}

/// Why NCCL was not loaded.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// No library was found. The error lists every place that was searched.
    #[error(
        "no NCCL was found; install it (`pip install nvidia-nccl-cu12` or `nvidia-nccl-cu13`, or the system's package), or \
         name it in CUDA_NCCL. Searched:{}",
        places(.0)
    )]
    NotFound(Vec<Attempt>),
    /// The system's loader refuses the library.
    #[error("NCCL can't be loaded from {path}: {reason}")]
    Refused {
        /// The library.
        path: String,
        /// The system's message.
        reason: String,
    },
    /// The library reports no version.
    #[error("{path} is no NCCL: {reason}")]
    NoVersion {
        /// The library.
        path: String,
        /// The mistake.
        reason: String,
    },
    /// The library is too old.
    #[error(
        "NCCL {} in {path} is too old: version {} or later is needed; install nvidia-nccl-cu12 or nvidia-nccl-cu13, or \
         set CUDA_NCCL to another library",
        version_text(*.version), version_text(OLDEST)
    )]
    TooOld {
        /// The library.
        path: String,
        /// Its version: 21803 is 2.18.3.
        version: c_int,
    },
}

/// Returns a version for people: 21803 as `2.18.3`.
#[must_use]
pub fn version_text(version: c_int) -> String {
    let (major, rest) = match version {
        // `NCCL_VERSION` numbers versions before 2.9 this way.
        ..10_000 => (version / 1000, version % 1000),
        _ => (version / 10_000, version % 10_000),
    };
    format!("{major}.{}.{}", rest / 100, rest % 100)
}

fn places(tried: &[Attempt]) -> String {
    let line = |attempt: &Attempt| {
        format!("\n  {} ({}): {}", attempt.path.display(), attempt.origin, attempt.reason)
    };
    tried.iter().map(line).collect()
}

impl Nccl {
    /// Finds and loads `libnccl.so.2`: what the variable `CUDA_NCCL` names (the library or its folder), or else the
    /// first that is found where the crate `nvrtc` searches libraries, which includes pip's packages and the system's
    /// folders. `docs/trust.md` of the repository says which files are trusted.
    ///
    /// NCCL is loaded once. A failure is not remembered: a library that is installed later is found later.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn load() -> Result<&'static Self, LoadError> {
        static LOADED: Lock<Option<&'static Nccl>> = Lock::new(None);
        let mut loaded = LOADED.lock().map_err(|error| LoadError::Refused {
            path: "libnccl.so.2".to_owned(),
            reason: error.to_string(),
        })?;
        if let Some(library) = *loaded {
            return Ok(library);
        }
        let path = nvrtc::nccl_path().map_err(LoadError::NotFound)?;
        // SAFETY: the user has named the library, or it was found under NCCL's name in a place to which only the user
        // and root can write. So it is NVIDIA's.
        let library = unsafe { Self::load_from(path) }?;
        *loaded = Some(library);
        Ok(library)
    }

    /// Loads the NCCL in the library at `path`. Every call makes a new table, which is never freed.
    ///
    /// # Errors
    /// [`LoadError`].
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of `nccl.h` has the C ABI that the header declares for it
    ///   and does what NCCL's does, and can be called from any thread for the rest of the process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Self, LoadError> {
        let path = path.as_ref();
        let source = path.display().to_string();
        let refused = |reason: String| LoadError::Refused { path: source.clone(), reason };
        // The system's loader would wait at a FIFO. It looks up a plain name itself.
        if path.components().count() > 1
            && std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file())
        {
            return Err(refused("not a regular file".to_owned()));
        }
        // SAFETY: the caller promises that the initialisers may run.
        let library = unsafe { Library::new(path) }.map_err(|error| {
            refused(error.source().map_or_else(|| error.to_string(), ToString::to_string))
        })?;
        // NCCL is never unloaded: the table is `'static`, and NCCL has threads.
        let library: &'static Library = Box::leak(Box::new(library));
        let address = |name: &CStr| {
            // SAFETY: the address of any symbol may be read as a pointer to data; it is not called here.
            match unsafe { library.get::<*const c_void>(name.to_bytes_with_nul()) } {
                Ok(symbol) => *symbol,
                Err(_) => core::ptr::null(),
            }
        };
        // SAFETY: the caller promises that an exported name fixes the ABI; the library is never unloaded.
        unsafe { Self::of(&address, source, true) }
    }

    /// Returns an NCCL made of functions: `resolve` is called once for each exported name and returns the function's
    /// address, or null if there is none. The way in for software devices and tests. The table is never freed.
    ///
    /// # Errors
    /// [`LoadError::NoVersion`] or [`LoadError::TooOld`].
    ///
    /// # Safety
    /// Each address is a function with the C ABI that `nccl.h` declares for the name, which does what NCCL's does, with
    /// the driver of the contexts that it is used with, and can be called from any thread for the rest of the process.
    pub unsafe fn from_resolver(
        resolve: &dyn Fn(&CStr) -> *const c_void,
    ) -> Result<&'static Self, LoadError> {
        // SAFETY: the caller makes the same promise.
        unsafe { Self::of(resolve, "a resolver".to_owned(), false) }
    }

    /// Makes a table and checks the library's version.
    ///
    /// # Safety
    /// As for [`from_resolver`](Self::from_resolver).
    pub(crate) unsafe fn of(
        resolve: &dyn Fn(&CStr) -> *const c_void,
        source: String,
        library: bool,
    ) -> Result<&'static Self, LoadError> {
        // SAFETY: the caller makes the same promise.
        let fns = unsafe { NcclFns::resolved(resolve) };
        let none = |reason: String| LoadError::NoVersion { path: source.clone(), reason };
        let get = fns.ncclGetVersion.ok_or_else(|| none("it has no ncclGetVersion".to_owned()))?;
        let mut version = 0;
        // SAFETY: `version` is valid for the write; the function needs no initialisation.
        let code = unsafe { get(&raw mut version) };
        if code != ncclResult_t::ncclSuccess {
            let code = code.name().map_or_else(|| code.0.to_string(), str::to_owned);
            return Err(none(format!("ncclGetVersion returned {code}")));
        }
        if version < OLDEST {
            return Err(LoadError::TooOld { path: source, version });
        }
        Ok(Box::leak(Box::new(Self { fns, source, version, library })))
    }

    /// Returns the table of function pointers.
    #[must_use]
    #[inline]
    pub fn fns(&self) -> &NcclFns {
        &self.fns
    }

    /// Returns the library's version: 21803 is 2.18.3.
    #[must_use]
    pub fn version(&self) -> c_int {
        self.version
    }

    /// Returns where the functions come from: the library's path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns whether it is a shared library, not functions of the program.
    pub(crate) fn is_library(&self) -> bool {
        self.library
    }

    /// Returns the error of a call without a function.
    #[cold]
    pub(super) fn missing(&self, name: &'static str, needs: c_int) -> MissingSymbol {
        MissingSymbol { name, needs, version: self.version }
    }

    /// Returns the error of a call that needs a function which the library lacks.
    #[cold]
    pub(crate) fn lacks(&self, name: &'static str) -> MissingSymbol {
        let known = NcclFns::NAMES.iter().find(|(known, _)| known.to_bytes() == name.as_bytes());
        self.missing(name, known.map_or(OLDEST, |(_, needs)| *needs))
    }

    /// Fails if the library lacks a function of this name.
    pub(crate) fn has(&self, name: &'static str, found: bool) -> Result<(), MissingSymbol> {
        if found { Ok(()) } else { Err(self.lacks(name)) }
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl")
            .field("source", &self.source)
            .field("version", &version_text(self.version))
            .field("functions", &self.fns)
            .finish()
    }
}
