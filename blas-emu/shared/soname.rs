// The build script of each shared library: gives it the soname and the symbol versions that programs ask for.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../soname.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,{SONAME}");
    // Only GNU ld makes the soname the version of each symbol beside the list of exports that rustc passes. Without
    // versions programs run too, and the loader prints that there are none.
    if Command::new("ld.bfd").arg("--version").output().is_ok_and(|output| output.status.success()) {
        println!("cargo:rustc-cdylib-link-arg=-fuse-ld=bfd");
        println!("cargo:rustc-cdylib-link-arg=-Wl,--default-symver");
    } else {
        println!("cargo:warning=ld.bfd is missing: {SONAME} gets no symbol versions, and the loader warns of that");
    }
}
