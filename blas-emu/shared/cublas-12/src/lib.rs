//! `libcublas.so.12`: the functions of cuBLAS. It has those of the other libraries, too, which nothing asks it for.

pub use blas_emu::cublas::*;
