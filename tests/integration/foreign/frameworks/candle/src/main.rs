//! Runs the code of docs/frameworks/candle.md and checks what it computes: `framework-candle`. It fails with what is
//! wrong.

mod axpy;
#[path = "../../cudarc/src/operators.rs"]
#[allow(dead_code, reason = "the page of cudarc has more")]
mod operators;

use std::error::Error;
use std::sync::Arc;

use axpy::Axpy;
use candle_core::{Device, Tensor};
use operators::Operators;

type Outcome = Result<(), Box<dyn Error>>;

const N: usize = 10_000;

fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn rows() -> Vec<f32> {
    (0..N).map(|i| i as f32).collect()
}

fn run() -> Outcome {
    // `Device::new_cuda` would take the per-thread stream, which can't be lent.
    let device = Device::new_cuda_with_stream(0)?;
    let operators = Arc::new(Operators::new(&device.as_cuda_device()?.cuda_stream())?);
    let axpy = Axpy { operators: operators.clone(), a: 2.0 };
    let x = Tensor::from_vec(rows(), N, &device)?;
    let out = x.apply_op2(&x, Axpy { operators: operators.clone(), a: 2.0 })?;
    // A view of the result, in another shape, is the operand of the next operation.
    let (x, y) = (x.reshape((100, 100))?, out.reshape((100, 100))?);
    let part = x.narrow(0, 40, 60)?.apply_op2(&y.narrow(0, 40, 60)?, axpy)?;
    require(part.dims() == [60, 100], "the shape of a part")?;
    let wanted: Vec<_> = rows()[4000..].iter().map(|i| 5.0 * i).collect();
    require(part.flatten_all()?.to_vec1::<f32>()? == wanted, "axpy of parts")?;

    for (wrong, words) in [(y.t()?, "not contiguous"), (y.narrow(0, 0, 50)?, "[50, 100]")] {
        let refused = x.apply_op2(&wrong, Axpy { operators: operators.clone(), a: 2.0 });
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        require(text.contains(words), &format!("an operand that does not fit: {text}"))?;
    }

    let refused = Operators::new(&Device::new_cuda(0)?.as_cuda_device()?.cuda_stream())?;
    let other = Tensor::from_vec(rows(), N, &Device::new_cuda(0)?)?;
    let refused = other.apply_op2(&other, Axpy { operators: Arc::new(refused), a: 2.0 });
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    require(text.contains("per-thread stream"), &format!("the per-thread stream: {text}"))
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => {
            println!("all right");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
