//! Recording, on a GPU, what the golden kernels compute.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};

use super::run::{hashes, outputs};
use super::{GROUPS, kernels, sha256};
use test_harness::{Failure, Outcome, TestDevice, TestResult, ensure, limited, spawn_self};

/// The option that records; the file follows, and, for its own test, the tier.
pub(super) const COMMAND: &str = "--record-goldens";

pub(super) fn main(mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let Some(file) = arguments.next() else {
        eprintln!("{COMMAND} needs a file");
        return ExitCode::from(2);
    };
    let tier = if arguments.next().as_deref() == Some("emu") { "emu" } else { "gpu" };
    let recorded = TestDevice::open(tier).and_then(|device| {
        let text = record(&device)?;
        device.close()?;
        Ok(std::fs::write(&file, text)?)
    });
    match recorded {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("not recorded: {failure}");
            ExitCode::from(2)
        }
    }
}

/// The GPU, its driver, and the day: what a recording begins with. An error on a software device.
pub(crate) fn about(device: &TestDevice) -> Result<Map<String, Value>, Failure> {
    let name = device.context().device().name()?;
    let driver = device.context().driver();
    let library = driver.as_sys().source().to_string();
    if is_software(&name) || library.contains("cuda_emu") {
        return Err(Failure::new(format!(
            "{name} ({library}) is a software device; goldens are what a GPU computes"
        )));
    }
    let version = driver.version()?;
    // The version of the kernel's module, where Linux tells.
    let module = std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
    let driver = format!("CUDA {}.{} {}", version / 1000, version % 1000 / 10, module.trim())
        .trim()
        .to_owned();
    Ok(Map::from_iter([
        ("device".to_owned(), Value::from(name)),
        ("driver".to_owned(), Value::from(driver)),
        ("date".to_owned(), Value::from(date()?)),
    ]))
}

fn record(device: &TestDevice) -> Result<String, Failure> {
    let mut recording = about(device)?;
    let mut files = Map::new();
    for group in GROUPS {
        for variant in group.variants {
            let file = group.file(variant.name);
            let again = outputs(device, group, variant)?;
            let mut hashed = Map::new();
            for (kernel, words) in outputs(device, group, variant)? {
                if again.get(&kernel) != Some(&words) {
                    return Err(Failure::new(format!("{file}, {kernel}: differs from run to run")));
                }
                hashed.insert(kernel, Value::from(hashes(&words)));
            }
            files.insert(file, json!({ "sha256": sha256(variant.ptx()?), "kernels": hashed }));
        }
    }
    recording.insert("files".to_owned(), Value::from(files));
    Ok(serde_json::to_string_pretty(&recording)? + "\n")
}

fn is_software(name: &str) -> bool {
    let name = name.to_lowercase();
    ["software", "emu"].iter().any(|word| name.contains(word))
}

/// Today, in Greenwich: year, month and day.
fn date() -> Result<String, Failure> {
    let days = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut year, mut rest) = (1970, days);
    while rest >= 365 + u64::from(leap(year)) {
        rest -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < length {
            break;
        }
        rest -= length;
        month += 1;
    }
    Ok(format!("{year}-{month:02}-{:02}", rest + 1))
}

/// The software device computes nothing that may be recorded.
pub(super) fn software_is_not_recorded() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("goldens.json");
    let mut command = spawn_self(&[COMMAND])?;
    command.arg(&file).arg("emu");
    let Outcome { status, stderr, .. } = limited(command)?;
    ensure!(status.code() == Some(2), "{status}: {stderr}");
    ensure!(stderr.contains("is a software device"), "{stderr}");
    ensure!(!file.exists());
    Ok(())
}

/// As many kernels as were promised.
pub(super) fn enough_kernels() -> TestResult {
    let mut optimised = 0;
    for group in GROUPS {
        for variant in group.variants {
            let found = kernels(variant.ptx()?)?.len();
            ensure!(found > 0, "{}", group.file(variant.name));
            if variant.name == "opt.compute_90" {
                optimised += found;
            }
        }
    }
    ensure!(optimised >= 60, "{optimised}");
    Ok(())
}
