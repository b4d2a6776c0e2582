//! Another source than the declared one keeps a promise only if somebody says so.

use cuda_safe::{Context, Result, kernels};

kernels! {
    struct Kernels;
    // SAFETY: never loaded.
    unsafe in "" {
        safe fn none();
    }
}

fn without_unsafe(context: &Context) -> Result<Kernels> {
    Kernels::load_from(context, "")
}

fn main() {}
