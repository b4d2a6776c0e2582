//! What the programs of the first seeds computed on a GPU.

use std::collections::HashSet;

use ptx_gen::{Ending, Form, Pairs, Program};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::run::Runner;
use super::{BATCH, pairs};
use crate::golden::about;
use test_harness::{
    Failure, Outcome, TestDevice, TestResult, ensure, ensure_eq, limited, spawn_self,
};

/// The option that records; the file follows, and, for its own test, the tier.
pub(super) const RECORD: &str = "--record-generated";

/// The recording.
const GOLDENS: &str = include_str!("../../golden/generated.json");

/// How many programs are recorded, and how many of pairs.
const PROGRAMS: u64 = ptx_gen::ROUND as u64;
const PAIRS: u64 = Pairs::ROUND;

/// Records, twice, and writes the file.
pub(super) fn record(mut arguments: impl Iterator<Item = String>) -> TestResult {
    let file = arguments.next().ok_or_else(|| Failure::new(format!("{RECORD} needs a file")))?;
    let tier = if arguments.next().as_deref() == Some("emu") { "emu" } else { "gpu" };
    let device = TestDevice::open(tier)?;
    let mut recording = about(&device)?;
    let (programs, pairs) = (programs_of(&device)?, pairs_of(&device)?);
    ensure!(programs == programs_of(&device)?, "programs differ from run to run");
    ensure!(pairs == pairs_of(&device)?, "pairs differ from run to run");
    recording.insert("sha256".to_owned(), Value::from(texts()));
    recording.insert("programs".to_owned(), json!(lines(&programs)));
    recording.insert("pairs".to_owned(), json!(lines(&pairs)));
    std::fs::write(&file, serde_json::to_string_pretty(&recording)? + "\n")?;
    device.close()
}

/// Hashes, ten to a line.
fn lines(hashes: &[String]) -> Vec<String> {
    hashes.chunks(10).map(|line| line.join(" ")).collect()
}

/// The hash of all texts: what is recorded belongs to them alone.
fn texts() -> String {
    let programs: Vec<_> = (0..PROGRAMS).map(Program::new).collect();
    let pairs: Vec<_> = (0..PAIRS).map(Pairs::new).collect();
    let mut hash = Sha256::new();
    hash.update(ptx_gen::module(&programs, Ending::Hash));
    for form in [Form::Bare, Form::Apart, Form::Fused] {
        hash.update(Pairs::module(&pairs, form));
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A short hash of words, in hexadecimal digits.
fn short(words: &[u64]) -> String {
    let hash = words.iter().fold(0x9e37_79b9_7f4a_7c15_u64, |hash, word| {
        let mixed = (hash ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 29
    });
    format!("{hash:016x}")
}

/// The hashes of the programs, in the order of their seeds.
fn programs_of(device: &TestDevice) -> Result<Vec<String>, Failure> {
    let runner = Runner::new(device)?;
    let mut hashes = Vec::new();
    for first in (0..PROGRAMS).step_by(BATCH) {
        let programs: Vec<_> =
            (first..PROGRAMS.min(first + BATCH as u64)).map(Program::new).collect();
        hashes.extend(runner.run(&programs, Ending::Hash, 1)?.iter().map(|words| short(words)));
    }
    Ok(hashes)
}

/// The hashes of the pairs: for each program those of both forms, apart and fused.
fn pairs_of(device: &TestDevice) -> Result<Vec<String>, Failure> {
    let runner = Runner::new(device)?;
    let pairs: Vec<_> = (0..PAIRS).map(Pairs::new).collect();
    let apart = runner.pairs(&pairs, Form::Apart)?;
    let fused = runner.pairs(&pairs, Form::Fused)?;
    Ok(apart.iter().zip(&fused).flat_map(|(apart, fused)| [short(apart), short(fused)]).collect())
}

/// The recorded hashes under a name, of these texts.
fn recorded(name: &str) -> Result<Vec<String>, Failure> {
    let goldens: Value = serde_json::from_str(GOLDENS)?;
    let how = format!("on a GPU, suite {RECORD} cuda-emu/tests/suite/golden/generated.json");
    let lines =
        goldens[name].as_array().ok_or_else(|| Failure::new(format!("not recorded: {how}")))?;
    ensure_eq!(goldens["sha256"].as_str(), Some(texts().as_str()), "stale goldens: {how}");
    let words = lines.iter().filter_map(Value::as_str).flat_map(str::split_whitespace);
    Ok(words.map(str::to_owned).collect())
}

/// Which of the hashes are not the recorded ones.
fn differing(got: &[String], recorded: &[String]) -> Vec<usize> {
    let longer = got.len().max(recorded.len());
    (0..longer).filter(|&at| got.get(at) != recorded.get(at)).collect()
}

/// The programs compute what the GPU computed.
pub(super) fn programs(device: &TestDevice) -> TestResult {
    let recorded = recorded("programs")?;
    ensure_eq!(recorded.len() as u64, PROGRAMS);
    let wrong = differing(&programs_of(device)?, &recorded);
    ensure!(
        wrong.is_empty(),
        "{} programs differ from the recording: seeds {wrong:?}",
        wrong.len()
    );
    Ok(())
}

/// The pairs do, in both explicit forms; and what they are bare is one of these: on the software device
/// the one that its process is set to, on a GPU any, pair by pair.
pub(super) fn bare(device: &TestDevice, fuses: bool) -> TestResult {
    let recorded = recorded("pairs")?;
    let wrong = differing(&pairs_of(device)?, &recorded);
    ensure!(wrong.is_empty(), "{} forms differ from the recording: {wrong:?}", wrong.len());
    let runner = Runner::new(device)?;
    let programs: Vec<_> = (0..PAIRS).map(Pairs::new).collect();
    let wanted = (device.tier() == "emu").then_some(fuses);
    let counts = pairs::compare(&runner, &runner, &programs, wanted)?;
    println!("{counts}");
    ensure!(counts.told_apart > counts.pairs / 100, "the forms hardly differ: {counts}");
    Ok(())
}

/// One hash that differs is found, as are missing ones.
pub(super) fn differences_are_found() -> TestResult {
    let right: Vec<_> = (0..40_u64).map(|seed| short(&[seed, 7])).collect();
    ensure_eq!(differing(&right, &right), Vec::<usize>::new());
    let mut wrong = right.clone();
    wrong[17] = short(&[17, 7 ^ 1 << 63]);
    ensure_eq!(differing(&wrong, &right), [17]);
    ensure_eq!(differing(&right[..39], &right), [39]);
    let different: HashSet<_> = right.iter().collect();
    ensure_eq!(different.len(), right.len());
    Ok(())
}

/// The software device computes nothing that may be recorded.
pub(super) fn software_is_not_recorded() -> TestResult {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("generated.json");
    let mut command = spawn_self(&[RECORD])?;
    command.arg(&file).arg("emu");
    let Outcome { status, stderr, .. } = limited(command)?;
    ensure!(!status.success(), "{status}: {stderr}");
    ensure!(stderr.contains("is a software device"), "{stderr}");
    ensure!(!file.exists());
    Ok(())
}
