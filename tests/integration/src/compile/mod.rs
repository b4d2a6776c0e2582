//! Tests of the compilers: real NVRTC libraries, no GPU.

mod images;
mod ported;
mod process;
mod signatures;

use crate::harness::Case;

pub(crate) fn cases() -> Vec<Case> {
    [images::cases(), ported::cases(), process::cases(), signatures::cases()].concat()
}

pub(crate) use process::{CHILD, main as child_main};
