//! The time that this crate adds to a cold compile. Needs no GPU.

use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::ptr;

use cuda_sys::{nvrtcProgram, nvrtcResult};
use nvrtc::{Cache, Program};
use serde_json::json;

use super::{Bench, Work};
use crate::gpu::SAXPY_CU;
use crate::report::{Row, Unit};
use crate::stats::median;
use crate::stop::Stop;
use crate::timing::{Paired, once};

pub(super) const WORKS: &[Work] = &[Work { names: &["nvrtc_compile/saxpy"], run: compile }];

fn compile(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let (library, arch) = (bench.nvrtc()?, bench.arch()?);
    let version = library.version()?;
    let path = library.path().ok_or_else(|| Stop::failed("the compiler has no file"))?;
    // SAFETY: the NVRTC that `library` is.
    let functions = unsafe { cuda_sys::Nvrtc::load_from(path) }?;
    let image = || {
        let program = Program::new(SAXPY_CU).name("saxpy.cu").library(&library);
        Ok::<_, Stop>(program.cache(&Cache::off()).compile(arch)?)
    };
    let (source, option) = (CString::new(SAXPY_CU)?, format!("--gpu-architecture={arch}"));
    let option = CString::new(option)?;
    let bare = || Bare::compile(functions, &source, &option);

    let (ours, theirs) = (image()?, bare()?);
    if ours.cubin.as_deref() != Some(&*theirs.cubin) || ours.arch != arch {
        return Err(Stop::failed("ours and the raw calls gave different cubins"));
    }
    let milliseconds = |(time, _dropped_outside): (f64, _)| time / 1e6;
    let paired =
        Paired::measure(bench.pairs, &mut || once(image).map(|(time, _)| time / 1e6), &|| {
            once(bare).map(milliseconds)
        })?;
    let (ratio, aa) = (paired.ratio(), paired.aa_ratio());
    let raw = median(&paired.raw);
    Ok(vec![
        Row::new("nvrtc_compile/saxpy", Unit::Ms, &paired.ours)
            .figure("raw_ms", raw)
            .figure("ratio", ratio.median)
            .figure("aa_ratio", aa)
            .extra("nvrtc", json!(version.to_string()))
            .note(format!("raw {raw:.2}, ratio {:.4}, A/A {aa:.4}", ratio.median))
            .check("same cubin as the raw calls")
            .image(arch.to_string())
            .at_most("ratio", ratio.median, 1.05),
    ])
}

/// The results of the raw calls.
struct Bare {
    cubin: Vec<u8>,
    _ptx: Vec<u8>,
    _log: Vec<u8>,
}

#[derive(Debug)]
struct BareError(&'static str, nvrtcResult);

impl fmt::Display for BareError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "raw {}: {}", self.0, self.1.name().unwrap_or("an unknown code"))
    }
}

impl std::error::Error for BareError {}

fn check(call: &'static str, code: nvrtcResult) -> Result<(), BareError> {
    if code == nvrtcResult::NVRTC_SUCCESS { Ok(()) } else { Err(BareError(call, code)) }
}

impl Bare {
    /// From create to destroy, with everything fetched that ours fetches: log, cubin and PTX.
    fn compile(
        functions: &'static cuda_sys::Nvrtc,
        source: &CStr,
        option: &CStr,
    ) -> Result<Self, Stop> {
        let mut program = ptr::null_mut();
        let name = c"saxpy.cu".as_ptr();
        let (to, none) = (&raw mut program, ptr::null());
        // SAFETY: `to` takes a handle; both strings end with NUL; there are no headers.
        let code =
            unsafe { functions.nvrtcCreateProgram(to, source.as_ptr(), name, 0, none, none) }?;
        check("nvrtcCreateProgram", code)?;
        let options = [option.as_ptr()];
        // SAFETY: the program is alive, and there is one option, a string that ends with NUL.
        let code = unsafe { functions.nvrtcCompileProgram(program, 1, options.as_ptr()) }?;
        check("nvrtcCompileProgram", code)?;
        let fns = functions.fns();
        // SAFETY: each pair is the size of something of a compiled program, and that something.
        let result = unsafe {
            Self {
                _log: fetch(program, fns.nvrtcGetProgramLogSize, fns.nvrtcGetProgramLog)?,
                cubin: fetch(program, fns.nvrtcGetCUBINSize, fns.nvrtcGetCUBIN)?,
                _ptx: fetch(program, fns.nvrtcGetPTXSize, fns.nvrtcGetPTX)?,
            }
        };
        // SAFETY: created above, and not used again.
        check("nvrtcDestroyProgram", unsafe { functions.nvrtcDestroyProgram(to) }?)?;
        Ok(result)
    }
}

/// # Safety
/// `size` gives the size of what `get` writes, both of the living `program`.
unsafe fn fetch(
    program: nvrtcProgram,
    size: Option<unsafe extern "C" fn(nvrtcProgram, *mut usize) -> nvrtcResult>,
    get: Option<unsafe extern "C" fn(nvrtcProgram, *mut c_char) -> nvrtcResult>,
) -> Result<Vec<u8>, Stop> {
    let (Some(size), Some(get)) = (size, get) else {
        return Err(Stop::NotRun("this NVRTC gives no cubin".into()));
    };
    let mut bytes = 0;
    // SAFETY: the program is alive, says the caller; `bytes` takes a size.
    check("the size of an output", unsafe { size(program, &raw mut bytes) })?;
    let mut output = vec![0u8; bytes];
    // SAFETY: as above; there is room for as many bytes as the library has just said.
    check("an output", unsafe { get(program, output.as_mut_ptr().cast()) })?;
    Ok(output)
}
