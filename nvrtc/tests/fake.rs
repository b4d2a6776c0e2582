//! Fake compilers: functions with results that no real compiler can be made to return.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use cuda_safe_nvrtc::{Arch, Cache, CacheStatus, Error, Image, Nvrtc, Program, Uncached};
use cuda_sys::{nvrtcProgram, nvrtcResult};

/// The source is the result: `7` makes `nvrtcCompileProgram` return 7.
struct FakeProgram {
    answer: u32,
}

const LOG: &CStr = c"a.cu(1): error: made up\n";
const PTX: &CStr = c".version 8.0\n.visible .entry k(.param .u64 k_0)\n{ ret; }\n";

extern "C" fn version(major: *mut c_int, minor: *mut c_int) -> nvrtcResult {
    // SAFETY: the crate passes pointers that take one write each.
    unsafe { (*major, *minor) = (12, 3) };
    nvrtcResult::NVRTC_SUCCESS
}

extern "C" fn arch_count(count: *mut c_int) -> nvrtcResult {
    // SAFETY: the crate passes a pointer that takes one write.
    unsafe { *count = 2 };
    nvrtcResult::NVRTC_SUCCESS
}

extern "C" fn archs(to: *mut c_int) -> nvrtcResult {
    // SAFETY: the crate has room for as many as `arch_count` said.
    unsafe { ptr::copy_nonoverlapping([75, 90].as_ptr(), to, 2) };
    nvrtcResult::NVRTC_SUCCESS
}

extern "C" fn create(
    program: *mut nvrtcProgram,
    source: *const c_char,
    _: *const c_char,
    _: c_int,
    _: *const *const c_char,
    _: *const *const c_char,
) -> nvrtcResult {
    // SAFETY: the crate passes a string that ends with NUL.
    let source = unsafe { CStr::from_ptr(source) };
    let answer = source.to_str().ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let made = Box::into_raw(Box::new(FakeProgram { answer }));
    // SAFETY: the crate passes a pointer that takes one write.
    unsafe { *program = made.cast() };
    nvrtcResult::NVRTC_SUCCESS
}

extern "C" fn destroy(program: *mut nvrtcProgram) -> nvrtcResult {
    // SAFETY: the crate passes a program of `create`, once.
    drop(unsafe { Box::from_raw((*program).cast::<FakeProgram>()) });
    nvrtcResult::NVRTC_SUCCESS
}

extern "C" fn compile(program: nvrtcProgram, _: c_int, _: *const *const c_char) -> nvrtcResult {
    // SAFETY: the crate passes a living program of `create`.
    nvrtcResult(unsafe { (*program.cast::<FakeProgram>()).answer })
}

macro_rules! text {
    ($size:ident, $get:ident, $text:expr) => {
        extern "C" fn $size(_: nvrtcProgram, size: *mut usize) -> nvrtcResult {
            // SAFETY: the crate passes a pointer that takes one write.
            unsafe { *size = $text.count_bytes() + 1 };
            nvrtcResult::NVRTC_SUCCESS
        }
        extern "C" fn $get(_: nvrtcProgram, to: *mut c_char) -> nvrtcResult {
            // SAFETY: the crate has room for as many bytes as the size function said.
            unsafe { ptr::copy_nonoverlapping($text.as_ptr(), to, $text.count_bytes() + 1) };
            nvrtcResult::NVRTC_SUCCESS
        }
    };
}
text!(log_size, log, LOG);
text!(ptx_size, get_ptx, PTX);

/// The compiler, without the functions in `lacking`.
fn fake(lacking: &[&str]) -> Nvrtc {
    let functions: [(&str, *const c_void); 11] = [
        ("nvrtcVersion", version as *const c_void),
        ("nvrtcGetNumSupportedArchs", arch_count as *const c_void),
        ("nvrtcGetSupportedArchs", archs as *const c_void),
        ("nvrtcCreateProgram", create as *const c_void),
        ("nvrtcDestroyProgram", destroy as *const c_void),
        ("nvrtcCompileProgram", compile as *const c_void),
        ("nvrtcGetProgramLogSize", log_size as *const c_void),
        ("nvrtcGetProgramLog", log as *const c_void),
        ("nvrtcGetPTXSize", ptx_size as *const c_void),
        ("nvrtcGetPTX", get_ptx as *const c_void),
        ("nvrtcGetCUBINSize", ptx_size as *const c_void),
    ];
    let resolve = |name: &CStr| {
        let known = functions.iter().filter(|(n, _)| !lacking.contains(n));
        known
            .filter(|(n, _)| name.to_bytes() == n.as_bytes())
            .map(|(_, f)| *f)
            .next()
            .unwrap_or(ptr::null())
    };
    // SAFETY: the functions above have the signatures of nvrtc.h and no state but their programs.
    Nvrtc::from_functions(unsafe { cuda_sys::Nvrtc::from_resolver(&resolve) })
}

fn run(library: &Nvrtc, source: &str, arch: Arch) -> Result<Image, Error> {
    Program::new(source).library(library).cache(&Cache::off()).compile(arch)
}

#[test]
fn a_table_of_functions_compiles_but_is_not_cached() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let cache = Cache::at(folder.path().join("cache"));
    let image = Program::new("0").library(&fake(&[])).cache(&cache).compile(Arch::compute(8, 0))?;
    assert_eq!(image.cache, CacheStatus::Uncached(Uncached::Compiler));
    assert_eq!((image.arch, image.version.to_string()), (Arch::compute(7, 5), "12.3".into()));
    assert_eq!(image.kernel("k").map(ptx::Signature::param_bytes), Some(8));
    assert_eq!(image.ptx.as_deref(), PTX.to_str().ok());
    assert_eq!(fake(&[]).supported_archs()?, [Arch::compute(7, 5), Arch::compute(9, 0)]);
    assert!(!cache.folder().is_some_and(std::path::Path::exists));
    Ok(())
}

#[test]
fn a_missing_function_is_an_error_of_the_call_that_needs_it() {
    let old = fake(&["nvrtcGetCUBINSize"]);
    assert!(run(&old, "0", Arch::compute(9, 0)).is_ok());
    match run(&old, "0", Arch::sm(9, 0)) {
        Err(Error::MissingSymbol { symbol, .. }) => assert_eq!(symbol, "nvrtcGetCUBINSize"),
        other => panic!("{other:?}"),
    }
    let older = fake(&["nvrtcGetNumSupportedArchs"]);
    let message = run(&older, "0", Arch::sm(9, 0)).map_err(|e| e.to_string()).err();
    assert_eq!(message.as_deref(), Some("this NVRTC (a resolver) lacks nvrtcGetNumSupportedArchs"));
}

#[test]
fn every_answer_of_the_compiler_has_its_error() {
    let library = fake(&[]);
    let error =
        |answer: &str| run(&library, answer, Arch::compute(9, 0)).map_err(|e| e.to_string()).err();
    assert_eq!(error("0"), None);
    assert_eq!(error("6").as_deref(), Some("a.cu(1): error: made up"));
    assert_eq!(error("5").as_deref(), Some("a.cu(1): error: made up"));
    let builtins = error("7").unwrap_or_default();
    assert!(builtins.contains("12.3 belongs beside the library") || cfg!(windows), "{builtins}");
    assert_eq!(
        error("11").as_deref(),
        Some("nvrtcCompileProgram: NVRTC_ERROR_INTERNAL_ERROR (11)\na.cu(1): error: made up")
    );
    assert_eq!(
        error("4242").as_deref(),
        Some("nvrtcCompileProgram: unknown code 4242\na.cu(1): error: made up")
    );
    match run(&library, "6", Arch::compute(9, 0)) {
        Err(Error::Compile(e)) => assert_eq!(e.diagnostics.len(), 1),
        other => panic!("{other:?}"),
    }
}
