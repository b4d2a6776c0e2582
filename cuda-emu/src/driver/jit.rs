//! Images and the options that they are loaded with.

use core::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUjit_option, CUresult};

use super::call::Answer;

/// The kind of an image.
pub(super) enum Image {
    Ptx(Arc<str>),
    /// Machine code, or a container of it.
    Binary,
}

/// Detects the kind of an image. Text ends with a NUL.
///
/// # Safety
/// `image` is null, or a C string, or begins with the header of a cubin or a fat binary.
pub(super) unsafe fn read(image: *const c_void) -> Answer<Image> {
    if image.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let bytes = image.cast::<u8>();
    for magic in [*b"\x7fELF", 0xba55_ed50_u32.to_le_bytes(), 0x4662_43b1_u32.to_le_bytes()] {
        // SAFETY: no magic number has a NUL, so a shorter string differs before its end.
        if (0..4).all(|at| unsafe { bytes.add(at).read() } == magic[at]) {
            return Ok(Image::Binary);
        }
    }
    // SAFETY: it is none of the binary kinds, so it is a C string.
    let text = unsafe { CStr::from_ptr(image.cast()) };
    let text = text.to_str().map_err(|_| CUresult::CUDA_ERROR_INVALID_IMAGE)?;
    if !text.contains(".version") {
        return Err(CUresult::CUDA_ERROR_INVALID_IMAGE);
    }
    Ok(Image::Ptx(text.into()))
}

/// A buffer of the caller's for a log, and where its size is written.
#[derive(Clone, Copy)]
struct Log {
    buffer: *mut c_char,
    size: usize,
    told: *mut *mut c_void,
}

impl Log {
    const NONE: Self = Self { buffer: core::ptr::null_mut(), size: 0, told: core::ptr::null_mut() };

    /// Writes as much as fits.
    ///
    /// # Safety
    /// The buffer and the place of its size are the caller's, as [`Options::read`] found them.
    unsafe fn write(&self, text: &str) {
        let room = self.size.saturating_sub(1);
        let count = if self.buffer.is_null() { 0 } else { text.len().min(room) };
        // SAFETY: the buffer has `size` bytes, and `count` is less.
        unsafe {
            if !self.buffer.is_null() && self.size > 0 {
                let buffer = self.buffer.cast::<u8>();
                buffer.copy_from_nonoverlapping(text.as_ptr(), count);
                buffer.add(count).write(0);
            }
            if !self.told.is_null() {
                let used = if count == 0 { 0 } else { count + 1 };
                self.told.write(core::ptr::without_provenance_mut(used));
            }
        }
    }
}

/// The options that mean something here.
pub(super) struct Options {
    info: Log,
    error: Log,
    verbose: bool,
    /// 0 for no limit.
    pub(super) max_registers: u32,
}

impl Options {
    /// Reads a list of options.
    ///
    /// # Safety
    /// The lists are null or have `count` elements, and the log buffers in them the sizes that
    /// stand beside them.
    pub(super) unsafe fn read(
        count: c_uint,
        options: *mut CUjit_option,
        values: *mut *mut c_void,
    ) -> Answer<Self> {
        let mut all = Self { info: Log::NONE, error: Log::NONE, verbose: false, max_registers: 0 };
        if count == 0 {
            return Ok(all);
        }
        if options.is_null() || values.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        for index in 0..count as usize {
            // SAFETY: the caller's promise.
            let (option, place) = unsafe { (options.add(index).read(), values.add(index)) };
            // SAFETY: as above.
            let value = unsafe { place.read() };
            match option {
                CUjit_option::CU_JIT_INFO_LOG_BUFFER => all.info.buffer = value.cast(),
                CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES => {
                    (all.info.size, all.info.told) = (value.addr(), place);
                }
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER => all.error.buffer = value.cast(),
                CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES => {
                    (all.error.size, all.error.told) = (value.addr(), place);
                }
                CUjit_option::CU_JIT_LOG_VERBOSE => all.verbose = value.addr() != 0,
                CUjit_option::CU_JIT_MAX_REGISTERS => all.max_registers = value.addr() as u32,
                CUjit_option::CU_JIT_WALL_TIME => {
                    // The place of the option's value takes the result, a float.
                    // SAFETY: it has room for a pointer.
                    unsafe { place.cast::<f32>().write(0.0) };
                }
                other if other.0 < CUjit_option::CU_JIT_NUM_OPTIONS.0 => {}
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
        }
        Ok(all)
    }

    /// Writes the JIT log of loading.
    ///
    /// # Safety
    /// As [`Options::read`], whose buffers are still there.
    pub(super) unsafe fn tell(&self, outcome: Result<usize, &str>) {
        // SAFETY: the caller's promise.
        unsafe {
            match outcome {
                Ok(kernels) => {
                    let text = format!("info    : {kernels} kernels, run by the software device\n");
                    self.info.write(if self.verbose { &text } else { "" });
                    self.error.write("");
                }
                Err(log) => {
                    self.info.write("");
                    self.error.write(log);
                }
            }
        }
    }
}
