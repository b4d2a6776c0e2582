//! What plans of cuBLASLt refuse.

use cuda_libs::blas::marker;
use cuda_libs::lt::{Activation, Extras, Problem};
use cuda_libs::{Layout, Mat, MatMut, Order};
use cuda_safe::DeviceBuffer;
use test_harness::{TestDevice, TestResult, ensure, ensure_eq};

use super::lt::{N, buffers, double, lt, plain};
use super::refusals::refused;

pub(super) fn wrong_plans(device: &TestDevice) -> TestResult {
    let lt = lt(device)?;
    let of = Layout::new;
    let plan = |problem: Problem| lt.plan::<marker::F32, f32, f32, f32>(&problem);
    let square = Problem::new(of(8, 8), of(8, 8), of(8, 8));
    refused(
        plan(Problem::new(of(2, 3), of(4, 2), of(2, 2))),
        "plan: b has 4 rows, but a has 3 columns",
    )?;
    refused(
        plan(Problem::new(of(2, 0), of(0, 2), of(2, 2))),
        "plan: a has no columns: cuBLASLt takes no empty inner dimension",
    )?;
    refused(plan(square.alignment(3)), "plan: alignment is no power of two from 1 to 256")?;
    let column = Problem::new(of(8, 8), of(8, 8), of(8, 8).order(Order::ColumnMajor));
    refused(
        plan(column.bias()),
        "plan: d is column-major, but cuBLASLt adds a bias to the rows of a row-major d: plan the transposed product",
    )?;
    refused(plan(square.save()), "plan: save is for ReLU and GELU")?;
    let gradient = square.activation(Activation::ReluGradient);
    refused(plan(gradient.bias()), "plan: bias is not added before a gradient")?;
    refused(plan(square.scales()), "plan: scales are for operands of 8-bit floats")?;
    refused(plan(square.amax()), "plan: amax is that of a result of 8-bit floats")?;
    refused(
        lt.plan::<marker::F64, f64, f64, f64>(&square.bias()),
        "plan: epilogue is for real numbers of at most 32 bits",
    )?;
    let stride = |layout: Layout| layout.batch(1 << 31).stride(0);
    refused(
        plan(Problem::new(of(1, 1), of(1, 1), stride(of(1, 1)))),
        "plan: d is a batch of 2147483648, which is above 2^31",
    )
}

pub(super) fn wrong_calls(device: &TestDevice) -> TestResult {
    let (stream, lt) = (device.stream()?, lt(device)?);
    let layout = Layout::new(N, N);
    let problem = Problem::new(layout, layout, layout);
    let biased = lt.plan::<marker::F32, f32, f32, f32>(&problem.bias())?;
    let [x, w, mut y] = buffers(&stream)?;
    let (a, b) = (Mat::new(&x, N, N)?, Mat::new(&w, N, N)?);
    let mut run = |a: Mat<'_, f32>, extras: Extras<'_, f32>| {
        biased.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut y, N, N)?, extras)
    };
    refused(run(a, Extras::none()), "plan: bias is missing; 16 elements are needed")?;
    refused(
        run(a, Extras::none().bias(x.slice(..3)?)),
        "plan: bias has 3 elements; 16 are needed",
    )?;
    let mut bytes = DeviceBuffer::<u8>::zeroed(&stream, 64)?;
    refused(
        run(a, Extras::none().bias(&x).save(&mut bytes)),
        "plan: save is given, but the plan takes none",
    )?;
    refused(
        run(a, Extras::none().bias(x.slice(1..)?)),
        "plan: bias lies at an address that is no multiple of 16, its alignment in the plan",
    )?;
    let text = run(a.transposed(), Extras::none().bias(&x)).map_err(|error| error.to_string());
    let text = text.err().unwrap_or_default();
    ensure!(text.starts_with("plan: a has another layout than the plan: Layout"), "{text}");
    let part = Mat::new(x.slice(1..)?, 4, 4)?;
    let small = Layout::new(4, 4);
    let plan = lt.plan::<marker::F32, f32, f32, f32>(&Problem::new(small, small, small))?;
    let mut z = DeviceBuffer::<f32>::zeroed(&stream, 16)?;
    let call =
        plan.run(&stream, (1.0, 0.0), part, part, MatMut::new(&mut z, 4, 4)?, Extras::none());
    refused(
        call,
        "plan: a lies at an address that is no multiple of 16, its alignment in the plan",
    )?;
    // Nothing was enqueued, and the context is usable.
    ensure_eq!(y.to_vec(&stream)?, vec![0.0; N * N]);
    let mut state = buffers(&stream)?;
    double(&plain(&lt)?, &stream, &mut state)?;
    ensure_eq!(state[2].to_vec(&stream)?, vec![2.0; N * N]);
    // An empty result enqueues nothing.
    let empty = lt.plan::<marker::F32, f32, f32, f32>(&Problem::new(
        Layout::new(0, 4),
        small,
        Layout::new(0, 4),
    ))?;
    let none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    let mut result = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    let (a, b) = (Mat::new(&none, 0, 4)?, Mat::new(&z, 4, 4)?);
    empty.run(&stream, (1.0, 0.0), a, b, MatMut::new(&mut result, 0, 4)?, Extras::none())?;
    Ok(())
}
