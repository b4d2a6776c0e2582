//! A program in C finds the libraries by NVIDIA's names.
#![cfg(target_os = "linux")]

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The libraries that cargo has built for this test, and their names.
const LIBRARIES: [(&str, &str); 4] = [
    ("libcuda_emu.so", "libcuda.so.1"),
    ("libcublas_13.so", "libcublas.so.13"),
    ("libcufft_12.so", "libcufft.so.12"),
    ("libcurand_10.so", "libcurand.so.10"),
];

#[test]
fn a_program_in_c_links_the_libraries_by_their_names() {
    let built = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("program");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-o"]).arg(&program).arg(source);
    for (file, name) in LIBRARIES {
        let library = built.with_file_name(file);
        assert!(library.exists(), "there is no {}", library.display());
        symlink(library, folder.path().join(name)).unwrap();
        compiler.arg(folder.path().join(name));
    }
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(&program).env("LD_LIBRARY_PATH", folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said == "all is right\n", "{said}");
    // The loader prints a warning for a library without the versions of symbols that a program asks for.
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
