//! The report of a C program that is linked with `libcuda.so.1`, however it ends.

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Folder, cuda_emu, text};
use serde_json::{Value, json};

const KERNELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels.ptx");

/// A compiled program, and a place for reports.
struct Stage {
    folder: Folder,
    program: PathBuf,
    kernels: PathBuf,
}

impl Stage {
    fn new() -> Self {
        let folder = Folder::new();
        // The device is in a folder that the loader does not search: the program finds it by `cuda-emu run` alone.
        let command = Path::new(env!("CARGO_BIN_EXE_cuda-emu"));
        let device = command.with_file_name("deps/libcuda_emu.so");
        assert!(device.exists(), "cargo builds the device with the command: {}", device.display());
        let link = folder.path().join("link");
        std::fs::create_dir(&link).unwrap();
        std::os::unix::fs::symlink(device, link.join("libcuda.so.1")).unwrap();
        let place = format!("-L{}", link.display());
        let program =
            folder.compiled("program", include_str!("program.c"), &[&place, "-l:libcuda.so.1"]);
        std::fs::remove_dir_all(link).unwrap();
        Self { folder, program, kernels: KERNELS.into() }
    }

    /// Runs the program with options of `cuda-emu run`; returns the JSON, too.
    fn run(&self, options: &[&str], end: &str) -> (Output, Value) {
        let report = self.folder.path().join("report.json");
        let mut command = cuda_emu(&["run", "--report", report.to_str().unwrap()]);
        command.args(options).arg("--").arg(&self.program).arg(&self.kernels).arg(end);
        let output = command.output().unwrap();
        let json = std::fs::read_to_string(&report).unwrap();
        (output, serde_json::from_str(&json).unwrap())
    }
}

/// Returns a kernel of a report without its time, which must be there.
fn kernel(report: &Value, name: &str) -> Value {
    let all = report["kernels"].as_array().unwrap();
    let mut found = all.iter().find(|kernel| kernel["name"] == name).unwrap().clone();
    let seconds = found.as_object_mut().unwrap().remove("seconds").unwrap();
    assert!(seconds.as_f64().unwrap() > 0.0);
    found
}

/// Checks what the launches of the program are, `times` times.
fn check_kernels(report: &Value, times: u64) {
    let steady = 3 * 2 * (32 + 33) * times;
    let wanted = json!({
        "name": "steady", "launches": 2 * times, "blocks": 4 * times, "threads": 130 * times,
        "instructions": {"all": steady, "exact": steady, "approximate": 0}, "approximate": [],
    });
    assert_eq!(kernel(report, "steady"), wanted);
    let (all, approximate) = (2 * (64 * 8 + 4) * times, 2 * 64 * times);
    let wanted = json!({
        "name": "other", "launches": times, "blocks": 2 * times, "threads": 128 * times,
        "instructions": {"all": all, "exact": all - approximate, "approximate": approximate},
        "approximate": [{"instruction": "ex2.approx.f32", "count": approximate, "bound": "2 ulp"}],
    });
    assert_eq!(kernel(report, "other"), wanted);
}

#[test]
fn the_report_is_there_however_the_program_ends() {
    let stage = Stage::new();
    for (end, ended) in [
        ("return", json!({"status": 0, "signal": null})),
        ("exit", json!({"status": 21, "signal": null})),
        ("abort", json!({"status": null, "signal": 6})),
        ("fault", json!({"status": 22, "signal": null})),
    ] {
        let (output, report) = stage.run(&[], end);
        assert_eq!(report["ended"], ended, "{}", text(&output.stderr));
        check_kernels(&report, 1);
        assert_eq!(report["processes"].as_array().unwrap().len(), 1);
        let faults = report["faults"].as_array().unwrap();
        assert_eq!(faults.len(), usize::from(end == "fault"), "{end}");
        let shown = text(&output.stderr);
        assert!(shown.contains("ex2.approx.f32: 128, error at most 2 ulp"), "{shown}");
        assert_eq!(report["approximate_values"], json!({"followed": false, "decided": []}));
    }
}

#[test]
fn failures_are_counted_by_function_and_code() {
    let (_, report) = Stage::new().run(&[], "return");
    let wanted = json!([
        {"function": "cuModuleGetFunction", "code": "CUDA_ERROR_NOT_FOUND", "count": 1},
        {"function": "cuModuleGetFunction", "code": "CUDA_ERROR_NOT_SUPPORTED", "count": 1},
        {"function": "cuMemFree_v2", "code": "CUDA_ERROR_INVALID_VALUE", "count": 2},
    ]);
    assert_eq!(report["failed_calls"], wanted);
    let refused = report["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 1);
    assert!(refused[0]["why"].as_str().unwrap().starts_with("textured: not supported: tex"));
    assert_eq!(report["unsupported_functions"], json!([]));
    assert_eq!(report["findings"], json!([]));
}

#[test]
fn every_process_is_in_the_report() {
    let (output, report) = Stage::new().run(&[], "fork");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(report["processes"].as_array().unwrap().len(), 2);
    check_kernels(&report, 2);
}

#[test]
fn approximate_values_are_followed_on_request() {
    let (output, report) = Stage::new().run(&["--taint"], "return");
    check_kernels(&report, 1);
    let line =
        1 + include_str!("kernels.ptx").lines().position(|line| line.contains("@%p st")).unwrap();
    let wanted = json!([
        {"what": "a branch", "kernel": "other", "place": format!("PTX line {line}"), "count": 128},
    ]);
    assert_eq!(report["approximate_values"], json!({"followed": true, "decided": wanted}));
    assert!(text(&output.stderr).contains(&format!("a branch in kernel other at PTX line {line}")));
}

#[test]
fn findings_are_in_the_report() {
    // Memory that nothing frees; and two blocks write different values to one word: none here, they write the same.
    let (output, report) = Stage::new().run(&["--check", "race,init,leak"], "fault");
    let findings = report["findings"].as_array().unwrap();
    let shown = text(&output.stderr);
    assert_eq!(findings.len(), 1, "{shown}");
    assert_eq!(findings[0]["check"], "leak");
    assert!(findings[0]["text"].as_str().unwrap().contains("call 1 of cuMemAlloc_v2"), "{shown}");
    let (output, report) = Stage::new().run(&["--check", "race,leak"], "return");
    assert_eq!(report["findings"], json!([]));
    assert_eq!(report["checkers"], json!({"race": true, "init": false, "leak": true}));
    assert!(text(&output.stderr).contains("0 findings of the checkers race, leak"));
    let (output, report) = Stage::new().run(&[], "return");
    assert_eq!(report["checkers"], json!({"race": false, "init": false, "leak": false}));
    assert!(text(&output.stderr).contains("no checker was on"));
}

#[test]
fn devices_are_like_the_gpu_that_is_asked_for() {
    let stage = Stage::new();
    for (name, shown) in [
        ("h200", "H200: 132 multiprocessors of 2048 threads"),
        ("h100", "H100 SXM: 132 multiprocessors of 2048 threads"),
        ("a100", "A100 SXM: 108 multiprocessors of 2048 threads"),
        ("l4", "L4: 58 multiprocessors of 1536 threads"),
        ("t4", "T4: 40 multiprocessors of 1024 threads"),
        ("RTX4090", "GeForce RTX 4090: 128 multiprocessors of 1536 threads"),
    ] {
        let (output, report) = stage.run(&["--device", name], "return");
        assert_eq!(text(&output.stdout), format!("CUDA emulator (software), {shown}\n"));
        check_kernels(&report, 1);
    }
    let (output, _) = stage.run(&[], "return");
    assert!(text(&output.stdout).starts_with("CUDA emulator (software), sm_90: 132 "));
    let mut wrong = cuda_emu(&["run", "-q", "--"]);
    wrong.arg(&stage.program).arg(&stage.kernels).env("CUDA_EMU_DEVICE", "h1000");
    let shown = text(&wrong.output().unwrap().stderr);
    assert!(shown.contains("CUDA_EMU_DEVICE=h1000 is not understood"), "{shown}");
    assert!(shown.contains("known are h200, h100, a100, l4, t4, rtx4090"), "{shown}");
}

#[test]
fn newer_kernels_are_refused_as_by_the_driver() {
    let mut stage = Stage::new();
    let source = std::fs::read_to_string(KERNELS).unwrap();
    for (version, target, options, status) in [
        ("8.0", "sm_80", &["--device", "t4"] as &[&str], Some(9)),
        ("8.0", "sm_80", &["--device", "a100"], Some(0)),
        ("8.0", "sm_90", &["--device", "l4"], Some(9)),
        ("8.0", "sm_90", &["--device", "h100"], Some(0)),
        ("9.5", "sm_75", &[], Some(9)),
        ("9.5", "sm_75", &["--ptx", "9.5"], Some(0)),
    ] {
        let text = source.replace(".version 8.0", &format!(".version {version}"));
        let text = text.replace("sm_75", target);
        stage.kernels = stage.folder.file("kernels.ptx", text.as_bytes(), 0o644);
        let (output, report) = stage.run(options, "return");
        assert_eq!(output.status.code(), status, "{version}, {target}, {options:?}");
        let failed = report["failed_calls"].to_string();
        let code = if version == "9.5" { "UNSUPPORTED_PTX_VERSION" } else { "NO_BINARY_FOR_GPU" };
        assert_eq!(failed.contains(code), status != Some(0), "{failed}");
    }
}

#[test]
fn a_program_without_the_device_is_told_so() {
    let folder = Folder::new();
    let file = folder.path().join("report.json");
    let output =
        cuda_emu(&["run", "--report", file.to_str().unwrap(), "--", "true"]).output().unwrap();
    assert_eq!(text(&output.stderr), "cuda-emu: no process used the device\n");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(report["processes"], json!([]));
    let output = cuda_emu(&["run", "--quiet", "--", "true"]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    let output = cuda_emu(&["run", "--report", "-", "--", "echo", "out"]).output().unwrap();
    let shown = text(&output.stdout);
    let json = shown.strip_prefix("out\n").unwrap();
    assert_eq!(serde_json::from_str::<Value>(json).unwrap()["ended"]["status"], 0);
}

#[test]
fn a_report_that_cannot_be_written_stops_the_program() {
    let folder = Folder::new();
    let ran = folder.path().join("ran");
    for file in
        [folder.path().to_path_buf(), folder.path().join("none/report.json"), PathBuf::new()]
    {
        let output =
            cuda_emu(&["run", "--report"]).arg(&file).args(["--", "touch"]).arg(&ran).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(125), "{}", file.display());
        assert!(!ran.exists());
        assert!(text(&output.stderr).contains("report"), "{}", text(&output.stderr));
    }
    // A longer file from before is replaced as a whole.
    let file = folder.file("report.json", &[b'x'; 100_000], 0o644);
    let output = cuda_emu(&["run", "--report"]).arg(&file).args(["--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(serde_json::from_slice::<Value>(&std::fs::read(&file).unwrap()).is_ok());
}
