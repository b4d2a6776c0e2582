//! Events for the `tracing` crate, under the target `cuda_safe`; with the feature `tracing` alone.
//!
//! | level | what |
//! |---|---|
//! | `ERROR` | an error that the driver returned; one that loses the device, once |
//! | `WARN` | an error that a drop met |
//! | `INFO` | a program compiled |
//! | `DEBUG` | a module loaded; the host waited; a stream was made to wait for another |
//! | `TRACE` | launches, copies, fills, allocations and frees |
//!
//! Times are the host's, in nanoseconds, in the field `elapsed`.
//!
//! A subscriber is code of the user that runs in the middle of a call of this crate: some of the crate's
//! locks are held, and a sequence or an enqueue may be half done. So while an event is emitted, every call
//! of the crate on that thread is an error before it takes a lock, objects that the subscriber drops are
//! leaked, and a panic of the subscriber is caught. See [`emit`], `caller.rs` and `sync.rs`.

#[cfg(feature = "tracing")]
pub(crate) use emitting::emit;

#[cfg(feature = "tracing")]
mod emitting {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::caller::{Caller, is_subscriber, run_as};

    /// Runs the code of subscribers. A panic in it ends here: between the driver's call and the record of what
    /// it uses, unwinding would leave a use that is never waited for. A call that a subscriber makes emits nothing: its
    /// events would call the subscriber again, which may wait for a lock of its own, or never end.
    pub(crate) fn emit(event: impl FnOnce()) {
        if is_subscriber() {
            return;
        }
        let emitted = run_as(Caller::Subscriber, || catch_unwind(AssertUnwindSafe(event)));
        if let Err(panic) = emitted {
            // The panic's payload may panic in its drop.
            std::mem::forget(panic);
        }
    }
}

/// Emits an event. Without the feature it is nothing: its arguments are not evaluated.
macro_rules! event {
    ($level:ident, $($what:tt)+) => {
        #[cfg(feature = "tracing")]
        if ::tracing::Level::$level <= ::tracing::level_filters::LevelFilter::current() {
            $crate::trace::emit(|| {
                ::tracing::event!(target: "cuda_safe", ::tracing::Level::$level, $($what)+);
            });
        }
    };
}

/// The value of an expression, and an event with the time that it took. Without the feature it is
/// the expression.
macro_rules! timed {
    ($level:ident, [$($what:tt)+], $value:expr) => {{
        #[cfg(feature = "tracing")]
        let begin = ::std::time::Instant::now();
        let value = $value;
        $crate::trace::event!(
            $level,
            elapsed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            $($what)+
        );
        value
    }};
}

pub(crate) use {event, timed};
