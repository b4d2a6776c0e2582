//! Kernels with one fault each: the driver's code, and a report that names the kernel, the block,
//! the thread, the address and the line of the source.

use std::time::Duration;

use cuda_emu::exec::{Fault, Program};
use cuda_sys::CUresult;

use crate::device::{Device, Shape, shape};

const TEXT: &str = include_str!("../ptx/strict.ptx");
const SOURCE: &str = include_str!("../ptx/strict.cu");

const ILLEGAL: CUresult = CUresult::CUDA_ERROR_ILLEGAL_ADDRESS;
const MISALIGNED: CUresult = CUresult::CUDA_ERROR_MISALIGNED_ADDRESS;
const FAILED: CUresult = CUresult::CUDA_ERROR_LAUNCH_FAILED;

/// Where the report must say that memory was accessed.
#[derive(Clone, Copy, Debug)]
enum At {
    /// Nowhere: no memory was accessed.
    No,
    /// At this many bytes from the first argument.
    First(i64),
    /// At this address.
    Exactly(u64),
    /// Somewhere: in shared or local memory, or in the heap of the device.
    Any,
}

/// A kernel, its launch, and what must be reported.
struct Case {
    kernel: &'static str,
    shape: Shape,
    /// The arguments on a device.
    args: fn(&Device, &Program) -> Vec<u64>,
    code: CUresult,
    block: u32,
    thread: u32,
    at: At,
    /// A part of the text.
    says: &'static str,
}

/// The grid, the block, and the arguments of a launch.
type How = (u32, u32, fn(&Device, &Program) -> Vec<u64>);

fn case(
    kernel: &'static str,
    (grid, block, args): How,
    code: CUresult,
    (b, thread): (u32, u32),
    at: At,
    says: &'static str,
) -> Case {
    Case { kernel, shape: shape(grid, block), args, code, block: b, thread, at, says }
}

fn ints(device: &Device, n: usize) -> u64 {
    device.upload(&vec![0_i32; n])
}

/// Faults of memory that kernels are given.
fn global() -> Vec<Case> {
    use At::{Exactly, First};
    vec![
        case(
            "write_past",
            (3, 32, |d, _| vec![ints(d, 70), 70]),
            ILLEGAL,
            (2, 6),
            First(280),
            "just past the end",
        ),
        case(
            "read_past",
            (3, 32, |d, _| vec![ints(d, 70), 70, ints(d, 1)]),
            ILLEGAL,
            (2, 6),
            First(280),
            "just past the end",
        ),
        case("before_start", (1, 8, |d, _| vec![ints(d, 8)]), ILLEGAL, (0, 0), First(-4), "before"),
        case(
            "in_the_gap",
            (1, 8, |d, _| vec![ints(d, 8), 2000]),
            ILLEGAL,
            (0, 2),
            First(2000),
            "past the end",
        ),
        case(
            "after_free",
            (1, 8, |d, _| {
                let p = ints(d, 8);
                d.space.free(p);
                vec![p, ints(d, 8)]
            }),
            ILLEGAL,
            (0, 0),
            First(0),
            "freed allocation",
        ),
        case(
            "vector_past",
            (1, 32, |d, _| vec![ints(d, 126), ints(d, 32)]),
            ILLEGAL,
            (0, 31),
            First(496),
            "16 bytes",
        ),
        case(
            "write_constant",
            (1, 4, |_, p| vec![p.global("table").expect("table").0]),
            ILLEGAL,
            (0, 0),
            First(0),
            "read-only",
        ),
        case("null_pointer", (1, 4, |_, _| vec![0]), ILLEGAL, (0, 1), Exactly(0), "0x0"),
        case(
            "wild_pointer",
            (1, 4, |d, _| {
                let fine = ints(d, 1);
                vec![d.upload(&[fine, fine, 0xdead_beef_f00d_0000, fine]), ints(d, 4)]
            }),
            ILLEGAL,
            (0, 2),
            Exactly(0xdead_beef_f00d_0000),
            "0xdeadbeeff00d0000",
        ),
        case("module_variable", (1, 4, |_, _| vec![13]), ILLEGAL, (0, 3), At::Any, "module"),
        case("atomic_past", (1, 9, |d, _| vec![ints(d, 8)]), ILLEGAL, (0, 8), First(32), "past"),
        case(
            "copy_async",
            (1, 32, |d, _| vec![ints(d, 124)]),
            ILLEGAL,
            (0, 31),
            First(496),
            "past the end",
        ),
    ]
}

/// Addresses that are no multiples of what they must be multiples of.
fn misaligned() -> Vec<Case> {
    let how: How = (1, 32, |d, _| vec![ints(d, 200)]);
    let of = |kernel, offset, says| case(kernel, how, MISALIGNED, (0, 1), At::First(offset), says);
    vec![
        of("misaligned_2", 1, "2 bytes"),
        of("misaligned_4", 2, "4 bytes"),
        of("misaligned_8", 4, "8 bytes"),
        of("misaligned_16", 8, "16 bytes"),
        of("atomic_misaligned", 4, "8 bytes"),
    ]
}

/// Shared and local memory, the stack and the heap.
fn spaces() -> Vec<Case> {
    use At::{Any, Exactly, No};
    let mut dynamic =
        case("shared_dynamic", (1, 64, |_, _| vec![]), ILLEGAL, (0, 63), Any, "256 of 256 bytes");
    dynamic.shape.shared = 256;
    vec![
        case(
            "shared_static",
            (1, 64, |_, _| vec![64]),
            ILLEGAL,
            (0, 33),
            Any,
            "256 of 256 bytes of shared memory",
        ),
        dynamic,
        case(
            "local_array",
            (1, 16, |d, _| vec![100_000, ints(d, 16)]),
            ILLEGAL,
            (0, 9),
            Any,
            "local memory",
        ),
        case(
            "stack",
            (1, 1, |d, _| vec![100_000, ints(d, 2)]),
            FAILED,
            (0, 0),
            No,
            "stack overflow",
        ),
        case("heap", (1, 1, |d, _| vec![ints(d, 1)]), ILLEGAL, (0, 0), Exactly(0), "0x0"),
        case("heap_past", (1, 1, |_, _| vec![10]), ILLEGAL, (0, 0), Any, "just past the end"),
        case("heap_freed", (1, 1, |d, _| vec![ints(d, 1)]), ILLEGAL, (0, 0), Any, "freed"),
        case("double_free", (1, 1, |d, _| vec![ints(d, 2)]), FAILED, (0, 0), No, "free of 0x"),
        case("free_nothing", (1, 1, |d, _| vec![ints(d, 2)]), FAILED, (0, 0), No, "free of 0x"),
    ]
}

/// Faults without an access of memory.
fn ends() -> Vec<Case> {
    use At::No;
    let assert = CUresult::CUDA_ERROR_ASSERT;
    let timeout = CUresult::CUDA_ERROR_LAUNCH_TIMEOUT;
    let nowhere = CUresult::CUDA_ERROR_INVALID_PC;
    vec![
        case("trapped", (3, 32, |_, _| vec![]), FAILED, (1, 5), No, "trap"),
        case("asserted", (1, 8, |_, _| vec![6]), assert, (0, 6), No, "threadIdx.x < n"),
        case("barrier", (1, 64, |d, _| vec![ints(d, 64)]), FAILED, (0, 0), No, "40 at a barrier"),
        case(
            "call",
            (1, 4, |d, _| vec![d.upload(&[77_u64; 4]), 1]),
            nowhere,
            (0, 0),
            No,
            "call of 0x4d",
        ),
        case("endless", (1, 8, |d, _| vec![ints(d, 1)]), timeout, (0, 0), No, "still runs"),
    ]
}

/// The line of the source with the fault of a kernel.
fn line_of(kernel: &str) -> u32 {
    let mark = format!("// FAULT {kernel}");
    SOURCE.lines().position(|line| line.ends_with(&mark)).expect("a line of strict.cu") as u32 + 1
}

/// Returns the defect of a report.
fn wrong(case: &Case, first: u64, fault: &Fault) -> Vec<String> {
    let report = &fault.report;
    let mut wrong = Vec::new();
    let mut must = |holds: bool, what: String| {
        if !holds {
            wrong.push(format!("{}: {what}\n{fault}", case.kernel));
        }
    };
    must(fault.code == case.code, format!("{:?} and not {:?}", fault.code, case.code));
    must(report.kernel == case.kernel, "kernel".to_owned());
    must(report.block == [case.block, 0, 0], "block".to_owned());
    must(report.thread == [case.thread, 0, 0], "thread".to_owned());
    let address = match case.at {
        At::No => report.address.is_none(),
        At::First(offset) => report.address == Some(first.wrapping_add_signed(offset)),
        At::Exactly(address) => report.address == Some(address),
        At::Any => report.address.is_some(),
    };
    must(address, format!("address {:x?}, first argument {first:#x}", report.address));
    must(report.what.contains(case.says), format!("the text has no {:?}", case.says));
    let place = report.source.as_ref().map(|(file, line, _)| (file.as_str(), *line));
    let line = line_of(case.kernel);
    must(place == Some(("strict.cu", line)), format!("source line {line}"));
    // The printed report has all of it.
    let text = fault.to_string();
    let mut parts = vec![
        format!("in kernel {}", case.kernel),
        format!("block ({}, 0, 0), thread ({}, 0, 0)", case.block, case.thread),
        format!("strict.cu:{line}:"),
    ];
    parts.extend(report.address.map(|address| format!("{address:#x}")));
    for part in parts {
        must(text.contains(&part), format!("the text has no {part:?}"));
    }
    wrong
}

#[test]
fn every_faulty_kernel_is_caught() {
    let cases: Vec<Case> =
        [global(), misaligned(), spaces(), ends()].into_iter().flatten().collect();
    let mut problems = Vec::new();
    for case in &cases {
        for workers in [1, 2] {
            let mut device = Device::new(workers);
            if case.kernel == "endless" {
                device.config.timeout = Some(Duration::from_millis(100));
            }
            let program = device.load(TEXT).expect("strict.ptx");
            let args = (case.args)(&device, &program);
            match device.launch(&program, case.kernel, case.shape, &args) {
                Ok(_) => problems.push(format!("{} finished", case.kernel)),
                Err(fault) => {
                    problems.extend(wrong(case, args.first().copied().unwrap_or(0), &fault));
                }
            }
        }
    }
    let mut kernels: Vec<&str> = cases.iter().map(|case| case.kernel).collect();
    kernels.sort_unstable();
    kernels.dedup();
    println!("{} faulty kernels", kernels.len());
    assert!(kernels.len() >= 20);
    assert_eq!(kernels.len(), SOURCE.matches("// FAULT ").count(), "each line has its case");
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

/// The same kernels with arguments that fit finish: nothing is reported that is no fault.
#[test]
fn the_same_kernels_finish_with_arguments_that_fit() {
    let fine: [(&str, How); 17] = [
        ("write_past", (3, 32, |d, _| vec![ints(d, 70), 69])),
        ("read_past", (3, 32, |d, _| vec![ints(d, 70), 69, ints(d, 1)])),
        ("before_start", (1, 8, |d, _| vec![ints(d, 8) + 4])),
        ("in_the_gap", (1, 8, |d, _| vec![ints(d, 8), 31])),
        ("after_free", (1, 8, |d, _| vec![ints(d, 8), ints(d, 8)])),
        ("misaligned_2", (1, 1, |d, _| vec![ints(d, 8) + 2])),
        ("misaligned_16", (1, 1, |d, _| vec![ints(d, 8) + 16])),
        ("vector_past", (1, 32, |d, _| vec![ints(d, 128), ints(d, 32)])),
        ("shared_static", (1, 64, |_, _| vec![63])),
        ("local_array", (1, 16, |d, _| vec![7, ints(d, 16)])),
        ("module_variable", (1, 4, |_, _| vec![12])),
        ("stack", (1, 1, |d, _| vec![3, ints(d, 2)])),
        ("heap_past", (1, 1, |_, _| vec![9])),
        ("asserted", (1, 8, |_, _| vec![8])),
        ("atomic_past", (1, 8, |d, _| vec![ints(d, 8)])),
        ("copy_async", (1, 32, |d, _| vec![ints(d, 128)])),
        ("endless", (1, 8, |d, _| vec![d.upload(&[1_i32])])),
    ];
    for (kernel, (grid, block, args)) in fine {
        let device = Device::new(2);
        let program = device.load(TEXT).expect("strict.ptx");
        let args = args(&device, &program);
        if let Err(fault) = device.launch(&program, kernel, shape(grid, block), &args) {
            panic!("{kernel}: {fault}");
        }
    }
}
