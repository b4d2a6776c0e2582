//! cuBLAS, cuFFT and cuRAND by this crate, compared with `f64` on the host: on the software device with `blas-emu`, on a GPU
//! with NVIDIA's libraries.

mod arrays;
mod candle;
mod fft;
mod fft_gradients;
mod fft_order;
mod gemm;
mod gradients;
mod lab;
mod order;
mod rand;
mod refusals;
mod triangles;
mod vectors;

/// Why a failing driver is not tried.
const ONE_DRIVER: &str =
    "`blas-emu` has one driver for the process, which is not the one that fails";

/// Returns the device tests of the crate.
#[must_use]
pub fn suite() -> test_harness::Suite {
    let cases = [
        arrays::cases(),
        candle::cases(),
        fft::cases(),
        fft_gradients::cases(),
        fft_order::cases(),
        gemm::cases(),
        gradients::cases(),
        order::cases(),
        rand::cases(),
        refusals::cases(),
        triangles::cases(),
        vectors::cases(),
    ]
    .concat();
    test_harness::Suite {
        not_swept: vec![("libs::", ONE_DRIVER), ("several::libs::", ONE_DRIVER)],
        ..test_harness::Suite::new("-p cuda-libs --test suite", cases)
    }
}
