//! The programs, and what is expected of whom.

use super::lab::Lab;
use super::program::Verdict::{Finds, Nothing};
use super::program::{Program, Tool, check};
use test_harness::{Case, Failure, TestResult, ensure, ensure_eq};

/// As many as every program that needs words has.
const WORDS: usize = 256;

/// The bodies of the kernels: `== name`, a comment and the instructions.
const BODIES: [&str; 2] =
    [include_str!("programs/barriers.txt"), include_str!("programs/memory.txt")];

/// What all kernels begin with.
const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n\n\
    .visible .entry program(.param .u64 out, .param .u64 in)\n{\n";

/// Returns the text of a kernel.
fn ptx(name: &str) -> Result<String, Failure> {
    let bodies = BODIES.iter().flat_map(|text| text.split("== ").skip(1));
    let found = bodies.filter_map(|body| body.split_once('\n')).find(|(of, _)| *of == name);
    let (_, body) = found.ok_or_else(|| Failure::new(format!("there is no kernel {name}")))?;
    Ok(format!("{HEAD}{body}}}\n"))
}

/// Declares the programs, and their cases.
macro_rules! programs {
    ($($name:literal $tool:ident $run:expr => $ours:ident, $theirs:ident $(, $why:literal)?;)+) => {
        pub(super) const PROGRAMS: &[Program] = &[$(Program {
            name: $name,
            tool: Tool::$tool,
            run: $run,
            ours: $ours,
            theirs: $theirs,
            why: concat!($($why)?),
        }),+];

        pub(super) fn cases() -> Vec<Case> {
            vec![$(Case::host(concat!("checkers::", $name), || check($name))),+]
        }
    };
}

/// A program that is one launch of the kernel of its name, on memory that is all written.
macro_rules! launch {
    ($file:literal, $blocks:literal, $threads:literal) => {
        |lab| on_zeros(lab, &ptx($file)?, ($blocks, $threads))
    };
}

programs! {
    // Shared memory, neighbouring threads.
    "neighbours_no_barrier" Race launch!("neighbours_no_barrier", 1, 64) => Finds, Finds;
    "neighbours_barrier" Race launch!("neighbours_barrier", 1, 64) => Nothing, Nothing;
    "other_warp_no_barrier" Race launch!("other_warp_no_barrier", 1, 64) => Finds, Finds;
    "warp_barrier" Race launch!("warp_barrier", 1, 64) => Nothing, Nothing;
    "one_warp_without_barrier" Race launch!("one_warp_without_barrier", 1, 64) => Finds, Finds;
    "warp_barrier_other_warp" Race launch!("warp_barrier_other_warp", 1, 64) => Finds, Finds;
    "barrier_of_each_warp" Race launch!("barrier_of_each_warp", 1, 64) => Finds, Nothing,
        "racecheck 2025.3 takes each warp's own barrier for one of all";
    "shuffle_between" Race launch!("shuffle_between", 1, 64) => Finds, Finds;
    "fence_between" Race launch!("fence_between", 1, 64) => Finds, Finds;
    // Patterns of barriers.
    "reduction" Race launch!("reduction", 1, 128) => Nothing, Nothing;
    "reduction_last_warp" Race launch!("reduction_last_warp", 1, 128) => Finds, Finds;
    "named_barriers" Race launch!("named_barriers", 1, 128) => Nothing, Nothing;
    "producer_consumer" Race launch!("producer_consumer", 1, 64) => Nothing, Nothing;
    "consumer_reads_first" Race launch!("consumer_reads_first", 1, 64) => Finds, Finds;
    "loop_two_barriers" Race launch!("loop_two_barriers", 1, 64) => Nothing, Nothing;
    "loop_one_barrier" Race launch!("loop_one_barrier", 1, 64) => Finds, Finds;
    "mbarrier_handover" Race launch!("mbarrier_handover", 1, 64) => Nothing, Nothing;
    "mbarrier_no_wait" Race launch!("mbarrier_no_wait", 1, 64) => Finds, Finds;
    // One word, several writers.
    "atomic_counts" Race launch!("atomic_counts", 1, 64) => Nothing, Nothing;
    "atomic_against_plain" Race launch!("atomic_against_plain", 1, 64) => Finds, Nothing,
        "racecheck 2025.3 does not hold atomics against other accesses";
    "all_write_one_value" Race launch!("all_write_one_value", 1, 64) => Nothing, Nothing;
    "all_write_their_own" Race launch!("all_write_their_own", 1, 64) => Finds, Finds;
    "bytes_of_a_word" Race launch!("bytes_of_a_word", 1, 64) => Nothing, Nothing;
    "bytes_overlap" Race launch!("bytes_overlap", 1, 64) => Finds, Finds;
    // Copies that run on their own.
    "async_copy" Race launch!("async_copy", 1, 64) => Nothing, Nothing;
    "async_copy_no_wait" Race launch!("async_copy_no_wait", 1, 64) => Finds, Finds;
    // Global memory.
    "global_neighbours" Race launch!("global_neighbours", 1, 64) => Finds, Nothing,
        "racecheck looks at shared memory alone";
    "global_neighbours_barrier" Race launch!("global_neighbours_barrier", 1, 64)
        => Nothing, Nothing;
    "last_block" Race launch!("last_block", 4, 1) => Nothing, Nothing;
    "last_block_no_fence" Race launch!("last_block_no_fence", 4, 1) => Finds, Nothing,
        "racecheck looks at shared memory alone";
    // Memory that was not written.
    "nothing_written" Init |lab| copy_words(lab, 0) => Finds, Finds;
    "half_written" Init |lab| copy_words(lab, 32) => Finds, Finds;
    "one_word_missing" Init |lab| copy_words(lab, 63) => Finds, Finds;
    "all_written" Init |lab| copy_words(lab, 64) => Nothing, Nothing;
    "written_by_kernel" Init written_by_kernel => Nothing, Nothing;
    "read_by_host" Init read_by_host => Finds, Finds;
    "shared_unwritten" Init launch!("shared_unwritten", 1, 64) => Finds, Nothing,
        "initcheck 2025.3 looks at global memory alone";
    // What is left.
    "memory_freed" Leak |lab| lab.free(lab.memory(WORDS)?) => Nothing, Nothing;
    "memory_left" Leak |lab| lab.memory(WORDS).map(drop) => Finds, Finds;
    "stream_left" Leak |lab| lab.stream().map(drop) => Finds, Nothing,
        "memcheck looks for memory alone";
}

/// Runs a kernel on two buffers of zeros.
fn on_zeros(lab: &Lab, ptx: &str, shape: (u32, u32)) -> TestResult {
    let arguments = [lab.zeros(WORDS)?, lab.zeros(WORDS)?];
    lab.launch(ptx, shape, arguments)?;
    arguments.into_iter().try_for_each(|at| lab.free(at))
}

/// A kernel copies 64 words, of which so many were written.
fn copy_words(lab: &Lab, written: u32) -> TestResult {
    let (out, input) = (lab.zeros(64)?, lab.memory(64)?);
    if written > 0 {
        lab.upload(input, &(0..written).collect::<Vec<_>>())?;
    }
    lab.launch(&ptx("copy_words")?, (1, 64), [out, input])?;
    lab.free(out)?;
    lab.free(input)
}

/// One kernel writes what the next one reads.
fn written_by_kernel(lab: &Lab) -> TestResult {
    let (out, input) = (lab.zeros(64)?, lab.memory(64)?);
    lab.launch(&ptx("write_words")?, (1, 64), [out, input])?;
    lab.launch(&ptx("copy_words")?, (1, 64), [out, input])?;
    ensure_eq!(lab.download(out, 64)?, (0..64).collect::<Vec<_>>());
    lab.free(out)?;
    lab.free(input)
}

/// The host copies words that nothing has written.
fn read_by_host(lab: &Lab) -> TestResult {
    let at = lab.memory(64)?;
    lab.download(at, 64)?;
    lab.free(at)
}

/// As many as were promised, and a reason wherever the two differ.
pub(super) fn enough_programs() -> TestResult {
    ensure!(PROGRAMS.len() >= 30, "{}", PROGRAMS.len());
    for Program { name, ours, theirs, why, .. } in PROGRAMS {
        ensure!((ours == theirs) == why.is_empty(), "{name}: {why}");
    }
    Ok(())
}
