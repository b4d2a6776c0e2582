//! The products that candle-core 0.11.1 computes by cuBLAS, without its `unsafe`. Lines without a file are those of its
//! `src/cuda_backend/mod.rs`:
//!
//! | there | what it calls | here |
//! |---|---|---|
//! | `device.rs:375` | `CudaBlas::new`: a handle for one stream | `Blas`; a call takes its stream |
//! | 1402 | `gemm_config`: operations and leading dimensions from strides | `Tensor::mat` |
//! | 2273, 2727 | bf16, by `result::gemm_strided_batched_ex` | `gemm` |
//! | 2711 | the same in `COMPUTE_32F_FAST_16BF`, which rounds operands to what they are | `gemm` |
//! | 2282, 2668 | f16, with sums in f32: a compute type that cudarc's safe layer does not choose | `gemm` |
//! | 2652 | the same with sums in f16 (`COMPUTE_16F`) | `gemm_in::<F16>` |
//! | 2291, 2609 | f32 | `gemm` |
//! | 2597 | the same in TF32 | `gemm_in::<Tf32>` |
//! | 2302 | f64, by `gemm_strided_batched` | `gemm` |
//! | 1863, 1873 | conv1d: patches by the transposed kernel | `CALLS`, 3rd |
//! | 2046, 2057 | conv2d: the same, with a kernel that begins anywhere | `CALLS`, 3rd |
//! | 1988 | conv_transpose1d: a batch of transposed matrices by one kernel | `CALLS`, 4th |
//! | `../quantized/cuda.rs:961` | a batch by one transposed matrix of dequantized weights | `CALLS`, 5th |
#![forbid(unsafe_code)]

use cuda_libs::blas::{Compute, Multiply, marker};
use cuda_libs::{Layout, Mat, MatMut, Order, bf16, f16};
use cuda_safe::{DeviceBuffer, Stream};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

use super::lab::{Number, Wide, blas, numbers};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::candle",
        device(matmul_bf16 = matmul::<<bf16 as Multiply<bf16>>::Compute, bf16>),
        device(matmul_f16 = matmul::<<f16 as Multiply<f16>>::Compute, f16>),
        device(matmul_f16_in_16_bits = matmul::<marker::F16, f16>),
        device(matmul_f32 = matmul::<<f32 as Multiply<f32>>::Compute, f32>),
        device(matmul_f32_in_tf32 = matmul::<marker::Tf32, f32>),
        device(matmul_f64 = matmul::<<f64 as Multiply<f64>>::Compute, f64>),
        device(strides_that_are_no_matrix),
    ]
}

/// A batch, rows, columns, inner elements, and the distances of the batch, rows and columns of both operands.
type Call = ([usize; 4], [usize; 3], [usize; 3]);

const CALLS: [Call; 8] = [
    ([1, 31, 33, 32], [0, 32, 1], [0, 33, 1]),
    ([3, 5, 7, 4], [20, 4, 1], [28, 7, 1]),
    ([1, 12, 6, 9], [0, 9, 1], [0, 1, 9]),
    ([2, 5, 8, 3], [15, 1, 5], [0, 8, 1]),
    ([3, 4, 6, 8], [32, 8, 1], [0, 1, 8]),
    // Both transposed; then vectors, whose distances along one element mean nothing.
    ([2, 4, 3, 5], [20, 1, 4], [15, 1, 5]),
    ([1, 1, 6, 4], [0, 77, 1], [0, 1, 4]),
    ([1, 5, 1, 1], [0, 1, 99], [0, 88, 99]),
];

/// A tensor of candle's, with its layout: elements from `start`, at distances along a batch, rows and columns.
struct Tensor<T> {
    host: Vec<T>,
    device: DeviceBuffer<T>,
    start: usize,
    shape: [usize; 3],
    strides: [usize; 3],
}

impl<T: Number> Tensor<T> {
    fn new(
        stream: &Stream,
        rng: &mut Rng,
        shape: [usize; 3],
        strides: [usize; 3],
    ) -> Result<Self, Failure> {
        let start = rng.below(9);
        let last: usize = shape.iter().zip(strides).map(|(len, stride)| (len - 1) * stride).sum();
        let host = numbers(rng, start + last + 1);
        Ok(Self { device: DeviceBuffer::from_slice(stream, &host)?, host, start, shape, strides })
    }

    /// The matrices as cuBLAS takes them.
    fn mat(&self) -> Result<Mat<'_, T>, Failure> {
        let ([batch, rows, cols], [stride, row, col]) = (self.shape, self.strides);
        let layout = Layout::new(rows, cols).batch(batch).stride(stride);
        let layout = if col == 1 || cols == 1 {
            layout.leading(if rows == 1 { cols } else { row })
        } else if row == 1 || rows == 1 {
            layout.order(Order::ColumnMajor).leading(col)
        } else {
            return Err(Failure::new(format!("not contiguous: {:?}", self.strides)));
        };
        Ok(Mat::with(self.device.slice(self.start..)?, layout)?)
    }

    fn get(&self, at: [usize; 3]) -> Wide {
        let at: usize = at.iter().zip(self.strides).map(|(at, stride)| at * stride).sum();
        self.host[self.start + at].wide()
    }
}

/// Each call by `CudaStorage::matmul` (2258), with operands of one type and an alpha of 1.
fn matmul<M: Compute<T, T>, T: Number>(device: &TestDevice) -> TestResult
where
    M::Scale: Number,
{
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4241);
    let [zero, one] = [0.0, 1.0].map(|value| M::Scale::of(Wide::new(value, 0.0)));
    // A precision of the scales' type; TF32 rounds operands to 10 bits.
    let rounding = if size_of::<T>() == 8 { f64::EPSILON } else { 1.0 / 1024.0 };
    for ([b, m, n, k], of_lhs, of_rhs) in CALLS {
        let lhs = Tensor::<T>::new(&stream, &mut rng, [b, m, k], of_lhs)?;
        let rhs = Tensor::<T>::new(&stream, &mut rng, [b, k, n], of_rhs)?;
        let mut out = DeviceBuffer::<T>::zeroed(&stream, b * m * n)?;
        let to = MatMut::with(&mut out, Layout::new(m, n).batch(b))?;
        blas.gemm_in::<M, _, _, _>(&stream, one, lhs.mat()?, rhs.mat()?, zero, to)?;
        for (at, got) in out.to_vec(&stream)?.into_iter().enumerate() {
            let (index, i, j) = (at / (m * n), at / n % m, at % n);
            let wanted: Wide =
                (0..k).map(|l| lhs.get([index, i, l]) * rhs.get([index, l, j])).sum();
            let off = (got.wide() - wanted).norm();
            let most = 4.0 * k as f64 * rounding + T::EPSILON;
            ensure!(off <= most, "{b} x {m} x {n} x {k}, element {at}: {got:?} is not {wanted}");
        }
    }
    Ok(())
}

fn strides_that_are_no_matrix(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let tensor = Tensor::<f32>::new(&stream, &mut device.rng(4242), [1, 3, 4], [0, 8, 2])?;
    ensure!(tensor.mat().is_err());
    // Rows that overlap are refused by the view.
    let tensor = Tensor::<f32>::new(&stream, &mut device.rng(4243), [1, 3, 4], [0, 2, 1])?;
    let text = tensor.mat().map_err(|error| error.to_string()).err().unwrap_or_default();
    ensure!(text.contains("leading dimension 2 is less than the 4 columns"), "{text}");
    Ok(())
}
