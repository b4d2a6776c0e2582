//! A communicator at work: its streams and events, and enqueuing steps.
//!
//! Operations of one communicator run one after the other, on whichever streams they are enqueued: each waits for the
//! event that the one before has recorded. In a captured graph these are nodes that wait and record at each launch, so
//! launches and other calls alternate, too.

use core::ffi::CStr;
use std::sync::Arc;

use cuda_sys::{CUevent, CUfunction, CUstream};

use crate::cuda::Cuda;
use crate::error::{Error, Result};
use crate::kernel::{Args, BLOCK, COPIES, Element, GRID};
use crate::plan::{Lanes, Step, Work};
use crate::rank::{COUNTERS, Link};

/// A stream of the communicator, for messages that progress beside others.
#[derive(Debug)]
struct Lane {
    stream: CUstream,
    /// Recorded after its last work.
    end: CUevent,
    /// The capture that it takes part in; 0 for none.
    capture: u64,
}

/// Steps that are ready to be enqueued.
#[derive(Debug)]
pub(crate) struct Prepared {
    streams: Vec<CUstream>,
    capture: u64,
    /// The stream of each lane of the steps: `None` is the first stream of the program, others are numbers of lanes.
    lanes: Vec<Option<usize>>,
    launches: Vec<(usize, Step, CUfunction)>,
}

/// The state of a communicator that is ready.
#[derive(Debug)]
pub(crate) struct Live {
    cuda: Cuda,
    link: Arc<Link>,
    /// Recorded after the last operation in any order, including those of graphs.
    last: CUevent,
    /// Orders streams inside one operation.
    fork: CUevent,
    /// Recorded after the last operation of capture number `capture`.
    captured: CUevent,
    capture: u64,
    lanes: Vec<Lane>,
    /// Whether work was enqueued that no event covers.
    uncovered: bool,
}

// SAFETY: the handles are only names, which any thread may use; the communicator's lock is held meanwhile.
unsafe impl Send for Live {}

impl Live {
    pub(crate) fn new(cuda: Cuda, link: Arc<Link>) -> Result<Self> {
        let none: CUevent = core::ptr::null_mut();
        let mut live = Self {
            cuda,
            link,
            last: none,
            fork: none,
            captured: none,
            capture: 0,
            lanes: Vec::new(),
            uncovered: false,
        };
        match live.open() {
            Ok(()) => Ok(live),
            Err(error) => {
                let _ = live.free();
                Err(error)
            }
        }
    }

    fn open(&mut self) -> Result {
        let cuda = self.cuda;
        let _relaxed = cuda.relaxed()?;
        let _current = cuda.push(self.link.own().context)?;
        self.link.connect(cuda)?;
        for event in [&mut self.last, &mut self.fork, &mut self.captured] {
            *event = cuda.create_event()?;
        }
        let lane = self.lane(0, &[])?;
        let stream = self.lanes[lane].stream;
        cuda.clear(self.link.own().counters, COUNTERS, stream)?;
        cuda.synchronize_stream(stream)
    }

    /// Returns a lane for a capture, or for none, that is not among those that are `taken`.
    fn lane(&mut self, capture: u64, taken: &[Option<usize>]) -> Result<usize> {
        let cuda = self.cuda;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            if taken.contains(&Some(number)) {
                continue;
            }
            // A capture that has ended has released its streams.
            let free = || lane.capture != 0 && matches!(cuda.capture(lane.stream), Ok(0));
            if lane.capture != capture && !free() {
                continue;
            }
            lane.capture = capture;
            return Ok(number);
        }
        // Counter 0 is that of the program's streams.
        if self.lanes.len() + 1 >= COUNTERS {
            return Err(Error::internal(format!(
                "a communicator has at most {} streams: end captures before new ones begin",
                COUNTERS - 1
            )));
        }
        let stream = cuda.create_stream()?;
        match cuda.create_event() {
            Ok(end) => self.lanes.push(Lane { stream, end, capture }),
            Err(error) => {
                let _ = cuda.destroy_stream(stream);
                return Err(error);
            }
        }
        Ok(self.lanes.len() - 1)
    }

    /// Gets everything ready that steps need, so that enqueuing them neither allocates nor loads: either may wait for
    /// the device, which may wait for another rank of the same thread.
    pub(crate) fn prepare(&mut self, streams: Vec<CUstream>, steps: Lanes) -> Result<Prepared> {
        let cuda = self.cuda;
        let _relaxed = cuda.relaxed()?;
        let _current = cuda.push(self.link.own().context)?;
        let mut captures = Vec::new();
        for &stream in &streams {
            captures.push(cuda.capture(stream)?);
        }
        let capture = captures.first().copied().unwrap_or(0);
        if captures.iter().any(|other| *other != capture) {
            return Err(Error::usage(
                "the streams of the group do not take part in one capture: capture all of them or none",
            ));
        }
        let mut lanes = vec![None];
        let mut launches = Vec::with_capacity(steps.len());
        for (lane, step) in steps {
            while lanes.len() <= lane {
                let new = self.lane(capture, &lanes)?;
                lanes.push(Some(new));
            }
            let (element, name) = kernel_of(&step);
            launches.push((lane, step, self.link.own().kernels()?.function(element, name)?));
        }
        Ok(Prepared { streams, capture, lanes, launches })
    }

    /// Enqueues prepared steps. After an error nothing more can be done with the communicator.
    pub(crate) fn enqueue(&mut self, prepared: &Prepared) -> Result {
        let current = self.cuda.push(self.link.own().context)?;
        let result = self.enter(prepared).and_then(|()| self.steps(prepared));
        // All enqueued work must be joined, also after an error: the last event covers it, and a capture ends well.
        let left = self.leave(prepared);
        drop(current);
        result.and(left)
    }

    /// Orders the operation after the previous one, on all its streams and lanes.
    fn enter(&mut self, prepared: &Prepared) -> Result {
        let (cuda, captured) = (self.cuda, prepared.capture != 0);
        let Some((&main, others)) = prepared.streams.split_first() else { return Ok(()) };
        for &other in others {
            cuda.record(self.fork, other, false)?;
            cuda.wait(main, self.fork, false)?;
        }
        if captured && self.capture == prepared.capture {
            cuda.wait(main, self.captured, false)?;
        } else {
            cuda.wait(main, self.last, captured)?;
        }
        if prepared.lanes.len() > 1 {
            cuda.record(self.fork, main, false)?;
            for lane in prepared.lanes.iter().flatten() {
                cuda.wait(self.lanes[*lane].stream, self.fork, false)?;
            }
        }
        Ok(())
    }

    fn steps(&self, prepared: &Prepared) -> Result {
        for (lane, step, function) in &prepared.launches {
            let (stream, counter) = match prepared.lanes.get(*lane).copied().flatten() {
                Some(lane) => (self.lanes[lane].stream, lane + 1),
                None => (prepared.streams[0], 0),
            };
            self.launch(stream, counter, step, *function)?;
        }
        Ok(())
    }

    fn launch(
        &self,
        stream: CUstream,
        counter: usize,
        step: &Step,
        function: CUfunction,
    ) -> Result {
        let own = self.link.own();
        for flag in step.waits {
            if flag != 0 {
                self.cuda.wait_value(stream, flag)?;
            }
        }
        let (width, scalar, bits) = match step.work {
            Work::Copy => (width_of(step), 0, 0),
            Work::Fold { element, scalar, bits, .. } => (width(element), scalar, bits),
        };
        let count = step.bytes / width;
        let arguments = Args {
            a: step.a,
            b: step.b,
            to: step.to,
            count: count as u64,
            scalar,
            bits,
            clear: step.waits,
            set: step.sets,
            abort: own.abort_word(),
            counter: own.counters + (counter * size_of::<u32>()) as u64,
        };
        let grid = count.div_ceil(BLOCK as usize).clamp(1, GRID) as u32;
        self.cuda.launch(function, grid, BLOCK, stream, &arguments)
    }

    /// Joins the lanes and the streams of the program, and records that the operation is done.
    fn leave(&mut self, prepared: &Prepared) -> Result {
        let (cuda, captured) = (self.cuda, prepared.capture != 0);
        let Some((&main, others)) = prepared.streams.split_first() else { return Ok(()) };
        let mut first = Ok(());
        let mut note = |result: Result| {
            if first.is_ok() {
                first = result;
            }
        };
        for lane in prepared.lanes.iter().flatten() {
            let Lane { stream, end, .. } = self.lanes[*lane];
            let joined = cuda.record(end, stream, false).and_then(|()| cuda.wait(main, end, false));
            self.uncovered |= joined.is_err();
            note(joined);
        }
        if captured {
            let recorded = cuda.record(self.captured, main, false);
            self.capture = if recorded.is_ok() { prepared.capture } else { 0 };
            note(recorded);
        }
        let recorded = cuda.record(self.last, main, captured);
        self.uncovered |= recorded.is_err();
        note(recorded);
        for &other in others {
            note(cuda.wait(other, if captured { self.captured } else { self.last }, false));
        }
        first
    }

    /// Returns whether all work is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        let _relaxed = self.cuda.relaxed()?;
        self.cuda.is_done(self.last)
    }

    /// Waits until all work is done.
    pub(crate) fn finish(&self) -> Result {
        let _relaxed = self.cuda.relaxed()?;
        if !self.uncovered {
            return self.cuda.synchronize_event(self.last);
        }
        let _current = self.cuda.push(self.link.own().context)?;
        self.cuda.synchronize()
    }

    /// Waits until all work is done, and frees what this rank has for itself.
    pub(crate) fn end(mut self) -> Result {
        let mut finished = self.finish();
        if finished.is_err() {
            // `finish` tries another way: kernels must not run in freed memory.
            self.uncovered = true;
            finished = finished.and(self.finish());
        }
        finished.and(self.free())
    }

    /// Frees streams and events. Returns the first error; later calls still run.
    fn free(&mut self) -> Result {
        let cuda = self.cuda;
        let _relaxed = cuda.relaxed();
        let _current = cuda.push(self.link.own().context);
        let mut results = Vec::new();
        for lane in self.lanes.drain(..) {
            results.push(cuda.destroy_event(lane.end));
            results.push(cuda.destroy_stream(lane.stream));
        }
        for event in [&mut self.last, &mut self.fork, &mut self.captured] {
            let event = core::mem::replace(event, core::ptr::null_mut());
            if !event.is_null() {
                results.push(cuda.destroy_event(event));
            }
        }
        results.into_iter().collect()
    }
}

/// Returns the bytes of an element.
fn width(element: Element) -> usize {
    match element {
        Element::I8 | Element::U8 => 1,
        Element::F16 | Element::Bf16 => 2,
        Element::I32 | Element::U32 | Element::F32 => 4,
        Element::I64 | Element::U64 | Element::F64 => 8,
    }
}

/// Returns the widest access that addresses and bytes of a copy are multiples of.
fn width_of(step: &Step) -> usize {
    let all = step.a | step.to[0] | step.to[1] | step.bytes as u64;
    COPIES
        .iter()
        .map(|(width, _)| *width)
        .find(|width| all.is_multiple_of(*width as u64))
        .unwrap_or(1)
}

/// Returns the module and the name of a step's kernel.
fn kernel_of(step: &Step) -> (Option<Element>, &'static CStr) {
    match step.work {
        Work::Fold { element, fold, .. } => (Some(element), fold.name()),
        Work::Copy => {
            let width = width_of(step);
            let name = COPIES.iter().find(|(one, _)| *one == width).map(|(_, name)| *name);
            (None, name.unwrap_or(c"copy1"))
        }
    }
}
