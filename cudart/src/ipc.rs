//! Memory and events of other processes.

use core::ffi::{c_uint, c_void};

use crate::bindings::runtime::{cudaEvent_t, cudaIpcEventHandle_t, cudaIpcMemHandle_t};
use crate::call::{check, put, ready};
use crate::memory::{address, pointer};

crate::functions! {
    fn cudaIpcGetEventHandle(handle: *mut cudaIpcEventHandle_t, event: cudaEvent_t) = cuIpcGetEventHandle;
    fn cudaIpcOpenEventHandle(event: *mut cudaEvent_t, handle: cudaIpcEventHandle_t) = cuIpcOpenEventHandle;
    fn cudaIpcGetMemHandle(handle: *mut cudaIpcMemHandle_t, memory: *mut c_void) {
        check(ready()?.cuIpcGetMemHandle(handle.cast(), address(memory)))
    }
    fn cudaIpcOpenMemHandle(place: *mut *mut c_void, handle: cudaIpcMemHandle_t, flags: c_uint) {
        let mut new = 0;
        check(ready()?.cuIpcOpenMemHandle_v2(&raw mut new, crate::pass(handle), flags))?;
        put(place, pointer(new))
    }
    fn cudaIpcCloseMemHandle(memory: *mut c_void) {
        check(ready()?.cuIpcCloseMemHandle(address(memory)))
    }
}
