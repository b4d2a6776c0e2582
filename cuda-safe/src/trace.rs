//! What the crate tells the `tracing` crate, under the target `cuda_safe`; with the feature
//! `tracing` alone.
//!
//! | level | what |
//! |---|---|
//! | `ERROR` | an error that the driver answered; one that loses the device, once |
//! | `WARN` | an error that a drop met |
//! | `INFO` | a program compiled |
//! | `DEBUG` | a module loaded; the host waited; a stream was made to wait for another |
//! | `TRACE` | launches, copies, fills, allocations and frees |
//!
//! Times are the host's, in nanoseconds, in the field `elapsed`.

/// An event. Without the feature it is nothing: its arguments are not evaluated.
macro_rules! event {
    ($level:ident, $($what:tt)+) => {
        #[cfg(feature = "tracing")]
        ::tracing::event!(target: "cuda_safe", ::tracing::Level::$level, $($what)+);
    };
}

/// The value of an expression, and an event with the time that it took. Without the feature it is
/// the expression.
macro_rules! timed {
    ($level:ident, [$($what:tt)+], $value:expr) => {{
        #[cfg(feature = "tracing")]
        let begin = ::std::time::Instant::now();
        let value = $value;
        #[cfg(feature = "tracing")]
        ::tracing::event!(
            target: "cuda_safe",
            ::tracing::Level::$level,
            elapsed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX),
            $($what)+
        );
        value
    }};
}

pub(crate) use {event, timed};
