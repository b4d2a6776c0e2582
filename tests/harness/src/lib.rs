//! The harness of the device tests: what a test is, and where and how it is run.
//!
//! A tier is a place where tests run: `host` (pure Rust), `compile` (real NVRTC libraries, no GPU), `tools`
//! (programs of others that read what is written here), `sweep` (every device test on the software device, with
//! one driver call failing; see the module of that name), one for each language of foreign programs, and one for
//! each kind of device. A device test is written once and run on every device tier.
//! A tier that can't run here says why, and never counts as passed.
//!
//! A program of tests is a target with `harness = false` that calls [`main`] with its [`Suite`].

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    reason = "the tests that use it show what it is for"
)]

mod case;
mod checked;
mod child;
mod command;
mod compiler;
mod device;
mod drops;
pub mod lab;
mod language;
mod numbers;
pub mod programs;
mod report;
mod run;
pub mod sabotage;
pub mod schedules;
mod shards;
mod suite;
pub mod sweep;
pub mod table;
mod tools;

pub use case::{Case, Open, Run, SEVERAL, SEVERAL_DEVICES};
pub use checked::check;
pub use child::{PASSED as CHILD_PASSED, limited, spawn_self, tell};
pub use compiler::{Compiler, compilers};
pub use device::{TestDevice, nothing_found};
pub use drops::{note_failure, take_failures};
pub use language::{Language, built, cargo, cc, device_library, python, sources, toolkit};
pub use numbers::{note_numbers, take_numbers};
pub use report::count_launches;
pub use run::main;
pub use suite::{Suite, own_suite, suite};
pub use sweep::{Absorbed, Codes};
pub use test_support::process::{Outcome, limited_to};
pub use test_support::sample::{self, Effort, deep};
pub use test_support::{
    Failure, Rng, TestResult, ensure, ensure_eq, ensure_refused, ensure_refused_for,
    first_difference,
};
pub use tools::nanovdb_validate;

/// Some tests count allocations.
#[global_allocator]
static METER: test_support::meter::Meter = test_support::meter::Meter;
