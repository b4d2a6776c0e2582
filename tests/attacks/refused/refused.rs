//! Attacks that must not compile. `TRYBUILD=overwrite cargo test -p attacks-refused` writes the compiler's errors
//! anew.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

#[test]
fn the_compiler_refuses() {
    if !test_support::ui::runs_apart("the_compiler_refuses") {
        trybuild::TestCases::new().compile_fail("programs/*.rs");
    }
}

/// So an error that rustc no longer reaches is missed, also when the texts are written anew.
#[test]
fn errors_are_in_the_marked_lines() -> io::Result<()> {
    let mut count = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("programs"))? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let source = fs::read_to_string(&path)?;
        let marked = source.lines().enumerate().filter(|(_, line)| line.ends_with("//~ refused"));
        let marked: BTreeSet<usize> = marked.map(|(index, _)| index + 1).collect();
        let errors = fs::read_to_string(path.with_extension("stderr"))?;
        let mut refused = BTreeSet::new();
        for error in errors.split("\nerror") {
            let place = error.lines().find_map(|line| line.split_once("--> ")).map(|it| it.1);
            let line = place.and_then(|place| place.split(':').nth(1)?.parse().ok());
            refused.insert(line.unwrap_or(0));
        }
        assert_eq!(marked, refused, "{}", path.display());
        count += refused.len();
    }
    assert!(count > 100, "{count} lines");
    Ok(())
}
