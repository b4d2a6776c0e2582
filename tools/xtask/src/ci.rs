//! `cargo xtask ci`: every check, beside the build of the tests, then every test. All steps run, also after one has failed.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use xtask::wheels::NVRTC_12_0;
use xtask::{Error, root};

use crate::api;
use crate::attributes;
use crate::checks;
use crate::headers;
use crate::layouts;
use crate::process::{cargo, last_errors, output, program, succeeds, target};
use crate::tally::Tally;
use crate::test;

/// How a step went.
#[derive(Debug)]
enum Outcome {
    Passed,
    /// With the last lines of its output, if they are known: the step's own stand far above the result.
    Failed(Vec<String>),
    NotRun(&'static str),
    Tested(Tally),
}

impl Outcome {
    /// The step's part of the tests' result: a check that passes does not count as a passed test, but a failed step
    /// must not hide behind `0 failed`.
    fn tally(&self) -> Tally {
        match self {
            Self::Passed | Self::NotRun(_) => Tally::default(),
            Self::Failed(_) => Tally::FAILURE,
            Self::Tested(tally) => *tally,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Passed => "passed".to_owned(),
            Self::Failed(_) => "FAILED".to_owned(),
            Self::NotRun(reason) => format!("not run: {reason}"),
            Self::Tested(tally) => tally.to_string(),
        }
    }
}

impl From<bool> for Outcome {
    fn from(passed: bool) -> Self {
        if passed { Self::Passed } else { Self::Failed(Vec::new()) }
    }
}

type Step = (&'static str, fn() -> Result<Outcome, Error>);

const STEPS: [Step; 14] = [
    ("fmt", fmt),
    ("sources", || {
        let offences = checks::sources()?;
        Ok(if offences.is_empty() { Outcome::Passed } else { Outcome::Failed(offences) })
    }),
    ("deny", deny),
    ("clippy", clippy),
    ("check, Windows", || check_for("x86_64-pc-windows-gnu")),
    ("check, macOS", || check_for("aarch64-apple-darwin")),
    ("check, WebAssembly", || check_for("wasm32-unknown-unknown")),
    ("doc, api --check", || api::api(true).map(Outcome::from)),
    ("bindgen --check", || {
        let mut bindgen = cargo();
        bindgen.args(["run", "--quiet", "--package", "xtask-bindgen"]);
        check(bindgen.args(["--", "--check"]))
    }),
    ("attributes --check", || attributes::attributes(true).map(Outcome::from)),
    ("layouts --check", || layouts::layouts(true).map(Outcome::from)),
    ("headers --check", || headers::headers(true).map(Outcome::from)),
    ("ptx --check", ptx),
    ("package", package),
];

/// Runs the checks, beside them the build of the tests, and then the tests. The last line printed is
/// `N passed, N failed`, over all tests.
///
/// # Errors
/// The checks could not be started, or their output not be read.
pub(crate) fn ci() -> Result<bool, Error> {
    fs::create_dir_all(target())?;
    let log = target().join("checks.log");
    let output = fs::File::create(&log)?;
    // A process, so that neither its output nor its time mixes with the build's.
    let mut checks = program(env::current_exe()?);
    checks.arg("checks").stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
    let mut checks = checks.spawn()?;
    let request = test::Request::ci();
    let built = test::build(&request);
    let passed = checks.wait()?.success();
    let log = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    print!("{log}");

    let tested = run("test", || test::run(&request, &built?).map(Outcome::Tested));
    // The results of the checks again: few read more than the end.
    let (_, results) = log.rsplit_once(RESULTS).unwrap_or_default();
    let mut sum = summarize(&[tested], results);
    if !passed {
        sum += Tally::FAILURE;
    }
    println!("\n{sum}");
    Ok(sum.failed == 0)
}

/// The line before the results of the checks.
const RESULTS: &str = "\nxtask: results\n";

/// Runs all checks and returns whether none failed; a check that could not run its program has failed.
pub(crate) fn checks() -> bool {
    let done: Vec<_> = STEPS.into_iter().map(|(name, step)| run(name, step)).collect();
    println!("{RESULTS}");
    summarize(&done, "").failed == 0
}

/// A step that has ended.
type Done = (&'static str, Outcome, Duration);

fn run(name: &'static str, step: impl FnOnce() -> Result<Outcome, Error>) -> Done {
    eprintln!("\nxtask: {name}");
    let start = Instant::now();
    let outcome = step().unwrap_or_else(|error| {
        eprintln!("xtask: {name}: {error}");
        Outcome::Failed(vec![error.to_string()])
    });
    (name, outcome, start.elapsed())
}

/// Prints earlier results, then those of steps with the last lines of failed ones, and returns the sum of all tests.
fn summarize(done: &[Done], earlier: &str) -> Tally {
    let mut sum = Tally::default();
    println!("{earlier}");
    for (name, outcome, time) in done {
        println!("{}", line(name, outcome, *time));
        sum += outcome.tally();
    }
    for (name, outcome, _) in done {
        if let Outcome::Failed(lines) = outcome {
            println!("\n{name}:");
            lines.iter().for_each(|line| println!("{line}"));
        }
    }
    sum
}

fn line(name: &str, outcome: &Outcome, time: Duration) -> String {
    format!("{name:20} {:>6.1} s  {}", time.as_secs_f64(), outcome.words())
}

/// The workspace, and the programs that are none of it.
fn fmt() -> Result<Outcome, Error> {
    let mut formatted = succeeds(cargo().args(["fmt", "--all", "--check"]))?;
    for other in [
        "tests/integration/foreign/cudarc/Cargo.toml",
        "fuzz/fuzzers/Cargo.toml",
        "bench/cpu/Cargo.toml",
    ] {
        let format = ["fmt", "--check", "--manifest-path", other];
        formatted &= succeeds(cargo().args(format))?;
    }
    Ok(Outcome::from(formatted))
}

fn check(command: &mut Command) -> Result<Outcome, Error> {
    let (passed, lines) = last_errors(command)?;
    Ok(if passed { Outcome::Passed } else { Outcome::Failed(lines) })
}

/// All targets, with all features. [`package`] checks the libraries with fewer.
fn clippy() -> Result<Outcome, Error> {
    let mut clippy = cargo();
    clippy.args(["clippy", "--quiet", "--workspace", "--all-targets", "--all-features"]);
    check(clippy.args(["--", "-Dwarnings"]))
}

/// The products that are written for Unix alone: the software device maps memory by `mmap`, and the runtime's structs are
/// those of a C whose `long` has 64 bits.
const UNIX: [&str; 4] = ["cuda-emu", "nccl-emu", "blas-emu", "cuda-safe-runtime"];

/// The products for systems on which CUDA has never run.
const EVERYWHERE: [&str; 2] = ["gpu-phases", "gpu-phases-macros"];

/// Returns the products that a target can have.
fn products_for(target: &str) -> impl Iterator<Item = &'static str> {
    let wasm = target.starts_with("wasm");
    let names = api::PRODUCTS.into_iter();
    names.filter(move |name| if wasm { EVERYWHERE.contains(name) } else { !UNIX.contains(name) })
}

/// Checks the libraries for another system, which needs its standard library and nothing else of it.
fn check_for(target: &str) -> Result<Outcome, Error> {
    if !has_standard_library(target)? {
        return Ok(Outcome::NotRun("no standard library for it: `rustup target add` installs one"));
    }
    let mut check = cargo();
    check.args(["check", "--quiet", "--lib", "--all-features", "--target", target]);
    for package in products_for(target) {
        check.args(["--package", package]);
    }
    self::check(check.env("RUSTFLAGS", "-Dwarnings"))
}

fn has_standard_library(target: &str) -> Result<bool, Error> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut print = program(rustc);
    let folder = output(print.args(["--print", "target-libdir", "--target", target]))?;
    Ok(Path::new(folder.trim()).is_dir())
}

/// The kernels are compiled by one version of NVRTC, which does not exist for every system.
fn ptx() -> Result<Outcome, Error> {
    if NVRTC_12_0.file_for(env::consts::OS, env::consts::ARCH).is_err() {
        return Ok(Outcome::NotRun("NVIDIA has published no NVRTC 12.0 for this system"));
    }
    let mut ptx = cargo();
    ptx.arg("run").args(test::OF_TOOLS);
    check(ptx.args(["--quiet", "--package", "xtask-ptx", "--", "--check"]))
}

/// Packs the published crates and lints each from the archives of the others, with the versions in the registry's copy on
/// this machine, so that no release of others fails the build. If that fails, the network is asked, as the copy may lack
/// a crate. `cargo package` itself would build each crate, after all that it depends on: this shares what clippy has
/// checked, and generates no code. Each is linted by itself, with its default features and with none, since cargo gives
/// packages that it checks together the features of each other.
fn package() -> Result<Outcome, Error> {
    let folder = target().join("packed");
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    match packed(&folder, &["--offline"])? {
        Outcome::Failed(lines) => {
            eprintln!("xtask: package: once more, with the network");
            Ok(match packed(&folder, &[])? {
                Outcome::Failed(again) => Outcome::Failed([lines, again].concat()),
                passed => passed,
            })
        }
        passed => Ok(passed),
    }
}

/// Packs the crates into a folder, unpacks them as members of a workspace, and checks each by itself.
fn packed(folder: &Path, network: &[&str]) -> Result<Outcome, Error> {
    let mut pack = cargo();
    pack.env("CARGO_TARGET_DIR", folder);
    pack.args(["package", "--quiet", "--allow-dirty", "--no-verify"]).args(network);
    let packed = check(pack.args(api::PRODUCTS.map(|name| ["--package", name]).as_flattened()))?;
    if !matches!(packed, Outcome::Passed) {
        return Ok(packed);
    }
    let archives = folder.join("package");
    let (mut members, mut patches) = (String::new(), String::new());
    for product in api::PRODUCTS {
        let name = format!("{product}-{}", env!("CARGO_PKG_VERSION"));
        let mut tar = Command::new("tar");
        // With the times of now: cargo's are always the same, and it would take changed files for old ones.
        tar.current_dir(&archives).args(["-xzmf", &format!("{name}.crate")]);
        if !succeeds(&mut tar)? {
            return Err(format!("tar failed on {name}.crate").into());
        }
        members += &format!("\"{name}\", ");
        patches += &format!("{product} = {{ path = \"{name}\" }}\n");
    }
    let manifest = format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}"
    );
    fs::write(archives.join("Cargo.toml"), manifest)?;
    fs::copy(root().join("Cargo.lock"), archives.join("Cargo.lock"))?;
    for product in api::PRODUCTS {
        for features in [&["--no-default-features"][..], &[]] {
            let mut alone = cargo();
            alone.current_dir(&archives).env("CARGO_TARGET_DIR", target());
            alone.args(["clippy", "--quiet", "--package", product]).args(features).args(network);
            let linted = check(alone.args(["--", "-Dwarnings"]))?;
            if !matches!(linted, Outcome::Passed) {
                return Ok(linted);
            }
        }
    }
    Ok(Outcome::Passed)
}

/// `cargo deny` is a tool of its own; who does not have it is not asked to build it.
fn deny() -> Result<Outcome, Error> {
    let mut probe = cargo();
    probe.args(["deny", "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null());
    if !succeeds(&mut probe)? {
        return Ok(Outcome::NotRun("cargo-deny is not installed"));
    }
    // Not the advisories: they change without us, and CI must have the same result for the same commit.
    check(cargo().args(["deny", "check", "bans", "licenses", "sources"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_failure_hides_behind_a_count_of_zero() {
        let outcomes = [
            Outcome::Passed,
            Outcome::Failed(Vec::new()),
            Outcome::NotRun("no such tool"),
            Outcome::Tested(Tally { passed: 7, failed: 0 }),
        ];
        let mut sum = Tally::default();
        for outcome in &outcomes {
            sum += outcome.tally();
        }
        assert_eq!(sum.to_string(), "7 passed, 1 failed");
    }

    #[test]
    fn only_targets_with_a_standard_library_are_checked() -> Result<(), Error> {
        let version = output(program("rustc").arg("-vV"))?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        assert!(has_standard_library(host.ok_or("rustc names no host")?)?);
        // Nobody distributes one for this target.
        assert!(!has_standard_library("mipsel-sony-psp")?);
        let outcome = check_for("mipsel-sony-psp")?;
        assert!(outcome.words().starts_with("not run: no standard library"), "{outcome:?}");
        Ok(())
    }

    #[test]
    fn each_target_checks_what_it_can_have() {
        let windows: Vec<_> = products_for("x86_64-pc-windows-gnu").collect();
        assert!(windows.contains(&"gpu-phases") && windows.contains(&"cuda-safe"), "{windows:?}");
        assert!(!windows.contains(&"cuda-emu"), "{windows:?}");
        let mut wasm: Vec<_> = products_for("wasm32-unknown-unknown").collect();
        wasm.sort_unstable();
        assert_eq!(wasm, EVERYWHERE);
    }

    #[test]
    fn products_for_every_target_have_nothing_of_cuda_in_their_tree() -> Result<(), Error> {
        for package in EVERYWHERE {
            let mut tree = cargo();
            tree.args(["tree", "--offline", "--all-features", "--edges", "normal,build"]);
            tree.args(["--prefix", "none", "--format", "{p}", "--package", package]);
            let tree = output(&mut tree)?;
            let names: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
            assert!(names.contains(&package), "{tree}");
            for product in api::PRODUCTS {
                let allowed = EVERYWHERE.contains(&product);
                assert!(allowed || !names.contains(&product), "{package}: {tree}");
            }
        }
        Ok(())
    }

    #[test]
    fn what_did_not_run_says_why() {
        let outcome = Outcome::NotRun("cargo-deny is not installed");
        assert_eq!(
            line("deny", &outcome, Duration::from_millis(1250)),
            "deny                    1.2 s  not run: cargo-deny is not installed"
        );
    }
}
