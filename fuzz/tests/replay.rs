//! Replays every input that is checked in, so that a fixed mistake stays fixed, and copies of it with random changes.
//! The files are few: those that reach most of what is checked for their number. Their changed copies reach the rest.

use std::cell::RefCell;
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use fuzz_checks::TARGETS;
use libtest_mimic::{Arguments, Failed, Trial};
use test_support::Rng;
use test_support::corpus::{self, Input};
use test_support::sample::{self, Effort};

/// Numbers that are often at the end of a range, as bytes and as text.
const NUMBERS: [&[u8]; 9] = [
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\x7f",
    b"-1",
    b"65536",
    b"4294967290",
    b"18446744073709551615",
    b"1e39",
    b"nan",
];

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
        Trial::test("a_changed_copy_that_fails_is_kept", || failed(planted_copy())),
        Trial::test("there_is_a_fuzzer_for_each_check", || failed(fuzzers())),
    ];
    for target in TARGETS {
        let inputs = move || failed(replay_corpus(target.name, target.check));
        trials.push(Trial::test(format!("corpus::{}", target.name), inputs));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn failed(answer: Answer<()>) -> Result<(), Failed> {
    answer.map_err(|error| Failed::from(error.to_string()))
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn replay_corpus(name: &str, check: fn(&[u8])) -> Answer<()> {
    let copies = if sample::effort() == Effort::Deep { 2000 } else { 24 };
    let (count, failures) = replay(&folder().join("corpus").join(name), copies, check)?;
    println!("{name}: {count} inputs, {copies} changed copies of each");
    if count == 0 {
        return Err(format!("the corpus of {name} is empty").into());
    }
    if failures.is_empty() { Ok(()) } else { Err(failures.join("\n").into()) }
}

/// Gives all inputs of a folder and changed copies of them to a check: the number of inputs, and what went wrong with
/// which. What has no file is kept in one.
fn replay(folder: &Path, copies: usize, check: fn(&[u8])) -> Answer<(usize, Vec<String>)> {
    let inputs = corpus::read(folder)?;
    let kept = |name: &str, data: &[u8]| {
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::write(&kept, data).map(|()| kept)
    };
    let mut failures = Vec::new();
    for (at, Input { name, is_packed, data }) in inputs.iter().enumerate() {
        if let Some(text) = wrong(data, check) {
            let file = if *is_packed { kept(name, data)? } else { folder.join(name) };
            failures.push(format!("{}: {text}", file.display()));
        }
        let mut rng = Rng::new(sample::seed() ^ at as u64);
        for copy in 0..copies {
            let copied = changed(data, &inputs[rng.below(inputs.len())].data, &mut rng);
            if let Some(text) = wrong(&copied, check) {
                let file = kept(&format!("{name}-{copy}"), &copied)?;
                failures.push(format!("{}: {text}", file.display()));
            }
        }
    }
    Ok((inputs.len(), failures))
}

/// What is wrong with an input, if anything is.
fn wrong(data: &[u8], check: fn(&[u8])) -> Option<String> {
    let begin = Instant::now();
    if catch_unwind(AssertUnwindSafe(|| check(data))).is_err() {
        return Some(PANIC.take());
    }
    let taken = begin.elapsed();
    (taken > LONGEST).then(|| format!("took {taken:?}"))
}

/// Copies an input with one to four changes, some of which take a part of another input.
fn changed(data: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut data = data.to_vec();
    let part = |data: &[u8], rng: &mut Rng| {
        let begin = rng.below(data.len() + 1);
        begin..begin + rng.below((data.len() - begin).min(64) + 1)
    };
    for _ in 0..=rng.below(4) {
        let range = part(&data, rng);
        match rng.below(6) {
            0 => data.truncate(range.start),
            1 => drop(data.drain(range)),
            2 => data.splice(range, other[part(other, rng)].iter().copied()).for_each(drop),
            3 => {
                let number = NUMBERS[rng.below(NUMBERS.len())];
                data.splice(range, number.iter().copied()).for_each(drop);
            }
            4 => {
                let again = data[range.clone()].to_vec();
                data.splice(range.end..range.end, again).for_each(drop);
            }
            _ => {
                let bit = 1 << rng.below(8);
                data.get_mut(range.start).into_iter().for_each(|byte| *byte ^= bit);
            }
        }
    }
    data
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
    let (count, failures) = replay(folder.path(), 0, refuses_a_word)?;
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

fn refuses_changes(data: &[u8]) {
    assert!(data == b"the one input", "this is a changed copy");
}

fn planted_copy() -> Answer<()> {
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("input"), "the one input")?;
    let (_, failures) = replay(folder.path(), 40, refuses_changes)?;
    let failure = failures.first().ok_or("no changed copy is reported")?;
    let (kept, text) = failure.split_once(": ").ok_or("a failure has no file")?;
    let data = fs::read(kept)?;
    let differs = data != b"the one input" && text.contains("this is a changed copy");
    if differs { Ok(()) } else { Err(format!("{failure}: {data:?}").into()) }
}

fn fuzzers() -> Answer<()> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder().join("fuzzers/fuzz_targets"))? {
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
