//! Four threads share buffers, on a driver whose calls give way to other threads at random.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use cuda_safe::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Kernel, Stream};

use super::Launches;
use super::check::{Findings, Use, check};
use test_harness::lab::Lab;
use test_harness::table::Behaviour;
use test_harness::{Failure, Rng, TestResult, deep, ensure};

const THREADS: usize = 4;
const BYTES: usize = 1024;

/// What all threads launch with.
struct Shared {
    one: Kernel,
    streams: Vec<Stream>,
    next: AtomicU64,
    launches: Mutex<Launches>,
}

impl Shared {
    fn number(&self, start: u64, bytes: usize, write: bool) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let uses = vec![Use { range: start..start + bytes as u64, write }];
        self.launches.lock().unwrap_or_else(PoisonError::into_inner).insert(number, uses);
        number
    }

    fn read(&self, stream: &Stream, view: DeviceSlice<'_, u8>) -> cuda_safe::Result<()> {
        let number = self.number(view.device_ptr(), view.len(), false);
        // SAFETY: nothing runs on this driver.
        unsafe { self.one.launch(stream, (1, 1), (number, view)) }
    }

    fn write(&self, stream: &Stream, view: DeviceSliceMut<'_, u8>) -> cuda_safe::Result<()> {
        let number = self.number(view.device_ptr(), view.len(), true);
        // SAFETY: as above.
        unsafe { self.one.launch(stream, (1, 1), (number, view)) }
    }
}

pub(super) fn share_buffers() -> TestResult {
    let runs = if deep() { 2_000 } else { 60 };
    let mut all = Findings::default();
    for seed in 0..runs {
        all += run(seed).map_err(|failure| Failure::new(format!("seed {seed}: {failure}")))?;
    }
    println!("{runs} runs of {THREADS} threads: {} conflicts, {} waits", all.conflicts, all.waits);
    ensure!(all.conflicts > 1_000, "the runs test nothing: {all:?}");
    Ok(())
}

fn run(seed: u64) -> Result<Findings, Failure> {
    let behaviour = Behaviour { pools: seed.is_multiple_of(2), named_launches: true, jitter: true };
    let lab = Lab::with(behaviour, &[])?;
    let mut rng = Rng::new(seed);
    let shared = Shared {
        one: lab.kernel("one")?,
        streams: (0..3).map(|_| lab.context.stream()).collect::<Result<_, _>>()?,
        next: AtomicU64::new(1),
        launches: Mutex::default(),
    };
    for _ in 0..8 {
        let home = &shared.streams[rng.below(3)];
        // Read by all, and dropped by the last thread that is done with it.
        let common = Arc::new(DeviceBuffer::<u8>::zeroed(home, BYTES)?);
        // Each thread writes a part of its own.
        let mut parted = DeviceBuffer::<u8>::zeroed(home, BYTES)?;
        round(&lab, &shared, &mut rng, common, &mut parted)?;
        // A writer of all of it comes after all of them.
        shared.write(&shared.streams[rng.below(3)], parted.as_slice_mut())?;
    }
    let Shared { one, streams, launches, .. } = shared;
    drop((one, streams));
    let recorder = lab.recorder.clone();
    let mut calls = recorder.take();
    lab.close()?;
    calls.extend(recorder.take());
    let launches = launches.into_inner().unwrap_or_else(PoisonError::into_inner);
    check(&calls, &launches).map_err(Failure::new)
}

fn round(
    lab: &Lab,
    shared: &Shared,
    rng: &mut Rng,
    common: Arc<DeviceBuffer<u8>>,
    parted: &mut DeviceBuffer<u8>,
) -> TestResult {
    let recorder = &lab.recorder;
    thread::scope(|scope| {
        let mut rest = parted.as_slice_mut();
        let mut workers = Vec::with_capacity(THREADS);
        for _ in 0..THREADS {
            let (mut mine, others) = rest.split_at_mut(BYTES / THREADS)?;
            rest = others;
            let common = common.clone();
            let mut rng = Rng::new(rng.next());
            workers.push(scope.spawn(move || -> TestResult {
                let _installed = recorder.install();
                // Dropped before the recorder is gone.
                let common = common;
                // Some streams are the thread's own, some are everybody's.
                let own = lab.context.stream()?;
                for _ in 0..6 {
                    let choice = rng.below(5);
                    let stream = shared.streams.get(choice).unwrap_or(&own);
                    let (a, b) = (rng.below(BYTES), rng.below(BYTES));
                    match rng.below(3) {
                        0 => shared.write(stream, mine.reborrow())?,
                        _ => shared.read(stream, common.slice(a.min(b)..a.max(b))?)?,
                    }
                }
                Ok(())
            }));
        }
        drop(common);
        for worker in workers {
            worker.join().map_err(|_| Failure::new("a thread panicked"))??;
        }
        Ok(())
    })
}
