//! Runs the code of docs/frameworks/burn.md and checks what it computes: `framework-burn`. It fails with what is wrong.

mod operators;

use std::error::Error;

use burn_cuda::{Cuda, CudaDevice};
use burn_tensor::{Tensor, TensorData};
use operators::Operators;

type Outcome = Result<(), Box<dyn Error>>;

const N: usize = 10_000;

fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Whether the tensor has, at each index, a multiple of the index.
fn is<const D: usize>(given: Tensor<Cuda, D>, factor: f32) -> Result<bool, Box<dyn Error>> {
    let given = given.into_data().to_vec::<f32>().map_err(|error| format!("{error:?}"))?;
    Ok(given.len() == N && given.iter().enumerate().all(|(i, x)| *x == factor * i as f32))
}

fn run() -> Outcome {
    let device = CudaDevice::new(0);
    let operators = Operators::new(0)?;
    let rows = (0..N).map(|i| i as f32).collect();
    let x = Tensor::<Cuda, 1>::from_data(TensorData::new(rows, [N]), &device);
    // Behind a kernel of burn, and before one.
    let out = operators.axpy(2.0, x.clone() * 3.0, x.clone())?;
    require(is(out.clone() + out.clone(), 14.0)?, "axpy between kernels of burn")?;
    let again = operators.axpy(1.0, out, x.clone())?;
    require(is(again, 8.0)?, "axpy of a result")?;
    // What is not contiguous is copied by burn.
    let square = x.reshape([100, 100]);
    let out = operators.axpy(1.0, square.clone().transpose(), square.clone().transpose())?;
    require(is(out.transpose(), 2.0)?, "axpy of transposed tensors")?;
    // Memory that burn uses again while the kernel may still run.
    for turn in 0..20 {
        let out = operators.axpy(1.0, square.clone() * turn as f32, square.clone())?;
        let out = operators.axpy(0.0, square.clone(), out)?;
        require(is(out, turn as f32 + 1.0)?, "axpy of temporary tensors")?;
    }
    let part = square.clone().slice([0..50]);
    let refused = operators.axpy(1.0, square, part).map(drop);
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    require(text.contains("[50, 100]"), &format!("shapes that differ: {text}"))
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
