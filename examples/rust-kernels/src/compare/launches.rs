//! The host's time of a launch.

use cuda_safe::{DeviceBuffer, Result};
use rust_kernels::saxpy::saxpy;
use serde_json::{Value, json};

use super::Bench;
use super::timing::{Run, host, median};

/// Launches in a row: fewer than the driver queues before a launch waits.
const CALLS: u32 = 200;
const ELEMENTS: usize = 1024;

/// Measures a launch of `saxpy` in Rust beside that of its twin, in pairs.
pub(crate) fn run(bench: &Bench<'_>, device: &str) -> Result<Vec<Value>> {
    let stream = bench.stream;
    let x = DeviceBuffer::<f32>::zeroed(stream, ELEMENTS)?;
    let y = DeviceBuffer::<f32>::zeroed(stream, ELEMENTS)?;
    let mut outs = [
        DeviceBuffer::<f32>::zeroed(stream, ELEMENTS)?,
        DeviceBuffer::<f32>::zeroed(stream, ELEMENTS)?,
    ];
    let [out, twin_out] = &mut outs;
    let mut runs: [Run<'_>; 2] = [
        Box::new(|| saxpy::launch(stream, 2.5, &x, &y, &mut *out)),
        Box::new(|| bench.twins.saxpy(stream, 2.5, &x, &y, &mut *twin_out)),
    ];
    let rounds = if bench.software { bench.rounds } else { bench.rounds * 4 };
    let samples = host(stream, rounds, CALLS, &mut runs)?;
    let differences: Vec<f64> = samples[0].iter().zip(&samples[1]).map(|(a, b)| a - b).collect();
    let (rust, twin, difference) = (median(&samples[0]), median(&samples[1]), median(&differences));
    println!(
        "\nhost's time of a launch: Rust {rust:.0} ns, kernels! {twin:.0} ns, median difference {difference:.0} ns"
    );
    Ok(vec![json!({
        "work": "launch",
        "device": device,
        "rust_ns": rust,
        "twin_ns": twin,
        "difference_ns": difference,
        "samples": rounds,
    })])
}
