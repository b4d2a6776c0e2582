//! Measurements that take turns.

use std::time::Instant;

use cuda_safe::{Event, Result, Stream};

/// Something to measure.
pub(crate) type Run<'a> = Box<dyn FnMut() -> Result<()> + 'a>;

/// Returns the median.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) * 0.5,
    }
}

/// Measures each run `rounds` times, in turns, and returns the samples of each. The order changes from round to round.
pub(crate) fn interleave<E>(
    rounds: usize,
    runs: &mut [impl FnMut() -> std::result::Result<f64, E>],
) -> std::result::Result<Vec<Vec<f64>>, E> {
    let count = runs.len();
    let mut samples = vec![Vec::with_capacity(rounds); count];
    for round in 0..rounds {
        for place in 0..count {
            let place = if round / count % 2 == 1 { count - 1 - place } else { place };
            let index = (place + round) % count;
            samples[index].push(runs[index]()?);
        }
    }
    Ok(samples)
}

/// Returns the microseconds of a launch on the device for each run, in turns: the samples of each.
pub(crate) fn device(
    stream: &Stream,
    rounds: usize,
    runs: &mut [Run<'_>],
) -> Result<Vec<Vec<f64>>> {
    let context = stream.context();
    let (begin, end) = (Event::timing(&context)?, Event::timing(&context)?);
    let sample = |run: &mut Run<'_>, launches: u32| -> Result<f64> {
        begin.record(stream)?;
        for _ in 0..launches {
            run()?;
        }
        end.record(stream)?;
        Ok(f64::from(begin.elapsed_ms(&end)?) * 1e3 / f64::from(launches))
    };
    // The first launches compile the kernels. A sample takes 2 ms or more, so that the host is ahead of the device.
    let mut timed: Vec<_> = Vec::new();
    for run in runs {
        sample(run, 1)?;
        let us = sample(run, 1)?;
        let launches = (2e3 / us.max(1.0)).ceil().min(200.0) as u32;
        timed.push(move || sample(run, launches));
    }
    interleave(rounds, &mut timed)
}

/// Returns the nanoseconds of the host for each call, in turns. The stream is idle before each sample.
pub(crate) fn host(
    stream: &Stream,
    rounds: usize,
    calls: u32,
    runs: &mut [Run<'_>],
) -> Result<Vec<Vec<f64>>> {
    let mut timed: Vec<_> = Vec::new();
    for run in runs {
        run()?;
        timed.push(move || -> Result<f64> {
            stream.synchronize()?;
            let begin = Instant::now();
            for _ in 0..calls {
                run()?;
            }
            Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(calls))
        });
    }
    interleave(rounds, &mut timed)
}
