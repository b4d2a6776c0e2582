//! Loading NVRTC, the run-time compiler. Where to look for it is the business of the crate `nvrtc`.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::ffi::CString;
use std::path::Path;

use crate::error::{MissingLibrary, MissingSymbol};
use crate::table::position;
use crate::{NVRTC_SYMBOLS, NvrtcFns, library, nvrtcResult};

/// A loaded NVRTC.
///
/// Each function of `nvrtc.h` is a method under its exported name. Several versions can live in
/// one process; none is ever unloaded.
///
/// # Errors
/// A method fails with [`MissingSymbol`] if this NVRTC lacks the function. The code that NVRTC
/// returns is the [`nvrtcResult`] in the `Ok`.
///
/// # Safety
/// Each method has the rules of the C function that it calls: pointers are valid for what it reads
/// and writes, programs are alive and of this library.
#[derive(Debug)]
pub struct Nvrtc {
    pub(crate) fns: NvrtcFns,
    source: String,
    version: Option<i32>,
}

impl Nvrtc {
    /// Loads the NVRTC in the library at `path`. Every call makes a new table, which is never freed.
    ///
    /// # Errors
    /// If the library could not be loaded, and why.
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of `nvrtc.h` has the C ABI that the header declares for
    ///   it, and can be called from any thread for the rest of the process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Self, MissingLibrary> {
        // SAFETY: the caller promises that the initialisers may run.
        let (library, source) = unsafe { library::open_first("NVRTC", &[path.as_ref()]) }?;
        let mut addresses = [ptr::null(); NVRTC_SYMBOLS.len()];
        for (symbol, address) in NVRTC_SYMBOLS.iter().zip(&mut addresses) {
            *address = library::address(library, symbol.name);
        }
        // SAFETY: the caller promises that an exported name fixes the ABI; the library is never
        // unloaded.
        let fns = unsafe { NvrtcFns::from_addresses(addresses) };
        Ok(Self::leak(fns, source))
    }

    /// Returns an NVRTC made of functions: `resolve` is asked once for each exported name and returns
    /// the function's address, or null if it has none. The table is never freed.
    ///
    /// # Safety
    /// Each address is a function with the C ABI that `nvrtc.h` declares for the name, callable
    /// from any thread for the rest of the process.
    pub unsafe fn from_resolver(resolve: &dyn Fn(&CStr) -> *const c_void) -> &'static Self {
        let mut addresses = [ptr::null(); NVRTC_SYMBOLS.len()];
        for (symbol, address) in NVRTC_SYMBOLS.iter().zip(&mut addresses) {
            if let Ok(name) = CString::new(symbol.name) {
                *address = resolve(&name);
            }
        }
        // SAFETY: the caller makes the same promise as for `from_addresses`.
        let fns = unsafe { NvrtcFns::from_addresses(addresses) };
        Self::leak(fns, "a resolver".to_owned())
    }

    fn leak(fns: NvrtcFns, source: String) -> &'static Self {
        let version = version(&fns);
        Box::leak(Box::new(Self { fns, source, version }))
    }

    /// Returns the table of function pointers.
    #[must_use]
    #[inline]
    pub fn fns(&self) -> &NvrtcFns {
        &self.fns
    }

    /// Returns whether this NVRTC has the function with this exported name; `false` for a name that has no
    /// slot.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        position(NVRTC_SYMBOLS, name).is_some_and(|index| !self.fns.address(index).is_null())
    }

    /// Returns the CUDA release that it belongs to: 13000 is 13.0. Read once, at loading.
    #[must_use]
    pub fn version(&self) -> Option<i32> {
        self.version
    }

    /// Returns where the functions come from: the library's name or path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the error of a call without a function; the headers do not say which release it needs.
    #[cold]
    pub(crate) fn missing(&self, name: &'static str, _needs: i32) -> MissingSymbol {
        MissingSymbol { name, needs: None, driver: self.version }
    }
}

/// Returns the result of `nvrtcVersion`, in the form of the driver's version.
fn version(fns: &NvrtcFns) -> Option<i32> {
    let get = fns.nvrtcVersion?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: both are valid for the write.
    let code = unsafe { get(&raw mut major, &raw mut minor) };
    (code == nvrtcResult::NVRTC_SUCCESS).then_some(major * 1000 + minor * 10)
}
