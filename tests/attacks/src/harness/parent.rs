//! Runs an attack: in a process for each variant and seed, or by the compiler.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::child::{COMMAND, HELD};
use super::header::workspace;
use super::{Attack, Failure, Kind, Outcome, TestResult, limited_to, refused};
use test_support::sample::deep;

/// The variable that asks for one seed, instead of the first in a plain run and 50 in a deep one.
const SEED_VARIABLE: &str = "ATTACK_SEED";

/// How many seeds a deep run takes.
const DEEP_SEEDS: u64 = 50;

/// The variables that no attack inherits: they change the device, or which files are trusted.
const CLEARED: [&str; 20] = [
    "CUDA_DRIVER",
    "CUDA_EMU_CC",
    "CUDA_EMU_CHECK",
    "CUDA_EMU_CONTRACT",
    "CUDA_EMU_DEVICES",
    "CUDA_EMU_FAIL",
    "CUDA_EMU_HEAP",
    "CUDA_EMU_LOG",
    "CUDA_EMU_MEMORY",
    "CUDA_EMU_MULTIPROCESSORS",
    "CUDA_EMU_SEED",
    "CUDA_EMU_STACK",
    "CUDA_EMU_TANGENTS",
    "CUDA_EMU_TIMEOUT_MS",
    "CUDA_EMU_WORKERS",
    "CUDA_HOME",
    "CUDA_KERNEL_CACHE",
    "CUDA_PATH",
    "CUDA_SETUP_DIR",
    "TEST_REPORT",
];

/// Runs all variants of an attack under all seeds.
pub(crate) fn run(attack: &Attack) -> TestResult {
    if let Kind::Refused(file) = &attack.kind {
        return refused(file, &attack.must);
    }
    let asked = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    let seeds: Vec<Option<u64>> = match (attack.seeded, asked) {
        (false, _) => vec![None],
        (true, Some(seed)) => vec![Some(seed)],
        (true, None) if deep() => (1..=DEEP_SEEDS).map(Some).collect(),
        (true, None) => vec![Some(1)],
    };
    let whole = [String::new()];
    let variants = if attack.variants.is_empty() { &whole[..] } else { &attack.variants };
    for variant in variants {
        for seed in &seeds {
            once(attack, variant, *seed).map_err(|failure| {
                let seed = seed.map_or(String::new(), |seed| format!("{SEED_VARIABLE}={seed} "));
                let variant = if variant.is_empty() { "" } else { &format!(", variant {variant}") };
                Failure::new(format!(
                    "{failure}\nagain{variant}: {seed}cargo test --release -p attacks -- --exact {}",
                    attack.name
                ))
            })?;
        }
    }
    Ok(())
}

fn once(attack: &Attack, variant: &str, seed: Option<u64>) -> TestResult {
    // Not below `target`: nothing of this workspace is to be found from there.
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args([COMMAND, &attack.name, variant]).current_dir(folder.path());
    for variable in CLEARED {
        command.env_remove(variable);
    }
    command.env("CUDA_KERNEL_CACHE", cache()?);
    if std::env::var_os("CUDA_NVRTC").is_none() {
        let setup = std::env::var_os("CUDA_SETUP_DIR").map(PathBuf::from);
        command.env("CUDA_SETUP_DIR", setup.unwrap_or(workspace().join("target/cuda")));
    }
    if let Some(seed) = seed {
        command.env("CUDA_EMU_SEED", seed.to_string());
    }
    if attack.checked {
        command.env("CUDA_EMU_CHECK", "race,init");
    }
    command.envs(attack.variables.iter().map(|(name, value)| (name, value)));
    let Outcome { status, stdout, stderr } = limited_to(command, attack.limit)?;
    if status.success() && stdout.lines().next_back() == Some(HELD) {
        return Ok(());
    }
    Err(Failure::new(format!("ended with {status}\n{stdout}{stderr}")))
}

/// The folder in which the runs keep compiled kernels: one for the user alone, below cargo's.
fn cache() -> Result<PathBuf, Failure> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("attacks-kernels");
    if !folder.is_dir() {
        // Another thread may have made it by now; what is wrong with it shows at its first use.
        let _ = fs::create_dir(&folder);
    }
    #[cfg(unix)]
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(folder)
}
