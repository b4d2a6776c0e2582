//! How long a piece of work took: by the clock, and of the processors.
//!
//! The time of the processors is what a budget is set for: on a machine that does other things, too, the same work
//! takes longer by the clock.

use std::time::{Duration, Instant};

/// The time of a piece of work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Took {
    pub clock: Duration,
    /// Of this process, and of the processes that it has waited for; zero where the system does not say.
    pub processor: Duration,
}

/// When a piece of work began.
#[derive(Debug, Clone, Copy)]
pub struct Began {
    clock: Instant,
    processor: Duration,
}

impl Began {
    #[must_use]
    pub fn now() -> Self {
        Self { clock: Instant::now(), processor: processor() }
    }

    #[must_use]
    pub fn took(&self) -> Took {
        Took { clock: self.clock.elapsed(), processor: processor().saturating_sub(self.processor) }
    }
}

#[cfg(unix)]
fn processor() -> Duration {
    let of = |who| {
        // SAFETY: all fields are numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is a valid place for one.
        unsafe { libc::getrusage(who, &raw mut usage) };
        let time = |time: libc::timeval| {
            Duration::new(time.tv_sec.unsigned_abs(), 1000 * time.tv_usec as u32)
        };
        time(usage.ru_utime) + time(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

#[cfg(not(unix))]
fn processor() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_of_both() {
        let began = Began::now();
        let mut sum = 0_u64;
        while began.took().clock < Duration::from_millis(50) {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let took = began.took();
        assert!(took.clock >= Duration::from_millis(50));
        assert!(cfg!(not(unix)) || took.processor > Duration::ZERO, "{took:?}");
    }
}
