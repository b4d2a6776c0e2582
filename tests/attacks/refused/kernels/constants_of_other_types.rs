//! Compares with constants and fields that are no integers, which a cast would round.
//!
//! - row: a clause reads the value that the kernel gets
//! - targets: `kernels!`
//! - must: not compile E0277 "expressions of `kernels!` read integers"

use cuda_safe::kernels;
use cuda_safe::vector::Float2;

pub const HALF: f32 = 0.5;
pub const YES: bool = true;
pub const WIDE: u128 = u128::MAX;

kernels! { pub struct A; unsafe in "" { safe fn f(x: &mut [u32]) where HALF <= x.len(); } } //~ refused
kernels! { pub struct B; unsafe in "" { safe fn f(x: &mut [u32]) where YES <= x.len(); } } //~ refused
kernels! { pub struct C; unsafe in "" { safe fn f(x: &mut [u32]) where WIDE <= x.len(); } } //~ refused
kernels! { pub struct D; unsafe in "" { safe fn f(x: &mut [u32], v: Float2) where v.x <= x.len(); } } //~ refused

kernels! {
    pub struct Right;
    unsafe in "" {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
    }
}
