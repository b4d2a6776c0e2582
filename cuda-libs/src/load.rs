//! Loading the libraries, and whether they can be used with a context.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use cuda_safe::Context;
use cuda_safe::sys::{cublas, cublaslt};
use cuda_sys::cublas::Cublas;

use crate::error::{Error, Result};

/// A loaded cuBLAS, of version 12 or 13. Several can live in one process; none is ever unloaded.
#[derive(Debug, Clone, Copy)]
pub struct CublasLibrary {
    functions: &'static Cublas,
    /// Whether it is a shared library, not functions of the program.
    is_library: bool,
}

/// The oldest major version that is taken.
const OLDEST: i32 = 12;

impl CublasLibrary {
    /// Finds and loads cuBLAS: what the variable `CUDA_CUBLAS` names, or else the newest that is not newer than the
    /// driver, in the places of NVRTC. `docs/trust.md` of the repository says which files are trusted. The library is
    /// loaded once. A failure is not remembered: a library that is installed later is found later.
    ///
    /// # Errors
    /// An error that lists every place that was searched, or [`Error::Unusable`] if the version is too old, or if the
    /// cuBLASLt beside it has another version.
    pub fn load() -> Result<Self> {
        let functions = cublas::load()?;
        let this = Self { functions, is_library: true };
        // cuBLAS calls cuBLASLt. One that is not found here is the one that the loader has found.
        let lt = cublaslt::load().ok().and_then(cublaslt::CublasLt::version);
        this.fits(lt)?;
        Ok(this)
    }

    /// Loads the cuBLAS in the library at `path`.
    ///
    /// # Errors
    /// If the library could not be loaded, or is too old.
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of `cublas_api.h` has the C ABI that the header declares
    ///   for it and does what cuBLAS's does, and can be called from any thread for the rest of the process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller makes the same promise.
        let functions = unsafe { Cublas::load_from(path) }.map_err(|error| Error::Unusable {
            library: format!("cuBLAS in {}", path.display()),
            reason: error.to_string(),
        })?;
        let this = Self { functions, is_library: true };
        this.fits(None)?;
        Ok(this)
    }

    /// Returns a cuBLAS made of functions: `resolve` is called once for each exported name and returns the function's
    /// address, or null if there is none. The way in for software devices and tests. The table is never freed.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the version is too old.
    ///
    /// # Safety
    /// Each address is a function with the C ABI that `cublas_api.h` declares for the name, which does what cuBLAS's
    /// does, with the driver of the contexts that it is used with, and can be called from any thread for the rest of the
    /// process.
    pub unsafe fn from_resolver(resolve: &dyn Fn(&CStr) -> *const c_void) -> Result<Self> {
        let resolve = |name: &str| match CString::new(name) {
            Ok(name) => resolve(&name),
            Err(_) => std::ptr::null(),
        };
        // SAFETY: the caller makes the same promise.
        let functions = unsafe { Cublas::from_resolver(&resolve) };
        let this = Self { functions, is_library: false };
        this.fits(None)?;
        Ok(this)
    }

    /// Returns the library's major, minor and patch version.
    #[must_use]
    pub fn version(&self) -> Option<(i32, i32, i32)> {
        self.functions.version()
    }

    /// Returns where the functions come from: the library's path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        self.functions.source()
    }

    /// Returns the raw functions.
    #[must_use]
    pub fn as_sys(&self) -> &'static Cublas {
        self.functions
    }

    /// Returns the library's name with its version, for messages.
    pub(crate) fn name(&self) -> String {
        match self.version() {
            Some((major, minor, patch)) => format!("cuBLAS {major}.{minor}.{patch}"),
            None => "cuBLAS".to_owned(),
        }
    }

    /// Returns the error of a call without a function.
    #[cold]
    pub(crate) fn lacks(&self, call: &'static str, function: &'static str) -> Error {
        let since = match function {
            name if name.contains("Grouped") => "cuBLAS 12.5",
            name if name.ends_with("_64") => "cuBLAS 12.0",
            _ => "an earlier cuBLAS",
        };
        Error::Missing { call, library: self.name(), function, since }
    }

    /// Fails if the version is too old, or if a cuBLASLt of version `lt` is not of the same release.
    fn fits(&self, lt: Option<(i32, i32, i32)>) -> Result<()> {
        let unusable = |reason: String| {
            let library = format!("{} in {}", self.name(), self.source());
            Err(Error::Unusable { library, reason })
        };
        let Some((major, minor, _)) = self.version() else {
            return unusable("it reports no version".to_owned());
        };
        if major < OLDEST {
            return unusable(format!("version {OLDEST} or later is needed"));
        }
        match lt {
            Some((lt_major, lt_minor, lt_patch)) if (lt_major, lt_minor) != (major, minor) => {
                unusable(format!(
                    "the cuBLASLt that is found has version {lt_major}.{lt_minor}.{lt_patch}; install both of one \
                     release, or name their folder in CUDA_CUBLAS"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Fails if a library of the system's calls another driver than the context's: it would be given handles that it does
    /// not know. The CUDA runtime in cuBLAS calls `libcuda.so.1`. The caller of `from_resolver` promises that its functions
    /// use the right one.
    pub(crate) fn is_for(&self, context: &Context) -> Result<()> {
        if !self.is_library {
            return Ok(());
        }
        let driver = context.driver();
        let ours = driver.as_sys().address("cuInit");
        if address_of_cu_init().is_some_and(|theirs| theirs == ours) {
            return Ok(());
        }
        Err(Error::Unusable {
            library: self.name(),
            reason: format!(
                "the context belongs to the driver {}, but cuBLAS uses the system's: unset CUDA_DRIVER, or use a device \
                 of the system's driver",
                driver.as_sys().source()
            ),
        })
    }
}

/// Returns the address of `cuInit` in the loaded library of the name that the CUDA runtime loads.
#[cfg(unix)]
fn address_of_cu_init() -> Option<*const c_void> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    // SAFETY: the library is loaded already, so no initialiser runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | libc::RTLD_NOLOAD) };
    let library = library.ok()?;
    // SAFETY: the address of any symbol may be read as a pointer to data; it is not called here.
    let symbol = unsafe { library.get::<*const c_void>("cuInit") }.ok()?;
    Some(*symbol)
}

/// The name of the library that the CUDA runtime loads on Windows.
#[cfg(windows)]
fn address_of_cu_init() -> Option<*const c_void> {
    use libloading::os::windows::Library;
    let library = Library::open_already_loaded("nvcuda.dll").ok()?;
    // SAFETY: the address of any symbol may be read as a pointer to data; it is not called here.
    let symbol = unsafe { library.get::<*const c_void>("cuInit") }.ok()?;
    Some(*symbol)
}

#[cfg(test)]
mod tests {
    use cuda_sys::cublas::{cublasStatus_t, libraryPropertyType};

    use super::*;

    extern "C" fn eleven(which: libraryPropertyType, value: *mut i32) -> cublasStatus_t {
        // SAFETY: valid for one write.
        unsafe { *value = if which == libraryPropertyType::MAJOR_VERSION { 11 } else { 5 } };
        cublasStatus_t::CUBLAS_STATUS_SUCCESS
    }

    extern "C" fn thirteen(which: libraryPropertyType, value: *mut i32) -> cublasStatus_t {
        // SAFETY: valid for one write.
        unsafe { *value = if which == libraryPropertyType::MAJOR_VERSION { 13 } else { 2 } };
        cublasStatus_t::CUBLAS_STATUS_SUCCESS
    }

    type Get = extern "C" fn(libraryPropertyType, *mut i32) -> cublasStatus_t;

    fn library(get: Get) -> Result<CublasLibrary> {
        let resolve = |name: &CStr| match name == c"cublasGetProperty" {
            true => get as *const c_void,
            false => std::ptr::null(),
        };
        // SAFETY: the function has the ABI of the header.
        unsafe { CublasLibrary::from_resolver(&resolve) }
    }

    #[test]
    fn versions_are_checked() -> Result<()> {
        let old = library(eleven).map(|_| ()).map_err(|error| error.to_string());
        let wanted = "cuBLAS 11.5.5 in a resolver can't be used: version 12 or later is needed";
        assert_eq!(old, Err(wanted.to_owned()));
        let blas = library(thirteen)?;
        assert!(blas.fits(None).is_ok() && blas.fits(Some((13, 2, 9))).is_ok());
        for other in [(12, 2, 2), (13, 1, 2)] {
            let text = blas.fits(Some(other)).map_err(|error| error.to_string());
            let text = text.expect_err("another release");
            assert!(text.contains("the cuBLASLt that is found has version"), "{text}");
        }
        let missing = blas.lacks("gemm", "cublasGemmGroupedBatchedEx").to_string();
        let wanted = "gemm: this cuBLAS 13.2.2 has no cublasGemmGroupedBatchedEx, which came with cuBLAS 12.5";
        assert_eq!(missing, wanted);
        Ok(())
    }

    #[test]
    fn a_library_of_the_system_takes_contexts_of_its_driver_alone() -> Result<()> {
        let driver = cuda_safe::Driver::from_sys(cuda_safe::sys::noop::driver())?;
        let context = driver.device(0)?.context()?;
        let functions = library(thirteen)?;
        assert!(functions.is_for(&context).is_ok());
        let text = CublasLibrary { is_library: true, ..functions }.is_for(&context);
        let text = text.map_err(|error| error.to_string()).expect_err("another driver");
        assert!(text.contains("cuBLAS uses the system's"), "{text}");
        Ok(())
    }
}
