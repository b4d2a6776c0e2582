//! Vectors, and matrices with vectors.

use cuda_libs::blas::{DeviceScalar, Float, Numeric};
use cuda_libs::{Complex, Vector, VectorMut, bf16, f16};
use cuda_safe::DeviceBuffer;
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

use super::lab::{Matrix, Number, ORDERS, Wide, blas, numbers};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::vectors",
        device(of_f32 = of::<f32>),
        device(of_f64 = of::<f64>),
        device(of_c32 = of::<Complex<f32>>),
        device(of_c64 = of::<Complex<f64>>),
        device(of_f16 = of::<f16>),
        device(of_bf16 = of::<bf16>),
        device(with_matrices_of_f32 = with_matrices::<f32>),
        device(with_matrices_of_f64 = with_matrices::<f64>),
        device(with_matrices_of_c32 = with_matrices::<Complex<f32>>),
        device(with_matrices_of_c64 = with_matrices::<Complex<f64>>),
        device(conjugates),
    ]
}

fn near<T: Number>(got: T, wanted: Wide, size: usize) -> TestResult {
    let most =
        8.0 * T::EPSILON * (1.0 + wanted.norm()) + (size as f64) * 4.0 * f64::from(f32::EPSILON);
    ensure!((got.wide() - wanted).norm() <= most, "{got:?} is not {wanted}");
    Ok(())
}

fn of<T: Number + Numeric>(device: &TestDevice) -> TestResult
where
    T::Factor: Number,
    T::Real: Number,
{
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4211);
    for (n, sx, sy) in [(0, 1, 1), (1, 1, 1), (31, 1, 2), (32, 3, 1), (33, 2, 5), (257, 1, 1)] {
        let (hx, hy) = (numbers::<T>(&mut rng, n * sx + 2), numbers::<T>(&mut rng, n * sy + 3));
        let dx = DeviceBuffer::from_slice(&stream, &hx)?;
        let mut dy = DeviceBuffer::from_slice(&stream, &hy)?;
        let x = Vector::with_step(&dx, n, sx)?;
        let wx = |i: usize| hx[i * sx].wide();
        let wy = |i: usize| hy[i * sy].wide();
        let dot = blas.dot(&stream, x, Vector::with_step(&dy, n, sy)?)?;
        near(dot, (0..n).map(|i| wx(i) * wy(i)).sum(), n)?;
        let norm: f64 = (0..n).map(|i| wx(i).norm_sqr()).sum();
        near(blas.nrm2(&stream, x)?, Wide::new(norm.sqrt(), 0.0), n)?;
        for factor in [0.0, 1.0, -0.75] {
            let alpha = T::Factor::of(Wide::new(factor, 0.25));
            dy.upload(&stream, &hy)?;
            if factor == 1.0 {
                let device = DeviceBuffer::from_slice(&stream, &[alpha])?;
                let alpha = DeviceScalar::new(&device)?;
                blas.axpy(&stream, alpha, x, VectorMut::with_step(&mut dy, n, sy)?)?;
            } else {
                blas.axpy(&stream, alpha, x, VectorMut::with_step(&mut dy, n, sy)?)?;
            }
            check(&dy.to_vec(&stream)?, &hy, n, sy, |i| alpha.wide() * wx(i) + wy(i))?;
            dy.upload(&stream, &hy)?;
            blas.scal(&stream, alpha, VectorMut::with_step(&mut dy, n, sy)?)?;
            check(&dy.to_vec(&stream)?, &hy, n, sy, |i| alpha.wide() * wy(i))?;
        }
    }
    Ok(())
}

/// Compares every `step`-th element; the others must be as before.
fn check<T: Number>(
    got: &[T],
    before: &[T],
    n: usize,
    step: usize,
    wanted: impl Fn(usize) -> Wide,
) -> TestResult {
    for (at, (got, old)) in got.iter().zip(before).enumerate() {
        if at % step == 0 && at / step < n {
            near(*got, wanted(at / step), 1)?;
        } else {
            ensure!(got == old, "element {at} has changed");
        }
    }
    Ok(())
}

fn with_matrices<T: Number + Float>(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4212);
    for (order, (rows, cols), (sx, sy)) in ORDERS.into_iter().flat_map(|order| {
        [
            ((0, 3), (1, 1)),
            ((3, 0), (1, 1)),
            ((1, 1), (1, 2)),
            ((31, 33), (2, 1)),
            ((33, 32), (1, 3)),
        ]
        .map(move |(shape, steps)| (order, shape, steps))
    }) {
        let mut a = Matrix::<T>::new(&stream, &mut rng, (rows, cols), order, 1)?;
        let (hx, hy) =
            (numbers::<T>(&mut rng, cols * sx + 1), numbers::<T>(&mut rng, rows * sy + 1));
        let dx = DeviceBuffer::from_slice(&stream, &hx)?;
        let mut dy = DeviceBuffer::from_slice(&stream, &hy)?;
        let (wx, wy) = (|j: usize| hx[j * sx].wide(), |i: usize| hy[i * sy].wide());
        let (alpha, beta) = (T::of(Wide::new(0.5, -1.0)), T::of(Wide::new(-2.0, 0.5)));
        let x = Vector::with_step(&dx, cols, sx)?;
        blas.gemv(&stream, alpha, a.mat()?, x, beta, VectorMut::with_step(&mut dy, rows, sy)?)?;
        let got = dy.to_vec(&stream)?;
        if cols == 0 {
            ensure!(got == hy, "y has changed");
        } else {
            for (at, (got, old)) in got.iter().zip(&hy).enumerate() {
                if at % sy == 0 && at / sy < rows {
                    let i = at / sy;
                    let sum: Wide = (0..cols).map(|j| a.get(0, i, j) * wx(j)).sum();
                    near(*got, alpha.wide() * sum + beta.wide() * wy(i), cols)?;
                } else {
                    ensure!(got == old, "element {at} has changed");
                }
            }
        }
        let y = DeviceBuffer::from_slice(&stream, &hy)?;
        blas.ger(&stream, alpha, Vector::with_step(&y, rows, sy)?, x, a.mat_mut()?)?;
        a.check(&stream, 16.0 * T::EPSILON, (rows, cols, 1), |_, i, j| {
            Some(a.get(0, i, j) + alpha.wide() * wy(i) * wx(j))
        })?;
    }
    Ok(())
}

fn conjugates(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4213);
    let (hx, hy) = (numbers::<Wide>(&mut rng, 20), numbers::<Wide>(&mut rng, 20));
    let (dx, dy) =
        (DeviceBuffer::from_slice(&stream, &hx)?, DeviceBuffer::from_slice(&stream, &hy)?);
    let mut out = DeviceBuffer::<Wide>::zeroed(&stream, 1)?;
    blas.conjugate_dot_into(&stream, &dx, &dy, &mut out)?;
    near(out.to_vec(&stream)?[0], hx.iter().zip(&hy).map(|(x, y)| x.conj() * y).sum(), 20)?;
    let a = Matrix::<Wide>::new(&stream, &mut rng, (4, 20), cuda_libs::Order::ColumnMajor, 1)?;
    let mut y = DeviceBuffer::<Wide>::zeroed(&stream, 20)?;
    let x = dx.slice(..4)?;
    let (one, zero) = (Wide::new(1.0, 0.0), Wide::default());
    blas.gemv(&stream, one, a.mat()?.adjoint(), x, zero, &mut y)?;
    for (j, got) in y.to_vec(&stream)?.into_iter().enumerate() {
        near(got, (0..4).map(|i| a.get(0, i, j).conj() * hx[i]).sum(), 4)?;
    }
    Ok(())
}
