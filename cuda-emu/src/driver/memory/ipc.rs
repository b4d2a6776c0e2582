//! Memory and events that other processes open.
//!
//! An allocation whose handle was asked for lies in a file that is in no folder, which the other process maps by `/proc`. An event
//! is only a number: recording one that is for other processes waits for the work before it, so that it is never pending in a
//! process that has opened it.

use core::ffi::{c_char, c_uint};
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use cuda_sys::{CUdeviceptr, CUevent, CUevent_flags, CUipcEventHandle, CUipcMemHandle, CUresult};

use super::Allocation;
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{Event, handle, number};
use crate::driver::process::State;
use crate::space::{Kind, Label, Shared};

/// The words of a handle: its kind, the process, and for memory the number of its file and the other words of the
/// file's [`Label`].
type Words = [u64; 8];
const MEMORY: u64 = u64::from_ne_bytes(*b"emu\0memo");
const EVENT: u64 = u64::from_ne_bytes(*b"emu\0even");

fn encode(words: Words) -> [c_char; 64] {
    let mut bytes = words.iter().flat_map(|word| word.to_ne_bytes());
    core::array::from_fn(|_| bytes.next().unwrap_or_default() as c_char)
}

/// Returns the words of a handle of another process.
fn decode(bytes: [c_char; 64], kind: u64) -> Answer<Words> {
    let words: Words = core::array::from_fn(|at| {
        u64::from_ne_bytes(core::array::from_fn(|byte| bytes[8 * at + byte] as u8))
    });
    match words {
        [of, maker, ..] if of == kind && maker == u64::from(std::process::id()) => {
            Err(CUresult::CUDA_ERROR_INVALID_CONTEXT)
        }
        [of, ..] if of == kind => Ok(words),
        _ => Err(CUresult::CUDA_ERROR_INVALID_HANDLE),
    }
}

/// Memory of another process.
pub(in crate::driver) struct Opened {
    pub(in crate::driver) context: u64,
    /// How often it was opened and not closed.
    count: usize,
    /// The handle.
    words: Words,
    start: u64,
    /// Unmaps it when it is dropped.
    _shared: Shared,
}

/// Opens the file that a handle names, if it is still that of the region. All words are compared with its name.
fn file([_, maker, file, id, offset, bytes, first, second]: Words) -> Answer<File> {
    let label: Label = [maker, id, offset, bytes, first, second];
    let gone = |_| CUresult::CUDA_ERROR_INVALID_HANDLE;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        // The number may be that of a terminal or of a device.
        .custom_flags(libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK)
        .open(format!("/proc/{maker}/fd/{file}"))
        .map_err(gone)?;
    let named = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(gone)?;
    let name = format!("/memfd:{} (deleted)", Shared::name(label));
    // The seal keeps the maker from shrinking the file, after which an access would end this process.
    // SAFETY: the call reads a property of an open file.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let long = file.metadata().map_err(gone)?.len();
    let inside = offset.checked_add(bytes).is_some_and(|end| end <= long);
    let right =
        named.as_os_str() == name.as_str() && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    if right && inside { Ok(file) } else { Err(CUresult::CUDA_ERROR_INVALID_HANDLE) }
}

fn open(handle: CUipcMemHandle, flags: c_uint) -> Answer<u64> {
    let process = process()?;
    let mut state = process.lock();
    let (context, device) = state.current_device()?;
    if flags > 1 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    state.forbidden_in_capture()?;
    let words = decode(handle.reserved, MEMORY)?;
    let [_, _, _, _, offset, bytes, ..] = words;
    let mut known = state.objects.opened.iter_mut();
    if let Some(known) = known.find(|it| it.words == words && it.context == context) {
        known.count += 1;
        return Ok(known.start);
    }
    let failed = CUresult::CUDA_ERROR_MAP_FAILED;
    let shared = Shared::map(&file(words)?).map_err(|_| failed)?;
    let start = shared.start() + offset;
    process.space.adopt(start, bytes, Kind::Opened, device).map_err(|_| failed)?;
    let allocation = Allocation::new(context, Kind::Opened, bytes, 0);
    state.objects.allocations.insert(start, allocation);
    state.objects.opened.push(Opened { context, count: 1, words, start, _shared: shared });
    Ok(start)
}

fn close(address: u64) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let context = state.current()?;
    state.forbidden_in_capture()?;
    let find = |state: &State| {
        let mut opened = state.objects.opened.iter();
        let at = opened.position(|it| it.start == address && it.context == context);
        at.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    };
    find(&state)?;
    // The wait releases the lock: other threads may open it again, or close it.
    state = process.wait_for_all(state)?;
    let at = find(&state)?;
    let count = &mut state.objects.opened[at].count;
    *count = count.checked_sub(1).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    if *count == 0 {
        state.objects.allocations.remove(&address);
        process.space.free(address);
        state.objects.opened.swap_remove(at);
    }
    Ok(())
}

functions! {
    Device fn cuIpcGetMemHandle(out: *mut CUipcMemHandle, address: CUdeviceptr) {
        let process = process()?;
        let mut state = process.lock();
        state.current()?;
        let find = || {
            let region = process.space.find(address).filter(|region| region.kind == Kind::Device);
            region.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
        };
        find()?;
        state.forbidden_in_capture()?;
        // Nothing may write the memory while it moves to the file, and kernels of every device may.
        let state = process.wait_for_all(state)?;
        let (file, label) =
            process.space.share(&find()?).map_err(|_| CUresult::CUDA_ERROR_OUT_OF_MEMORY)?;
        drop(state);
        let [maker, id, offset, bytes, first, second] = label;
        let words = [MEMORY, maker, file, id, offset, bytes, first, second];
        put(out, CUipcMemHandle { reserved: encode(words) })
    }
    Device fn cuIpcOpenMemHandle(address: *mut CUdeviceptr, from: CUipcMemHandle, flags: c_uint) {
        if address.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(address, open(from, flags)?)
    }
    Device fn cuIpcOpenMemHandle_v2(address: *mut CUdeviceptr, from: CUipcMemHandle, flags: c_uint) {
        if address.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(address, open(from, flags)?)
    }
    Device fn cuIpcCloseMemHandle(address: CUdeviceptr) { close(address) }
    Device fn cuIpcGetEventHandle(out: *mut CUipcEventHandle, event: CUevent) {
        let state = process()?.lock();
        if !state.objects.events.get(number(event))?.is_interprocess() {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let words = [EVENT, std::process::id().into(), number(event), 0, 0, 0, 0, 0];
        put(out, CUipcEventHandle { reserved: encode(words) })
    }
    Device fn cuIpcOpenEventHandle(event: *mut CUevent, from: CUipcEventHandle) {
        let process = process()?;
        let mut state = process.lock();
        let context = state.current()?;
        if event.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        decode(from.reserved, EVENT)?;
        let flags = CUevent_flags::CU_EVENT_INTERPROCESS.0 | CUevent_flags::CU_EVENT_DISABLE_TIMING.0;
        let new = Event { context, flags, record: 0, time: None, captured: None };
        put(event, handle(state.objects.events.insert(new)))
    }
}
