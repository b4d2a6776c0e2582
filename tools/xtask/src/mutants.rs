//! `cargo xtask mutants`: takes guarantees away, one at a time, and checks that the attack suite notices.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use xtask::mutant::Mutant;
use xtask::{Error, root};

use crate::process;
use crate::setup;

/// Where the mutants are, below the workspace's folder.
const FOLDER: &str = "tests/attacks/mutants";

/// The mutants to try.
#[derive(Debug, Default)]
pub(crate) struct Request {
    /// If not empty: only mutants whose names begin with one of these.
    pub(crate) names: Vec<String>,
    /// Whether to run only the attacks that a mutant names, and not the whole suite.
    pub(crate) quick: bool,
}

/// Tries the mutants in a copy of the sources, and prints what became of each. Returns whether every one was
/// found: it compiles, and each attack that it names fails, which does not without it.
///
/// # Errors
/// The sources could not be copied, or cargo not be started.
pub(crate) fn mutants(request: &Request) -> Result<bool, Error> {
    let mutants = Mutant::all(&root().join(FOLDER))?;
    let wanted = |name: &str| {
        request.names.is_empty()
            || request.names.iter().any(|begin| name.starts_with(begin.as_str()))
    };
    let mutants: Vec<Mutant> = mutants.into_iter().filter(|mutant| wanted(&mutant.name)).collect();
    if mutants.is_empty() {
        return Err("no mutant has such a name".into());
    }
    let lab = Lab::prepare()?;
    let named: BTreeSet<&str> = mutants.iter().flat_map(|m| &m.fails).map(String::as_str).collect();
    println!("without a mutant, {} attacks", named.len());
    if !lab.build()? {
        return Err("the attack suite does not build".into());
    }
    let named: Vec<&str> = named.into_iter().collect();
    let before = lab.failing(&named)?;

    let mut all_found = true;
    for mutant in &mutants {
        println!("\n{}: {}", mutant.name, mutant.about);
        let result = lab.with(mutant, || {
            if !lab.build()? {
                return Ok(Err("it does not compile".to_owned()));
            }
            let only: Vec<&str> = mutant.fails.iter().map(String::as_str).collect();
            let failing = lab.failing(if request.quick { &only } else { &[] })?;
            Ok(judged(mutant, &before, &failing))
        })?;
        match result {
            Ok(others) if others.is_empty() => println!("{}: found", mutant.name),
            Ok(others) => println!("{}: found, also by {}", mutant.name, others.join(", ")),
            Err(reason) => {
                println!("{}: NOT FOUND: {reason}", mutant.name);
                all_found = false;
            }
        }
    }
    Ok(all_found)
}

/// The other attacks that have found a mutant, or why it counts as not found. `before` are the named attacks that
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
    tree: PathBuf,
    target: PathBuf,
}

impl Lab {
    /// Brings the copy up to date. Files that have not changed keep their time, so that cargo builds little.
    fn prepare() -> Result<Self, Error> {
        let folder = process::target().join("mutants");
        let lab = Self { tree: folder.join("tree"), target: folder.join("target") };
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

    fn cargo(&self) -> Result<Command, Error> {
        let mut cargo = process::cargo();
        cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target);
        cargo.env("CUDA_SETUP_DIR", root().join("target/cuda"));
        cargo.args(["test", "--quiet", "--release", "--package", "attacks", "--test", "attacks"]);
        setup::name_nvrtc(&mut cargo)?;
        Ok(cargo)
    }

    /// Builds the suite; whether it compiles.
    fn build(&self) -> Result<bool, Error> {
        process::succeeds(self.cargo()?.arg("--no-run"))
    }

    /// The attacks that fail, of these or, if there are none, of all.
    fn failing(&self, only: &[&str]) -> Result<BTreeSet<String>, Error> {
        let mut cargo = self.cargo()?;
        // The suite's checks of its own read the sources, which are changed.
        cargo.args(["--", "--format", "pretty", "--skip", "suite::"]);
        if !only.is_empty() {
            cargo.arg("--exact").args(only);
        }
        let output = cargo.stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let ran = text.lines().filter_map(result_of).count();
        if ran < only.len().max(1) {
            return Err(format!("only {ran} attacks ran\n{text}").into());
        }
        Ok(text.lines().filter_map(result_of).filter(|(_, ok)| !ok).map(|(name, _)| name).collect())
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
    fn results_of_tests_are_read() {
        assert_eq!(result_of("test order::a     ... ok"), Some(("order::a".to_owned(), true)));
        assert_eq!(result_of("test order::a ... FAILED"), Some(("order::a".to_owned(), false)));
        assert_eq!(result_of("test result: FAILED. 1 passed"), None);
    }
}
