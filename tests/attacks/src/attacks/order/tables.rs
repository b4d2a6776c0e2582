//! Attacks on variables that no kernel writes, whose uses are not recorded until the program asks for one of them.

use std::sync::Barrier;
use std::thread;

use cuda_safe::{Context, DeviceBuffer, LaunchConfig, Result, Stream, kernels};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::lab::Lab;

kernels! {
    struct Tables;
    // SAFETY: thread i writes element i of x if i < n, and reads `table`, which no kernel of the module writes.
    unsafe in r#"
        __constant__ unsigned table[4] = {1, 2, 3, 4};
        extern "C" __global__ void look(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] = table[i & 3];
        }
    "# {
        safe fn look(x: &mut [u32], n: u32) where n <= x.len();
    }
}

const N: usize = 4096;

fn look(kernels: &Tables, stream: &Stream, x: &mut DeviceBuffer<u32>) -> Result<()> {
    kernels.look(stream, LaunchConfig::cover(N, 256), x, N as u32)
}

fn is(seen: &[u32], values: [u32; 4]) -> bool {
    seen.iter().enumerate().all(|(i, seen)| *seen == values[i % 4])
}

/// Writes a table for the first time while kernels on many streams and threads, and graphs, read it.
///
/// - row: a variable that no kernel of its module writes
/// - row: globals of a module are ordered
/// - targets: `Module::global`, `Global::write`, `Global::read`, `Context::capture`, `GraphExec::launch`
pub(super) fn tables_written_late(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    for round in 0..4u32 {
        // A module of its own: nobody has asked for its variables.
        let kernels = Tables::load(&context)?;
        let now = [round + 10, 20, 30, 40];
        match lab.variant() {
            "threads" => threads(&context, &kernels, now)?,
            "streams" => {
                let mut readers = Vec::new();
                for _ in 0..20 {
                    let stream = context.stream()?;
                    let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
                    look(&kernels, &stream, &mut x)?;
                    readers.push((x, stream));
                }
                let other = context.stream()?;
                kernels.module().global::<u32>(&other, "table")?.write(&other, &now)?;
                for (x, stream) in &mut readers {
                    ensure!(is(&x.to_vec(stream)?, [1, 2, 3, 4]), "written under a kernel");
                    look(&kernels, stream, x)?;
                }
                kernels.module().global::<u32>(&other, "table")?.write(&other, &[0; 4])?;
                for (x, stream) in &readers {
                    ensure!(is(&x.to_vec(stream)?, now), "written under a later kernel");
                }
            }
            variant => {
                let (stream, other) = (context.stream()?, context.stream()?);
                let x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
                // Loads what a capture can't.
                look(&kernels, &stream, &mut DeviceBuffer::zeroed(&stream, N)?)?;
                let mut graph = context.capture(x, |s, x| look(&kernels, s, x))?;
                if variant == "graph" {
                    graph.launch(&stream)?;
                }
                let table = kernels.module().global::<u32>(&other, "table")?;
                table.write(&other, &now)?;
                if variant == "graph" {
                    ensure!(is(&graph.state().to_vec(&stream)?, [1, 2, 3, 4]), "under a graph");
                }
                // The graph was recorded when nothing was.
                for value in 1..6 {
                    table.write(&other, &[value; 4])?;
                    graph.launch(&stream)?;
                    table.write(&other, &[100 + value; 4])?;
                    ensure!(is(&graph.state().to_vec(&stream)?, [value; 4]), "launch {value}");
                }
                ensure_eq!(table.read(&stream)?, [105; 4]);
            }
        }
    }
    Ok(())
}

/// Launches in three threads while a fourth asks for the variable and writes it.
fn threads(context: &Context, kernels: &Tables, now: [u32; 4]) -> TestResult {
    let start = Barrier::new(4);
    let start = &start;
    let ended = thread::scope(|scope| {
        let readers = [0, 1, 2].map(|_| {
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
                start.wait();
                let mut written = false;
                for _ in 0..12 {
                    look(kernels, &stream, &mut x)?;
                    let seen = x.to_vec(&stream)?;
                    // All old or all new, and new for ever.
                    let is_new = is(&seen, now);
                    ensure!(is_new || !written && is(&seen, [1, 2, 3, 4]), "{:?}", &seen[..4]);
                    written = is_new;
                }
                Ok(())
            })
        });
        let writer = scope.spawn(move || -> TestResult {
            let stream = context.stream()?;
            start.wait();
            kernels.module().global::<u32>(&stream, "table")?.write(&stream, &now)?;
            let mut x = DeviceBuffer::<u32>::zeroed(&stream, N)?;
            look(kernels, &context.stream()?, &mut x)?;
            ensure!(is(&x.to_vec(&stream)?, now), "a launch after the write");
            Ok(())
        });
        let mut ended: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        ended.push(writer.join());
        ended
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}
