//! Records what the process does, in memory and in a file.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::EXTENSION;
use super::facts::{Facts, Numbers, line};
use crate::config::Config;

/// A file of so many bytes is written anew, with one line for each row.
const MOST_BYTES: u64 = 4 << 20;

struct Recorder {
    /// A child that was made by `fork` records nothing: its threads are not there, and it may have copied a locked lock.
    process: u32,
    recorded: Mutex<Recorded>,
}

struct Recorded {
    facts: Facts,
    log: Option<Log>,
}

/// The file.
struct Log {
    path: PathBuf,
    file: File,
    bytes: u64,
    most: u64,
}

/// Returns the recorder, if a report is asked for.
fn recorder() -> Option<&'static Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    RECORDER.get_or_init(|| Recorder::new(Config::active())).as_ref()
}

/// Returns whether a report is asked for. The executor by itself has no configuration, and fixes none.
pub(crate) fn is_on() -> bool {
    Config::fixed().is_some_and(Config::reports)
}

/// Adds numbers to the row of a key.
pub(super) fn add(key: &[&str], numbers: Numbers) {
    add_all(&[(key, numbers)]);
}

/// Adds rows by one write of the file.
pub(super) fn add_all(rows: &[(&[&str], Numbers)]) {
    if !is_on() {
        return;
    }
    let Some(mut recorded) = recorder().and_then(Recorder::lock) else { return };
    let recorded = &mut *recorded;
    for (key, numbers) in rows {
        recorded.facts.add(key, *numbers);
    }
    if let Some(log) = &mut recorded.log {
        let lines: String = rows.iter().map(|(key, numbers)| line(key, *numbers)).collect();
        if let Err(error) = log.append(&lines, &recorded.facts) {
            let path = log.path.display();
            eprintln!("cuda-emu: the report at {path} is incomplete: {error}");
            recorded.log = None;
        }
    }
}

/// Returns a copy of what was recorded.
pub(super) fn recorded() -> Facts {
    if !is_on() {
        return Facts::default();
    }
    recorder().and_then(Recorder::lock).map(|recorded| recorded.facts.clone()).unwrap_or_default()
}

impl Recorder {
    fn new(config: &Config) -> Option<Self> {
        if !config.reports() {
            return None;
        }
        let process = std::process::id();
        let log = config.report_folder().and_then(|folder| {
            Log::create(folder, process)
                .inspect_err(|error| {
                    eprintln!("cuda-emu: no report in {}: {error}", folder.display());
                })
                .ok()
        });
        Some(Self { process, recorded: Mutex::new(Recorded { facts: Facts::default(), log }) })
    }

    fn lock(&self) -> Option<MutexGuard<'_, Recorded>> {
        (std::process::id() == self.process)
            .then(|| self.recorded.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Log {
    /// Creates the file. A process that executes another program keeps its number, so the name has the time, too.
    fn create(folder: &Path, process: u32) -> std::io::Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let path = folder.join(format!("{process}-{}.{EXTENSION}", now.as_nanos()));
        let file = OpenOptions::new().append(true).create_new(true).open(&path)?;
        Ok(Self { path, file, bytes: 0, most: MOST_BYTES })
    }

    /// Appends lines, which `facts` has already; writes the file anew if it is long.
    fn append(&mut self, lines: &str, facts: &Facts) -> std::io::Result<()> {
        self.file.write_all(lines.as_bytes())?;
        self.bytes += lines.len() as u64;
        if self.bytes <= self.most {
            return Ok(());
        }
        let next = self.path.with_extension("next");
        let text = facts.text();
        fs::write(&next, &text)?;
        fs::rename(&next, &self.path)?;
        self.file = OpenOptions::new().append(true).open(&self.path)?;
        self.bytes = text.len() as u64;
        self.most = MOST_BYTES.max(4 * self.bytes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::facts::{Facts, line};
    use super::Log;

    #[test]
    fn a_long_file_is_written_anew() -> std::io::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut log = Log::create(folder.path(), 7)?;
        log.most = 200;
        let mut facts = Facts::default();
        for at in 0..1000 {
            let key = ["kernel", if at % 2 == 0 { "even" } else { "odd" }];
            facts.add(&key, [1, at, 0, 0]);
            log.append(&line(&key, [1, at, 0, 0]), &facts)?;
            log.most = 200;
            assert!(log.bytes <= 200);
        }
        let mut read = Facts::default();
        read.read(&std::fs::read_to_string(&log.path)?);
        assert_eq!(read.rows().collect::<Vec<_>>(), facts.rows().collect::<Vec<_>>());
        assert_eq!(std::fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }
}
