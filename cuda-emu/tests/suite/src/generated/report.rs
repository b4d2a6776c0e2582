//! A program that fails: what is left of it, and how it fails.

use std::fmt::Write;
use std::time::Instant;

use ptx_gen::{Ending, Program, body, changed, instructions, module, reduce};

use super::run::{Runner, inputs};
use test_harness::Failure;

/// How often a reduction runs a program, and how many seconds it takes, at most.
const TRIES: usize = 3000;
const SECONDS: u64 = 60;

/// Whether both devices compute the same, as far as the hashes tell.
pub(super) fn differs(
    program: &Program,
    tested: &Runner<'_>,
    trusted: &Runner<'_>,
) -> Result<bool, Failure> {
    let one = std::slice::from_ref(program);
    Ok(tested.run(one, Ending::Hash, 1)? != trusted.run(one, Ending::Hash, 1)?)
}

/// What is left of a program that differs. A device that fails while it runs one says nothing about
/// that: then it is not smaller. `tried` is called for each run.
pub(super) fn reduced(
    program: &Program,
    tested: &Runner<'_>,
    trusted: &Runner<'_>,
    mut tried: impl FnMut(),
) -> Program {
    let (mut tries, begin) = (0, Instant::now());
    reduce(program, |smaller| {
        tries += 1;
        tried();
        let time = begin.elapsed().as_secs() < SECONDS;
        time && tries < TRIES && differs(smaller, tested, trusted).unwrap_or(false)
    })
}

/// How a report begins: what is left of a program, its rows.
pub(super) const LEFT: &str = "what is left: ";
/// What comes between what is short and the whole text, and what ends a report.
pub(super) const TEXT: &str = "its text:";
pub(super) const END: &str = "end of the report";

/// The text for people: what is left of the program, the first thread that differs, and the whole
/// text to run.
pub(super) fn report(
    program: &Program,
    small: &Program,
    tested: &Runner<'_>,
    trusted: &Runner<'_>,
) -> Result<String, Failure> {
    let one = std::slice::from_ref(small);
    let names = changed(small);
    let words = names.len().max(1);
    let rows = small.rows().join("; ");
    let mut text = format!(
        "{LEFT}{}\nseed {}: reduced from {} to {} instructions\n{}",
        if rows.is_empty() { "calls and meetings alone" } else { &rows },
        program.seed,
        instructions(program),
        instructions(small),
        body(small),
    );
    text += match tested.unoptimised().and_then(|tested| differs(small, &tested, trusted)) {
        Ok(true) => "not optimised, it differs too\n",
        Ok(false) => "not optimised, it does not differ: so the compiler errs\n",
        Err(_) => "not optimised, it does not run\n",
    };
    let got = tested.run(one, Ending::Registers, words)?.concat();
    let wanted = trusted.run(one, Ending::Registers, words)?.concat();
    let different = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
    let thread = different.map_or(0, |at| at / words);
    let given = inputs(program.seed);
    let given = &given[thread * ptx_gen::INPUTS..][..ptx_gen::INPUTS];
    // A string takes all that is written to it.
    let _ = writeln!(text, "thread {thread}, inputs {given:018x?}");
    if different.is_none() {
        text += "no register differs: memory does\n";
    }
    for (at, name) in names.iter().enumerate() {
        let (got, wanted) = (got[thread * words + at], wanted[thread * words + at]);
        let mark = if got == wanted { "" } else { " <-- differs" };
        let _ = writeln!(text, "{name}: {got:#x}, the other device {wanted:#x}{mark}");
    }
    let _ = writeln!(text, "{TEXT}\n{}{END}", module(one, Ending::Hash));
    Ok(text)
}
