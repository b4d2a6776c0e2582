//! `cuda-emu run` with programs that print, fail, and cannot run.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use common::{Folder, cuda_emu, text};

fn output(words: &[&str]) -> Output {
    cuda_emu(words).output().unwrap()
}

/// Runs `run -- PROGRAM` and checks its failure.
fn refused(program: &Path, status: i32, wanted: &str) {
    let ran = output(&["run", "--", program.to_str().unwrap()]);
    let message = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(status), "{message}");
    assert!(message.contains(wanted), "`{wanted}` is not in: {message}");
    assert!(message.starts_with("cuda-emu: "), "{message}");
    assert_eq!(text(&ran.stdout), "");
}

#[test]
fn the_exit_status_and_the_streams_are_the_programs() {
    for status in [0, 1, 42, 125, 255] {
        let script = format!("cat; echo out; echo err >&2; exit {status}");
        let mut child = cuda_emu(&["run", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"in\n").unwrap();
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(status));
        assert_eq!(text(&ran.stdout), "in\nout\n");
        assert!(text(&ran.stderr).starts_with("err\n"));
    }
}

#[test]
fn death_by_a_signal_is_passed_on() {
    for (name, signal) in [("KILL", 9), ("ABRT", 6), ("SEGV", 11), ("TERM", 15)] {
        let ran = output(&["run", "--", "sh", "-c", &format!("kill -{name} $$")]);
        assert_eq!(ran.status.signal(), Some(signal), "{name}");
    }
}

#[test]
fn signals_reach_the_program() {
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1), ("USR1", 10)] {
        // `sleep` ends with the shell's standard output, so it does not outlive the test.
        let script =
            format!("trap 'echo got; exit 7' {name}; echo ready; while :; do sleep 0.05; done");
        let mut command = cuda_emu(&["run", "--", "sh", "-c", &script]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        // SAFETY: `signal` may be called between `fork` and `exec`.
        unsafe {
            command.pre_exec(move || {
                // A shell starts background jobs with some signals ignored, and an ignored one is not passed on.
                libc::signal(number, libc::SIG_DFL);
                Ok(())
            });
        }
        let mut child = command.spawn().unwrap();
        let mut out = child.stdout.take().unwrap();
        let mut line = [0; 6];
        std::io::Read::read_exact(&mut out, &mut line).unwrap();
        assert_eq!(&line, b"ready\n");
        let kill =
            Command::new("kill").args([format!("-{number}"), child.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let start = Instant::now();
        let ended = loop {
            match child.try_wait().unwrap() {
                Some(ended) => break ended,
                None if start.elapsed() > Duration::from_secs(30) => {
                    panic!("{name} was not passed on")
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        assert_eq!(ended.code(), Some(7), "{name}");
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
        assert_eq!(rest, "got\n");
    }
}

#[test]
fn the_variables_are_set_and_the_folder_is_removed() {
    let show = "echo $CUDA_DRIVER; echo $LD_LIBRARY_PATH; echo $CUDA_EMU_DEVICE $CUDA_EMU_DEVICES \
                $CUDA_EMU_SEED $CUDA_EMU_CHECK $CUDA_EMU_PTX $CUDA_EMU_HEAP; ls ${LD_LIBRARY_PATH%%:*}";
    let ran = cuda_emu(&[
        "run",
        "--device",
        "L4",
        "--devices",
        "3",
        "--seed",
        "5",
        "--check",
        "race,init",
        "--check",
        "leak",
        "--ptx",
        "9.5",
        "sh",
        "-c",
        show,
    ])
    .env("LD_LIBRARY_PATH", "/nowhere")
    .env("CUDA_EMU_HEAP", "4M")
    .output()
    .unwrap();
    let out = text(&ran.stdout);
    let lines: Vec<&str> = out.lines().collect();
    let folder = lines[1].strip_suffix(":/nowhere").unwrap();
    assert_eq!(lines[0], format!("{folder}/libcuda.so.1"));
    assert_eq!(lines[2].to_lowercase(), "l4 3 5 race,init,leak 9.5 4m");
    assert!(lines[3..].contains(&"libcuda.so.1"), "{out}");
    assert!(!Path::new(folder).exists());
}

#[test]
fn what_is_missing_is_127() {
    let folder = Folder::new();
    refused(&folder.path().join("nothing"), 127, "no such program");
    refused(Path::new("no-program-has-this-name"), 127, "no such program");
    refused(Path::new(""), 127, "no such program");
}

#[test]
fn what_cannot_be_executed_is_126() {
    let folder = Folder::new();
    refused(folder.path(), 126, "a folder");
    refused(&folder.file("plain", b"#!/bin/sh\n", 0o644), 126, "not executable");
    refused(&folder.file("noise", b"\0\x01\x02", 0o755), 126, "neither a program nor a script");
    refused(&folder.file("lost", b"#!/no/such/thing\n", 0o755), 126, "no such program");
    let two = folder.file("two", format!("#!{}/two\n", folder.path().display()).as_bytes(), 0o755);
    refused(&two, 126, "too many scripts");
}

#[test]
fn scripts_run_through_their_interpreters() {
    let folder = Folder::new();
    for (name, source) in [
        ("direct", "#!/bin/sh\necho \"$0 $1\"\n"),
        ("by-env", "#!/usr/bin/env sh\necho \"$0 $1\"\n"),
        ("bare", "echo \"$0 $1\"\n"),
    ] {
        let path = folder.file(name, source.as_bytes(), 0o755);
        let path = path.to_str().unwrap();
        let ran = output(&["run", "--", path, "word"]);
        assert_eq!(text(&ran.stdout), format!("{path} word\n"), "{}", text(&ran.stderr));
    }
    let empty = folder.file("empty", b"", 0o755);
    assert_eq!(output(&["run", "--", empty.to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn programs_that_load_no_library_are_refused() {
    let folder = Folder::new();
    let main = "int main(void) { return 3; }";
    let right = folder.compiled("dynamic", main, &[]);
    assert_eq!(output(&["run", "--", right.to_str().unwrap()]).status.code(), Some(3));
    // A C library for static programs need not be installed.
    let start = "void _start(void) { for (;;) {} }";
    let fixed = folder.compiled("static", start, &["-static", "-nostdlib"]);
    refused(&fixed, 126, "statically linked");
    let script = folder.file("script", format!("#!{}\n", fixed.display()).as_bytes(), 0o755);
    refused(&script, 126, "its interpreter");
    let mut bytes = fs::read(&right).unwrap();
    // ELF's machine: 40 is ARM with 32 bits.
    (bytes[18], bytes[19]) = (40, 0);
    refused(&folder.file("arm", &bytes, 0o755), 126, "is for 32-bit ARM");
    for length in [4, 5, 16, 19, 20, 63, 64, 100] {
        let whole = fs::read(&right).unwrap();
        refused(&folder.file("cut", &whole[..length], 0o755), 126, "damaged");
    }
}

#[test]
fn nvidias_static_runtime_is_refused() {
    let folder = Folder::new();
    let defined =
        "void **__cudaRegisterFatBinary(void *x) { return x; } int main(void) { return 0; }";
    refused(&folder.compiled("defined", defined, &[]), 126, "-cudart shared");
    let kernels =
        "__attribute__((section(\".nvFatBinSegment\"), used)) static int kernels[4] = {1};
                   int main(void) { return 0; }";
    refused(&folder.compiled("stripped", kernels, &["-s"]), 126, "-cudart shared");
    // With the shared runtime, the function is imported.
    let library = "void **__cudaRegisterFatBinary(void *x) { return x; }";
    folder.compiled("libruntime.so", library, &["-shared", "-fPIC"]);
    let user = "void **__cudaRegisterFatBinary(void *);
                __attribute__((section(\".nvFatBinSegment\"), used)) static int kernels[4] = {1};
                int main(void) { return __cudaRegisterFatBinary(kernels) == 0; }";
    let at = folder.path().to_str().unwrap();
    let (place, loaded) = (format!("-L{at}"), format!("-Wl,-rpath,{at}"));
    let shared = folder.compiled("shared", user, &[&place, "-lruntime", &loaded]);
    assert_eq!(output(&["run", "--", shared.to_str().unwrap()]).status.code(), Some(0));
}

#[test]
fn programs_with_other_rights_are_refused() {
    let folder = Folder::new();
    let own = folder.compiled("own", "int main(void) { return 0; }", &[]);
    // The rights of the caller itself change nothing.
    fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
    assert_eq!(output(&["run", "--", own.to_str().unwrap()]).status.code(), Some(0));
    if std::os::unix::fs::chown(&own, Some(1), None).is_ok() {
        // A change of the owner takes the bit away.
        fs::set_permissions(&own, fs::Permissions::from_mode(0o4755)).unwrap();
        refused(&own, 126, "is setuid");
    } else {
        // Only root gives files away; others use a program that every system has.
        let system = ["/usr/bin/su", "/bin/su", "/usr/bin/passwd"].map(Path::new);
        refused(system.into_iter().find(|path| path.exists()).unwrap(), 126, "is setuid");
    }
}

#[test]
fn wrong_command_lines_are_125() {
    for words in [
        &["run"] as &[&str],
        &["walk"],
        &[],
        &["run", "--device", "h1000", "--", "true"],
        &["run", "--check", "everything", "--", "true"],
        &["run", "--seed", "x", "--", "true"],
    ] {
        assert_eq!(output(words).status.code(), Some(125), "{words:?}");
    }
    assert_eq!(output(&["--help"]).status.code(), Some(0));
    assert!(text(&output(&["run", "--help"]).stdout).contains("Exit status"));
}

/// Returns the names in the folder that a program finds first, by the command in `bin` of a folder.
fn found(folder: &Path) -> (Option<i32>, String) {
    let mut run = Command::new(folder.join("bin/cuda-emu"));
    let ran =
        run.args(["run", "-q", "--", "sh", "-c", "ls ${LD_LIBRARY_PATH%%:*}"]).output().unwrap();
    (ran.status.code(), text(&ran.stdout) + &text(&ran.stderr))
}

#[test]
fn libraries_are_found_where_they_are_installed() {
    let folder = Folder::new();
    let (bin, lib) = (folder.path().join("bin"), folder.path().join("lib/cuda-emu"));
    fs::create_dir_all(&bin).unwrap();
    fs::create_dir_all(&lib).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_cuda-emu"), bin.join("cuda-emu")).unwrap();
    let (status, message) = found(folder.path());
    assert_eq!(status, Some(125), "{message}");
    assert!(message.contains("no libcuda_emu.so beside"), "{message}");
    fs::write(lib.join("libcuda_emu.so"), "").unwrap();
    assert_eq!(found(folder.path()), (Some(0), "libcuda.so\nlibcuda.so.1\n".to_owned()));
    // The runtime libraries are optional.
    fs::write(lib.join("libcudart_13.so"), "").unwrap();
    let newer = "libcuda.so\nlibcuda.so.1\nlibcudart.so.13\n";
    assert_eq!(found(folder.path()), (Some(0), newer.to_owned()));
    fs::write(lib.join("libcudart_12.so"), "").unwrap();
    let all = "libcuda.so\nlibcuda.so.1\nlibcudart.so.12\nlibcudart.so.13\n";
    assert_eq!(found(folder.path()), (Some(0), all.to_owned()));
}
