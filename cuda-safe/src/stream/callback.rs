//! Host functions. The driver is given a number, not a pointer: a function that it calls after its
//! stream is gone, or never calls at all, can't touch freed memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Stream, StreamInner};
use crate::driver::forked;
use crate::error::Result;
use crate::memory::Enqueuing;

type Callback = Box<dyn FnOnce() + Send>;
type Repeated = Box<dyn FnMut() + Send>;

enum Entry {
    /// Taken out when it runs.
    Once(Callback),
    /// Stays until whoever registered it takes it out. The lock keeps its calls apart: a graph
    /// may run in several streams, and be launched again while it runs.
    Repeated(Arc<Mutex<Repeated>>),
}

/// All functions that may still be called, by number.
static PENDING: Mutex<BTreeMap<u64, Entry>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn pending() -> MutexGuard<'static, BTreeMap<u64, Entry>> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn insert(entry: Entry) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    pending().insert(number, entry);
    number
}

/// Takes in a function that may be called any number of times, until [`unregister`] takes it out.
pub(crate) fn register(function: Repeated) -> u64 {
    insert(Entry::Repeated(Arc::new(Mutex::new(function))))
}

/// Takes a function out: it is not called any more. One that is running finishes.
pub(crate) fn unregister(number: u64) {
    // A statement of its own, so that the lock is not held while the function is dropped.
    let entry = pending().remove(&number);
    drop_quietly(entry);
}

/// What the driver calls.
unsafe extern "C" fn run(number: *mut c_void) {
    call(number.addr() as u64);
}

fn call(number: u64) {
    let entry = {
        let mut pending = pending();
        match pending.get(&number) {
            Some(Entry::Repeated(function)) => Some(Entry::Repeated(function.clone())),
            Some(Entry::Once(_)) => pending.remove(&number),
            None => None,
        }
    };
    // Unwinding into the driver would be undefined behaviour. There is nobody to tell: the panic
    // hook has printed the message.
    match entry {
        Some(Entry::Once(function)) => quietly(function),
        Some(Entry::Repeated(function)) => {
            {
                let mut function = function.lock().unwrap_or_else(PoisonError::into_inner);
                // Caught under the lock, so that later calls find it in order.
                quietly(&mut **function);
            }
            // The last handle, if it was taken out meanwhile.
            drop_quietly(function);
        }
        None => {}
    }
}

/// A function that goes with the graph that calls it.
struct Registered(u64);

impl Drop for Registered {
    fn drop(&mut self) {
        // In a forked child the lock may be held by a thread that exists in the parent only.
        if !forked() {
            unregister(self.0);
        }
    }
}

/// Enqueues a function that may be called again, where the stream records.
pub(super) fn host_function_mut(stream: &Stream, function: Repeated) -> Result<()> {
    let inner = stream.inner();
    // Before the recording is held: if the driver refuses, the function is dropped after that, and
    // what it has captured may come back here.
    let registered = Registered(register(function));
    let mut enqueuing = Enqueuing::on(stream)?;
    let Some(recording) = enqueuing.recording() else {
        let number = registered.0;
        // It goes with the stream from here on.
        std::mem::forget(registered);
        return inner.enqueue_callback(number);
    };
    recording.captures()?;
    let data = std::ptr::without_provenance_mut(registered.0 as usize);
    // SAFETY: the stream is live, and `run` takes any number.
    let result = unsafe { inner.state().sys.cuLaunchHostFunc(inner.raw, Some(run), data) };
    inner.answer("cuLaunchHostFunc", result)?;
    recording.keep(Arc::new(registered));
    enqueuing.number();
    Ok(())
}

impl StreamInner {
    pub(super) fn host_function(&self, callback: Callback) -> Result<()> {
        self.state().usable()?;
        self.not_capturing("a host function that runs once")?;
        self.enqueue_callback(insert(Entry::Once(callback)))
    }

    /// Enqueues a call of the function with this number, which then goes with the stream.
    fn enqueue_callback(&self, number: u64) -> Result<()> {
        {
            let mut mine = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
            let pending = pending();
            mine.retain(|number| pending.contains_key(number));
            mine.push(number);
        }
        let data = std::ptr::without_provenance_mut(number as usize);
        // SAFETY: the stream is live, and `run` takes any number.
        let result = unsafe { self.state().sys.cuLaunchHostFunc(self.raw, Some(run), data) };
        if let Err(error) = self.answer("cuLaunchHostFunc", result) {
            unregister(number);
            return Err(error);
        }
        self.number();
        Ok(())
    }

    /// Drops the functions that have not run. One that is running finishes.
    pub(super) fn drop_callbacks(&self) {
        let mine =
            std::mem::take(&mut *self.callbacks.lock().unwrap_or_else(PoisonError::into_inner));
        for number in mine {
            unregister(number);
        }
    }
}

/// Drops a function whose captured values may panic when dropped: a drop here must not.
fn drop_quietly<T>(function: T) {
    quietly(|| drop(function));
}

/// Catches panics. What one is thrown with may panic itself when it is dropped; once is enough.
fn quietly(act: impl FnOnce()) {
    if let Err(thrown) = catch_unwind(AssertUnwindSafe(act))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown)))
    {
        std::mem::forget(again);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Barrier};

    use super::{call, register, unregister};

    #[test]
    fn a_repeated_function_runs_until_it_is_taken_out() {
        let calls = Arc::new(AtomicU32::new(0));
        let inside = calls.clone();
        let number = register(Box::new(move || {
            // Every second call panics; without the hook nothing is printed.
            if inside.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }));
        for _ in 0..5 {
            call(number);
        }
        assert_eq!(calls.load(Ordering::SeqCst), 5);
        assert_eq!(Arc::strong_count(&calls), 2);
        unregister(number);
        assert_eq!(Arc::strong_count(&calls), 1);
        call(number);
        unregister(number);
        assert_eq!(calls.load(Ordering::SeqCst), 5);
    }

    #[test]
    fn calls_of_one_function_are_kept_apart() {
        const CALLS: u32 = 1000;
        let inside = Arc::new(AtomicU32::new(0));
        let most = Arc::new(AtomicU32::new(0));
        let (now, seen) = (inside.clone(), most.clone());
        let mut count = 0;
        let number = register(Box::new(move || {
            seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::yield_now();
            now.fetch_sub(1, Ordering::SeqCst);
            count += 1;
            if count == 4 * CALLS {
                seen.fetch_add(100, Ordering::SeqCst);
            }
        }));
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    (0..CALLS).for_each(|_| call(number));
                });
            }
        });
        unregister(number);
        assert_eq!(most.load(Ordering::SeqCst), 101, "one at a time, and none is lost");
    }

    #[test]
    fn what_a_panic_is_thrown_with_may_panic_too() {
        struct Twice(Arc<AtomicU32>);
        impl Drop for Twice {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
                std::panic::resume_unwind(Box::new("again"));
            }
        }
        let drops = Arc::new(AtomicU32::new(0));
        let thrown = drops.clone();
        let number =
            register(Box::new(move || std::panic::resume_unwind(Box::new(Twice(thrown.clone())))));
        call(number);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        unregister(number);
    }

    #[test]
    fn taken_out_by_its_own_call() {
        struct Dropped(Arc<AtomicU32>);
        impl Drop for Dropped {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
                std::panic::resume_unwind(Box::new("on purpose"));
            }
        }
        let drops = Arc::new(AtomicU32::new(0));
        let captured = Dropped(drops.clone());
        let me = Arc::new(std::sync::OnceLock::new());
        let number = register(Box::new({
            let me = me.clone();
            move || {
                let _captured = &captured;
                if let Some(number) = me.get() {
                    unregister(*number);
                }
            }
        }));
        assert_eq!(me.set(number), Ok(()));
        call(number);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
    }
}
