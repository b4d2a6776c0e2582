//! Kernels that must not compile, with their errors, and one file of kernels that must.
//!
//! `TRYBUILD=overwrite cargo test -p gpu-phases --test ui` writes the errors anew. Each file is one run of rustc, so kernels
//! that fail in the same pass of it stand together.

use std::fs;
use std::io;

#[test]
fn what_compiles_and_what_does_not() {
    if test_support::ui::runs_apart("what_compiles_and_what_does_not") {
        return;
    }
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/refused_*.rs");
    // With a program that has to run, trybuild builds instead of checking: rustc reports some errors of constants only then.
    cases.pass("tests/ui/pass_*.rs");
}

/// A kernel over blocks that begins to compile is missed, also when the errors are written anew. Errors of the sizes of
/// blocks are in no line of the kernel.
#[test]
fn every_kernel_over_blocks_has_an_error() -> io::Result<()> {
    let mut kernels = 0;
    for name in [
        "refused_blocks",
        "refused_block_code",
        "refused_block_memory",
        "refused_block_types",
        "refused_block_uses",
    ] {
        let source = fs::read_to_string(format!("tests/ui/{name}.rs"))?;
        let errors = fs::read_to_string(format!("tests/ui/{name}.stderr"))?;
        let lines = errors.split("--> tests/ui/").skip(1);
        let lines = lines.filter_map(|place| place.split(':').nth(1)?.parse().ok());
        let lines: Vec<usize> = lines.collect();
        let source: Vec<&str> = source.lines().collect();
        for (begin, _) in source.iter().enumerate().filter(|(_, line)| **line == "#[kernel]") {
            let end = source[begin..].iter().position(|line| *line == "}").unwrap_or(0);
            let refused = lines.iter().any(|line| (begin + 1..=begin + 1 + end).contains(line));
            assert!(refused, "{name}.rs: no error in {}", source[begin + 1]);
            kernels += 1;
        }
    }
    assert!(kernels >= 150, "{kernels} kernels");
    Ok(())
}
