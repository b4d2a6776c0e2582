//! Programs whose device code is in several objects (`nvcc -rdc=true`): their parts are linked before they are loaded.

use core::ffi::c_void;
use core::ptr;

use cuda_sys::{CUjit_option, CUjitInputType, CUlibrary, CUlinkState, Driver};

use crate::bindings::runtime::{cudaError, cudaError_t};
use crate::call::{CudaResult, check};
use crate::registry::load_image;

/// The bytes of the header of a fat binary that give its size: a number of 2 bytes at 6, one of 8 bytes at 8.
const SIZE_OF_HEADER_AT: usize = 6;
const SIZE_AT: usize = 8;

/// Returns the size of a fat binary.
///
/// # Safety
/// `image` points to a fat binary.
unsafe fn size(image: *const c_void) -> usize {
    let image = image.cast::<u8>();
    // SAFETY: the header of a fat binary has 16 bytes.
    let (header, rest) = unsafe {
        (
            image.add(SIZE_OF_HEADER_AT).cast::<u16>().read_unaligned(),
            image.add(SIZE_AT).cast::<u64>().read_unaligned(),
        )
    };
    usize::from(header).saturating_add(usize::try_from(rest).unwrap_or(usize::MAX))
}

/// Links the parts of a program, and loads the result.
///
/// # Safety
/// `image` is null or a fat binary, `parts` is null or a list of fat binaries that ends in null.
pub(crate) unsafe fn load(
    driver: &Driver,
    image: *const c_void,
    parts: *const *const c_void,
) -> CudaResult<CUlibrary> {
    let mut all = Vec::new();
    if !parts.is_null() {
        let mut at = parts;
        // SAFETY: the list ends in null.
        while let part = unsafe { at.read() }
            && !part.is_null()
        {
            all.push(part);
            // SAFETY: as above: this element was not the last.
            at = unsafe { at.add(1) };
        }
    }
    if all.is_empty() {
        // SAFETY: the caller's promise.
        return unsafe { load_image(driver, image) };
    }
    let mut state = ptr::null_mut();
    let none: *mut CUjit_option = ptr::null_mut();
    // SAFETY: the place is valid for the write, and there are no options.
    check(unsafe { driver.cuLinkCreate_v2(0, none, ptr::null_mut(), &raw mut state) })?;
    let linked = add(driver, state, &all).and_then(|left_out| {
        let (mut image, mut bytes) = (ptr::null_mut(), 0);
        // SAFETY: the places are valid for the writes, and the linker is alive.
        check(unsafe { driver.cuLinkComplete(state, &raw mut image, &raw mut bytes) })
            .map_err(|code| left_out.unwrap_or(code))?;
        // SAFETY: the image is what the driver has linked, and is alive while the linker is.
        unsafe { load_image(driver, image) }
    });
    // SAFETY: the linker is alive, and nobody uses it from here on.
    let destroyed = check(unsafe { driver.cuLinkDestroy(state) });
    let library = linked?;
    destroyed.map(|()| library)
}

/// Adds parts to a linker. A part without an image for the device is left out: nvcc adds its library of the device
/// runtime to each program, and few programs use it. Returns the code of such a part, which is the reason if a name is
/// missing then.
fn add(
    driver: &Driver,
    state: CUlinkState,
    parts: &[*const c_void],
) -> CudaResult<Option<cudaError_t>> {
    let none: *mut CUjit_option = ptr::null_mut();
    let mut left_out = None;
    for &part in parts {
        // SAFETY: the part is a fat binary.
        let bytes = unsafe { size(part) };
        let (kind, name) = (CUjitInputType::CU_JIT_INPUT_FATBINARY, c"part".as_ptr());
        // SAFETY: the linker is alive, the part has this many bytes, the name ends in NUL, and there are no options.
        let added = check(unsafe {
            let part = part.cast_mut();
            driver.cuLinkAddData_v2(state, kind, part, bytes, name, 0, none, ptr::null_mut())
        });
        match added {
            Err(code) if code == cudaError::cudaErrorNoKernelImageForDevice => {
                left_out = Some(code);
            }
            other => other?,
        }
    }
    Ok(left_out)
}
