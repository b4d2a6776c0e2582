//! Helpers for the tests of several packages.

#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_errors_doc,
    clippy::missing_panics_doc,
    clippy::should_implement_trait,
    reason = "the tests that use it show what it is for"
)]

pub mod corpus;
pub mod cost;
pub mod failure;
pub mod fatbin;
pub mod gzip;
pub mod meter;
#[cfg(feature = "nvdb")]
pub mod nvdb;
pub mod process;
pub mod rng;
pub mod sample;
pub mod time;
pub mod ui;

pub use failure::{Failure, TestResult, ensure_refused, ensure_refused_for, first_difference};
pub use rng::Rng;
