//! Runs the code of docs/frameworks/cudarc.md and checks what it computes: `framework-cudarc`. It fails with what is
//! wrong.

mod operators;

use std::error::Error;
use std::sync::Arc;

use cuda_safe::{DeviceBuffer, LaunchConfig};
use cudarc::driver::sys::{CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use operators::{Operators, adopt, keep};

type Outcome = Result<(), Box<dyn Error>>;

const A: f32 = 2.0;
const N: usize = 10_000;

fn require(holds: bool, what: &str) -> Outcome {
    if holds { Ok(()) } else { Err(what.into()) }
}

fn rows() -> Vec<f32> {
    (0..N).map(|i| i as f32).collect()
}

/// Whether the slice has, at each index, a multiple of the index.
fn is(
    stream: &Arc<CudaStream>,
    given: &CudaSlice<f32>,
    factor: f32,
) -> Result<bool, Box<dyn Error>> {
    let given = stream.clone_dtoh(given)?;
    Ok(given.len() == N && given.iter().zip(rows()).all(|(given, i)| *given == factor * i))
}

/// The operators on a stream, with slices that another stream has written.
fn on(operators: &Operators, stream: &Arc<CudaStream>, other: &Arc<CudaStream>) -> Outcome {
    let x = other.clone_htod(&rows())?;
    let mut out = stream.alloc_zeros::<f32>(N)?;
    operators.axpy(stream, A, &x, &x, &mut out)?;
    require(is(other, &out, 3.0)?, "axpy of slices")?;
    // What cudarc enqueues next sees the result, and parts of slices are slices.
    let mut again = stream.alloc_zeros::<f32>(N)?;
    let half = N / 2;
    for part in [0..half, half..N] {
        let (x, y) = (out.slice(part.clone()), x.slice(part.clone()));
        operators.axpy(stream, A, &x, &y, &mut again.slice_mut(part))?;
    }
    require(is(stream, &again, 7.0)?, "axpy of parts")?;

    let scaled = operators.scaled(stream, A, &x)?;
    require(is(other, &scaled, 3.0)?, "a result in memory of this crate")?;
    operators.twice(stream, A, &x, &mut out)?;
    require(is(stream, &out, 7.0)?, "scratch memory of cudarc")?;
    drop(scaled);

    // Errors enqueue nothing.
    let short = operators.axpy(stream, A, &x, &x.slice(1..), &mut out);
    let text = short.err().map(|error| error.to_string()).unwrap_or_default();
    require(text.contains("9999"), &format!("an operand that is too short: {text}"))?;
    require(is(stream, &out, 7.0)?, "a refused call has written")
}

/// Streams and slices that are kept.
fn kept(operators: &Operators, stream: &Arc<CudaStream>) -> Outcome {
    let home = adopt(operators, stream)?;
    let mut buffer = keep(&home, stream.clone_htod(&rows())?)?;
    let here = operators.context.stream()?;
    let ones = DeviceBuffer::from_slice(&here, &[1.0; N])?;
    let launch = LaunchConfig::cover(N, 256);
    operators.kernels.axpy(&here, launch, 4.0, &ones, &ones, &mut buffer, N as u32)?;
    // Dropped behind the work of `here`, which the stream of the slice waits for.
    let rows = buffer.to_vec(&here)?;
    require(rows.iter().all(|x| *x == 5.0), "a buffer that keeps a slice")?;
    drop(buffer);
    Ok(stream.synchronize()?)
}

/// A capture of cudarc: whatever waits or copies to the host would be an error.
fn captured(operators: &Operators, context: &Arc<CudaContext>) -> Outcome {
    let stream = context.new_stream()?;
    // SAFETY: the slices are used on one stream. cudarc waits for events of before the capture otherwise.
    unsafe { context.disable_event_tracking() };
    let (x, mut out) = (stream.clone_htod(&rows())?, stream.alloc_zeros::<f32>(N)?);
    stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
    operators.axpy(&stream, A, &x, &x, &mut out)?;
    let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    let graph = stream.end_capture(flags)?.ok_or("the capture has no graph")?;
    require(is(&stream, &out, 0.0)?, "a captured call has run")?;
    graph.launch()?;
    require(is(&stream, &out, 3.0)?, "a launch of the graph")
}

fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    let streams = [context.new_stream()?, context.new_stream()?, context.default_stream()];
    let operators = Operators::new(&streams[0])?;
    for (at, stream) in streams.iter().enumerate() {
        on(&operators, stream, &streams[(at + 1) % 2])?;
    }
    kept(&operators, &streams[0])?;
    captured(&operators, &context)?;
    let errors = operators.context.take_drop_errors();
    require(errors.is_empty(), &format!("errors of drops: {errors:?}"))
}

fn main() -> std::process::ExitCode {
    match run() {
        Ok(()) => {
            println!("all right");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            println!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}
