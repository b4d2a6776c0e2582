//! The generator's table and the software device agree.

use std::collections::BTreeSet;

use cuda_emu::exec::{DeviceInfo, Program};
use cuda_emu::space::Space;
use ptx_gen::{EXCEPTIONS, UNIVERSE, expand, probe, rows};

use test_harness::{Failure, TestResult, ensure};

/// Where the parser chooses by the opcode, and its opcodes with one and two sources.
const FAMILIES: &str = include_str!("../../../../../ptx/src/parse/instr/mod.rs");
const TYPES: &str = include_str!("../../../../../ptx/src/ir/types.rs");
/// Statements of programs, not rows of the table.
const STATEMENTS: [&str; 2] = ["brx", "call"];

/// The newest `.version` with a target that has all instructions, and ones with which `shfl` and `vote` need no `.sync`.
const HEADS: [(&str, &str); 2] = [("9.0", "sm_100a"), ("6.3", "sm_60")];

/// The words of those instructions of the list that the software device executes.
fn executed(instructions: &[String]) -> Result<BTreeSet<String>, Failure> {
    let space = Space::new()?;
    let device = DeviceInfo { cc: (10, 0), ..DeviceInfo::default() };
    let mut executed = BTreeSet::new();
    // One by one: what does not even parse is refused as a whole.
    for instruction in instructions {
        let kernel = probe("probe", instruction);
        for (version, target) in HEADS {
            let text = format!(".version {version}\n.target {target}\n.address_size 64\n{kernel}");
            let Ok(program) = Program::load(&text, &space, &device) else { continue };
            let entry = program.entry("probe").ok_or_else(|| Failure::new("no kernel"))?;
            if program.refused(entry).is_none() {
                executed.insert(instruction.split(' ').next().unwrap_or_default().to_owned());
            }
        }
    }
    Ok(executed)
}

/// What the device executes is drawn, or is one of the exceptions, each of which is still one.
pub(super) fn all_is_drawn() -> TestResult {
    let universe: Vec<_> = UNIVERSE.iter().flat_map(|line| expand(line)).collect();
    let executed = executed(&universe)?;
    let drawn: BTreeSet<String> = rows().iter().flat_map(ptx_gen::Row::instructions).collect();
    let excepted: Vec<(&str, Vec<String>)> = EXCEPTIONS
        .iter()
        .flat_map(|(_, patterns)| patterns.iter().map(|pattern| (*pattern, expand(pattern))))
        .collect();
    let missing: Vec<_> = executed
        .iter()
        .filter(|one| !drawn.contains(*one) && !excepted.iter().any(|(_, set)| set.contains(one)))
        .collect();
    let unknown: Vec<_> = drawn.iter().filter(|one| !executed.contains(*one)).collect();
    println!(
        "{} forms, of which the device executes {}; {} are drawn, {} excepted",
        universe.len(),
        executed.len(),
        executed.intersection(&drawn).count(),
        executed.difference(&drawn).count(),
    );
    ensure!(missing.is_empty(), "executed and never drawn: {missing:#?}");
    ensure!(unknown.is_empty(), "drawn, but not of the universe or not executed: {unknown:#?}");
    for (pattern, set) in &excepted {
        let idle = set.iter().all(|one| drawn.contains(one) || !executed.contains(one));
        ensure!(!idle, "no exception any more: {pattern}");
    }
    Ok(())
}

/// All opcodes that the parser takes apart, and so all that the device may execute, are asked for.
pub(super) fn all_opcodes_are_asked_for() -> TestResult {
    let asked: BTreeSet<String> = UNIVERSE
        .iter()
        .flat_map(|line| expand(line))
        .filter_map(|form| Some(form.split([' ', '.']).next()?.to_owned()))
        .collect();
    let (_, families) = FAMILIES
        .split_once("match name {")
        .ok_or_else(|| Failure::new("the parser no longer matches opcodes"))?;
    let mut known: Vec<String> = quoted(families).map(str::to_owned).collect();
    for (words, suffixes) in [("UnaryOp", &[""][..]), ("BinaryOp", &[""]), ("VideoOp", &["2", "4"])]
    {
        let (_, list) = TYPES
            .split_once(&format!("pub enum {words} {{"))
            .ok_or_else(|| Failure::new(format!("there is no {words}")))?;
        let list = list.split('}').next().unwrap_or_default();
        known.extend(
            quoted(list).flat_map(|word| suffixes.iter().map(move |end| format!("{word}{end}"))),
        );
    }
    ensure!(known.len() > 90, "only {} opcodes were found", known.len());
    let forgotten: Vec<_> = known
        .iter()
        .filter(|word| !asked.contains(*word) && !STATEMENTS.contains(&word.as_str()))
        .collect();
    ensure!(forgotten.is_empty(), "nobody asks the device for {forgotten:?}");
    Ok(())
}

/// The words in quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('"').skip(1).step_by(2)
}
