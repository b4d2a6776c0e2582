//! Tests in processes of their own: they lose the device, provoke errors of the driver, or end the
//! process in unusual ways.

mod answers;
mod current;
mod devices;
mod futures;
mod images;
mod kernels;
mod memory;
mod peers;
mod process;
mod reset;
mod symbols;

use cuda_safe::{Error, Result};

use test_harness::{Case, Failure};

pub(crate) fn cases() -> Vec<Case> {
    [
        kernels::cases(),
        crate::device::groups::faults(),
        futures::cases(),
        images::cases(),
        memory::cases(),
        peers::cases(),
        current::cases(),
        answers::cases(),
        devices::cases(),
        symbols::cases(),
        process::cases(),
        reset::cases(),
    ]
    .concat()
}

/// The error that something must answer.
#[track_caller]
fn error_of<T>(what: &str, result: Result<T>) -> std::result::Result<Error, Failure> {
    result.err().ok_or_else(|| Failure::new(format!("{what}: no error")))
}
