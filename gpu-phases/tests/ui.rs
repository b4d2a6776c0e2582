//! Kernels that must not compile, with their errors, and one file of kernels that must.
//!
//! `TRYBUILD=overwrite cargo test -p gpu-phases --test ui` writes the errors anew. Each file is one run of rustc, so kernels
//! that fail in the same pass of it stand together.

#[test]
fn what_compiles_and_what_does_not() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/ui/refused_*.rs");
    cases.pass("tests/ui/pass_*.rs");
}
