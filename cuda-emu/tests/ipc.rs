//! Memory and events of other processes.

mod common;

use core::ffi::c_char;
use core::ptr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use cuda_sys::{
    CUdeviceptr, CUevent, CUevent_flags, CUipcEventHandle, CUipcMemHandle, CUmemAttach_flags,
    CUresult,
};

use common::{call, context, fails, ok, stream};

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

#[test]
fn another_process_reads_and_writes_the_memory() {
    context();
    let all = SIZES.map(memory);
    let (event, of_event) = event();
    let own = stream(1);
    ok!(cuMemsetD8Async(all[3].0, 0x5a, 1, own));
    ok!(cuEventRecord(event, own));
    let texts = all.iter().map(|(_, handle)| text(&handle.reserved));
    let texts: Vec<_> = texts.chain([text(&of_event.reserved)]).collect();
    let mut other = Command::new(std::env::current_exe().expect("a path"))
        .args(["--exact", "the_other_process", "--nocapture", "--ignored"])
        .env(HANDLES, texts.join(" "))
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
    let mut opened = Vec::new();
    for (bytes, reserved) in all {
        let (mut address, mut again) = (0, 0);
        ok!(cuIpcOpenMemHandle_v2(&raw mut address, CUipcMemHandle { reserved }, 1));
        ok!(cuIpcOpenMemHandle_v2(&raw mut again, CUipcMemHandle { reserved }, 1));
        assert_eq!(address, again);
        ok!(cuIpcCloseMemHandle(again));
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
    // No bits of a handle lead to memory that is not the named one's: here of another process, which has no such file.
    for at in 0..64 {
        let mut bad = good;
        bad.reserved[8] ^= 1;
        bad.reserved[at] ^= 0x40;
        let code = call!(cuIpcOpenMemHandle_v2(&raw mut out, bad, 1));
        assert_eq!(code, CUresult::CUDA_ERROR_INVALID_HANDLE, "byte {at}");
    }
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
