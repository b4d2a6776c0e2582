//! The replacement of `cuda_safe::sync` for the included files: each use of it is a point where the scheduler may turn
//! to another thread.

pub(crate) use std::sync::atomic::AtomicUsize as PlainUsize;

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError, atomic};

use atomic::{AtomicBool, Ordering};
use shuttle::sync::{Once as CallOnce, TryLockError};

/// As in `cuda_safe`. No thread here is one that may not wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotNow;

#[derive(Default)]
pub(crate) struct Lock<T>(Mutex<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> Result<MutexGuard<'_, T>, NotNow> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn lock_in_host_function(&self) -> Result<MutexGuard<'_, T>, NotNow> {
        self.lock()
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) fn as_host_function<R>(run: impl FnOnce() -> R) -> R {
    run()
}

/// As in `cuda_safe`, with a `std::sync::OnceLock`, which the scheduler has no hold on.
pub(crate) struct Once<T> {
    once: CallOnce,
    value: std::sync::OnceLock<T>,
    is_there: AtomicBool,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Once<T> {
    pub(crate) const fn new() -> Self {
        Self {
            once: CallOnce::new(),
            value: std::sync::OnceLock::new(),
            is_there: AtomicBool::new(false),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_there.load(Ordering::SeqCst) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> Result<&T, NotNow> {
        self.once.call_once(|| {
            // No other thread gets here, so it does not exist yet.
            let _ = self.value.set(make());
            self.is_there.store(true, Ordering::SeqCst);
        });
        Ok(self.value.get().expect("made above, or by the thread that was waited for"))
    }
}

/// As `std::thread`, of which `shuttle` lacks a part.
pub(crate) mod thread {
    use std::sync::Arc;

    pub(crate) use shuttle::thread::spawn;

    use super::atomic::{AtomicBool, Ordering};

    pub(crate) struct JoinHandle<T> {
        inner: shuttle::thread::JoinHandle<T>,
        finished: Arc<AtomicBool>,
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn is_finished(&self) -> bool {
            self.finished.load(Ordering::SeqCst)
        }

        pub(crate) fn join(self) -> std::thread::Result<T> {
            self.inner.join()
        }
    }

    pub(crate) struct Builder(shuttle::thread::Builder);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self(shuttle::thread::Builder::new())
        }

        pub(crate) fn name(self, name: String) -> Self {
            Self(self.0.name(name))
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            run: impl FnOnce() -> T + Send + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            let finished = Arc::new(AtomicBool::new(false));
            let end = finished.clone();
            let inner = self.0.spawn(move || {
                let made = run();
                end.store(true, Ordering::SeqCst);
                made
            })?;
            Ok(JoinHandle { inner, finished })
        }
    }
}
