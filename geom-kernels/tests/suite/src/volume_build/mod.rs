//! Volumes that are made on the device: against models on the host, read from the bytes by the format's own
//! numbers, and byte for byte against what the host's builder makes.

mod dense;
mod directory;
mod kernels;
mod lists;
mod model;
mod rebuild;

use test_harness::{Case, TestDevice, deep};

pub(crate) fn cases() -> Vec<Case> {
    [lists::cases(), kernels::cases(), rebuild::cases(), dense::cases(), directory::cases()]
        .concat()
}

/// Whether there is time for more and larger cases.
fn thorough(device: &TestDevice) -> bool {
    deep() || (device.tier() == "gpu" && !device.is_instrumented())
}
