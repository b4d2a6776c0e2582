//! The stand-in of NCCL that attacks use, and a witness before it, which notes what breaks NCCL's rules: calls of ranks that
//! disagree, two threads with one communicator, a communicator that is used after its end, and a group that stays open.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use cuda_nccl::Nccl;
use nccl_emu::api;
use nccl_emu::types::{
    Buffer, BufferMut, NCCL_SPLIT_NOCOLOR, cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t,
    ncclRedOp_t, ncclResult_t, ncclUniqueId,
};
use test_harness::{Failure, TestResult, ensure};

/// The size of the staging memory between two ranks: messages of most attacks are of several chunks.
const STAGING: usize = 4096;

/// Returns the stand-in behind the witness. Each call makes another library.
pub(crate) fn library() -> Result<&'static Nccl, Failure> {
    static STARTED: OnceLock<bool> = OnceLock::new();
    let started = *STARTED.get_or_init(|| {
        nccl_emu::set_buffer_size(STAGING);
        nccl_emu::use_driver(cuda_emu::driver())
    });
    ensure!(started, "the stand-in uses another driver");
    // SAFETY: the functions have the ABI of `nccl.h`, and those of the stand-in do what NCCL's do, with the driver of the
    // attacks' contexts.
    Ok(unsafe { Nccl::from_resolver(&resolve) }?)
}

/// Fails if a rule was broken, or if not `kept` communicators are left within 10 s.
pub(crate) fn check(kept: usize) -> TestResult {
    let deadline = Instant::now() + Duration::from_secs(10);
    while notes().alive() > kept && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
    let notes = notes();
    ensure!(notes.alive() == kept, "{} communicators are left, and not {kept}", notes.alive());
    let open = notes.depths.values().filter(|depth| **depth != 0).count();
    ensure!(open == 0, "{open} threads have left a group open");
    ensure!(notes.wrong.is_empty(), "NCCL was misused: {}", notes.wrong.join("; "));
    notes.agree()
}

/// A collective as NCCL is given it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    name: &'static str,
    count: usize,
    datatype: u32,
    op: u32,
    root: c_int,
    /// Its place among the collectives of its communicator in the group, and their number.
    place: (usize, usize),
}

impl Call {
    fn new(
        name: &'static str,
        count: usize,
        datatype: ncclDataType_t,
        op: u32,
        root: c_int,
    ) -> Self {
        Self { name, count, datatype: datatype.0, op, root, place: (0, 1) }
    }
}

/// One end of a message.
#[derive(Debug, Clone)]
struct End {
    sends: bool,
    peer: usize,
    count: usize,
    datatype: u32,
}

/// What makes ranks belong together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Together {
    Id([u8; 128]),
    /// The parent's, the number of the split, and the colour.
    Split(usize, usize, c_int),
}

#[derive(Debug)]
struct Rank {
    /// The number of its communicator.
    of: usize,
    /// The ranks are in this order.
    order: (c_int, usize),
    splits: usize,
    collectives: Vec<Call>,
    ends: Vec<End>,
    /// The address of the memory that its last all-reduce writes.
    written: usize,
    gone: bool,
}

#[derive(Debug, Default)]
struct Notes {
    ranks: HashMap<usize, Rank>,
    communicators: HashMap<Together, usize>,
    /// The thread that uses a handle.
    busy: HashMap<usize, ThreadId>,
    /// The open groups of each thread.
    depths: HashMap<ThreadId, usize>,
    wrong: Vec<String>,
}

thread_local! {
    /// The handles that this thread's open group has used, with the numbers of its collectives.
    static GROUP: RefCell<Vec<(usize, Option<usize>)>> = const { RefCell::new(Vec::new()) };
}

fn notes() -> MutexGuard<'static, Notes> {
    static NOTES: OnceLock<Mutex<Notes>> = OnceLock::new();
    NOTES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn me() -> ThreadId {
    std::thread::current().id()
}

impl Notes {
    fn alive(&self) -> usize {
        self.ranks.values().filter(|rank| !rank.gone).count()
    }

    fn depth(&mut self) -> &mut usize {
        self.depths.entry(me()).or_default()
    }

    fn enter(&mut self, handle: usize, name: &str) {
        match self.busy.insert(handle, me()) {
            Some(other) if other != me() => {
                self.wrong.push(format!("{name} while {other:?} uses the communicator"));
            }
            _ => {}
        }
        if self.ranks.get(&handle).is_none_or(|rank| rank.gone) {
            self.wrong.push(format!("{name} with a communicator that is gone"));
        }
    }

    fn leave(&mut self, handle: usize) {
        if *self.depth() == 0 {
            self.busy.remove(&handle);
        } else {
            GROUP.with_borrow_mut(|group| group.push((handle, None)));
        }
    }

    fn add(&mut self, handle: usize, together: Together, order: (c_int, usize)) {
        let next = self.communicators.len();
        let of = *self.communicators.entry(together).or_insert(next);
        let (collectives, ends) = (Vec::new(), Vec::new());
        let rank = Rank { of, order, splits: 0, collectives, ends, written: 0, gone: false };
        self.ranks.insert(handle, rank);
    }

    /// Ends a group of this thread. The outermost end gives the group's handles back, and its collectives their places.
    fn end_group(&mut self) {
        let depth = self.depth();
        *depth = depth.wrapping_sub(1);
        if *depth != 0 {
            return;
        }
        let used = GROUP.with_borrow_mut(std::mem::take);
        for (handle, number) in &used {
            self.busy.remove(handle);
            let calls = used.iter().filter(|(of, number)| of == handle && number.is_some());
            let place = calls.clone().position(|(_, of)| of == number);
            let rank = self.ranks.get_mut(handle);
            let call = rank.zip(*number).and_then(|(rank, at)| rank.collectives.get_mut(at));
            if let (Some(call), Some(place)) = (call, place) {
                call.place = (place, calls.count());
            }
        }
    }

    /// Returns the memory of all-reduces that other ranks of the communicator have made and this one has not.
    fn written_by_peers(&self, handle: usize) -> Vec<usize> {
        let Some(own) = self.ranks.get(&handle) else { return Vec::new() };
        let waits = |rank: &&Rank| {
            rank.of == own.of && rank.collectives.len() > own.collectives.len() && rank.written != 0
        };
        self.ranks.values().filter(waits).map(|rank| rank.written).collect()
    }

    /// Returns the ranks of each communicator, in order.
    fn communicators(&self) -> Vec<Vec<&Rank>> {
        let mut all: Vec<Vec<&Rank>> = vec![Vec::new(); self.communicators.len()];
        for rank in self.ranks.values() {
            all[rank.of].push(rank);
        }
        for ranks in &mut all {
            ranks.sort_by_key(|rank| rank.order);
        }
        all
    }

    /// Fails if two ranks have made different calls.
    fn agree(&self) -> TestResult {
        for ranks in self.communicators() {
            let most = ranks.iter().map(|rank| rank.collectives.len()).max().unwrap_or(0);
            for number in 0..most {
                let mut calls = ranks.iter().filter_map(|rank| rank.collectives.get(number));
                let Some(first) = calls.next() else { continue };
                if let Some(other) = calls.find(|call| *call != first) {
                    return Err(Failure::new(format!(
                        "NCCL was given {first:?} by one rank and {other:?} by another as call {number}"
                    )));
                }
            }
            for (from, sender) in ranks.iter().enumerate() {
                for (to, receiver) in ranks.iter().enumerate() {
                    let sent = sender.ends.iter().filter(|end| end.sends && end.peer == to);
                    let received =
                        receiver.ends.iter().filter(|end| !end.sends && end.peer == from);
                    for (sent, received) in sent.zip(received) {
                        let is_same =
                            (sent.count, sent.datatype) == (received.count, received.datatype);
                        ensure!(is_same, "NCCL was given {sent:?} and {received:?}");
                    }
                }
            }
        }
        Ok(())
    }
}

/// Makes a call with a communicator.
fn with(name: &str, comm: ncclComm_t, call: impl FnOnce() -> ncclResult_t) -> ncclResult_t {
    notes().enter(comm.addr(), name);
    let code = call();
    notes().leave(comm.addr());
    code
}

/// Makes a collective call.
fn collective(comm: ncclComm_t, call: Call, act: impl FnOnce() -> ncclResult_t) -> ncclResult_t {
    let code = with(call.name, comm, act);
    let mut notes = notes();
    let in_group = *notes.depth() > 0;
    if let Some(rank) = notes.ranks.get_mut(&comm.addr()) {
        rank.collectives.push(call);
        if in_group {
            let number = rank.collectives.len() - 1;
            GROUP.with_borrow_mut(|group| group.push((comm.addr(), Some(number))));
        }
    }
    code
}

/// Makes the call of a message's end.
fn message(
    name: &str,
    comm: ncclComm_t,
    peer: c_int,
    (count, datatype): (usize, ncclDataType_t),
    act: impl FnOnce() -> ncclResult_t,
) -> ncclResult_t {
    let code = with(name, comm, act);
    if let Some(rank) = notes().ranks.get_mut(&comm.addr()) {
        let (sends, peer) = (name == "ncclSend", usize::try_from(peer).unwrap_or(usize::MAX));
        rank.ends.push(End { sends, peer, count, datatype: datatype.0 });
    }
    code
}

/// Whether a kernel of each rank that is aborted runs on for a time, and writes to the memory of its peers.
static OUTLIVES: AtomicBool = AtomicBool::new(false);

/// Lets kernels outlive aborts, as those of NCCL do.
pub(crate) fn kernels_outlive_aborts() {
    OUTLIVES.store(true, Ordering::Relaxed);
}

fn abort(comm: ncclComm_t, act: impl FnOnce() -> ncclResult_t) -> ncclResult_t {
    let written = notes().written_by_peers(comm.addr());
    end("ncclCommAbort", comm, || {
        let code = act();
        if OUTLIVES.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
            for address in written {
                let word = std::ptr::with_exposed_provenance_mut::<u32>(address);
                // SAFETY: memory of the software device, which is the host's, and which the program keeps until the end of
                // the abort, unless the attack succeeds.
                unsafe { word.write_volatile(0xeeee_eeee) };
            }
        }
        code
    })
}

fn end(name: &str, comm: ncclComm_t, act: impl FnOnce() -> ncclResult_t) -> ncclResult_t {
    let code = with(name, comm, act);
    if let Some(rank) = notes().ranks.get_mut(&comm.addr()) {
        rank.gone = true;
    }
    code
}

/// Returns the rank of a communicator.
fn rank_of(comm: ncclComm_t) -> usize {
    let mut rank = 0;
    // SAFETY: `rank` is valid for the write; the stand-in checks the handle.
    unsafe { api::ncclCommUserRank(comm, &raw mut rank) };
    usize::try_from(rank).unwrap_or(usize::MAX)
}

/// Defines functions with the ABI of `nccl.h`, each with the call of the stand-in's function of that name as `$call`.
macro_rules! functions {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?) |$call:ident| $body:block)*) => {
        $(
            #[allow(non_snake_case, reason = "the header's names")]
            #[allow(clippy::too_many_arguments, reason = "the header's")]
            unsafe extern "C" fn $name($($arg: $ty),*) -> ncclResult_t {
                // SAFETY: the arguments are those of the caller, who keeps the rules of the C function.
                let $call = || unsafe { api::$name($($arg),*) };
                $body
            }
        )*

        fn resolve(name: &CStr) -> *const c_void {
            $(if name.to_bytes() == stringify!($name).as_bytes() {
                return $name as *const c_void;
            })*
            nccl_emu::resolve(name)
        }
    };
}

functions! {
    fn ncclCommInitRankConfig(
        place: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t,
    ) |call| {
        let code = call();
        // SAFETY: the stand-in has written the handle, or null.
        let comm = unsafe { *place };
        if !comm.is_null() {
            let order = usize::try_from(rank).unwrap_or(usize::MAX);
            notes().add(comm.addr(), Together::Id(id.internal), (0, order));
        }
        code
    }
    fn ncclCommSplit(
        comm: ncclComm_t, color: c_int, key: c_int, new: *mut ncclComm_t, config: *mut ncclConfig_t,
    ) |call| {
        let code = with("ncclCommSplit", comm, call);
        // SAFETY: the stand-in has written the handle, or null.
        let child = unsafe { *new };
        let (order, mut notes) = ((key, rank_of(comm)), notes());
        if let Some(parent) = notes.ranks.get_mut(&comm.addr()) {
            parent.splits += 1;
            let together = Together::Split(parent.of, parent.splits, color);
            if color != NCCL_SPLIT_NOCOLOR && !child.is_null() {
                notes.add(child.addr(), together, order);
            }
        }
        code
    }
    fn ncclCommFinalize(comm: ncclComm_t) |call| { with("ncclCommFinalize", comm, call) }
    fn ncclCommDestroy(comm: ncclComm_t) |call| { end("ncclCommDestroy", comm, call) }
    fn ncclCommAbort(comm: ncclComm_t) |call| { abort(comm, call) }
    fn ncclCommGetAsyncError(comm: ncclComm_t, state: *mut ncclResult_t) |call| {
        with("ncclCommGetAsyncError", comm, call)
    }
    fn ncclGroupStart() |call| {
        *notes().depth() += 1;
        call()
    }
    fn ncclGroupEnd() |call| {
        let code = call();
        notes().end_group();
        code
    }
    fn ncclAllReduce(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t,
        stream: cudaStream_t,
    ) |call| {
        let code = collective(comm, Call::new("ncclAllReduce", count, datatype, op.0, -1), call);
        if let Some(rank) = notes().ranks.get_mut(&comm.addr()) {
            rank.written = recv.expose_provenance();
        }
        code
    }
    fn ncclReduce(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, root: c_int,
        comm: ncclComm_t, stream: cudaStream_t,
    ) |call| { collective(comm, Call::new("ncclReduce", count, datatype, op.0, root), call) }
    fn ncclBroadcast(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, root: c_int, comm: ncclComm_t,
        stream: cudaStream_t,
    ) |call| { collective(comm, Call::new("ncclBroadcast", count, datatype, 0, root), call) }
    fn ncclAllGather(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, comm: ncclComm_t, stream: cudaStream_t,
    ) |call| { collective(comm, Call::new("ncclAllGather", count, datatype, 0, -1), call) }
    fn ncclReduceScatter(
        send: Buffer, recv: BufferMut, count: usize, datatype: ncclDataType_t, op: ncclRedOp_t, comm: ncclComm_t,
        stream: cudaStream_t,
    ) |call| { collective(comm, Call::new("ncclReduceScatter", count, datatype, op.0, -1), call) }
    fn ncclSend(
        send: Buffer, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) |call| { message("ncclSend", comm, peer, (count, datatype), call) }
    fn ncclRecv(
        recv: BufferMut, count: usize, datatype: ncclDataType_t, peer: c_int, comm: ncclComm_t, stream: cudaStream_t,
    ) |call| { message("ncclRecv", comm, peer, (count, datatype), call) }
}
