//! Counting the calls while the process runs, and making one of them fail.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_sys::CUresult;

use crate::config::Failure;

/// When a call that is made to fail does so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Moment {
    /// Instead of its work: the call has no effect.
    #[default]
    Before,
    /// After its work, if that succeeds: as calls do that give something back, and return an
    /// error of work before them.
    After,
}

/// The failure of a watch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planted {
    pub(super) code: CUresult,
    pub(super) moment: Moment,
}

#[derive(Default)]
struct State {
    calls: BTreeMap<&'static str, u64>,
    failure: Option<(Failure, Moment)>,
    met: bool,
}

/// Whether there is a watch: calls ask this before they take the lock.
static ON: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A count of the calls of all threads since [`watch`], until it is dropped.
#[derive(Debug)]
pub struct Watch(());

/// Counts the driver's calls from now on, and makes one of them fail: `nth` counts from here.
///
/// Unlike [`Config::fail`](crate::Config::fail) this lasts as long as the returned value lives, so that one
/// process can try one failure after the other. There is one watch at a time: `None` while there is
/// another.
#[must_use]
pub fn watch(failure: Option<(Failure, Moment)>) -> Option<Watch> {
    let mut state = state();
    if state.is_some() {
        return None;
    }
    *state = Some(State { failure, ..State::default() });
    ON.store(true, Ordering::Release);
    Some(Watch(()))
}

impl Watch {
    /// Returns how often each function was called, by exported name.
    #[must_use]
    pub fn calls(&self) -> BTreeMap<&'static str, u64> {
        state().as_ref().map(|state| state.calls.clone()).unwrap_or_default()
    }

    /// Returns whether the call that fails was made.
    #[must_use]
    pub fn met(&self) -> bool {
        state().as_ref().is_some_and(|state| state.met)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        ON.store(false, Ordering::Release);
        *state() = None;
    }
}

/// Counts a call, and says whether it fails.
pub(super) fn count(name: &'static str) -> Option<Planted> {
    if !ON.load(Ordering::Acquire) {
        return None;
    }
    let mut state = state();
    let state = state.as_mut()?;
    let count = state.calls.entry(name).or_default();
    *count += 1;
    let (failure, moment) = state.failure.as_ref()?;
    if !failure.fits(name, *count) {
        return None;
    }
    state.met = true;
    Some(Planted { code: failure.code, moment: *moment })
}
