//! Attributes of devices and functions.

use core::ffi::c_int;
use std::ffi::CString;
use std::ptr;

use cuda_sys::{CUdevice_attribute as A, CUfunction_attribute as F, CUkernel, CUlibrary, CUresult};

mod common;
use common::*;

fn device_attribute(which: u32) -> (CUresult, c_int) {
    let mut value = -77;
    let code = call!(cuDeviceGetAttribute(&raw mut value, A(which), 0));
    (code, value)
}

/// The newest attribute of CUDA 13.0 (`cuda.h`): `CU_DEVICE_ATTRIBUTE_MAX` is one more.
const LAST: u32 = A::CU_DEVICE_ATTRIBUTE_ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED.0;

#[test]
fn each_attribute_of_cuda_13_0_has_a_value_and_no_other_number() {
    context();
    for which in 1..=LAST {
        let (code, value) = device_attribute(which);
        assert_eq!(code, SUCCESS, "attribute {which}");
        assert_ne!(value, -77, "attribute {which}");
    }
    for which in [0, LAST + 1, A::CU_DEVICE_ATTRIBUTE_MAX.0, 1000, u32::MAX] {
        assert_eq!(device_attribute(which).0, CUresult::CUDA_ERROR_INVALID_VALUE, "{which}");
    }
}

#[test]
fn pageable_memory_is_not_reached_by_the_hosts_page_tables() {
    context();
    let which = A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES;
    assert_eq!(which.0, 100);
    assert_eq!(device_attribute(which.0), (SUCCESS, 0));
    // As a GPU on the PCI bus: it cannot reach pageable memory at all.
    assert_eq!(device_attribute(A::CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS.0), (SUCCESS, 0));
}

fn text(target: &str) -> String {
    format!(".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}\n")
}

#[test]
fn a_function_has_the_versions_of_its_text_and_of_the_device() {
    context();
    let of_device = device_attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR.0).1 * 10
        + device_attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR.0).1;
    for (target, version) in
        [("sm_50", 50), ("sm_75", 75), ("sm_80", 80), ("sm_89", 89), ("sm_90", 90), ("sm_90a", 90)]
    {
        let function = function(load(&text(target)), "k");
        let of = |which| {
            let mut value = -1;
            ok!(cuFuncGetAttribute(&raw mut value, which, function));
            value
        };
        assert_eq!(of(F::CU_FUNC_ATTRIBUTE_PTX_VERSION), version, "{target}");
        assert_eq!(of(F::CU_FUNC_ATTRIBUTE_BINARY_VERSION), of_device, "{target}");

        let image = CString::new(text(target)).expect("no NUL");
        let (mut library, mut kernel): (CUlibrary, CUkernel) = (ptr::null_mut(), ptr::null_mut());
        let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
        ok!(cuLibraryLoadData(
            &raw mut library,
            image.as_ptr().cast(),
            none,
            nothing,
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            0
        ));
        ok!(cuLibraryGetKernel(&raw mut kernel, library, c"k".as_ptr()));
        let mut value = -1;
        ok!(cuKernelGetAttribute(&raw mut value, F::CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel, 0));
        assert_eq!(value, version, "{target}");
        ok!(cuLibraryUnload(library));
    }
}
