//! Programs: their statements, and how they are drawn from a seed.
//!
//! Every program is valid and has one result, and so has the rest when statements are removed: registers have values
//! from the beginning, memory is each thread's own, loops count, and what threads do together stands where all of them
//! come by.

use std::collections::BTreeSet;

use crate::numbers::Kinds;
use crate::table::{Needs, Part, rows};
use test_support::Rng;

/// Registers of each kind.
pub(crate) const HALVES: usize = 8;
pub(crate) const WORDS: usize = 12;
pub(crate) const WIDES: usize = 8;
pub(crate) const PREDICATES: usize = 6;
/// How deep blocks lie in each other.
pub(crate) const DEPTH: usize = 3;
/// In how many programs of a round each row is, at least.
pub const TIMES: usize = 21;
/// How many programs a round has: those of seeds 0 to 999, 1000 to 1999 and so on.
pub const ROUND: usize = 1000;

/// The contents of a slot of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// The number of a word, a register, or a piece of memory.
    Number(u8),
    /// A negated predicate.
    Not(u8),
    /// A constant.
    Constant(u64),
}

/// An instruction: a row of the table with everything chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Op {
    pub(crate) row: usize,
    /// For each part of the row that is no text.
    pub(crate) picks: Vec<Pick>,
    /// A predicate, and whether it is negated.
    pub(crate) guard: Option<(u8, bool)>,
}

/// How often a loop runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trips {
    Constant(u8),
    /// As a parameter of the kernel says: 3.
    Parameter,
    /// As the thread's register says, from 1 to 4.
    Register(u8),
}

/// The sum of all threads of a block in one cell, in any order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gather {
    /// Of [`GATHERS`].
    pub(crate) what: u8,
    pub(crate) shared: bool,
    pub(crate) cell: u8,
    pub(crate) value: u8,
    pub(crate) into: u8,
}

/// The operations of a [`Gather`]: their words after the space.
pub(crate) const GATHERS: [&str; 14] = [
    "add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32",
    "xor.b32", "inc.u32", "add.u64", "max.u64", "min.s64", "xor.b64",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Statement {
    Op(Op),
    /// With `masks`, instructions in it that need a mask of lanes have one.
    If {
        on: u8,
        masks: bool,
        then: Vec<Statement>,
        otherwise: Vec<Statement>,
    },
    /// By the lower two bits of a register.
    Switch {
        on: u8,
        arms: Vec<Vec<Statement>>,
    },
    Loop {
        trips: Trips,
        body: Vec<Statement>,
    },
    /// A register of the thread `by` further on, through shared memory.
    Exchange {
        value: u8,
        into: u8,
        by: u8,
    },
    Gather(Gather),
    /// Of a function of two words.
    Call {
        into: u8,
        a: u8,
        b: u8,
    },
}

/// A program, which is the seed's, or what reduction has left of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The seed.
    pub seed: u64,
    /// Its statements.
    pub(crate) body: Vec<Statement>,
    /// The contents of its registers at the end, if it is one of numbers.
    pub(crate) kinds: Option<Kinds>,
}

/// Where a statement stands.
#[derive(Clone, Copy)]
struct Place {
    depth: usize,
    /// All threads of the block come by.
    together: bool,
    /// There is a mask of the lanes that come by.
    masked: bool,
}

impl Place {
    fn allows(self, needs: Needs) -> bool {
        match needs {
            Needs::Thread => true,
            Needs::Lanes => self.together || self.masked,
            Needs::Warp | Needs::Block => self.together,
        }
    }
}

/// Three of ten programs have what lanes and threads do together.
pub(crate) fn has_company(seed: u64) -> bool {
    seed % 10 < 3
}

/// The rows that a program must have, so that in each round of seeds every row is in [`TIMES`]
/// programs.
fn dealt(seed: u64) -> Vec<usize> {
    let (round, at) = (seed / ROUND as u64, (seed % ROUND as u64) as usize);
    let (alone, company): (Vec<_>, Vec<_>) =
        (0..rows().len()).partition(|&row| rows()[row].needs == Needs::Thread);
    let mut cards = deal(&alone, round, at, ROUND);
    if has_company(seed) {
        // The programs with company, counted.
        cards.extend(deal(&company, round + 1, at / 10 * 3 + at % 10, ROUND / 10 * 3));
    }
    cards
}

/// The hand of one of `players`, where each card is there [`TIMES`] times, never twice in one hand.
pub(crate) fn deal(cards: &[usize], round: u64, player: usize, players: usize) -> Vec<usize> {
    let mut shuffled = cards.to_vec();
    let mut rng = Rng::new(0x0dea_1000 + round);
    for at in (1..shuffled.len()).rev() {
        shuffled.swap(at, rng.below(at + 1));
    }
    let each = (cards.len() * TIMES).div_ceil(players).min(cards.len());
    (0..each).map(|card| shuffled[(player * each + card) % cards.len()]).collect()
}

impl Program {
    /// The program of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut draw = Draw {
            rng: Rng::new(seed ^ 0x6e6e_a7ed),
            company: has_company(seed),
            hand: dealt(seed),
        };
        for at in (1..draw.hand.len()).rev() {
            let other = draw.rng.below(at + 1);
            draw.hand.swap(at, other);
        }
        // Collective statements come last, so that they are taken first where they may stand.
        draw.hand.sort_by_key(|&row| rows()[row].needs != Needs::Thread);
        let place = Place { depth: 0, together: true, masked: false };
        // A third of the programs branch and loop.
        let branches = seed.is_multiple_of(3) || draw.rng.below(8) == 0;
        let mut body = Vec::new();
        while !draw.hand.is_empty() {
            draw.statement(place, branches, &mut body);
        }
        for _ in 0..draw.rng.below(6) {
            let row = draw.any_row(place);
            body.push(draw.op(row));
        }
        Self { seed, body, kinds: None }
    }
}

impl Program {
    /// A program of one to four instructions, each of one thread, most of them of `float` and `double`.
    #[must_use]
    pub fn short(seed: u64) -> Self {
        let mut draw = Draw { rng: Rng::new(seed ^ 0x5404_7000), company: false, hand: Vec::new() };
        let place = Place { depth: 0, together: false, masked: false };
        let mut body = Vec::new();
        for _ in 0..1 + draw.rng.below(4) {
            let mut row = draw.any_row(place);
            let is_float = |row: usize| {
                let name = rows()[row].name();
                ["f32", "f64", "mov", "selp"].iter().any(|word| name.contains(word))
            };
            while !is_float(row) && draw.rng.below(16) > 0 {
                row = draw.any_row(place);
            }
            body.push(draw.op(row));
        }
        Self { seed, body, kinds: None }
    }

    /// The names of the rows that it has instructions of, each once.
    #[must_use]
    pub fn rows(&self) -> Vec<&'static str> {
        let mut found = BTreeSet::new();
        collect(&self.body, &mut found);
        found.into_iter().map(|row| rows()[row].name()).collect()
    }
}

fn collect(statements: &[Statement], found: &mut BTreeSet<usize>) {
    for statement in statements {
        match statement {
            Statement::Op(op) => {
                found.insert(op.row);
            }
            Statement::If { then, otherwise, .. } => {
                collect(then, found);
                collect(otherwise, found);
            }
            Statement::Switch { arms, .. } => arms.iter().for_each(|arm| collect(arm, found)),
            Statement::Loop { body, .. } => collect(body, found),
            Statement::Exchange { .. } | Statement::Gather(_) | Statement::Call { .. } => {}
        }
    }
}

struct Draw {
    rng: Rng,
    company: bool,
    hand: Vec<usize>,
}

impl Draw {
    /// One more statement.
    fn statement(&mut self, place: Place, branches: bool, body: &mut Vec<Statement>) {
        if branches && place.depth < DEPTH && self.rng.below(8) == 0 {
            let block = self.block(place);
            body.push(block);
            return;
        }
        if self.company && place.together && self.rng.below(12) == 0 {
            let statement = self.meeting();
            body.push(statement);
            return;
        }
        if self.rng.below(40) == 0 {
            let (into, a, b) = (self.word(), self.word(), self.word());
            body.push(Statement::Call { into, a, b });
            return;
        }
        let row = self.next_row(place);
        body.push(self.op(row));
    }

    fn statements(&mut self, place: Place) -> Vec<Statement> {
        let mut body = Vec::new();
        for _ in 0..1 + self.rng.below(6) {
            self.statement(place, true, &mut body);
        }
        body
    }

    fn block(&mut self, place: Place) -> Statement {
        let inner = Place { depth: place.depth + 1, together: false, masked: false };
        match self.rng.below(7) {
            0..=2 => {
                let masks = place.together && self.company && self.rng.below(2) == 0;
                let inner = Place { masked: masks, ..inner };
                let then = self.statements(inner);
                let both = self.rng.below(2) == 0;
                let otherwise = if both { self.statements(inner) } else { Vec::new() };
                Statement::If { on: self.rng.below(PREDICATES) as u8, masks, then, otherwise }
            }
            3 => Statement::Switch {
                on: self.word(),
                arms: (0..4).map(|_| self.statements(inner)).collect(),
            },
            _ => {
                let trips = match self.rng.below(3) {
                    0 => Trips::Constant(1 + self.rng.below(4) as u8),
                    1 => Trips::Parameter,
                    _ => Trips::Register(self.word()),
                };
                let together = place.together && !matches!(trips, Trips::Register(_));
                Statement::Loop { trips, body: self.statements(Place { together, ..inner }) }
            }
        }
    }

    /// The collective statements of a block.
    fn meeting(&mut self) -> Statement {
        if self.rng.below(2) == 0 {
            let by = 1 + self.rng.below(62) as u8;
            return Statement::Exchange { value: self.word(), into: self.word(), by };
        }
        Statement::Gather(Gather {
            what: self.rng.below(GATHERS.len()) as u8,
            shared: self.rng.below(2) == 0,
            cell: self.rng.below(8) as u8,
            value: self.rng.below(WIDES) as u8,
            into: self.rng.below(WIDES) as u8,
        })
    }

    fn word(&mut self) -> u8 {
        self.rng.below(WORDS) as u8
    }

    /// The next row of the hand that may stand here, else any.
    fn next_row(&mut self, place: Place) -> usize {
        let fits = |&row: &usize| place.allows(rows()[row].needs);
        match self.hand.iter().rposition(fits) {
            // Those that seldom fit are at the end and go first; not all of them one after the other.
            Some(_) if self.rng.below(3) == 0 && self.hand.first().is_some_and(fits) => {
                self.hand.remove(0)
            }
            Some(at) => self.hand.remove(at),
            None => self.any_row(place),
        }
    }

    fn any_row(&mut self, place: Place) -> usize {
        loop {
            let row = self.rng.below(rows().len());
            let needs = rows()[row].needs;
            if place.allows(needs) && (self.company || needs == Needs::Thread) {
                return row;
            }
        }
    }

    fn op(&mut self, row: usize) -> Statement {
        let source = &rows()[row];
        let mut picks = Vec::new();
        let mut results: Vec<(char, u8)> = Vec::new();
        for part in &source.parts {
            let pick = match part {
                Part::Text(_) => continue,
                Part::Words(words) => Pick::Number(self.rng.below(words.len()) as u8),
                Part::Place(_) => Pick::Number(self.rng.below(4) as u8),
                Part::Slot(slot) => self.slot(*slot, &results),
            };
            if let (Part::Slot(slot), Pick::Number(number)) = (part, pick) {
                results.push((*slot, number));
            }
            picks.push(pick);
        }
        let guarded = source.may_be_guarded() && self.rng.below(10) == 0;
        let guard = guarded.then(|| (self.rng.below(PREDICATES) as u8, self.rng.below(2) == 0));
        Statement::Op(Op { row, picks, guard })
    }

    fn slot(&mut self, slot: char, results: &[(char, u8)]) -> Pick {
        let constant = self.rng.below(8) == 0;
        match slot {
            'H' | 'R' | 'W' | 'P' => loop {
                // Results of one instruction are different registers.
                let number = self.rng.below(count(slot)) as u8;
                if !results.contains(&(slot, number)) {
                    return Pick::Number(number);
                }
            },
            'q' if self.rng.below(2) == 0 => Pick::Not(self.rng.below(PREDICATES) as u8),
            'l' => Pick::Constant(self.rng.below(256) as u64),
            'i' => Pick::Constant(self.rng.below(32) as u64),
            'r' if constant => {
                let bits = self.rng.next();
                Pick::Constant(u64::from(if bits >> 63 == 0 {
                    bits as u32
                } else {
                    bits as u32 & 63
                }))
            }
            'w' if constant => {
                let bits = self.rng.next();
                // Half of them short, as most are.
                Pick::Constant(if bits >> 62 == 0 { bits } else { bits & 0xff })
            }
            's' if constant => {
                Pick::Constant(SINGLES[self.rng.below(SINGLES.len())].to_bits().into())
            }
            'd' if constant => Pick::Constant(DOUBLES[self.rng.below(DOUBLES.len())].to_bits()),
            _ => Pick::Number(self.rng.below(count(slot)) as u8),
        }
    }
}

/// Constants that no arithmetic leaves as it was: ptxas would pass on a NaN as it is.
const SINGLES: [f32; 8] = [1.5, -0.1, 3.0e5, 1.0e-39, 3.0e38, -7.25, 0.333_333_34, -1.0e-20];
const DOUBLES: [f64; 8] = [1.5, -0.1, 3.0e5, 1.0e-310, 1.5e308, -7.25, 1.0 / 3.0, -1.0e-200];

/// How many registers a slot chooses from.
fn count(slot: char) -> usize {
    match slot {
        'H' | 'h' | 'k' | 'e' => HALVES,
        'W' | 'w' | 'v' | 'd' | 'm' => WIDES,
        'P' | 'p' | 'q' => PREDICATES,
        _ => WORDS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_is_dealt_often_enough_in_every_round() {
        for round in [0, 1, 57] {
            let mut counts = vec![0; rows().len()];
            for seed in round * ROUND as u64..(round + 1) * ROUND as u64 {
                let mut hand = dealt(seed);
                let all = hand.len();
                hand.sort_unstable();
                hand.dedup();
                assert_eq!(hand.len(), all, "seed {seed} has a row twice");
                hand.iter().for_each(|&row| counts[row] += 1);
            }
            assert!(counts.iter().all(|&count| count >= TIMES), "round {round}: {counts:?}");
        }
    }

    #[test]
    fn a_seed_is_one_program_and_has_its_hand() {
        for seed in 0..50 {
            let program = Program::new(seed);
            assert_eq!(program, Program::new(seed));
            let names = program.rows();
            assert!(dealt(seed).iter().all(|&row| names.contains(&rows()[row].name())), "{seed}");
            assert_ne!(program.body, Program::new(seed + 1).body);
        }
    }
}
