//! The engine: the enqueued work, its dependencies, and the threads that do it.
//!
//! Each piece of work has a number and waits for others by their numbers: its stream's previous
//! work, what the NULL stream's rules ask for, events. Work whose dependencies are done is ready.
//! The eager engine does ready work at once, oldest first, several at a time. The adversarial one
//! leaves it until the host waits for something, and then does one at a time, drawn from a seed: so
//! a program that forgot to wait sees what a slow GPU would have shown it some day.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use cuda_sys::CUresult;

use super::interleaving::{Interleaving, Place, Trace};
use super::work::{Outcome, Work, perform};
use crate::config::Config;
use crate::driver::call::Answer;
use crate::driver::graph::conditional::Conditions;
use crate::driver::process::{Locked, Process, State};

/// Threads of the eager engine: so many pieces of work may be under way together.
const THREADS: usize = 4;

/// After this time without a call, an adversarial engine goes on by itself, for programs that wait without the driver's
/// knowledge.
const IDLE: Duration = Duration::from_millis(200);

/// The context of work that belongs to none: the destructors of user objects.
pub(in crate::driver) const NO_CONTEXT: u64 = 0;

/// Before work that waits for a value in memory is tried again.
const RETRY: Duration = Duration::from_micros(100);

/// A ready piece of work, with its context, stream and graph.
#[derive(Clone)]
pub(in crate::driver) struct Turn {
    pub(in crate::driver) work: Work,
    pub(in crate::driver) context: u64,
    pub(in crate::driver) stream: u64,
    /// The conditions of the graph that it is a part of.
    pub(in crate::driver) scope: Option<Arc<Conditions>>,
    /// When a conditional node was first ready.
    pub(in crate::driver) since: Option<Instant>,
    /// The seed of the order of a kernel's blocks.
    pub(in crate::driver) seed: Option<u64>,
}

struct Op {
    work: Work,
    context: u64,
    stream: u64,
    scope: Option<Arc<Conditions>>,
    since: Option<Instant>,
    /// Dependencies that are not done.
    missing: usize,
    dependents: Vec<u64>,
    /// Where it is in the [`Trace`], if there is one.
    place: Place,
}

/// The work that is enqueued and not done.
#[derive(Default)]
pub(in crate::driver) struct Engine {
    ops: HashMap<u64, Op>,
    ready: BTreeSet<u64>,
    /// Ready, but what they wait for in memory was not there.
    waiting: Vec<u64>,
    last: u64,
    /// Calls that wait for something to be done, and for what; some of it may be done.
    waiters: usize,
    awaited: Vec<u64>,
    /// The work that calls have queried; some of it may be done.
    queried: Vec<u64>,
    /// Pieces of work that the adversary owes to calls that only asked.
    credits: usize,
    /// Counts what the host does; see [`IDLE`].
    activity: u64,
    /// Whether the last thing that the host did was to ask.
    asked: bool,
    random: Option<u64>,
    seed: Option<u64>,
    /// Kept while there is a seed.
    trace: Trace,
    /// Pieces of work that threads are doing.
    running: usize,
    /// Whether what the adversary is doing is a function of the host's.
    calling: bool,
}

impl Engine {
    pub(in crate::driver) fn new(config: &Config) -> Self {
        let mut engine = Self::default();
        engine.reseed(config.seed);
        engine
    }

    /// Begins anew with another seed, or as the eager engine. Returns `false` and does nothing if it is not idle.
    pub(in crate::driver) fn reseed(&mut self, seed: Option<u64>) -> bool {
        let idle = self.ops.is_empty() && self.running == 0;
        if idle {
            // A state of zero would stay zero.
            self.random = seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            (self.seed, self.credits, self.asked) = (seed, 0, false);
            self.trace = Trace::default();
        }
        idle
    }

    /// Returns the order since the seed was set, if one is.
    pub(in crate::driver) fn interleaving(&self) -> Option<Interleaving> {
        self.random.map(|_| self.trace.so_far)
    }

    /// Enqueues work after other work, and returns its number. Finished work is no dependency.
    pub(in crate::driver) fn insert(
        &mut self,
        context: u64,
        stream: u64,
        work: Work,
        behind: &[u64],
        scope: Option<&Arc<Conditions>>,
    ) -> u64 {
        self.last += 1;
        self.activity += 1;
        self.asked = false;
        let number = self.last;
        let mut missing = 0;
        for dependency in behind {
            // No other entry is added meanwhile, so a second entry would be the last.
            if let Some(op) = self.ops.get_mut(dependency)
                && op.dependents.last() != Some(&number)
            {
                op.dependents.push(number);
                missing += 1;
            }
        }
        let (scope, dependents) = (scope.cloned(), Vec::new());
        let place = if self.random.is_some() { self.trace.place(stream) } else { (0, 0) };
        let op = Op { work, context, stream, scope, since: None, missing, dependents, place };
        self.ops.insert(number, op);
        if missing == 0 {
            self.ready.insert(number);
        }
        number
    }

    /// Returns whether the work with this number is enqueued and not done.
    pub(in crate::driver) fn is_pending(&self, number: u64) -> bool {
        self.ops.contains_key(&number)
    }

    /// Returns whether threads are doing work.
    pub(in crate::driver) fn is_running(&self) -> bool {
        self.running != 0
    }

    /// Returns the work of a context, or of all, that is not done.
    pub(in crate::driver) fn pending(&self, context: Option<u64>) -> Vec<u64> {
        let of = |op: &Op| context.is_none_or(|context| op.context == context);
        self.ops.iter().filter(|(_, op)| of(op)).map(|(&number, _)| number).collect()
    }

    /// Frees that are not done.
    pub(in crate::driver) fn freeing(&self) -> Vec<u64> {
        let frees =
            self.ops.iter().filter(|(_, op)| matches!(op.work, Work::Free(_) | Work::Unmap(_)));
        frees.map(|(&number, _)| number).collect()
    }

    /// Takes ready work, if some may be done now.
    fn take(&mut self, idle: bool) -> Option<(u64, Turn)> {
        let wanted = self.random.is_some() && self.is_wanted();
        let number = match &mut self.random {
            None => *self.ready.first()?,
            // The adversary does one thing at a time; the thread that does it looks for work again afterwards.
            Some(_) if self.running > 0 => return None,
            Some(_) if self.ready.is_empty() => {
                self.credits = 0;
                return None;
            }
            Some(random) if idle || wanted => {
                self.trace.draws(self.ready.len());
                let choice = next(random) as usize % self.ready.len();
                *self.ready.iter().nth(choice)?
            }
            Some(_) => return None,
        };
        self.ready.remove(&number);
        let turn = self.turn(number)?;
        self.running += 1;
        self.calling = matches!(turn.work, Work::Host(..) | Work::Callback(..));
        Some((number, turn))
    }

    /// Returns whether a call still waits for something, or is owed something. The call may be satisfied and its thread
    /// may not have gone on yet: work done then must not depend on the thread's speed.
    fn is_wanted(&mut self) -> bool {
        let pending = |of: &mut Vec<u64>| {
            while of.pop_if(|number| !self.ops.contains_key(number)).is_some() {}
            !of.is_empty()
        };
        pending(&mut self.awaited) || self.credits > 0 && pending(&mut self.queried)
    }

    /// Returns a piece of work, to be done.
    pub(in crate::driver) fn turn(&mut self, number: u64) -> Option<Turn> {
        let seed = self.seed;
        let op = self.ops.get_mut(&number)?;
        let since = match op.work {
            Work::Conditional(_) => Some(*op.since.get_or_insert_with(Instant::now)),
            _ => None,
        };
        let (work, scope) = (op.work.clone(), op.scope.clone());
        Some(Turn { work, context: op.context, stream: op.stream, scope, since, seed })
    }

    /// Makes a conditional node wait for its body. Then it is done, or with `again` ready once more.
    pub(in crate::driver) fn put_behind(&mut self, number: u64, body: &[u64], again: bool) {
        self.credits = self.credits.saturating_sub(1);
        let mut missing = 0;
        for last in body {
            if let Some(op) = self.ops.get_mut(last) {
                op.dependents.push(number);
                missing += 1;
            }
        }
        let Some(op) = self.ops.get_mut(&number) else { return };
        op.missing = missing;
        if !again {
            op.work = Work::Nothing;
        }
        if missing == 0 {
            self.ready.insert(number);
        }
    }

    /// Takes note that work is done.
    fn finish(&mut self, number: u64) {
        self.credits = self.credits.saturating_sub(1);
        self.retry();
        let Some(op) = self.ops.remove(&number) else { return };
        if self.random.is_some() {
            self.trace.ran(op.place, &op.work);
        }
        for dependent in op.dependents {
            if let Some(op) = self.ops.get_mut(&dependent) {
                op.missing = op.missing.saturating_sub(1);
                if op.missing == 0 {
                    self.ready.insert(dependent);
                }
            }
        }
    }

    /// Makes the work ready that waits for values in memory.
    fn retry(&mut self) {
        self.ready.extend(self.waiting.drain(..));
    }

    /// Forgets all work: the device is lost.
    fn abandon(&mut self) {
        self.ops.clear();
        self.ready.clear();
        self.waiting.clear();
    }
}

/// Returns the next of a sequence of random numbers.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random >> 11
}

/// Starts the engine's threads.
pub(in crate::driver) fn start(process: &'static Process) -> Answer {
    for _ in 0..THREADS {
        thread::Builder::new()
            .name("cuda-emu engine".to_owned())
            .spawn(|| serve(process))
            .map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)?;
    }
    Ok(())
}

/// The main loop of a thread of the engine.
fn serve(process: &Process) {
    let mut state = process.lock();
    let mut idle = false;
    loop {
        let Some((number, turn)) = state.engine.take(idle) else {
            // A query waits until its quota of work is done, or none can be.
            if state.engine.running == 0 {
                process.done.notify_all();
            }
            (state, idle) = rest(process, state);
            continue;
        };
        // One call wakes one thread; each wakes the next while there is more to do.
        if !state.engine.ready.is_empty() && state.engine.random.is_none() {
            process.work.notify_one();
        }
        drop(state);
        // Its state is behind locks that ignore the poison of a panic.
        let outcome = catch_unwind(AssertUnwindSafe(|| perform(process, &turn)));
        let outcome = outcome.unwrap_or_else(|_| {
            let report = "the software device panicked, which is a mistake in it";
            Outcome::Fault(CUresult::CUDA_ERROR_UNKNOWN, report.to_owned())
        });
        drop(turn);
        state = process.lock();
        state.engine.running -= 1;
        let fault = match outcome {
            Outcome::Done => {
                state.complete(number);
                None
            }
            Outcome::Again => {
                state.engine.waiting.push(number);
                None
            }
            Outcome::Choose => state.choose(number, process.config.timeout).err(),
            Outcome::Fault(code, report) => Some((code, report)),
        };
        if let Some((code, report)) = fault {
            process.lose(code, report);
            state.engine.abandon();
        }
        process.images.lock().sweep(&state.engine, process.space.objects());
        if idle && state.engine.waiters > 0 {
            idle = false;
        }
        // Queries of an adversarial engine wait, too.
        if state.engine.waiters > 0 || state.engine.random.is_some() {
            process.done.notify_all();
        }
    }
}

/// Waits until something may have changed. Returns whether the host seems to poll for the engine's work.
fn rest<'a>(process: &'a Process, state: Locked<'a>) -> (Locked<'a>, bool) {
    if !state.engine.waiting.is_empty() {
        let (mut state, _) =
            process.work.wait_timeout(state, RETRY).unwrap_or_else(PoisonError::into_inner);
        state.engine.retry();
        return (state, false);
    }
    if state.engine.random.is_none() || state.engine.ready.is_empty() {
        let state = process.work.wait(state);
        return (state.unwrap_or_else(PoisonError::into_inner), false);
    }
    let before = state.engine.activity;
    let (state, timeout) =
        process.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
    let idle = timeout.timed_out() && state.engine.activity == before;
    (state, idle)
}

impl State {
    /// Takes note that work is done.
    pub(in crate::driver) fn complete(&mut self, number: u64) {
        if let Some(Op { work: Work::Record(event), .. }) = self.engine.ops.get(&number)
            && let Ok(event) = self.objects.events.get_mut(*event)
            && event.record == number
        {
            event.time = Some(Instant::now());
        }
        self.engine.finish(number);
    }

    /// Enqueues work on a stream, by the stream's rules.
    ///
    /// # Errors
    /// If a capture forbids it.
    pub(in crate::driver) fn enqueue(&mut self, stream: u64, work: Work) -> Answer<u64> {
        self.enqueue_behind(stream, work, &[])
    }

    /// Enqueues like [`State::enqueue`], after other work.
    pub(in crate::driver) fn enqueue_behind(
        &mut self,
        stream: u64,
        work: Work,
        behind: &[u64],
    ) -> Answer<u64> {
        let mut before = self.before(stream)?;
        before.extend(behind);
        let context = self.objects.streams.get(stream)?.context;
        let number = self.engine.insert(context, stream, work, &before, None);
        self.objects.streams.get_mut(stream)?.tail = number;
        Ok(number)
    }

    /// Returns the dependencies of the next work of a stream.
    pub(in crate::driver) fn before(&self, stream: u64) -> Answer<Vec<u64>> {
        let this = self.objects.streams.get(stream)?;
        let mut before = vec![this.tail];
        if this.legacy {
            let others = self.objects.streams.iter().map(|(_, other)| other);
            let blocking = others.filter(|other| other.context == this.context && other.blocking());
            before.extend(blocking.map(|other| other.tail));
            before.extend(&self.objects.contexts.get(this.context)?.orphans);
        } else if this.blocking() {
            let legacy = self.objects.contexts.get(this.context)?.legacy;
            before.push(self.objects.streams.get(legacy)?.tail);
        }
        before.extend(&self.objects.contexts.get(this.context)?.barriers);
        Ok(before)
    }
}

impl Process {
    /// Signals the engine that there is work.
    pub(in crate::driver) fn kick(&self) {
        self.work.notify_one();
    }

    /// Waits until the work with these numbers is done.
    ///
    /// # Errors
    /// The fault's code, if there is one meanwhile.
    pub(in crate::driver) fn wait_for<'a>(
        &'a self,
        mut state: Locked<'a>,
        numbers: &[u64],
    ) -> Answer<Locked<'a>> {
        state.engine.activity += 1;
        state.engine.waiters += 1;
        // The youngest work is mostly done last, so that each number is checked once.
        let mut left = numbers.to_vec();
        left.sort_unstable();
        state.engine.awaited.extend(&left);
        self.work.notify_all();
        while let Some(&youngest) = left.last() {
            if state.engine.is_pending(youngest) {
                state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else {
                left.pop();
            }
        }
        state.engine.waiters -= 1;
        self.usable()?;
        self.flush();
        state.release_pools();
        Ok(state)
    }

    /// Waits for all work of all devices, until none is under way: then nothing uses memory before the lock is released.
    ///
    /// # Errors
    /// The fault's code, if there is one meanwhile.
    pub(in crate::driver) fn wait_for_all<'a>(
        &'a self,
        mut state: Locked<'a>,
    ) -> Answer<Locked<'a>> {
        loop {
            let pending = state.engine.pending(None);
            state = self.wait_for(state, &pending)?;
            if !state.engine.is_running() {
                return Ok(state);
            }
        }
    }

    /// Returns whether the work with these numbers is done. Asking an adversarial engine twice makes it do
    /// a little, so that asking again and again comes to an end.
    pub(in crate::driver) fn is_done<'a>(
        &'a self,
        mut state: Locked<'a>,
        numbers: &[u64],
    ) -> Answer<bool> {
        state.engine.activity += 1;
        let pending = |state: &State| numbers.iter().any(|&number| state.engine.is_pending(number));
        let again = std::mem::replace(&mut state.engine.asked, true);
        if let Some(random) = &mut state.engine.random
            && again
        {
            state.engine.credits += 1 + next(random) as usize % 3;
            state.engine.queried.extend(numbers);
            self.work.notify_all();
            while state.engine.credits > 0 && pending(&state) {
                let (after, timeout) =
                    self.done.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state = after;
                // A function that waits for the thread that queries here would never end.
                if timeout.timed_out() && state.engine.calling && state.engine.running > 0 {
                    break;
                }
            }
            state.engine.credits = 0;
        }
        self.usable()?;
        Ok(!pending(&state))
    }
}
