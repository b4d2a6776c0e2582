//! The harness: reads what an attack declares, runs it in processes of its own, and judges the result.

mod child;
mod compiler;
mod framework;
mod header;
mod lab;
mod parent;
mod witness;

pub(crate) use child::{COMMAND, main as child_main};
pub(crate) use compiler::{constructor_library, refused};
pub(crate) use framework::Framework;
pub(crate) use header::{Attack, Kind, Must, attacks, files, package, quoted, workspace};
pub(crate) use lab::Lab;
pub(crate) use parent::run;
pub(crate) use test_support::process::{Outcome, limited_to};
pub(crate) use test_support::{Failure, TestResult, ensure, ensure_eq};

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
