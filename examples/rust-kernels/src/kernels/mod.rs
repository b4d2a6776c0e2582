//! Kernels in Rust. Each module has one program's kernels; none of them has `unsafe`.

#![forbid(unsafe_code)]

pub mod attention;
pub mod bude;
pub mod compact;
pub mod gemm;
pub mod heat;
pub mod histogram;
pub mod integrate;
pub mod layer_norm;
pub mod mandelbrot;
pub mod matmul;
pub mod nbody;
pub mod ntt;
pub mod plain;
pub mod raytrace;
pub mod reduction;
pub mod saxpy;
pub mod scan;
pub mod softmax;
pub mod sort;
pub mod spmv;
pub mod stencils;
pub mod stream;
pub mod tiled;
pub mod transpose;
