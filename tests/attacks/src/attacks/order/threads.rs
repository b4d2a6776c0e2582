//! Attacks on the order of uses by several threads, and by streams that come and go.

use std::sync::{PoisonError, RwLock};

use cuda_safe::{DeviceBuffer, Event, LaunchConfig, Module, kernels};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use super::random::Random;
use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads and writes element i of x, if i < n.
    unsafe in r#"
        extern "C" __global__ void increment(unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += 1;
        }
    "# {
        safe fn increment(x: &mut [u32], n: u32) where n <= x.len();
    }
}

const N: usize = 1000;

/// Lets threads read and increment one buffer in turn, each on its own stream, and gives the buffer on as soon as the
/// work is enqueued.
///
/// - row: the first use on another stream misses no use
/// - row: a writer waits for every reader
/// - targets: `DeviceBuffer::try_clone`, `Context::stream`
pub(super) fn readers_and_writers_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let kernels = Kernels::load(&context)?;
    let shared = RwLock::new((DeviceBuffer::<u32>::zeroed(&context.stream()?, N)?, 0u32));
    let (context, kernels, shared) = (&context, &kernels, &shared);
    let ended = std::thread::scope(|scope| {
        let threads = [0u32, 1, 2, 3].map(|number| {
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                for round in 0..25 {
                    if (round + number) % 3 == 0 {
                        let mut guard = shared.write().unwrap_or_else(PoisonError::into_inner);
                        let (x, count) = &mut *guard;
                        kernels.increment(&stream, LaunchConfig::cover(N, 128), x, N as u32)?;
                        *count += 1;
                    } else {
                        let guard = shared.read().unwrap_or_else(PoisonError::into_inner);
                        let (copy, count) = (guard.0.try_clone(&stream)?, guard.1);
                        drop(guard);
                        let seen = copy.to_vec(&stream)?;
                        ensure!(seen.iter().all(|x| *x == count), "{count}: {:?}", &seen[..4]);
                    }
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    let (x, count) = &*shared.read().unwrap_or_else(PoisonError::into_inner);
    ensure_eq!(x.to_vec(&context.stream()?)?, vec![*count; N]);
    Ok(())
}

/// Uses buffers on streams that are dropped at once, so that a new stream has the handle of an old one.
///
/// - row: work that uses the same bytes
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::fill`, `DeviceBuffer::home_stream`, `DeviceBuffer::try_clone`, `Stream::into_raw`
pub(super) fn streams_that_come_and_go(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let mut x = DeviceBuffer::<u32>::zeroed(&context.stream()?, N)?;
    ensure!(x.home_stream().clone().into_raw().is_err(), "the home of a buffer was given up");
    let mut copies = Vec::new();
    let mut random = Random::new(40);
    for round in 1..60u32 {
        x.fill(&context.stream()?, round)?;
        if random.below(3) == 0 {
            let mut copy = x.try_clone(&context.stream()?)?;
            // Now at home on a stream without other handles, and read on two more.
            copy = copy.try_clone(&context.stream()?)?;
            copies.push((copy, round));
        }
        if random.below(4) == 0 {
            let home = copies.pop();
            drop(home);
        }
    }
    for (copy, round) in &copies {
        ensure_eq!(copy.to_vec(&context.stream()?)?, vec![*round; N]);
        ensure_eq!(copy.to_vec(copy.home_stream())?, vec![*round; N]);
    }
    ensure_eq!(x.to_vec(x.home_stream())?, vec![59; N]);
    Ok(())
}

/// Writes a variable of a module through handles of several threads, and drops and makes handles meanwhile.
///
/// - row: globals of a module are ordered among all their handles
/// - targets: `Module::global`, `Global::write`, `Global::read`
pub(super) fn globals_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let module = Module::compile(&context, "__device__ unsigned values[512];")?;
    let module = &module;
    module.global::<u32>(&context.stream()?, "values")?.write(&context.stream()?, &[9; 512])?;
    let ended = std::thread::scope(|scope| {
        let threads = [0u32, 1, 2, 3].map(|number| {
            let context = context.clone();
            scope.spawn(move || -> TestResult {
                let stream = context.stream()?;
                for round in 0..15 {
                    let values = module.global::<u32>(&stream, "values")?;
                    if number < 2 {
                        values.write(&stream, &[number * 100 + round; 512])?;
                    }
                    let seen = values.read(&context.stream()?)?;
                    ensure!(seen.iter().all(|value| *value == seen[0]), "torn: {:?}", &seen[..4]);
                    let wide = module.global::<[u32; 4]>(&stream, "values")?.read(&stream)?;
                    ensure!(wide.iter().all(|value| *value == wide[0]), "torn: {:?}", &wide[..4]);
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    Ok(())
}

/// Records, asks, awaits and drops the same events and streams in several threads at once.
///
/// - row: all types may go to other threads
/// - row: a thread may end at any time
/// - targets: `Event::timing`, `Event::record`, `Event::synchronize`, `Event::elapsed_ms`, `Stream::wait_event`,
///   `Stream::mark`
pub(super) fn events_of_many_threads(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (begin, end) = (Event::timing(&context)?, Event::timing(&context)?);
    let shared = context.stream()?;
    begin.record(&shared)?;
    let (begin, end, shared, context) = (&begin, &end, &shared, &context);
    let ended = std::thread::scope(|scope| {
        let threads = [0usize, 1, 2, 3].map(|number| {
            scope.spawn(move || -> TestResult {
                let own = context.stream()?;
                for round in 0..25 {
                    let stream = if (round + number) % 2 == 0 { shared } else { &own };
                    stream.host_function(|| ())?;
                    end.record(stream)?;
                    own.wait_event(end)?;
                    own.wait_stream(shared)?;
                    match round % 4 {
                        0 => end.synchronize()?,
                        1 => own.synchronize()?,
                        2 => match begin.elapsed_ms(end) {
                            Ok(time) => ensure!(time.is_finite(), "no time"),
                            // Another thread may record the end again before the time is asked for.
                            Err(error) => {
                                ensure!(error.to_string().contains("recorded again"), "{error}");
                            }
                        },
                        _ => stream.mark()?.synchronize()?,
                    }
                    // Another thread may have recorded the end again, on a stream that waits for nothing.
                    let waited_for_begin = round % 4 != 0;
                    ensure!(begin.is_done()? || !waited_for_begin, "an event that was waited for");
                }
                Ok(())
            })
        });
        threads.map(|thread| thread.join())
    });
    for result in ended {
        result.map_err(|_| Failure::new("a thread panicked"))??;
    }
    end.synchronize()?;
    ensure!(end.is_done()? && begin.elapsed_ms(end)? >= 0.0, "the end is not done");
    Ok(())
}
