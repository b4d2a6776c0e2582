//! Programs that nobody wrote: `ptx-gen` draws them, and a GPU and the software device must agree.
//!
//! - The first thousand, and pairs of bare multiplications and additions, are compared with what a GPU
//!   computed: `suite --record-generated cuda-emu/tests/suite/golden/generated.json` records that, on a GPU.
//! - `suite --generated 100000` runs as many on the GPU and on the software device; it prints
//!   what they consist of. Those that differ are run without the compiler's optimisation, which says
//!   whether the driver's compiler errs or a device, and reduced; families of differences come last, with
//!   an example each, and `--report FILE` has all. A second number is the first seed, and
//!   `--generated 1 17` the program of seed 17 alone; `--tier emu` needs no GPU.
//! - Programs of the grammar's rarer forms have values that the generator computes (`spelled`).
//! - The table that programs are drawn from and the software device agree (`support`).

mod goldens;
mod pairs;
mod report;
mod run;
mod share;
mod spelled;
mod summary;
mod support;
mod versus;

use std::process::ExitCode;

use ptx_gen::{Coverage, Ending, Program, ROUND, TIMES};

use run::Runner;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "generated",
        host(enough_of_everything),
        host(all_that_is_executed_is_drawn = support::all_is_drawn),
        host(all_opcodes_are_asked_for = support::all_opcodes_are_asked_for),
        host(differences_are_found = goldens::differences_are_found),
        host(software_is_not_recorded = goldens::software_is_not_recorded),
        host(shares_are_summed_up = summary::shares_are_summed_up),
        device(programs = goldens::programs),
        device(spelled = spelled::programs),
        fault(bare_apart = |device| goldens::bare(device, false))
            .variables(&[("CUDA_EMU_CONTRACT", "never")]),
        fault(bare_fused = |device| goldens::bare(device, true))
            .variables(&[("CUDA_EMU_CONTRACT", "always")]),
        host(planted_bugs_are_reduced),
    ]
}

/// Programs of one module: the driver's compiler takes some milliseconds to begin.
const BATCH: usize = 32;

/// Does what the command line asks for, if it is something of this module.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let passed = |()| ExitCode::SUCCESS;
    let done = match arguments.next()?.as_str() {
        goldens::RECORD => goldens::record(arguments).map(passed),
        versus::COMMAND => versus::main(arguments),
        share::WORKER => share::run(arguments).map(passed),
        share::VERDICT => share::verdict(arguments).map(passed),
        share::REDUCER => share::reducer(arguments).map(passed),
        _ => return None,
    };
    Some(done.unwrap_or_else(|failure| {
        eprintln!("{failure}");
        ExitCode::FAILURE
    }))
}

/// Arguments that are numbers.
fn numbers(arguments: &[String]) -> Result<Vec<u64>, Failure> {
    arguments.iter().map(|text| text.parse().map_err(Failure::from)).collect()
}

/// A round of programs has every row of the table often enough, and branches, loops and company.
fn enough_of_everything() -> TestResult {
    let mut coverage = Coverage::default();
    (0..ROUND as u64).for_each(|seed| coverage.add(&Program::new(seed)));
    print!("{coverage}");
    let (fewest, rows) = coverage.fewest();
    ensure!(fewest >= TIMES, "{fewest} programs only have {rows:?}");
    if let Some((word, count)) = coverage.fewest_word() {
        ensure!(count >= 20, "{count} programs only have {word}");
    }
    for (what, share) in [
        ("loops", 1.0 / 3.0),
        ("branches", 1.0 / 3.0),
        ("loops that diverge", 0.1),
        ("barriers", 0.1),
        ("shuffles, votes, matrices", 0.1),
        ("atomics", 0.1),
        ("shared atomics", 0.1),
    ] {
        ensure!(coverage.share(what) >= share, "{what}: {}", coverage.share(what));
    }
    Ok(())
}

/// Devices that take one instruction for another are found, and what is left of a program that finds
/// them is a handful of instructions, among them that one.
fn planted_bugs_are_reduced() -> TestResult {
    type Plant = (&'static str, fn(String) -> String);
    let plants: [Plant; 5] = [
        ("prmt.b32.f4e", |text| text.replace("prmt.b32.f4e ", "prmt.b32.b4e ")),
        ("min.s16", |text| text.replace("\tmin.s16 ", "\tmin.u16 ")),
        ("setp.le.u32 %q0", |text| {
            text.replace("\tsetp.le.u32 %q0, %count", "\tsetp.lt.u32 %q0, %count")
        }),
        ("vote.sync.any.pred", |text| text.replace("vote.sync.any.pred", "vote.sync.all.pred")),
        ("st.local.u8", |text| {
            let wrong = "\tst.local.u8 [%local+32]";
            let text = text.replace("\tst.local.u8 [%local+0]", wrong);
            text.replace("\tst.local.u8 [%local+16]", wrong)
        }),
    ];
    // One by one on a GPU the driver would compile for a minute.
    let device = TestDevice::open("emu")?;
    let trusted = Runner::new(&device)?;
    for (opcode, plant) in plants {
        let tested = Runner::new(&device)?.planted(plant);
        let mut found = None;
        for first in (0..ROUND as u64).step_by(BATCH) {
            let programs: Vec<_> = (first..first + BATCH as u64).map(Program::new).collect();
            let got = tested.run(&programs, Ending::Hash, 1)?;
            let wanted = trusted.run(&programs, Ending::Hash, 1)?;
            let different = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
            found = different.map(|at| programs[at].clone());
            if found.is_some() {
                break;
            }
        }
        let program = found.ok_or_else(|| {
            Failure::new(format!("nothing finds a device that is wrong in {opcode}"))
        })?;
        let small = report::reduced(&program, &tested, &trusted, || ());
        let (before, after) = (ptx_gen::instructions(&program), ptx_gen::instructions(&small));
        println!("{opcode}: seed {}, {before} instructions, {after} are left", program.seed);
        // A predicate that is hidden from the compiler is three of them.
        ensure!(after <= 12, "{opcode}: {after} instructions are left of {before}");
        ensure!(ptx_gen::module([&small], Ending::Hash).contains(opcode), "{opcode} is not left");
        let text = report::report(&program, &small, &tested, &trusted)?;
        let differs = text.contains("<-- differs") || text.contains("memory does");
        ensure!(differs && text.contains(&format!("seed {}", program.seed)), "{text}");
        ensure!(text.contains("not optimised, it differs too"), "{text}");
    }
    Ok(())
}
