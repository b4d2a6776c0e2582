//! Every function has an address, by name and by version, and the documentation lists them.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::ptr;

use cuda_sys::{CUdriverProcAddressQueryResult, CUresult, DRIVER_SYMBOLS};

mod common;
use common::{call, driver, fails, ok};

#[test]
fn every_slot_is_bound() {
    for symbol in DRIVER_SYMBOLS {
        assert!(driver().supports(symbol.name), "{}", symbol.name);
    }
    assert!(cuda_emu::resolve(c"cuNoSuchThing").is_null());
    assert_eq!(driver().version(), Some(13_000));
}

#[test]
fn names_and_versions_lead_to_the_same_function() {
    for symbol in DRIVER_SYMBOLS {
        let base = CString::new(symbol.base).expect("no NUL");
        let mut address = ptr::null_mut();
        let mut status = CUdriverProcAddressQueryResult(7);
        ok!(cuGetProcAddress_v2(
            base.as_ptr(),
            &raw mut address,
            symbol.version,
            0,
            &raw mut status
        ));
        assert_eq!(status, CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SUCCESS);
        let found = DRIVER_SYMBOLS
            .iter()
            .filter(|other| other.base == symbol.base && other.version == symbol.version);
        let known: Vec<_> = found.map(|other| driver().address(other.name)).collect();
        assert!(known.contains(&address.cast_const()), "{} {}", symbol.name, symbol.version);
    }
}

#[test]
fn unknown_names_and_early_versions_are_told() {
    let mut address = ptr::null_mut();
    let mut status = CUdriverProcAddressQueryResult(7);
    ok!(cuGetProcAddress_v2(c"cuNothing".as_ptr(), &raw mut address, 13000, 0, &raw mut status));
    assert_eq!(status, CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert!(address.is_null());
    ok!(cuGetProcAddress_v2(
        c"cuLaunchKernelEx".as_ptr(),
        &raw mut address,
        11000,
        0,
        &raw mut status
    ));
    assert_eq!(status, CUdriverProcAddressQueryResult::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    fails!(
        CUDA_ERROR_NOT_FOUND,
        cuGetProcAddress_v2(c"cuNothing".as_ptr(), &raw mut address, 13000, 0, ptr::null_mut())
    );
}

#[test]
fn per_thread_variants_use_the_threads_own_stream() {
    common::context();
    let mut address = ptr::null_mut();
    let name = c"cuStreamGetId";
    ok!(cuGetProcAddress_v2(name.as_ptr(), &raw mut address, 13000, 2, ptr::null_mut()));
    assert_eq!(address.cast_const(), cuda_emu::resolve(c"cuStreamGetId_ptsz"));
    type GetId = unsafe extern "C" fn(cuda_sys::CUstream, *mut u64) -> CUresult;
    // SAFETY: the address is this function's.
    let get_id: GetId = unsafe { std::mem::transmute(address) };
    let (mut variant, mut own, mut legacy) = (0, 0, 0);
    // SAFETY: a place of ours; NULL is a stream.
    assert_eq!(unsafe { get_id(ptr::null_mut(), &raw mut variant) }, CUresult::CUDA_SUCCESS);
    ok!(cuStreamGetId(cuda_sys::CU_STREAM_PER_THREAD, &raw mut own));
    ok!(cuStreamGetId(ptr::null_mut(), &raw mut legacy));
    assert_eq!(variant, own);
    assert_ne!(variant, legacy);
}

/// The address of a function that `cuda.h` does not declare.
fn of_another_header(name: &CStr) -> *mut c_void {
    let mut address = ptr::null_mut();
    ok!(cuGetProcAddress_v2(name.as_ptr(), &raw mut address, 13000, 0, ptr::null_mut()));
    assert!(!address.is_null(), "{name:?}");
    address
}

#[test]
fn profilers_are_told_nothing() {
    common::context();
    type Switch = unsafe extern "C" fn() -> CUresult;
    for name in [c"cuProfilerStart", c"cuProfilerStop"] {
        let address = of_another_header(name);
        assert_eq!(address.cast_const(), cuda_emu::resolve(name));
        // SAFETY: the address is this function's.
        let switch: Switch = unsafe { std::mem::transmute(address) };
        // SAFETY: it takes nothing.
        assert_eq!(unsafe { switch() }, CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn there_is_no_opengl() {
    type Register = unsafe extern "C" fn(*mut c_void, u32, u32) -> CUresult;
    let address = of_another_header(c"cuGraphicsGLRegisterBuffer");
    assert_ne!(of_another_header(c"cuGraphicsGLRegisterImage"), address);
    assert!(!of_another_header(c"cuGLGetDevices").is_null());
    // SAFETY: the address is this function's.
    let register: Register = unsafe { std::mem::transmute(address) };
    // SAFETY: refused before the place is written.
    assert_eq!(unsafe { register(ptr::null_mut(), 0, 0) }, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}

/// Programs that load old names call the newer functions, whose names these don't replace.
#[test]
fn names_from_before_cuda_3_2_are_there() {
    for (old, new) in [
        (c"cuGraphicsResourceGetMappedPointer", c"cuGraphicsResourceGetMappedPointer_v2"),
        (c"cuMemcpyDtoDAsync", c"cuMemcpyDtoDAsync_v2"),
    ] {
        assert!(!cuda_emu::resolve(old).is_null(), "{old:?}");
        assert_eq!(of_another_header(old).cast_const(), cuda_emu::resolve(new), "{old:?}");
    }
}

#[test]
fn what_is_missing_says_so() {
    let mut reference = ptr::null_mut();
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuTexRefCreate(&raw mut reference));
    let mut table = ptr::null();
    fails!(CUDA_ERROR_NOT_SUPPORTED, cuGetExportTable(&raw mut table, ptr::null()));
}

#[test]
fn codes_have_names() {
    let mut text = ptr::null();
    ok!(cuGetErrorName(CUresult::CUDA_ERROR_LAUNCH_FAILED, &raw mut text));
    // SAFETY: the call has returned a static string.
    let name = unsafe { CStr::from_ptr(text) };
    assert_eq!(name, c"CUDA_ERROR_LAUNCH_FAILED");
    ok!(cuGetErrorString(CUresult::CUDA_SUCCESS, &raw mut text));
    fails!(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUresult(123_456), &raw mut text));
    assert!(text.is_null());
    assert_eq!(call!(cuGetErrorName(CUresult(1), ptr::null_mut())).0, 1);
}

#[test]
fn the_documentation_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("SUPPORT.md");
    let text = cuda_emu::support();
    if std::env::var_os("CUDA_EMU_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the folder can be written");
    }
    let written = std::fs::read_to_string(&path).expect("SUPPORT.md");
    assert!(written == text, "SUPPORT.md is stale: run this test with CUDA_EMU_BLESS=1");
}

#[test]
fn tangents_that_are_not_tracked_are_not_supported() {
    common::context();
    type Get = unsafe extern "C" fn(u64, u32, usize, *mut f64) -> CUresult;
    let address = of_another_header(c"cuEmuTangentsGet");
    // SAFETY: the address is this function's.
    let get: Get = unsafe { std::mem::transmute(address) };
    // SAFETY: no place is needed for nothing.
    assert_eq!(unsafe { get(0, 2, 0, ptr::null_mut()) }, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}
