//! Fat binaries in every function that takes an image.

use core::ffi::{CStr, c_void};
use std::ffi::CString;
use std::io::Write as _;
use std::ptr;

use cuda_sys::*;
use test_support::fatbin::{Entry, Packing, write};

mod common;
use common::*;

/// A kernel `mark(address)` that writes a number.
fn text(target: &str, number: u32) -> String {
    format!(
        ".version 8.0\n.target sm_{target}\n.address_size 64\n.visible .entry mark(.param .u64 p)\n{{\n\
         .reg .b64 %rd<2>;\n.reg .b32 %r<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, {number};\n\
         st.global.u32 [%rd1], %r1;\nret;\n}}\n"
    )
}

/// PTX for 50, 75 and 300, and machine code.
fn sample(packing: Packing) -> Vec<u8> {
    let mut machine = Entry::ptx(90, "no machine code", packing);
    machine.kind = 2;
    write(&[
        Entry::ptx(50, &text("50", 50), packing),
        machine,
        Entry::ptx(300, &text("300", 300), packing),
        Entry::ptx(75, &text("75", 75), packing),
    ])
}

/// The number that the module's kernel writes.
fn marked(module: CUmodule) -> u32 {
    let target = allocate(4);
    let (function, mut parameter) = (function(module, "mark"), target);
    let mut parameters = [(&raw mut parameter).cast::<c_void>()];
    let none = ptr::null_mut();
    ok!(cuLaunchKernel(
        function,
        1,
        1,
        1,
        1,
        1,
        1,
        0,
        ptr::null_mut(),
        parameters.as_mut_ptr(),
        none
    ));
    ok!(cuCtxSynchronize());
    words(target, 1)[0]
}

/// Loads an image with a log: the code, and what the error log says.
fn load_with_log(image: &[u8]) -> (CUresult, String) {
    let (mut module, mut log) = (ptr::null_mut(), [1_u8; 400]);
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    let mut values: [*mut c_void; 2] =
        [log.as_mut_ptr().cast(), ptr::without_provenance_mut(log.len())];
    let (keys, values) = (options.as_mut_ptr(), values.as_mut_ptr());
    let code = call!(cuModuleLoadDataEx(&raw mut module, image.as_ptr().cast(), 2, keys, values));
    let log = CStr::from_bytes_until_nul(&log).expect("a NUL").to_string_lossy().into_owned();
    (code, log)
}

#[test]
fn every_loading_function_takes_a_fat_binary() {
    context();
    for packing in [Packing::Plain, Packing::Lz4, Packing::Zstd] {
        let image = sample(packing);
        let mut module = ptr::null_mut();
        ok!(cuModuleLoadData(&raw mut module, image.as_ptr().cast()));
        assert_eq!(marked(module), 75, "the highest that fits");
        ok!(cuModuleUnload(module));
        assert_eq!(load_with_log(&image), (SUCCESS, String::new()));
        ok!(cuModuleLoadFatBinary(&raw mut module, image.as_ptr().cast()));
        assert_eq!(marked(module), 75);

        // A fat binary in a program is reached through a structure.
        #[repr(C)]
        struct Wrapper {
            magic: u32,
            version: u32,
            data: *const c_void,
            file: *const c_void,
        }
        let (data, file) = (image.as_ptr().cast(), ptr::null());
        let wrapper = Wrapper { magic: 0x4662_43b1, version: 1, data, file };
        let (mut library, none, nothing) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        ok!(cuLibraryLoadData(
            &raw mut library,
            (&raw const wrapper).cast(),
            none,
            nothing,
            0,
            ptr::null_mut(),
            ptr::null_mut(),
            0
        ));
        ok!(cuLibraryGetModule(&raw mut module, library));
        assert_eq!(marked(module), 75);
        ok!(cuLibraryUnload(library));
        let wrapper = Wrapper { magic: 0x4662_43b1, version: 1, data: ptr::null(), file };
        fails!(
            CUDA_ERROR_INVALID_IMAGE,
            cuModuleLoadData(&raw mut module, (&raw const wrapper).cast())
        );
    }
}

#[test]
fn a_file_is_read_within_its_length() {
    context();
    let image = sample(Packing::Zstd);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image.fatbin");
    let name = CString::new(path.to_str().expect("UTF-8")).expect("no NUL");
    let put = |bytes: &[u8]| std::fs::File::create(&path).expect("a file").write_all(bytes);
    let mut module = ptr::null_mut();
    put(&image).expect("written");
    ok!(cuModuleLoad(&raw mut module, name.as_ptr()));
    assert_eq!(marked(module), 75);
    for length in (4..image.len()).step_by(7) {
        put(&image[..length]).expect("written");
        fails!(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&raw mut module, name.as_ptr()));
    }
    put(text("75", 8).as_bytes()).expect("written");
    ok!(cuModuleLoad(&raw mut module, name.as_ptr()));
    assert_eq!(marked(module), 8);
}

#[test]
fn without_an_image_for_the_device_the_log_names_the_option() {
    context();
    let mut specific = Entry::ptx(75, &text("75a", 1), Packing::Plain);
    specific.suffix = "a";
    let (code, log) =
        load_with_log(&write(&[Entry::ptx(300, &text("300", 1), Packing::Zstd), specific]));
    assert_eq!(code, CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
    let images =
        "it has PTX for compute_300, PTX for compute_75a; compile it with -gencode arch=compute_";
    assert!(log.contains(images), "{log}");

    let mut other = write(&[Entry::ptx(75, &text("75", 1), Packing::Zstd)]);
    other[16 + 80 + 10] ^= 0xff;
    let (code, log) = load_with_log(&other);
    assert_eq!(code, CUresult::CUDA_ERROR_INVALID_IMAGE);
    assert!(log.starts_with("entry 0 of the fatbin: "), "{log}");
}
