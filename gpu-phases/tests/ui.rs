//! Kernels that must not compile, with their errors.
//!
//! `TRYBUILD=overwrite cargo test -p gpu-phases --test ui` writes the errors anew. Each file is one run of rustc, so kernels
//! that fail in the same pass of it stand together.

use std::fs;
use std::io;

#[test]
fn what_does_not_compile() {
    // With a program that has to run, trybuild would build all libraries instead of checking them.
    trybuild::TestCases::new().compile_fail("tests/ui/refused_*.rs");
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
