//! Says without `unsafe` that the arguments of a launch are checked.
//!
//! - row: safe code can neither describe a kernel nor launch one
//! - targets: `kernel!`
//! - must: not compile E0133 "unsafe function"

use cuda_safe::kernel::trust::Checked;

pub fn attack(use_it: impl Fn(Checked)) {
    use_it(Checked::new()); //~ refused
}
