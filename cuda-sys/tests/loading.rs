//! Loading: real shared libraries, built here by the C compiler, and resolvers.
#![cfg(unix)]

use std::error::Error;
use std::ffi::{CStr, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;

use cuda_safe_sys::{CUresult, Driver, MissingLibrary, Nvrtc, nvrtcResult};

type Outcome = Result<(), Box<dyn Error>>;

/// Compiles `source` into a shared library in `folder`.
fn build(folder: &Path, name: &str, source: &str) -> Result<PathBuf, Box<dyn Error>> {
    let text = folder.join(format!("{name}.c"));
    let library = folder.join(format!("lib{name}.so"));
    std::fs::write(&text, source)?;
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let status = Command::new(compiler)
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&text)
        .status()?;
    if status.success() { Ok(library) } else { Err(format!("cc: {status}").into()) }
}

/// Loads what [`build`] made.
fn load(path: &Path) -> Result<&'static Driver, MissingLibrary> {
    // SAFETY: the sources of this file have no initialisers, and functions with the ABI of their names.
    unsafe { Driver::load_from(path) }
}

/// A driver of version `version` with `cuInit`, which returns `init`.
fn small_driver(version: i32, init: u32) -> String {
    format!(
        "int cuDriverGetVersion(int *v) {{ *v = {version}; return 0; }}
         int cuInit(unsigned flags) {{ (void)flags; return {init}; }}"
    )
}

#[test]
fn a_library_is_bound_by_exported_name() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = build(folder.path(), "small", &small_driver(12020, 100))?;
    let driver = load(&path)?;
    assert_eq!(driver.version(), Some(12020));
    assert_eq!(Path::new(driver.source()), path);
    assert!(driver.supports("cuInit"));
    assert!(!driver.supports("cuMemAlloc_v2"));
    assert!(!driver.supports("cuMemAlloc"), "a name without a slot");
    // SAFETY: the function takes no pointer.
    let code = unsafe { driver.cuInit(0) }?;
    assert_eq!(code, CUresult::CUDA_ERROR_NO_DEVICE);
    Ok(())
}

#[test]
fn a_missing_symbol_tells_both_versions() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = build(folder.path(), "old", &small_driver(12000, 0))?;
    let driver = load(&path)?;
    // SAFETY: nothing is called.
    let missing = unsafe { driver.cuCtxCreate_v4(ptr::null_mut(), ptr::null_mut(), 0, 0) };
    let missing = missing.err().ok_or("the library has no cuCtxCreate_v4")?;
    assert_eq!((missing.needs, missing.driver), (Some(12050), Some(12000)));
    assert_eq!(
        missing.to_string(),
        "this CUDA driver (12.0) has no cuCtxCreate_v4, which came with CUDA 12.5"
    );
    Ok(())
}

#[test]
fn two_drivers_live_in_one_process() -> Outcome {
    let folder = tempfile::tempdir()?;
    let first = load(&build(folder.path(), "first", &small_driver(12000, 1))?)?;
    let second = load(&build(folder.path(), "second", &small_driver(13000, 2))?)?;
    // SAFETY: the functions take no pointer.
    let codes = unsafe { (first.cuInit(0)?, second.cuInit(0)?) };
    assert_eq!(codes, (CUresult(1), CUresult(2)));
    assert_eq!((first.version(), second.version()), (Some(12000), Some(13000)));
    Ok(())
}

/// A driver that exports only `cuGetProcAddress_v2`, which has an address for every version.
const BY_ADDRESS: &str = "
    static int init(unsigned flags) { (void)flags; return 101; }
    static int asked;
    int cuDriverGetVersion(int *v) { *v = 12020; return 0; }
    int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long long flags,
                            int *status) {
        (void)flags; (void)status;
        if (version > 12020) asked = 1;
        *f = 0;
        const char *wanted = \"cuInit\";
        while (*wanted && *wanted == *name) { wanted++; name++; }
        if (*wanted != *name) return 500;
        *f = (void *)init;
        return 0;
    }
    int cuCtxSynchronize(void) { return asked ? 999 : 0; }
";

#[test]
fn a_name_that_is_not_exported_is_asked_of_the_driver() -> Outcome {
    let folder = tempfile::tempdir()?;
    let driver = load(&build(folder.path(), "by_address", BY_ADDRESS)?)?;
    // SAFETY: the functions take no pointer.
    let (init, asked) = unsafe { (driver.cuInit(0)?, driver.cuCtxSynchronize()?) };
    assert_eq!(init, CUresult::CUDA_ERROR_INVALID_DEVICE);
    assert_eq!(asked, CUresult::CUDA_SUCCESS, "asked for an ABI newer than the driver");
    assert!(!driver.supports("cuMemAlloc_v2"));
    Ok(())
}

#[test]
fn a_failure_names_the_library_and_the_cause() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("libnothing.so");
    let error = load(&path).err().ok_or("there is no such library")?;
    assert_eq!(error.tried().len(), 1);
    assert_eq!(error.tried()[0].name(), path);
    assert!(!error.tried()[0].reason().is_empty());
    let text = error.to_string();
    assert!(text.starts_with("the CUDA driver could not be loaded; tried "), "{text}");
    assert!(text.contains("libnothing.so"), "{text}");

    let garbage = folder.path().join("libgarbage.so");
    std::fs::write(&garbage, b"not a library")?;
    // SAFETY: it is no library, so nothing of it runs.
    let error = unsafe { Nvrtc::load_from(&garbage) }.err().ok_or("that is no library")?;
    assert!(error.to_string().starts_with("NVRTC could not be loaded"), "{error}");
    Ok(())
}

/// The system's loader would wait for somebody to write to the FIFO.
#[test]
fn a_fifo_in_place_of_a_library_is_refused() -> Outcome {
    let folder = tempfile::tempdir()?;
    let fifo = folder.path().join("libcuda.so.1");
    assert!(Command::new("mkfifo").arg(&fifo).status()?.success());
    let (sender, receiver) = std::sync::mpsc::channel();
    // Not joined: it hangs where the FIFO is opened.
    std::thread::spawn(move || {
        let error = load(&fifo).err().map(|error| error.tried()[0].reason().to_owned());
        sender.send(error)
    });
    let reason = receiver.recv_timeout(std::time::Duration::from_secs(20))?;
    assert_eq!(reason.as_deref(), Some("not a regular file"));
    Ok(())
}

unsafe extern "C" fn version(version: *mut c_int) -> CUresult {
    // SAFETY: the caller passes a pointer that is valid for the write.
    unsafe { version.write(12090) };
    CUresult::CUDA_SUCCESS
}

unsafe extern "C" fn nvrtc_version(major: *mut c_int, minor: *mut c_int) -> nvrtcResult {
    // SAFETY: the caller passes pointers that are valid for the write.
    unsafe { (major.write(12), minor.write(9)) };
    nvrtcResult::NVRTC_SUCCESS
}

fn resolve(name: &CStr) -> *const c_void {
    match name.to_bytes() {
        b"cuDriverGetVersion" => version as *const c_void,
        b"nvrtcVersion" => nvrtc_version as *const c_void,
        _ => ptr::null(),
    }
}

#[test]
fn a_resolver_fills_the_table() {
    // SAFETY: the functions above have the C ABI of their names.
    let driver = unsafe { Driver::from_resolver(&resolve) };
    assert_eq!(driver.version(), Some(12090));
    assert_eq!(driver.source(), "a resolver");
    assert!(driver.fns().cuInit.is_none());
    assert!(driver.supports("cuDriverGetVersion") && !driver.supports("cuInit"));
    assert!(format!("{driver:?}").contains("bound: 1"), "{driver:?}");
}

#[test]
fn a_driver_without_a_version_still_names_what_is_missing() -> Outcome {
    // SAFETY: no address is given.
    let driver = unsafe { Driver::from_resolver(&|_| ptr::null()) };
    // SAFETY: nothing is called.
    let missing = unsafe { driver.cuInit(0) }.err().ok_or("the table is empty")?;
    assert_eq!(missing.to_string(), "this CUDA driver has no cuInit, which came with CUDA 2.0");
    Ok(())
}

#[test]
fn nvrtc_comes_in_by_a_resolver_too() -> Outcome {
    // SAFETY: the functions above have the C ABI of their names.
    let nvrtc = unsafe { Nvrtc::from_resolver(&resolve) };
    assert_eq!(nvrtc.version(), Some(12090));
    assert!(nvrtc.supports("nvrtcVersion") && !nvrtc.supports("nvrtcGetPTX"));
    // SAFETY: nothing is called.
    let missing = unsafe { nvrtc.nvrtcGetPTX(ptr::null_mut(), ptr::null_mut()) };
    let missing = missing.err().ok_or("the table has no nvrtcGetPTX")?;
    assert_eq!(missing.to_string(), "this NVRTC (12.9) has no nvrtcGetPTX");
    Ok(())
}
