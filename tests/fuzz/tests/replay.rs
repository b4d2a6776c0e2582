//! Replays every input that is checked in, so that a fixed mistake stays fixed.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fuzz_checks::TARGETS;
use libtest_mimic::{Arguments, Failed, Trial};

/// An input that takes longer has hung.
const LONGEST: Duration = Duration::from_secs(10);

type Answer<T> = Result<T, Box<dyn Error>>;

thread_local! {
    /// The message and the place of a thread's last panic.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

fn main() -> ExitCode {
    // Panics are reported with their files; one of them is planted.
    std::panic::set_hook(Box::new(|panic| PANIC.set(panic.to_string())));
    let arguments = Arguments::from_args();
    let mut trials = vec![
        Trial::test("a_check_that_fails_is_reported_with_its_file", || failed(planted())),
        Trial::test("there_is_a_fuzzer_for_each_check", || failed(fuzzers())),
    ];
    for target in TARGETS {
        let inputs = move || failed(corpus(target.name, target.check));
        trials.push(Trial::test(format!("corpus::{}", target.name), inputs));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn failed(answer: Answer<()>) -> Result<(), Failed> {
    answer.map_err(|error| Failed::from(error.to_string()))
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzzers")
}

fn corpus(name: &str, check: fn(&[u8])) -> Answer<()> {
    let (count, failures) =
        replay(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(name), check)?;
    println!("{name}: {count} inputs");
    if count == 0 {
        return Err(format!("the corpus of {name} is empty").into());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Gives all files of a folder to a check: how many there are, and what went wrong with which.
fn replay(folder: &Path, check: fn(&[u8])) -> Answer<(usize, Vec<String>)> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Answer<Vec<_>>>()?;
    files.sort();
    let mut failures = Vec::new();
    for file in &files {
        let data = fs::read(file)?;
        let begin = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| check(&data))).is_err() {
            failures.push(format!("{}: {}", file.display(), PANIC.take()));
        }
        let taken = begin.elapsed();
        if taken > LONGEST {
            failures.push(format!("{}: took {taken:?}", file.display()));
        }
    }
    Ok((files.len(), failures))
}

/// A check with a mistake in it.
fn refuses_a_word(data: &[u8]) {
    assert!(data != b"boom", "this is a planted failure");
}

fn planted() -> Answer<()> {
    let folder = tempfile::tempdir()?;
    for (name, data) in [("harmless", "bloom"), ("crash-planted", "boom"), ("other", "")] {
        fs::write(folder.path().join(name), data)?;
    }
    let (count, failures) = replay(folder.path(), refuses_a_word)?;
    let [failure] = &failures[..] else {
        return Err(format!("one failure is planted, {} were found", failures.len()).into());
    };
    if count != 3
        || !failure.contains("crash-planted: ")
        || !failure.contains("this is a planted failure")
    {
        return Err(format!("of {count} files: {failure}").into());
    }
    Ok(())
}

fn fuzzers() -> Answer<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(fuzz().join("fuzz_targets"))? {
        let path = entry?.path();
        found.push(path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned());
    }
    found.sort();
    let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
    if found == names {
        Ok(())
    } else {
        Err(format!("{found:?}, where {names:?} are checked").into())
    }
}
