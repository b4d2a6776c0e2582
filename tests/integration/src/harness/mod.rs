//! The harness: what a test is, and where and how it is run.
//!
//! A tier is a place where tests run: `host` (pure Rust), `compile` (real NVRTC libraries, no GPU), `tools`
//! (programs of others that read what is written here), `sweep` (every device test on the software device, with
//! one driver call failing; see the module of that name), one for each language of foreign programs, and one for
//! each kind of device. A device test is written once and run on every device tier.
//! A tier that can't run here says why, and never counts as passed.

mod case;
mod child;
mod command;
mod compiler;
mod device;
mod language;
mod numbers;
mod report;
mod run;
mod shards;
mod tools;

pub(crate) use case::{Case, Open, Run, SEVERAL, SEVERAL_DEVICES};
pub(crate) use child::{PASSED as CHILD_PASSED, limited, spawn_self, tell};
pub(crate) use compiler::{Compiler, compilers};
pub(crate) use device::{TestDevice, nothing_found};
pub(crate) use language::{Language, built, cargo, cc, device_library, python, sources};
pub(crate) use numbers::{note_numbers, take_numbers};
pub(crate) use report::count_launches;
pub(crate) use run::main;
pub(crate) use shards::cases;
pub(crate) use test_support::process::{Outcome, limited_to};
pub(crate) use test_support::sample::{self, Effort, deep};
pub(crate) use test_support::{
    Failure, Rng, TestResult, ensure, ensure_eq, ensure_refused, ensure_refused_for,
    first_difference,
};
pub(crate) use tools::nanovdb_validate;
