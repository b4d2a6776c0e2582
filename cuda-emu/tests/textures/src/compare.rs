//! Comparing what a device computes with what was recorded.

use std::fmt::Write;

use crate::inputs::{INPUTS, inputs};
use crate::modes::{Mode, Operation};

/// How a mode's words differ from recorded ones.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Difference {
    /// Compared words.
    pub compared: usize,
    /// Words that differ. All NaNs are the same.
    pub differing: usize,
    /// The first word that differs.
    pub first: Option<usize>,
    /// The largest difference of finite floats.
    pub largest: f32,
}

/// Compares words with recorded ones.
pub fn difference(mode: &Mode, words: &[u32], recorded: &[u32]) -> Difference {
    let mut difference = Difference::default();
    for (at, (&got, &wanted)) in words.iter().zip(recorded).enumerate() {
        difference.compared += 1;
        let floats = (f32::from_bits(got), f32::from_bits(wanted));
        let nans = mode.reads_floats() && floats.0.is_nan() && floats.1.is_nan();
        if got == wanted || nans {
            continue;
        }
        difference.differing += 1;
        difference.first.get_or_insert(at);
        let error = (floats.0 - floats.1).abs();
        let packed = mode.operation == Operation::Halves;
        if mode.reads_floats() && !packed && error.is_finite() {
            difference.largest = difference.largest.max(error);
        }
    }
    difference
}

/// Describes up to `count` fetches that differ: their inputs and both results.
pub fn describe(mode: &Mode, words: &[u32], recorded: &[u32], count: usize) -> String {
    let mut text = String::new();
    let all = inputs(mode);
    let fetches = words.chunks(4).zip(recorded.chunks(4)).zip(all.chunks(INPUTS)).enumerate();
    let differing = fetches.filter(|(_, ((got, wanted), _))| got != wanted);
    for (at, ((got, wanted), given)) in differing.take(count) {
        let floats = |words: &[u32]| -> Vec<f32> {
            words.iter().map(|word| f32::from_bits(*word)).collect()
        };
        // A string takes all that is written to it.
        let _ = writeln!(
            text,
            "  {at}: {:x?} {:?} {:?} -> {got:x?} {:?}, recorded {wanted:x?} {:?}",
            &given[..5],
            floats(&given[1..5]),
            floats(&given[5..11]),
            floats(got),
            floats(wanted)
        );
    }
    text
}
