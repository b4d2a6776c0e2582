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
mod layers;
mod lt;
mod lt_refusals;
pub mod nothing;
mod order;
mod rand;
mod refusals;
mod steady;
mod triangles;
mod vectors;

use test_harness::schedules::Schedules;
use test_harness::{Absorbed, Codes};

const UNNAMED: Absorbed = Absorbed {
    calls: &["cuCtxGetId"],
    codes: Codes::All,
    tests: "libs::",
    why: "the handles of a context without a name are not kept for the next `Blas`",
};

/// Why failing calls are not tried.
const PARKED: &str = "where a plan or a generator can't be destroyed, or its context has no name, its device memory stays \
                      until the context ends, as does that of plans that a graph has recorded: the sweep counts it as lost";

/// Calls whose failure no error reports.
const ABSORBED: [Absorbed; 3] = [
    UNNAMED,
    Absorbed { tests: "several::libs::", ..UNNAMED },
    Absorbed {
        calls: &["cuThreadExchangeStreamCaptureMode"],
        codes: Codes::All,
        tests: "libs::",
        why: "the stand-in calls it again",
    },
];

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
        layers::cases(),
        lt::cases(),
        order::cases(),
        rand::cases(),
        refusals::cases(),
        steady::cases(),
        triangles::cases(),
        vectors::cases(),
    ]
    .concat();
    test_harness::Suite {
        failed_calls: vec![blas_emu::take_failed_calls],
        absorbed: ABSORBED.to_vec(),
        not_swept: [
            "libs::fft",
            "libs::rand",
            "several::libs::transforms",
            "several::libs::generators",
        ]
        .map(|name| (name, PARKED))
        .to_vec(),
        schedules: vec![Schedules::of(&order::cases())],
        ..test_harness::Suite::new("-p cuda-libs --test suite", cases)
    }
}
