//! Programs that must not compile, and the compiler's errors.
//!
//! The texts are those of rustc 1.95; `TRYBUILD=overwrite cargo test -p cuda-safe --test ui` writes
//! them anew. It is here rather than with the other tests because trybuild
//! builds all that its package depends on.

#[test]
fn what_compiles_and_what_does_not() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/*.rs");
    // Named after the others, it is expected to compile.
    cases.pass("tests/ui/kernels_pass.rs");
    cases.pass("tests/ui/kernels_pass_names.rs");
}
