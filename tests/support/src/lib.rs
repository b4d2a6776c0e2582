//! What the tests of several packages share.

#![allow(
    missing_docs,
    missing_debug_implementations,
    reason = "the tests that use it show what it is for"
)]

pub mod failure;
pub mod meter;
pub mod nvdb;
pub mod process;

pub use failure::{Failure, TestResult, ensure_refused, first_difference};
