//! Shapes from arrays of `ndarray`, and back.

use cuda_libs::mat::ndarray::upload;
use cuda_libs::{Layout, Mat, MatMut, Order};
use cuda_safe::DeviceBuffer;
use ndarray::{Array2, s};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::blas;

pub(super) fn cases() -> Vec<Case> {
    cases!["libs::arrays", device(there_and_back), host(layouts)]
}

fn there_and_back(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let a = Array2::from_shape_fn((4, 6), |(i, j)| (i * 6 + j) as f64);
    let b = Array2::from_shape_fn((5, 6), |(i, j)| (i as f64) - (j as f64));
    // Row-major, column-major, and every other row.
    for a in [a.view(), a.view().reversed_axes().reversed_axes(), a.slice(s![..;2, ..])] {
        let b = b.t();
        let ((da, la), (db, lb)) = (upload(&stream, &a)?, upload(&stream, &b)?);
        ensure!(lb == Layout::new(6, 5).order(Order::ColumnMajor));
        let mut c = DeviceBuffer::<f64>::zeroed(&stream, a.nrows() * 5)?;
        let mut c = MatMut::new(&mut c, a.nrows(), 5)?;
        blas.gemm(&stream, 1.0, Mat::with(&da, la)?, Mat::with(&db, lb)?, 0.0, c.reborrow())?;
        ensure_eq!(c.to_array(&stream)?, a.dot(&b));
        ensure_eq!(Mat::with(&db, lb)?.to_array(&stream)?, b.to_owned());
    }
    Ok(())
}

fn layouts() -> TestResult {
    let a = Array2::<f32>::zeros((4, 6));
    ensure!(Layout::of_array(&a.view())? == Layout::new(4, 6).leading(6));
    let part = a.slice(s![1..3, 2..5]);
    ensure!(Layout::of_array(&part)? == Layout::new(2, 3).leading(6));
    let column = Layout::new(3, 2).order(Order::ColumnMajor).leading(6);
    ensure!(Layout::of_array(&part.t())? == column);
    let text = Layout::of_array(&a.slice(s![.., ..;2])).map_err(|error| error.to_string());
    let wanted =
        "layout: array has strides 6 and 2: neither rows nor columns are contiguous; copy it first";
    ensure_eq!(text.err().unwrap_or_default(), wanted);
    Ok(())
}
