//! Tests of the compilers: real NVRTC libraries, no GPU.

mod images;
mod ported;
mod process;
mod signatures;

use std::process::ExitCode;

use test_harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [images::cases(), ported::cases(), process::cases(), signatures::cases()].concat()
}

/// Does what the command line asks for, if it is something of this module.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == process::CHILD).then(|| process::main(arguments))
}
