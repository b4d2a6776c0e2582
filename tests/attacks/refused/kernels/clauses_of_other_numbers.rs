//! Writes clauses on floats, on names that are no parameters, on constants that look like parameters, in one alternative alone and with calls.
//!
//! - row: launching foreign code is unsafe
//! - targets: `kernels!`
//! - must: not compile none "`"

use cuda_safe::kernels;

#[allow(non_upper_case_globals)]
pub const big: u32 = 7;

kernels! { pub struct A; unsafe in "" { safe fn f(x: &mut [u32], a: f32) where a <= x.len(); } } //~ refused
kernels! { pub struct B; unsafe in "" { safe fn f(x: &mut [u32]) where big <= x.len(); } } //~ refused
kernels! { pub struct C; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n.min(1) <= x.len(); } } //~ refused
kernels! { pub struct D; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n != x.len(); } } //~ refused
kernels! { pub struct E; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n <= x.len() || 1 == 1; } } //~ refused
kernels! { pub struct F; unsafe in "" { safe fn f<T>(x: &mut [T], n: u32) where n <= x.len(); } } //~ refused
kernels! { pub struct G; unsafe in "" { safe fn f(x: &mut [u32], n: u32) where n <= y.len(); } } //~ refused

kernels! {
    pub struct Right;
    unsafe in "" {
        safe fn fill(x: &mut [u32], n: u32) where n <= x.len();
    }
}
