//! The checkers of the software device against those of NVIDIA: small programs with one planted bug,
//! or none, and what each of the two says of them.
//!
//! `programs/` holds the kernels, `table.rs` what is expected of whom, and why the two differ where
//! they do. Each row is a case on the software device. `suite --sanitizer OUT` runs the same
//! programs on a GPU under `compute-sanitizer`, leaves what it said in the folder OUT, and compares.

mod lab;
mod program;
mod sanitizer;
mod table;

use std::process::ExitCode;

use program::Program;
use test_harness::{Case, Failure};

pub use sanitizer::Sanitizer;

/// Does what the command line asks for, if it is something of this module.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    match arguments.next()?.as_str() {
        program::CHILD => Some(program::child(arguments)),
        sanitizer::COMMAND => Some(sanitizer::main(arguments)),
        _ => None,
    }
}

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = table::cases();
    cases.push(Case::host("checkers::summaries_are_read", sanitizer::summaries_are_read));
    cases.push(Case::host("checkers::enough_programs", table::enough_programs));
    cases
}

fn program(name: &str) -> Result<&'static Program, Failure> {
    let found = table::PROGRAMS.iter().find(|program| program.name == name);
    found.ok_or_else(|| Failure::new(format!("there is no program {name}")))
}
