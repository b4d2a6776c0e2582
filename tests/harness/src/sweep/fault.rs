//! What can go wrong in a run: a call, and what it answers.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use cuda_emu::{Failure, Moment};
use cuda_sys::CUresult;

use crate::{Effort, sample};

/// One call of a function, and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fault {
    pub(super) name: &'static str,
    pub(super) nth: u64,
    pub(super) out_of_memory: bool,
}

/// Parts of the names of functions that take memory of the device or of the driver.
const TAKES_MEMORY: [&str; 9] = [
    "Alloc",
    "Create",
    "Load",
    "Instantiate",
    "Retain",
    "Register",
    "Launch",
    "Capture",
    "AddNode",
];

/// Parts of the names of functions that give something back. They do it, and fail then: drops ask
/// once, so what the driver had refused to take could not be given back by anybody. The retain of the
/// primary context is not among them: who has the context back closes it again.
const GIVES_BACK: [&str; 5] = ["Free", "Destroy", "Unload", "Unregister", "PopCurrent"];

/// Functions that say something by `INVALID_VALUE`: that there are no more parameters.
const SAYS_INVALID: [&str; 1] = ["cuFuncGetParamInfo"];

/// Functions whose answer is no error to those who call them: they only describe another error.
const DESCRIBES: [&str; 2] = ["cuGetErrorName", "cuGetErrorString"];

fn is_of(name: &str, parts: &[&str]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

/// A name without its version, as errors tell it.
pub(super) fn base(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((base, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

impl Fault {
    pub(super) fn code(&self) -> CUresult {
        if self.out_of_memory {
            CUresult::CUDA_ERROR_OUT_OF_MEMORY
        } else if SAYS_INVALID.contains(&self.name) {
            CUresult::CUDA_ERROR_OPERATING_SYSTEM
        } else {
            CUresult::CUDA_ERROR_INVALID_VALUE
        }
    }

    /// For the driver.
    pub(super) fn planted(&self) -> (Failure, Moment) {
        let moment = if is_of(self.name, &GIVES_BACK) { Moment::After } else { Moment::Before };
        (Failure { name: self.name.to_owned(), nth: self.nth, code: self.code() }, moment)
    }

    /// Its place in the order, the same in every process, drawn by a hash of the run's seed. A sample that is large
    /// enough takes one fault of each function first.
    pub(super) fn place(&self, case: &str) -> u64 {
        let turn = match (self.nth, self.out_of_memory) {
            _ if sample::effort() == Effort::Quick => 0,
            (1, false) => 0,
            (1, true) => 1,
            (2, _) => 2,
            _ => 3,
        };
        // The hasher's keys are fixed.
        let mut hasher = DefaultHasher::new();
        (sample::seed(), case, self).hash(&mut hasher);
        turn << 62 | hasher.finish() >> 2
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "call {} of {} answers {}",
            self.nth,
            self.name,
            self.code().name().unwrap_or("?")
        )
    }
}

/// The faults of a run with these calls, in order: the first `most` calls of each name.
pub(super) fn faults(case: &str, calls: &BTreeMap<&'static str, u64>, most: u64) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (&name, &count) in calls {
        if DESCRIBES.contains(&name) {
            continue;
        }
        for nth in 1..=count.min(most) {
            faults.push(Fault { name, nth, out_of_memory: false });
            if is_of(name, &TAKES_MEMORY) && !is_of(name, &GIVES_BACK) {
                faults.push(Fault { name, nth, out_of_memory: true });
            }
        }
    }
    faults.sort_by_key(|fault| fault.place(case));
    faults
}
