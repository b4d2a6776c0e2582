//! Computes from a log of driver calls which uses of memory are ordered, and finds those that
//! conflict and are not.
//!
//! Each stream has a clock: how far it has got itself, and how far into every other stream it comes
//! after. Recording an event copies the clock, waiting for it merges the copy; so does the host for
//! what it waits for, on behalf of all that is enqueued later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use test_harness::table::Call;

/// A range of device addresses that a launch uses.
#[derive(Debug, Clone)]
pub(super) struct Use {
    pub(super) range: Range<u64>,
    pub(super) write: bool,
}

/// What was found in a log without mistakes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// Pairs of uses that conflict, on different streams.
    pub(super) conflicts: usize,
    /// Waits that were enqueued.
    pub(super) waits: usize,
    /// Waits beyond one for each stream that the next use had to come after, and did not yet.
    pub(super) needless: usize,
}

impl std::ops::AddAssign for Findings {
    fn add_assign(&mut self, other: Self) {
        self.conflicts += other.conflicts;
        self.waits += other.waits;
        self.needless += other.needless;
    }
}

type Clock = BTreeMap<u64, u64>;

fn merge(into: &mut Clock, other: &Clock) {
    for (stream, position) in other {
        let mine = into.entry(*stream).or_insert(0);
        *mine = (*mine).max(*position);
    }
}

/// A use that was enqueued.
struct Done {
    what: Use,
    stream: u64,
    position: u64,
    call: usize,
}

#[derive(Default)]
struct State {
    streams: BTreeMap<u64, Clock>,
    events: BTreeMap<u64, Clock>,
    /// What the host has seen done.
    host: Clock,
    /// Of streams that wait since their last use: the clock before, and the number of waits.
    waiting: BTreeMap<u64, (Clock, usize)>,
    sizes: BTreeMap<u64, u64>,
    done: Vec<Done>,
    /// Copies from and to the host's memory.
    staged: Vec<Done>,
    findings: Findings,
}

/// Checks a log; `launches` says what the launch with a number uses.
///
/// # Errors
/// The first pair of conflicting uses that are not ordered.
pub(super) fn check(calls: &[Call], launches: &HashMap<u64, Vec<Use>>) -> Result<Findings, String> {
    let mut state = State::default();
    for (number, call) in calls.iter().enumerate() {
        let [a, b, c, d, ..] = call.args;
        let write = |start: u64, bytes: u64| Use { range: start..start + bytes, write: true };
        let read = |start: u64, bytes: u64| Use { range: start..start + bytes, write: false };
        match call.name {
            "cuEventRecord" => {
                let clock = state.streams.entry(b).or_default().clone();
                state.events.insert(a, clock);
            }
            "cuStreamWaitEvent" => state.wait(a, b),
            "cuStreamSynchronize" => {
                let clock = state.streams.entry(a).or_default();
                merge(&mut state.host, clock);
            }
            // This driver's answer is always that it is done.
            "cuEventSynchronize" | "cuEventQuery" => {
                let clock = state.events.entry(a).or_default();
                merge(&mut state.host, clock);
            }
            "cuCtxSynchronize" => {
                for clock in state.streams.values() {
                    merge(&mut state.host, clock);
                }
            }
            "cuMemAllocFromPoolAsync" => {
                state.sizes.insert(call.made, b);
                state.enqueue(d, &[write(call.made, b)], number, calls)?;
            }
            "cuMemFreeAsync" => {
                let bytes =
                    state.sizes.remove(&a).ok_or("memory is freed that was not allocated")?;
                state.enqueue(b, &[write(a, bytes)], number, calls)?;
            }
            "cuMemsetD8Async" => state.enqueue(d, &[write(a, c)], number, calls)?,
            "cuMemsetD16Async" => state.enqueue(d, &[write(a, c * 2)], number, calls)?,
            "cuMemsetD32Async" => state.enqueue(d, &[write(a, c * 4)], number, calls)?,
            "cuMemcpyHtoDAsync_v2" => {
                state.touch_host(b..b + c, number, calls)?;
                state.enqueue(d, &[write(a, c)], number, calls)?;
                state.staged(b..b + c, d, number);
            }
            "cuMemcpyDtoHAsync_v2" => {
                state.touch_host(a..a + c, number, calls)?;
                state.enqueue(d, &[read(b, c)], number, calls)?;
                state.staged(a..a + c, d, number);
            }
            "cuMemcpyDtoDAsync_v2" => {
                state.enqueue(d, &[write(a, c), read(b, c)], number, calls)?;
            }
            "cuLaunchKernel" => {
                let name = call.args[call.args.len() - 1];
                let uses = launches.get(&name).ok_or("a launch that nobody knows")?;
                state.enqueue(call.args[8], uses, number, calls)?;
            }
            _ => {}
        }
    }
    Ok(state.findings)
}

impl State {
    fn wait(&mut self, stream: u64, event: u64) {
        let clock = self.streams.entry(stream).or_default();
        let waiting = self.waiting.entry(stream).or_insert_with(|| (clock.clone(), 0));
        waiting.1 += 1;
        self.findings.waits += 1;
        if let Some(event) = self.events.get(&event) {
            merge(clock, event);
        }
    }

    /// The host is about to give this memory of its own to a copy, and to write to it before: no
    /// earlier copy may still be using it, as far as the host has seen.
    fn touch_host(
        &mut self,
        range: Range<u64>,
        number: usize,
        calls: &[Call],
    ) -> Result<(), String> {
        let host = &self.host;
        let seen =
            |copy: &Done| host.get(&copy.stream).is_some_and(|position| *position >= copy.position);
        self.staged.retain(|copy| !seen(copy));
        let overlaps =
            |copy: &&Done| copy.what.range.start < range.end && range.start < copy.what.range.end;
        match self.staged.iter().find(overlaps) {
            None => Ok(()),
            Some(copy) => Err(format!(
                "call {number} ({:x?}) uses memory of the host that call {} ({:x?}) may still use",
                calls[number], copy.call, calls[copy.call]
            )),
        }
    }

    /// Notes the copy that was enqueued just now.
    fn staged(&mut self, range: Range<u64>, stream: u64, call: usize) {
        let clock = self.streams.get(&stream);
        let position = clock.and_then(|clock| clock.get(&stream)).copied().unwrap_or(0);
        self.staged.push(Done { what: Use { range, write: true }, stream, position, call });
    }

    /// A use of memory: it has to come after all that it conflicts with.
    fn enqueue(
        &mut self,
        stream: u64,
        uses: &[Use],
        number: usize,
        calls: &[Call],
    ) -> Result<(), String> {
        let clock = self.streams.entry(stream).or_default();
        let (mut before, waits) =
            self.waiting.remove(&stream).unwrap_or_else(|| (clock.clone(), 0));
        merge(clock, &self.host);
        merge(&mut before, &self.host);
        let mut had_to = BTreeSet::new();
        for earlier in self.done.iter().filter(|earlier| earlier.stream != stream) {
            let conflicts = uses.iter().any(|now| {
                // An empty range inside another overlaps nothing.
                !now.range.is_empty()
                    && (now.write || earlier.what.write)
                    && now.range.start < earlier.what.range.end
                    && earlier.what.range.start < now.range.end
            });
            if !conflicts {
                continue;
            }
            self.findings.conflicts += 1;
            let reached = |clock: &Clock| {
                clock.get(&earlier.stream).is_some_and(|position| *position >= earlier.position)
            };
            if !reached(clock) {
                return Err(format!(
                    "call {number} ({:x?}) does not come after call {} ({:x?}), which uses {:x?}",
                    calls[number], earlier.call, calls[earlier.call], earlier.what
                ));
            }
            if !reached(&before) {
                had_to.insert(earlier.stream);
            }
        }
        self.findings.needless += waits.saturating_sub(had_to.len());
        let position = clock.get(&stream).copied().unwrap_or(0) + 1;
        clock.insert(stream, position);
        for what in uses.iter().filter(|what| !what.range.is_empty()).cloned() {
            self.done.push(Done { what, stream, position, call: number });
        }
        Ok(())
    }
}

/// The checker itself: it has to find what is wrong.
pub(super) fn finds_missing_waits() -> test_harness::TestResult {
    use test_harness::{ensure, ensure_eq};

    let call = |name, args: &[u64], made| {
        let mut call = Call { name, args: [0; 12], made };
        call.args[..args.len()].copy_from_slice(args);
        call
    };
    let log = |waits: bool| {
        let mut calls = vec![
            call("cuMemAllocFromPoolAsync", &[0, 64, 0, 1], 0x100),
            call("cuEventRecord", &[9, 1], 0),
            call("cuStreamWaitEvent", &[2, 9], 0),
            call("cuMemsetD8Async", &[0x100, 0, 64, 2], 0),
            call("cuEventRecord", &[8, 2], 0),
            call("cuStreamWaitEvent", &[1, 8], 0),
            call("cuMemFreeAsync", &[0x100, 1], 0),
        ];
        if !waits {
            calls.remove(5);
        }
        calls
    };
    let none = HashMap::new();
    let wanted = Findings { conflicts: 2, waits: 2, needless: 0 };
    ensure_eq!(check(&log(true), &none), Ok(wanted));
    let found = check(&log(false), &none);
    ensure!(found.is_err_and(|text| text.contains("does not come after call 3")));
    // An event that was recorded too early orders nothing.
    let mut early = log(true);
    early.swap(3, 4);
    ensure!(check(&early, &none).is_err());

    // The host's memory may be given to a second copy once the first is seen done.
    let copies = |seen: bool| {
        let mut calls = vec![
            call("cuMemcpyHtoDAsync_v2", &[0x100, 0x9000, 16, 1], 0),
            call("cuStreamSynchronize", &[1], 0),
            call("cuMemcpyHtoDAsync_v2", &[0x200, 0x9008, 16, 1], 0),
        ];
        if !seen {
            calls.remove(1);
        }
        calls
    };
    ensure!(check(&copies(true), &none).is_ok());
    ensure!(check(&copies(false), &none).is_err_and(|text| text.contains("memory of the host")));
    Ok(())
}
