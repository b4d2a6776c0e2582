//! The contents of a set of programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::program::{Program, Statement, Trips};
use crate::table::{Needs, Part, rows, words_of};

/// Counts of programs: by row of the table, by word of an instruction, and by what they do.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    programs: usize,
    rows: Vec<usize>,
    /// Opcodes, types and modifiers, wherever they stand.
    words: BTreeMap<String, usize>,
    traits: BTreeMap<&'static str, usize>,
    instructions: usize,
}

/// The contents of one program.
#[derive(Default)]
struct Found {
    rows: BTreeSet<usize>,
    words: BTreeSet<String>,
    traits: BTreeSet<&'static str>,
}

impl Coverage {
    /// Counts a program.
    pub fn add(&mut self, program: &Program) {
        let mut found = Found::default();
        found.statements(&program.body);
        self.programs += 1;
        self.rows.resize(rows().len(), 0);
        self.instructions += crate::text::instructions(program);
        for row in found.rows {
            self.rows[row] += 1;
        }
        for word in found.words {
            *self.words.entry(word).or_default() += 1;
        }
        for what in found.traits {
            *self.traits.entry(what).or_default() += 1;
        }
    }

    /// Counts what another one counted, of other programs.
    pub fn merge(&mut self, other: &Self) {
        self.programs += other.programs;
        self.instructions += other.instructions;
        self.rows.resize(rows().len(), 0);
        self.rows.iter_mut().zip(&other.rows).for_each(|(count, more)| *count += more);
        for (word, count) in &other.words {
            *self.words.entry(word.clone()).or_default() += count;
        }
        for (what, count) in &other.traits {
            *self.traits.entry(what).or_default() += count;
        }
    }

    /// The rows that are in the fewest programs, and in how many.
    #[must_use]
    pub fn fewest(&self) -> (usize, Vec<&'static str>) {
        let fewest = self.rows.iter().copied().min().unwrap_or(0);
        let those = self.rows.iter().zip(rows()).filter(|(count, _)| **count == fewest);
        (fewest, those.map(|(_, row)| row.name()).collect())
    }

    /// How many programs have an opcode, type or modifier, for the one that the fewest have.
    #[must_use]
    pub fn fewest_word(&self) -> Option<(&str, usize)> {
        let fewest = self.words.iter().min_by_key(|(_, count)| **count)?;
        Some((fewest.0, *fewest.1))
    }

    /// The share of programs that do something, by a name that the printed table has: `loops or
    /// branches`, `company`, `atomics`…
    #[must_use]
    pub fn share(&self, what: &str) -> f64 {
        let count = self.traits.get(what).copied().unwrap_or(0);
        count as f64 / self.programs.max(1) as f64
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fewest, _) = self.fewest();
        writeln!(
            f,
            "{} programs, {} instructions, {} rows, each in at least {fewest} programs",
            self.programs,
            self.instructions,
            self.rows.len(),
        )?;
        for (what, count) in &self.traits {
            writeln!(f, "{:6} ({:4.1}%) {what}", count, self.share(what) * 100.0)?;
        }
        writeln!(f, "rows of each opcode, and the fewest and most programs that one is in:")?;
        let mut opcodes: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (row, &count) in rows().iter().zip(&self.rows) {
            opcodes.entry(row.opcode()).or_default().push(count);
        }
        for (opcode, counts) in opcodes {
            let (least, most) = (counts.iter().min(), counts.iter().max());
            let range = format!("{}..{}", least.unwrap_or(&0), most.unwrap_or(&0));
            writeln!(f, "{opcode:16} {:5} {range:>12}", counts.len())?;
        }
        write!(f, "opcodes, types and modifiers:")?;
        for (word, count) in &self.words {
            write!(f, " {word} {count};")?;
        }
        writeln!(f)
    }
}

impl Found {
    fn statements(&mut self, statements: &[Statement]) {
        for statement in statements {
            match statement {
                Statement::Op(op) => self.op(op),
                Statement::If { masks, then, otherwise, .. } => {
                    self.traits.extend(["branches", "loops or branches"]);
                    if *masks {
                        self.traits.insert("masks of lanes");
                    }
                    self.statements(then);
                    self.statements(otherwise);
                }
                Statement::Switch { arms, .. } => {
                    self.traits.extend(["branches", "loops or branches", "indexed branches"]);
                    arms.iter().for_each(|arm| self.statements(arm));
                }
                Statement::Loop { trips, body } => {
                    self.traits.extend(["loops", "loops or branches"]);
                    if matches!(trips, Trips::Register(_)) {
                        self.traits.insert("loops that diverge");
                    }
                    self.statements(body);
                }
                Statement::Exchange { .. } => {
                    self.traits.extend(["barriers", "company"]);
                }
                Statement::Gather(_) => {
                    self.traits.extend(["barriers", "shared atomics", "company"]);
                }
                Statement::Call { .. } => {
                    self.traits.insert("calls");
                }
            }
        }
    }

    fn op(&mut self, op: &crate::program::Op) {
        let row = &rows()[op.row];
        self.rows.insert(op.row);
        let opcode = row.opcode();
        if op.guard.is_some() {
            self.traits.insert("guards");
        }
        match row.needs {
            Needs::Thread => {}
            Needs::Lanes | Needs::Warp => {
                self.traits.extend(["shuffles, votes, matrices", "company"]);
            }
            Needs::Block => {
                self.traits.extend(["barriers", "company"]);
            }
        }
        if matches!(opcode, "atom" | "red") {
            self.traits.insert("atomics");
        }
        let mut text = String::new();
        let mut picks = op.picks.iter();
        for part in &row.parts {
            match part {
                Part::Text(plain) => text.push_str(plain),
                Part::Words(words) => {
                    if let Some(crate::program::Pick::Number(number)) = picks.next() {
                        text.push_str(&words[usize::from(*number)]);
                    }
                }
                Part::Slot(_) | Part::Place(_) => {
                    picks.next();
                    text.push(' ');
                }
            }
        }
        for instruction in text.split("; ") {
            let words = words_of(instruction);
            self.words.extend(words.split('.').filter(|word| !word.is_empty()).map(str::to_owned));
        }
    }
}
