//! How much of what a test repeats is tried, and which part of it.
//!
//! Every run executes every test. The repetitions of one test (faults, schedules, mutants) are a sample, drawn from a
//! seed: `cargo xtask test` takes the commit's hash unless `--seed` names another, so that each commit draws its own
//! part and the same commit the same one.

use std::sync::OnceLock;

/// The variable that asks for the long version of each test.
pub const DEEP_VARIABLE: &str = "TEST_DEEP";

/// The variable that asks for the samples of CI, which are larger than those of a developer's run.
pub const CI_VARIABLE: &str = "TEST_CI";

/// The variable whose text is the seed of all samples.
pub const SEED_VARIABLE: &str = "TEST_SEED";

/// How much a run tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    /// Each test, and a small sample of repetitions.
    Quick,
    /// Each test, and the sample that CI wants.
    Ci,
    /// All repetitions, and larger sizes.
    Deep,
}

fn asked(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The settings in the environment.
#[must_use]
pub fn effort() -> Effort {
    match (asked(DEEP_VARIABLE), asked(CI_VARIABLE)) {
        (true, _) => Effort::Deep,
        (false, true) => Effort::Ci,
        (false, false) => Effort::Quick,
    }
}

/// Returns whether the long versions of tests are asked for.
#[must_use]
pub fn deep() -> bool {
    effort() == Effort::Deep
}

/// The text of the seed; `"0"` if the environment names none.
#[must_use]
pub fn seed_text() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| std::env::var(SEED_VARIABLE).unwrap_or_else(|_| "0".to_owned()))
}

/// The seed of all samples: FNV-1a of [`seed_text`], which is the same on every machine.
#[must_use]
pub fn seed() -> u64 {
    hash(seed_text().as_bytes())
}

fn hash(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// The beginning of a command that draws the same sample again.
#[must_use]
pub fn environment() -> String {
    let effort = match effort() {
        Effort::Quick => String::new(),
        Effort::Ci => format!("{CI_VARIABLE}=1 "),
        Effort::Deep => format!("{DEEP_VARIABLE}=1 "),
    };
    format!("{effort}{SEED_VARIABLE}={} ", seed_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vectors of FNV-1a.
    #[test]
    fn the_seed_is_fnv_1a() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn efforts_are_ordered() {
        assert!(Effort::Quick < Effort::Ci && Effort::Ci < Effort::Deep);
    }
}
