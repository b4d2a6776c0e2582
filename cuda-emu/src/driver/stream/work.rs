//! Pieces of work of a stream, and doing them.

use core::ffi::c_void;
use core::ptr;
use std::sync::Arc;

use cuda_sys::{CUresult, CUstream};

use super::engine::Turn;
use crate::driver::bridge::{self, KernelWork};
use crate::driver::call::in_callback;
use crate::driver::graph::conditional::{Choice, Condition};
use crate::driver::graph::memory::GraphMemory;
use crate::driver::objects::handle;
use crate::driver::observation;
use crate::driver::process::Process;
use crate::exec::Report;
use crate::exec::check::finding::{Check, Finding, note};

/// A pointer of the user's that goes back to the user.
#[derive(Debug, Clone, Copy)]
pub(in crate::driver) struct UserData(pub(in crate::driver) *mut c_void);

// SAFETY: the driver only carries it to the user's function, whose contract says that it is called
// on another thread.
unsafe impl Send for UserData {}
// SAFETY: as above.
unsafe impl Sync for UserData {}

/// A host function of the user's.
pub(in crate::driver) type HostFunction = unsafe extern "C" fn(*mut c_void);
/// A stream callback of the user's.
pub(in crate::driver) type Callback = unsafe extern "C" fn(CUstream, CUresult, *mut c_void);

/// A piece of work.
#[derive(Clone)]
pub(in crate::driver) enum Work {
    /// No work: only an order.
    Nothing,
    /// Marks an event.
    Record(u64),
    Kernel(Arc<KernelWork>),
    Copy(Copy),
    Fill(Fill),
    Host(HostFunction, UserData),
    Callback(Callback, UserData),
    /// Waits until a value in memory is as wanted: address, value, bytes, flags.
    Wait(u64, u64, u8, u32),
    /// Writes a value: address, value, bytes.
    Write(u64, u64, u8),
    /// Frees memory.
    Free(u64),
    /// Begins a launch of a graph: sets its conditions, and frees what the last one has left.
    Begin(Arc<Begin>),
    /// Allocates memory of a graph.
    Map(Arc<GraphMemory>),
    /// Frees memory of a graph.
    Unmap(Arc<GraphMemory>),
    /// Enqueues one of the graphs inside.
    Conditional(Arc<Choice>),
}

/// The first work of a launch of a graph.
pub(in crate::driver) struct Begin {
    pub(in crate::driver) conditions: Arc<[Condition]>,
    pub(in crate::driver) left: Vec<Arc<GraphMemory>>,
}

/// Where a copy comes from.
#[derive(Debug, Clone)]
pub(in crate::driver) enum Source {
    /// An address, and whether it must be in the device's table.
    At(u64, bool),
    /// The contents of the source when the copy was enqueued; rows without space between them.
    Bytes(Arc<[u8]>),
}

/// A copy of `slices` of `rows` of `width` bytes.
#[derive(Debug, Clone)]
pub(in crate::driver) struct Copy {
    pub(in crate::driver) from: Source,
    pub(in crate::driver) to: u64,
    /// Whether the destination must be in the device's table.
    pub(in crate::driver) to_device: bool,
    pub(in crate::driver) width: usize,
    pub(in crate::driver) rows: usize,
    pub(in crate::driver) slices: usize,
    /// Bytes from one row to the next, and from one slice to the next.
    pub(in crate::driver) from_pitch: (usize, usize),
    pub(in crate::driver) to_pitch: (usize, usize),
}

impl Copy {
    /// Bytes from the first to the last of a side with this pitch; `None` if no memory is so large.
    pub(in crate::driver) fn extent(&self, (pitch, slice): (usize, usize)) -> Option<u64> {
        let rows = pitch.checked_mul(self.rows.checked_sub(1)?)?;
        let slices = slice.checked_mul(self.slices.checked_sub(1)?)?;
        u64::try_from(rows.checked_add(slices)?.checked_add(self.width)?).ok()
    }

    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.width == 0 || self.rows == 0 || self.slices == 0
    }
}

/// Fills `rows` rows of `width` elements of `size` bytes.
#[derive(Debug, Clone, Copy)]
pub(in crate::driver) struct Fill {
    pub(in crate::driver) at: u64,
    pub(in crate::driver) value: u32,
    pub(in crate::driver) size: u8,
    pub(in crate::driver) width: usize,
    pub(in crate::driver) rows: usize,
    pub(in crate::driver) pitch: usize,
}

impl Fill {
    /// Bytes from the first to the last.
    pub(in crate::driver) fn extent(&self) -> Option<u64> {
        let rows = self.pitch.checked_mul(self.rows.checked_sub(1)?)?;
        let width = self.width.checked_mul(usize::from(self.size))?;
        u64::try_from(rows.checked_add(width)?).ok()
    }
}

/// How a piece of work went.
pub(in crate::driver) enum Outcome {
    Done,
    /// The work has to be tried again later.
    Again,
    /// A conditional node, whose choice needs the lock.
    Choose,
    /// The device is lost.
    Fault(CUresult, String),
}

/// Returns the host's view of an address.
pub(in crate::driver) fn host<T>(address: u64) -> *mut T {
    ptr::with_exposed_provenance_mut(address as usize)
}

/// Does a piece of work, without any lock.
pub(in crate::driver) fn perform(process: &Process, turn: &Turn) -> Outcome {
    let stream = turn.stream;
    match &turn.work {
        Work::Nothing | Work::Record(_) => Outcome::Done,
        Work::Kernel(kernel) => match bridge::run(process, kernel, turn) {
            Ok(()) => Outcome::Done,
            Err((code, report)) if observation::keep(code, &report) => Outcome::Done,
            Err((code, report)) => Outcome::Fault(code, report),
        },
        Work::Copy(copy) => run_copy(process, copy),
        Work::Fill(fill) => run_fill(process, fill),
        Work::Host(function, data) => {
            // SAFETY: the user enqueued this function to be called with this pointer, once.
            in_callback(|| unsafe { function(data.0) });
            Outcome::Done
        }
        Work::Callback(function, data) => {
            // SAFETY: as above; the stream is the stream that it was enqueued on.
            in_callback(|| unsafe { function(handle(stream), CUresult::CUDA_SUCCESS, data.0) });
            Outcome::Done
        }
        Work::Wait(address, value, bytes, flags) => {
            let Some(now) = load(process, *address, *bytes) else {
                return gone(process, "a wait for a value", *address, u64::from(*bytes));
            };
            let difference = now.wrapping_sub(*value);
            let met = match (flags & 3, bytes) {
                // The comparison is cyclic, for counters that wrap around.
                (0, 4) => (difference as u32).cast_signed() >= 0,
                (0, _) => difference.cast_signed() >= 0,
                (1, _) => now == *value,
                (2, _) => now & value != 0,
                (_, 4) => !(now as u32 | *value as u32) != 0,
                _ => !(now | value) != 0,
            };
            if met { Outcome::Done } else { Outcome::Again }
        }
        Work::Write(address, value, bytes) => store(process, *address, *value, *bytes),
        Work::Free(address) => {
            process.space.free(*address);
            Outcome::Done
        }
        Work::Begin(begin) => {
            begin.left.iter().for_each(|memory| memory.clear());
            if let Some(scope) = &turn.scope {
                scope.reset(&begin.conditions);
            }
            Outcome::Done
        }
        Work::Map(memory) => memory.map(process),
        Work::Unmap(memory) => memory.unmap(),
        Work::Conditional(_) => Outcome::Choose,
    }
}

/// A fault: the memory that work was enqueued for is not there any more.
fn gone(process: &Process, what: &str, address: u64, bytes: u64) -> Outcome {
    let place = process.space.describe(address);
    let report = format!("{what} of {bytes} bytes at {address:#x}: {place}");
    Outcome::Fault(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, report)
}

fn run_copy(process: &Process, copy: &Copy) -> Outcome {
    if copy.is_empty() {
        return Outcome::Done;
    }
    let there = |address: u64, pitch: (usize, usize)| {
        let extent = copy.extent(pitch).unwrap_or(u64::MAX);
        match process.space.find_range(address, extent) {
            Some(_) => None,
            None => Some(gone(process, "a copy", address, extent)),
        }
    };
    let from = match &copy.from {
        Source::At(address, checked) => {
            if *checked && let Some(fault) = there(*address, copy.from_pitch) {
                return fault;
            }
            host::<u8>(*address).cast_const()
        }
        Source::Bytes(bytes) => bytes.as_ptr(),
    };
    if copy.to_device
        && let Some(fault) = there(copy.to, copy.to_pitch)
    {
        return fault;
    }
    let to = host::<u8>(copy.to);
    let to_host = || process.space.find(copy.to).is_none_or(|region| region.kind.on_host());
    let from_device = matches!(copy.from, Source::At(_, true));
    let tracked = process.space.written().is_some() || process.space.tangent_store().is_some();
    let reads = (from_device && tracked).then(to_host);
    for slice in 0..copy.slices {
        for row in 0..copy.rows {
            // SAFETY: device memory was found in the table just now, and host memory is the
            // caller's promise, for the extent that these rows are part of. Other accesses to the bytes meanwhile are
            // the program's race, as on any device.
            unsafe {
                let from = from.add(slice * copy.from_pitch.1 + row * copy.from_pitch.0);
                let to = to.add(slice * copy.to_pitch.1 + row * copy.to_pitch.0);
                ptr::copy(from, to, copy.width);
            }
            let to = copy.to + (slice * copy.to_pitch.1 + row * copy.to_pitch.0) as u64;
            let from = from as u64 + (slice * copy.from_pitch.1 + row * copy.from_pitch.0) as u64;
            match reads {
                None => process.space.wrote(to, copy.width as u64),
                Some(to_host) => moved(process, from, to, copy.width as u64, to_host),
            }
        }
    }
    Outcome::Done
}

/// A copy of device memory. Tangents go along where the destination is known, too.
///
/// Initcheck: bytes copied to the host must have been written; a copy between device memory
/// marks the destination of unwritten bytes as unwritten.
fn moved(process: &Process, from: u64, to: u64, bytes: u64, to_host: bool) {
    if let Some(store) = process.space.tangent_store()
        && process.space.find(to).is_some()
    {
        store.lock().copy(from, to, bytes);
    }
    let Some(written) = process.space.written() else { return };
    if !to_host {
        return written.copy(from, to, bytes);
    }
    if let Some(first) = written.first_unwritten(from, bytes) {
        let place = process.space.describe(first);
        let what = format!("copy to the host of {bytes} bytes that nothing has written: {place}");
        let access = Report { what, address: Some(first), ..Report::default() };
        note(Finding { check: Check::Init, access, other: None, count: 1 });
    }
    written.mark(to, bytes);
}

fn run_fill(process: &Process, fill: &Fill) -> Outcome {
    if fill.width == 0 || fill.rows == 0 {
        return Outcome::Done;
    }
    let extent = fill.extent().unwrap_or(u64::MAX);
    if process.space.find_range(fill.at, extent).is_none() {
        return gone(process, "a memset", fill.at, extent);
    }
    for row in 0..fill.rows {
        let at = host::<u8>(fill.at).wrapping_add(row * fill.pitch);
        process
            .space
            .wrote(fill.at + (row * fill.pitch) as u64, fill.width as u64 * u64::from(fill.size));
        // SAFETY: the row lies in a region of the table; its start was checked to be aligned when
        // the work was enqueued.
        unsafe {
            match fill.size {
                1 => at.write_bytes(fill.value as u8, fill.width),
                2 => fill_with(at.cast::<u16>(), fill.value as u16, fill.width),
                _ => fill_with(at.cast::<u32>(), fill.value, fill.width),
            }
        }
    }
    Outcome::Done
}

/// # Safety
/// `at` is aligned and valid for the write of `count` values.
unsafe fn fill_with<T: core::marker::Copy>(at: *mut T, value: T, count: usize) {
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe { at.add(index).write(value) };
    }
}

/// Returns the value at an address that was checked to be aligned; `None` if no memory is there.
fn load(process: &Process, address: u64, bytes: u8) -> Option<u64> {
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    process.space.find_range(address, u64::from(bytes))?;
    // SAFETY: aligned memory of a region of the table; kernels and the host change such values
    // atomically.
    Some(unsafe {
        match bytes {
            4 => u64::from(AtomicU32::from_ptr(host(address)).load(Ordering::Acquire)),
            _ => AtomicU64::from_ptr(host(address)).load(Ordering::Acquire),
        }
    })
}

fn store(process: &Process, address: u64, value: u64, bytes: u8) -> Outcome {
    use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
    if process.space.find_range(address, u64::from(bytes)).is_none() {
        return gone(process, "a write of a value", address, u64::from(bytes));
    }
    // SAFETY: as in `load`.
    unsafe {
        match bytes {
            4 => AtomicU32::from_ptr(host(address)).store(value as u32, Ordering::Release),
            _ => AtomicU64::from_ptr(host(address)).store(value, Ordering::Release),
        }
    }
    process.space.wrote(address, u64::from(bytes));
    Outcome::Done
}
