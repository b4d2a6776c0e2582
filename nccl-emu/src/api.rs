//! The functions of `nccl.h`. [`resolve`](crate::resolve) returns their addresses by name.
//!
//! # Safety
//! Each function has the rules of the C function: pointers are null where the header allows it, or valid for what the
//! function reads and writes; a place for a communicator's handle is valid until the group has ended; memory of
//! operations and streams lives until the work is done, and graphs with captured operations are destroyed before the
//! communicator. Handles of communicators are checked: an invalid one is an error.

use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::args::{self, Region};
use crate::comm::{self, Comm, Custom};
use crate::cuda::Cuda;
use crate::error::{self, Error, Result};
use crate::group::{self, Task};
use crate::kernel;
use crate::meeting::{self, Job};
use crate::plan::{Collective, Message, Op};
use crate::types::{
    Buffer, BufferMut, NCCL_VERSION_CODE, cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t,
    ncclRedOp_t, ncclResult_t, ncclScalarResidence_t, ncclUniqueId,
};

/// Runs the body of a function. No panic leaves it.
fn guard(name: &str, body: impl FnOnce() -> Result) -> ncclResult_t {
    let result = catch_unwind(AssertUnwindSafe(body));
    let result = result
        .unwrap_or_else(|_| Err(Error::internal("nccl-emu panicked, which is a mistake in it")));
    match result {
        Ok(()) => ncclResult_t::ncclSuccess,
        Err(mut error) => {
            if !error.text.is_empty() {
                error.text = format!("{name}: {}", error.text);
            }
            error::remember(&error);
            error.code
        }
    }
}

/// Defines functions of the header, and the table of their addresses.
macro_rules! functions {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The rules of the C function: see the [module](self).
            #[allow(non_snake_case, reason = "the header's names")]
            #[allow(clippy::too_many_arguments, reason = "the header's")]
            pub unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
                guard(stringify!($name), || {
                    #[allow(unused_unsafe, reason = "some bodies touch no pointer")]
                    // SAFETY: the caller keeps the rules of the C function, so that pointers are null or valid for
                    // what it reads and writes.
                    unsafe { $body }
                })
            }
        )*

        /// The functions with a code as their result.
        const CODES: &[(&str, *const c_void)] =
            &[$((stringify!($name), $name as *const c_void)),*];
    };
}

/// Returns the address of a function; null for a name that there is none of.
pub(crate) fn address(name: &str) -> *const c_void {
    match name {
        "ncclGetErrorString" => ncclGetErrorString as *const c_void,
        "ncclGetLastError" => ncclGetLastError as *const c_void,
        _ => CODES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(ptr::null(), |(_, address)| *address),
    }
}

/// Writes a result.
///
/// # Safety
/// `place` is null or valid for the write.
unsafe fn put<T>(place: *mut T, name: &str, value: T) -> Result {
    if place.is_null() {
        return Err(Error::argument(format!("{name} is null: pass a place for the result")));
    }
    // SAFETY: not null, and the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Returns the string of a code.
///
/// # Safety
/// None: any code may be passed.
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn ncclGetErrorString(result: ncclResult_t) -> *const c_char {
    error::describe(result)
}

/// Returns the text of the last error of the process: valid until this thread calls it again or ends. The communicator
/// is not used, as in NCCL.
///
/// # Safety
/// None: any handle may be passed.
#[allow(non_snake_case, reason = "the header's name")]
pub unsafe extern "C" fn ncclGetLastError(_comm: ncclComm_t) -> *const c_char {
    error::last()
}

/// Begins the communicator of one rank, in a group or by itself.
///
/// # Safety
/// `place` is valid for writes until the group has ended.
unsafe fn begin(
    place: *mut ncclComm_t,
    cuda: Cuda,
    config: comm::Config,
    device: c_int,
    job: Job,
) -> Result {
    let handle = Comm::begin(cuda, config, device, job);
    // SAFETY: the caller's promise.
    unsafe { put(place, "the place of the communicator", handle) }?;
    let comm = comm::find(handle)?;
    group::add(Task::Begin { comm, handle, place })
}

/// # Safety
/// `place` is null or valid for writes until the group has ended, `config` is null or valid for reads of its size.
unsafe fn init(
    place: *mut ncclComm_t,
    ranks: c_int,
    id: &ncclUniqueId,
    rank: c_int,
    config: *const ncclConfig_t,
) -> Result {
    if place.is_null() {
        return Err(Error::argument("comm is null: pass a place for the communicator"));
    }
    let (size, number) = args::rank_of(ranks, rank)?;
    // SAFETY: the caller's promise.
    let config = unsafe { args::config(config, comm::Config { blocking: true }) }?;
    let id = args::id(id)?;
    let cuda = Cuda::get()?;
    cuda.init()?;
    let context = cuda.current()?;
    // A thread without a context uses device 0, as in the runtime.
    let device = if context.is_null() { 0 } else { cuda.current_device()? };
    let job = Job::new(cuda, id, size, number, device, context);
    // SAFETY: the caller's promise.
    unsafe { begin(place, cuda, config, device, job) }
}

/// Adds a collective operation.
fn collect(
    handle: ncclComm_t,
    stream: cudaStream_t,
    act: impl FnOnce(&Comm, usize, usize) -> Result<Option<(Collective, Region)>>,
) -> Result {
    let comm = comm::find(handle)?;
    let link = comm.ready()?;
    let Some((what, region)) = act(&comm, link.rank, link.ranks.len())? else { return Ok(()) };
    let Region { send, recv, bytes } = region;
    group::add(Task::Collective { comm, what, send, recv, bytes, stream })
}

/// Adds messages to and from other ranks.
fn exchange(
    handle: ncclComm_t,
    stream: cudaStream_t,
    act: impl FnOnce(usize, usize) -> Result<Vec<Message>>,
) -> Result {
    let comm = comm::find(handle)?;
    let link = comm.ready()?;
    let messages = act(link.rank, link.ranks.len())?;
    group::add(Task::Messages { comm, messages, stream })
}

/// Runs a call that is collected, so that an error fails the whole group.
fn collected(body: impl FnOnce() -> Result) -> Result {
    let result = body();
    if let Err(error) = &result
        && error.code != ncclResult_t::ncclInProgress
    {
        group::failed(error);
    }
    result
}

/// Ends a communicator.
fn end(handle: ncclComm_t, abort: bool) -> Result {
    // NCCL ignores a null handle.
    if handle.is_null() {
        return Ok(());
    }
    comm::remove(handle)?.end(abort)
}

/// The next number of a program's reduction, after the built-in ones.
static CUSTOM: AtomicU32 = AtomicU32::new(5);

functions! {
    /// Writes the version of the API: 22803.
    fn ncclGetVersion(version: *mut c_int) { put(version, "version", NCCL_VERSION_CODE) }

    /// Makes an id, by which the ranks of one communicator meet. It names one communicator of this process.
    fn ncclGetUniqueId(id: *mut ncclUniqueId) {
        if id.is_null() {
            return Err(Error::argument("uniqueId is null: pass a place for the id"));
        }
        put(id, "uniqueId", args::unique_id(meeting::new_id()))
    }

    /// Creates the communicator of one rank, on the device of the current context. Waits for the other ranks; in a
    /// group the end of the group does.
    fn ncclCommInitRank(comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int) {
        collected(|| init(comm, ranks, &id, rank, ptr::null()))
    }

    /// As [`ncclCommInitRank`], with a configuration. Without blocking it returns `ncclInProgress`, and
    /// [`ncclCommGetAsyncError`] returns `ncclSuccess` when all ranks have come.
    fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t
    ) { collected(|| init(comm, ranks, &id, rank, config)) }

    /// Creates the communicators of all ranks, on these devices, or on the first ones.
    fn ncclCommInitAll(comms: *mut ncclComm_t, ranks: c_int, devices: *const c_int) {
        if comms.is_null() {
            return Err(Error::argument("comm is null: pass places for the communicators"));
        }
        let (size, _) = args::rank_of(ranks, 0)?;
        let cuda = Cuda::get()?;
        cuda.init()?;
        let count = cuda.device_count()?;
        let mut chosen = Vec::with_capacity(size);
        for rank in 0..size {
            let device = if devices.is_null() { rank as c_int } else { devices.add(rank).read() };
            if !(0..count).contains(&device) {
                return Err(Error::argument(format!("device {device} of rank {rank}: there are {count} devices")));
            }
            if let Some(other) = chosen.iter().position(|other| *other == device) {
                return Err(Error::usage(format!("ranks {other} and {rank} both use device {device}")));
            }
            chosen.push(device);
        }
        let (id, config) = (meeting::new_id(), comm::Config { blocking: true });
        group::start()?;
        let begun = collected(|| {
            for (rank, device) in chosen.into_iter().enumerate() {
                let job = Job::new(cuda, id, size, rank, device, ptr::null_mut());
                begin(comms.add(rank), cuda, config, device, job)?;
            }
            Ok(())
        });
        begun.and(group::end())
    }

    /// Creates communicators of the ranks with one colour, in the order of their keys. The ranks of the parent must all
    /// call it.
    fn ncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, new: *mut ncclComm_t, config: *mut ncclConfig_t
    ) {
        collected(|| {
            if new.is_null() {
                return Err(Error::argument("newcomm is null: pass a place for the communicator"));
            }
            let parent = comm::find(comm)?;
            let link = parent.ready()?;
            if color < 0 && color != crate::types::NCCL_SPLIT_NOCOLOR {
                return Err(Error::argument(format!("color {color} must not be negative, or NCCL_SPLIT_NOCOLOR")));
            }
            let config = args::config(config, parent.config)?;
            let mut inner = parent.lock();
            inner.splits += 1;
            let count = inner.splits;
            drop(inner);
            let job = Job::split(parent.cuda, &link, count, color, key);
            begin(new, parent.cuda, config, parent.device, job)
        })
    }

    /// Waits for the enqueued work; without blocking, [`ncclCommGetAsyncError`] returns `ncclSuccess` when it is done.
    fn ncclCommFinalize(comm: ncclComm_t) {
        if comm::find(comm)?.finalize()? { Ok(()) } else { Err(Error::in_progress()) }
    }

    /// Frees a communicator. Waits for the enqueued work, unless an error of the communicator keeps that from ending.
    fn ncclCommDestroy(comm: ncclComm_t) { end(comm, false) }

    /// Ends the enqueued work of this rank at once, without results, and frees the communicator. The streams of other
    /// ranks go on waiting.
    fn ncclCommAbort(comm: ncclComm_t) { end(comm, true) }

    /// Writes the state of a communicator: `ncclInProgress`, an error of an earlier call or the abort of another rank,
    /// or `ncclSuccess`.
    fn ncclCommGetAsyncError(comm: ncclComm_t, state: *mut ncclResult_t) {
        let comm = comm::find(comm)?;
        let code = match comm.state() {
            Ok(()) => ncclResult_t::ncclSuccess,
            Err(error) => {
                error::remember(&error);
                error.code
            }
        };
        put(state, "asyncError", code)
    }

    /// Writes the number of ranks.
    fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) {
        put(count, "count", args::link(comm)?.ranks.len() as c_int)
    }

    /// Writes the device of the communicator.
    fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) {
        put(device, "device", comm::find(comm)?.device)
    }

    /// Writes the rank of the communicator.
    fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) {
        put(rank, "rank", args::link(comm)?.rank as c_int)
    }

    /// Reduces the ranks' arrays into one of the root's.
    fn ncclReduce(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |comm, rank, size| {
            let root = args::peer("root", root, size)?;
            let with = args::reduction(comm, datatype, op)?;
            let region = Region::new(send, recv, count, datatype, true, rank == root)?;
            Ok(region.map(|region| (Collective::Reduce { root, with }, region)))
        }))
    }

    /// Copies the root's array into those of all ranks. (Older name and form of [`ncclBroadcast`].)
    fn ncclBcast(
        buffer: BufferMut, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |_, _, size| {
            let root = args::peer("root", root, size)?;
            let region = Region::new(buffer, buffer, count, datatype, true, true)?;
            Ok(region.map(|region| (Collective::Broadcast { root }, region)))
        }))
    }

    /// Copies the root's array into those of all ranks.
    fn ncclBroadcast(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t,
        stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |_, rank, size| {
            let root = args::peer("root", root, size)?;
            let region = Region::new(send, recv, count, datatype, rank == root, true)?;
            Ok(region.map(|region| (Collective::Broadcast { root }, region)))
        }))
    }

    /// Reduces the ranks' arrays into one of each rank.
    fn ncclAllReduce(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t,
        stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |comm, _, _| {
            let with = args::reduction(comm, datatype, op)?;
            let region = Region::new(send, recv, count, datatype, true, true)?;
            Ok(region.map(|region| (Collective::AllReduce { with }, region)))
        }))
    }

    /// Reduces the ranks' arrays, and leaves the n-th part of the result at the n-th rank.
    fn ncclReduceScatter(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t,
        stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |comm, _, size| {
            let with = args::reduction(comm, datatype, op)?;
            args::total(count, datatype, size)?;
            let region = Region::new(send, recv, count, datatype, true, true)?;
            Ok(region.map(|region| (Collective::ReduceScatter { with }, region)))
        }))
    }

    /// Gathers the ranks' arrays, one after the other, at each rank.
    fn ncclAllGather(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| collect(comm, stream, |_, _, size| {
            args::total(count, datatype, size)?;
            let region = Region::new(send, recv, count, datatype, true, true)?;
            Ok(region.map(|region| (Collective::AllGather, region)))
        }))
    }

    /// Sends an array to a rank, which receives as many bytes.
    fn ncclSend(
        send: Buffer, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| exchange(comm, stream, |_, size| {
            let peer = args::peer("peer", peer, size)?;
            let region = Region::new(send, ptr::null_mut(), count, datatype, true, false)?;
            Ok(region.iter().map(|region| region.send_to(peer, 0)).collect())
        }))
    }

    /// Receives an array from a rank.
    fn ncclRecv(
        recv: BufferMut, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| exchange(comm, stream, |_, size| {
            let peer = args::peer("peer", peer, size)?;
            let region = Region::new(ptr::null(), recv, count, datatype, false, true)?;
            Ok(region.iter().map(|region| region.receive_from(peer, 0)).collect())
        }))
    }

    /// Gathers the ranks' arrays, one after the other, at the root.
    fn ncclGather(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t,
        stream: cudaStream_t
    ) {
        collected(|| exchange(comm, stream, |rank, size| {
            let root = args::peer("root", root, size)?;
            args::total(count, datatype, size)?;
            let Some(region) = Region::new(send, recv, count, datatype, true, rank == root)? else {
                return Ok(Vec::new());
            };
            let mut all = vec![region.send_to(root, 0)];
            if rank == root {
                all.extend((0..size).map(|peer| region.receive_from(peer, peer)));
            }
            Ok(all)
        }))
    }

    /// Sends the n-th part of the root's array to the n-th rank.
    fn ncclScatter(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t,
        stream: cudaStream_t
    ) {
        collected(|| exchange(comm, stream, |rank, size| {
            let root = args::peer("root", root, size)?;
            args::total(count, datatype, size)?;
            let Some(region) = Region::new(send, recv, count, datatype, rank == root, true)? else {
                return Ok(Vec::new());
            };
            let mut all = vec![region.receive_from(root, 0)];
            if rank == root {
                all.extend((0..size).map(|peer| region.send_to(peer, peer)));
            }
            Ok(all)
        }))
    }

    /// Sends the n-th part of each rank's array to the n-th rank.
    fn ncclAlltoAll(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t
    ) {
        collected(|| exchange(comm, stream, |_, size| {
            args::total(count, datatype, size)?;
            let region = Region::new(send, recv, count, datatype, true, true)?;
            let pair = |region: Region, peer| [region.send_to(peer, peer), region.receive_from(peer, peer)];
            Ok(region.into_iter().flat_map(|region| (0..size).flat_map(move |peer| pair(region, peer))).collect())
        }))
    }

    /// Begins a group of calls of this thread.
    fn ncclGroupStart() { group::start() }

    /// Ends a group, and runs its calls at the end of the outermost one.
    fn ncclGroupEnd() { group::end() }

    /// Allocates device memory in the current context.
    fn ncclMemAlloc(memory: *mut *mut c_void, bytes: usize) {
        if memory.is_null() {
            return Err(Error::argument("ptr is null: pass a place for the address"));
        }
        let address = if bytes == 0 { 0 } else { Cuda::get()?.alloc(bytes)? };
        put(memory, "ptr", ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Frees memory of [`ncclMemAlloc`]. Null is nothing.
    fn ncclMemFree(memory: *mut c_void) {
        if memory.is_null() { Ok(()) } else { Cuda::get()?.free(memory.expose_provenance() as u64) }
    }

    /// Makes a reduction for one communicator and type: the sum of each rank's values times a scalar.
    fn ncclRedOpCreatePreMulSum(
        op: *mut ncclRedOp_t, scalar: *mut c_void, datatype: ncclDataType_t, residence: ncclScalarResidence_t,
        comm: ncclComm_t
    ) {
        let comm = comm::find(comm)?;
        comm.ready()?;
        args::element(datatype)?;
        let size = kernel::size(datatype).unwrap_or(0);
        if scalar.is_null() {
            return Err(Error::argument("scalar is null: pass its address"));
        }
        let made = match residence {
            ncclScalarResidence_t::ncclScalarDevice => {
                Op::PreMulSum { scalar: scalar.expose_provenance() as u64, bits: 0 }
            }
            ncclScalarResidence_t::ncclScalarHostImmediate => {
                let mut bits = [0; 8];
                ptr::copy_nonoverlapping(scalar.cast::<u8>().cast_const(), bits.as_mut_ptr(), size);
                Op::PreMulSum { scalar: 0, bits: u64::from_le_bytes(bits) }
            }
            other => return Err(Error::argument(format!("residence {}: pass 0 or 1", other.0))),
        };
        let number = CUSTOM.fetch_add(1, Ordering::Relaxed);
        put(op, "op", ncclRedOp_t(number))?;
        comm.lock().custom.insert(number, Custom { datatype, op: made });
        Ok(())
    }

    /// Destroys a reduction, which calls that have returned no longer need.
    fn ncclRedOpDestroy(op: ncclRedOp_t, comm: ncclComm_t) {
        let comm: Arc<Comm> = comm::find(comm)?;
        if op.0 < 5 {
            return Err(Error::argument(format!("operation {} is built in: it cannot be destroyed", op.0)));
        }
        match comm.lock().custom.remove(&op.0) {
            Some(_) => Ok(()),
            None => Err(Error::argument(format!("the communicator has no operation {}", op.0))),
        }
    }
}
