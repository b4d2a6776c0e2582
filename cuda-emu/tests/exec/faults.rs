//! Faults of kernels are found, with the driver's code and a useful report.

use cuda_emu::exec::Fault;
use cuda_sys::CUresult;

use crate::device::{Device, shape};

const TEXT: &str = include_str!("../ptx/faults.ptx");

/// The fault of a launch, and the device it happened on.
fn fault(name: &str, threads: u32, args: impl Fn(&Device) -> Vec<u64>) -> Fault {
    let device = Device::new(1);
    let program = device.load(TEXT).expect("faults.ptx");
    let args = args(&device);
    match device.launch(&program, name, shape(1, threads), &args) {
        Ok(_) => panic!("{name} finished"),
        Err(fault) => fault,
    }
}

/// The line of the source that a report must name.
fn line_of(text: &str) -> u32 {
    let source = include_str!("../ptx/faults.cu");
    source.lines().position(|line| line.contains(text)).expect("a line of faults.cu") as u32 + 1
}

#[test]
fn an_index_off_by_one_names_the_allocation() {
    let f = fault("out_of_bounds", 1, |d| vec![d.upload(&[0i32; 10]), 10]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let text = f.to_string();
    assert!(text.contains("just past the end of allocation"), "{text}");
    assert!(text.contains("40 bytes"), "{text}");
    assert_eq!(f.report.kernel, "out_of_bounds");
    let (file, line, _) = f.report.source.clone().expect("-lineinfo");
    assert_eq!((file.as_str(), line), ("faults.cu", line_of("out_of_bounds")));
    let f = fault("out_of_bounds", 1, |d| vec![d.upload(&[0i32; 10]), u64::MAX]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
}

#[test]
fn freed_memory_is_not_used() {
    let f = fault("out_of_bounds", 1, |d| {
        let p = d.upload(&[0i32; 10]);
        d.space.free(p);
        vec![p, 2]
    });
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    assert!(f.to_string().contains("freed allocation"), "{f}");
}

#[test]
fn a_misaligned_access_is_found() {
    let f = fault("misaligned", 1, |d| vec![d.upload(&[0i32; 10])]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_MISALIGNED_ADDRESS, "{f}");
}

#[test]
fn variables_have_bounds() {
    let f = fault("variable", 1, |d| vec![16, d.upload(&[0i32])]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{f}");
    assert!(f.to_string().contains("module"), "{f}");
}

#[test]
fn shared_memory_has_bounds() {
    let f = fault("shared_overflow", 64, |_| vec![64]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{f}");
    assert!(f.to_string().contains("byte 256 of 256 bytes of shared memory"), "{f}");
}

#[test]
fn local_memory_has_bounds() {
    let f = fault("local_overflow", 1, |d| vec![1000, d.upload(&[0i32])]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{f}");
    assert!(f.to_string().contains("local memory"), "{f}");
}

#[test]
fn a_trap_names_its_thread() {
    let f = fault("trapped", 32, |_| vec![]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{f}");
    assert_eq!(f.report.thread, [5, 0, 0]);
}

/// Lanes from 20 on meet a breakpoint, and later all of them another.
const BREAKPOINTS: &str = "
    .version 8.0
    .target sm_75
    .address_size 64
    .visible .entry some() {
        .reg .pred %p;
        .reg .b32 %r;
        mov.u32 %r, %tid.x;
        setp.ge.u32 %p, %r, 20;
        @%p brkpt;
        ret;
    }
    .visible .entry none() {
        .reg .pred %p;
        .reg .b32 %r;
        mov.u32 %r, %tid.x;
        setp.ge.u32 %p, %r, 32;
        @%p brkpt;
        ret;
    }";

#[test]
fn a_breakpoint_without_a_debugger_is_a_trap() {
    let device = Device::new(1);
    let program = device.load(BREAKPOINTS).unwrap_or_else(|e| panic!("{e}"));
    device.launch(&program, "none", shape(2, 32), &[]).unwrap_or_else(|f| panic!("{f}"));
    let f = device.launch(&program, "some", shape(2, 32), &[]).expect_err("a breakpoint");
    assert_eq!(f.code, CUresult::CUDA_ERROR_LAUNCH_FAILED, "{f}");
    assert_eq!(f.report.thread, [20, 0, 0]);
    assert!(f.report.what.contains("brkpt"), "{f}");
    assert_ne!(f.report.ptx_line, 0);
}

#[test]
fn a_failed_assertion_says_which() {
    let f = fault("asserted", 8, |_| vec![6]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ASSERT, "{f}");
    assert!(f.to_string().contains("threadIdx.x < n"), "{f}");
    assert_eq!(f.report.thread, [6, 0, 0]);
}

#[test]
fn constants_are_not_written() {
    let device = Device::new(1);
    let program = device.load(TEXT).expect("faults.ptx");
    let (constants, bytes) = program.global("constants").expect("constants");
    assert_eq!(bytes, 16);
    let f = device
        .launch(&program, "out_of_bounds", shape(1, 1), &[constants, 1])
        .expect_err("a write of a constant");
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{f}");
    assert!(f.to_string().contains("read-only"), "{f}");
}

#[test]
fn a_call_of_nothing_is_found() {
    let f = fault("null_call", 1, |d| vec![d.upload(&[0u64])]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_INVALID_PC, "{f}");
}

#[test]
fn a_vector_that_reaches_out_is_found() {
    let f = fault("read_past", 32, |d| vec![d.upload(&[0f32; 126]), d.upload(&[0f32; 32])]);
    assert_eq!(f.code, CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, "{f}");
    assert_eq!(f.report.thread, [31, 0, 0]);
}

#[test]
fn what_is_missing_is_refused_by_name() {
    let device = Device::new(1);
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry textures(.param .u64 t) {\n .reg .b32 %f<5>; .reg .b64 %r<2>;\n\
        ld.param.u64 %r1, [t];\n txq.width.b32 %f1, [%r1];\n ret;\n}\n\
        .visible .entry fine() { ret; }\n";
    let program = device.load(text).expect("text");
    let why = |name| program.refused(program.entry(name).expect(name));
    assert!(why("textures").is_some_and(|w| w.contains("txq.width") && w.contains("line 7")));
    assert_eq!(why("fine"), None);
    let f = device.launch(&program, "textures", shape(1, 1), &[0]).expect_err("refused");
    assert_eq!(f.code, CUresult::CUDA_ERROR_NOT_SUPPORTED);
}

#[test]
fn texts_for_other_devices_are_refused() {
    let device = Device::new(1);
    let code = |text: &str| device.load(text).err().map(|e| e.code);
    let head = |version: &str, target: &str| {
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n.visible .entry k() {{ ret; }}"
        )
    };
    assert_eq!(code(&head("9.0", "sm_90")), None);
    assert_eq!(code(&head("9.1", "sm_90")), Some(CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
    assert_eq!(code(&head("8.6", "sm_100")), Some(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU));
    assert_eq!(code("nonsense"), Some(CUresult::CUDA_ERROR_INVALID_PTX));
}

#[test]
fn an_instruction_that_ptx_has_not_is_no_ptx() {
    let device = Device::new(1);
    let text = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .visible .entry k() {\n .reg .f32 %q<3>;\n nonsense.f32 %q1, %q2;\n ret;\n}\n";
    let error = device.load(text).expect_err("nonsense");
    assert_eq!(error.code, CUresult::CUDA_ERROR_INVALID_PTX);
    assert!(error.log.contains("nonsense"), "{error}");
}
