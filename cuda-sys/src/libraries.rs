//! Loading cuBLAS, cuBLASLt, cuFFT and cuRAND. Where to look for them is the business of the crate `nvrtc`.

/// A library with a table of functions, which is loaded from a path or made of functions.
macro_rules! library {
    (
        $(#[$doc:meta])*
        $library:ident $fns:ident $symbols:ident;
        title $title:literal, header $header:literal, version $property:ident, success $success:expr;
    ) => {
        $(#[$doc])*
        ///
        /// Each function of the header is a method under its exported name, which fixes the ABI. Several versions can
        /// live in one process; none is ever unloaded.
        ///
        /// # Errors
        /// A method fails with [`MissingSymbol`](crate::MissingSymbol) if this library lacks the function. The code that
        /// the library returns is in the `Ok`.
        ///
        /// # Safety
        /// Each method has the rules of the C function that it calls: pointers are valid for what it reads and writes,
        /// and handles are alive and of this library. The library uses the context that is current in the calling
        /// thread, and enqueues work on the stream that the handle was given; the caller orders its memory.
        #[derive(Debug)]
        pub struct $library {
            pub(crate) fns: $fns,
            source: String,
            version: Option<(i32, i32, i32)>,
        }

        impl $library {
            #[doc = concat!("Loads the ", $title, " in the library at `path`. Every call makes a new table, which is never freed.")]
            ///
            /// # Errors
            /// If the library could not be loaded, and why.
            ///
            /// # Safety
            /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they
            ///   have no preconditions, and they do not end or corrupt the process.
            #[doc = concat!("- Each function that the library exports under a name of `", $header, "` has the C ABI that the header")]
            ///   declares for it, and can be called from any thread for the rest of the process.
            pub unsafe fn load_from(
                path: impl AsRef<std::path::Path>,
            ) -> Result<&'static Self, crate::MissingLibrary> {
                // SAFETY: the caller promises that the initialisers may run.
                let opened = unsafe { crate::library::open_first($title, &[path.as_ref()]) };
                let (library, source) = opened?;
                let address = |name: &str| crate::library::address(library, name);
                // SAFETY: the caller promises that an exported name fixes the ABI; the library is never unloaded.
                Ok(unsafe { Self::with_addresses(&address, source) })
            }

            #[doc = concat!("Returns a ", $title, " made of functions: `resolve` is called once for each exported name and returns the")]
            /// function's address, or null if it has none. The table is never freed.
            ///
            /// # Safety
            #[doc = concat!("Each address is a function with the C ABI that `", $header, "` declares for the name, callable from any")]
            /// thread for the rest of the process.
            pub unsafe fn from_resolver(
                resolve: &dyn Fn(&str) -> *const core::ffi::c_void,
            ) -> &'static Self {
                // SAFETY: the caller's promise.
                unsafe { Self::with_addresses(resolve, "a resolver".to_owned()) }
            }

            /// # Safety
            /// As for [`from_resolver`](Self::from_resolver).
            unsafe fn with_addresses(
                address: &dyn Fn(&str) -> *const core::ffi::c_void,
                source: String,
            ) -> &'static Self {
                let mut addresses = [core::ptr::null(); $symbols.len()];
                for (symbol, slot) in $symbols.iter().zip(&mut addresses) {
                    *slot = address(symbol.name);
                }
                // SAFETY: the caller's promise is that of `from_addresses`.
                let fns = unsafe { $fns::from_addresses(addresses) };
                let version = version(&fns);
                Box::leak(Box::new(Self { fns, source, version }))
            }

            /// Returns the table of function pointers.
            #[must_use]
            #[inline]
            pub fn fns(&self) -> &$fns {
                &self.fns
            }

            /// Returns whether this library has the function with this exported name; `false` for a name that has no
            /// slot.
            #[must_use]
            pub fn supports(&self, name: &str) -> bool {
                crate::table::position($symbols, name)
                    .is_some_and(|index| !self.fns.address(index).is_null())
            }

            /// Returns the library's major, minor and patch version. Read once, at loading.
            #[must_use]
            pub fn version(&self) -> Option<(i32, i32, i32)> {
                self.version
            }

            /// Returns where the functions come from: the library's path as it was given to the system.
            #[must_use]
            pub fn source(&self) -> &str {
                &self.source
            }

            /// Returns the error of a call without a function; the headers do not say which release it needs.
            #[cold]
            pub(crate) fn missing(&self, name: &'static str, _needs: i32) -> crate::MissingSymbol {
                crate::MissingSymbol { name, needs: None, driver: None }
            }
        }

        /// Returns the version. The function needs no handle and no device.
        fn version(fns: &$fns) -> Option<(i32, i32, i32)> {
            use crate::bindings::library_types::libraryPropertyType as Property;
            let get = fns.$property?;
            let read = |property| {
                let mut value = 0;
                // SAFETY: `value` is valid for the write.
                let code = unsafe { get(property, &raw mut value) };
                (code == $success).then_some(value)
            };
            let major = read(Property::MAJOR_VERSION)?;
            Some((major, read(Property::MINOR_VERSION)?, read(Property::PATCH_LEVEL)?))
        }
    };
}

/// cuBLAS: linear algebra.
pub mod cublas {
    pub use crate::bindings::cublas::*;
    pub use crate::bindings::library_types::*;

    library! {
        /// A loaded cuBLAS.
        Cublas CublasFns CUBLAS_SYMBOLS;
        title "cuBLAS", header "cublas_api.h", version cublasGetProperty, success cublasStatus_t::CUBLAS_STATUS_SUCCESS;
    }
}

/// cuBLASLt: products of matrices with epilogues.
pub mod cublaslt {
    pub use crate::bindings::cublas::{cublasComputeType_t, cublasStatus_t};
    pub use crate::bindings::cublaslt::*;
    pub use crate::bindings::library_types::*;

    library! {
        /// A loaded cuBLASLt.
        CublasLt CublasLtFns CUBLASLT_SYMBOLS;
        title "cuBLASLt", header "cublasLt.h", version cublasLtGetProperty, success cublasStatus_t::CUBLAS_STATUS_SUCCESS;
    }
}

/// cuFFT: Fourier transforms.
pub mod cufft {
    pub use crate::bindings::cufft::*;
    pub use crate::bindings::library_types::*;

    library! {
        /// A loaded cuFFT.
        Cufft CufftFns CUFFT_SYMBOLS;
        title "cuFFT", header "cufft.h", version cufftGetProperty, success cufftResult::CUFFT_SUCCESS;
    }
}

/// cuRAND: random numbers.
pub mod curand {
    pub use crate::bindings::curand::*;
    pub use crate::bindings::library_types::*;

    library! {
        /// A loaded cuRAND.
        Curand CurandFns CURAND_SYMBOLS;
        title "cuRAND", header "curand.h", version curandGetProperty, success curandStatus_t::CURAND_STATUS_SUCCESS;
    }
}
