//! The state of a thread: its number and its stack of current contexts.
//!
//! Destructors of thread-local values and handlers of `atexit` call the driver too, when a thread-local with a
//! destructor and [`std::thread::current`] are gone. The number and the lower part of the stack have no destructor.

use core::cell::{Cell, RefCell};
use core::sync::atomic::{AtomicU64, Ordering};

use cuda_sys::CUresult;

use super::call::Answer;

/// Contexts of a stack that need no destructor.
const LOW: usize = 16;

thread_local! {
    /// The thread's number, from 1; 0 before it is given.
    static NUMBER: Cell<u64> = const { Cell::new(0) };
    /// The lowest contexts of the thread's stack, and how many contexts the whole stack has.
    static STACK: Cell<([u64; LOW], usize)> = const { Cell::new(([0; LOW], 0)) };
    /// The contexts above those.
    static HIGH: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Returns the number of this thread. No other thread of the process has or had it.
pub(super) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let known = NUMBER.get();
    if known != 0 {
        return known;
    }
    let new = NEXT.fetch_add(1, Ordering::Relaxed);
    NUMBER.set(new);
    new
}

/// Uses the contexts above the lowest. While the thread ends they are gone, which is an error.
fn high<T>(act: impl FnOnce(&mut Vec<u64>) -> T) -> Answer<T> {
    HIGH.try_with(|high| act(&mut high.borrow_mut())).map_err(|_| {
        eprintln!(
            "cuda-emu: the thread is ending: no more than {LOW} contexts can be on its stack; \
             pop contexts before the thread ends"
        );
        CUresult::CUDA_ERROR_NOT_PERMITTED
    })
}

/// Returns the context that is current on this thread, dead or alive; 0 for none.
pub(super) fn top() -> u64 {
    let (low, depth) = STACK.get();
    match depth {
        0 => 0,
        1..=LOW => low.get(depth - 1).copied().unwrap_or(0),
        _ => high(|high| high.last().copied()).ok().flatten().unwrap_or(0),
    }
}

/// Puts a context on the stack.
pub(super) fn push(context: u64) -> Answer {
    let (mut low, depth) = STACK.get();
    match low.get_mut(depth) {
        Some(place) => *place = context,
        None => high(|high| high.push(context))?,
    }
    STACK.set((low, depth + 1));
    Ok(())
}

/// Takes a context from the stack; 0 if it is empty.
pub(super) fn pop() -> Answer<u64> {
    let (low, depth) = STACK.get();
    let popped = match depth {
        0 => return Ok(0),
        1..=LOW => low.get(depth - 1).copied().unwrap_or(0),
        _ => high(Vec::pop)?.unwrap_or(0),
    };
    STACK.set((low, depth - 1));
    Ok(popped)
}
