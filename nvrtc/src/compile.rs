//! The calls of one compile, from `nvrtcCreateProgram` to the image.
#![allow(unsafe_code, reason = "calls NVRTC")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;

use cuda_sys::{nvrtcProgram, nvrtcResult};

use crate::error::CompileError;
use crate::hint::Source;
use crate::library::check;
use crate::{Error, NvrtcVersion, find};

/// The arguments of the calls, as C strings.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) source: CString,
    pub(crate) name: CString,
    pub(crate) header_names: Vec<CString>,
    pub(crate) header_texts: Vec<CString>,
    pub(crate) expressions: Vec<CString>,
    /// Where the source stands, if its first line is a directive that says so.
    pub(crate) place: Option<(String, u32)>,
    pub(crate) flags: Vec<CString>,
    /// The outputs to fetch.
    pub(crate) cubin: bool,
    pub(crate) lto: bool,
}

/// The results of the calls.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) cubin: Option<Vec<u8>>,
    pub(crate) ptx: Option<String>,
    pub(crate) lto_ir: Option<Vec<u8>>,
    pub(crate) lowered: Vec<String>,
    pub(crate) log: String,
}

/// Returns a C string, or an error that names the input.
pub(crate) fn c_string(what: impl FnOnce() -> String, text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|nul| Error::InvalidInput {
        what: what(),
        why: format!("byte {} is NUL, which ends a C string", nul.nul_position()),
    })
}

fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).collect()
}

fn count(strings: &[CString]) -> Result<c_int, Error> {
    c_int::try_from(strings.len()).map_err(|_| Error::InvalidInput {
        what: "the program".into(),
        why: "too many headers or options".into(),
    })
}

pub(crate) fn compile(
    raw: &'static cuda_sys::Nvrtc,
    version: NvrtcVersion,
    input: &Input,
) -> Result<Output, Error> {
    let program = Handle::create(raw, input)?;
    for expression in &input.expressions {
        // SAFETY: the program is alive, and the string ends with NUL and outlives the call.
        let code = unsafe { raw.nvrtcAddNameExpression(program.raw, expression.as_ptr()) };
        check(raw, "nvrtcAddNameExpression", code)?;
    }
    let flags = pointers(&input.flags);
    // SAFETY: the program is alive; `flags` holds as many NUL-terminated strings as said, and they
    // outlive the call.
    let code =
        unsafe { raw.nvrtcCompileProgram(program.raw, count(&input.flags)?, flags.as_ptr()) };
    let log = program.bytes(Artifact::Log).map(text);
    match code {
        Ok(nvrtcResult::NVRTC_ERROR_COMPILATION) => {
            let [name, source] = [&input.name, &input.source].map(|text| text.to_string_lossy());
            let source = match &input.place {
                None => Source { name: &name, text: &source, line: 1 },
                Some((file, line)) => {
                    let text = source.split_once('\n').map_or("", |(_, text)| text);
                    Source { name: file, text, line: *line }
                }
            };
            return Err(Error::Compile(CompileError::new(log?, source)));
        }
        Ok(nvrtcResult::NVRTC_ERROR_INVALID_OPTION) => {
            return Err(Error::InvalidOption { log: log? });
        }
        Ok(nvrtcResult::NVRTC_ERROR_BUILTIN_OPERATION_FAILURE) => {
            return Err(Error::Builtins { expected: find::builtins_name(version), log: log? });
        }
        Ok(code) if code != nvrtcResult::NVRTC_SUCCESS => {
            return Err(Error::Status { call: "nvrtcCompileProgram", code, log: log? });
        }
        answer => check(raw, "nvrtcCompileProgram", answer)?,
    }
    let bytes = |wanted: bool, artifact| {
        let bytes = if wanted { program.bytes(artifact)? } else { Vec::new() };
        Ok::<_, Error>(Some(bytes).filter(|b| !b.is_empty()))
    };
    Ok(Output {
        cubin: bytes(input.cubin && !input.lto, Artifact::Cubin)?,
        ptx: bytes(!input.lto, Artifact::Ptx)?.map(text),
        lto_ir: bytes(input.lto, Artifact::LtoIr)?,
        lowered: input.expressions.iter().map(|e| program.lowered(e)).collect::<Result<_, _>>()?,
        log: log?,
    })
}

/// The outputs of a program after compiling.
#[derive(Debug, Clone, Copy)]
enum Artifact {
    Log,
    Ptx,
    Cubin,
    LtoIr,
}

impl Artifact {
    /// Returns the functions for its size and its bytes.
    fn calls(self) -> [&'static str; 2] {
        match self {
            Self::Log => ["nvrtcGetProgramLogSize", "nvrtcGetProgramLog"],
            Self::Ptx => ["nvrtcGetPTXSize", "nvrtcGetPTX"],
            Self::Cubin => ["nvrtcGetCUBINSize", "nvrtcGetCUBIN"],
            Self::LtoIr => ["nvrtcGetLTOIRSize", "nvrtcGetLTOIR"],
        }
    }
}

/// A program of the library's.
struct Handle {
    library: &'static cuda_sys::Nvrtc,
    raw: nvrtcProgram,
}

impl Handle {
    fn create(library: &'static cuda_sys::Nvrtc, input: &Input) -> Result<Self, Error> {
        let (texts, names) = (pointers(&input.header_texts), pointers(&input.header_names));
        let mut raw: nvrtcProgram = ptr::null_mut();
        // SAFETY: every string ends with NUL, both arrays hold as many as said, all of them outlive the
        // call (NVRTC copies them), and `raw` is valid for one write.
        let code = unsafe {
            library.nvrtcCreateProgram(
                &raw mut raw,
                input.source.as_ptr(),
                input.name.as_ptr(),
                count(&input.header_texts)?,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        check(library, "nvrtcCreateProgram", code)?;
        Ok(Self { library, raw })
    }

    fn bytes(&self, artifact: Artifact) -> Result<Vec<u8>, Error> {
        let (library, program) = (self.library, self.raw);
        let [size_call, bytes_call] = artifact.calls();
        let mut length = 0_usize;
        let size = &raw mut length;
        // SAFETY: the program is alive, and `size` is valid for one write.
        let code = unsafe {
            match artifact {
                Artifact::Log => library.nvrtcGetProgramLogSize(program, size),
                Artifact::Ptx => library.nvrtcGetPTXSize(program, size),
                Artifact::Cubin => library.nvrtcGetCUBINSize(program, size),
                Artifact::LtoIr => library.nvrtcGetLTOIRSize(program, size),
            }
        };
        check(library, size_call, code)?;
        // NVRTC returns 0 for what the compile did not produce, and must not be asked for it then.
        if length == 0 {
            return Ok(Vec::new());
        }
        let mut bytes = vec![0_u8; length];
        let to = bytes.as_mut_ptr().cast::<c_char>();
        // SAFETY: the program is alive, and `to` has room for the bytes that it has just announced.
        let code = unsafe {
            match artifact {
                Artifact::Log => library.nvrtcGetProgramLog(program, to),
                Artifact::Ptx => library.nvrtcGetPTX(program, to),
                Artifact::Cubin => library.nvrtcGetCUBIN(program, to),
                Artifact::LtoIr => library.nvrtcGetLTOIR(program, to),
            }
        };
        check(library, bytes_call, code)?;
        Ok(bytes)
    }

    fn lowered(&self, expression: &CStr) -> Result<String, Error> {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the program is alive and compiled, the string ends with NUL, `name` takes one write.
        let code = unsafe {
            self.library.nvrtcGetLoweredName(self.raw, expression.as_ptr(), &raw mut name)
        };
        check(self.library, "nvrtcGetLoweredName", code)?;
        if name.is_null() {
            return Err(Error::Status {
                call: "nvrtcGetLoweredName",
                code: nvrtcResult::NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID,
                log: expression.to_string_lossy().into_owned(),
            });
        }
        // SAFETY: after success it points to a NUL-terminated string that lives as long as the program.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: created by this library and destroyed only here. Nothing could be done about an error.
        let _ = unsafe { self.library.nvrtcDestroyProgram(&raw mut self.raw) };
    }
}

/// Returns the text that the library wrote, up to its NUL. Bytes that are not UTF-8 come from file names or comments of
/// the source.
fn text(mut bytes: Vec<u8>) -> String {
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}
