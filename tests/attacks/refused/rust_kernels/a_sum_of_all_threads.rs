//! Adds to one variable from all threads of a kernel.
//!
//! - row: threads of a loop never hold the same element
//! - targets: `kernel!`
//! - must: not compile none "all threads of the loop share this variable"

use cuda_safe::kernel::kernel;

#[kernel]
pub fn sum(x: &[u32], out: &mut [u32]) {
    let mut total = 0u32;
    each(out, |i, out| {
        total = total.wrapping_add(x[i]); //~ refused
        *out = x[i];
    });
}
