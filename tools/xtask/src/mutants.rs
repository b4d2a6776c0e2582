//! `cargo xtask mutants`: takes guarantees away, one at a time, and checks that the tests of a suite notice.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use xtask::mutant::Mutant;
use xtask::{Error, root};

use crate::process;
use crate::setup;

/// Tests that must notice mutants.
#[derive(Debug, Clone, Copy)]
struct Suite {
    /// The package, whose sources or dependencies the mutants change.
    package: &'static str,
    /// The program with the tests, or the library.
    test: &'static str,
    /// The kind of cargo's target: `test` or `lib`.
    kind: &'static str,
    /// The profile that it is built in.
    profile: &'static str,
    /// Where the mutants are, below the workspace's folder.
    folder: &'static str,
    /// Its checks of itself, which read the sources.
    skip: &'static str,
    /// Variables that the tests are run with.
    variables: &'static [(&'static str, &'static str)],
    /// Settings of cargo for the build: what is built again for each mutant should take seconds.
    settings: &'static [&'static str],
}

/// A build that a mutant changes at the bottom of the workspace: one without optimisation, in which overflows are checked.
const DEBUG: Suite = Suite {
    package: "phases-tests",
    test: "phases",
    kind: "test",
    profile: "dev",
    folder: "tests/phases/mutants/language",
    skip: "none",
    variables: &[],
    settings: &["profile.dev.debug=0", "profile.dev.incremental=true"],
};

/// The attacks.
const ATTACKS: Suite = Suite {
    package: "attacks",
    test: "attacks",
    kind: "test",
    profile: "release",
    folder: "tests/attacks/mutants",
    skip: "host::",
    variables: &[],
    settings: &[],
};

const SUITES: [Suite; 11] = [
    ATTACKS,
    Suite {
        package: "attacks-refused",
        test: "refused",
        folder: "tests/attacks/mutants/refused",
        ..ATTACKS
    },
    Suite {
        package: "cuda-safe",
        test: "linear",
        kind: "test",
        profile: "release",
        folder: "cuda-safe/tests/mutants",
        skip: "suite::",
        variables: &[],
        // Time that grows with the square is longer so.
        settings: &["profile.release.package.cuda-safe.opt-level=0"],
    },
    Suite {
        package: "ptx-ad",
        test: "adjoint",
        kind: "test",
        profile: "release",
        folder: "ptx-ad/tests/mutants",
        // Time depends on the machine.
        skip: "robust::t",
        variables: &[("PTX_AD_PROGRAMS", "300")],
        settings: &[
            "profile.release.package.ptx-ad.opt-level=1",
            "profile.release.package.ptx-ad.codegen-units=16",
            "profile.release.incremental=true",
        ],
    },
    Suite {
        package: "nccl-emu",
        test: "nccl",
        kind: "test",
        profile: "release",
        folder: "nccl-emu/tests/mutants",
        // Time depends on the machine.
        skip: "abort::frees_a_stream_that_waits",
        variables: &[],
        settings: &[],
    },
    Suite {
        package: "geom-kernels",
        test: "suite",
        kind: "test",
        profile: "release",
        folder: "geom-kernels/mutants/suite",
        skip: "sweep::",
        variables: &[],
        settings: &[
            "profile.release.package.geom-kernels.opt-level=1",
            "profile.release.incremental=true",
        ],
    },
    DEBUG,
    Suite { test: "launcher", folder: "tests/phases/mutants/launcher", ..DEBUG },
    Suite { test: "drawn", folder: "tests/phases/mutants/drawn", ..DEBUG },
    Suite {
        package: "gpu-phases",
        test: "gpu_phases",
        kind: "lib",
        folder: "gpu-phases/mutants",
        ..DEBUG
    },
    Suite {
        package: "geom-kernels",
        test: "geom_kernels",
        kind: "lib",
        folder: "geom-kernels/mutants/lib",
        ..DEBUG
    },
];

/// How long the tests may run with a mutant, which may never end. Those that have not ended by then count as failed.
const LIMIT: Duration = Duration::from_secs(600);

/// The mutants to try.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// If not empty: only mutants whose names, or what follows the file in them, begin with one of these.
    pub(crate) names: Vec<String>,
    /// If there is one: only the mutants that the tests of this package must notice.
    pub(crate) package: Option<String>,
    /// Whether to run only the tests that a mutant names, and not the whole suite.
    pub(crate) quick: bool,
}

/// Tries the mutants in a copy of the sources, and prints what became of each. Returns whether every one was
/// found: it compiles, and each attack that it names fails, which does not without it.
///
/// # Errors
/// The sources could not be copied, or cargo not be started.
pub(crate) fn mutants(request: &Request) -> Result<bool, Error> {
    let wanted = |name: &str| {
        request.names.is_empty()
            || request.names.iter().any(|begin| {
                name.starts_with(begin.as_str())
                    || name.split_once('/').is_some_and(|(_, own)| own.starts_with(begin.as_str()))
            })
    };
    let (mut all_found, mut any) = (true, false);
    for suite in SUITES {
        if request.package.as_ref().is_some_and(|package| package != suite.package) {
            continue;
        }
        let mutants = Mutant::all(&root().join(suite.folder))?;
        let mutants: Vec<Mutant> = mutants.into_iter().filter(|m| wanted(&m.name)).collect();
        if !mutants.is_empty() {
            any = true;
            all_found &= of_suite(suite, &mutants, request.quick)?;
        }
    }
    if any { Ok(all_found) } else { Err("no mutant has such a name".into()) }
}

/// Tries the mutants of a suite. Returns whether every one was found.
fn of_suite(suite: Suite, mutants: &[Mutant], quick: bool) -> Result<bool, Error> {
    let lab = Lab::prepare(suite)?;
    let named: BTreeSet<&str> = mutants.iter().flat_map(|m| &m.fails).map(String::as_str).collect();
    println!("without a mutant, {} tests of {}", named.len(), suite.package);
    let Some(program) = lab.build()? else {
        return Err(format!("the tests of {} do not build", suite.package).into());
    };
    let named: Vec<&str> = named.into_iter().collect();
    let before = lab.failing(&program, &named, &named)?;

    let (mut found, mut all_found) = (0, true);
    for mutant in mutants {
        println!("\n{}: {}", mutant.name, mutant.about);
        let result = lab.with(mutant, || {
            let Some(program) = lab.build()? else {
                return Ok(Err("it does not compile".to_owned()));
            };
            let only: Vec<&str> = mutant.fails.iter().map(String::as_str).collect();
            let failing = lab.failing(&program, if quick { &only } else { &[] }, &only)?;
            Ok(judged(mutant, &before, &failing))
        })?;
        found += usize::from(result.is_ok());
        match result {
            Ok(others) if others.is_empty() => println!("{}: found", mutant.name),
            Ok(others) => println!("{}: found, also by {}", mutant.name, others.join(", ")),
            Err(reason) => {
                println!("{}: NOT FOUND: {reason}", mutant.name);
                all_found = false;
            }
        }
    }
    println!("\n{}: {found} of {} mutants found", suite.package, mutants.len());
    Ok(all_found)
}

/// The other tests that have found a mutant, or why it counts as not found. `before` are the named tests that
/// fail without a mutant.
fn judged(
    mutant: &Mutant,
    before: &BTreeSet<String>,
    failing: &BTreeSet<String>,
) -> Result<Vec<String>, String> {
    for attack in &mutant.fails {
        if before.contains(attack) {
            return Err(format!("{attack} fails without it, too"));
        }
        if !failing.contains(attack) {
            return Err(format!("{attack} does not fail"));
        }
    }
    let others = failing.iter().filter(|attack| !mutant.fails.contains(attack));
    Ok(others.filter(|attack| !before.contains(*attack)).cloned().collect())
}

/// A copy of the sources, and what is built of it.
struct Lab {
    suite: Suite,
    tree: PathBuf,
    target: PathBuf,
}

impl Lab {
    /// Brings the copy up to date. Files that have not changed keep their time, so that cargo builds little.
    fn prepare(suite: Suite) -> Result<Self, Error> {
        let folder = process::target().join("mutants");
        let lab = Self { suite, tree: folder.join("tree"), target: folder.join("target") };
        fs::create_dir_all(&lab.tree)?;
        let listed = process::output(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root()),
        )?;
        let files: BTreeSet<&str> = listed.split('\0').filter(|file| !file.is_empty()).collect();
        for file in &files {
            let (from, to) = (root().join(file), lab.tree.join(file));
            // A file that is deleted and not yet committed.
            if !from.is_file() {
                continue;
            }
            let new = fs::read(&from).map_err(|error| format!("{}: {error}", from.display()))?;
            if fs::read(&to).ok().is_some_and(|old| old == new) {
                continue;
            }
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::copy(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
        }
        lab.remove_others(&lab.tree, &files)?;
        Ok(lab)
    }

    /// Removes files of the copy that the workspace has no longer.
    fn remove_others(&self, folder: &Path, files: &BTreeSet<&str>) -> Result<(), Error> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                self.remove_others(&path, files)?;
                continue;
            }
            let known =
                path.strip_prefix(&self.tree).ok().and_then(Path::to_str).is_some_and(|path| {
                    files.contains(path.replace('\\', "/").as_str()) && root().join(path).is_file()
                });
            if !known {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// Runs `act` while the mutant is in the copy, and takes it out again.
    fn with<T>(
        &self,
        mutant: &Mutant,
        act: impl FnOnce() -> Result<Result<T, String>, Error>,
    ) -> Result<Result<T, String>, Error> {
        let mut originals: Vec<(PathBuf, String)> = Vec::new();
        let mut applied = Ok(());
        for edit in &mutant.edits {
            let path = self.tree.join(&edit.file);
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            match edit.apply(&text) {
                Ok(changed) => {
                    fs::write(&path, changed)?;
                    originals.push((path, text));
                }
                Err(reason) => {
                    applied = Err(reason);
                    break;
                }
            }
        }
        let result = match applied {
            Ok(()) => act(),
            Err(reason) => Ok(Err(reason)),
        };
        // The last edit first: several may change one file.
        for (path, text) in originals.into_iter().rev() {
            fs::write(path, text)?;
        }
        result
    }

    /// Builds the suite, and returns its program; `None` if it does not compile.
    fn build(&self) -> Result<Option<PathBuf>, Error> {
        let mut cargo = process::cargo();
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        cargo.args(["test", "--quiet", "--no-run", "--profile", self.suite.profile]);
        cargo.args(["--package", self.suite.package]);
        match self.suite.kind {
            "lib" => cargo.arg("--lib"),
            _ => cargo.args(["--test", self.suite.test]),
        };
        cargo.arg("--message-format=json-render-diagnostics");
        cargo.args(self.suite.settings.iter().flat_map(|setting| ["--config", setting]));
        let messages = process::printed(&mut cargo)?;
        let is_whole = messages.lines().any(|line| {
            serde_json::from_str::<Value>(line)
                .is_ok_and(|message| message["success"] == Value::Bool(true))
        });
        let program = messages.lines().find_map(|line| {
            let message: Value = serde_json::from_str(line).ok()?;
            let ours = message["target"]["name"] == self.suite.test
                && message["target"]["kind"][0] == self.suite.kind;
            ours.then(|| message["executable"].as_str().map(PathBuf::from))?
        });
        Ok(program.filter(|_| is_whole))
    }

    /// The tests that fail, of these or, if there are none, of all. Those that have not ended in time count as failed, if
    /// they are among the named.
    fn failing(
        &self,
        program: &Path,
        only: &[&str],
        named: &[&str],
    ) -> Result<BTreeSet<String>, Error> {
        let printed = self.target.join("printed.txt");
        let mut tests = process::program(program);
        tests.current_dir(self.tree.join(self.package())).stdin(Stdio::null());
        tests.env("CARGO_MANIFEST_DIR", self.tree.join(self.package()));
        tests.env("CUDA_SETUP_DIR", root().join("target/cuda"));
        tests.envs(self.suite.variables.iter().copied());
        setup::name_nvrtc(&mut tests)?;
        // The suite's checks of its own read the sources, which are changed.
        tests.args(["--format", "pretty", "--skip", self.suite.skip]);
        if !only.is_empty() {
            tests.arg("--exact").args(only);
        }
        tests.stdout(fs::File::create(&printed)?);
        let mut child = tests.spawn()?;
        let began = Instant::now();
        while child.try_wait()?.is_none() {
            if began.elapsed() > LIMIT {
                println!("the tests did not end within {LIMIT:?}");
                child.kill()?;
                child.wait()?;
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let ended = began.elapsed() <= LIMIT;
        let bytes = fs::read(&printed)?;
        let text = String::from_utf8_lossy(&bytes);
        let results: Vec<(String, bool)> = text.lines().filter_map(result_of).collect();
        let missing: Vec<&str> = only
            .iter()
            .copied()
            .filter(|test| !results.iter().any(|(name, _)| name == test))
            .collect();
        if ended && (results.is_empty() || !missing.is_empty()) {
            return Err(format!("there are no tests {missing:?}\n{text}").into());
        }
        let mut failing: BTreeSet<String> =
            results.iter().filter(|(_, ok)| !ok).map(|(name, _)| name.clone()).collect();
        if !ended {
            let open = |test: &&&str| !results.iter().any(|(name, _)| name == **test);
            failing.extend(named.iter().filter(open).map(|test| (*test).to_owned()));
        }
        Ok(failing)
    }

    /// The folder of the suite's package.
    fn package(&self) -> &Path {
        let folder = Path::new(self.suite.folder);
        folder
            .ancestors()
            .find(|above| root().join(above).join("Cargo.toml").is_file())
            .unwrap_or(folder)
    }
}

/// The name of a test and whether it passed, of a line such as `test order::a ... ok`.
fn result_of(line: &str) -> Option<(String, bool)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    matches!(result, "ok" | "FAILED").then(|| (name.trim().to_owned(), result == "ok"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Takes it away.\n# All of it.\nfails: a::b, a::c\n\nfile: x.rs\n--- old\none\n\
                        --- new\n--- end\nfile: y.rs\n--- old\ntwo\n--- new\nthree\n--- end\n";

    #[test]
    fn mutants_are_read() -> Result<(), String> {
        let mutant = Mutant::parse("01-it", TEXT)?;
        assert_eq!(mutant.about, "Takes it away. All of it.");
        assert_eq!(mutant.fails, ["a::b", "a::c"]);
        assert_eq!(mutant.edits.len(), 2);
        assert_eq!(mutant.edits[0].apply("zero\none\ntwo\n")?, "zero\ntwo\n");
        assert!(mutant.edits[0].apply("one\none\n").is_err(), "twice");
        assert!(mutant.edits[0].apply("two\n").is_err(), "not there");
        for wrong in ["", "# a\nfails: b\n", "# a\nfile: x\n--- old\none\n", "what\n"] {
            assert!(Mutant::parse("01-it", wrong).is_err(), "{wrong}");
        }
        Ok(())
    }

    #[test]
    fn a_mutant_is_found_only_by_an_attack_that_fails_because_of_it() -> Result<(), String> {
        let mutant = Mutant::parse("01-it", TEXT)?;
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(
            judged(&mutant, &set(&[]), &set(&["a::b", "a::c", "d::e"])),
            Ok(vec!["d::e".into()])
        );
        assert!(judged(&mutant, &set(&[]), &set(&["a::b"])).is_err());
        assert!(judged(&mutant, &set(&["a::c"]), &set(&["a::b", "a::c"])).is_err());
        Ok(())
    }

    #[test]
    fn several_mutants_are_in_one_file() -> Result<(), String> {
        let text = "For people.\n\n== one\n# Takes one.\nfails: a\nfile: x.rs\n- let a = b;\n+ let a = c;\n\
                    \n== two\n# Takes two.\nfails: b\nfile: x.rs\n- gone();\n+\n";
        let mutants = Mutant::parse_all("set", text)?;
        let names: Vec<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
        assert_eq!(names, ["set/one", "set/two"]);
        assert_eq!(mutants[0].edits[0].apply("{ let a = b; }")?, "{ let a = c; }");
        assert_eq!(mutants[1].edits[0].apply("{ gone(); }")?, "{  }");
        // Nothing need stand before the first.
        let (_, without) = text.split_at(text.find("==").unwrap_or(0));
        assert_eq!(Mutant::parse_all("set", without)?, mutants);
        assert_eq!(Mutant::parse_all("01-it", TEXT)?.len(), 1);
        assert!(Mutant::parse_all("set", "\n== one\n# Takes.\nfails: a\nfile: x\n- a\n").is_err());
        Ok(())
    }

    /// What a mutant replaces is there, once.
    #[test]
    fn mutants_fit() -> Result<(), String> {
        for suite in SUITES {
            let mutants = Mutant::all(&root().join(suite.folder))?;
            assert!(!mutants.is_empty(), "{}", suite.folder);
            let names: BTreeSet<&str> = mutants.iter().map(|mutant| &*mutant.name).collect();
            assert_eq!(names.len(), mutants.len(), "two mutants have one name");
            for mutant in &mutants {
                assert!(
                    mutant.about.ends_with('.'),
                    "{}: a sentence says what it takes",
                    mutant.name
                );
                let mut texts: std::collections::BTreeMap<&str, String> =
                    std::collections::BTreeMap::new();
                for edit in &mutant.edits {
                    let text = match texts.remove(&*edit.file) {
                        Some(text) => text,
                        None => fs::read_to_string(root().join(&edit.file))
                            .map_err(|error| format!("{}: {error}", edit.file))?,
                    };
                    let text =
                        edit.apply(&text).map_err(|why| format!("{}: {why}", mutant.name))?;
                    texts.insert(&edit.file, text);
                }
            }
        }
        Ok(())
    }

    /// Adds the names of functions and files of the Rust sources below a folder.
    fn names(folder: &Path, found: &mut BTreeSet<String>) -> std::io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                names(&path, found)?;
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path)?;
                let functions = text.split("fn ").skip(1);
                found.extend(functions.filter_map(|rest| {
                    Some(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?.to_owned())
                }));
                found.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
        Ok(())
    }

    /// A mutant names tests that exist: functions, or files of programs that must not compile.
    #[test]
    fn tests_of_mutants_exist() -> Result<(), Error> {
        for suite in SUITES {
            let mutants = root().join(suite.folder);
            let package = mutants.ancestors().find(|folder| folder.join("Cargo.toml").is_file());
            let mut found = BTreeSet::new();
            names(package.ok_or("mutants of no package")?, &mut found)?;
            for mutant in Mutant::all(&mutants)? {
                for test in &mutant.fails {
                    let function = test.rsplit("::").next().unwrap_or(test);
                    assert!(found.contains(function), "{}: there is no test {test}", mutant.name);
                }
            }
        }
        Ok(())
    }

    #[test]
    fn results_of_tests_are_read() {
        assert_eq!(result_of("test order::a     ... ok"), Some(("order::a".to_owned(), true)));
        assert_eq!(result_of("test order::a ... FAILED"), Some(("order::a".to_owned(), false)));
        assert_eq!(result_of("test result: FAILED. 1 passed"), None);
    }
}
