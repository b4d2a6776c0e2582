//! A driver with a planted bug: the software device's functions, but for one that leaves out what
//! the library asks for. So each plant is what the library would do if it had the bug itself.

#![allow(non_snake_case, reason = "the driver's names")]

use std::ffi::{CStr, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_sys::*;

/// The bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Plant {
    #[default]
    Nothing,
    /// One wait of one stream for another in three is not enqueued.
    MissingEvent,
    /// A writer waits for the newest of those who use the memory, and forgets the others.
    ForgottenReader,
    /// A free does not wait for uses on other streams.
    FreeTooEarly,
    /// The host does not wait before it looks at what the device writes.
    HostTooEarly,
    /// Two streams of one recording don't wait for each other.
    ReuseInCapture,
}

impl Plant {
    const ALL: [(&str, Self); 6] = [
        ("nothing", Self::Nothing),
        ("missing_event", Self::MissingEvent),
        ("forgotten_reader", Self::ForgottenReader),
        ("free_too_early", Self::FreeTooEarly),
        ("host_too_early", Self::HostTooEarly),
        ("reuse_in_capture", Self::ReuseInCapture),
    ];

    /// The plant of this name.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|&(_, plant)| plant)
    }

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |&(name, _)| name)
    }
}

/// What the program is doing, as far as a plant has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Window {
    #[default]
    Other,
    /// Something is enqueued that writes one buffer and reads none.
    Write,
    /// A buffer is dropped.
    Drop,
    /// A graph is recorded.
    Capture,
}

#[derive(Default)]
struct State {
    plant: Plant,
    window: Window,
    /// Waits between streams so far.
    waits: usize,
    /// A wait, as its stream and event, that is enqueued if no newer one takes its place.
    held: Option<(usize, usize)>,
}

static STATE: Mutex<State> =
    Mutex::new(State { plant: Plant::Nothing, window: Window::Other, waits: 0, held: None });

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plants a bug, in place of the one before.
pub fn plant(plant: Plant) {
    flush();
    *state() = State { plant, ..State::default() };
}

/// The end of a window.
pub struct Within;

/// Tells what the program does, until the answer is dropped.
pub fn within(window: Window) -> Within {
    state().window = window;
    Within
}

impl Drop for Within {
    fn drop(&mut self) {
        flush();
        state().window = Window::Other;
    }
}

/// Enqueues the wait that is held, if there is one.
fn flush() {
    let held = state().held.take();
    if let Some((stream, event)) = held {
        let (stream, event) = (
            std::ptr::with_exposed_provenance_mut(stream),
            std::ptr::with_exposed_provenance_mut(event),
        );
        if let Some(wait) = cuda_emu::driver().fns().cuStreamWaitEvent {
            // SAFETY: the handles are from a call of this function, and nothing has destroyed them
            // since: that would have enqueued the wait before. Its answer would be the same then.
            let _ = unsafe { wait(stream, event, 0) };
        }
    }
}

/// Whether the wait is to be enqueued now.
fn waits(stream: CUstream, event: CUevent) -> bool {
    let mut state = state();
    match (state.plant, state.window) {
        (Plant::MissingEvent, Window::Other | Window::Write) => {
            state.waits += 1;
            !state.waits.is_multiple_of(3)
        }
        (Plant::FreeTooEarly, Window::Drop) => false,
        (Plant::ForgottenReader, Window::Write) => {
            let wait = (stream.expose_provenance(), event.expose_provenance());
            let older = state.held.replace(wait);
            drop(state);
            if let Some(older) = older.filter(|older| older.0 != wait.0) {
                let newer = self::state().held.replace(older);
                flush();
                self::state().held = newer;
            }
            false
        }
        _ => true,
    }
}

/// The functions that are looked at: what each does first, whether the driver's own is called then,
/// and its arguments.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $first:block)*) => {
        $(unsafe extern "C" fn $name($($arg: $ty),*) -> CUresult {
            if !$first {
                return CUresult::CUDA_SUCCESS;
            }
            match cuda_emu::driver().fns().$name {
                // SAFETY: the caller's arguments, handed on as they are.
                Some(function) => unsafe { function($($arg),*) },
                None => CUresult::CUDA_ERROR_NOT_SUPPORTED,
            }
        })*

        // The resolver deals in untyped addresses; this makes the compiler compare the types.
        const _: fn(&mut DriverFns) = |fns| {
            $(fns.$name = Some($name);)*
        };

        fn find(name: &str) -> *const c_void {
            match name {
                $(stringify!($name) => $name as *const c_void,)*
                _ => std::ptr::null(),
            }
        }
    };
}

/// What a held wait must come before.
fn enqueues() -> bool {
    flush();
    true
}

fn host_waits() -> bool {
    state().plant != Plant::HostTooEarly
}

fn lanes_wait() -> bool {
    state().plant != Plant::ReuseInCapture
}

functions! {
    fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: c_uint) {
        waits(stream, event)
    }
    fn cuEventSynchronize(event: CUevent) { host_waits() }
    fn cuStreamUpdateCaptureDependencies(
        stream: CUstream, nodes: *mut CUgraphNode, count: usize, flags: c_uint
    ) { lanes_wait() }
    fn cuStreamUpdateCaptureDependencies_v2(
        stream: CUstream, nodes: *mut CUgraphNode, data: *const CUgraphEdgeData, count: usize,
        flags: c_uint
    ) { lanes_wait() }
    fn cuEventRecord(event: CUevent, stream: CUstream) {
        // The wait is for the record before.
        let held = state().held;
        if held.is_some_and(|(_, held)| held == event.addr()) { enqueues() } else { true }
    }
    fn cuEventDestroy_v2(event: CUevent) { enqueues() }
    fn cuStreamDestroy_v2(stream: CUstream) { enqueues() }
    fn cuMemcpyHtoDAsync_v2(
        to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream
    ) { enqueues() }
    fn cuMemsetD8Async(at: CUdeviceptr, value: u8, count: usize, stream: CUstream) { enqueues() }
    fn cuMemsetD32Async(
        at: CUdeviceptr, value: c_uint, count: usize, stream: CUstream
    ) { enqueues() }
    fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint,
        block_x: c_uint, block_y: c_uint, block_z: c_uint, shared: c_uint,
        stream: CUstream, arguments: *mut *mut c_void, extra: *mut *mut c_void
    ) { enqueues() }
}

/// The driver on which bugs are planted; always the same table.
pub fn driver() -> &'static Driver {
    static DRIVER: OnceLock<&'static Driver> = OnceLock::new();
    let resolve = |name: &CStr| {
        let original = cuda_emu::resolve(name);
        let mine = name.to_str().map_or(std::ptr::null(), find);
        if original.is_null() || mine.is_null() { original } else { mine }
    };
    // SAFETY: the functions have been assigned to the slots of their names, here or in the software
    // device, so the compiler has checked their types; they last as long as the program.
    DRIVER.get_or_init(|| unsafe { Driver::from_resolver(&resolve) })
}
