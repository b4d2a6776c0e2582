//! Multiplications and additions that ptxas may fuse: whatever it does, each is one of two.

use std::fmt;

use ptx_gen::{Form, Pairs};

use super::run::Runner;
use test_harness::{Failure, ensure};

/// What was found of pairs, over all threads.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    /// Answers in all.
    pub(super) pairs: usize,
    /// Those for which both forms give different bits.
    pub(super) told_apart: usize,
    /// Those of them that were fused.
    pub(super) fused: usize,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.pairs += other.pairs;
        self.told_apart += other.told_apart;
        self.fused += other.fused;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pairs, told_apart, fused } = self;
        write!(f, "{pairs} pairs; fusing matters to {told_apart}, of which {fused} were fused")
    }
}

/// Runs the pairs on `tested`, and both of their explicit forms on `trusted` and `tested`; `fuses`
/// says what must become of them, if anything must.
pub(super) fn compare(
    tested: &Runner<'_>,
    trusted: &Runner<'_>,
    programs: &[Pairs],
    fuses: Option<bool>,
) -> Result<Counts, Failure> {
    let (apart, fused) =
        (trusted.pairs(programs, Form::Apart)?, trusted.pairs(programs, Form::Fused)?);
    ensure!(
        apart == tested.pairs(programs, Form::Apart)?,
        "the devices differ in mul.rn and add.rn"
    );
    ensure!(fused == tested.pairs(programs, Form::Fused)?, "the devices differ in fma.rn");
    let mut counts = Counts::default();
    for (at, words) in tested.pairs(programs, Form::Bare)?.iter().enumerate() {
        for (place, &word) in words.iter().enumerate() {
            let (apart, fused) = (apart[at][place], fused[at][place]);
            let fits = match fuses {
                Some(true) => word == fused,
                Some(false) => word == apart,
                None => word == apart || word == fused,
            };
            ensure!(
                fits,
                "pairs of seed {}, thread {}, pair {}: {word:#x}; apart {apart:#x}, fused {fused:#x}",
                programs[at].seed,
                place / Pairs::COUNT,
                place % Pairs::COUNT,
            );
            counts.pairs += 1;
            counts.told_apart += usize::from(apart != fused);
            counts.fused += usize::from(apart != fused && word == fused);
        }
    }
    Ok(counts)
}
