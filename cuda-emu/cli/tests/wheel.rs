//! The wheel, installed into a fresh virtual environment.

mod common;

use std::path::Path;
use std::process::Command;

use common::{Folder, text};
use xtask::wheel::{Contents, newest_glibc};

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels.ptx");

/// Runs a command that must succeed, and returns its standard output and error.
fn done(command: &mut Command) -> (String, String) {
    let output = command.output().unwrap();
    let shown = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{}{}", output.status, shown.0, shown.1);
    shown
}

#[test]
fn a_fresh_environment_runs_programs_in_c_and_python() {
    let folder = Folder::new();
    let command = Path::new(env!("CARGO_BIN_EXE_cuda-emu"));
    let device = command.with_file_name("deps/libcuda_emu.so");
    let contents = Contents {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: command.to_path_buf(),
        libraries: vec![device.clone()],
    };
    let wheel = contents.pack(folder.path()).unwrap();
    let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
    let needed =
        [command, &device].map(|path| newest_glibc(&std::fs::read(path).unwrap()).unwrap());
    let (major, minor) = needed.into_iter().max().unwrap().max((2, 17));
    let tag = format!("py3-none-manylinux_{major}_{minor}_{}.whl", std::env::consts::ARCH);
    assert!(name.starts_with("cuda_emu-") && name.ends_with(&tag), "{name}");

    let python = xtask::wheels::python().unwrap();
    let environment = folder.path().join("venv");
    done(Command::new(&python).args(["-m", "venv"]).arg(&environment));
    let own = environment.join("bin/python");
    let mut pip = Command::new(&own);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]);
    done(pip.arg(&wheel));
    // The command and the library are there, and pip knows all files.
    let (files, _) = done(Command::new(&own).args(["-m", "pip", "show", "--files", "cuda-emu"]));
    for file in [
        "bin/cuda-emu",
        "cuda-emu/libcuda_emu.so",
        "licenses/LICENSE-MIT",
        "licenses/third-party/crates.txt",
    ] {
        assert!(files.contains(file), "{files}");
    }
    for (file, wanted) in [("bin/cuda-emu", command), ("lib/cuda-emu/libcuda_emu.so", &device)] {
        let same = std::fs::read(environment.join(file)).unwrap() == std::fs::read(wanted).unwrap();
        assert!(same, "{file}");
    }

    // Neither cargo's variables nor a search path of the test help the installed command.
    let installed = || {
        let mut run = Command::new(environment.join("bin/cuda-emu"));
        run.env_clear().env("PATH", "/usr/bin:/bin").args(["run", "--device", "a100", "--"]);
        run
    };
    let (out, report) = done(
        installed()
            .arg(&own)
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ctypes_program.py"))
            .arg(KERNELS),
    );
    assert_eq!(out, "CUDA emulator (software), A100 SXM\n");
    assert!(report.contains("other: 1 launch of 1 block and 64 threads"), "{report}");

    let link = folder.path().join("link");
    std::fs::create_dir(&link).unwrap();
    std::os::unix::fs::symlink(&device, link.join("libcuda.so.1")).unwrap();
    let place = format!("-L{}", link.display());
    let program =
        folder.compiled("program", include_str!("program.c"), &[&place, "-l:libcuda.so.1"]);
    std::fs::remove_dir_all(link).unwrap();
    let (out, report) = done(installed().arg(&program).arg(KERNELS));
    assert!(out.contains("A100 SXM: 108 multiprocessors"), "{out}");
    assert!(report.contains("steady: 2 launches of 4 blocks and 130 threads"), "{report}");
    let version = environment.join("bin/cuda-emu");
    let (version, _) = done(Command::new(version).arg("--version"));
    assert_eq!(version, format!("cuda-emu {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn what_not_every_system_has_is_no_wheel() {
    let folder = Folder::new();
    let library = "int own(void) { return 1; }";
    folder.compiled("libown.so", library, &["-shared", "-fPIC", "-Wl,-soname,libown.so"]);
    let place = format!("-L{}", folder.path().display());
    let user = "int own(void); int main(void) { return own(); }";
    let user = folder.compiled("user", user, &[&place, "-lown"]);
    let contents = Contents { version: "1.0".to_owned(), command: user, libraries: Vec::new() };
    let error = contents.pack(folder.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("libown.so"), "{error}");
}
