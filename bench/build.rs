//! Names the level of optimisation to the program, which measures nothing without it.

fn main() {
    let level = std::env::var("OPT_LEVEL").unwrap_or_default();
    println!("cargo:rustc-env=BENCH_OPT_LEVEL={level}");
    println!("cargo:rerun-if-changed=build.rs");
}
