//! The folder: whose it is, atomic writes, and the bound on its size.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::name::{self, Made};
use super::{Uncached, limit};
use crate::codec::Hash;
use crate::trust::{self, Rule};

/// A file that is longer than this was not made by a cache.
const LONGEST: u64 = 1 << 30;
/// A hit renews the file's time stamp no more often than this.
const TOUCH_AFTER: Duration = Duration::from_secs(3600);
/// Files left by a process that died are removed after this time.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Writes between two scans of the whole folder: other processes write too.
const WRITES_PER_SURVEY: u64 = 256;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    max_bytes: u64,
    /// Bytes of all images as of the last survey, with this process's own writes since.
    survey: Mutex<Option<Survey>>,
}

#[derive(Debug)]
struct Survey {
    bytes: u64,
    writes: u64,
}

impl Folder {
    /// Returns the folder at `path`. A relative one stays where it is when the current folder changes.
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, max_bytes, survey: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn refuse(&self, reason: impl ToString) -> Uncached {
        Uncached::Folder { folder: self.path.clone(), reason: reason.to_string() }
    }

    /// Returns its real path if it exists; an error if another user could change its contents or replace it.
    pub(super) fn find(&self) -> Result<Option<PathBuf>, Uncached> {
        let path = match Rule::SEARCHED.resolve(&self.path) {
            Ok(path) => path,
            Err(refusal) if refusal.is_absence() => return Ok(None),
            Err(refusal) => return Err(self.refuse(refusal)),
        };
        let metadata = fs::symlink_metadata(&path).map_err(|e| self.refuse(e))?;
        if !metadata.is_dir() {
            return Err(self.refuse("not a folder"));
        }
        // Root's folder would pass as a step, but a cache is written to.
        trust::private(&metadata).map_err(|reason| self.refuse(reason))?;
        Ok(Some(path))
    }

    /// Makes it if it is not there, and returns its real path.
    pub(super) fn create(&self) -> Result<PathBuf, Uncached> {
        if let Some(path) = self.find()? {
            return Ok(path);
        }
        // No folder is created below a step that would be refused.
        for above in self.path.ancestors().skip(1) {
            match Rule::SEARCHED.resolve_parent(above) {
                Ok(_) => break,
                Err(refusal) if refusal.is_absence() => {}
                Err(refusal) => return Err(self.refuse(refusal)),
            }
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.path).map_err(|e| self.refuse(e))?;
        // Another process may have created it meanwhile.
        self.find()?.ok_or_else(|| self.refuse("it was removed at once"))
    }

    /// Returns the file's bytes, if it is there and the user's own.
    pub(super) fn read(folder: &Path, name: &str) -> Option<Vec<u8>> {
        let (file, metadata) =
            trust::open_own(&folder.join(name), OpenOptions::new().read(true)).ok()?;
        let length = usize::try_from(metadata.len()).ok().filter(|_| metadata.len() <= LONGEST)?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(length.saturating_add(1)).ok()?;
        (&file).take(LONGEST).read_to_end(&mut bytes).ok()?;
        let old = metadata
            .modified()
            .ok()
            .and_then(|m| m.elapsed().ok())
            .is_some_and(|age| age > TOUCH_AFTER);
        if old {
            // The time only affects the order of eviction.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Writes the whole file or nothing: it appears under its name only when it is complete.
    pub(super) fn write(&self, name: &str, key: &Hash, bytes: &[u8]) -> Result<(), Uncached> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = self.create()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = folder.join(name::temporary(key, std::process::id(), number));
        // A process of the same number, in another container or long ago, may have left a file.
        let _ = fs::remove_file(&temporary);
        let mut file = trust::create(&temporary).map_err(|e| self.refuse(e))?;
        let written = limit::write_all(&mut file, bytes)
            .and_then(|()| fs::rename(&temporary, folder.join(name)));
        if let Err(e) = written {
            let _ = fs::remove_file(&temporary);
            return Err(self.refuse(e));
        }
        self.bound(&folder, bytes.len() as u64);
        Ok(())
    }

    /// Keeps the folder within its bound after `added` more bytes.
    fn bound(&self, folder: &Path, added: u64) {
        let mut survey = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = survey.as_mut() {
            known.bytes = known.bytes.saturating_add(added);
            known.writes += 1;
            if known.bytes <= self.max_bytes && known.writes < WRITES_PER_SURVEY {
                return;
            }
        }
        *survey = Some(Survey { bytes: self.evict(folder), writes: 0 });
    }

    /// Removes the images not used for longest until a tenth of the bound is free, and what dead
    /// processes left. Returns the bytes that remain.
    ///
    /// Sees only regular files of the user's whose names are exactly those that a cache gives: whatever else is in
    /// the folder is not counted and stays.
    fn evict(&self, folder: &Path) -> u64 {
        let mut images = Vec::new();
        for file in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(made) = file.file_name().to_str().and_then(name::made) else { continue };
            // The metadata is the entry's, not that of a link's target.
            let Ok(metadata) = file.metadata() else { continue };
            if !trust::is_own(&metadata) {
                continue;
            }
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match made {
                Made::Image => images.push((modified, metadata.len(), file.path())),
                Made::Lock | Made::Temporary
                    if modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER) =>
                {
                    let _ = fs::remove_file(file.path());
                }
                Made::Lock | Made::Temporary => {}
            }
        }
        let mut total: u64 = images.iter().map(|(_, length, _)| length).sum();
        if total > self.max_bytes {
            let goal = self.max_bytes - self.max_bytes / 10;
            images.sort();
            for (_, length, path) in images {
                if total <= goal {
                    break;
                }
                if fs::remove_file(path).is_ok() {
                    total -= length;
                }
            }
        }
        total
    }
}
