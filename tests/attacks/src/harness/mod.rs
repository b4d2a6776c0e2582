//! The harness: reads what an attack declares, runs it in processes of its own, and judges the result.

mod child;
mod compiler;
mod header;
mod lab;
mod parent;

// Shared with the integration tests.
#[path = "../../../src/harness/failure.rs"]
#[allow(dead_code, unused_imports, reason = "the integration tests use more of it")]
mod failure;
#[path = "../../../src/harness/process.rs"]
mod process;

pub(crate) use child::{COMMAND, main as child_main};
pub(crate) use compiler::{constructor_library, refused};
pub(crate) use failure::{Failure, TestResult, ensure, ensure_eq};
pub(crate) use header::{Attack, Kind, Must, attacks, files, package, quoted, workspace};
pub(crate) use lab::Lab;
pub(crate) use parent::run;
pub(crate) use process::{Outcome, limited_to};

/// A runtime attack, as its file lists it.
#[derive(Clone, Copy)]
pub(crate) struct Program {
    /// The name of its function.
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Lab) -> TestResult,
}

/// Lists the attacks of a file.
macro_rules! attacks {
    ($($name:ident),* $(,)?) => {
        pub(crate) const ATTACKS: &[$crate::harness::Program] = &[
            $($crate::harness::Program { name: stringify!($name), run: $name }),*
        ];
    };
}

pub(crate) use attacks as list;
