//! Arguments that make no sense are errors that name them. Nothing is enqueued, and the context is usable after.

use cuda_libs::blas::{DeviceScalar, Diagonal, Group, Side, Triangle};
use cuda_libs::{Blas, Complex, CublasLibrary, Layout, Mat, MatMut, Order, Vector, VectorMut};
use cuda_safe::DeviceBuffer;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

use super::lab::{blas, config};

pub(super) fn cases() -> Vec<Case> {
    let mut all = cases!["several::libs", several(other_contexts)];
    all.extend(cases![
        "libs::refusals",
        device(views),
        device(shapes),
        device(results_in_a_capture),
        device(addresses),
        device(missing_functions),
        device(sizes_beyond_32_bits),
    ]);
    all
}

pub(crate) fn refused<T, E: ToString>(result: Result<T, E>, wanted: &str) -> TestResult {
    match result {
        Ok(_) => Err(test_harness::Failure::new(format!("accepted; wanted: {wanted}"))),
        Err(error) => {
            let text = error.to_string();
            ensure!(text == wanted, "`{text}` is not `{wanted}`");
            Ok(())
        }
    }
}

fn views(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut buffer = DeviceBuffer::<f32>::zeroed(&stream, 20)?;
    refused(
        Mat::new(&buffer, 3, 7),
        "layout: data has 20 elements; 3 x 7 with leading dimension 7, 1 times at a distance of 21, needs 21",
    )?;
    refused(
        Mat::with(&buffer, Layout::new(3, 4).leading(3)),
        "layout: leading dimension 3 is less than the 4 columns of a row-major matrix",
    )?;
    refused(
        Mat::with(&buffer, Layout::new(5, 2).order(Order::ColumnMajor).leading(4)),
        "layout: leading dimension 4 is less than the 5 rows of a column-major matrix",
    )?;
    refused(
        Mat::with(&buffer, Layout::new(usize::MAX, 2)),
        "layout: data has 20 elements; 18446744073709551615 x 2 with leading dimension 2, 1 times at a distance of 0, needs \
         more than 2^64",
    )?;
    refused(
        MatMut::with(&mut buffer, Layout::new(2, 3).batch(3).stride(5)),
        "layout: stride 5 makes the 3 matrices overlap: 2 x 3 with leading dimension 3 takes 6 elements",
    )?;
    // Operands that are read may overlap.
    ensure!(Mat::with(&buffer, Layout::new(2, 3).batch(3).stride(5)).is_ok());
    refused(
        MatMut::with(&mut buffer, Layout::new(2, 3).batch(2).stride(0)),
        "layout: stride 0 makes the 2 matrices overlap: 2 x 3 with leading dimension 3 takes 6 elements",
    )?;
    // Side by side within the leading dimension, they do not.
    ensure!(MatMut::with(&mut buffer, Layout::new(3, 2).leading(6).batch(3).stride(2)).is_ok());
    let matrix = Mat::new(&buffer, 4, 5)?;
    refused(matrix.part(1..5, 0..1), "part: rows 1..5 are not within the 4 of the matrix")?;
    refused(matrix.part(0..1, 5..6), "part: columns 5..6 are not within the 5 of the matrix")?;
    refused(Vector::with_step(&buffer, 3, 0), "vector: step is 0")?;
    refused(
        VectorMut::with_step(&mut buffer, 5, 5),
        "vector: data has 20 elements; 5 at a distance of 5 do not fit",
    )?;
    refused(DeviceScalar::new(buffer.slice(..0)?), "scalar: data has no element")
}

fn shapes(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let some = DeviceBuffer::from_slice(&stream, &[1.0f32; 64])?;
    let mut to = DeviceBuffer::from_slice(&stream, &[7.0f32; 64])?;
    let of = |rows, cols| Mat::new(&some, rows, cols);
    let gemm = |a: Mat<'_, f32>, b: Mat<'_, f32>, c: MatMut<'_, f32>| {
        blas.gemm(&stream, 1.0, a, b, 0.0, c)
    };
    let two = Mat::with(&some, Layout::new(2, 2).batch(2))?;
    refused(
        gemm(of(2, 3)?, of(4, 2)?, MatMut::new(&mut to, 2, 2)?),
        "gemm: b has 4 rows, but a has 3 columns",
    )?;
    refused(
        gemm(of(2, 3)?, of(3, 2)?, MatMut::new(&mut to, 3, 2)?),
        "gemm: c has 3 rows, but a has 2",
    )?;
    refused(
        gemm(of(2, 3)?, of(3, 2)?, MatMut::new(&mut to, 2, 3)?),
        "gemm: c has 3 columns, but b has 2",
    )?;
    let three = Layout::new(2, 2).batch(3);
    refused(
        gemm(two, of(2, 2)?, MatMut::with(&mut to, three)?),
        "gemm: a is a batch of 2 matrices, but c of 3",
    )?;
    refused(
        gemm(of(2, 2)?, two, MatMut::with(&mut to, three)?),
        "gemm: b is a batch of 2 matrices, but c of 3",
    )?;
    refused(
        blas.gemm_batched(&stream, 1.0, &[two], &[two], 0.0, &mut [MatMut::new(&mut to, 2, 2)?]),
        "gemm_batched: a is a batch of 2 matrices; the call takes one",
    )?;
    let (x, y) = (of(2, 2)?, of(2, 3)?);
    refused(
        blas.gemm_batched::<f32, f32, f32>(&stream, 1.0, &[x], &[x], 0.0, &mut []),
        "gemm_batched: a has 1 matrices, but c has 0",
    )?;
    {
        let (first, second) = to.split_at_mut(32)?;
        let mut c = [MatMut::new(first, 2, 2)?, MatMut::new(second, 2, 2)?];
        refused(
            blas.gemm_batched(&stream, 1.0, &[x, y], &[x, x], 0.0, &mut c),
            "gemm_batched: a has another shape or layout at index 1 than at 0",
        )?;
    }
    let vector = |len: usize| some.slice(..len);
    refused(
        blas.gemv(&stream, 1.0, y, vector(2)?, 0.0, to.slice_mut(..2)?),
        "gemv: x has 2 elements, but a has 3 columns",
    )?;
    refused(
        blas.gemv(&stream, 1.0, y, vector(3)?, 0.0, to.slice_mut(..3)?),
        "gemv: y has 3 elements, but a has 2 rows",
    )?;
    refused(
        blas.gemv(&stream, 1.0, two, vector(2)?, 0.0, to.slice_mut(..2)?),
        "gemv: a is a batch of 2 matrices; the call takes one",
    )?;
    refused(
        blas.ger(&stream, 1.0, vector(2)?, vector(2)?, MatMut::new(&mut to, 2, 3)?),
        "ger: y has 2 elements, but a has 3 columns",
    )?;
    let how = (Side::Left, Triangle::Lower, Diagonal::Stored);
    refused(
        blas.trsm(&stream, how, 1.0, y, MatMut::new(&mut to, 2, 2)?),
        "trsm: a is 2 x 3, but must be square",
    )?;
    refused(
        blas.trsm(&stream, how, 1.0, x, MatMut::new(&mut to, 3, 2)?),
        "trsm: b has 3 rows, but a is 2 x 2",
    )?;
    refused(
        blas.syrk(&stream, Triangle::Lower, 1.0, y, 0.0, MatMut::new(&mut to, 3, 3)?),
        "syrk: c is 3 x 3, but a has 2 rows",
    )?;
    refused(blas.dot(&stream, vector(2)?, vector(3)?), "dot: y has 3 elements, but x has 2")?;
    refused(
        blas.dot_into(&stream, vector(2)?, vector(2)?, to.slice_mut(..0)?),
        "dot: out has no element",
    )?;
    refused(
        blas.axpy(&stream, 1.0, vector(2)?, to.slice_mut(..3)?),
        "axpy: y has 3 elements, but x has 2",
    )?;
    let complex = DeviceBuffer::<Complex<f32>>::zeroed(&stream, 8)?;
    let mut sum = DeviceBuffer::<Complex<f32>>::zeroed(&stream, 4)?;
    let (one, zero) = (Complex::new(1.0, 0.0), Complex::new(0.0, 0.0));
    let adjoint = Mat::new(&complex, 2, 2)?.adjoint();
    refused(
        blas.syrk(&stream, Triangle::Lower, one, adjoint, zero, MatMut::new(&mut sum, 2, 2)?),
        "syrk: a is conjugated, and the product is not",
    )?;
    // Nothing was enqueued, and everything works.
    ensure_eq!(to.to_vec(&stream)?, vec![7.0; 64]);
    gemm(of(2, 3)?, of(3, 2)?, MatMut::new(&mut to, 2, 2)?)?;
    ensure_eq!(to.to_vec(&stream)?[..5], [3.0, 3.0, 3.0, 3.0, 7.0]);
    Ok(())
}

/// The stream or the memory of another device.
fn other_contexts(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let all = device.all_contexts()?;
    let other = all.get(1).ok_or_else(|| test_harness::Failure::new("there is one device"))?;
    let there = other.stream()?;
    let far = DeviceBuffer::<f32>::zeroed(&there, 4)?;
    let near = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut to = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let of = |buffer| Mat::new(buffer, 2, 2);
    refused(
        blas.gemm(&there, 1.0, of(&near)?, of(&near)?, 0.0, MatMut::new(&mut to, 2, 2)?),
        "gemm: stream belongs to another context than the `Blas`",
    )?;
    refused(
        blas.gemm(&stream, 1.0, of(&near)?, of(&far)?, 0.0, MatMut::new(&mut to, 2, 2)?),
        "gemm: b lies in memory of another context than that of the `Blas`",
    )?;
    Ok(blas.gemm(&stream, 1.0, of(&near)?, of(&near)?, 0.0, MatMut::new(&mut to, 2, 2)?)?)
}

fn results_in_a_capture(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let state = DeviceBuffer::from_slice(&stream, &[1.0f32; 5])?;
    let found = std::cell::RefCell::new(Ok(()));
    let mut graph = device.context().capture((state, DeviceBuffer::zeroed(&stream, 1)?), |stream, (x, out)| {
        *found.borrow_mut() = refused(
            blas.dot(stream, &*x, &*x),
            "dot: stream records, so there is no number to return yet; write it to device memory",
        );
        Ok(blas.dot_into(stream, &*x, &*x, out)?)
    })?;
    found.replace(Ok(()))?;
    graph.launch(&stream)?;
    ensure_eq!(graph.state().1.to_vec(&stream)?, [5.0]);
    Ok(())
}

/// The stand-in without some functions, also on a GPU: the error is that of the call.
fn missing_functions(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    blas_emu::use_driver(device.context().driver().as_sys());
    let resolve = |name: &std::ffi::CStr| match name.to_str() {
        Ok("cublasGemmEx" | "cublasGemmGroupedBatchedEx" | "cublasSdot_v2") => std::ptr::null(),
        _ => blas_emu::resolve(name),
    };
    // SAFETY: the stand-in has the functions of `cublas_api.h`, and calls the contexts' driver.
    let library = unsafe { CublasLibrary::from_resolver(&resolve) }?;
    let blas = Blas::with(device.context(), &config(device).library(library))?;
    let version = library.version().ok_or_else(|| test_harness::Failure::new("no version"))?;
    let name = format!("cuBLAS {}.{}.{}", version.0, version.1, version.2);
    let x = DeviceBuffer::from_slice(&stream, &[1.0f32; 4])?;
    let mut to = DeviceBuffer::from_slice(&stream, &[7.0f32; 4])?;
    let matrix = Mat::new(&x, 2, 2)?;
    refused(
        blas.gemm(&stream, 1.0, matrix, matrix, 0.0, MatMut::new(&mut to, 2, 2)?),
        &format!("gemm: this {name} has no cublasGemmEx, which came with an earlier cuBLAS"),
    )?;
    let (a, b, c) = (vec![matrix], vec![matrix], vec![MatMut::new(&mut to, 2, 2)?]);
    let group = Group { alpha: 1.0, a, b, beta: 0.0, c };
    let wanted = format!(
        "gemm_grouped: this {name} has no cublasGemmGroupedBatchedEx, which came with cuBLAS 12.5"
    );
    refused(blas.gemm_grouped::<f32>(&stream, &mut [group]), &wanted)?;
    ensure_eq!(to.to_vec(&stream)?, [7.0; 4]);
    blas.axpy(&stream, 1.0, &x, &mut to)?;
    ensure_eq!(to.to_vec(&stream)?, [8.0; 4]);
    Ok(())
}

/// The 64-bit functions, with a leading dimension that takes no memory.
fn sizes_beyond_32_bits(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let a = DeviceBuffer::from_slice(&stream, &[2.0f32, 3.0])?;
    let b = DeviceBuffer::from_slice(&stream, &[5.0f32, 7.0])?;
    let mut c = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    // One row, so the distance of rows is never used.
    let row = Mat::with(&a, Layout::new(1, 2).leading(1 << 33))?;
    blas.gemm(&stream, 1.0, row, Mat::new(&b, 2, 1)?, 0.0, MatMut::new(&mut c, 1, 1)?)?;
    ensure_eq!(c.to_vec(&stream)?, [31.0]);
    let x = Vector::with_step(&a, 1, 1 << 33)?;
    blas.axpy(&stream, 1.0, x, &mut c)?;
    ensure_eq!(c.to_vec(&stream)?, [33.0]);
    let huge = Mat::with(&a, Layout::new(1, 2).leading(usize::MAX))?;
    refused(
        blas.gemm(&stream, 1.0, huge, Mat::new(&b, 2, 1)?, 0.0, MatMut::new(&mut c, 1, 1)?),
        "gemm: a has 18446744073709551615, which is above 2^63",
    )
}

/// Complex numbers at addresses that Rust allows and C does not.
fn addresses(device: &TestDevice) -> TestResult {
    let (stream, blas) = (device.stream()?, blas(device)?);
    let numbers = DeviceBuffer::<f64>::zeroed(&stream, 9)?;
    let odd = numbers.slice(1..9)?.cast::<Complex<f64>>()?;
    let even = numbers.slice(..8)?.cast::<Complex<f64>>()?;
    let mut to = DeviceBuffer::<Complex<f64>>::zeroed(&stream, 4)?;
    let (one, zero) = (Complex::new(1.0, 0.0), Complex::new(0.0, 0.0));
    let message = "lies at an address that is no multiple of its element's size";
    refused(
        blas.gemm(
            &stream,
            one,
            Mat::new(odd, 2, 2)?,
            Mat::new(even, 2, 2)?,
            zero,
            MatMut::new(&mut to, 2, 2)?,
        ),
        &format!("gemm: a {message}"),
    )?;
    refused(
        blas.gemm_batched(
            &stream,
            one,
            &[Mat::new(even, 2, 2)?],
            &[Mat::new(odd, 2, 2)?],
            zero,
            &mut [MatMut::new(&mut to, 2, 2)?],
        ),
        &format!("gemm_batched: b {message}"),
    )?;
    refused(DeviceScalar::new(odd).map(drop), &format!("scalar: data {message}"))?;
    Ok(blas.gemm(
        &stream,
        one,
        Mat::new(even, 2, 2)?,
        Mat::new(even, 2, 2)?,
        zero,
        MatMut::new(&mut to, 2, 2)?,
    )?)
}
