//! Products of matrices.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_libs::blas::{Compute, DeviceScalar, Group, Multiply, marker};
use cuda_libs::{Blas, Complex, CublasLibrary, Element, Mat, MatMut, Order, bf16, f16};
use cuda_safe::{DeviceBuffer, Stream};
use cuda_sys::cublas::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cublasStatus_t,
    cudaDataType,
};
use ndarray::Array2;
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure};

use super::lab::{Matrix, Number, ORDERS, Wide, blas, config, is_emulated, order};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::gemm",
        device(of_f32 = of::<f32, f32>),
        device(of_f64 = of::<f64, f64>),
        device(of_c32 = of::<Complex<f32>, Complex<f32>>),
        device(of_c64 = of::<Complex<f64>, Complex<f64>>),
        device(of_f16 = of::<f16, f16>),
        device(of_f16_to_f32 = of::<f16, f32>),
        device(of_bf16 = of::<bf16, bf16>),
        device(of_bf16_to_f32 = of::<bf16, f32>),
        device(each_order),
        device(in_tf32 = in_precision::<marker::Tf32, f32>),
        device(in_bf16 = in_precision::<marker::FastBf16, f32>),
        device(in_16_bits = in_precision::<marker::F16, f16>),
        device(precisions_reach_the_library),
        device(large),
        device(nothing_is_read_of_c_for_a_beta_of_zero),
        device(empty_dimensions),
        device(factors_on_the_device),
        device(parts_of_matrices),
        device(one_operand_for_a_batch),
        device(lists_of_matrices),
        device(groups_of_f32 = groups::<f32>),
        device(groups_of_f64 = groups::<f64>),
        device(groups_of_bf16 = groups::<bf16>),
    ]
}

/// The tolerance of sums of `inner` products of numbers below 1.
fn tolerance<T: Number, C: Number>(inner: usize) -> f64 {
    // 16-bit floats are summed in f32.
    let sums = if T::EPSILON > 1e-4 { f64::from(f32::EPSILON) } else { T::EPSILON };
    (inner as f64 + 4.0) * 4.0 * sums + 2.0 * C::EPSILON
}

/// The sum of products of a row and a column.
fn product(inner: usize, a: impl Fn(usize) -> Wide, b: impl Fn(usize) -> Wide) -> Wide {
    (0..inner).map(|l| a(l) * b(l)).sum()
}

/// Compares the sums with `matrixmultiply`, by `ndarray`.
fn second_opinion(
    (m, n, k): (usize, usize, usize),
    a: impl Fn(usize, usize) -> Wide,
    b: impl Fn(usize, usize) -> Wide,
) -> TestResult {
    let rows = Array2::from_shape_fn((m, k), |(i, l)| a(i, l));
    let columns = Array2::from_shape_fn((k, n), |(l, j)| b(l, j));
    for ((i, j), second) in rows.dot(&columns).indexed_iter() {
        let sum = product(k, |l| a(i, l), |l| b(l, j));
        let off = (sum - second).norm();
        ensure!(off <= 1e-14 * (k + 1) as f64, "the oracles: {sum} is not {second} at {i}, {j}");
    }
    Ok(())
}

const FACTORS: [f64; 4] = [0.0, 1.0, -0.5, 1.25];
const SIZES: [usize; 6] = [0, 1, 2, 31, 32, 33];

/// Views that are made of a matrix before it is multiplied.
#[derive(Clone, Copy, PartialEq)]
enum View {
    Plain,
    Transposed,
    Adjoint,
}

fn view<'m, T: Element>(matrix: Mat<'m, T>, how: View) -> Mat<'m, T> {
    match how {
        View::Plain => matrix,
        View::Transposed => matrix.transposed(),
        View::Adjoint => matrix.adjoint(),
    }
}

fn of<T: Number + Multiply<C>, C: Number>(device: &TestDevice) -> TestResult
where
    T::Scale: Number,
{
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4201);
    for _ in 0..24 {
        let size = |rng: &mut Rng| match rng.below(3) {
            0 => 1 + rng.below(40),
            _ => SIZES[rng.below(SIZES.len())],
        };
        let (m, n, k) = (size(&mut rng), size(&mut rng), size(&mut rng));
        let batch = [1, 1, 3][rng.below(3)];
        let views = [View::Plain, View::Transposed, View::Adjoint];
        let (va, vb) = (views[rng.below(3)], views[rng.below(3)]);
        let stored = |how: View, rows, cols| match how {
            View::Plain => (rows, cols),
            _ => (cols, rows),
        };
        let (oa, ob, oc) = (order(&mut rng), order(&mut rng), order(&mut rng));
        let a = Matrix::<T>::new(&stream, &mut rng, stored(va, m, k), oa, batch)?;
        let b = Matrix::<T>::new(&stream, &mut rng, stored(vb, k, n), ob, batch)?;
        let mut c = Matrix::<C>::new(&stream, &mut rng, (m, n), oc, batch)?;
        let factor = |rng: &mut Rng| {
            let imaginary = if T::TYPE.is_complex() { FACTORS[rng.below(4)] } else { 0.0 };
            T::Scale::of(Wide::new(FACTORS[rng.below(4)], imaginary))
        };
        let (alpha, beta) = (factor(&mut rng), factor(&mut rng));
        let run =
            blas.gemm(&stream, alpha, view(a.mat()?, va), view(b.mat()?, vb), beta, c.mat_mut()?);
        // cuBLAS conjugates only what it transposes: an adjoint that lies as c does.
        let refused =
            |how: View, order: Order| how == View::Adjoint && T::TYPE.is_complex() && order != oc;
        if refused(va, oa) || refused(vb, ob) {
            let text = run.map_err(|error| error.to_string()).err().unwrap_or_default();
            ensure!(text.contains("cuBLAS conjugates only what it transposes"), "{text}");
            continue;
        }
        run?;
        let get = |matrix: &Matrix<T>, how, index: usize, row, col| match how {
            View::Plain => matrix.get(index, row, col),
            View::Transposed => matrix.get(index, col, row),
            View::Adjoint => matrix.get(index, col, row).conj(),
        };
        for index in 0..batch {
            let of_a = |i, l| get(&a, va, index, i, l);
            second_opinion((m, n, k), of_a, |l, j| get(&b, vb, index, l, j))?;
        }
        c.check(&stream, 3.0 * tolerance::<T, C>(k), (m, n, batch), |index, i, j| {
            let sum = product(k, |l| get(&a, va, index, i, l), |l| get(&b, vb, index, l, j));
            Some(alpha.wide() * sum + beta.wide() * c.get(index, i, j))
        })?;
    }
    Ok(())
}

/// All eight combinations of orders.
fn each_order(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4202);
    let (m, n, k) = (31, 33, 32);
    for (oa, ob, oc) in ORDERS
        .into_iter()
        .flat_map(|a| ORDERS.into_iter().flat_map(move |b| ORDERS.map(move |c| (a, b, c))))
    {
        let a = Matrix::<f32>::new(&stream, &mut rng, (m, k), oa, 1)?;
        let b = Matrix::<f32>::new(&stream, &mut rng, (k, n), ob, 1)?;
        let mut c = Matrix::<f32>::new(&stream, &mut rng, (m, n), oc, 1)?;
        blas.gemm(&stream, 1.0, a.mat()?, b.mat()?, 0.0, c.mat_mut()?)?;
        c.check(&stream, tolerance::<f32, f32>(k), (m, n, 1), |_, i, j| {
            Some(product(k, |l| a.get(0, i, l), |l| b.get(0, l, j)))
        })?;
    }
    Ok(())
}

fn in_precision<M: Compute<T, T>, T: Number>(device: &TestDevice) -> TestResult
where
    M::Scale: Number,
{
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4203);
    let (m, n, k) = (32, 24, 16);
    let a = Matrix::<T>::new(&stream, &mut rng, (m, k), Order::RowMajor, 1)?;
    let b = Matrix::<T>::new(&stream, &mut rng, (k, n), Order::ColumnMajor, 1)?;
    let mut c = Matrix::<T>::new(&stream, &mut rng, (m, n), Order::RowMajor, 1)?;
    let factor = |value: f64| M::Scale::of(Wide::new(value, 0.0));
    let (alpha, beta) = (factor(1.0), factor(0.5));
    blas.gemm_in::<M, _, _, _>(&stream, alpha, a.mat()?, b.mat()?, beta, c.mat_mut()?)?;
    // The operands have at least the 7 bits of bf16, and the sums the 10 bits of f16.
    c.check(&stream, k as f64 / 128.0, (m, n, 1), |_, i, j| {
        Some(product(k, |l| a.get(0, i, l), |l| b.get(0, l, j)) + 0.5 * c.get(0, i, j))
    })
}

fn large(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4204);
    let (m, n, k) = (257, 33, 257);
    let a = Matrix::<f32>::new(&stream, &mut rng, (m, k), Order::RowMajor, 1)?;
    let b = Matrix::<f32>::new(&stream, &mut rng, (k, n), Order::RowMajor, 1)?;
    let mut c = Matrix::<f32>::new(&stream, &mut rng, (m, n), Order::RowMajor, 1)?;
    blas.gemm(&stream, 0.5, a.mat()?, b.mat()?, 1.0, c.mat_mut()?)?;
    second_opinion((m, n, k), |i, l| a.get(0, i, l), |l, j| b.get(0, l, j))?;
    c.check(&stream, tolerance::<f32, f32>(k), (m, n, 1), |_, i, j| {
        Some(0.5 * product(k, |l| a.get(0, i, l), |l| b.get(0, l, j)) + c.get(0, i, j))
    })
}

fn nothing_is_read_of_c_for_a_beta_of_zero(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 9])?;
    let ones = Mat::new(&ones, 3, 3)?;
    let zero = DeviceBuffer::from_slice(&stream, &[1.0f32, 0.0])?;
    let mut c = DeviceBuffer::from_slice(&stream, &[f32::NAN; 9])?;
    blas.gemm(&stream, 1.0, ones, ones, 0.0, MatMut::new(&mut c, 3, 3)?)?;
    ensure!(c.to_vec(&stream)? == [3.0; 9]);
    c.fill(&stream, f32::NAN)?;
    let (alpha, beta) = (DeviceScalar::new(&zero)?, DeviceScalar::new(zero.slice(1..)?)?);
    blas.gemm(&stream, alpha, ones, ones, beta, MatMut::new(&mut c, 3, 3)?)?;
    ensure!(c.to_vec(&stream)? == [3.0; 9]);
    let (x, mut y) = (DeviceBuffer::from_slice(&stream, &[1.0f32; 3])?, c);
    y.fill(&stream, f32::NAN)?;
    blas.gemv(&stream, 1.0, ones, &x, 0.0, y.slice_mut(..3)?)?;
    ensure!(y.to_vec(&stream)?[..3] == [3.0; 3]);
    Ok(())
}

/// As BLAS says: nothing happens without a result, and a product without inner elements is zero.
fn empty_dimensions(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let empty = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    let some = DeviceBuffer::from_slice(&stream, &[2.0f32; 9])?;
    let mut c = DeviceBuffer::from_slice(&stream, &[2.0f32; 6])?;
    let of = |rows, cols| Mat::new(&some, rows, cols);
    blas.gemm(&stream, 1.0, of(0, 3)?, of(3, 2)?, 0.0, MatMut::new(&mut c, 0, 2)?)?;
    blas.gemm(&stream, 1.0, of(2, 3)?, of(3, 0)?, 0.0, MatMut::new(&mut c, 2, 0)?)?;
    ensure!(c.to_vec(&stream)? == [2.0; 6]);
    for order in ORDERS {
        let layout = |rows, cols| cuda_libs::Layout::new(rows, cols).order(order);
        let none = |rows, cols| Mat::with(&empty, layout(rows, cols));
        c.upload(&stream, &[2.0; 6])?;
        let to = MatMut::with(&mut c, layout(2, 3))?;
        blas.gemm(&stream, 1.0, none(2, 0)?, none(0, 3)?, 0.5, to)?;
        ensure!(c.to_vec(&stream)? == [1.0; 6]);
        let to = MatMut::with(&mut c, layout(2, 3))?;
        blas.gemm(&stream, 1.0, none(2, 0)?, none(0, 3)?, 0.0, to)?;
        ensure!(c.to_vec(&stream)? == [0.0; 6]);
    }
    let mut batch = DeviceBuffer::from_slice(&stream, &[2.0f32; 6])?;
    let none = cuda_libs::Layout::new(2, 3).batch(0);
    let to = MatMut::with(&mut batch, none)?;
    blas.gemm(&stream, 1.0, of(2, 3)?, of(3, 3)?, 0.0, to)?;
    ensure!(batch.to_vec(&stream)? == [2.0; 6]);
    Ok(())
}

fn factors_on_the_device(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4205);
    let a = Matrix::<f16>::new(&stream, &mut rng, (5, 6), Order::RowMajor, 1)?;
    let b = Matrix::<f16>::new(&stream, &mut rng, (6, 7), Order::RowMajor, 1)?;
    let mut c = Matrix::<f32>::new(&stream, &mut rng, (5, 7), Order::RowMajor, 1)?;
    let factors = DeviceBuffer::from_slice(&stream, &[0.5f32, 2.0])?;
    let (alpha, beta) = (DeviceScalar::new(&factors)?, DeviceScalar::new(factors.slice(1..)?)?);
    blas.gemm(&stream, alpha, a.mat()?, b.mat()?, beta, c.mat_mut()?)?;
    c.check(&stream, tolerance::<f16, f32>(6), (5, 7, 1), |_, i, j| {
        Some(0.5 * product(6, |l| a.get(0, i, l), |l| b.get(0, l, j)) + 2.0 * c.get(0, i, j))
    })
}

fn parts_of_matrices(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4206);
    for (oa, oc) in ORDERS.into_iter().flat_map(|a| ORDERS.map(move |c| (a, c))) {
        let a = Matrix::<f64>::new(&stream, &mut rng, (9, 8), oa, 2)?;
        let mut c = Matrix::<f64>::new(&stream, &mut rng, (6, 5), oc, 2)?;
        let (left, right) = (a.mat()?.part(2..5, 1..8)?, a.mat()?.part(1..8, 3..5)?);
        let to = c.mat_mut()?.part(1..4, 2..4)?;
        blas.gemm(&stream, 1.0, left, right, 0.0, to)?;
        c.check(&stream, tolerance::<f64, f64>(7), (6, 5, 2), |index, i, j| {
            let within = (1..4).contains(&i) && (2..4).contains(&j);
            let sum = |i: usize, j: usize| {
                product(7, |l| a.get(index, i + 1, l + 1), |l| a.get(index, l + 1, j + 1))
            };
            within.then(|| sum(i, j))
        })?;
    }
    Ok(())
}

fn one_operand_for_a_batch(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4207);
    let a = Matrix::<f32>::new(&stream, &mut rng, (4, 3), Order::RowMajor, 1)?;
    let b = Matrix::<f32>::new(&stream, &mut rng, (3, 5), Order::ColumnMajor, 3)?;
    let mut c = Matrix::<f32>::new(&stream, &mut rng, (4, 5), Order::RowMajor, 3)?;
    blas.gemm(&stream, 1.0, a.mat()?, b.mat()?, 0.0, c.mat_mut()?)?;
    c.check(&stream, tolerance::<f32, f32>(3), (4, 5, 3), |index, i, j| {
        Some(product(3, |l| a.get(0, i, l), |l| b.get(index, l, j)))
    })
}

fn lists_of_matrices(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4208);
    for (oa, ob, oc) in [(0, 1, 0), (1, 0, 1), (0, 0, 0)] {
        let make = |stream: &Stream, shape, order: usize, rng: &mut Rng| {
            let layout = cuda_libs::Layout::new(shape, shape).order(ORDERS[order]);
            let host = super::lab::numbers::<f32>(rng, shape * shape);
            let device = DeviceBuffer::from_slice(stream, &host)?;
            Ok::<_, test_harness::Failure>(Matrix { layout, host, device })
        };
        let a: Vec<_> = (0..4).map(|_| make(&stream, 5, oa, &mut rng)).collect::<Result<_, _>>()?;
        let b: Vec<_> = (0..4).map(|_| make(&stream, 5, ob, &mut rng)).collect::<Result<_, _>>()?;
        let mut c: Vec<_> =
            (0..4).map(|_| make(&stream, 5, oc, &mut rng)).collect::<Result<_, _>>()?;
        {
            let a: Vec<_> = a.iter().map(Matrix::mat).collect::<Result<_, _>>()?;
            let b: Vec<_> = b.iter().map(Matrix::mat).collect::<Result<_, _>>()?;
            let mut c: Vec<_> = c.iter_mut().map(Matrix::mat_mut).collect::<Result<_, _>>()?;
            blas.gemm_batched(&stream, 2.0, &a, &b, -1.0, &mut c)?;
        }
        for ((a, b), c) in a.iter().zip(&b).zip(&c) {
            c.check(&stream, tolerance::<f32, f32>(5), (5, 5, 1), |_, i, j| {
                Some(2.0 * product(5, |l| a.get(0, i, l), |l| b.get(0, l, j)) - c.get(0, i, j))
            })?;
        }
    }
    Ok(blas.gemm_batched::<f32, f32, f32>(&stream, 1.0, &[], &[], 0.0, &mut [])?)
}

/// Groups with shapes, orders and factors of their own; one is empty.
fn groups<T: Number + Multiply<T>>(device: &TestDevice) -> TestResult
where
    T::Scale: Number,
{
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4211);
    let shapes = [(3, 5, 7, 2), (31, 1, 33, 1), (4, 4, 4, 0), (0, 3, 2, 2), (16, 32, 8, 3)];
    let mut all = Vec::new();
    for (m, n, k, count) in shapes {
        let (oa, ob, oc) = (order(&mut rng), order(&mut rng), order(&mut rng));
        for _ in 0..count {
            // The matrices of a group have one leading dimension.
            let mut seed = device.rng(m as u64);
            let mut make = |shape, order| {
                let Matrix { layout, host, .. } =
                    Matrix::<T>::new(&stream, &mut seed, shape, order, 1)?;
                let host = super::lab::numbers::<T>(&mut rng, host.len());
                let device = DeviceBuffer::from_slice(&stream, &host)?;
                Ok::<_, test_harness::Failure>(Matrix { layout, host, device })
            };
            let (a, b, c) = (make((m, k), oa)?, make((k, n), ob)?, make((m, n), oc)?);
            all.push((a, b, c));
        }
    }
    let (alpha, beta) = (|at: usize| 1.0 + at as f64, |at: usize| at as f64 * 0.5 - 1.0);
    {
        let (mut groups, mut rest) = (Vec::new(), &mut all[..]);
        for (at, (.., count)) in shapes.into_iter().enumerate() {
            let (own, others) = std::mem::take(&mut rest).split_at_mut(count);
            rest = others;
            let factor = |value: f64| T::Scale::of(Wide::from(value));
            let (alpha, beta) = (factor(alpha(at)), factor(beta(at)));
            let mut group = Group { alpha, a: Vec::new(), b: Vec::new(), beta, c: Vec::new() };
            for (a, b, c) in own {
                group.a.push(a.mat()?);
                group.b.push(b.mat()?);
                group.c.push(c.mat_mut()?);
            }
            groups.push(group);
        }
        blas.gemm_grouped(&stream, &mut groups)?;
    }
    let mut rest = &all[..];
    for (at, (m, n, k, count)) in shapes.into_iter().enumerate() {
        let (own, others) = rest.split_at(count);
        rest = others;
        for (a, b, c) in own {
            c.check(&stream, 5.0 * tolerance::<T, T>(k), (m, n, 1), |_, i, j| {
                let sum = product(k, |l| a.get(0, i, l), |l| b.get(0, l, j));
                Some(sum * alpha(at) + c.get(0, i, j) * beta(at))
            })?;
        }
    }
    Ok(blas.gemm_grouped::<T>(&stream, &mut [])?)
}

/// The precision of the last call.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Notes the precision, and does nothing.
#[allow(clippy::too_many_arguments, reason = "the arguments of cuBLAS")]
extern "C" fn note_precision(
    _: cublasHandle_t,
    _: cublasOperation_t,
    _: cublasOperation_t,
    _: i32,
    _: i32,
    _: i32,
    _: *const c_void,
    _: *const c_void,
    _: cudaDataType,
    _: i32,
    _: *const c_void,
    _: cudaDataType,
    _: i32,
    _: *const c_void,
    _: *mut c_void,
    _: cudaDataType,
    _: i32,
    compute: cublasComputeType_t,
    _: cublasGemmAlgo_t,
) -> cublasStatus_t {
    SEEN.store(compute.0, Ordering::Relaxed);
    cublasStatus_t::CUBLAS_STATUS_SUCCESS
}

/// The stand-in computes all in `f32`, so there the argument is compared; on a GPU, bits differ.
fn precisions_reach_the_library(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut rng = device.rng(4212);
    let (m, k) = (64, 512);
    let values = super::lab::numbers::<f32>(&mut rng, m * k);
    let short: Vec<f16> = values.iter().map(|value| f16::from_f32(*value)).collect();
    let (x, short) =
        (DeviceBuffer::from_slice(&stream, &values)?, DeviceBuffer::from_slice(&stream, &short)?);
    let (x, short) = (Mat::new(&x, m, k)?, Mat::new(&short, m, k)?);
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, m * m)?;
    let mut z = DeviceBuffer::<f16>::zeroed(&stream, m * m)?;
    if is_emulated(device) {
        let resolve = |name: &CStr| match name == c"cublasGemmEx" {
            true => note_precision as *const c_void,
            false => blas_emu::resolve(name),
        };
        // SAFETY: the stand-in has the functions of `cublas_api.h`, and calls the contexts' driver.
        let library = unsafe { CublasLibrary::from_resolver(&resolve) }?;
        let blas = Blas::with(device.context(), &config(device).library(library))?;
        let mut seen = Vec::new();
        let mut note = |called: cuda_libs::Result<()>| -> TestResult {
            called?;
            seen.push(SEEN.load(Ordering::Relaxed));
            Ok(())
        };
        let t = x.transposed();
        note(blas.gemm(&stream, 1.0, x, t, 0.0, MatMut::new(&mut y, m, m)?))?;
        note(blas.gemm_in::<marker::Tf32, _, _, _>(
            &stream,
            1.0,
            x,
            t,
            0.0,
            MatMut::new(&mut y, m, m)?,
        ))?;
        note(blas.gemm_in::<marker::FastBf16, _, _, _>(
            &stream,
            1.0,
            x,
            t,
            0.0,
            MatMut::new(&mut y, m, m)?,
        ))?;
        note(blas.gemm_in::<marker::FastF16, _, _, _>(
            &stream,
            1.0,
            x,
            t,
            0.0,
            MatMut::new(&mut y, m, m)?,
        ))?;
        let (one, zero, t) = (f16::ONE, f16::ZERO, short.transposed());
        note(blas.gemm_in::<marker::F16, _, _, _>(
            &stream,
            one,
            short,
            t,
            zero,
            MatMut::new(&mut z, m, m)?,
        ))?;
        use cublasComputeType_t as C;
        let wanted = [
            C::CUBLAS_COMPUTE_32F,
            C::CUBLAS_COMPUTE_32F_FAST_TF32,
            C::CUBLAS_COMPUTE_32F_FAST_16BF,
            C::CUBLAS_COMPUTE_32F_FAST_16F,
            C::CUBLAS_COMPUTE_16F,
        ];
        ensure!(seen == wanted.map(|compute| compute.0), "{seen:?}");
        return Ok(());
    }
    let blas = blas(device)?;
    blas.gemm(&stream, 1.0, x, x.transposed(), 0.0, MatMut::new(&mut y, m, m)?)?;
    let plain = y.to_vec(&stream)?;
    let c = MatMut::new(&mut y, m, m)?;
    blas.gemm_in::<marker::Tf32, _, _, _>(&stream, 1.0, x, x.transposed(), 0.0, c)?;
    ensure!(y.to_vec(&stream)? != plain, "TF32 has the bits of f32");
    blas.gemm(&stream, 1.0, short, short.transposed(), 0.0, MatMut::new(&mut z, m, m)?)?;
    let plain = z.to_vec(&stream)?;
    let (one, zero, c) = (f16::ONE, f16::ZERO, MatMut::new(&mut z, m, m)?);
    blas.gemm_in::<marker::F16, _, _, _>(&stream, one, short, short.transposed(), zero, c)?;
    ensure!(z.to_vec(&stream)? != plain, "16-bit sums have the bits of f32");
    Ok(())
}
