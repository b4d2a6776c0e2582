//! Names of errors, and functions by name.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Once, OnceLock};

use cuda_sys::{CUdriverProcAddressQueryResult, CUresult, CUuuid, cuuint64_t};

use super::call::{Answer, functions, put, put_if_wanted, text};
use super::table;

/// Returns a static C string of a code's name or description.
fn told(code: CUresult, name: bool) -> Answer<*const c_char> {
    type Texts = HashMap<i64, (CString, CString)>;
    static TEXTS: OnceLock<Texts> = OnceLock::new();
    let texts = TEXTS.get_or_init(|| {
        let of = |code: &CUresult| {
            let name = CString::new(code.name()?).ok()?;
            let known = code.driver_text().map(CStr::to_owned);
            let own = || CString::new(code.description().unwrap_or("unknown")).ok();
            let description = known.or_else(own)?;
            Some((i64::from(code.0), (name, description)))
        };
        CUresult::ALL.iter().filter_map(of).collect()
    });
    let texts = texts.get(&i64::from(code.0)).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    Ok(if name { texts.0.as_ptr() } else { texts.1.as_ptr() })
}

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: cuuint64_t = 2;

/// Looks a function up; the status says why there is none.
fn find(
    symbol: &str,
    version: c_int,
    flags: cuuint64_t,
) -> Result<*mut c_void, CUdriverProcAddressQueryResult> {
    let found = table::by_version(symbol, version, flags & PER_THREAD != 0);
    if found.is_err() {
        crate::run::note_unsupported(symbol);
    }
    found.map(<*const c_void>::cast_mut)
}

functions! {
    Nothing fn cuGetErrorName(code: CUresult, place: *mut *const c_char) {
        let name = told(code, true);
        put(place, name.unwrap_or(core::ptr::null()))?;
        name.map(drop)
    }
    Nothing fn cuGetErrorString(code: CUresult, place: *mut *const c_char) {
        let description = told(code, false);
        put(place, description.unwrap_or(core::ptr::null()))?;
        description.map(drop)
    }
    Nothing fn cuGetExportTable(table: *mut *const c_void, _id: *const CUuuid) {
        // NVIDIA's runtime asks for private tables, which this device does not have.
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            eprintln!(
                "cuda-emu: NVIDIA's CUDA runtime does not run on the software device: link the program with \
                 `-cudart shared` and load this project's libcudart.so (docs/nvcc-programs.md)"
            );
        });
        put_if_wanted(table, core::ptr::null());
        crate::run::note_unsupported("cuGetExportTable");
        Err(CUresult::CUDA_ERROR_NOT_SUPPORTED)
    }
    Nothing fn cuGetProcAddress(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: cuuint64_t
    ) {
        let found = find(text(symbol)?, version, flags);
        put(function, *found.as_ref().unwrap_or(&core::ptr::null_mut()))?;
        found.map(drop).map_err(|_| CUresult::CUDA_ERROR_NOT_FOUND)
    }
    Nothing fn cuGetProcAddress_v2(
        symbol: *const c_char, function: *mut *mut c_void, version: c_int, flags: cuuint64_t,
        status: *mut CUdriverProcAddressQueryResult
    ) {
        let found = find(text(symbol)?, version, flags);
        put(function, *found.as_ref().unwrap_or(&core::ptr::null_mut()))?;
        let why = found
            .err()
            .unwrap_or(CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS);
        put_if_wanted(status, why);
        // A caller that passes a place for the status gets it there.
        if found.is_ok() || !status.is_null() { Ok(()) } else { Err(CUresult::CUDA_ERROR_NOT_FOUND) }
    }
}

/// Returns the address of the function with this exported name; null if there is none.
///
/// This is what [`cuda_sys::Driver::from_resolver`] wants.
#[must_use]
pub fn resolve(name: &CStr) -> *const c_void {
    name.to_str().map_or(core::ptr::null(), table::address)
}
