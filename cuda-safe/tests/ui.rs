//! Programs that must not compile, and the compiler's errors.
//!
//! The texts are those of rustc 1.95; `TRYBUILD=overwrite cargo test -p cuda-safe --test ui` writes
//! them anew. It is here rather than with the other tests because trybuild builds all that its package depends on, but for
//! what the manifest has for `cfg(not(trybuild))`.

#[test]
fn what_does_not_compile() {
    if !test_support::ui::runs_apart("what_does_not_compile") {
        // With a program that has to run, trybuild would build all libraries instead of checking them.
        trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
    }
}

#[test]
fn the_variance_of_every_generic_type_is_pinned() -> std::io::Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = std::fs::read_to_string(folder.join("../docs/api/cuda-safe.txt"))?;
    let pinned = std::fs::read_to_string(folder.join("tests/ui/variance.rs"))?;
    // A paragraph begins with the item's path.
    let generic = listed.split("\n\n").filter_map(|item| {
        let (path, declaration) = item.split_once('\n')?;
        let mut lines = declaration.lines();
        let (name, parameters) =
            lines.find_map(|line| line.strip_prefix("pub struct "))?.split_once('<')?;
        let (parameters, _) = parameters.split_once('>')?;
        // Lifetimes alone are the compiler's to check. What is in a module of a feature is not always there.
        let has_type = parameters.split(", ").any(|parameter| !parameter.starts_with('\''));
        let optional = ["::dlpack::", "::kernel::"].iter().any(|module| path.contains(module));
        let is_generic = name.chars().all(char::is_alphanumeric);
        (is_generic && has_type && !optional).then_some(name)
    });
    let generic: Vec<&str> = generic.collect();
    assert!(generic.len() > 10, "{generic:?}");
    let missing: Vec<_> =
        generic.iter().filter(|name| !pinned.contains(&format!("(x: {name}<"))).collect();
    assert!(missing.is_empty(), "tests/ui/variance.rs has no line for {missing:?}");
    Ok(())
}
