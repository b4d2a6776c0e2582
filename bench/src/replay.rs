//! Graphs of calls, replayed between events: the device's time, without the host's.

use cuda_safe::{Event, LaunchConfig, Stream};

use crate::gpu::{Gpu, Own};
use crate::stop::Stop;

/// Calls in a graph, over inputs that rotate.
pub(crate) const CALLS: usize = 5;
pub(crate) const SETS: usize = 4;
/// Keeps the device busy until the graph is enqueued.
const DELAY_NS: u64 = 300_000;

/// Replays graphs between events.
pub(crate) struct Replays<'a> {
    pub(crate) gpu: &'a Gpu,
    own: Own,
    begin: Event,
    end: Event,
    samples: usize,
}

impl<'a> Replays<'a> {
    pub(crate) fn new(gpu: &'a Gpu, samples: usize) -> Result<Self, Stop> {
        let (begin, end) = (Event::timing(&gpu.context)?, Event::timing(&gpu.context)?);
        Ok(Self { gpu, own: Own::load(&gpu.context)?, begin, end, samples })
    }

    /// How lines name an image that was compiled for the device.
    pub(crate) fn exact_arch(&self) -> Result<String, Stop> {
        let (major, minor) = self.gpu.device.compute_capability()?;
        Ok(format!("sm_{major}{minor}"))
    }

    /// Milliseconds of one of the calls of a graph, each of which gets the number of its input.
    pub(crate) fn run<S, F>(&self, state: S, call: F) -> Result<(Vec<f64>, S), Stop>
    where
        S: Send + 'static,
        F: Fn(&Stream, &mut S, usize) -> cuda_safe::Result<()>,
    {
        let stream = &self.gpu.stream;
        let mut graph = self.gpu.context.capture(state, |stream, state| {
            for number in 0..CALLS {
                call(stream, state, number % SETS)?;
            }
            Ok(())
        })?;
        graph.launch(stream)?;
        stream.synchronize()?;
        let mut samples = Vec::with_capacity(self.samples);
        for _ in 0..self.samples {
            self.own.delay(stream, LaunchConfig::new(1, 1), DELAY_NS)?;
            self.begin.record(stream)?;
            graph.launch(stream)?;
            self.end.record(stream)?;
            samples.push(f64::from(self.begin.elapsed_ms(&self.end)?) / CALLS as f64);
        }
        Ok((samples, graph.into_state()))
    }
}
