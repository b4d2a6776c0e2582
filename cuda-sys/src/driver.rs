//! Loading a CUDA driver: the system's, one at a path, or one made of a function.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::ffi::CString;
use std::path::Path;

use libloading::Library;
use once_cell::sync::OnceCell;

use crate::error::{MissingLibrary, MissingSymbol};
use crate::table::{Symbol, position};
use crate::{CUresult, DRIVER_SYMBOLS, DriverFns, environment, library};

/// The names under which a system has its driver, best first.
///
/// `libcuda.so` comes last: in a toolkit's folder that name is a stub that fails every call.
const SYSTEM_NAMES: &[&str] = if cfg!(windows) {
    &["nvcuda.dll"]
} else {
    &["libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1", "libcuda.so"]
};

/// A loaded CUDA driver.
///
/// Each function of `cuda.h` is a method under its exported name. Several drivers can live in one
/// process; none is ever unloaded.
///
/// # Errors
/// A method fails with [`MissingSymbol`] if this driver lacks the function. The code that the
/// driver returns is the [`CUresult`] in the `Ok`.
///
/// # Safety
/// Each method has the rules of the C function that it calls: pointers are valid for what it reads
/// and writes, handles are alive and of this driver.
#[derive(Debug)]
pub struct Driver {
    pub(crate) fns: DriverFns,
    source: String,
    version: Option<i32>,
}

impl Driver {
    /// Loads the system's driver, or the library that the environment variable `CUDA_DRIVER` names.
    ///
    /// This is safe because the environment is trusted: a user who can set `CUDA_DRIVER` could also have started
    /// another program. A process with raised rights ignores the variable: see [`environment()`].
    ///
    /// Loaded once per process. A failure is not remembered: a driver that is installed later is
    /// found later.
    ///
    /// # Errors
    /// If no library could be loaded: every name that was tried, and why each failed.
    pub fn load() -> Result<&'static Self, MissingLibrary> {
        static LOADED: OnceCell<&'static Driver> = OnceCell::new();
        LOADED
            .get_or_try_init(|| {
                let named = environment("CUDA_DRIVER");
                let names: Vec<&Path> = match &named {
                    Some(path) => vec![Path::new(path)],
                    None => SYSTEM_NAMES.iter().map(Path::new).collect(),
                };
                // SAFETY: the user, or the administrator who filled the system's folders, has named
                // the library as a driver.
                unsafe { Self::load_first(&names) }
            })
            .copied()
    }

    /// Loads the driver in the library at `path`. Every call makes a new table, which is never freed.
    ///
    /// # Errors
    /// If the library could not be loaded, and why.
    ///
    /// # Safety
    /// - The library's initialisers, and those of the libraries that it needs, may run in this process: they have no
    ///   preconditions, and they do not end or corrupt the process.
    /// - Each function that the library exports under a name of `cuda.h` has the C ABI that the header declares for
    ///   it, and can be called from any thread for the rest of the process.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<&'static Self, MissingLibrary> {
        // SAFETY: the caller makes the same promise as for `load_first`.
        unsafe { Self::load_first(&[path.as_ref()]) }
    }

    /// Returns a driver made of functions: `resolve` is asked once for each exported name and returns
    /// with the function's address, or null if it has none. The way in for software devices and
    /// for tests. The table is never freed.
    ///
    /// # Safety
    /// Each address is a function with the C ABI that `cuda.h` declares for the name, callable
    /// from any thread for the rest of the process.
    pub unsafe fn from_resolver(resolve: &dyn Fn(&CStr) -> *const c_void) -> &'static Self {
        let mut addresses = [ptr::null(); DRIVER_SYMBOLS.len()];
        for (symbol, address) in DRIVER_SYMBOLS.iter().zip(&mut addresses) {
            if let Ok(name) = CString::new(symbol.name) {
                *address = resolve(&name);
            }
        }
        // SAFETY: the caller makes the same promise as for `from_addresses`.
        let fns = unsafe { DriverFns::from_addresses(addresses) };
        Self::leak(fns, "a resolver".to_owned())
    }

    /// Loads the first of `names` that the system has.
    ///
    /// # Safety
    /// As for [`load_from`](Self::load_from), for each of the names.
    unsafe fn load_first(names: &[&Path]) -> Result<&'static Self, MissingLibrary> {
        // SAFETY: the caller promises that the initialisers may run.
        let (library, source) = unsafe { library::open_first("the CUDA driver", names) }?;
        // SAFETY: the caller promises that the library exports functions of the header.
        Ok(Self::leak(unsafe { bind(library) }, source))
    }

    fn leak(fns: DriverFns, source: String) -> &'static Self {
        let version = version(&fns);
        Box::leak(Box::new(Self { fns, source, version }))
    }

    /// Returns the table of function pointers.
    #[must_use]
    #[inline]
    pub fn fns(&self) -> &DriverFns {
        &self.fns
    }

    /// Returns whether this driver has the function with this exported name; `false` for a name that has
    /// no slot.
    #[must_use]
    pub fn supports(&self, name: &str) -> bool {
        !self.address(name).is_null()
    }

    /// Returns the address in the slot of an exported name: null if the driver lacks the function or the
    /// name has no slot.
    #[must_use]
    pub fn address(&self, name: &str) -> *const c_void {
        position(DRIVER_SYMBOLS, name).map_or(ptr::null(), |index| self.fns.address(index))
    }

    /// Returns the newest CUDA release that the driver supports: 13000 is 13.0. Read once, at loading.
    #[must_use]
    pub fn version(&self) -> Option<i32> {
        self.version
    }

    /// Returns where the functions come from: the library's name or path as it was given to the system.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the error of a call without a function.
    #[cold]
    pub(crate) fn missing(&self, name: &'static str, needs: i32) -> MissingSymbol {
        MissingSymbol { name, needs: Some(needs), driver: self.version }
    }
}

/// Returns the result of `cuDriverGetVersion`.
fn version(fns: &DriverFns) -> Option<i32> {
    let get = fns.cuDriverGetVersion?;
    let mut version = 0;
    // SAFETY: `version` is valid for the write; the function needs no initialisation.
    let code = unsafe { get(&raw mut version) };
    (code == CUresult::CUDA_SUCCESS).then_some(version)
}

/// Binds every slot: by its exported name, else through `cuGetProcAddress`.
///
/// # Safety
/// Each function that the library exports under a name of `cuda.h` has the ABI that the header declares for it.
unsafe fn bind(library: &'static Library) -> DriverFns {
    let mut addresses = [ptr::null(); DRIVER_SYMBOLS.len()];
    for (symbol, address) in DRIVER_SYMBOLS.iter().zip(&mut addresses) {
        *address = library::address(library, symbol.name);
    }
    // SAFETY: the caller promises that an exported name fixes the ABI; the library is never unloaded.
    let fns = unsafe { DriverFns::from_addresses(addresses) };
    let Some(known) = version(&fns) else {
        return fns;
    };
    for (symbol, address) in DRIVER_SYMBOLS.iter().zip(&mut addresses) {
        // cuGetProcAddress gives the newest ABI up to the version that is asked for. Only a driver
        // that is at least as new as an ABI never returns an older one.
        if address.is_null() && symbol.version <= known {
            *address = second_try(&fns, symbol);
        }
    }
    // SAFETY: an exported name fixes the ABI, and so does a base name with the version that
    // introduced it, asked of a driver that knows that version.
    unsafe { DriverFns::from_addresses(addresses) }
}

/// Returns the address that `cuGetProcAddress` has for a symbol; null if it has none.
fn second_try(fns: &DriverFns, symbol: &Symbol) -> *const c_void {
    let Ok(base) = CString::new(symbol.base) else {
        return ptr::null();
    };
    let mut address = ptr::null_mut();
    let code = if let Some(get) = fns.cuGetProcAddress_v2 {
        // SAFETY: the name ends in NUL, `address` is valid for the write, no status is wanted.
        unsafe { get(base.as_ptr(), &raw mut address, symbol.version, 0, ptr::null_mut()) }
    } else if let Some(get) = fns.cuGetProcAddress {
        // SAFETY: the name ends in NUL and `address` is valid for the write.
        unsafe { get(base.as_ptr(), &raw mut address, symbol.version, 0) }
    } else {
        return ptr::null();
    };
    if code == CUresult::CUDA_SUCCESS { address.cast_const() } else { ptr::null() }
}
