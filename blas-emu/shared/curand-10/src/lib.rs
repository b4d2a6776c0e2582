//! `libcurand.so.10`: the functions of cuRAND. It has those of the other libraries, too, which nothing asks it for.

pub use blas_emu::curand::*;
