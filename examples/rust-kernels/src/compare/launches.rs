//! The host's time of a launch.

use cuda_safe::{DeviceBuffer, Result};
use rust_kernels::saxpy::saxpy;
use rust_kernels::spmv::spmv;
use serde_json::{Value, json};

use super::Bench;
use super::timing::{Run, host, median};
use crate::data::Sparse;

/// Launches in a row: fewer than the driver queues before a launch waits.
const CALLS: u32 = 200;
const ELEMENTS: usize = 1024;

/// Measures launches in Rust beside those of their twins, in pairs.
pub(crate) fn run(bench: &Bench<'_>, device: &str) -> Result<Vec<Value>> {
    let stream = bench.stream;
    let buffer = |len| DeviceBuffer::<f32>::zeroed(stream, len);
    let (x, y) = (buffer(ELEMENTS)?, buffer(ELEMENTS)?);
    let (mut out, mut twin_out) = (buffer(ELEMENTS)?, buffer(ELEMENTS)?);
    println!("\nhost's time of a launch:");
    let saxpys = pair(
        bench,
        device,
        "saxpy",
        Box::new(|| saxpy::launch(stream, 2.5, &x, &y, &mut out)),
        Box::new(|| bench.twins.saxpy(stream, 2.5, &x, &y, &mut twin_out)),
    )?;

    let matrix = Sparse::new(ELEMENTS);
    let offsets = DeviceBuffer::from_slice(stream, &matrix.offsets)?;
    let columns = DeviceBuffer::from_slice(stream, &matrix.columns)?;
    let values = DeviceBuffer::from_slice(stream, &matrix.values)?;
    let sparse = pair(
        bench,
        device,
        "spmv",
        Box::new(|| spmv::launch(stream, &offsets, &columns, &values, &x, &mut out)),
        // SAFETY: `Sparse` makes offsets from the number of columns so far, and columns below the number of rows.
        Box::new(|| unsafe {
            bench.twins.spmv(stream, &offsets, &columns, &values, &x, &mut twin_out)
        }),
    )?;
    Ok(vec![saxpys, sparse])
}

fn pair(
    bench: &Bench<'_>,
    device: &str,
    kernel: &str,
    rust: Run<'_>,
    twin: Run<'_>,
) -> Result<Value> {
    let rounds = if bench.software { bench.rounds } else { bench.rounds * 4 };
    let samples = host(bench.stream, rounds, CALLS, &mut [rust, twin])?;
    let differences: Vec<f64> = samples[0].iter().zip(&samples[1]).map(|(a, b)| a - b).collect();
    let (rust, twin, difference) = (median(&samples[0]), median(&samples[1]), median(&differences));
    println!(
        "{kernel}: Rust {rust:.0} ns, kernels! {twin:.0} ns, median difference {difference:.0} ns"
    );
    Ok(json!({
        "work": "launch",
        "kernel": kernel,
        "device": device,
        "rust_ns": rust,
        "twin_ns": twin,
        "difference_ns": difference,
        "samples": rounds,
    }))
}
