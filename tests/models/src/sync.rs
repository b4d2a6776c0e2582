//! The replacement of `cuda_safe::sync` for the included files: each use of it is a point where the scheduler may turn
//! to another thread.

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError, atomic};

use atomic::{AtomicBool, Ordering};
use shuttle::sync::Once;

/// As in `std`, which the scheduler has no hold on.
pub(crate) struct OnceLock<T> {
    once: Once,
    value: std::sync::OnceLock<T>,
    is_there: AtomicBool,
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self {
            once: Once::new(),
            value: std::sync::OnceLock::new(),
            is_there: AtomicBool::new(false),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        if self.is_there.load(Ordering::SeqCst) { self.value.get() } else { None }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        self.once.call_once(|| {
            // No other thread gets here, so it does not exist yet.
            let _ = self.value.set(make());
            self.is_there.store(true, Ordering::SeqCst);
        });
        self.value.get().expect("made above, or by the thread that was waited for")
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
