//! Gradients of products, against sums on the host and differences.

use cuda_libs::tape::gemm;
use cuda_libs::{Layout, Mat, MatMut};
use cuda_safe::DeviceBuffer;
use tape::{Recorder, Tape, check};
use test_harness::{Case, TestDevice, TestResult, cases, ensure};

use super::lab::{Matrix, Number, ORDERS, Wide, blas, numbers};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "libs::gradients",
        device(of_products_f32 = products::<f32>),
        device(of_products_f64 = products::<f64>),
        device(of_a_chain),
        device(of_a_square),
        device(of_matrices_with_vectors),
        device(what_is_refused),
    ]
}

fn close<T: Number>(got: &[T], wanted: &[f64]) -> TestResult {
    ensure!(got.len() == wanted.len());
    for (at, (got, wanted)) in got.iter().zip(wanted).enumerate() {
        let off = (got.wide().re - wanted).abs();
        ensure!(off <= 256.0 * T::EPSILON * (1.0 + wanted.abs()), "{at}: {got:?} is not {wanted}");
    }
    Ok(())
}

/// The loss is the dot product of c with weights, so the gradient of c is the weights.
fn products<T: Number + cuda_libs::tape::Real>(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4231);
    for (oa, ob, batch) in [(0, 0, 1), (1, 0, 1), (0, 1, 3), (1, 1, 2)] {
        let (m, n, k) = (5, 4, 3);
        let a = Matrix::<T>::new(&stream, &mut rng, (m, k), ORDERS[oa], batch)?;
        let b = Matrix::<T>::new(&stream, &mut rng, (k, n), ORDERS[ob], batch)?;
        let host = numbers::<T>(&mut rng, m * n * batch);
        let weights = DeviceBuffer::from_slice(&stream, &host)?;
        let mut c = DeviceBuffer::<T>::zeroed(&stream, m * n * batch)?;
        let mut loss = DeviceBuffer::<T>::zeroed(&stream, 1)?;
        let alpha = T::of(Wide::new(-0.5, 0.0));
        let layout = Layout::new(m, n).batch(batch);
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a.device)?;
            t.watch(&b.device)?;
            let to = MatMut::with(&mut c, layout)?;
            let (a, b) = (Mat::with(&a.device, a.layout)?, Mat::with(&b.device, b.layout)?);
            gemm(t, &blas, alpha, a, b, to)?;
            Ok(cuda_libs::tape::dot(t, &blas, &c, &weights, &mut loss)?)
        })?;
        tape.backward(&stream, &loss)?;
        let weight = |index: usize, i: usize, j: usize| host[index * m * n + i * n + j].wide().re;
        let mut wanted = vec![0.0; a.host.len()];
        for (index, i, l) in
            (0..batch).flat_map(|x| (0..m).flat_map(move |i| (0..k).map(move |l| (x, i, l))))
        {
            wanted[a.at(index, i, l)] =
                (0..n).map(|j| -0.5 * weight(index, i, j) * b.get(index, l, j).re).sum();
        }
        close(&tape.gradient(&a.device)?.to_vec(&stream)?, &wanted)?;
        let mut wanted = vec![0.0; b.host.len()];
        for (index, l, j) in
            (0..batch).flat_map(|x| (0..k).flat_map(move |l| (0..n).map(move |j| (x, l, j))))
        {
            wanted[b.at(index, l, j)] =
                (0..m).map(|i| -0.5 * weight(index, i, j) * a.get(index, i, l).re).sum();
        }
        close(&tape.gradient(&b.device)?.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

/// The Jacobian of two batches of products one after the other, both of which read x, against central differences. They are
/// exact but for rounding, as the result is quadratic in x.
fn of_a_chain(device: &TestDevice) -> TestResult {
    const N: usize = 4;
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4232);
    let layout = Layout::new(N, N).batch(2);
    for order in ORDERS {
        let mut x = DeviceBuffer::from_slice(&stream, &numbers::<f64>(&mut rng, 2 * N * N))?;
        let w = DeviceBuffer::from_slice(&stream, &numbers::<f64>(&mut rng, 2 * N * N))?;
        let zeros = || DeviceBuffer::<f64>::zeroed(&stream, 2 * N * N);
        let (mut y, mut z) = (zeros()?, zeros()?);
        let mut chain = |t: &mut Recorder<'_>, x: &DeviceBuffer<f64>, z: &mut DeviceBuffer<f64>| {
            let (all, other) = (Mat::with(x, layout)?, Mat::with(&w, layout.order(order))?);
            gemm(t, &blas, 1.0, all, other, MatMut::with(&mut y, layout)?)?;
            let between = Mat::with(&y, layout)?.transposed();
            gemm(t, &blas, -0.5, between, all, MatMut::with(z, layout)?)
        };
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&x)?;
            Ok(chain(t, &x, &mut z)?)
        })?;
        let adjoint = check::jacobian(&mut tape, &stream, &x, &z)?;
        drop(tape);
        let differences = check::differences(&stream, &mut x, 1e-2, |x| {
            Tape::record(&stream, |t| Ok(chain(t, x, &mut z)?))?;
            z.to_vec(&stream)
        })?;
        let compared = adjoint.compare(&differences, |_, _| false)?;
        ensure!(compared.compared == 4 * N.pow(4) && compared.error < 1e-10, "{compared}");
    }
    Ok(())
}

/// One matrix as both operands: its gradient is the sum of both.
fn of_a_square(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let a = DeviceBuffer::from_slice(&stream, &[1.0f64, 2.0, 3.0, 4.0])?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f64; 4])?;
    let mut c = DeviceBuffer::<f64>::zeroed(&stream, 4)?;
    let mut loss = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&a)?;
        let square = Mat::new(&a, 2, 2)?;
        gemm(t, &blas, 1.0, square, square, MatMut::new(&mut c, 2, 2)?)?;
        Ok(cuda_libs::tape::dot(t, &blas, &c, &ones, &mut loss)?)
    })?;
    tape.backward(&stream, &loss)?;
    // The sums of its rows and columns.
    close(&tape.gradient(&a)?.to_vec(&stream)?, &[7.0, 11.0, 9.0, 13.0])
}

fn of_matrices_with_vectors(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let mut rng = device.rng(4233);
    let (rows, cols) = (5, 7);
    for order in ORDERS {
        let a = Matrix::<f64>::new(&stream, &mut rng, (rows, cols), order, 1)?;
        let (hx, hw) = (numbers::<f64>(&mut rng, cols), numbers::<f64>(&mut rng, rows));
        let (x, w) =
            (DeviceBuffer::from_slice(&stream, &hx)?, DeviceBuffer::from_slice(&stream, &hw)?);
        let mut y = DeviceBuffer::<f64>::zeroed(&stream, rows)?;
        let mut loss = DeviceBuffer::<f64>::zeroed(&stream, 1)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&a.device)?;
            t.watch(&x)?;
            t.watch(&w)?;
            cuda_libs::tape::gemv(t, &blas, 2.0, Mat::with(&a.device, a.layout)?, &x, &mut y)?;
            Ok(cuda_libs::tape::dot(t, &blas, &y, &w, &mut loss)?)
        })?;
        tape.backward(&stream, &loss)?;
        let mut wanted = vec![0.0; a.host.len()];
        for (i, j) in (0..rows).flat_map(|i| (0..cols).map(move |j| (i, j))) {
            wanted[a.at(0, i, j)] = 2.0 * hw[i] * hx[j];
        }
        close(&tape.gradient(&a.device)?.to_vec(&stream)?, &wanted)?;
        let sum = |j: usize| (0..rows).map(|i| 2.0 * a.get(0, i, j).re * hw[i]).sum();
        let wanted: Vec<f64> = (0..cols).map(sum).collect();
        close(&tape.gradient(&x)?.to_vec(&stream)?, &wanted)?;
        let sum = |i: usize| (0..cols).map(|j| 2.0 * a.get(0, i, j).re * hx[j]).sum();
        let wanted: Vec<f64> = (0..rows).map(sum).collect();
        close(&tape.gradient(&w)?.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let a = DeviceBuffer::from_slice(&stream, &[1.0f64; 16])?;
    let mut c = DeviceBuffer::<f64>::zeroed(&stream, 16)?;
    let gaps = Layout::new(2, 2).leading(3);
    let refused = Tape::record(&stream, |t| {
        t.watch(&a)?;
        let square = Mat::new(&a, 2, 2)?;
        Ok(gemm(t, &blas, 1.0, square, square, MatMut::with(&mut c, gaps)?)?)
    });
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains("gemm: c has gaps"), "{text}");
    let shared = Layout::new(2, 2).batch(2).stride(0);
    let two = Layout::new(2, 2).batch(2);
    let refused = Tape::record(&stream, |t| {
        t.watch(&a)?;
        let (x, y) = (Mat::with(&a, shared)?, Mat::with(&a, two)?);
        Ok(gemm(t, &blas, 1.0, x, y, MatMut::with(&mut c, two)?)?)
    });
    let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
    ensure!(text.contains("gemm: a overlaps"), "{text}");
    Ok(())
}
