//! The end of communicators, on threads of this crate: destroying one may wait for its peers, and aborting one took
//! 530 ms, so neither a drop nor an abort does it itself.
//!
//! Each communicator ends on a separate thread, since NCCL may make the end of one rank wait for another's. In a forked
//! child nothing is called. When the process exits, ends under way have a second, before NCCL's and CUDA's own
//! destructors run; no further one begins.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cuda_safe::Context;

use crate::error::Error;
use crate::life::handle::Handle;
use crate::life::slot::Slot;
use crate::raw::{Nccl, ncclComm_t, ncclResult_t};

/// Raised in a child process that was made by `fork`.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Raised when the process exits.
static EXITING: AtomicBool = AtomicBool::new(false);
/// Raised when the exit does not wait any more.
static OVER: AtomicBool = AtomicBool::new(false);
/// The number of threads that are inside of NCCL to end a communicator.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// How long an exit waits for ends under way.
const EXIT: Duration = Duration::from_secs(1);

/// How long the gate guards the memory of an aborted communicator if graphs have recorded calls: NCCL keeps the
/// communicator as long as such a graph lives, so its end says nothing. A kernel ends some milliseconds after the
/// abort.
const GRAPHS: Duration = Duration::from_secs(1);

/// Installs what notices a fork and the exit; called when a communicator is made.
pub(crate) fn watch_process() {
    #[cfg(unix)]
    {
        extern "C" fn in_child() {
            FORKED.store(true, Ordering::Relaxed);
        }
        extern "C" fn at_exit() {
            EXITING.store(true, Ordering::SeqCst);
            let deadline = Instant::now() + EXIT;
            while INSIDE.load(Ordering::SeqCst) > 0 && !is_forked() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            OVER.store(true, Ordering::SeqCst);
        }
        static INSTALLED: AtomicBool = AtomicBool::new(false);
        if !INSTALLED.swap(true, Ordering::SeqCst) {
            // SAFETY: the handler only stores to a static atomic, which is async-signal-safe.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            // SAFETY: the handler reads and writes static atomics and sleeps. NCCL is loaded by now, so the handler
            // runs before the library's destructors.
            let _ = unsafe { libc::atexit(at_exit) };
        }
    }
}

/// Returns whether this process was made by `fork` after a communicator was made: NCCL does not survive that.
#[inline]
pub(crate) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

/// Counts a thread inside of NCCL; `None` if it must not enter.
struct Inside;

impl Inside {
    fn enter() -> Option<Self> {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        let this = Self;
        // The flag is read after counting: the exit's handler raises it before it reads the count.
        (!EXITING.load(Ordering::SeqCst) && !is_forked()).then_some(this)
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps the communicator of a rank: held by its `Communicator` and by graphs that have recorded its calls. When the
/// last holder is gone, the communicator is destroyed once its work is done.
#[derive(Debug)]
pub(crate) struct Owner {
    pub(crate) handle: Arc<Handle>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The thread that aborts it does the rest.
        if is_forked() || self.handle.aborted.load(Ordering::SeqCst) {
            return;
        }
        let handle = self.handle.clone();
        let ends = move || {
            destroy(&handle);
            let_go(handle);
        };
        match spawn("destroy", ends) {
            Ok(thread) => self.handle.ends_by(thread),
            // A failed owner is leaked, since a drop does not wait. It stays a member of its clique, whose kernels may
            // run.
            Err(_) => std::mem::forget(self.handle.clone()),
        }
    }
}

fn spawn(what: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let name = format!("nccl {what}");
    std::thread::Builder::new().name(name).spawn(run)
}

/// Runs something that takes locks: here, or by a thread where the caller can't wait for them, such as in a subscriber
/// of `tracing`. Not in a forked child.
pub(crate) fn run_where_locks_wait(run: impl FnOnce() + Send + 'static) {
    if is_forked() {
        return;
    }
    match cuda_safe::check_caller() {
        Ok(()) => run(),
        // Without a thread the call is not made.
        Err(_) => drop(spawn("call", run)),
    }
}

/// Drops a handle, with all that only it has kept, such as guarded memory; not while the process exits, since the drop
/// calls the driver, whose destructors may run.
fn let_go(handle: Arc<Handle>) {
    match Inside::enter() {
        Some(_inside) => drop(handle),
        None => std::mem::forget(handle),
    }
}

/// Aborts communicators, each by a thread; does not wait. A second abort of one does nothing.
pub(crate) fn abort(handles: &[Arc<Handle>]) {
    if is_forked() {
        return;
    }
    for handle in handles {
        if handle.aborted.swap(true, Ordering::SeqCst) {
            continue;
        }
        let of_thread = handle.clone();
        let ends = move || {
            abort_now(&of_thread);
            let_go(of_thread);
        };
        match spawn("abort", ends) {
            Ok(thread) => handle.ends_by(thread),
            // The peers' devices are more important than the caller's time.
            Err(_) => abort_now(handle),
        }
    }
}

fn abort_now(handle: &Arc<Handle>) {
    let raw = handle.take();
    if raw.is_null() {
        return;
    }
    // After `take` no call is recorded any more: a graph's recording holds the lock.
    if handle.clique.is_recorded() {
        let handle = Arc::downgrade(handle);
        // Without a thread, uses of the memory wait until all communicators are gone.
        let _ = spawn("gate", move || {
            std::thread::sleep(GRAPHS);
            let Some(_inside) = Inside::enter() else { return };
            if let Some(handle) = handle.upgrade() {
                handle.note_still();
                handle.clique.open_behind_the_last();
            }
        });
    }
    if let Some(inside) = Inside::enter() {
        end(handle, raw, true, &inside);
    }
}

/// Aborts or destroys a communicator that was taken out of its handle.
fn end(handle: &Handle, raw: ncclComm_t, abort: bool, _inside: &Inside) {
    // If an abort fails, kernels may run on: the gate stays closed for the memory of its calls.
    if !end_raw(handle.library, &handle.context, raw, abort) && abort {
        return;
    }
    // The gate calls the driver.
    if OVER.load(Ordering::SeqCst) {
        return;
    }
    handle.note_still();
    handle.clique.open_behind_the_last();
    handle.note_gone();
}

/// Returns whether NCCL has done it. Nobody is left to return its error to.
fn end_raw(library: &Nccl, context: &Context, raw: ncclComm_t, abort: bool) -> bool {
    let mut code = Ok(ncclResult_t::ncclSuccess);
    in_context(context, || {
        code = match abort {
            // SAFETY: the communicator was taken, so no other thread uses it, and it is not used again.
            true => unsafe { library.ncclCommAbort(raw) },
            // SAFETY: as above. All work of the communicator is done.
            false => unsafe { library.ncclCommDestroy(raw) },
        };
    });
    matches!(code, Ok(ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress))
}

/// Aborts the communicators that a failed split has made, by a thread. NCCL's thread may store them as long as the
/// parents are not gone.
pub(crate) fn abort_children(parents: Vec<Arc<Handle>>, slots: Vec<Slot>) {
    // Without a thread the communicators are leaked, as they are if a parent does not end.
    let _ = spawn("abort", move || {
        let deadline = Instant::now() + Duration::from_secs(60);
        if parents.iter().all(|parent| parent.wait_gone(deadline)) {
            for (parent, slot) in parents.iter().zip(slots) {
                let raw = slot.finish();
                if raw.is_null() {
                    continue;
                }
                let Some(_inside) = Inside::enter() else { break };
                end_raw(parent.library, &parent.context, raw, true);
            }
        }
        parents.into_iter().for_each(let_go);
    });
}

/// Makes a call with the device's context current, so that NCCL leaves the thread's own as it was, or without where the
/// device is lost.
fn in_context(context: &Context, call: impl FnOnce()) {
    let mut call = Some(call);
    let _ = context.with_current(|| {
        if let Some(call) = call.take() {
            call();
        }
        Ok(())
    });
    if let Some(call) = call {
        call();
    }
}

/// Waits for the work of a communicator and destroys it. If the work fails, all ranks of this process are aborted, as
/// by any failure: kernels of the others may still write to the memory of this one's calls. So they are if the work has
/// not ended after the time limit of the communicator: it may wait for work that waits for it, and nobody is left to
/// abort it.
fn destroy(handle: &Handle) {
    // `inside` lasts until the end: NCCL finalises on its own threads, which an exit must not overtake.
    let Some(inside) = Inside::enter() else { return };
    match finalize(handle) {
        Ok(true) => {
            let raw = handle.take_unless_aborted();
            if !raw.is_null() {
                end(handle, raw, false, &inside);
            }
        }
        Ok(false) => {}
        Err(error) => drop(handle.clique.fail(error)),
    }
}

/// Waits until the work is done, and returns whether it is; otherwise another thread aborts the communicator, or the
/// process exits and does not wait any more.
fn finalize(handle: &Handle) -> Result<bool, Error> {
    let mut started = false;
    let start = Instant::now();
    while !OVER.load(Ordering::SeqCst) {
        let Ok(raw) = handle.lock() else { return Ok(false) };
        if !started {
            let mut code = Ok(ncclResult_t::ncclSuccess);
            in_context(&handle.context, || {
                // SAFETY: the handle is alive and its lock held.
                code = unsafe { handle.library.ncclCommFinalize(raw.get()) };
            });
            match code? {
                ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => started = true,
                code => return Err(handle.failed("ncclCommFinalize", code, &raw)),
            }
        }
        if handle.state(&raw)? == ncclResult_t::ncclSuccess {
            return Ok(true);
        }
        drop(raw);
        let after = handle.timeout();
        if start.elapsed() >= after && !handle.closes.load(Ordering::Relaxed) {
            let what = "the work of a communicator that was dropped";
            return Err(Error::Timeout { what, rank: handle.rank, after });
        }
        // `pause` is a hundredth of the time so far.
        let pause =
            (start.elapsed() / 100).clamp(Duration::from_micros(100), Duration::from_millis(20));
        std::thread::sleep(pause);
    }
    Ok(false)
}
