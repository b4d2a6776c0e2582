//! What must not compile, and what the compiler says then.
//!
//! The texts are those of rustc 1.95; `TRYBUILD=overwrite cargo test ui::` writes them anew.

use crate::harness::{Case, TestResult};

pub(super) fn cases() -> Vec<Case> {
    // Only Cargo can compile; a copy of this program on another machine can't.
    match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(_) => vec![Case::host("ui::what_compiles_and_what_does_not", compile)],
        None => Vec::new(),
    }
}

fn compile() -> TestResult {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/*.rs");
    // Named after the others, it is expected to compile.
    cases.pass("ui/kernels_pass.rs");
    // Dropping them runs them; it panics, which fails the test, if one is not as written.
    drop(cases);
    Ok(())
}
