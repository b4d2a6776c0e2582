//! Host functions. The driver is given a number, not a pointer: a function that it calls after its
//! stream is gone, or never calls at all, can't touch freed memory.

use std::ffi::c_void;
use std::sync::Arc;

use super::slab::{Callback, Entry, Repeated, Slab};
use super::{Stream, StreamInner};
use crate::error::Result;
use crate::memory::{Enqueue, Enqueuing};
use crate::quiet::Kept;

/// All functions of the process that may still be called.
static PENDING: Slab = Slab::new();

/// Takes in a function that may be called any number of times, until [`unregister`] takes it out.
pub(crate) fn register(function: Repeated) -> u64 {
    PENDING.insert(Entry::repeated(function))
}

/// Removes a function: it is not called any more. A running function finishes.
pub(crate) fn unregister(number: u64) {
    PENDING.remove(number);
}

/// The function that the driver calls.
unsafe extern "C" fn run(number: *mut c_void) {
    PENDING.call(number.addr() as u64);
}

/// A function that goes with the graph that calls it.
struct Registered(u64);

impl Drop for Registered {
    fn drop(&mut self) {
        unregister(self.0);
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
        inner.not_lent("Stream::host_function_mut, outside of captures,")?;
        let number = registered.0;
        // The stream owns it from here on.
        std::mem::forget(registered);
        return inner.enqueue_callback(number);
    };
    recording.captures()?;
    recording.not_in_body("a host function can't be called")?;
    inner.launch_callback(registered.0)?;
    recording.keep(Kept::new(Arc::new(registered)));
    enqueuing.number();
    Ok(())
}

impl StreamInner {
    pub(super) fn host_function(&self, callback: Callback) -> Result<()> {
        self.usable_here()?;
        self.context.deferred.free_dropped(&self.context);
        self.not_lent("Stream::host_function")?;
        self.not_capturing("a host function that runs once")?;
        self.enqueue_callback(PENDING.insert(Entry::Once(callback)))
    }

    /// Enqueues a call of the function with this number, which then goes with the stream.
    fn enqueue_callback(&self, number: u64) -> Result<()> {
        {
            let mut mine = self.callbacks.lock()?;
            PENDING.retain_known(&mut mine);
            mine.push(number);
        }
        self.launch_callback(number).inspect_err(|_| unregister(number))?;
        self.number();
        Ok(())
    }

    fn launch_callback(&self, number: u64) -> Result<()> {
        let data = std::ptr::without_provenance_mut(number as usize);
        // SAFETY: the stream is live, and `run` takes any number.
        unsafe { call!(self, cuLaunchHostFunc(self.raw, Some(run), data)) }
    }

    /// Drops the functions that have not run. A running function finishes.
    pub(super) fn drop_callbacks(&self) {
        let taken =
            self.callbacks.lock_in_host_function().map(|mut mine| std::mem::take(&mut *mine));
        for number in taken.unwrap_or_default() {
            unregister(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, Barrier};

    use super::{PENDING, register, unregister};

    fn call(number: u64) {
        PENDING.call(number);
    }

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
