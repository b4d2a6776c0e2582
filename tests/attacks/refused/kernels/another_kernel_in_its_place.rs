//! Puts a kernel into a struct of `kernels!`, so that it is launched under the promise of another.
//!
//! - row: safe code puts no other kernel behind a method
//! - row: `from_module` of `kernels!`
//! - targets: `kernels!`, `Kernel::name`
//! - must: not compile E0308 "mismatched types"

use cuda_safe::{Kernel, kernels};

kernels! {
    pub struct Checked;
    unsafe in "" {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
    }
}

pub fn attack(kernels: &mut Checked, evil: Kernel) -> &'static str {
    let name = evil.name();
    kernels.fill = evil; //~ refused
    let _ = kernels;
    name
}
