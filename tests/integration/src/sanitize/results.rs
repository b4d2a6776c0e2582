//! The results of earlier runs, a line of JSON each in `results.jsonl`.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::plan::{Shard, Tool};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

const FILE: &str = "results.jsonl";

/// What a tool said of a test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Clean,
    /// With what was found, or why there is no verdict.
    Found(String),
}

impl Verdict {
    pub(super) fn is_clean(&self) -> bool {
        *self == Self::Clean
    }
}

/// The results of one build.
pub(super) struct Results {
    build: String,
    file: File,
    known: HashMap<(&'static str, String), Verdict>,
    /// The first failure to write.
    failed: Option<std::io::Error>,
}

impl Results {
    /// Opens the folder's results of this build of the program.
    pub(super) fn open(folder: &Path) -> Result<Self, Failure> {
        Self::of(folder, build()?)
    }

    fn of(folder: &Path, build: String) -> Result<Self, Failure> {
        let path = folder.join(FILE);
        let mut known = HashMap::new();
        if let Ok(file) = File::open(&path) {
            for line in BufReader::new(file).lines() {
                // A line that a killed run has cut short is not there.
                let Ok(line) = serde_json::from_str::<serde_json::Value>(&line?) else { continue };
                if line["build"] != build.as_str() {
                    continue;
                }
                let (Some(tool), Some(test)) = (line["tool"].as_str(), line["test"].as_str())
                else {
                    continue;
                };
                let verdict = match line["found"].as_str() {
                    None => Verdict::Clean,
                    Some(what) => Verdict::Found(what.to_owned()),
                };
                known.insert((Tool::named(tool)?.name(), test.to_owned()), verdict);
            }
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        // Ends a line that was cut short.
        file.write_all(b"\n")?;
        Ok(Self { build, file, known, failed: None })
    }

    pub(super) fn build(&self) -> &str {
        &self.build
    }

    pub(super) fn of_test(&self, tool: Tool, test: &str) -> Option<&Verdict> {
        self.known.get(&(tool.name(), test.to_owned()))
    }

    /// The shard without the tests that have a result.
    pub(super) fn left_of(&self, shard: &Shard) -> Shard {
        let mut left = shard.clone();
        left.tests.retain(|test| self.of_test(shard.tool, test).is_none());
        left
    }

    /// Notes the verdict of each test of a shard.
    pub(super) fn add(&mut self, shard: &Shard, verdict: Verdict) {
        for test in &shard.tests {
            let mut line = serde_json::json!({
                "build": self.build, "tool": shard.tool.name(), "test": test,
            });
            if let Verdict::Found(what) = &verdict {
                line["found"] = what.as_str().into();
            }
            if let Err(error) = self.file.write_all(format!("{line}\n").as_bytes()) {
                self.failed.get_or_insert(error);
            }
            self.known.insert((shard.tool.name(), (*test).to_owned()), verdict.clone());
        }
    }

    /// Fails if a result could not be written.
    pub(super) fn written(&self) -> TestResult {
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(Failure::new(format!("a result was not written: {error}"))),
        }
    }
}

/// Names this build: the beginning of the program's hash.
fn build() -> Result<String, Failure> {
    let program = std::fs::read(std::env::current_exe()?)?;
    let hash = Sha256::digest(&program);
    Ok(hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

/// A second run knows what the first one found, also after a line that was cut short, and nothing of another build.
pub(super) fn resumed() -> TestResult {
    let folder = tempfile::tempdir()?;
    let shard = |tests: &[&'static str]| Shard {
        tool: Tool::Race,
        tests: tests.to_vec(),
        fault: false,
        variables: &[],
    };
    let mut first = Results::of(folder.path(), "a".to_owned())?;
    first.add(&shard(&["x::one", "x::two"]), Verdict::Clean);
    first.add(&shard(&["x::three"]), Verdict::Found("2 hazards".to_owned()));
    first.written()?;
    OpenOptions::new().append(true).open(folder.path().join(FILE))?.write_all(b"{\"build\":\"a")?;

    let mut second = Results::of(folder.path(), "a".to_owned())?;
    second.add(&shard(&["x::four"]), Verdict::Clean);
    let third = Results::of(folder.path(), "a".to_owned())?;
    let left = third.left_of(&shard(&["x::one", "x::two", "x::three", "x::four", "x::five"]));
    ensure_eq!(left.tests, ["x::five"]);
    ensure_eq!(third.of_test(Tool::Race, "x::one"), Some(&Verdict::Clean));
    let found = Verdict::Found("2 hazards".to_owned());
    ensure_eq!(third.of_test(Tool::Race, "x::three"), Some(&found));
    ensure!(third.of_test(Tool::Init, "x::one").is_none(), "of another tool");
    let other = Results::of(folder.path(), "b".to_owned())?;
    ensure!(other.of_test(Tool::Race, "x::one").is_none(), "of another build");
    Ok(())
}
