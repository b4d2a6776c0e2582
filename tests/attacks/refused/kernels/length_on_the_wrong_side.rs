//! Bounds the length of a slice from the wrong side, so that no clause says that it is long enough.
//!
//! - row: launching foreign code is unsafe
//! - row: `unsafe in SOURCE` of `kernels!`
//! - targets: `kernels!`
//! - must: not compile none "len"

use cuda_safe::kernels;

kernels! { pub struct Wrong; unsafe in "" { safe fn fill(x: &mut [u32], n: u32) where x.len() <= n; } } //~ refused
kernels! { pub struct Missing; unsafe in "" { safe fn copy(x: &[u32], y: &mut [u32], n: u32) where n <= x.len(); } } //~ refused
kernels! { pub struct Nothing; unsafe in "" { safe fn fill(x: &mut [u32], n: u32); } } //~ refused
kernels! { pub struct Either; unsafe in "" { safe fn fill(x: &mut [u32], n: u32) where n <= x.len() || n == 7; } } //~ refused
kernels! { pub struct Other; unsafe in "" { safe fn copy(x: &[u32], y: &mut [u32], n: u32) where n <= x.len() || n <= y.len(); } } //~ refused
kernels! { pub struct Power; unsafe in "" { safe fn fill(x: &mut [u32]) where x.len().is_power_of_two(); } } //~ refused

kernels! {
    pub struct Right;
    unsafe in "" {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
    }
}
