//! What the processes of a run say, summed up: families of differences, with one example each.

use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result as Written};

use ptx_gen::{Ending, Program};

use super::pairs::Counts;
use super::report::{END, LEFT, TEXT};
use super::share::{DIFFER, DONE};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

/// How many seeds that differ are said, and how many rows of a family.
const SEEDS: usize = 20;
const ROWS: usize = 8;
/// Lines of an example at most.
const LINES: usize = 40;

/// Differences of which the same opcodes are left.
#[derive(Default)]
struct Family {
    programs: u64,
    /// What is left of them, each with its number of programs.
    left: BTreeMap<String, u64>,
    example: String,
}

impl Family {
    /// The family's name: the opcodes of the rows.
    fn of(rows: &str) -> String {
        let mut opcodes: Vec<_> =
            rows.split("; ").filter_map(|row| row.split([' ', '.', '<']).next()).collect();
        opcodes.sort_unstable();
        opcodes.dedup();
        opcodes.join(", ")
    }
}

#[derive(Default)]
pub(super) struct Summary {
    pub(super) programs: u64,
    /// The seeds.
    pub(super) different: Vec<u64>,
    /// Programs that failed to run, and how.
    pub(super) failures: Vec<(u64, Failure)>,
    /// Those of both that agree once the driver's compiler does not optimise.
    pub(super) compiler: Vec<u64>,
    /// All that the processes said.
    pub(super) report: String,
    pub(super) families: Families,
    pairs: Counts,
}

/// Differences by what is left of the programs.
#[derive(Default)]
pub(super) struct Families(BTreeMap<String, Family>);

impl Summary {
    /// Adds what the process of a seed said, or how it failed.
    pub(super) fn add(&mut self, seed: u64, done: Result<String, Failure>) {
        let text = match done {
            Ok(text) => text,
            Err(failure) => {
                let text = ptx_gen::module([&Program::new(seed)], Ending::Hash);
                self.report += &format!("seed {seed}: {failure}\n{text}{END}\n");
                self.failures.push((seed, failure));
                return;
            }
        };
        for line in text.lines() {
            if let Some(counts) = line.strip_prefix(DONE) {
                self.counts(counts);
            } else if let Some(seeds) = line.strip_prefix(DIFFER) {
                self.report += &format!("{line}\n");
                self.different.extend(seeds.split(' ').filter_map(|seed| seed.parse::<u64>().ok()));
            }
        }
    }

    /// Adds what a process said that reduced a program.
    pub(super) fn reduced(&mut self, text: &str) {
        // Whose lines they are, if the family has no example yet.
        let mut example = None;
        for line in text.lines() {
            self.report += &format!("{line}\n");
            if let Some(rows) = line.strip_prefix(LEFT) {
                let name = Family::of(rows);
                let family = self.families.0.entry(name.clone()).or_default();
                *family.left.entry(rows.to_owned()).or_default() += 1;
                family.programs += 1;
                example = (family.programs == 1).then_some(name);
            } else if line == TEXT {
                example = None;
            } else if let Some(name) = &example {
                let family = self.families.0.entry(name.clone()).or_default();
                if family.example.lines().count() < LINES {
                    family.example += &format!("  {line}\n");
                }
            }
        }
    }

    /// How many programs a device gets wrong, rather than the compiler.
    pub(super) fn wrong(&self) -> usize {
        let failed = self.failures.iter().map(|(seed, _)| seed);
        let all = self.different.iter().chain(failed);
        all.filter(|seed| !self.compiler.contains(seed)).count()
    }

    fn counts(&mut self, counts: &str) {
        let counts: Vec<u64> = counts.split(' ').filter_map(|word| word.parse().ok()).collect();
        let [programs, pairs, told_apart, fused] = counts[..] else { return };
        self.programs += programs;
        let [pairs, told_apart, fused] = [pairs, told_apart, fused].map(|count| count as usize);
        self.pairs.add(Counts { pairs, told_apart, fused });
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        writeln!(f, "{}", self.pairs)?;
        for (seed, failure) in &self.failures {
            let failure = failure.to_string();
            writeln!(
                f,
                "seed {seed} failed to run: {}",
                failure.lines().next().unwrap_or_default()
            )?;
        }
        if !self.different.is_empty() {
            let mut seeds = self.different.clone();
            seeds.sort_unstable();
            seeds.truncate(SEEDS);
            writeln!(f, "{} differ, the first {SEEDS} of them: {seeds:?}", self.different.len())?;
        }
        if !self.compiler.is_empty() {
            let mut seeds = self.compiler.clone();
            seeds.sort_unstable();
            writeln!(f, "where the compiler does not optimise, these do not differ: {seeds:?}")?;
        }
        Ok(())
    }
}

impl Display for Families {
    fn fmt(&self, f: &mut Formatter<'_>) -> Written {
        let mut families: Vec<_> = self.0.iter().collect();
        // The end is what is read first.
        families.sort_by_key(|(_, family)| family.programs);
        for (name, family) in families {
            writeln!(f, "{} reduced programs have {name}:", family.programs)?;
            let mut left: Vec<_> = family.left.iter().collect();
            left.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (rows, count) in left.iter().take(ROWS) {
                writeln!(f, "{count:4} {rows}")?;
            }
            if left.len() > ROWS {
                writeln!(f, "     and {} more", left.len() - ROWS)?;
            }
            write!(f, "{}", family.example)?;
        }
        Ok(())
    }
}

/// What processes say is summed up; one that failed, or says nothing, counts.
pub(super) fn shares_are_summed_up() -> TestResult {
    let mut summary = Summary::default();
    let report = |seed: u64, width: u64| {
        let row = format!("popc.b{width} R, t; st.b32 [@x], t");
        format!("{LEFT}{row}\nseed {seed}: ...\n\tpopc.b{width} %r{seed};\n{TEXT}\nwhole\n{END}\n")
    };
    let (first, second) = (report(3, 32), report(4, 64));
    summary.add(0, Ok(format!("{DIFFER}3 4 17\n{DONE}500 40 8 7\n")));
    summary.add(500, Ok(format!("{DIFFER}501\n{DONE}500 40 9 6\n")));
    [first, second, report(501, 32)].iter().for_each(|text| summary.reduced(text));
    summary.add(1000, Err(Failure::new("killed\nby")));
    ensure_eq!(summary.programs, 1000);
    ensure_eq!(summary.different, [3, 4, 17, 501]);
    let Counts { pairs, told_apart, fused } = summary.pairs;
    ensure_eq!((pairs, told_apart, fused), (80, 17, 13));
    ensure!(summary.failures.len() == 1 && summary.report.contains("seed 1000: "));
    // What the compiler errs in is said, and is no device's fault.
    ensure_eq!(summary.wrong(), 5);
    summary.compiler.extend([17, 1000]);
    ensure_eq!(summary.wrong(), 3);
    // All is in the report, and one short example in what is printed.
    ensure_eq!(summary.report.matches("whole").count(), 3);
    let text = summary.to_string();
    ensure!(text.contains("seed 1000 failed to run: ") && text.contains("killed\n"), "{text}");
    ensure!(!text.contains("by\n"), "{text}");
    ensure!(text.contains("[3, 4, 17, 501]") && text.contains("[17, 1000]"), "{text}");
    let text = summary.families.to_string();
    ensure!(
        text.contains("3 reduced programs have popc, st:\n   2 popc.b32 R, t; st.b32"),
        "{text}"
    );
    ensure!(text.contains("%r3;") && !text.contains("%r4;") && !text.contains("whole"), "{text}");
    Ok(())
}
