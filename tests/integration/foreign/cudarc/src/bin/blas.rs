//! Products by cudarc's cuBLAS, compared with sums in f64: `blas`. It runs with NVIDIA's library on a GPU, and wherever the
//! loader finds another one.

use std::error::Error;

use cudarc::cublas::sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig, Gemv, GemvConfig, StridedBatchedConfig};
use cudarc::driver::{CudaContext, DeviceRepr, ValidAsZeroBits};
use half::f16;

type Outcome = Result<(), Box<dyn Error>>;

/// A type of elements, and the error of a sum of products below 1.
trait Number: DeviceRepr + ValidAsZeroBits + Copy {
    const ERROR: f64;
    fn of(value: f64) -> Self;
    fn wide(self) -> f64;
}

macro_rules! numbers {
    ($($ty:ty, $error:expr, $of:expr, $wide:expr;)*) => {$(
        impl Number for $ty {
            const ERROR: f64 = $error;
            fn of(value: f64) -> Self {
                $of(value)
            }
            fn wide(self) -> f64 {
                $wide(self)
            }
        }
    )*};
}

numbers! {
    f16, 2e-2, f16::from_f64, f16::to_f64;
    f32, 1e-4, |value| value as f32, f64::from;
    f64, 1e-12, |value| value, |value| value;
}

/// Numbers in -1..1, by D. Knuth's MMIX.
fn numbers<T: Number>(count: usize, mut seed: u64) -> Vec<T> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| T::of(next())).collect()
}

/// Fails unless each element is what a function of its index says.
fn check<T: Number>(what: &str, got: &[T], wanted: impl Fn(usize) -> f64) -> Outcome {
    for (at, got) in got.iter().map(|number| number.wide()).enumerate() {
        let wanted = wanted(at);
        // So written that NaN is wrong.
        if !((got - wanted).abs() <= T::ERROR * (1.0 + wanted.abs())) {
            return Err(format!("{what}, element {at}: {got} is not {wanted}").into());
        }
    }
    Ok(())
}

/// `c = alpha op(a) op(b) + beta c`, by columns, of one matrix or of a batch.
fn gemm<T: Number>(context: &std::sync::Arc<CudaContext>, what: &str) -> Outcome
where
    CudaBlas: Gemm<T>,
{
    let stream = context.new_stream()?;
    let blas = CudaBlas::new(stream.clone())?;
    for (m, n, k, batch) in [(1, 1, 1, 1), (31, 33, 32, 1), (65, 7, 130, 1), (5, 6, 7, 3)] {
        for (transa, transb, beta) in [
            (CUBLAS_OP_N, CUBLAS_OP_N, 0.0),
            (CUBLAS_OP_T, CUBLAS_OP_N, 0.5),
            (CUBLAS_OP_N, CUBLAS_OP_T, 1.0),
            (CUBLAS_OP_T, CUBLAS_OP_T, 0.0),
        ] {
            let host: [Vec<T>; 3] =
                [m * k, k * n, m * n].map(|len| numbers(batch * len, len as u64));
            let [ha, hb, hc] = &host;
            let (a, b, mut c) =
                (stream.clone_htod(ha)?, stream.clone_htod(hb)?, stream.clone_htod(hc)?);
            let lda = if transa == CUBLAS_OP_N { m } else { k };
            let ldb = if transb == CUBLAS_OP_N { k } else { n };
            let (alpha, beta) = (T::of(0.75), T::of(beta));
            let gemm = GemmConfig {
                transa,
                transb,
                m: m as i32,
                n: n as i32,
                k: k as i32,
                alpha,
                lda: lda as i32,
                ldb: ldb as i32,
                beta,
                ldc: m as i32,
            };
            // SAFETY: the matrices have all the elements that the sizes and leading dimensions name.
            unsafe {
                if batch == 1 {
                    blas.gemm(gemm, &a, &b, &mut c)?;
                } else {
                    let [stride_a, stride_b, stride_c] =
                        [m * k, k * n, m * n].map(|len| len as i64);
                    let batch_size = batch as i32;
                    let config =
                        StridedBatchedConfig { gemm, batch_size, stride_a, stride_b, stride_c };
                    blas.gemm_strided_batched(config, &a, &b, &mut c)?;
                }
            }
            check(what, &stream.clone_dtoh(&c)?, |at| {
                let (matrix, column, row) = (at / (m * n), at / m % n, at % m);
                let of_a = |l| if transa == CUBLAS_OP_N { l * m + row } else { row * k + l };
                let of_b = |l| if transb == CUBLAS_OP_N { column * k + l } else { l * n + column };
                let product = |l: usize| {
                    ha[matrix * m * k + of_a(l)].wide() * hb[matrix * k * n + of_b(l)].wide()
                };
                0.75 * (0..k).map(product).sum::<f64>() + beta.wide() * hc[at].wide()
            })?;
        }
    }
    Ok(())
}

/// `y = alpha a x + beta y`, of a matrix by columns.
fn gemv(context: &std::sync::Arc<CudaContext>) -> Outcome {
    let (m, n, stream) = (33, 65, context.new_stream()?);
    let (ha, hx, hy) = (numbers::<f32>(m * n, 1), numbers::<f32>(n, 2), numbers::<f32>(m, 3));
    let (a, x, mut y) = (stream.clone_htod(&ha)?, stream.clone_htod(&hx)?, stream.clone_htod(&hy)?);
    let config = GemvConfig {
        trans: CUBLAS_OP_N,
        m: m as i32,
        n: n as i32,
        alpha: 2.0,
        lda: m as i32,
        incx: 1,
        beta: -1.0,
        incy: 1,
    };
    // SAFETY: as in `gemm`.
    unsafe { CudaBlas::new(stream.clone())?.gemv(config, &a, &x, &mut y)? };
    check("gemv", &stream.clone_dtoh(&y)?, |row| {
        let product = |l| f64::from(ha[l * m + row]) * f64::from(hx[l]);
        2.0 * (0..n).map(product).sum::<f64>() - f64::from(hy[row])
    })
}

fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    gemm::<f16>(&context, "gemm of f16")?;
    gemm::<f32>(&context, "gemm of f32")?;
    gemm::<f64>(&context, "gemm of f64")?;
    gemv(&context)
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
