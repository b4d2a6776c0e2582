//! Declares safe kernels of a source without the word that promises something about it.
//!
//! - row: `unsafe in SOURCE` of `kernels!`
//! - targets: `kernels!`
//! - must: not compile none "unsafe"

use cuda_safe::kernels;

kernels! { pub struct Unpromised; in "" { safe fn fill(x: &mut [u32]) where 1 <= x.len(); } } //~ refused

kernels! {
    pub struct Promised;
    unsafe in "" {
        safe fn fill(x: &mut [u32]) where 1 <= x.len();
    }
}
