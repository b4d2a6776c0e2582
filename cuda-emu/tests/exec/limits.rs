//! Texts that ask for more than there is: refused, before anything is calculated with their sizes.

use cuda_sys::CUresult;

use crate::device::{Device, Shape, shape};

fn text(before: &str, params: &str, body: &str) -> String {
    format!(
        ".version 8.1\n.target sm_90\n.address_size 64\n{before}
         .visible .entry k({params}) {{ .reg .b32 %r<3>; .reg .b64 %rd<3>;\n{body}\nret; }}"
    )
}

/// Sizes that are wrong, and those at which 32 bits end.
const TOO_LARGE: [u64; 7] =
    [(512 << 10) + 1, 1 << 30, 1 << 31, u32::MAX as u64 - 5, u32::MAX as u64, 1 << 32, 1 << 62];

#[test]
fn local_memory_is_what_a_thread_has() {
    let device = Device::new(1);
    let store = |bytes| format!(".local .b8 d[{bytes}]; mov.u64 %rd1, d; st.local.u8 [%rd1], 1;");
    let most = device.load(&text("", "", &store(512 << 10))).unwrap_or_else(|e| panic!("{e}"));
    device.launch(&most, "k", shape(1, 33), &[]).unwrap_or_else(|e| panic!("{e}"));
    for bytes in TOO_LARGE {
        let half = bytes / 2;
        let two =
            format!(".local .b8 c[{half}]; .local .align 16 .b8 d[{half}]; .local .b8 e[{half}];");
        let callee = format!(".func f(.param .b8 a[{bytes}]) {{ ret; }}");
        for text in [text("", "", &store(bytes)), text("", "", &two), text(&callee, "", "")] {
            let error = device.load(&text).expect_err("it is too large");
            assert_eq!(error.code, CUresult::CUDA_ERROR_INVALID_PTX, "{error}");
            assert!(error.log.contains("local memory, where 524288 are possible"), "{error}");
        }
    }
}

#[test]
fn calls_that_need_more_local_memory_are_a_fault() {
    let mut device = Device::new(1);
    device.config.stack_bytes = u32::MAX;
    let callee = ".func f() { .reg .b64 %rd<2>; .local .b8 d[500000]; mov.u64 %rd1, d; ret; }";
    let body = ".local .b8 d[100000]; mov.u64 %rd1, d; call f, ();";
    let program = device.load(&text(callee, "", body)).unwrap_or_else(|e| panic!("{e}"));
    let fault = device.launch(&program, "k", shape(1, 1), &[]).expect_err("it is too large");
    assert_eq!(fault.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{fault}");
    assert!(fault.report.what.contains("stack overflow"), "{fault}");
}

#[test]
fn parameters_are_what_a_launch_has() {
    let device = Device::new(1);
    let param = |bytes| text("", &format!(".param .b8 p[{bytes}]"), "");
    assert!(device.load(&param(32_764)).is_ok());
    for bytes in TOO_LARGE.into_iter().chain([32_765]) {
        let error = device.load(&param(bytes)).expect_err("they are too large");
        assert_eq!(error.code, CUresult::CUDA_ERROR_INVALID_PTX, "{error}");
        assert!(error.log.contains("bytes of parameters, where 32764 are possible"), "{error}");
    }
}

#[test]
fn shared_memory_is_what_a_block_has() {
    let device = Device::new(1);
    let two = |bytes| {
        let variables = format!(".shared .b8 s[{bytes}];\n.shared .align 16 .b8 t[16];");
        text(&variables, "", "mov.u32 %r1, s; mov.u32 %r2, t; st.shared.u8 [%r2], 1;")
    };
    let few = device.load(&two(100)).unwrap_or_else(|e| panic!("{e}"));
    device.launch(&few, "k", shape(1, 1), &[]).unwrap_or_else(|e| panic!("{e}"));
    for bytes in TOO_LARGE {
        let program = device.load(&two(bytes)).unwrap_or_else(|e| panic!("{e}"));
        let fault = device.launch(&program, "k", shape(1, 1), &[]).expect_err("it is too large");
        assert_eq!(fault.code, CUresult::CUDA_ERROR_INVALID_VALUE, "{fault}");
    }
}

#[test]
fn two_sources_are_for_conversions_that_make_two() {
    let device = Device::new(1);
    for (words, taken) in [
        ("cvt.rn.f16x2.f32 %r1, %r2, %r2", true),
        ("cvt.u64.u32 %rd1, %r1, %r2", false),
        ("cvt.rn.f32.u32 %r1, %r1, %r2", false),
        ("cvt.rn.f16.f32 %r1, %r1, %r2", false),
    ] {
        let refused = match device.load(&text("", "", &format!("{words};"))) {
            Ok(program) => program.entry("k").is_none_or(|entry| program.refused(entry).is_some()),
            Err(_) => true,
        };
        assert_eq!(refused, !taken, "{words}");
    }
}

#[test]
fn shared_memory_is_what_an_address_can_name() {
    let mut device = Device::new(1);
    device.info.shared_optin = u32::MAX;
    let program = device.load(&text("", "", "")).unwrap_or_else(|e| panic!("{e}"));
    let launch = |shared| device.launch(&program, "k", Shape { shared, ..shape(1, 1) }, &[]);
    launch(1 << 24).unwrap_or_else(|e| panic!("{e}"));
    for shared in [(1 << 24) + 1, u32::MAX] {
        let fault = launch(shared).expect_err("it is too large");
        assert_eq!(fault.code, CUresult::CUDA_ERROR_INVALID_VALUE, "{fault}");
    }
}
