//! Whether NCCL and the contexts use the same driver.

use cuda_safe::Context;

use crate::error::{Error, Result};
use crate::raw::Nccl;

/// Fails if a library of the system's calls another driver than the context's: it would be given handles that it does not
/// know. NCCL's CUDA runtime calls `libcuda.so.1`. The caller of `Nccl::from_resolver` promises that its functions use the
/// right one.
pub(crate) fn is_that_of(library: &Nccl, context: &Context) -> Result<()> {
    if !library.is_library() {
        return Ok(());
    }
    let ours = context.driver().as_sys().address("cuInit");
    let theirs = address_of_cu_init();
    if theirs.is_some_and(|theirs| theirs == ours) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the contexts belong to the driver {}, but NCCL uses libcuda.so.1: unset CUDA_DRIVER, or use devices of the \
         system's driver",
        context.driver().as_sys().source()
    )))
}

/// Returns the address of `cuInit` in the loaded library of the name that the CUDA runtime loads.
#[cfg(unix)]
fn address_of_cu_init() -> Option<*const core::ffi::c_void> {
    use libloading::os::unix::{Library, RTLD_LAZY};
    // SAFETY: the library is loaded already, so no initialiser runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_LAZY | libc::RTLD_NOLOAD) };
    let library = library.ok()?;
    // SAFETY: the address of any symbol may be read as a pointer to data; it is not called here.
    let symbol = unsafe { library.get::<*const core::ffi::c_void>("cuInit") }.ok()?;
    Some(*symbol)
}

/// NCCL is for Linux.
#[cfg(not(unix))]
fn address_of_cu_init() -> Option<*const core::ffi::c_void> {
    None
}

#[cfg(test)]
mod tests {
    use core::ffi::{CStr, c_int, c_void};

    use super::*;
    use crate::raw::ncclResult_t;

    extern "C" fn version(version: *mut c_int) -> ncclResult_t {
        // SAFETY: valid for one write.
        unsafe { *version = 22809 };
        ncclResult_t::ncclSuccess
    }

    #[test]
    fn a_library_of_the_system_takes_contexts_of_its_driver_alone() -> Result<()> {
        let driver = cuda_safe::Driver::from_sys(cuda_safe::sys::noop::driver())?;
        let context = driver.device(0)?.context()?;
        let resolve = |name: &CStr| match name == c"ncclGetVersion" {
            true => version as *const c_void,
            false => core::ptr::null(),
        };
        for is_library in [false, true] {
            // SAFETY: the function has the ABI of the header.
            let library = unsafe { Nccl::of(&resolve, "a test".to_owned(), is_library) }?;
            let taken = is_that_of(library, &context);
            assert_eq!(taken.is_err(), is_library);
            let text = taken.err().map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(text.contains("NCCL uses libcuda.so.1"), is_library, "{text}");
        }
        Ok(())
    }
}
