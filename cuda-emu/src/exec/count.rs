//! Counts of executed instructions, for the report of a run.
//!
//! While they are asked for, the decoder puts an instruction ([`Count`]) in front of each basic block, which counts the
//! block's instructions without a guard, and in front of each instruction with a guard. An instruction counts once for
//! each thread that executes it: not for threads whose guard is false.

use std::collections::BTreeMap;

use ptx::ir::{BinaryOp, Op, Precision};

use super::inst::{Flow, Inst, Lanes};
use super::machine::Machine;

/// The instructions that a [`Count`] stands for.
#[derive(Debug, Default)]
pub(crate) struct Counted {
    /// All of them.
    pub(crate) all: u32,
    /// The approximate ones by name, each as often as it is there.
    pub(crate) approximate: Vec<&'static str>,
}

/// Instructions that a launch executed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Executed {
    /// All instructions, each once for each thread that executed it.
    pub all: u64,
    /// Those of them that are approximate, by name, without `.ftz`.
    pub approximate: BTreeMap<&'static str, u64>,
}

impl Executed {
    /// Adds what a worker counted.
    pub(crate) fn add(&mut self, counted: &[Counted], counts: &[u64]) {
        for (counted, &count) in counted.iter().zip(counts).filter(|(_, count)| **count != 0) {
            self.all += u64::from(counted.all) * count;
            for name in &counted.approximate {
                *self.approximate.entry(name).or_default() += count;
            }
        }
    }
}

/// Counts the lanes that execute the instructions of number imm.
pub(crate) struct Count;
impl Lanes for Count {
    unsafe fn go(m: &mut Machine<'_>, i: &Inst, mask: u32) -> Flow {
        let lanes = u64::from(mask.count_ones());
        if let Some(count) = m.counts.get_mut(i.imm as usize) {
            *count += lanes;
        }
        // This is no instruction of the program.
        m.lane_instructions = m.lane_instructions.wrapping_sub(lanes);
        Flow::Next
    }
}

/// Names of the approximate instructions, and the bounds of their errors in the manual of the PTX ISA. The values that
/// the device computes are within them, as `APPROXIMATE.md` says; so are a GPU's, which are other ones.
const APPROXIMATE: [(&str, &str); 21] = [
    ("ex2.approx.f32", "2 ulp"),
    ("lg2.approx.f32", "2^-22, absolute from 0.5 to 2, else relative"),
    ("sin.approx.f32", "2^-20.5 absolute up to 2 pi, 2^-14.7 up to 100 pi, else none"),
    ("cos.approx.f32", "2^-20.5 absolute up to 2 pi, 2^-14.7 up to 100 pi, else none"),
    ("rcp.approx.f32", "1 ulp"),
    ("rsqrt.approx.f32", "2^-22.9 relative"),
    ("sqrt.approx.f32", "2^-23 relative"),
    ("tanh.approx.f32", "2^-11 relative"),
    ("div.approx.f32", "2 ulp for divisors from 2^-126 to 2^126"),
    ("div.full.f32", "2 ulp"),
    ("rcp.approx.f64", "the manual states none"),
    ("rsqrt.approx.f64", "the manual states none"),
    ("ex2.approx.f16", "2^-9.9 relative"),
    ("ex2.approx.f16x2", "2^-9.9 relative"),
    ("ex2.approx.bf16", "2^-7 relative"),
    ("ex2.approx.bf16x2", "2^-7 relative"),
    ("tanh.approx.f16", "2^-10.987 absolute"),
    ("tanh.approx.f16x2", "2^-10.987 absolute"),
    ("tanh.approx.bf16", "2^-8 absolute"),
    ("tanh.approx.bf16x2", "2^-8 absolute"),
    // Counted as it runs: most fetches are exact.
    ("tex", "by the texture: `SUPPORT.md`"),
];

/// Returns the bound of the error of an approximate instruction, by its name without `.ftz`.
pub(crate) fn bound(name: &str) -> &'static str {
    let known = APPROXIMATE.iter().find(|(known, _)| *known == name);
    known.map_or("unknown", |(_, bound)| bound)
}

/// Returns the name of an approximate instruction; `None` of others.
pub(crate) fn approximate(op: &Op) -> Option<&'static str> {
    let (stem, ty, mode) = match op {
        Op::Unary { op, ty, mode, .. } => (op.name(), *ty, mode),
        Op::Binary { op: BinaryOp::Div, ty, mode, .. } => ("div", *ty, mode),
        _ => return None,
    };
    let precision = match mode.precision {
        Precision::Exact => return None,
        Precision::Full => "full",
        Precision::Approx => "approx",
    };
    let names = APPROXIMATE.iter().map(|(name, _)| *name);
    let mut same = names.filter(|name| name.split('.').eq([stem, precision, ty.name()]));
    // A test compares the table with the instructions that are executed, so that each is named.
    Some(same.next().unwrap_or("another approximate instruction"))
}
