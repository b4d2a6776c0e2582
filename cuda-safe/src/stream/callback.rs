//! Host functions. The driver is given a number, not a pointer: a function that it calls after its
//! stream is gone, or never calls at all, can't touch freed memory.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::StreamInner;
use crate::error::Result;

type Callback = Box<dyn FnOnce() + Send>;

/// All functions that are enqueued and not yet run, by number.
static PENDING: Mutex<BTreeMap<u64, Callback>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(1);

fn take(number: u64) -> Option<Callback> {
    PENDING.lock().unwrap_or_else(PoisonError::into_inner).remove(&number)
}

/// What the driver calls.
unsafe extern "C" fn run(number: *mut c_void) {
    if let Some(callback) = take(number.addr() as u64) {
        // Unwinding into the driver would be undefined behaviour. There is nobody to tell: the
        // panic hook has printed the message.
        let _ = catch_unwind(AssertUnwindSafe(callback));
    }
}

impl StreamInner {
    pub(super) fn host_function(&self, callback: Callback) -> Result<()> {
        self.state().usable()?;
        self.not_capturing("a host function that runs once")?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        {
            let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
            pending.insert(number, callback);
            let mut mine = self.callbacks.lock().unwrap_or_else(PoisonError::into_inner);
            mine.retain(|number| pending.contains_key(number));
            mine.push(number);
        }
        let data = std::ptr::without_provenance_mut(number as usize);
        // SAFETY: the stream is live, and `run` takes any number.
        let result = unsafe { self.state().sys.cuLaunchHostFunc(self.raw, Some(run), data) };
        if let Err(error) = self.answer("cuLaunchHostFunc", result) {
            drop_quietly(take(number));
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
            drop_quietly(take(number));
        }
    }
}

/// Drops a callback whose captured values may panic when dropped: a drop here must not.
fn drop_quietly(callback: Option<Callback>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(callback)));
}
