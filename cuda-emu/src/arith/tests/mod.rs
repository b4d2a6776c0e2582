//! Tests against independent arithmetic: integers of 128 bits, loops over single bits, and
//! `rustc_apfloat` (the port of LLVM's arbitrary-precision floats) for every rounding.

mod approx;
mod bits;
mod compare;
mod convert;
mod device;
mod float;
mod int;
mod operations;
pub(crate) mod random;
mod roots;
mod video;
