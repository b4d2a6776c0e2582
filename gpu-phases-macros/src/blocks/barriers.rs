//! Where barriers stand: between phases that may touch the same memory of a block, and before block-level code that reads
//! what a phase wrote.
//!
//! The translation notes what each phase and each statement of block level accesses, in the structure of the code, and leaves
//! a mark where a barrier can stand. The marks that need one are found at the end: a barrier is left out only if no
//! access since the last one, on any path, conflicts with what comes.

use std::collections::BTreeSet;

/// How memory is accessed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Each thread accesses its own items of the whole: those at its number, a block's threads more, and so on.
    Owned,
    /// Any thread reads any element.
    Read,
    /// Threads write elements that others may have had.
    Written,
}

/// An access of memory: of the variable of C++ that has it, or of anything if that is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) memory: String,
    pub(crate) kind: Kind,
}

impl Access {
    pub(crate) fn new(memory: impl Into<String>, kind: Kind) -> Self {
        Self { memory: memory.into(), kind }
    }
}

#[derive(Debug)]
enum Event {
    /// Accesses after the mark with this number.
    Access(usize, Vec<Access>),
    /// A barrier that is always there.
    Barrier,
    Loop {
        body: Vec<Event>,
        jumps: bool,
    },
    /// The end of a loop whose condition is evaluated here.
    Exit,
    /// Code that may be left out.
    Branch(Vec<Event>),
}

/// What block-level code does.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The events of each group that is being translated, and whether a jump may leave it early.
    groups: Vec<(Vec<Event>, bool)>,
    marks: usize,
    /// Handles that have been swapped: any may be any other of them.
    swapped: BTreeSet<String>,
}

type Pending = BTreeSet<Access>;

/// What is pending inside of a loop.
#[derive(Default)]
struct Inside {
    /// Anywhere.
    seen: Pending,
    /// Where its condition ends it.
    exits: Option<Pending>,
}

impl Plan {
    pub(crate) fn new() -> Self {
        Self { groups: vec![(Vec::new(), false)], ..Self::default() }
    }

    fn push(&mut self, event: Event) {
        if let Some((events, _)) = self.groups.last_mut() {
            events.push(event);
        }
    }

    /// Notes accesses, and returns the mark of the barrier before them.
    pub(crate) fn access(&mut self, accesses: Vec<Access>) -> String {
        let mark = self.marks;
        self.marks += 1;
        self.push(Event::Access(mark, accesses));
        format!("\u{3}{mark}\u{4}")
    }

    pub(crate) fn barrier(&mut self) {
        self.push(Event::Barrier);
    }

    /// Notes that the innermost loop ends here, and only here unless it is left by a jump.
    pub(crate) fn exit(&mut self) {
        self.push(Event::Exit);
    }

    pub(crate) fn swap(&mut self, memory: impl IntoIterator<Item = String>) {
        self.swapped.extend(memory);
    }

    pub(crate) fn open(&mut self) {
        self.groups.push((Vec::new(), false));
    }

    /// Notes a `break` or `continue`, which may leave several groups.
    pub(crate) fn jump(&mut self) {
        self.groups.iter_mut().for_each(|(_, jumps)| *jumps = true);
    }

    pub(crate) fn close_loop(&mut self) {
        if let Some((body, jumps)) = self.groups.pop() {
            self.push(Event::Loop { body, jumps });
        }
    }

    pub(crate) fn close_branch(&mut self) {
        if let Some((body, jumps)) = self.groups.pop() {
            self.push(Event::Branch(body));
            if jumps {
                self.jump();
            }
        }
    }

    /// Puts the barriers into a text with marks.
    pub(crate) fn place(&self, text: &str, barrier: &str) -> String {
        let mut needed = BTreeSet::new();
        if let Some((events, _)) = self.groups.first() {
            loop {
                let before = needed.len();
                self.run(events, Pending::new(), &mut needed, &mut Inside::default());
                if needed.len() == before {
                    break;
                }
            }
        }
        let mut pieces = text.split('\u{3}');
        let mut placed = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let Some((number, rest)) = piece.split_once('\u{4}') else { continue };
            if number.parse().is_ok_and(|mark| needed.contains(&mark)) {
                placed.push_str(barrier);
            }
            placed.push_str(rest);
        }
        placed
    }

    /// Follows events. Returns what is pending after them.
    fn run(
        &self,
        events: &[Event],
        mut pending: Pending,
        needed: &mut BTreeSet<usize>,
        inside: &mut Inside,
    ) -> Pending {
        for event in events {
            match event {
                Event::Access(mark, accesses) => {
                    let conflict = accesses
                        .iter()
                        .any(|access| pending.iter().any(|earlier| self.conflict(earlier, access)));
                    if conflict {
                        needed.insert(*mark);
                    }
                    if needed.contains(mark) {
                        pending.clear();
                    }
                    pending.extend(accesses.iter().cloned());
                }
                Event::Barrier => pending.clear(),
                Event::Branch(body) => {
                    let after = self.run(body, pending.clone(), needed, inside);
                    pending.extend(after);
                }
                Event::Exit => inside.exits.get_or_insert_default().extend(pending.iter().cloned()),
                Event::Loop { body, jumps } => {
                    let mut of_body = Inside::default();
                    loop {
                        let after = self.run(body, pending.clone(), needed, &mut of_body);
                        let before = pending.len();
                        pending.extend(after);
                        if *jumps {
                            pending.extend(of_body.seen.iter().cloned());
                        }
                        if pending.len() == before {
                            break;
                        }
                    }
                    if let (Some(exits), false) = (of_body.exits, jumps) {
                        pending = exits;
                    }
                    inside.seen.extend(of_body.seen);
                }
            }
            inside.seen.extend(pending.iter().cloned());
        }
        pending
    }

    fn conflict(&self, a: &Access, b: &Access) -> bool {
        let both_swapped = self.swapped.contains(&a.memory) && self.swapped.contains(&b.memory);
        let one =
            a.memory == b.memory || a.memory.is_empty() || b.memory.is_empty() || both_swapped;
        let harmless = match (&a.kind, &b.kind) {
            (Kind::Read, Kind::Read) => true,
            // After a swap the items of another array are the thread's, too, if it is as long.
            (Kind::Owned, Kind::Owned) => a.memory == b.memory && !both_swapped,
            _ => false,
        };
        one && !harmless
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(plan: &mut Plan, accesses: &[(&str, Kind)]) -> String {
        plan.access(accesses.iter().map(|(name, kind)| Access::new(*name, kind.clone())).collect())
    }

    #[test]
    fn a_tile_that_is_written_and_read_in_a_loop_has_two_barriers() {
        let mut plan = Plan::new();
        plan.open();
        let load = text(&mut plan, &[("tile", Kind::Owned)]);
        let sum = text(&mut plan, &[("tile", Kind::Read)]);
        plan.close_loop();
        let placed = plan.place(&format!("{load}load {sum}sum"), "barrier ");
        assert_eq!(placed, "barrier load barrier sum");
    }

    #[test]
    fn items_that_a_thread_has_again_need_none() {
        let mut plan = Plan::new();
        let first = text(&mut plan, &[("tile", Kind::Owned)]);
        let second = text(&mut plan, &[("tile", Kind::Owned)]);
        let other = text(&mut plan, &[("other", Kind::Read)]);
        let part = text(&mut plan, &[("tile", Kind::Written)]);
        let placed = plan.place(&format!("{first}a {second}b {other}c {part}d"), "barrier ");
        assert_eq!(placed, "a b c barrier d");
    }

    #[test]
    fn a_branch_may_be_left_out() {
        let mut plan = Plan::new();
        let write = text(&mut plan, &[("tile", Kind::Owned)]);
        plan.open();
        let inside = text(&mut plan, &[("tile", Kind::Read)]);
        plan.close_branch();
        let after = text(&mut plan, &[("tile", Kind::Read)]);
        let placed = plan.place(&format!("{write}w {inside}i {after}r"), "barrier ");
        assert_eq!(placed, "w barrier i barrier r");
    }

    #[test]
    fn a_break_leaves_before_the_barrier_at_the_end() {
        let mut plan = Plan::new();
        plan.open();
        let write = text(&mut plan, &[("tile", Kind::Owned)]);
        plan.open();
        plan.jump();
        plan.close_branch();
        plan.barrier();
        plan.close_loop();
        let after = text(&mut plan, &[("tile", Kind::Read)]);
        assert_eq!(plan.place(&format!("{write}w {after}r"), "barrier "), "w barrier r");
    }

    #[test]
    fn a_condition_ends_a_loop_after_its_barrier() {
        let mut plan = Plan::new();
        plan.open();
        plan.barrier();
        plan.exit();
        let write = text(&mut plan, &[("tile", Kind::Written)]);
        plan.close_loop();
        let after = text(&mut plan, &[("tile", Kind::Read)]);
        assert_eq!(plan.place(&format!("{write}w {after}r"), "barrier "), "w r");
    }

    #[test]
    fn swapped_handles_are_one() {
        let mut plan = Plan::new();
        let write = text(&mut plan, &[("a", Kind::Owned)]);
        let read = text(&mut plan, &[("b", Kind::Read)]);
        assert_eq!(plan.place(&format!("{write}w {read}r"), "barrier "), "w r");
        plan.swap(["a".to_owned(), "b".to_owned()]);
        assert_eq!(plan.place(&format!("{write}w {read}r"), "barrier "), "w barrier r");
    }
}
