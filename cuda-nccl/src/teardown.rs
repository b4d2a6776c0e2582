//! The end of communicators, on threads of this crate: destroying one may wait for its peers, and aborting one took
//! 530 ms, so neither a drop nor an abort does it itself.
//!
//! Each communicator has a thread of its own for its end, since NCCL may make the end of one rank wait for another's.
//! In a forked child nothing is called. When the process exits, calls under way have a second to end, before NCCL's and
//! CUDA's own destructors run; no further one begins.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use cuda_safe::Context;

use crate::error::Error;
use crate::handle::Handle;
use crate::raw::{Nccl, ncclComm_t, ncclResult_t};
use crate::slot::Slot;

/// Raised in a child process that was made by `fork`.
static FORKED: AtomicBool = AtomicBool::new(false);
/// Raised when the process exits.
static EXITING: AtomicBool = AtomicBool::new(false);
/// The number of threads that are inside of NCCL to end a communicator.
static INSIDE: AtomicUsize = AtomicUsize::new(0);

/// How long an exit waits for calls under way.
const EXIT: Duration = Duration::from_secs(1);

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
        }
        static INSTALLED: OnceLock<()> = OnceLock::new();
        INSTALLED.get_or_init(|| {
            // SAFETY: the handler only stores to a static atomic, which is async-signal-safe.
            let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
            // SAFETY: the handler reads and writes static atomics and sleeps. NCCL is loaded by now, so the handler runs
            // before the library's destructors.
            let _ = unsafe { libc::atexit(at_exit) };
        });
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
        // Read after counting: the exit's handler raises the flag before it reads the count.
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
        // Without a thread it is leaked: a drop does not wait.
        let _ = spawn("destroy", move || destroy(&handle));
    }
}

fn spawn(what: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let name = format!("nccl {what}");
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

/// Makes a call when some time has passed, by a thread.
pub(crate) fn after(time: Duration, call: impl FnOnce() + Send + 'static) {
    // Without a thread it is not made, and memory is waited for until all communicators are gone.
    let _ = spawn("gate", move || {
        std::thread::sleep(time);
        call();
    });
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
        if spawn("abort", move || abort_now(&of_thread)).is_err() {
            // The peers' devices are more important than the caller's time.
            abort_now(handle);
        }
    }
}

fn abort_now(handle: &Handle) {
    let raw = handle.take();
    if !raw.is_null() {
        end(handle, raw, true);
    }
}

/// Aborts or destroys a communicator that was taken out of its handle.
fn end(handle: &Handle, raw: ncclComm_t, abort: bool) {
    let Some(_inside) = Inside::enter() else { return };
    end_raw(handle.library, &handle.context, raw, abort);
    handle.note_gone();
    handle.clique.open_behind_the_last();
}

fn end_raw(library: &Nccl, context: &Context, raw: ncclComm_t, abort: bool) {
    // Nobody is left to return an error to; NCCL frees what it can.
    in_context(context, || {
        let _ = match abort {
            // SAFETY: the communicator was taken, so no other thread uses it, and it is not used again.
            true => unsafe { library.ncclCommAbort(raw) },
            // SAFETY: as above. All work of the communicator is done.
            false => unsafe { library.ncclCommDestroy(raw) },
        };
    });
}

/// Aborts the communicators that a failed split has made, by a thread. NCCL's thread may store them as long as the parents
/// are not gone.
pub(crate) fn abort_children(parents: Vec<Arc<Handle>>, slots: Vec<Slot>) {
    // Without a thread they are leaked, as they are if a parent does not go.
    let _ = spawn("abort", move || {
        let deadline = Instant::now() + Duration::from_secs(60);
        if !parents.iter().all(|parent| parent.wait_gone(deadline)) {
            return;
        }
        for (parent, slot) in parents.iter().zip(slots) {
            let raw = slot.finish();
            if raw.is_null() {
                continue;
            }
            let Some(_inside) = Inside::enter() else { return };
            end_raw(parent.library, &parent.context, raw, true);
        }
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

/// Waits for the work of a communicator and destroys it; aborts it if the work fails. There is no time limit: work may be
/// behind other work that takes long. An abort ends the wait.
fn destroy(handle: &Handle) {
    let abort = match finalize(handle) {
        Ok(()) => false,
        Err(Stopped::Failed) => true,
        Err(Stopped::Elsewhere) => return,
    };
    let raw = handle.take_unless_aborted();
    if !raw.is_null() {
        end(handle, raw, abort);
    }
}

/// Why the wait for the end of the work ended early.
enum Stopped {
    /// The work failed.
    Failed,
    /// Another thread aborts the communicator, or the process exits.
    Elsewhere,
}

impl From<Error> for Stopped {
    fn from(_: Error) -> Self {
        Self::Failed
    }
}

fn finalize(handle: &Handle) -> Result<(), Stopped> {
    let mut started = false;
    let start = Instant::now();
    loop {
        let Some(inside) = Inside::enter() else { return Err(Stopped::Elsewhere) };
        let Ok(raw) = handle.lock() else { return Err(Stopped::Elsewhere) };
        if !started {
            let mut code = Ok(ncclResult_t::ncclSuccess);
            in_context(&handle.context, || {
                // SAFETY: the handle is alive and its lock held.
                code = unsafe { handle.library.ncclCommFinalize(raw.get()) };
            });
            match code {
                Ok(ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress) => started = true,
                _ => return Err(Stopped::Failed),
            }
        }
        if handle.state(&raw)? == ncclResult_t::ncclSuccess {
            return Ok(());
        }
        drop(raw);
        drop(inside);
        // A hundredth of what has passed.
        let pause =
            (start.elapsed() / 100).clamp(Duration::from_micros(100), Duration::from_millis(20));
        std::thread::sleep(pause);
    }
}
