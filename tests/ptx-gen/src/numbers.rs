//! Programs for tests of derivatives: each register holds numbers, or integers, and no thread waits for another.
//!
//! A program of [`Program::new`] mixes bits and numbers as it comes, so that few of them have a derivative. Here registers
//! and memory have kinds, which decide what an instruction is given. Rows that no adjoint is generated for, whatever they
//! are given, are left out.

use test_support::Rng;

use crate::program::{
    DEPTH, HALVES, Op, PREDICATES, Pick, Program, ROUND, Statement, Trips, WIDES, WORDS, deal,
};
use crate::table::{Needs, Part, Row, rows, words_of};

/// The contents of a thread's own global memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scratch {
    /// Integers, and numbers whose gradient nobody wants.
    Integers,
    /// Numbers of the type of the inputs.
    Numbers,
    /// Numbers that are only added to.
    Sums,
}

/// The contents of a program of [`Program::numbers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Inputs and results are `double`, else `float`.
    pub double: bool,
    /// The contents of global memory.
    pub scratch: Scratch,
    /// Whether there are loops.
    pub loops: bool,
    /// Whether local memory holds numbers; else integers alone.
    pub local: bool,
    /// Whether global memory is loaded from after a store to it.
    pub reloads: bool,
}

/// The contents of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Single,
    Double,
    /// Two singles.
    Pair,
    /// An integer.
    Word,
    /// Parts of numbers, which nothing is computed from.
    Loose,
}

/// The contents of all registers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) double: bool,
    halves: [Kind; HALVES],
    words: [Kind; WORDS],
    wides: [Kind; WIDES],
}

/// Of a row: the contents of results, of operands whose letter says only their width, and of the last of three.
#[derive(Debug, Clone, Copy)]
struct Shape {
    result: Kind,
    source: Kind,
    last: Kind,
}

/// Constants that keep values small.
const CONSTANTS: [f64; 6] = [1.5, -0.75, 0.25, 2.0, -1.0 / 3.0, 0.625];

impl Kinds {
    fn new(double: bool) -> Self {
        let (word, wide) =
            if double { (Kind::Loose, Kind::Double) } else { (Kind::Single, Kind::Pair) };
        Self { double, halves: [Kind::Loose; HALVES], words: [word; WORDS], wides: [wide; WIDES] }
    }

    /// Returns the contents of the registers that a slot chooses from.
    fn file(&mut self, slot: char) -> &mut [Kind] {
        match slot {
            'H' | 'h' | 'k' | 'e' => &mut self.halves,
            'W' | 'w' | 'v' | 'd' | 'm' => &mut self.wides,
            _ => &mut self.words,
        }
    }

    /// Returns the contents of a register at the end of the program.
    pub(crate) fn get(&self, file: char, number: u8) -> Kind {
        let file: &[Kind] = match file {
            'h' => &self.halves,
            'w' => &self.wides,
            'r' => &self.words,
            _ => &[],
        };
        file.get(usize::from(number)).copied().unwrap_or(Kind::Word)
    }
}

/// Returns whether adjoints are generated for a row if its operands allow it.
fn is_allowed(row: &Row) -> bool {
    let refused =
        ["shared", "volatile", "xorsign", "cp.async", "mbarrier", "alloca", "movmatrix", "%finite"];
    let waits = matches!(row.opcode(), "ld" | "st")
        && ["relaxed", "acquire", "release"].iter().any(|word| row.name.contains(word));
    let shared =
        ['s', 'y', 'b', 'r', 'm'].iter().any(|place| row.parts.contains(&Part::Place(*place)));
    // Of numbers they are not constants.
    let half = ["f16", "tf32", "e4m3", "e5m2"].iter().any(|word| row.name.contains(word))
        && ['s', 'd', 'z'].iter().any(|slot| row.parts.contains(&Part::Slot(*slot)));
    row.needs == Needs::Thread
        && !waits
        && !half
        && !shared
        && row.opcode() != "atom"
        && !refused.iter().any(|word| row.name.contains(word))
}

/// Returns whether a row computes, moves or compares numbers of 32 or 64 bits.
fn is_of_numbers(row: &Row) -> bool {
    let mut words = row.name.split(|c: char| !c.is_ascii_alphanumeric());
    words.any(|word| matches!(word, "f32" | "f64"))
}

impl Row {
    /// Returns whether [`Program::numbers`] has it, and whether it computes, moves or compares `float` or `double`.
    #[must_use]
    pub fn has_derivative(&self) -> bool {
        is_allowed(self) && is_of_numbers(self)
    }
}

impl Program {
    /// The program of a seed, of numbers.
    #[must_use]
    pub fn numbers(seed: u64, profile: Profile) -> Self {
        let all: Vec<usize> = (0..rows().len()).filter(|&row| is_allowed(&rows()[row])).collect();
        let (of_numbers, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|&row| is_of_numbers(&rows()[row]));
        let (round, at) = (seed / ROUND as u64, (seed % ROUND as u64) as usize);
        let hand = deal(&of_numbers, round, at, ROUND);
        let mut draw = Draw {
            rng: Rng::new(seed ^ 0x00a0_be45),
            profile,
            kinds: Kinds::new(profile.double),
            stored: false,
            of_numbers,
            others,
        };
        let mut body = Vec::new();
        draw.integers(&mut body);
        for row in hand {
            draw.statements(row, 0, &mut body);
        }
        for _ in 0..1 + draw.rng.below(4) {
            let row = draw.any_row();
            draw.statements(row, 0, &mut body);
        }
        Self { seed, body, kinds: Some(draw.kinds) }
    }
}

struct Draw {
    rng: Rng,
    profile: Profile,
    kinds: Kinds,
    /// Global memory was stored to.
    stored: bool,
    of_numbers: Vec<usize>,
    others: Vec<usize>,
}

impl Draw {
    /// Puts integers into some registers of each width.
    fn integers(&mut self, body: &mut Vec<Statement>) {
        for (name, number) in [
            ("mov.u32 R, %tid.x", 8),
            ("mov.u32 R, %ctaid.x", 9),
            ("ld.const.<b32|u32|s32|f32> R, [@c]", 10),
            ("cvt.u64.u32 W, t", 6),
            ("cvt.u64.s32 W, t", 7),
            ("cvt.u16.u32 H, t", 0),
            ("cvt.s16.s32 H, t", 1),
            ("cvt.u16.u8 H, t", 2),
        ] {
            let Some(row) = rows().iter().position(|row| row.name == name) else { continue };
            let picks = rows()[row].parts.iter().filter_map(|part| match part {
                Part::Text(_) => None,
                Part::Slot('t') => Some(Pick::Number(8 + self.rng.below(3) as u8)),
                Part::Slot(slot) => {
                    self.kinds.file(*slot)[number] = Kind::Word;
                    Some(Pick::Number(number as u8))
                }
                Part::Words(_) | Part::Place(_) => Some(Pick::Number(0)),
            });
            body.push(Statement::Op(Op { row, picks: picks.collect(), guard: None }));
        }
    }

    /// A row, most often of numbers.
    fn any_row(&mut self) -> usize {
        let from = if self.rng.below(4) == 0 { &self.others } else { &self.of_numbers };
        from[self.rng.below(from.len())]
    }

    /// An instruction of a row, sometimes in a branch or a loop.
    fn statements(&mut self, row: usize, depth: usize, body: &mut Vec<Statement>) {
        if depth < DEPTH && self.rng.below(10) == 0 {
            let block = self.block(row, depth + 1);
            body.push(block);
            return;
        }
        if self.rng.below(40) == 0 {
            body.extend(self.call(depth));
        }
        // A row that does not fit now may fit with other operands.
        body.extend((0..4).find_map(|_| self.op(row, depth)));
    }

    fn block(&mut self, row: usize, depth: usize) -> Statement {
        let list = |draw: &mut Self, first: Option<usize>| {
            let mut body = Vec::new();
            first.into_iter().for_each(|row| draw.statements(row, depth, &mut body));
            for _ in 0..1 + draw.rng.below(3) {
                let row = draw.any_row();
                draw.statements(row, depth, &mut body);
            }
            body
        };
        if self.profile.loops && self.rng.below(2) == 0 {
            let trips = match self.rng.below(3) {
                0 => Trips::Constant(self.rng.below(3) as u8),
                1 => Trips::Parameter,
                _ => Trips::Register(self.rng.below(WORDS) as u8),
            };
            // The loop comes by again.
            let before = self.stored;
            self.stored |= !self.profile.reloads;
            let body = list(self, Some(row));
            self.stored = if body.iter().any(stores) { true } else { before };
            return Statement::Loop { trips, body };
        }
        let on = self.rng.below(PREDICATES) as u8;
        let then = list(self, Some(row));
        let otherwise = if self.rng.below(2) == 0 { list(self, None) } else { Vec::new() };
        Statement::If { on, masks: false, then, otherwise }
    }

    /// A call of the function of integers.
    fn call(&mut self, depth: usize) -> Option<Statement> {
        let [a, b] = [(); 2].map(|()| self.register('t', Kind::Word, &[]));
        let into = self.result('R', Kind::Word, depth, &[])?;
        self.kinds.words[usize::from(into)] = Kind::Word;
        Some(Statement::Call { into, a: a?, b: b? })
    }

    /// An instruction of a row, if there are registers for it.
    fn op(&mut self, row: usize, depth: usize) -> Option<Statement> {
        let source = &rows()[row];
        let place = self.place(source)?;
        let shape = self.shape(source, place)?;
        let sources = source.parts.iter().filter(|part| is_source(part)).count();
        let (mut picks, mut results, mut seen) = (Vec::new(), Vec::new(), 0);
        let may_be_guarded = source.may_be_guarded() && self.rng.below(10) == 0;
        // A result that is not written keeps its kind.
        let depth = if may_be_guarded { depth.max(1) } else { depth };
        for part in &source.parts {
            let pick = match part {
                Part::Text(_) => continue,
                Part::Words(words) => Pick::Number(self.word(words, shape)),
                Part::Place('c' | 'i') => Pick::Number(self.rng.below(4) as u8),
                Part::Place(_) => Pick::Number(place),
                Part::Slot('P' | 'p') => loop {
                    let number = self.rng.below(PREDICATES) as u8;
                    if !results.contains(&('P', number)) {
                        results.push(('P', number));
                        break Pick::Number(number);
                    }
                },
                Part::Slot('q') if self.rng.below(2) == 0 => {
                    Pick::Not(self.rng.below(PREDICATES) as u8)
                }
                Part::Slot('q') => Pick::Number(self.rng.below(PREDICATES) as u8),
                Part::Slot('l') => Pick::Constant(self.rng.below(256) as u64),
                Part::Slot('i') => Pick::Constant(self.rng.below(32) as u64),
                Part::Slot(slot @ ('H' | 'R' | 'W')) => {
                    let number = self.result(*slot, shape.result, depth, &results)?;
                    results.push((*slot, number));
                    Pick::Number(number)
                }
                Part::Slot(slot) => {
                    seen += 1;
                    let kind = if seen == 3 && sources == 3 { shape.last } else { shape.source };
                    self.source(*slot, kind)?
                }
            };
            picks.push(pick);
        }
        for (slot, number) in results.into_iter().filter(|(slot, _)| *slot != 'P') {
            self.kinds.file(slot)[usize::from(number)] = shape.result;
        }
        let guard =
            may_be_guarded.then(|| (self.rng.below(PREDICATES) as u8, self.rng.below(2) == 0));
        let statement = Statement::Op(Op { row, picks, guard });
        self.stored |= stores(&statement);
        Some(statement)
    }

    /// Chooses a word. Where it is the type of what is moved, integers and pairs are not moved as numbers.
    fn word(&mut self, words: &[String], shape: Shape) -> u8 {
        let moves = words.iter().any(|word| word == "u32" || word == "u64");
        let is_number = |kind: Kind| matches!(kind, Kind::Single | Kind::Double);
        let fits = |word: &String| {
            !moves || !word.starts_with('f') || is_number(shape.result) && is_number(shape.source)
        };
        let start = self.rng.below(words.len());
        let mut each = (0..words.len()).map(|at| (start + at) % words.len());
        each.find(|&at| fits(&words[at])).unwrap_or(start) as u8
    }

    /// Chooses the memory of a row that has some.
    fn place(&mut self, row: &Row) -> Option<u8> {
        let narrow = ["8", "16"].iter().any(|bits| words_of(&row.name).contains(bits));
        let narrow = narrow && !row.name.contains(".v") && !words_of(&row.name).contains("64");
        let any = self.rng.below(4) as u8;
        if !row.parts.contains(&Part::Place('l')) || !matches!(row.opcode(), "ld" | "st") {
            return Some(any);
        }
        if narrow || !self.profile.local {
            // Places of local memory have kinds: two of singles, one of doubles, one of integers.
            return Some(3);
        }
        Some(any)
    }

    /// Returns the contents of a row's registers; `None` if it does not fit now.
    fn shape(&mut self, row: &Row, place: u8) -> Option<Shape> {
        let has = |slots: &[char]| slots.iter().any(|slot| row.parts.contains(&Part::Slot(*slot)));
        let wide = has(&['W', 'v', 'w']);
        let plain = Shape { result: Kind::Word, source: Kind::Word, last: Kind::Word };
        let all = |kind: Kind| Shape { result: kind, source: kind, last: kind };
        let memory = row.parts.iter().find_map(|part| match part {
            Part::Place(place) => Some(*place),
            _ => None,
        });
        let narrow = has(&['H', 'h', 'e']) || words_of(&row.name).contains('8');
        let number = match (self.profile.double, wide) {
            (false, false) => Some(Kind::Single),
            (false, true) => Some(Kind::Pair),
            (true, false) => None,
            (true, true) => Some(Kind::Double),
        };
        Some(match row.opcode() {
            "add" | "sub" | "mul" | "fma" | "mad" | "div" | "rcp" | "sqrt" | "abs" | "neg"
            | "min" | "max" | "copysign" => {
                let is_single = has(&['s']) && words_of(&row.name).contains("f32");
                let kind = if is_single { Kind::Single } else { Kind::Double };
                if is_single || has(&['d']) { all(kind) } else { plain }
            }
            "cvt" => {
                let types = ["f32", "f64", "f16", "bf16", "tf32", "f16x2", "bf16x2"];
                let words = words_of(&row.name);
                let first = words.split('.').find(|word| {
                    types.contains(word)
                        || word.starts_with(['u', 's', 'e']) && !word.starts_with("sat")
                });
                let result = match first {
                    Some("f32") => Kind::Single,
                    Some("f64") => Kind::Double,
                    _ => Kind::Word,
                };
                Shape { result, ..plain }
            }
            "mov" if row.name == "mov.b64 W, {t, t}" && self.rng.below(2) == 0 => {
                Shape { result: Kind::Pair, source: Kind::Single, last: Kind::Single }
            }
            "mov" if row.name == "mov.b64 {R, R}, v" && self.rng.below(2) == 0 => {
                Shape { result: Kind::Single, source: Kind::Pair, last: Kind::Pair }
            }
            "mov" | "selp" | "slct" if !narrow && !row.name.contains('{') => {
                let kind = match (has(&['s']), has(&['d']), wide) {
                    (true, ..) => Kind::Single,
                    (_, true, _) => Kind::Double,
                    (_, _, false) => [Kind::Single, Kind::Single, Kind::Word][self.rng.below(3)],
                    (_, _, true) => [Kind::Double, Kind::Pair, Kind::Word][self.rng.below(3)],
                };
                let sign = if row.opcode() == "slct" && row.name.contains(".f32 ") {
                    Kind::Single
                } else {
                    Kind::Word
                };
                Shape { last: if row.opcode() == "slct" { sign } else { kind }, ..all(kind) }
            }
            "ld" | "ldu" | "st" | "red" => {
                let is_red = row.opcode() == "red";
                match (memory?, self.profile.scratch) {
                    ('c', _) => plain,
                    ('l', _) if place == 3 => plain,
                    ('l', _) => match (narrow, place, wide) {
                        (false, 0 | 1, false) => all(Kind::Single),
                        (false, 0 | 1, true) => all(Kind::Pair),
                        (false, 2, true) => all(Kind::Double),
                        _ => return None,
                    },
                    ('i', _) if narrow => all(Kind::Loose),
                    ('i', _) => all(number.unwrap_or(Kind::Loose)),
                    // A load after a store.
                    _ if row.opcode() == "ld" && self.stored && !self.profile.reloads => {
                        return None;
                    }
                    (_, Scratch::Integers) => plain,
                    (_, Scratch::Sums) if is_red && !self.profile.double && has(&['z']) => plain,
                    (_, Scratch::Numbers) if !is_red && !narrow => all(number?),
                    _ => return None,
                }
            }
            _ => plain,
        })
    }

    /// A register of a kind.
    fn register(&mut self, slot: char, kind: Kind, but: &[u8]) -> Option<u8> {
        let start = self.rng.below(64);
        let file = self.kinds.file(slot);
        let count = file.len();
        let mut each = (0..count).map(|at| (start + at) % count);
        let found = each.find(|&at| file[at] == kind && !but.contains(&(at as u8)))?;
        Some(found as u8)
    }

    /// A register for a result that holds the same now, or seldom something else: never in a branch.
    fn result(&mut self, slot: char, kind: Kind, depth: usize, taken: &[(char, u8)]) -> Option<u8> {
        let taken: Vec<u8> =
            taken.iter().filter(|(file, _)| *file == slot).map(|(_, number)| *number).collect();
        if depth == 0 && self.rng.below(4) == 0 {
            let file = self.kinds.file(slot);
            let count = |kind: Kind| file.iter().filter(|known| **known == kind).count();
            let spare = [Kind::Loose, Kind::Pair, Kind::Single, Kind::Double, Kind::Word]
                .into_iter()
                .find(|&other| {
                    other != kind && (other == Kind::Loose || count(other) > 3) && count(other) > 0
                });
            if let Some(found) = spare.and_then(|spare| self.register(slot, spare, &taken)) {
                return Some(found);
            }
        }
        let found = self.register(slot, kind, &taken);
        found.or_else(|| (depth == 0).then(|| self.register(slot, Kind::Loose, &taken)).flatten())
    }

    fn source(&mut self, slot: char, kind: Kind) -> Option<Pick> {
        let constant = self.rng.below(8) == 0;
        let value = CONSTANTS[self.rng.below(CONSTANTS.len())];
        let kind = match slot {
            's' | 'z' => Kind::Single,
            'd' => Kind::Double,
            _ => kind,
        };
        match slot {
            's' if constant => Some(Pick::Constant(u64::from((value as f32).to_bits()))),
            'd' if constant => Some(Pick::Constant(value.to_bits())),
            'r' | 'w' if constant && kind == Kind::Word => {
                Some(Pick::Constant(self.rng.below(64) as u64))
            }
            _ => self.register(slot, kind, &[]).map(Pick::Number),
        }
    }
}

fn is_source(part: &Part) -> bool {
    matches!(part, Part::Slot(slot) if slot.is_ascii_lowercase() && !matches!(slot, 'p' | 'q' | 'l' | 'i'))
}

/// Returns whether a statement stores to global memory.
fn stores(statement: &Statement) -> bool {
    match statement {
        Statement::Op(op) => {
            let row = &rows()[op.row];
            let global = ['g', 'x'].iter().any(|place| row.parts.contains(&Part::Place(*place)));
            matches!(row.opcode(), "st" | "red") && global
        }
        Statement::If { then, otherwise, .. } => then.iter().chain(otherwise).any(stores),
        Statement::Loop { body, .. } => body.iter().any(stores),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Ending, module};

    fn profile(seed: u64) -> Profile {
        let scratch = [Scratch::Integers, Scratch::Numbers, Scratch::Sums][(seed / 2 % 3) as usize];
        let all = seed.is_multiple_of(5);
        Profile { double: seed.is_multiple_of(2), scratch, loops: all, local: all, reloads: all }
    }

    #[test]
    fn each_row_of_numbers_is_in_enough_programs() {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows().iter().filter(|row| row.has_derivative()) {
            counts.insert(row.name(), 0);
        }
        assert!(counts.len() > 400, "{}", counts.len());
        for seed in 0..ROUND as u64 {
            for row in Program::numbers(seed, profile(seed)).rows() {
                counts.entry(row).and_modify(|count| *count += 1);
            }
        }
        let few: Vec<_> = counts.iter().filter(|(_, count)| **count < 3).collect();
        assert!(few.is_empty(), "{few:?}");
    }

    #[test]
    fn what_no_adjoint_is_generated_for_is_left_out() {
        let mut loops = 0;
        for seed in 0..200 {
            let program = Program::numbers(seed, profile(seed));
            assert_eq!(program, Program::numbers(seed, profile(seed)));
            let text = module([&program], Ending::Registers);
            let (_, kernel) = text.split_once(".entry").expect("a kernel");
            for word in ["shared.", "\tbar.", "volatile", "atom.", "mbarrier", "xorsign", "shfl"] {
                assert!(!kernel.contains(word), "{seed}: {word}");
            }
            loops += usize::from(kernel.contains("setp.le.u32 %q0"));
        }
        assert!((10..=40).contains(&loops), "{loops}");
    }
}
