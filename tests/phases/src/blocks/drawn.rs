//! Generated kernels over blocks: the CPU and the software device compute the same bits, or report the same fault.

use std::process::Command;

use gpu_phases::Fault;
use gpu_phases::kernel::CpuError;

use crate::both;

/// How a program ended: both with the same bits, or with these faults.
type Ended = Result<(), (CpuError, Option<Fault>, bool)>;

/// A program, and how many checks it has that can be made to fail.
struct Drawn {
    name: &'static str,
    run: fn(u32, usize, usize) -> Ended,
    /// Returns its C++.
    source: fn() -> String,
    sites: u32,
}

/// Returns numbers to read.
fn inputs() -> (Vec<i32>, Vec<u32>, Vec<f32>) {
    let y: Vec<u32> = (0..300u32).map(|i| i.wrapping_mul(2_654_435_761) >> 5).collect();
    let x = y.iter().map(|y| (*y % 2000) as i32 - 1000).collect();
    let f = y.iter().map(|y| (*y % 977) as f32 * 0.37 - 100.0).collect();
    (x, y, f)
}

/// Numbers that an output has before.
trait Start {
    fn at(i: usize) -> Self;
}

macro_rules! starts {
    ($($name:ident)*) => {$(
        impl Start for $name {
            fn at(i: usize) -> Self {
                (i * 37 % 101) as Self
            }
        }
    )*};
}

starts!(u8 u32 i32 u64 f32);

fn start<T: Start>(len: usize) -> Vec<T> {
    (0..len).map(T::at).collect()
}

#[allow(
    unused,
    clippy::all,
    clippy::pedantic,
    overflowing_literals,
    unused_comparisons,
    arithmetic_overflow,
    unconditional_panic,
    reason = "the programs are random"
)]
mod generated {
    use gpu_phases::{Atomic, Block, Part, PerThread, Shared, device, kernel};

    use super::*;

    include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
}

/// Processes that share the work.
const PROCESSES: usize = 2;

#[test]
fn drawn_programs_over_blocks_have_equal_bits() {
    let children: Vec<_> = (0..PROCESSES)
        .map(|part| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "blocks::drawn::child", "--ignored", "--nocapture"]);
            // Traces of the faults take much longer than the programs.
            child.env("PHASES_PART", part.to_string()).env("RUST_BACKTRACE", "0");
            child.env("CUDA_EMU_TIMEOUT_MS", "60000");
            child.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
            child.spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    }
}

#[test]
#[ignore = "run by `drawn_programs_over_blocks_have_equal_bits`"]
fn child() {
    let part: usize = std::env::var("PHASES_PART").map_or(0, |part| part.parse().unwrap());
    let only = std::env::var("PHASES_ONLY").ok();
    let mut failed = Vec::new();
    for program in generated::DRAWN.iter().skip(part).step_by(PROCESSES) {
        if only.as_deref().is_some_and(|only| only != program.name) {
            continue;
        }
        if only.is_some() {
            eprintln!("{}", (program.source)());
        }
        if std::panic::catch_unwind(|| all(program)).is_err() {
            failed.push(program.name);
            eprintln!("FAILED {}", program.name);
            let _ = crate::stream().context().take_fault();
            let _ = cuda_emu::findings();
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

fn all(program: &Drawn) {
    let seeds = if crate::is_emulated() { 6 } else { 1 };
    for seed in 1..=seeds {
        if crate::is_emulated() {
            crate::stream().context().synchronize().unwrap();
            assert!(cuda_emu::reseed(Some(seed)), "the device is not idle");
        }
        (program.run)(0, 0, 0).unwrap();
    }
    for site in 1..=program.sites {
        let at = site as usize * 7 % 30;
        if let Err((cpu, fault, failed)) = (program.run)(site, 1, at) {
            let name = program.name;
            assert!(failed, "{name}: the device reports no fault of site {site}: {cpu}");
            assert_eq!(cpu.to_string(), fault.unwrap().to_string(), "{name}: site {site}");
        }
    }
}
