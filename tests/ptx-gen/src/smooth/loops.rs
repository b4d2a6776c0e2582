//! The text of loops, and of what leaves them.

use super::render::Render;
use super::statement::{Count, Leave, Loop, Test, Trips};

/// A loop around what is written.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    label: usize,
    test: Test,
    count: Count,
    /// The register that counts.
    counter: String,
    /// Where it began, and where it ends.
    first: String,
    last: String,
    /// Whether something leaves to the exit of its own.
    other: bool,
}

impl Frame {
    /// The pointer that it counts with, to `x` or to a local array.
    pub(super) fn pointer(&self, count: Count) -> Option<&str> {
        (self.count == count).then_some(&*self.counter)
    }
}

impl Render<'_> {
    /// A register with the counter of the innermost loop, or with the thread's index.
    pub(super) fn turn(&mut self) -> String {
        let Some(frame) = self.loops.last().cloned() else { return "%r3".to_owned() };
        if !matches!(frame.count, Count::Pointer | Count::Local) {
            return frame.counter;
        }
        let (w, r, shift) = (self.fresh('w'), self.fresh('r'), self.size().trailing_zeros());
        self.line(format!("sub.s64 {w}, {}, {};", frame.counter, frame.first));
        self.line(format!("shr.u64 {w}, {w}, {shift}; cvt.u32.u64 {r}, {w};"));
        r
    }

    /// The number of turns: a register or a constant. Deeper loops have fewer turns.
    fn trips(&mut self, trips: Trips) -> String {
        let most = [6, 4, 3].get(self.loops.len()).copied().unwrap_or(2);
        let r = self.fresh('r');
        match trips {
            Trips::Constant(count) => return count.min(most).to_string(),
            Trips::Parameter if self.loops.is_empty() => return "%r1".to_owned(),
            Trips::Parameter => self.line(format!("min.s32 {r}, %r1, {most};")),
            Trips::Outer if !self.loops.is_empty() => {
                let turn = self.turn();
                self.line(format!("min.s32 {r}, {turn}, {most};"));
            }
            Trips::Data | Trips::Outer => {
                self.line(format!("max.s32 {r}, %r6, 0; min.s32 {r}, {r}, {most};"));
            }
            Trips::Value(of) => {
                let t = self.fresh('v');
                self.line(format!("abs.$T {t}, %v{of}; add.$T {t}, {t}, {t};"));
                self.line(format!("cvt.rzi.s32.$T {r}, {t}; min.s32 {r}, {r}, {most};"));
            }
        }
        r
    }

    pub(super) fn write_loop(&mut self, inner: &Loop) {
        let trips = self.trips(inner.trips);
        let (label, size) = (self.name(), self.size());
        let (counter, first, last) = match inner.count {
            Count::Up => {
                let r = self.fresh('r');
                self.line(format!("mov.u32 {r}, 0;"));
                (r, String::new(), trips)
            }
            Count::Down => {
                let r = self.fresh('r');
                self.line(format!("mov.u32 {r}, {trips};"));
                (r, String::new(), "0".to_owned())
            }
            Count::Step(step) => {
                let (r, end) = (self.fresh('r'), self.fresh('r'));
                if let Ok(trips) = trips.parse::<u32>() {
                    self.line(format!("mov.u32 {end}, {};", trips * step));
                } else {
                    self.line(format!("mul.lo.s32 {end}, {trips}, {step};"));
                }
                self.line(format!("mov.u32 {r}, 0;"));
                (r, String::new(), end)
            }
            Count::Pointer | Count::Local => {
                let (w, first, end, r) =
                    (self.fresh('w'), self.fresh('w'), self.fresh('w'), self.fresh('r'));
                if inner.count == Count::Local {
                    self.line(format!("add.s64 {first}, %w30, {size}; mov.u32 {r}, {trips};"));
                } else {
                    self.line(format!("shr.u32 {r}, %r4, 1; mul.wide.u32 {first}, {r}, {size};"));
                    self.line(format!("add.s64 {first}, %w0, {first}; mov.u32 {r}, {trips};"));
                }
                self.line(format!(
                    "mul.wide.s32 {end}, {r}, {size}; add.s64 {end}, {first}, {end};"
                ));
                self.line(format!("mov.u64 {w}, {first};"));
                (w, first, end)
            }
        };
        let (test, count) = (inner.test, inner.count);
        let frame = Frame { label, test, count, counter, first, last, other: false };
        if test == Test::Guarded {
            let p = self.goes_on(&frame);
            self.line(format!("@!{p} bra DONE{label};"));
        }
        self.label(format!("HEAD{label}"));
        if test == Test::Top {
            let p = self.goes_on(&frame);
            self.line(format!("@!{p} bra DONE{label};"));
        }
        self.loops.push(frame.clone());
        self.turns(&inner.body);
        let other = self.loops.pop().is_some_and(|frame| frame.other);
        self.label(format!("NEXT{label}"));
        self.latch(&frame);
        self.label(format!("DONE{label}"));
        if other {
            let bounds = self.bounds;
            self.line(format!("bra.uni AFTER{label};"));
            self.label(format!("OTHER{label}"));
            self.turns(&inner.other);
            self.label(format!("AFTER{label}"));
            for (bound, before) in self.bounds.iter_mut().zip(bounds) {
                *bound = bound.max(before);
            }
        }
    }

    /// A predicate: whether there is another turn.
    fn goes_on(&mut self, frame: &Frame) -> String {
        let (p, Frame { counter, last, .. }) = (self.fresh('p'), frame);
        // Where the first turn always runs, the counter may be beyond the end.
        let exact = frame.test != Test::Bottom && frame.label.is_multiple_of(2);
        let (cmp, ty) = match (exact, frame.count) {
            (true, Count::Pointer | Count::Local) => ("ne", "s64"),
            (true, _) => ("ne", "s32"),
            (false, Count::Pointer | Count::Local) => ("lt", "u64"),
            (false, Count::Down) => ("gt", "s32"),
            (false, _) => ("lt", "s32"),
        };
        self.line(format!("setp.{cmp}.{ty} {p}, {counter}, {last};"));
        p
    }

    /// Counts, and goes to the next turn if there is one.
    fn latch(&mut self, frame: &Frame) {
        let Frame { counter, label, .. } = frame;
        let size = self.size();
        match frame.count {
            Count::Up => self.line(format!("add.s32 {counter}, {counter}, 1;")),
            Count::Down => self.line(format!("add.s32 {counter}, {counter}, -1;")),
            Count::Step(step) => self.line(format!("add.s32 {counter}, {counter}, {step};")),
            Count::Pointer | Count::Local => {
                self.line(format!("add.s64 {counter}, {counter}, {size};"));
            }
        }
        if frame.test == Test::Top {
            self.line(format!("bra.uni HEAD{label};"));
        } else {
            let p = self.goes_on(frame);
            self.line(format!("@{p} bra HEAD{label};"));
        }
    }

    /// Leaves a turn, or the kernel, where a predicate is true.
    pub(super) fn leave(&mut self, p: &str, how: Leave) {
        let count = self.loops.len();
        let skip = self.name();
        let label = |at: usize| self.loops.get(at).map_or(0, |frame| frame.label);
        match how {
            Leave::Return { here: false } => self.line(format!("@{p} bra STORE;")),
            Leave::Return { here: true } => {
                self.line(format!("@!{p} bra SKIP{skip};"));
                self.finish();
                self.line("ret;");
                self.label(format!("SKIP{skip}"));
            }
            Leave::Break => {
                let to = label(count.wrapping_sub(1));
                self.line(format!("@{p} bra DONE{to};"));
            }
            Leave::BreakOuter => {
                let to = label(count.saturating_sub(2));
                self.line(format!("@{p} bra DONE{to};"));
            }
            Leave::Other => {
                let to = label(count.wrapping_sub(1));
                self.line(format!("@{p} bra OTHER{to};"));
                if let Some(frame) = self.loops.last_mut() {
                    frame.other = true;
                }
            }
            Leave::Continue { own: false } => {
                let to = label(count.wrapping_sub(1));
                self.line(format!("@{p} bra NEXT{to};"));
            }
            Leave::Continue { own: true } => {
                let Some(frame) = self.loops.last().cloned() else { return };
                self.line(format!("@!{p} bra SKIP{skip};"));
                self.latch(&frame);
                if frame.test != Test::Top {
                    self.line(format!("bra.uni DONE{};", frame.label));
                }
                self.label(format!("SKIP{skip}"));
            }
        }
    }
}
