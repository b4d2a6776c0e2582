//! Attacks on the functions that compare gradients with differences.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_safe::{DeviceBuffer, Result};
use tape::Tape;
use tape::check::{Jacobian, differences, jacobian};
use test_harness::{TestResult, ensure, ensure_eq};

use super::kit::{Kernels, numbers, square};
use crate::attack::attacks;
use crate::lab::Lab;

/// Lies to the functions that compare gradients with differences.
///
/// - row: a pass reads what was recorded
/// - targets: `jacobian`, `differences`, `Jacobian::from_rows`, `Jacobian::compare`, `Jacobian::rows`
fn functions_that_lie_to_the_check(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let kernels = Kernels::load(&context)?;
    let host = &numbers(1)[..4];
    let mut x = DeviceBuffer::from_slice(&stream, host)?;
    let mut calls = 0;
    lab.refused(
        differences(&stream, &mut x, 0.5, |_| {
            calls += 1;
            Ok(vec![0.0; calls])
        }),
        "`evaluate` returned 2 outputs, and 1 in its first call",
    )?;
    ensure_eq!(x.to_vec(&stream)?, host);
    let mut calls = 0;
    lab.refused(
        differences(&stream, &mut x, 0.5, |_| {
            calls += 1;
            if calls == 4 { Err(cuda_safe::Error::invalid("enough")) } else { Ok(vec![1.0]) }
        }),
        "enough",
    )?;
    ensure_eq!(x.to_vec(&stream)?, host);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        differences(&stream, &mut x, 0.5, |_| -> Result<Vec<f64>> { panic!("no more") })
    }));
    ensure!(panicked.is_err());
    let mut none = DeviceBuffer::<f32>::zeroed(&stream, 0)?;
    if let Ok(nothing) = differences(&stream, &mut none, 0.5, |_| Ok(vec![1.0])) {
        ensure_eq!(nothing.columns(), 0);
    }
    for step in [0.0, f64::NAN, f64::INFINITY] {
        // An error, or no numbers; the input is as before.
        x.upload(&stream, host)?;
        if let Ok(odd) = differences(&stream, &mut x, step, |_| Ok(vec![1.0])) {
            ensure_eq!(odd.rows().len(), 1);
        }
        ensure_eq!(x.to_vec(&stream)?, host);
    }
    lab.refused(
        Jacobian::from_rows(&[vec![1.0, 2.0], vec![1.0]]),
        "rows of a Jacobian have the same length",
    )?;
    let (one, two) = (Jacobian::from_rows(&[vec![1.0]])?, Jacobian::from_rows(&[vec![1.0, 2.0]])?);
    lab.refused(one.compare(&two, |_, _| false), "the Jacobians are of different shapes")?;
    let empty = Jacobian::from_rows(&[])?;
    ensure_eq!(empty.compare(&empty, |_, _| true)?.compared, 0);
    let mut y = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&x)?;
        square(t, &kernels, &x, &mut y)
    })?;
    lab.refused(
        jacobian(&mut tape, &stream, &y, &y),
        "there is no gradient: the memory is not watched",
    )?;
    let right = jacobian(&mut tape, &stream, &x, &y)?;
    for (i, row) in right.rows().enumerate() {
        let expected: Vec<f64> =
            (0..4).map(|j| if i == j { 2.0 * f64::from(host[i]) } else { 0.0 }).collect();
        ensure_eq!(row, &expected[..]);
    }
    Ok(())
}

attacks!["tape", refused(functions_that_lie_to_the_check),];
