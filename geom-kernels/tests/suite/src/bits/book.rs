//! The file of golden bits: what is written to it, and how results are compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use bytemuck::NoUninit;

use test_harness::{Failure, TestDevice, TestResult, ensure, ensure_eq};

/// The recording. It is part of the program, so that the tests run where the sources are not.
pub(super) const RECORDED: &str = include_str!("../../golden/bits.txt");

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/bits.txt");

/// The variable that, with the value `write`, writes the file anew.
const VARIABLE: &str = "TEST_GOLDEN";

const HEAD: &str = "\
# Results of geom-kernels and tape by group: name, number of results, FNV-1a 64 of their lines `name length hash`.
# Tests: geom-kernels/tests/suite/src/bits.
# TEST_GOLDEN=write cargo test --release -p geom-kernels --test suite -- --tier emu golden::bits
";

/// A result: its length in bytes and their hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    length: usize,
    hash: u64,
}

impl Entry {
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), hash: fnv(bytes) }
    }

    fn line(&self, name: &str) -> String {
        format!("{name} {} {:016x}\n", self.length, self.hash)
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

type Entries = BTreeMap<String, Entry>;

/// What is recorded of a group: the number of its results, and the hash of their lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    results: usize,
    hash: u64,
}

impl Group {
    fn line(&self, name: &str) -> String {
        format!("{name} {} {:016x}", self.results, self.hash)
    }
}

type Groups = BTreeMap<String, Group>;

/// The group of a result: the first two parts of its name, the topic and one more.
fn group_of(name: &str) -> &str {
    name.match_indices('/').nth(1).map_or(name, |(at, _)| &name[..at])
}

/// The lines of a group's results, in the order of their names.
fn lines_of(group: &str, entries: &Entries) -> String {
    let own = entries.iter().filter(|(name, _)| group_of(name) == group);
    own.map(|(name, entry)| entry.line(name)).collect()
}

fn grouped(entries: &Entries) -> Groups {
    let names: BTreeSet<&str> = entries.keys().map(|name| group_of(name)).collect();
    let summary = |name: &str| {
        let lines = lines_of(name, entries);
        Group { results: lines.lines().count(), hash: fnv(lines.as_bytes()) }
    };
    names.into_iter().map(|name| (name.to_owned(), summary(name))).collect()
}

/// The groups of a file.
fn parse(text: &str) -> Result<Groups, Failure> {
    let mut groups = Groups::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let wrong = || Failure::new(format!("{line:?} is not `name number hash`"));
        let words: Vec<&str> = line.split(' ').collect();
        let [name, results, hash] = words.as_slice() else { return Err(wrong()) };
        let results = results.parse().map_err(|_| wrong())?;
        let hash = u64::from_str_radix(hash, 16).map_err(|_| wrong())?;
        if groups.insert((*name).to_owned(), Group { results, hash }).is_some() {
            return Err(Failure::new(format!("{name} is there twice")));
        }
    }
    Ok(groups)
}

/// Whether a group belongs to a topic.
fn is_of(topic: &str, name: &str) -> bool {
    name.strip_prefix(topic).is_some_and(|rest| rest.starts_with('/'))
}

/// What differs between the recording of a topic and its results: a line for each group, then the results of the groups
/// that are new or changed.
fn differences(topic: &str, recorded: &Groups, found: &Entries) -> Vec<String> {
    let (mut all, mut details) = (Vec::new(), Vec::new());
    let groups = grouped(found);
    for (name, group) in &groups {
        match recorded.get(name) {
            None => all.push(format!("new: {}", group.line(name))),
            Some(old) if old != group => {
                let (results, hash) = (old.results, old.hash);
                all.push(format!("changed: {} was {results} {hash:016x}", group.line(name)));
            }
            Some(_) => continue,
        }
        details.push(lines_of(name, found));
    }
    let gone = recorded.keys().filter(|name| is_of(topic, name) && !groups.contains_key(*name));
    all.extend(gone.map(|name| format!("gone: {name}")));
    all.extend(details.iter().flat_map(|lines| lines.lines()).map(|line| format!("now: {line}")));
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

    /// Adds a result of the device, which the CPU must have computed, too.
    pub(super) fn put_both<T: NoUninit>(
        &mut self,
        name: impl AsRef<str>,
        device: &[T],
        cpu: &[T],
    ) -> TestResult {
        self.put(&name, device);
        self.compare(&name, cpu)
    }

    /// Compares the elements that the CPU computes with a result of the device.
    pub(super) fn compare<T: NoUninit>(&self, name: impl AsRef<str>, cpu: &[T]) -> TestResult {
        let name = format!("{}/{}", self.topic, name.as_ref());
        let found = Some(Entry::of(bytemuck::cast_slice(cpu)));
        ensure_eq!(found, self.found.get(&name).copied(), "{name} on the CPU");
        Ok(())
    }

    /// Compares all results with the recording, or writes them to it.
    pub(super) fn finish(self, device: &TestDevice) -> TestResult {
        if let Some(name) = self.twice {
            return Err(Failure::new(format!("two results are called {name}")));
        }
        let asked = std::env::var(VARIABLE).unwrap_or_default();
        if asked == "list" {
            self.found.iter().for_each(|(name, entry)| eprint!("{}", entry.line(name)));
        }
        if asked == "write" && device.tier() == "emu" && !device.is_seeded() {
            return write(self.topic, &self.found, Path::new(FILE));
        }
        let wrong = differences(self.topic, &parse(RECORDED)?, &self.found);
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "results are not those of geom-kernels/tests/suite/golden/bits.txt (if they are meant to change, run with \
             {VARIABLE}=write; {VARIABLE}=list prints the lines `now` of all results, to compare those of two \
             commits):\n{}",
            wrong.join("\n")
        )))
    }
}

/// One test at a time writes.
static WRITING: Mutex<()> = Mutex::new(());

/// Replaces the groups of a topic, removes those of topics that no longer exist, and prints what has changed.
fn write(topic: &str, found: &Entries, file: &Path) -> TestResult {
    let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = parse(&std::fs::read_to_string(file)?)?;
    for line in differences(topic, &all, found) {
        eprintln!("{line}");
    }
    all.retain(|name, _| {
        !is_of(topic, name) && super::TOPICS.iter().any(|(topic, _)| is_of(topic, name))
    });
    all.extend(grouped(found));
    let lines: Vec<String> = all.iter().map(|(name, group)| group.line(name) + "\n").collect();
    Ok(std::fs::write(file, HEAD.to_owned() + &lines.concat())?)
}

/// The recording has groups of every topic, and of no other.
pub(super) fn the_recording_is_whole() -> TestResult {
    let recorded = parse(RECORDED)?;
    for (topic, _) in super::TOPICS {
        ensure!(recorded.keys().any(|name| is_of(topic, name)), "no results of {topic}");
    }
    for name in recorded.keys() {
        let known = super::TOPICS.iter().any(|(topic, _)| is_of(topic, name));
        ensure!(known, "{name} is a group of no test");
    }
    ensure!(RECORDED.starts_with(HEAD));
    Ok(())
}

/// Each kind of difference is found, down to one bit.
pub(super) fn differences_are_found() -> TestResult {
    // The test vectors of the hash: draft-eastlake-fnv.
    ensure_eq!(fnv(b""), 0xcbf2_9ce4_8422_2325);
    ensure_eq!(fnv(b"foobar"), 0x8594_4171_f739_67e8);
    ensure_eq!(group_of("topic/a/b/c"), "topic/a");
    ensure_eq!(group_of("topic/a"), "topic/a");
    let mut book = Book::new("topic");
    book.put("a/one", &[1.0f32, -0.0]);
    book.put("a/two", &[7u64]);
    book.put("b/one", &[7u64]);
    let one = Entry::of(&[0, 0, 128, 63, 0, 0, 0, 128]).line("topic/a/one");
    let two = Entry::of(&[7, 0, 0, 0, 0, 0, 0, 0]).line("topic/a/two");
    let right = parse(&format!(
        "# a comment\ntopic/a 2 {:016x}\ntopic/b 1 {:016x}\ntopical/x 0 0\n",
        fnv(format!("{one}{two}").as_bytes()),
        fnv(two.replace("a/two", "b/one").as_bytes()),
    ))?;
    ensure_eq!(differences("topic", &right, &book.found), Vec::<String>::new());
    let mut other = Book::new("topic");
    other.put("a/one", &[1.0f32, 0.0]);
    other.put("a/two", &[7u64]);
    other.put("c/one", &[7u64]);
    let found = differences("topic", &right, &other.found);
    let begins: Vec<&str> = found.iter().filter_map(|line| line.split(' ').next()).collect();
    ensure_eq!(begins, ["changed:", "new:", "gone:", "now:", "now:", "now:"]);
    ensure_eq!(found[4], format!("now: {}", two.trim_end()));
    ensure!(parse("topic/a 4").is_err() && parse("a 1 0\na 1 0\n").is_err());
    book.put("a/two", &[7u64]);
    ensure_eq!(book.twice.as_deref(), Some("topic/a/two"));
    Ok(())
}
