//! What the tests of several packages share.

pub mod failure;
pub mod meter;
pub mod nvdb;
pub mod process;

pub use failure::{Failure, TestResult, ensure_refused, first_difference};
