//! The panic hook that turns std's panics inside kernels into faults.
//!
//! Overflows, divisions by zero and similar failures panic in code that rustc generates, so only the hook learns
//! their lines. It is installed once, records for threads that run a kernel, and passes all other panics on.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::{self, PanicHookInfo};
use std::sync::{Mutex, Once, PoisonError};

use super::raise::{Cause, Check};
use crate::fault::FaultKind;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    static RECORDED: RefCell<Option<Recorded>> = const { RefCell::new(None) };
}

/// The message and location of a panic.
#[derive(Debug)]
struct Recorded {
    message: String,
    place: Option<(&'static str, u32)>,
}

/// Marks whether this thread runs a kernel's code, until it is dropped.
#[derive(Debug)]
pub(crate) struct Mark {
    before: bool,
}

impl Mark {
    pub(crate) fn inside(inside: bool) -> Self {
        Self { before: INSIDE.replace(inside) }
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        INSIDE.set(self.before);
    }
}

/// Installs the hook, once per process.
#[inline]
pub(crate) fn install() {
    static INSTALLED: Once = Once::new();
    if !INSTALLED.is_completed() {
        install_now(&INSTALLED);
    }
}

#[cold]
fn install_now(installed: &Once) {
    // A panicking thread cannot replace the hook. A later run installs it.
    if std::thread::panicking() {
        return;
    }
    installed.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                record(info);
            } else {
                previous(info);
            }
        }));
    });
}

fn record(info: &PanicHookInfo<'_>) {
    let message = message(info.payload());
    // A location in std is useless: kernels use no std functions that panic without the caller's location.
    let place = info.location().filter(|place| !place.file().starts_with("/rustc/"));
    let place = place.map(|place| (intern(place.file()), place.line()));
    // The thread-local variable is gone if the thread is ending. The payload still has the message.
    let _ = RECORDED.try_with(|recorded| recorded.replace(Some(Recorded { message, place })));
}

/// Returns the cause of the panic that this thread has just caught. `file` and `line` are the kernel's, for a panic
/// whose location is unknown because the program has replaced the hook.
pub(crate) fn cause(payload: &(dyn Any + Send)) -> Cause {
    let recorded = RECORDED.try_with(RefCell::take).ok().flatten();
    let recorded = recorded.unwrap_or_else(|| Recorded { message: message(payload), place: None });
    match classify(&recorded.message) {
        Some((kind, index, len)) => {
            let (file, line) = recorded.place.unwrap_or(("", 0));
            Cause::Check(Check { kind, file, line, index, len })
        }
        None => Cause::Panic(match recorded.place {
            Some((file, line)) => format!("{} at {file}:{line}", recorded.message),
            None => recorded.message,
        }),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "a panic without a message".to_owned()
    }
}

/// Returns the kind of check, the index and the length of a panic of std.
fn classify(message: &str) -> Option<(FaultKind, u64, u64)> {
    let kind = match message {
        "attempt to add with overflow"
        | "attempt to subtract with overflow"
        | "attempt to multiply with overflow"
        | "attempt to negate with overflow" => FaultKind::Overflow,
        "attempt to divide by zero"
        | "attempt to divide with overflow"
        | "attempt to calculate the remainder with a divisor of zero"
        | "attempt to calculate the remainder with overflow" => FaultKind::Division,
        "attempt to shift left with overflow" | "attempt to shift right with overflow" => {
            FaultKind::Shift
        }
        "called `Option::unwrap()` on a `None` value" => FaultKind::None,
        _ => {
            let text = message.strip_prefix("index out of bounds: the len is ")?;
            let (len, index) = text.split_once(" but the index is ")?;
            return Some((FaultKind::Index, index.parse().ok()?, len.parse().ok()?));
        }
    };
    Some((kind, 0, 0))
}

/// Returns the file's name with a static lifetime: one copy of each, of the few files with kernels.
fn intern(file: &str) -> &'static str {
    static FILES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut files = FILES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = files.get(file) {
        return known;
    }
    let new: &'static str = Box::leak(file.into());
    files.insert(new);
    new
}
