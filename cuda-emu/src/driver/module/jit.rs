//! Images and the options that they are loaded with.

use core::ffi::{CStr, c_char, c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUjit_option, CUresult};
use ptx::fatbin::{self, Fatbin};

use crate::driver::call::Answer;

/// The reason why an image is not loaded: the driver's code, and the text for the error log.
pub(in crate::driver) type Refusal = (CUresult, String);

/// Where an image is.
#[derive(Clone, Copy)]
pub(in crate::driver) enum Source<'a> {
    /// An image in the program's memory. Text ends with a NUL; other formats have their sizes in headers.
    Memory(*const c_void),
    /// Bytes whose number is known.
    Bytes(&'a [u8]),
}

/// Bytes of PTX at most that an entry of a fat binary has after decompression.
const MOST_PTX: usize = 1 << 30;

impl Source<'_> {
    /// Returns the PTX of an image for a device of compute capability `device` (90 for 9.0).
    ///
    /// # Safety
    /// An image in memory is null, or a C string, or a fat binary with the size that its header states, or a structure
    /// that points to one, or begins with the header of a cubin.
    pub(in crate::driver) unsafe fn ptx(self, device: u32) -> Result<Arc<str>, Refusal> {
        match self {
            // SAFETY: the caller's promise.
            Self::Memory(image) => unsafe { in_memory(image, device) },
            Self::Bytes(bytes) if bytes.starts_with(ELF) => Err(machine_code()),
            Self::Bytes(bytes) if bytes.starts_with(&fatbin::MAGIC) => in_fatbin(bytes, device),
            Self::Bytes(bytes) => {
                let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
                as_text(bytes.get(..end).unwrap_or_default())
            }
        }
    }
}

const ELF: &[u8] = b"\x7fELF";

/// # Safety
/// As [`Source::ptx`].
unsafe fn in_memory(image: *const c_void, device: u32) -> Result<Arc<str>, Refusal> {
    if image.is_null() {
        return Err((CUresult::CUDA_ERROR_INVALID_VALUE, String::new()));
    }
    let bytes = image.cast::<u8>();
    // SAFETY: no magic number has a NUL, so a shorter string differs before its end.
    let begins =
        |magic: &[u8]| (0..magic.len()).all(|at| unsafe { bytes.add(at).read() } == magic[at]);
    if begins(ELF) {
        return Err(machine_code());
    }
    if begins(&fatbin::WRAPPER_MAGIC) {
        // SAFETY: the structure has the magic number and a version, of four bytes each, and then the pointer.
        let data = unsafe { bytes.add(8).cast::<*const c_void>().read_unaligned() };
        // A wrapper does not point to a wrapper.
        // SAFETY: the caller's promise.
        let inner = !data.is_null() && unsafe { data.cast::<[u8; 4]>().read() } == fatbin::MAGIC;
        if !inner {
            return Err(no_image("the structure points to no fat binary"));
        }
        // SAFETY: as above.
        return unsafe { in_memory(data, device) };
    }
    if begins(&fatbin::MAGIC) {
        // SAFETY: the caller's promise: a fat binary has its header of 16 bytes.
        let header = unsafe { bytes.cast::<[u8; 16]>().read() };
        let size = Fatbin::size(&header).and_then(|size| isize::try_from(size).ok());
        let Some(size) = size else { return Err(no_image("an unknown version of fat binaries")) };
        // SAFETY: the caller's promise: the fat binary has the size that its header states.
        let bytes = unsafe { core::slice::from_raw_parts(bytes, size.unsigned_abs()) };
        return in_fatbin(bytes, device);
    }
    // SAFETY: it is none of the binary kinds, so it is a C string.
    as_text(unsafe { CStr::from_ptr(image.cast()) }.to_bytes())
}

fn in_fatbin(bytes: &[u8], device: u32) -> Result<Arc<str>, Refusal> {
    let fatbin = Fatbin::parse(bytes).map_err(|error| no_image(&error.to_string()))?;
    let entry = fatbin.ptx_for(device);
    let entry =
        entry.map_err(|error| (CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, format!("{error}\n")))?;
    let text = entry.ptx(MOST_PTX).map_err(|error| no_image(&error.to_string()))?;
    as_text(text.as_bytes())
}

fn as_text(bytes: &[u8]) -> Result<Arc<str>, Refusal> {
    match core::str::from_utf8(bytes) {
        Ok(text) if text.contains(".version") => Ok(text.into()),
        _ => Err(no_image("the image is no PTX")),
    }
}

fn no_image(why: &str) -> Refusal {
    (CUresult::CUDA_ERROR_INVALID_IMAGE, format!("{why}\n"))
}

fn machine_code() -> Refusal {
    let why = "the image is machine code; the software device runs PTX\n";
    (CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU, why.to_owned())
}

/// A buffer of the caller's for a log, and where its size is written.
#[derive(Clone, Copy)]
struct Log {
    buffer: *mut c_char,
    size: usize,
    told: *mut *mut c_void,
}

// SAFETY: the buffer and the place are the program's, which may be written from any thread: the program promises that
// they are valid for as long as the options are in use, and calls that use one link at a time.
unsafe impl Send for Log {}

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
pub(in crate::driver) struct Options {
    info: Log,
    error: Log,
    verbose: bool,
    /// 0 for no limit.
    pub(in crate::driver) max_registers: u32,
}

impl Options {
    /// Reads a list of options.
    ///
    /// # Safety
    /// The lists are null or have `count` elements, and the log buffers in them the sizes that
    /// stand beside them.
    pub(in crate::driver) unsafe fn read(
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
    pub(in crate::driver) unsafe fn tell(&self, outcome: Result<usize, &str>) {
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
