//! Loading the libraries, and whether they can be used with a context.

use std::ffi::{CStr, CString, c_void};
use std::fmt;
use std::path::Path;

use cuda_safe::Context;

use crate::error::{Error, Result};

/// A loaded library of NVIDIA's. Several versions can live in one process; none is ever unloaded.
pub struct Library<T: Table> {
    functions: &'static T,
    /// Whether it is a shared library, not functions of the program.
    is_library: bool,
}

/// cuBLAS, of version 12 or 13.
#[cfg(feature = "cublas")]
pub type CublasLibrary = Library<cuda_sys::cublas::Cublas>;

/// cuBLASLt, of version 12 or 13, and of the release of the cuBLAS beside it.
#[cfg(feature = "cublaslt")]
pub type CublasLtLibrary = Library<cuda_sys::cublaslt::CublasLt>;

/// cuFFT, of version 11 or 12.
#[cfg(feature = "cufft")]
pub type CufftLibrary = Library<cuda_sys::cufft::Cufft>;

/// cuRAND, of version 10.
#[cfg(feature = "curand")]
pub type CurandLibrary = Library<cuda_sys::curand::Curand>;

/// The functions of a library: `Cublas` of the raw bindings. The trait is sealed.
pub trait Table: sealed::Functions {}

pub(crate) mod sealed {
    use super::{Path, Result, c_void};

    pub trait Functions: Sized + Sync + 'static {
        /// The name for messages.
        const TITLE: &'static str;
        /// The oldest major version that is taken.
        const OLDEST: i32;
        /// Finds the library in the places of NVRTC.
        fn find() -> cuda_safe::Result<&'static Self>;
        /// # Safety
        /// The rules of [`Library::load_from`](super::Library::load_from).
        unsafe fn open(path: &Path) -> std::result::Result<&'static Self, String>;
        /// # Safety
        /// The rules of [`Library::from_resolver`](super::Library::from_resolver).
        unsafe fn made_of(resolve: &dyn Fn(&str) -> *const c_void) -> &'static Self;
        fn numbers(&self) -> Option<(i32, i32, i32)>;
        fn place(&self) -> &str;
        /// Returns the version that introduced a function.
        fn since(function: &'static str) -> &'static str;
        /// Fails if another library that is found does not fit this one.
        fn fits(_library: &super::Library<Self>) -> Result<()>
        where
            Self: super::Table,
        {
            Ok(())
        }
    }
}

/// Makes a table of the raw bindings one that [`Library`] loads.
#[cfg(any(feature = "cublas", feature = "cufft", feature = "curand"))]
macro_rules! table {
    (
        $module:ident::$table:ident, $title:literal, $oldest:literal, since: $since:expr $(, fits: $fits:expr)?
    ) => {
        impl Table for cuda_sys::$module::$table {}
        impl sealed::Functions for cuda_sys::$module::$table {
            const TITLE: &'static str = $title;
            const OLDEST: i32 = $oldest;
            fn find() -> cuda_safe::Result<&'static Self> {
                cuda_safe::sys::$module::load()
            }
            unsafe fn open(path: &Path) -> std::result::Result<&'static Self, String> {
                // SAFETY: the caller's promise.
                unsafe { Self::load_from(path) }.map_err(|error| error.to_string())
            }
            unsafe fn made_of(resolve: &dyn Fn(&str) -> *const c_void) -> &'static Self {
                // SAFETY: the caller's promise.
                unsafe { Self::from_resolver(resolve) }
            }
            fn numbers(&self) -> Option<(i32, i32, i32)> {
                self.version()
            }
            fn place(&self) -> &str {
                self.source()
            }
            fn since(function: &'static str) -> &'static str {
                $since(function)
            }
            $(fn fits(library: &Library<Self>) -> Result<()> {
                $fits(library)
            })?
        }
    };
}

#[cfg(feature = "cublas")]
table! {
    cublas::Cublas, "cuBLAS", 12,
    since: |function: &str| match function {
        name if name.contains("Grouped") => "cuBLAS 12.5",
        name if name.ends_with("_64") => "cuBLAS 12.0",
        _ => "an earlier cuBLAS",
    },
    // cuBLAS calls cuBLASLt. One that is not found here is the one that the loader has found.
    fits: |library: &CublasLibrary| {
        library.fits(cuda_safe::sys::cublaslt::load().ok().and_then(cuda_sys::cublaslt::CublasLt::version))
    }
}

#[cfg(feature = "cublaslt")]
table! { cublaslt::CublasLt, "cuBLASLt", 12, since: |_| "cuBLASLt 12.0" }

#[cfg(feature = "cufft")]
table! { cufft::Cufft, "cuFFT", 11, since: |_| "an earlier cuFFT" }

#[cfg(feature = "curand")]
table! { curand::Curand, "cuRAND", 10, since: |_| "an earlier cuRAND" }

impl<T: Table> Clone for Library<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Table> Copy for Library<T> {}

impl<T: Table> fmt::Debug for Library<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}", self.name(), self.source())
    }
}

impl<T: Table> Library<T> {
    /// Finds and loads the library: what its variable names, such as `CUDA_CUBLAS`, or else the newest that is not
    /// newer than the driver, in the places of NVRTC. `docs/trust.md` of the repository says which files are trusted.
    /// The library is loaded once. A failure is not remembered: a library that is installed later is found later.
    ///
    /// # Errors
    /// An error that lists every place that was searched, or [`Error::Unusable`] if the version is too old, or, of
    /// cuBLAS, if the cuBLASLt beside it has another version.
    pub fn load() -> Result<Self> {
        let this = Self::checked(T::find()?, true)?;
        T::fits(&this)?;
        Ok(this)
    }

    /// Loads the library at `path`.
    ///
    /// # Errors
    /// If the library could not be loaded, or is too old.
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of NVIDIA's header (`cublas_api.h` for cuBLAS) has the C ABI
    ///   that the header declares for it and does what NVIDIA's does, and can be called from any thread for the rest of the
    ///   process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        // SAFETY: the caller makes the same promise.
        let functions = unsafe { T::open(path) }.map_err(|reason| Error::Unusable {
            library: format!("{} in {}", T::TITLE, path.display()),
            reason,
        })?;
        Self::checked(functions, true)
    }

    /// Returns a library made of functions: `resolve` is called once for each exported name and returns the function's
    /// address, or null if there is none. The way in for software devices and tests. The table is never freed.
    ///
    /// # Errors
    /// [`Error::Unusable`] if the version is too old.
    ///
    /// # Safety
    /// Each address is a function with the C ABI that NVIDIA's header declares for the name, which does what NVIDIA's
    /// does, with the driver of the contexts that it is used with, and can be called from any thread for the rest of
    /// the process.
    pub unsafe fn from_resolver(resolve: &dyn Fn(&CStr) -> *const c_void) -> Result<Self> {
        let resolve = |name: &str| match CString::new(name) {
            Ok(name) => resolve(&name),
            Err(_) => std::ptr::null(),
        };
        // SAFETY: the caller makes the same promise.
        Self::checked(unsafe { T::made_of(&resolve) }, false)
    }

    /// Returns the library's major, minor and patch version.
    #[must_use]
    pub fn version(&self) -> Option<(i32, i32, i32)> {
        self.functions.numbers()
    }

    /// Returns where the functions come from: the library's path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        self.functions.place()
    }

    /// Returns the raw functions.
    #[must_use]
    pub fn as_sys(&self) -> &'static T {
        self.functions
    }

    /// Returns the library's name with its version, for messages.
    pub(crate) fn name(&self) -> String {
        match self.version() {
            Some((major, minor, patch)) => format!("{} {major}.{minor}.{patch}", T::TITLE),
            None => T::TITLE.to_owned(),
        }
    }

    /// Returns the error of a call without a function.
    #[cold]
    pub(crate) fn lacks(&self, call: &'static str, function: &'static str) -> Error {
        Error::Missing { call, library: self.name(), function, since: T::since(function) }
    }

    pub(crate) fn unusable(&self, reason: String) -> Error {
        Error::Unusable { library: format!("{} in {}", self.name(), self.source()), reason }
    }

    /// Fails if the version is too old.
    fn checked(functions: &'static T, is_library: bool) -> Result<Self> {
        let this = Self { functions, is_library };
        match this.version() {
            None => Err(this.unusable("it reports no version".to_owned())),
            Some((major, ..)) if major < T::OLDEST => {
                Err(this.unusable(format!("version {} or later is needed", T::OLDEST)))
            }
            Some(_) => Ok(this),
        }
    }

    /// Fails if a library of the system's calls another driver than the context's: it would be given handles that it
    /// does not know. The CUDA runtime in the libraries calls `libcuda.so.1`. The caller of `from_resolver` promises
    /// that its functions use the right one.
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
                "the context belongs to the driver {}, but {} uses the system's: unset CUDA_DRIVER, or use a device of \
                 the system's driver",
                driver.as_sys().source(),
                T::TITLE
            ),
        })
    }
}

#[cfg(feature = "cublas")]
impl CublasLibrary {
    /// Fails if a cuBLASLt of version `lt` is not of the same release.
    fn fits(&self, lt: Option<(i32, i32, i32)>) -> Result<()> {
        match (self.version(), lt) {
            (Some((major, minor, _)), Some((lt_major, lt_minor, lt_patch)))
                if (lt_major, lt_minor) != (major, minor) =>
            {
                Err(self.unusable(format!(
                    "the cuBLASLt that is found has version {lt_major}.{lt_minor}.{lt_patch}; install both of one \
                     release, or name their folder in CUDA_CUBLAS"
                )))
            }
            _ => Ok(()),
        }
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

#[cfg(all(test, feature = "cublas"))]
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
