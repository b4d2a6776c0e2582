//! Runs the code of docs/frameworks/candle.md and checks what it computes: `framework-candle`. It fails with what is
//! wrong.

mod axpy;
#[path = "../../cudarc/src/operators.rs"]
#[allow(dead_code, reason = "the page of cudarc has more")]
mod operators;

use std::error::Error;
use std::sync::Arc;

use axpy::Axpy;
use candle_core::{DType, Device, Tensor, cuda_backend as cuda};
use operators::Operators;

type Outcome = Result<(), Box<dyn Error>>;

const N: usize = 10_000;

fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn rows() -> Vec<f32> {
    (0..N).map(|i| i as f32).collect()
}

/// candle's own products, by cuBLAS, are those that it computes in f64 on the CPU; its random numbers are by cuRAND.
fn libraries(device: &Device) -> Outcome {
    let numbers = |shape: (usize, usize, usize), dtype| {
        Tensor::rand(-1.0, 1.0, shape, &Device::Cpu)?.to_dtype(dtype)
    };
    let wide = |tensor: &Tensor| tensor.to_device(&Device::Cpu)?.to_dtype(DType::F64);
    for (dtype, most) in
        [(DType::F16, 0.05), (DType::BF16, 0.3), (DType::F32, 0.02), (DType::F64, 1e-12)]
    {
        for is_reduced in [false, true] {
            cuda::set_gemm_reduced_precision_f16(is_reduced);
            cuda::set_gemm_reduced_precision_f32(is_reduced);
            let (a, b) = (numbers((3, 17, 9), dtype)?, numbers((3, 9, 33), dtype)?);
            let wanted = wide(&a)?.matmul(&wide(&b)?)?;
            let (a, b) = (a.to_device(device)?, b.to_device(device)?);
            let transposed = b.transpose(1, 2)?.matmul(&a.transpose(1, 2)?)?.transpose(1, 2)?;
            for got in [a.matmul(&b)?, transposed] {
                let off = (wide(&got)? - &wanted)?.abs()?.max_all()?.to_scalar::<f64>()?;
                require(off <= most, &format!("a product of {dtype:?} is {off} off"))?;
            }
        }
    }
    let mean = wide(&Tensor::rand(0f32, 1f32, N, device)?)?.mean_all()?.to_scalar::<f64>()?;
    require((mean - 0.5).abs() < 0.02, &format!("the mean of random numbers is {mean}"))
}

fn run() -> Outcome {
    // `Device::new_cuda` would take the per-thread stream, which can't be lent.
    let device = Device::new_cuda_with_stream(0)?;
    let operators = Arc::new(Operators::new(&device.as_cuda_device()?.cuda_stream())?);
    let axpy = Axpy { operators: operators.clone(), a: 2.0 };
    libraries(&device)?;
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
