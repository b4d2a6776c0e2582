//! What an attack is, and its processes: one for each variant and seed.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use test_harness::{
    Case, Failure, Outcome, TestResult, deep, ensure, limited_to, nothing_found, spawn_self,
};

use crate::lab::Lab;

/// The first argument of the process of an attack; then the attack's name, the variant and the step.
pub(crate) const COMMAND: &str = "--attack";

/// The last line of the output of a run in which everything held.
const HELD: &str = "the attack was withstood";

/// The variable that asks for one seed, instead of the first in a plain run and 50 in a deep one.
const SEED_VARIABLE: &str = "ATTACK_SEED";

/// How many seeds a deep run takes.
const DEEP_SEEDS: u64 = 50;

/// Seconds that a run may take if nothing else is said.
const LIMIT: u64 = 30;

/// A program in safe code that tries to break a guarantee.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attack {
    /// `theme::name`.
    pub(crate) name: &'static str,
    run: fn(&Lab) -> TestResult,
    is_refused: bool,
    variants: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
    devices: u32,
    is_seeded: bool,
    limit: u64,
}

impl Attack {
    /// An attack in which every assertion must hold.
    pub(crate) const fn right(name: &'static str, run: fn(&Lab) -> TestResult) -> Self {
        let (variants, variables) = (&[""], &[]);
        let (is_refused, devices, is_seeded, limit) = (false, 1, true, LIMIT);
        Self { name, run, is_refused, variants, variables, devices, is_seeded, limit }
    }

    /// An attack in which [`Lab::refused`] must also see an error.
    pub(crate) const fn refused(name: &'static str, run: fn(&Lab) -> TestResult) -> Self {
        Self { is_refused: true, ..Self::right(name, run) }
    }

    /// Runs once for each of these names, which [`Lab::variant`] returns.
    pub(crate) const fn variants(self, variants: &'static [&'static str]) -> Self {
        Self { variants, ..self }
    }

    /// Runs with these variables of the process.
    pub(crate) const fn variables(
        self,
        variables: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { variables, ..self }
    }

    /// Runs on this many devices.
    pub(crate) const fn devices(self, devices: u32) -> Self {
        Self { devices, ..self }
    }

    /// Leaves the order of work to the threads of the software device. The attack's comment says why.
    pub(crate) const fn without_seed(self) -> Self {
        Self { is_seeded: false, ..self }
    }

    /// Lets a run take this many seconds, and not 30.
    pub(crate) const fn limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Runs all variants under all seeds.
    fn run_all(&self) -> TestResult {
        let asked = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
        let seeds: Vec<Option<u64>> = match asked {
            _ if !self.is_seeded => vec![None],
            Some(seed) => vec![Some(seed)],
            None if deep() => (1..=DEEP_SEEDS).map(Some).collect(),
            None => vec![Some(1)],
        };
        for variant in self.variants {
            for seed in &seeds {
                self.run_once(variant, *seed).map_err(|failure| {
                    let seed = seed.map_or(String::new(), |it| format!("{SEED_VARIABLE}={it} "));
                    let again = "cargo test --release -p attacks -- --exact emu::";
                    Failure::new(format!(
                        "variant {variant:?}: {failure}\nagain: {seed}{again}{}",
                        self.name
                    ))
                })?;
            }
        }
        Ok(())
    }

    fn run_once(&self, variant: &str, seed: Option<u64>) -> TestResult {
        // Not below `target`: nothing of this workspace is to be found from there.
        let folder = tempfile::tempdir()?;
        let mut command = spawn_self(&[COMMAND, self.name, variant])?;
        command.current_dir(folder.path());
        // They change the device, or which files are trusted.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("CUDA_") && name != "CUDA_NVRTC" {
                command.env_remove(name);
            }
        }
        command.env("CUDA_KERNEL_CACHE", cache()?);
        if std::env::var_os("CUDA_NVRTC").is_none() {
            let setup = std::env::var_os("CUDA_SETUP_DIR").map(PathBuf::from);
            command.env("CUDA_SETUP_DIR", setup.unwrap_or(workspace().join("target/cuda")));
        }
        if let Some(seed) = seed {
            command.env("CUDA_EMU_SEED", seed.to_string());
        }
        command.env("CUDA_EMU_CHECK", "race,init");
        command.env("CUDA_EMU_DEVICES", self.devices.to_string());
        command.envs(self.variables.iter().copied());
        let Outcome { status, stdout, stderr } = limited_to(command, self.limit)?;
        if status.success() && stdout.lines().next_back() == Some(HELD) {
            return Ok(());
        }
        Err(Failure::new(format!("ended with {status}\n{stdout}{stderr}")))
    }

    /// Runs the attack in this process.
    fn run_here(&self, variant: &str, step: &str) -> TestResult {
        let lab = Lab::new(self.name, variant, step)?;
        match catch_unwind(AssertUnwindSafe(|| (self.run)(&lab))) {
            Ok(result) => result?,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                let text = text.unwrap_or_default();
                return Err(Failure::new(format!("a panic came out of the attack: {text}")));
            }
        }
        // The first process judges a step.
        if step.is_empty() {
            ensure!(!self.is_refused || lab.has_refused(), "no call was refused");
            lab.finish()?;
        }
        drop(lab);
        nothing_found()
    }
}

/// Lists the attacks of a file by the names of their functions: `attacks!["order", right(f), refused(g).devices(2)];`.
/// The first argument is the theme.
macro_rules! attacks {
    [$theme:literal, $($(#[$on:meta])? $kind:ident($name:ident) $(.$option:ident($($value:expr)?))*),+ $(,)?] => {
        pub(crate) const ATTACKS: &[$crate::attack::Attack] = &[$(
            $(#[$on])?
            $crate::attack::Attack::$kind(concat!($theme, "::", stringify!($name)), $name)
                $(.$option($($value)?))*
        ),+];
    };
}

pub(crate) use attacks;

pub(crate) fn cases() -> Vec<Case> {
    all().map(|attack| Case::named(attack.name, run)).collect()
}

fn all() -> impl Iterator<Item = &'static Attack> {
    crate::attacks::ALL.iter().copied().flatten()
}

/// Returns the names of all attacks.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|attack| attack.name)
}

fn named(name: &str) -> Result<&'static Attack, Failure> {
    let found = all().find(|attack| attack.name == name);
    found.ok_or_else(|| Failure::new(format!("there is no attack {name}")))
}

fn run(name: &'static str) -> TestResult {
    named(name)?.run_all()
}

/// Runs an attack if this is a process of one.
pub(crate) fn command() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() != Some(COMMAND) {
        return None;
    }
    let mut next = || arguments.next().unwrap_or_default();
    let (name, variant, step) = (next(), next(), next());
    let result = named(&name).and_then(|attack| {
        end_when_orphaned(attack.limit);
        attack.run_here(&variant, &step)
    });
    Some(match result {
        Ok(()) => {
            println!("{HELD}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    })
}

/// Ends this process if nobody has killed it long after its time limit: the parent is gone then.
fn end_when_orphaned(limit: u64) {
    thread::spawn(move || {
        thread::sleep(Duration::from_secs(limit.saturating_mul(10).max(600)));
        std::process::exit(3);
    });
}

/// Returns the folder in which the runs keep compiled kernels: one for the user alone, below cargo's.
fn cache() -> Result<PathBuf, Failure> {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("attacks-kernels");
    if !folder.is_dir() {
        // Another process may have made it by now; what is wrong with it shows at its first use.
        let _ = fs::create_dir(&folder);
    }
    #[cfg(unix)]
    fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    Ok(folder)
}

/// Returns the package's folder.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the workspace's folder.
pub(crate) fn workspace() -> &'static Path {
    package().ancestors().nth(2).unwrap_or(package())
}
