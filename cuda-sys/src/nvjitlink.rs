//! Loading nvJitLink, the linker of code that was compiled apart. The crate `nvrtc` searches for it.
//!
//! The declarations are written by hand from `nvJitLink.h` of CUDA 13.0. The library exports each function under its
//! plain name and under one with its version (`__nvJitLinkCreate_13_0`), for which the header's inline functions stand.
//! The plain names have had one ABI since CUDA 12.0.

#![allow(non_camel_case_types, reason = "the library's names")]

use core::ffi::{c_char, c_uint, c_void};
use std::path::Path;

use crate::error::{MissingLibrary, MissingSymbol};
use crate::library;

/// The handle of a link (`nvJitLinkHandle`).
pub type nvJitLinkHandle = *mut nvJitLink;

/// What a handle points to.
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct nvJitLink {
    _unused: [u8; 0],
}

/// The code that nvJitLink returns.
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvJitLinkResult(pub c_uint);

/// The kind of an input.
#[repr(transparent)]
#[derive(Debug, Copy, Clone, Hash, PartialEq, Eq)]
pub struct nvJitLinkInputType(pub c_uint);

macro_rules! codes {
    ($($name:ident = $value:literal,)*) => {
        impl nvJitLinkResult {
            $(#[doc = concat!("`", stringify!($name), "`.")] pub const $name: Self = Self($value);)*

            /// Returns the name of the code; `None` if the header has none for it.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    NVJITLINK_SUCCESS = 0,
    NVJITLINK_ERROR_UNRECOGNIZED_OPTION = 1,
    NVJITLINK_ERROR_MISSING_ARCH = 2,
    NVJITLINK_ERROR_INVALID_INPUT = 3,
    NVJITLINK_ERROR_PTX_COMPILE = 4,
    NVJITLINK_ERROR_NVVM_COMPILE = 5,
    NVJITLINK_ERROR_INTERNAL = 6,
    NVJITLINK_ERROR_THREADPOOL = 7,
    NVJITLINK_ERROR_UNRECOGNIZED_INPUT = 8,
    NVJITLINK_ERROR_FINALIZE = 9,
    NVJITLINK_ERROR_NULL_INPUT = 10,
    NVJITLINK_ERROR_INCOMPATIBLE_OPTIONS = 11,
    NVJITLINK_ERROR_INCORRECT_INPUT_TYPE = 12,
    NVJITLINK_ERROR_ARCH_MISMATCH = 13,
    NVJITLINK_ERROR_OUTDATED_LIBRARY = 14,
    NVJITLINK_ERROR_MISSING_FATBIN = 15,
    NVJITLINK_ERROR_UNRECOGNIZED_ARCH = 16,
    NVJITLINK_ERROR_UNSUPPORTED_ARCH = 17,
    NVJITLINK_ERROR_LTO_NOT_ENABLED = 18,
}

impl nvJitLinkInputType {
    /// Machine code.
    pub const NVJITLINK_INPUT_CUBIN: Self = Self(1);
    /// PTX.
    pub const NVJITLINK_INPUT_PTX: Self = Self(2);
    /// LTO-IR.
    pub const NVJITLINK_INPUT_LTOIR: Self = Self(3);
    /// A fat binary.
    pub const NVJITLINK_INPUT_FATBIN: Self = Self(4);
    /// An object file of the host.
    pub const NVJITLINK_INPUT_OBJECT: Self = Self(5);
    /// A library of such files.
    pub const NVJITLINK_INPUT_LIBRARY: Self = Self(6);
    /// An index file.
    pub const NVJITLINK_INPUT_INDEX: Self = Self(7);
    /// Whichever of these the data is.
    pub const NVJITLINK_INPUT_ANY: Self = Self(10);
}

macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),*);)*) => {
        /// The addresses of the functions; null where the library lacks one.
        #[derive(Debug)]
        #[allow(non_snake_case, reason = "the library's names")]
        struct Table {
            $($name: *const c_void,)*
        }

        impl Table {
            fn of(address: impl Fn(&str) -> *const c_void) -> Self {
                Self { $($name: address(stringify!($name)),)* }
            }
        }

        #[allow(non_snake_case, reason = "the library's names")]
        impl NvJitLink {
            $(
                #[doc = concat!("Calls `", stringify!($name), "`.")]
                ///
                /// # Errors
                /// [`MissingSymbol`] if the library lacks the function.
                ///
                /// # Safety
                /// The rules of the C function: pointers are valid for what it reads and writes, and the handle is
                /// alive and of this library.
                #[allow(clippy::too_many_arguments, reason = "the library's")]
                pub unsafe fn $name(&self, $($arg: $ty),*) -> Result<nvJitLinkResult, MissingSymbol> {
                    type Function = unsafe extern "C" fn($($ty),*) -> nvJitLinkResult;
                    if self.table.$name.is_null() {
                        return Err(MissingSymbol { name: stringify!($name), needs: None, driver: None });
                    }
                    // SAFETY: the address is not null. The caller of `load_from` or `from_resolver` promised that it is
                    // a function with the ABI of this name.
                    let function = unsafe { core::mem::transmute::<*const c_void, Function>(self.table.$name) };
                    // SAFETY: the caller's promise.
                    Ok(unsafe { function($($arg),*) })
                }
            )*
        }
    };
}

functions! {
    nvJitLinkCreate(handle: *mut nvJitLinkHandle, count: u32, options: *const *const c_char);
    nvJitLinkDestroy(handle: *mut nvJitLinkHandle);
    nvJitLinkAddData(
        handle: nvJitLinkHandle, kind: nvJitLinkInputType, data: *const c_void, size: usize, name: *const c_char
    );
    nvJitLinkComplete(handle: nvJitLinkHandle);
    nvJitLinkGetLinkedCubinSize(handle: nvJitLinkHandle, size: *mut usize);
    nvJitLinkGetLinkedCubin(handle: nvJitLinkHandle, cubin: *mut c_void);
    nvJitLinkGetLinkedPtxSize(handle: nvJitLinkHandle, size: *mut usize);
    nvJitLinkGetLinkedPtx(handle: nvJitLinkHandle, ptx: *mut c_char);
    nvJitLinkGetErrorLogSize(handle: nvJitLinkHandle, size: *mut usize);
    nvJitLinkGetErrorLog(handle: nvJitLinkHandle, log: *mut c_char);
    nvJitLinkGetInfoLogSize(handle: nvJitLinkHandle, size: *mut usize);
    nvJitLinkGetInfoLog(handle: nvJitLinkHandle, log: *mut c_char);
    nvJitLinkVersion(major: *mut c_uint, minor: *mut c_uint);
}

/// A loaded nvJitLink. Each function of `nvJitLink.h` is a method. The library is never unloaded.
#[derive(Debug)]
pub struct NvJitLink {
    table: Table,
    source: String,
}

// SAFETY: the addresses are functions', which are the same for all threads.
unsafe impl Send for NvJitLink {}
// SAFETY: as above.
unsafe impl Sync for NvJitLink {}

impl NvJitLink {
    /// Loads the nvJitLink in the library at `path`. Every call makes a new table, which is never freed.
    ///
    /// # Errors
    /// If the library could not be loaded, and why.
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of `nvJitLink.h` has the C ABI that the header declares for
    ///   it, and can be called from any thread for the rest of the process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Self, MissingLibrary> {
        // SAFETY: the caller promises that the initialisers may run.
        let (library, source) = unsafe { library::open_first("nvJitLink", &[path.as_ref()]) }?;
        let table = Table::of(|name| library::address(library, name));
        Ok(Box::leak(Box::new(Self { table, source })))
    }

    /// Returns an nvJitLink made of functions. `resolve` is called once for each exported name, and returns the
    /// function's address or null. The table is never freed.
    ///
    /// # Safety
    /// Each address is a function with the C ABI that `nvJitLink.h` declares for the name, callable from any thread for
    /// the rest of the process.
    pub unsafe fn from_resolver(resolve: &dyn Fn(&str) -> *const c_void) -> &'static Self {
        let table = Table::of(resolve);
        Box::leak(Box::new(Self { table, source: "a resolver".to_owned() }))
    }

    /// Returns where the functions come from: the library's path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }
}
