//! A random program: buffers on several streams, used, replaced and dropped.

use std::mem::MaybeUninit;
use std::ops::Range;

use cuda_safe::{DeviceBuffer, Event, Kernel, LaunchConfig, Stream};

use super::Launches;
use super::check::Use;
use test_harness::lab::Lab;
use test_harness::table::{Behaviour, Call};
use test_harness::{Failure, Rng, TestResult};

/// The most buffers at a time.
const BUFFERS: usize = 5;

pub(super) struct Program {
    rng: Rng,
    streams: Vec<Stream>,
    buffers: Vec<DeviceBuffer<u8>>,
    one: Kernel,
    two: Kernel,
    launches: Launches,
    /// How many streams there are at a time. One alone is never replaced.
    count: usize,
    log: Vec<Call>,
    lab: Lab,
}

const SHAPE: (u32, u32) = (1, 1);

impl Program {
    pub(super) fn new(rng: Rng, count: usize, pools: bool) -> Result<Self, Failure> {
        let behaviour = Behaviour { pools, named_launches: true, jitter: false };
        let lab = Lab::with(behaviour, &[])?;
        let streams = (0..count).map(|_| lab.context.stream()).collect::<Result<_, _>>()?;
        let (one, two) = (lab.kernel("one")?, lab.kernel("two")?);
        let (buffers, launches, log) = (Vec::new(), Launches::new(), Vec::new());
        Ok(Self { rng, streams, buffers, one, two, launches, count, log, lab })
    }

    fn stream(&mut self) -> Stream {
        let index = self.rng.below(self.streams.len());
        self.streams[index].clone()
    }

    /// A range of a buffer: now and then all of it, or nothing.
    fn range(&mut self, buffer: usize) -> Range<usize> {
        let len = self.buffers[buffer].len();
        match self.rng.below(8) {
            0..3 => 0..len,
            3 => {
                let at = self.rng.below(len + 1);
                at..at
            }
            _ => {
                let (a, b) = (self.rng.below(len + 1), self.rng.below(len + 1));
                a.min(b)..a.max(b)
            }
        }
    }

    /// The number of a launch, and what it uses, to be looked up by the checker.
    fn launch_number(&mut self, uses: Vec<Use>) -> u64 {
        let number = self.launches.len() as u64 + 1;
        self.launches.insert(number, uses);
        number
    }

    pub(super) fn step(&mut self) -> TestResult {
        self.log.extend(self.lab.recorder.take());
        if self.buffers.is_empty() {
            return self.make();
        }
        match self.rng.below(24) {
            0 | 1 if self.buffers.len() < BUFFERS => self.make(),
            2 => {
                let index = self.rng.below(self.buffers.len());
                drop(self.buffers.swap_remove(index));
                Ok(())
            }
            3 if self.count > 1 => {
                let index = self.rng.below(self.count);
                self.streams[index] = self.lab.context.stream()?;
                Ok(())
            }
            4 if self.count > 1 => self.wait(),
            5 if self.rng.below(4) == 0 => Ok(self.stream().synchronize()?),
            6..9 => self.copy(),
            9..12 => self.transfer(),
            12..16 => self.launch_two(),
            _ => self.launch_one(),
        }
    }

    fn make(&mut self) -> TestResult {
        let stream = self.stream();
        // A few sizes only, so that memory without pools is found in the bin.
        let len = [64, 64, 256, 1000][self.rng.below(4)];
        let buffer = match self.rng.below(3) {
            0 => DeviceBuffer::from_slice(&stream, &vec![1; len])?,
            1 => DeviceBuffer::zeroed(&stream, len)?,
            // SAFETY: this driver's memory has no contents; it reads as zeros.
            _ => unsafe { DeviceBuffer::<MaybeUninit<u8>>::uninit(&stream, len)?.assume_init() },
        };
        self.buffers.push(buffer);
        Ok(())
    }

    /// Orders two streams by hand.
    fn wait(&mut self) -> TestResult {
        let (first, second) = (self.stream(), self.stream());
        if self.rng.below(2) == 0 {
            return Ok(second.wait_stream(&first)?);
        }
        let event = Event::new(&self.lab.context)?;
        event.record(&first)?;
        Ok(second.wait_event(&event)?)
    }

    fn copy(&mut self) -> TestResult {
        let stream = self.stream();
        let (from, to) = (self.rng.below(self.buffers.len()), self.rng.below(self.buffers.len()));
        let len = 1 + self.rng.below(64);
        if from == to {
            // Within one buffer: its two halves.
            let (low, mut high) = self.buffers[to].split_at_mut(32)?;
            let len = len.min(32);
            high.slice_mut(..len)?.copy_from(&stream, low.as_slice().slice(..len)?)?;
            return Ok(());
        }
        let Ok([from, to]) = self.buffers.get_disjoint_mut([from, to]) else { return Ok(()) };
        to.slice_mut(..len)?.copy_from(&stream, from.slice(..len)?)?;
        Ok(())
    }

    fn transfer(&mut self) -> TestResult {
        let stream = self.stream();
        let index = self.rng.below(self.buffers.len());
        let range = self.range(index);
        let buffer = &mut self.buffers[index];
        match self.rng.below(5) {
            // Now and then: it makes the host wait, which orders a lot.
            0 => drop(buffer.slice(range)?.to_vec(&stream)?),
            1 => buffer.slice_mut(range.clone())?.upload(&stream, &vec![2; range.len()])?,
            _ => buffer.slice_mut(range)?.fill(&stream, 7)?,
        }
        Ok(())
    }

    fn launch_one(&mut self) -> TestResult {
        let stream = self.stream();
        let index = self.rng.below(self.buffers.len());
        let range = self.range(index);
        let write = self.rng.below(3) == 0;
        let part = self.buffers[index].slice(range.clone())?;
        let start = part.device_ptr();
        let number =
            self.launch_number(vec![Use { range: start..start + range.len() as u64, write }]);
        let buffer = &mut self.buffers[index];
        let shape = LaunchConfig::from(SHAPE);
        if write {
            // SAFETY: nothing runs on this driver.
            unsafe { self.one.launch(&stream, shape, (number, buffer.slice_mut(range)?)) }?;
        } else {
            // SAFETY: as above.
            unsafe { self.one.launch(&stream, shape, (number, buffer.slice(range)?)) }?;
        }
        Ok(())
    }

    /// A launch that reads a part of one buffer and writes a part of another, or of the same.
    fn launch_two(&mut self) -> TestResult {
        let stream = self.stream();
        let (from, to) = (self.rng.below(self.buffers.len()), self.rng.below(self.buffers.len()));
        let (read, written) = (self.range(from), self.range(to));
        let middle = self.rng.below(65);
        let number = self.launches.len() as u64 + 1;
        let used =
            |start: u64, bytes: usize, write| Use { range: start..start + bytes as u64, write };
        let uses;
        if from == to {
            let (low, high) = self.buffers[to].split_at_mut(middle)?;
            uses = vec![
                used(low.device_ptr(), low.len(), false),
                used(high.device_ptr(), high.len(), true),
            ];
            let args = (number, low.as_slice(), high);
            // SAFETY: nothing runs on this driver.
            unsafe { self.two.launch(&stream, SHAPE, args) }?;
        } else {
            let Ok([from, to]) = self.buffers.get_disjoint_mut([from, to]) else { return Ok(()) };
            let (from, to) = (from.slice(read)?, to.slice_mut(written)?);
            uses = vec![
                used(from.device_ptr(), from.len(), false),
                used(to.device_ptr(), to.len(), true),
            ];
            // SAFETY: as above.
            unsafe { self.two.launch(&stream, SHAPE, (number, from, to)) }?;
        }
        self.launch_number(uses);
        Ok(())
    }

    /// Drops everything in some order, closes the context, and hands over the log.
    pub(super) fn finish(mut self) -> Result<(Vec<Call>, Launches), Failure> {
        while !self.buffers.is_empty() {
            let index = self.rng.below(self.buffers.len());
            drop(self.buffers.swap_remove(index));
        }
        let Self { streams, one, two, lab, mut log, launches, .. } = self;
        drop((streams, one, two));
        let recorder = lab.recorder.clone();
        log.extend(recorder.take());
        lab.close()?;
        log.extend(recorder.take());
        Ok((log, launches))
    }
}
