//! `libcublasLt.so.12`: the functions of cuBLASLt. It has those of the other libraries, too, which nothing asks it for.

pub use blas_emu::cublaslt::*;
