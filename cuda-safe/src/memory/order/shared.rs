//! The moment from which the uses of an allocation are recorded.
//!
//! A home use runs `enqueue; number (SeqCst); is_raised (SeqCst)`, a raising one `store the flag
//! (SeqCst); load the home stream's number (SeqCst)`. In the single order of SeqCst operations
//! either the home use sees the flag raised, and records itself, or its number is seen and counted
//! as part of what the home stream had enqueued by then. No use is missed.

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Lock, MutexGuard, NotNow, Once};

/// Whether uses are recorded.
const RAISED: usize = 1;
/// One user without a borrow; their number is counted in multiples of this.
const KEEPER: usize = 2;

/// A flag, raised once, and what is recorded from then on. And how many users without a borrow there are,
/// in the same word: a use on the home stream reads both by one load.
pub(crate) struct Shared<U> {
    state: AtomicUsize,
    /// Made when the flag is raised. Most allocations' never is, so it is kept out of line.
    uses: Once<Box<Lock<U>>>,
}

impl<U> Shared<U> {
    pub(crate) const fn new(raised: bool) -> Self {
        let state = if raised { RAISED } else { 0 };
        Self { state: AtomicUsize::new(state), uses: Once::new() }
    }

    /// Returns whether uses are not recorded and every user has a borrow.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        self.state.load(Ordering::SeqCst) == 0
    }

    /// Returns whether there is a user without a borrow.
    #[inline]
    pub(crate) fn is_kept(&self) -> bool {
        self.state.load(Ordering::SeqCst) >= KEEPER
    }

    /// Counts a user without a borrow.
    pub(crate) fn keep(&self) {
        self.state.fetch_add(KEEPER, Ordering::SeqCst);
    }

    /// Takes back one call of [`keep`](Self::keep).
    pub(crate) fn release(&self) {
        self.state.fetch_sub(KEEPER, Ordering::SeqCst);
    }

    /// Returns whether uses are recorded. Call it after numbering the use, or before if no other thread can raise the
    /// flag meanwhile.
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.state.load(Ordering::SeqCst) & RAISED != 0
    }

    /// Returns the recorded uses. The first call raises the flag and then calls `first`, which has to include all uses
    /// that the home stream has numbered by then.
    ///
    /// A caller that has seen the flag raised must call this and not [`known`](Self::known): `first` may
    /// have counted already, without the caller's use, and not have returned yet.
    pub(crate) fn raise(&self, first: impl FnOnce() -> U) -> Result<MutexGuard<'_, U>, NotNow> {
        self.raised(first)?.lock()
    }

    /// Raises the flag as [`raise`](Self::raise) does, and does not wait for a thread that has the recorded uses.
    pub(crate) fn raise_only(&self, first: impl FnOnce() -> U) -> Result<(), NotNow> {
        self.raised(first).map(drop)
    }

    fn raised(&self, first: impl FnOnce() -> U) -> Result<&Lock<U>, NotNow> {
        let uses = self.uses.get_or_init(|| {
            self.state.fetch_or(RAISED, Ordering::SeqCst);
            Box::new(Lock::new(first()))
        })?;
        Ok(uses)
    }

    /// Returns the recorded uses. Call only with exclusive access to the allocation.
    pub(crate) fn known(&self) -> Result<Option<MutexGuard<'_, U>>, NotNow> {
        self.uses.get().map(|uses| uses.lock()).transpose()
    }
}
