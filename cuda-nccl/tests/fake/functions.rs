//! The functions, by their names in `nccl.h`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_nccl::raw::*;
use cuda_safe::sys::{CUresult, CUstream, CUstreamCaptureStatus};

use super::{ALIVE, CALLS, driver, faults, misuse, reduce};

pub(super) struct Comm {
    clique: Arc<Clique>,
    rank: usize,
    busy: AtomicBool,
    /// Messages and collectives that are not done.
    pending: AtomicUsize,
    /// A failure that the next query returns.
    error: AtomicU64,
    finalized: AtomicBool,
}

struct Clique {
    ranks: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    joined: usize,
    /// The communicators by rank, as addresses; 0 for none.
    comms: Vec<usize>,
    collectives: Vec<Vec<Op>>,
    messages: Vec<Op>,
    splits: Vec<Vec<Choice>>,
}

/// A rank's colour, key, new communicator, and where its address is stored when the split is complete.
#[derive(Clone, Copy)]
struct Choice {
    color: c_int,
    key: c_int,
    made: usize,
    slot: usize,
}

#[derive(Clone, Copy)]
pub(super) struct Op {
    pub(super) name: &'static str,
    pub(super) comm: *const Comm,
    pub(super) send: *const c_void,
    pub(super) recv: *mut c_void,
    pub(super) count: usize,
    pub(super) data: ncclDataType_t,
    pub(super) op: ncclRedOp_t,
    pub(super) root: c_int,
    pub(super) stream: usize,
}

// SAFETY: communicators are boxes that live until their destruction; memory is the software device's.
unsafe impl Send for Op {}

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static GROUP: RefCell<Vec<Op>> = const { RefCell::new(Vec::new()) };
    static GROUP_FAILED: Cell<c_int> = const { Cell::new(0) };
}

fn cliques() -> MutexGuard<'static, HashMap<[u8; 128], Arc<Clique>>> {
    static CLIQUES: OnceLock<Mutex<HashMap<[u8; 128], Arc<Clique>>>> = OnceLock::new();
    CLIQUES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

fn planned(name: &'static str) -> Option<ncclResult_t> {
    let code = faults().codes.get(name).copied()?;
    if DEPTH.get() > 0 && name != "ncclGroupEnd" {
        GROUP_FAILED.set(code);
    }
    Some(ncclResult_t(code.unsigned_abs()))
}

const OK: ncclResult_t = ncclResult_t::ncclSuccess;
const IN_PROGRESS: ncclResult_t = ncclResult_t::ncclInProgress;
const INVALID: ncclResult_t = ncclResult_t::ncclInvalidArgument;

static LIVE: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Runs a call on a communicator, and counts misuse.
fn on(
    name: &'static str,
    comm: ncclComm_t,
    call: impl FnOnce(&Comm) -> ncclResult_t,
) -> ncclResult_t {
    if !LIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(&comm.addr()) {
        misuse(format!("{name} of a communicator that is gone"));
        return INVALID;
    }
    if let Some(code) = planned(name) {
        return code;
    }
    // SAFETY: it is alive.
    let comm = unsafe { &*comm.cast::<Comm>() };
    if comm.busy.swap(true, Ordering::SeqCst) {
        misuse(format!("{name}: two threads on one communicator"));
    }
    let code = call(comm);
    comm.busy.store(false, Ordering::SeqCst);
    code
}

fn new_comm(clique: &Arc<Clique>, rank: usize) -> ncclComm_t {
    let comm = Box::into_raw(Box::new(Comm {
        clique: clique.clone(),
        rank,
        busy: AtomicBool::new(false),
        pending: AtomicUsize::new(0),
        error: AtomicU64::new(0),
        finalized: AtomicBool::new(false),
    }));
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).push(comm.addr());
    ALIVE.fetch_add(1, Ordering::SeqCst);
    let mut state = clique.state.lock().unwrap();
    state.comms.resize(clique.ranks, 0);
    state.collectives.resize(clique.ranks, Vec::new());
    state.splits.resize(clique.ranks, Vec::new());
    state.comms[rank] = comm.addr();
    state.joined += 1;
    comm.cast()
}

extern "C" fn version(version: *mut c_int) -> ncclResult_t {
    // SAFETY: valid for one write.
    unsafe { *version = 22809 };
    OK
}

extern "C" fn unique_id(id: *mut ncclUniqueId) -> ncclResult_t {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    if let Some(code) = planned("ncclGetUniqueId") {
        return code;
    }
    let mut internal = [7; 128];
    internal[..8].copy_from_slice(&NEXT.fetch_add(1, Ordering::SeqCst).to_le_bytes());
    // SAFETY: valid for one write.
    unsafe { *id = ncclUniqueId { internal } };
    OK
}

extern "C" fn last_error(_: ncclComm_t) -> *const c_char {
    c"made up".as_ptr()
}

extern "C" fn init(
    comm: *mut ncclComm_t,
    ranks: c_int,
    id: ncclUniqueId,
    rank: c_int,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    if let Some(code) = planned("ncclCommInitRankConfig") {
        return code;
    }
    // SAFETY: the caller passes settings.
    let config = unsafe { &*config };
    if (config.magic, config.blocking, config.size) != (0xcafe_beef, 0, 80) {
        misuse("settings that NCCL refuses");
    }
    let (mut device, sys) = (-1, driver().as_sys());
    // SAFETY: valid for one write.
    if unsafe { sys.cuCtxGetDevice(&raw mut device) } != Ok(CUresult::CUDA_SUCCESS) {
        misuse("no device is current");
    }
    let clique = cliques()
        .entry(id.internal)
        .or_insert_with(|| Arc::new(Clique { ranks: ranks as usize, state: Mutex::default() }))
        .clone();
    // SAFETY: valid for one write.
    unsafe { *comm = new_comm(&clique, rank as usize) };
    IN_PROGRESS
}

extern "C" fn split(
    comm: ncclComm_t,
    color: c_int,
    key: c_int,
    new: *mut ncclComm_t,
    _: *mut ncclConfig_t,
) -> ncclResult_t {
    on("ncclCommSplit", comm, |comm| {
        let made = match color {
            NCCL_SPLIT_NOCOLOR => 0,
            // Its rank is only known when all have come.
            _ => new_unfinished(),
        };
        // SAFETY: valid for one write. NCCL stores the handle when the split is complete.
        unsafe { *new = std::ptr::null_mut() };
        let mut state = comm.clique.state.lock().unwrap();
        let slot = new.expose_provenance();
        state.splits[comm.rank].push(Choice { color, key, made, slot });
        let round = state.splits[comm.rank].len() - 1;
        if state.splits.iter().all(|splits| splits.len() > round) {
            complete_split(&state, round);
        }
        IN_PROGRESS
    })
}

/// Makes a communicator without a clique.
fn new_unfinished() -> usize {
    let clique = Arc::new(Clique { ranks: usize::MAX, state: Mutex::default() });
    let raw = Box::into_raw(Box::new(Comm {
        clique,
        rank: 0,
        busy: AtomicBool::new(false),
        pending: AtomicUsize::new(0),
        error: AtomicU64::new(0),
        finalized: AtomicBool::new(false),
    }));
    LIVE.lock().unwrap_or_else(PoisonError::into_inner).push(raw.expose_provenance());
    ALIVE.fetch_add(1, Ordering::SeqCst);
    raw.addr()
}

fn complete_split(state: &State, round: usize) {
    let all: Vec<(usize, Choice)> =
        state.splits.iter().map(|splits| splits[round]).enumerate().collect();
    let mut colors: Vec<c_int> = all.iter().map(|(_, choice)| choice.color).collect();
    colors.sort_unstable();
    colors.dedup();
    for color in colors.into_iter().filter(|color| *color >= 0) {
        let mut members: Vec<_> = all.iter().filter(|(_, choice)| choice.color == color).collect();
        members.sort_by_key(|(rank, choice)| (choice.key, *rank));
        let clique = Arc::new(Clique { ranks: members.len(), state: Mutex::default() });
        {
            let mut state = clique.state.lock().unwrap();
            state.joined = members.len();
            state.comms = members.iter().map(|(_, choice)| choice.made).collect();
            state.collectives = vec![Vec::new(); members.len()];
            state.splits = vec![Vec::new(); members.len()];
        }
        for (rank, (_, Choice { made, slot, .. })) in members.into_iter().enumerate() {
            // SAFETY: it was made by `split`, and nobody has it yet.
            let comm = unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Comm>(*made) };
            (comm.clique, comm.rank) = (clique.clone(), rank);
            let slot = std::ptr::with_exposed_provenance_mut::<ncclComm_t>(*slot);
            // SAFETY: the caller keeps the place until the split is complete.
            unsafe { *slot = std::ptr::with_exposed_provenance_mut(*made) };
        }
    }
}

extern "C" fn finalize(comm: ncclComm_t) -> ncclResult_t {
    on("ncclCommFinalize", comm, |comm| {
        comm.finalized.store(true, Ordering::SeqCst);
        OK
    })
}

fn remove(name: &'static str, comm: ncclComm_t) -> ncclResult_t {
    let code = on(name, comm, |comm| {
        let mut state = comm.clique.state.lock().unwrap();
        let own = std::ptr::from_ref(comm);
        if let Some(calls) = state.collectives.get_mut(comm.rank) {
            calls.clear();
        }
        state.messages.retain(|op| op.comm != own);
        // A split that is not complete ends, and its communicator is the caller's to abort.
        let done = state.splits.iter().map(Vec::len).min().unwrap_or(0);
        for Choice { made, slot, .. } in
            state.splits.get(comm.rank).into_iter().flatten().skip(done)
        {
            let slot = std::ptr::with_exposed_provenance_mut::<ncclComm_t>(*slot);
            // SAFETY: the caller keeps the place until the parent is gone.
            unsafe { *slot = std::ptr::with_exposed_provenance_mut(*made) };
        }
        if let Some(place) = state.comms.get_mut(comm.rank) {
            *place = 0;
        }
        OK
    });
    if code == OK {
        LIVE.lock().unwrap_or_else(PoisonError::into_inner).retain(|alive| *alive != comm.addr());
        ALIVE.fetch_sub(1, Ordering::SeqCst);
        // Not freed: a test may still look at its state.
    }
    code
}

extern "C" fn destroy(comm: ncclComm_t) -> ncclResult_t {
    remove("ncclCommDestroy", comm)
}

extern "C" fn abort(comm: ncclComm_t) -> ncclResult_t {
    let pause = faults().abort_takes;
    let late_writes = faults().late_writes;
    // SAFETY: the caller has checked nothing, but no test aborts what is gone.
    let (clique, rank) =
        unsafe { ((*comm.cast::<Comm>()).clique.clone(), (*comm.cast::<Comm>()).rank) };
    let calls = clique.state.lock().unwrap().collectives.clone();
    let code = remove("ncclCommAbort", comm);
    std::thread::sleep(pause);
    if late_writes {
        for op in calls.iter().enumerate().filter(|(of, _)| *of != rank).flat_map(|(_, ops)| ops) {
            // SAFETY: memory of the software device, which the program has promised to keep until the end of the abort.
            unsafe { op.recv.cast::<u8>().write_bytes(0xee, op.count * reduce::size(op.data)) };
        }
    }
    code
}

extern "C" fn async_error(comm: ncclComm_t, error: *mut ncclResult_t) -> ncclResult_t {
    on("ncclCommGetAsyncError", comm, |comm| {
        let planned = comm.error.load(Ordering::SeqCst);
        let joined = {
            let state = comm.clique.state.lock().unwrap();
            let splits = state.splits.get(comm.rank).map_or(0, Vec::len);
            state.joined == comm.clique.ranks
                && state.splits.iter().all(|others| others.len() >= splits)
        };
        let done = joined && comm.pending.load(Ordering::SeqCst) == 0 && !faults().never_done;
        let state = match (planned, done) {
            (0, true) => OK,
            (0, false) => IN_PROGRESS,
            (code, _) => ncclResult_t(code as u32),
        };
        // SAFETY: valid for one write.
        unsafe { *error = state };
        OK
    })
}

/// Makes the communicators of a rank report a failure of earlier work.
pub fn fail_rank(rank: usize, code: ncclResult_t) {
    for address in LIVE.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        // SAFETY: it is alive.
        let comm = unsafe { &*std::ptr::with_exposed_provenance::<Comm>(*address) };
        if comm.rank == rank {
            comm.error.store(u64::from(code.0), Ordering::SeqCst);
        }
    }
}

extern "C" fn count(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
    on("ncclCommCount", comm, |comm| {
        // SAFETY: valid for one write.
        unsafe { *count = comm.clique.ranks as c_int };
        OK
    })
}

extern "C" fn user_rank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
    on("ncclCommUserRank", comm, |comm| {
        // SAFETY: valid for one write.
        unsafe { *rank = comm.rank as c_int };
        OK
    })
}

extern "C" fn group_start() -> ncclResult_t {
    if let Some(code) = planned("ncclGroupStart") {
        return code;
    }
    DEPTH.set(DEPTH.get() + 1);
    OK
}

extern "C" fn group_end() -> ncclResult_t {
    if DEPTH.get() == 0 {
        misuse("a group ends that has not begun");
        return ncclResult_t::ncclInvalidUsage;
    }
    DEPTH.set(DEPTH.get() - 1);
    if DEPTH.get() > 0 {
        return OK;
    }
    let ops = GROUP.take();
    let failed = GROUP_FAILED.replace(0);
    if let Some(code) = planned("ncclGroupEnd") {
        return code;
    }
    if failed != 0 {
        return ncclResult_t(failed.unsigned_abs());
    }
    submit(ops)
}

static COUNTS: Mutex<Option<Vec<usize>>> = Mutex::new(None);

/// Begins to record the numbers of elements of calls, which then do nothing; or ends it, and returns them.
pub fn record_counts(record: bool) -> Vec<usize> {
    let mut counts = COUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *counts, record.then(Vec::new)).unwrap_or_default()
}

/// Returns whether the thread has ended all its groups.
pub fn groups_are_ended() -> bool {
    DEPTH.get() == 0
}

fn add(op: Op) -> ncclResult_t {
    CALLS.fetch_add(1, Ordering::SeqCst);
    if op.count == 0 || (op.send.is_null() && op.recv.is_null()) {
        misuse("a call without elements");
    }
    if let Some(counts) = &mut *COUNTS.lock().unwrap_or_else(PoisonError::into_inner) {
        counts.push(op.count);
        return OK;
    }
    if DEPTH.get() > 0 {
        GROUP.with_borrow_mut(|group| group.push(op));
        return OK;
    }
    submit(vec![op])
}

fn submit(ops: Vec<Op>) -> ncclResult_t {
    let mut touched: Vec<Arc<Clique>> = Vec::new();
    for op in &ops {
        // SAFETY: the program calls with live communicators, which `on` has checked.
        let comm = unsafe { &*op.comm };
        if captures(op.stream) {
            capture(*op);
            continue;
        }
        comm.pending.fetch_add(1, Ordering::SeqCst);
        let mut state = comm.clique.state.lock().unwrap();
        match op.name {
            "send" | "recv" => state.messages.push(*op),
            _ => state.collectives[comm.rank].push(*op),
        }
        if !touched.iter().any(|clique| Arc::ptr_eq(clique, &comm.clique)) {
            touched.push(comm.clique.clone());
        }
    }
    for clique in touched {
        progress(&clique);
    }
    // SAFETY: as above.
    let busy = ops.iter().any(|op| unsafe { &*op.comm }.pending.load(Ordering::SeqCst) > 0);
    if busy { IN_PROGRESS } else { OK }
}

/// Runs all that every rank has called.
fn progress(clique: &Clique) {
    let mut state = clique.state.lock().unwrap();
    while state.collectives.iter().all(|calls| !calls.is_empty()) {
        let ops: Vec<Op> = state.collectives.iter_mut().map(|calls| calls.remove(0)).collect();
        ops.iter().for_each(finish_stream);
        let first = ops[0];
        let key = |op: &Op| (op.name, op.count, op.data, op.op, op.root);
        if ops.iter().any(|op| key(op) != key(&first)) {
            misuse("ranks disagree");
        }
        reduce::run(
            &ops.iter().map(reduce::Part::from).collect::<Vec<_>>(),
            first.name,
            first.root,
        );
        ops.iter().for_each(done);
    }
    loop {
        let pair = state.messages.iter().enumerate().find_map(|(index, send)| {
            let other = state.messages.iter().position(|recv| pairs(send, recv))?;
            Some((index, other))
        });
        let Some((send, recv)) = pair else { break };
        let (sent, received) = (state.messages[send], state.messages[recv]);
        state.messages.remove(send.max(recv));
        state.messages.remove(send.min(recv));
        if (sent.count, sent.data) != (received.count, received.data) {
            misuse("the ends of a message disagree");
        }
        [sent, received].iter().for_each(finish_stream);
        let bytes = sent.count * reduce::size(sent.data);
        // SAFETY: both are memory of the software device with this many bytes.
        unsafe { std::ptr::copy(sent.send.cast::<u8>(), received.recv.cast::<u8>(), bytes) };
        [sent, received].iter().for_each(done);
    }
}

fn pairs(send: &Op, recv: &Op) -> bool {
    // SAFETY: pending calls have live communicators.
    let (from, to) = unsafe { (&*send.comm, &*recv.comm) };
    send.name == "send"
        && recv.name == "recv"
        && send.root as usize == to.rank
        && recv.root as usize == from.rank
}

fn done(op: &Op) {
    // SAFETY: pending calls have live communicators.
    unsafe { &*op.comm }.pending.fetch_sub(1, Ordering::SeqCst);
}

fn raw_stream(stream: usize) -> CUstream {
    std::ptr::with_exposed_provenance_mut(stream)
}

fn finish_stream(op: &Op) {
    // SAFETY: the program keeps the stream while the call is pending.
    let code = unsafe { driver().as_sys().cuStreamSynchronize(raw_stream(op.stream)) };
    assert_eq!(code, Ok(CUresult::CUDA_SUCCESS));
}

fn captures(stream: usize) -> bool {
    let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive; `status` is valid for one write.
    let _ = unsafe { driver().as_sys().cuStreamIsCapturing(raw_stream(stream), &raw mut status) };
    status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE
}

/// Records the copy that a collective of one rank is.
fn capture(op: Op) {
    let bytes = op.count * reduce::size(op.data);
    // SAFETY: both are memory of the device of the stream.
    let code = unsafe {
        driver().as_sys().cuMemcpyDtoDAsync_v2(
            op.recv.expose_provenance() as u64,
            op.send.expose_provenance() as u64,
            bytes,
            raw_stream(op.stream),
        )
    };
    assert_eq!(code, Ok(CUresult::CUDA_SUCCESS));
}

macro_rules! collectives {
    ($($fn:ident $c:literal $name:literal ($($arg:ident: $ty:ty),*) { $($field:ident: $value:expr),* })*) => {$(
        extern "C" fn $fn($($arg: $ty,)* comm: ncclComm_t, stream: CUstream) -> ncclResult_t {
            on($c, comm, |comm| {
                let none = Op {
                    name: $name,
                    comm,
                    send: std::ptr::null(),
                    recv: std::ptr::null_mut(),
                    count: 0,
                    data: ncclDataType_t::ncclInt8,
                    op: ncclRedOp_t::ncclSum,
                    root: -1,
                    stream: stream.expose_provenance(),
                };
                add(Op { $($field: $value,)* ..none })
            })
        }
    )*};
}

collectives! {
    all_reduce "ncclAllReduce" "all_reduce"
        (s: *const c_void, r: *mut c_void, n: usize, d: ncclDataType_t, o: ncclRedOp_t)
        { send: s, recv: r, count: n, data: d, op: o }
    reduce_to "ncclReduce" "reduce"
        (s: *const c_void, r: *mut c_void, n: usize, d: ncclDataType_t, o: ncclRedOp_t, root: c_int)
        { send: s, recv: r, count: n, data: d, op: o, root: root }
    broadcast "ncclBroadcast" "broadcast"
        (s: *const c_void, r: *mut c_void, n: usize, d: ncclDataType_t, root: c_int)
        { send: s, recv: r, count: n, data: d, root: root }
    all_gather "ncclAllGather" "all_gather"
        (s: *const c_void, r: *mut c_void, n: usize, d: ncclDataType_t)
        { send: s, recv: r, count: n, data: d }
    reduce_scatter "ncclReduceScatter" "reduce_scatter"
        (s: *const c_void, r: *mut c_void, n: usize, d: ncclDataType_t, o: ncclRedOp_t)
        { send: s, recv: r, count: n, data: d, op: o }
    send "ncclSend" "send" (s: *const c_void, n: usize, d: ncclDataType_t, peer: c_int)
        { send: s, count: n, data: d, root: peer }
    recv "ncclRecv" "recv" (r: *mut c_void, n: usize, d: ncclDataType_t, peer: c_int)
        { recv: r, count: n, data: d, root: peer }
}

/// Returns the function of a name, as [`Nccl::from_resolver`] takes it.
pub fn resolve(name: &CStr) -> *const c_void {
    match name.to_str().unwrap() {
        "ncclGetVersion" => version as *const c_void,
        "ncclGetUniqueId" => unique_id as *const c_void,
        "ncclGetLastError" => last_error as *const c_void,
        "ncclCommInitRankConfig" => init as *const c_void,
        "ncclCommSplit" => split as *const c_void,
        "ncclCommFinalize" => finalize as *const c_void,
        "ncclCommDestroy" => destroy as *const c_void,
        "ncclCommAbort" => abort as *const c_void,
        "ncclCommGetAsyncError" => async_error as *const c_void,
        "ncclCommCount" => count as *const c_void,
        "ncclCommUserRank" => user_rank as *const c_void,
        "ncclGroupStart" => group_start as *const c_void,
        "ncclGroupEnd" => group_end as *const c_void,
        "ncclAllReduce" => all_reduce as *const c_void,
        "ncclReduce" => reduce_to as *const c_void,
        "ncclBroadcast" => broadcast as *const c_void,
        "ncclAllGather" => all_gather as *const c_void,
        "ncclReduceScatter" => reduce_scatter as *const c_void,
        "ncclSend" => send as *const c_void,
        "ncclRecv" => recv as *const c_void,
        _ => std::ptr::null(),
    }
}
