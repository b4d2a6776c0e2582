//! `libcufft.so.12`: the functions of cuFFT. It has those of the other libraries, too, which nothing asks it for.

pub use blas_emu::cufft::*;
