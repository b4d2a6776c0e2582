//! Kernels in Rust. Each module has one program's kernels; none of them has `unsafe`.

#![forbid(unsafe_code)]

pub mod integrate;
pub mod mandelbrot;
pub mod matmul;
pub mod nbody;
pub mod plain;
pub mod raytrace;
pub mod saxpy;
pub mod spmv;
pub mod stream;
pub mod vec3;
