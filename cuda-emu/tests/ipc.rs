//! Memory and events of other processes.

mod common;

use core::ffi::c_char;
use core::ptr;
use std::ffi::CString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::{Command, Stdio};
use std::thread;

use cuda_sys::{
    CUdeviceptr, CUevent, CUevent_flags, CUipcEventHandle, CUipcMemHandle, CUmemAttach_flags,
    CUresult,
};

use common::{allocate, call, context, fails, fill, function, module, ok, stream, words};

const SIZES: [usize; 6] = [1, 31, 4096, 4097, 10_000, (3 << 20) + 5];
const HANDLES: &str = "IPC_HANDLES";

fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + bytes) as u8).collect()
}

fn read(address: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut host = vec![0; bytes];
    ok!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), address, bytes));
    host
}

fn memory(bytes: usize) -> (CUdeviceptr, CUipcMemHandle) {
    let mut address = 0;
    ok!(cuMemAlloc_v2(&raw mut address, bytes));
    ok!(cuMemcpyHtoD_v2(address, pattern(bytes).as_ptr().cast(), bytes));
    let mut handle = CUipcMemHandle::default();
    // Any address of an allocation has its handle.
    ok!(cuIpcGetMemHandle(&raw mut handle, address + bytes as u64 / 2));
    (address, handle)
}

fn event() -> (CUevent, CUipcEventHandle) {
    let mut event = ptr::null_mut();
    let flags = CUevent_flags::CU_EVENT_INTERPROCESS.0 | CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
    ok!(cuEventCreate(&raw mut event, flags));
    let mut handle = CUipcEventHandle::default();
    ok!(cuIpcGetEventHandle(&raw mut handle, event));
    (event, handle)
}

fn text(handle: &[c_char; 64]) -> String {
    handle.iter().map(|byte| format!("{:02x}", *byte as u8)).collect()
}

fn handle(text: &str) -> [c_char; 64] {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex digits");
    core::array::from_fn(|at| byte(at) as c_char)
}

/// Files with the name of a handle's file: one that may shrink, and one that is too short.
fn forged(good: &CUipcMemHandle) -> [(File, [c_char; 64]); 2] {
    let number = i32::from_ne_bytes(core::array::from_fn(|at| good.reserved[16 + at] as u8));
    let link = std::fs::read_link(format!("/proc/self/fd/{number}")).expect("a link");
    let name = link.to_str().and_then(|link| link.strip_prefix("/memfd:")).expect("a name");
    let name = CString::new(name.trim_end_matches(" (deleted)")).expect("no NUL");
    [(1 << 20, 0), (1, libc::F_SEAL_SHRINK)].map(|(bytes, seals)| {
        let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
        // SAFETY: the name is a C string.
        let number = unsafe { libc::memfd_create(name.as_ptr(), flags) };
        assert!(number >= 0);
        // SAFETY: the descriptor is new, and nothing else has it.
        let file = unsafe { File::from_raw_fd(number) };
        file.set_len(bytes).expect("a length");
        // SAFETY: the call changes a property of the file.
        assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
        let mut reserved = good.reserved;
        for (at, byte) in number.to_ne_bytes().into_iter().enumerate() {
            reserved[16 + at] = byte as c_char;
        }
        (file, reserved)
    })
}

/// No bits of a handle from a byte on lead to memory that is not the named one's.
fn refuses_other_bits(good: [c_char; 64], from: usize) {
    for (at, bit) in (from..64).flat_map(|at| [2, 0x40].map(|bit| (at, bit))) {
        let (mut address, mut bad) = (0, CUipcMemHandle { reserved: good });
        bad.reserved[at] ^= bit;
        let code = call!(cuIpcOpenMemHandle_v2(&raw mut address, bad, 1));
        assert_eq!(code, CUresult::CUDA_ERROR_INVALID_HANDLE, "byte {at}, bit {bit:#x}");
    }
}

/// Threads open and close the same memory while work is pending, for which closing waits.
fn open_and_close_in_threads(bytes: usize, reserved: [c_char; 64]) {
    let work = || {
        let (mut context, mut address) = (ptr::null_mut(), 0);
        ok!(cuDevicePrimaryCtxRetain(&raw mut context, 0));
        ok!(cuCtxSetCurrent(context));
        let (own, scratch) = (stream(1), allocate(1 << 20));
        for _ in 0..50 {
            ok!(cuIpcOpenMemHandle_v2(&raw mut address, CUipcMemHandle { reserved }, 1));
            ok!(cuMemsetD8Async(scratch, 1, 1 << 20, own));
            assert_eq!(read(address, bytes)[1..], pattern(bytes)[1..]);
            ok!(cuMemsetD8Async(scratch, 2, 1 << 20, own));
            ok!(cuIpcCloseMemHandle(address));
        }
        ok!(cuMemFree_v2(scratch));
        ok!(cuDevicePrimaryCtxRelease_v2(0));
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(work);
        }
    });
}

/// Kernels of other contexts and devices are done before memory moves to a file or is unmapped.
fn waits_for_other_contexts(bytes: usize, reserved: [c_char; 64]) {
    let (near, mut far) = (context(), ptr::null_mut());
    ok!(cuDevicePrimaryCtxRetain(&raw mut far, 1));
    let count = 1 << 20;
    let address = allocate(4 * count);
    ok!(cuCtxSetCurrent(far));
    ok!(cuCtxEnablePeerAccess(near, 0));
    let (own, done) = (stream(1), common::event());
    assert_eq!(fill(function(module(), "fill"), own, address, count as u32, 7), common::SUCCESS);
    ok!(cuEventRecord(done, own));
    ok!(cuCtxSetCurrent(near));
    let mut handle = CUipcMemHandle::default();
    ok!(cuIpcGetMemHandle(&raw mut handle, address));
    ok!(cuEventQuery(done));
    assert!(words(address, count) == vec![7; count]);
    ok!(cuMemFree_v2(address));

    let (mut gone, mut opened) = (ptr::null_mut(), 0);
    let (own, done, fills) = (stream(1), common::event(), function(module(), "fill"));
    ok!(cuCtxCreate_v2(&raw mut gone, 0, 0));
    ok!(cuIpcOpenMemHandle_v2(&raw mut opened, CUipcMemHandle { reserved }, 1));
    ok!(cuCtxSetCurrent(near));
    let half = (bytes / 2).next_multiple_of(4);
    let count = (bytes - half) / 4;
    let code = fill(fills, own, opened + half as u64, count as u32, 0xa5a5_a5a5);
    assert_eq!(code, common::SUCCESS);
    ok!(cuEventRecord(done, own));
    ok!(cuCtxDestroy_v2(gone));
    ok!(cuEventQuery(done));
}

#[test]
fn another_process_reads_and_writes_the_memory() {
    context();
    let all = SIZES.map(memory);
    let (event, of_event) = event();
    let own = stream(1);
    ok!(cuMemsetD8Async(all[3].0, 0x5a, 1, own));
    ok!(cuEventRecord(event, own));
    let texts = all.iter().map(|(_, handle)| text(&handle.reserved));
    let forged = forged(&all[2].1);
    let forged_texts = forged.iter().map(|(_, handle)| text(handle));
    let texts: Vec<_> = texts.chain([text(&of_event.reserved)]).chain(forged_texts).collect();
    let mut other = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "the_other_process", "--nocapture", "--ignored"])
        .env(HANDLES, texts.join(" "))
        .env("CUDA_EMU_DEVICES", "2")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(other.stdout.take().expect("a pipe")).lines();
    let mut until = |wanted: &str| {
        assert!(lines.any(|line| line.expect("a line").contains(wanted)), "no {wanted}");
    };
    until("written");
    for (bytes, (address, _)) in SIZES.into_iter().zip(all) {
        let mut wanted = pattern(bytes);
        wanted[bytes / 2..].fill(0xa5);
        wanted[0] = 0xa5;
        assert!(read(address, bytes) == wanted, "{bytes} bytes");
        ok!(cuMemFree_v2(address));
        // The memory is this process's alone again.
        let mut next = 0;
        ok!(cuMemAlloc_v2(&raw mut next, bytes));
        ok!(cuMemsetD8_v2(next, 1, bytes));
    }
    let mut pipe = other.stdin.take().expect("a pipe");
    pipe.write_all(b"freed\n").expect("it reads");
    until("1 passed");
    assert!(other.wait().expect("it ends").success());
}

/// [`another_process_reads_and_writes_the_memory`] runs it.
#[test]
#[ignore = "is the other process"]
fn the_other_process() {
    let texts = std::env::var(HANDLES).expect("handles");
    let mut texts = texts.split(' ').map(handle);
    context();
    let all: Vec<_> = SIZES.into_iter().zip(texts.by_ref()).collect();
    let of_event = CUipcEventHandle { reserved: texts.next().expect("an event") };
    let mut event = ptr::null_mut();
    ok!(cuIpcOpenEventHandle(&raw mut event, of_event));
    let own = stream(1);
    ok!(cuStreamWaitEvent(own, event, 0));
    ok!(cuEventSynchronize(event));
    ok!(cuEventRecord(event, own));
    ok!(cuEventQuery(event));
    ok!(cuEventDestroy_v2(event));
    for reserved in texts {
        let (mut address, handle) = (0, CUipcMemHandle { reserved });
        fails!(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&raw mut address, handle, 1));
    }
    let (bytes, reserved) = all[2];
    open_and_close_in_threads(bytes, reserved);
    let mut opened = Vec::new();
    for (bytes, reserved) in all {
        let (mut address, mut again) = (0, 0);
        refuses_other_bits(reserved, 16);
        ok!(cuIpcOpenMemHandle_v2(&raw mut address, CUipcMemHandle { reserved }, 1));
        ok!(cuIpcOpenMemHandle_v2(&raw mut again, CUipcMemHandle { reserved }, 1));
        assert_eq!(address, again);
        ok!(cuIpcCloseMemHandle(again));
        refuses_other_bits(reserved, 16);
        let mut wanted = pattern(bytes);
        wanted[0] = if bytes == SIZES[3] { 0x5a } else { wanted[0] };
        assert!(read(address, bytes) == wanted, "{bytes} bytes");
        ok!(cuMemsetD8_v2(address + bytes as u64 / 2, 0xa5, bytes - bytes / 2));
        ok!(cuMemsetD8_v2(address, 0xa5, 1));
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(address));
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(address, 0, bytes + 1));
        let mut handle = CUipcMemHandle::default();
        fails!(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&raw mut handle, address));
        opened.push((bytes, address, reserved));
    }
    let (bytes, _, reserved) = opened[5];
    waits_for_other_contexts(bytes, reserved);
    println!("written");
    std::io::stdin().lock().read_line(&mut String::new()).expect("a line");
    for (bytes, address, reserved) in opened {
        // The pages stay as they were.
        assert_eq!(read(address, bytes)[bytes - 1], 0xa5);
        ok!(cuIpcCloseMemHandle(address));
        fails!(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
        let (mut gone, mut host) = (0, 0_u8);
        fails!(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2((&raw mut host).cast(), address, 1));
        let handle = CUipcMemHandle { reserved };
        fails!(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&raw mut gone, handle, 1));
    }
}

#[test]
fn handles_are_checked() {
    context();
    let (address, good) = memory(100);
    let mut out = 0;
    fails!(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&raw mut out, good, 1));
    fails!(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(&raw mut out, good, 2));
    fails!(CUDA_ERROR_INVALID_VALUE, cuIpcOpenMemHandle_v2(ptr::null_mut(), good, 1));
    fails!(CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(address));
    // Another process has no such file.
    let mut bad = good;
    bad.reserved[8] ^= 1;
    refuses_other_bits(bad.reserved, 0);
    let mut handle = CUipcMemHandle::default();
    fails!(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenMemHandle_v2(&raw mut out, handle, 1));
    fails!(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(ptr::null_mut(), address));
    fails!(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&raw mut handle, address + 100));
    let (mut managed, mut pooled) = (0, 0);
    let global = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
    ok!(cuMemAllocManaged(&raw mut managed, 64, global));
    ok!(cuMemAllocAsync(&raw mut pooled, 64, ptr::null_mut()));
    for other in [managed, pooled, 0] {
        fails!(CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&raw mut handle, other));
    }
    // The same handle each time, and the memory is where it was.
    ok!(cuIpcGetMemHandle(&raw mut handle, address));
    assert_eq!(handle.reserved, good.reserved);
    assert_eq!(read(address, 100), pattern(100));

    let (shared, of_shared) = event();
    let mut plain = ptr::null_mut();
    fails!(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&raw mut plain, of_shared));
    let empty = CUipcEventHandle::default();
    fails!(CUDA_ERROR_INVALID_HANDLE, cuIpcOpenEventHandle(&raw mut plain, empty));
    fails!(CUDA_ERROR_INVALID_VALUE, cuEventCreate(&raw mut plain, 4));
    ok!(cuEventCreate(&raw mut plain, 0));
    let mut out = empty;
    fails!(CUDA_ERROR_INVALID_HANDLE, cuIpcGetEventHandle(&raw mut out, plain));
    let (mut graph, mut node) = (ptr::null_mut(), ptr::null_mut());
    ok!(cuGraphCreate(&raw mut graph, 0));
    let add = call!(cuGraphAddEventRecordNode(&raw mut node, graph, ptr::null(), 0, shared));
    assert_eq!(add, CUresult::CUDA_ERROR_NOT_SUPPORTED);
    ok!(cuGraphDestroy(graph));
}
