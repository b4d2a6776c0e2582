//! The functions on the software device, each against a plain computation in `f64` on the host. With
//! `BLAS_EMU_DRIVER=system` they run on the system's device.

mod fft;
mod gemm;
mod goldens;
mod lab;
mod levels;
mod lt;
mod random;
mod refused;
