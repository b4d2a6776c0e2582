//! The file of golden bits: what is written to it, and how results are compared with it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytemuck::NoUninit;

use crate::harness::{Failure, TestDevice, TestResult, ensure, ensure_eq};

/// The recording. It is part of the program, so that the tests run where the sources are not.
pub(super) const RECORDED: &str = include_str!("../../../golden/bits.txt");

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/bits.txt");

/// The variable that, with the value `write`, writes the file anew.
const VARIABLE: &str = "TEST_GOLDEN";

const HEAD: &str = "\
# Results of geom-kernels and tape: name, length in bytes, FNV-1a 64 of the bytes. Tests: tests/integration/src/golden/bits.
# TEST_GOLDEN=write cargo test --release -p integration-tests --test integration -- --tier emu golden::bits
";

/// Length in bytes and hash of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    length: usize,
    hash: u64,
}

impl Entry {
    fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self { length: bytes.len(), hash }
    }

    fn line(&self, name: &str) -> String {
        format!("{name} {} {:016x}", self.length, self.hash)
    }
}

type Entries = BTreeMap<String, Entry>;

/// The entries of a file.
fn parse(text: &str) -> Result<Entries, Failure> {
    let mut entries = Entries::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let wrong = || Failure::new(format!("{line:?} is not `name length hash`"));
        let words: Vec<&str> = line.split(' ').collect();
        let [name, length, hash] = words.as_slice() else { return Err(wrong()) };
        let length = length.parse().map_err(|_| wrong())?;
        let hash = u64::from_str_radix(hash, 16).map_err(|_| wrong())?;
        if entries.insert((*name).to_owned(), Entry { length, hash }).is_some() {
            return Err(Failure::new(format!("{name} is there twice")));
        }
    }
    Ok(entries)
}

/// Whether an entry belongs to a topic.
fn is_of(topic: &str, name: &str) -> bool {
    name.strip_prefix(topic).is_some_and(|rest| rest.starts_with('/'))
}

/// What differs between the recording of a topic and its results, one line each.
fn differences(topic: &str, recorded: &Entries, found: &Entries) -> Vec<String> {
    let mut all = Vec::new();
    for (name, entry) in found {
        match recorded.get(name) {
            None => all.push(format!("new: {}", entry.line(name))),
            Some(old) if old != entry => {
                all.push(format!(
                    "changed: {} was {} {:016x}",
                    entry.line(name),
                    old.length,
                    old.hash
                ));
            }
            Some(_) => {}
        }
    }
    let gone = recorded.iter().filter(|(name, _)| is_of(topic, name) && !found.contains_key(*name));
    all.extend(gone.map(|(name, _)| format!("gone: {name}")));
    all
}

/// The results of one test.
pub(super) struct Book {
    topic: &'static str,
    found: Entries,
    twice: Option<String>,
}

impl Book {
    /// An empty one. Names of results begin with the topic, which is the test's name.
    pub(super) fn new(topic: &'static str) -> Self {
        Self { topic, found: Entries::new(), twice: None }
    }

    /// Adds a result: its elements' bytes, one after the other.
    pub(super) fn put<T: NoUninit>(&mut self, name: impl AsRef<str>, values: &[T]) {
        // All devices and all machines that CUDA runs on are little-endian.
        let name = format!("{}/{}", self.topic, name.as_ref());
        let entry = Entry::of(bytemuck::cast_slice(values));
        if self.found.insert(name.clone(), entry).is_some() {
            self.twice = Some(name);
        }
    }

    /// Compares all results with the recording, or writes them to it.
    pub(super) fn finish(self, device: &TestDevice) -> TestResult {
        if let Some(name) = self.twice {
            return Err(Failure::new(format!("two results are called {name}")));
        }
        let asked = std::env::var(VARIABLE).is_ok_and(|value| value == "write");
        if asked && device.tier() == "emu" && !device.is_seeded() {
            return write(self.topic, &self.found, Path::new(FILE));
        }
        let wrong = differences(self.topic, &parse(RECORDED)?, &self.found);
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} of {} results are not those of tests/integration/golden/bits.txt (if they are meant to change, run with \
             {VARIABLE}=write):\n{}",
            wrong.len(),
            self.found.len(),
            wrong.join("\n")
        )))
    }
}

/// One test at a time writes.
static WRITING: Mutex<()> = Mutex::new(());

/// Replaces the entries of a topic, removes those of topics that no longer exist, and prints what has changed.
fn write(topic: &str, found: &Entries, file: &Path) -> TestResult {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = parse(&std::fs::read_to_string(file)?)?;
    for line in differences(topic, &all, found) {
        eprintln!("{line}");
    }
    all.retain(|name, _| {
        !is_of(topic, name) && super::TOPICS.iter().any(|(topic, _)| is_of(topic, name))
    });
    all.extend(found.iter().map(|(name, entry)| (name.clone(), *entry)));
    let lines: Vec<String> = all.iter().map(|(name, entry)| entry.line(name) + "\n").collect();
    Ok(std::fs::write(file, HEAD.to_owned() + &lines.concat())?)
}

/// The recording has entries of every topic, and of no other.
pub(super) fn the_recording_is_whole() -> TestResult {
    let recorded = parse(RECORDED)?;
    for (topic, _) in super::TOPICS {
        ensure!(recorded.keys().any(|name| is_of(topic, name)), "no results of {topic}");
    }
    for name in recorded.keys() {
        let known = super::TOPICS.iter().any(|(topic, _)| is_of(topic, name));
        ensure!(known, "{name} is a result of no test");
    }
    ensure!(RECORDED.starts_with(HEAD));
    Ok(())
}

/// Each kind of difference is found, down to one bit.
pub(super) fn differences_are_found() -> TestResult {
    // The test vectors of the hash: draft-eastlake-fnv.
    ensure_eq!(Entry::of(b"").hash, 0xcbf2_9ce4_8422_2325);
    ensure_eq!(Entry::of(b"foobar").hash, 0x8594_4171_f739_67e8);
    let mut book = Book::new("topic");
    book.put("one", &[1.0f32, -0.0]);
    book.put("two", &[7u64]);
    let right = parse(&format!(
        "# a comment\n{}\n{}\ntopical/x 0 0\n",
        Entry::of(&[0, 0, 128, 63, 0, 0, 0, 128]).line("topic/one"),
        Entry::of(&[7, 0, 0, 0, 0, 0, 0, 0]).line("topic/two"),
    ))?;
    ensure_eq!(differences("topic", &right, &book.found), Vec::<String>::new());
    let mut other = Book::new("topic");
    other.put("one", &[1.0f32, 0.0]);
    other.put("three", &[7u64]);
    let found = differences("topic", &right, &other.found);
    let begins: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
    ensure_eq!(begins, ["changed:", "new:", "gone:"]);
    ensure!(parse("topic/one 4").is_err() && parse("a 1 0\na 1 0\n").is_err());
    book.put("two", &[7u64]);
    ensure_eq!(book.twice.as_deref(), Some("topic/two"));
    Ok(())
}
