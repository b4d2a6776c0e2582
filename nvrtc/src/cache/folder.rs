//! The folder: whose it is, atomic writes, and the bound on its size.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::Uncached;

pub(super) const IMAGE_EXTENSION: &str = "image";
/// A hit renews the file's time stamp no more often than this.
const TOUCH_AFTER: Duration = Duration::from_secs(3600);
/// What a process that died has left behind is removed after this.
const ABANDONED_AFTER: Duration = Duration::from_secs(24 * 3600);
/// Writes between two looks at the whole folder: other processes write too.
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
    pub(super) fn new(path: PathBuf, max_bytes: u64) -> Self {
        Self { path, max_bytes, survey: Mutex::new(None) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn refuse(&self, reason: impl ToString) -> Uncached {
        Uncached::Folder { folder: self.path.clone(), reason: reason.to_string() }
    }

    /// Whether it is there; an error if it is not the user's own.
    pub(super) fn exists(&self) -> Result<bool, Uncached> {
        match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_dir() => Err(self.refuse("not a folder")),
            Ok(metadata) => private(&metadata).map(|()| true).map_err(|reason| self.refuse(reason)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.refuse(e)),
        }
    }

    pub(super) fn create(&self) -> Result<(), Uncached> {
        if self.exists()? {
            return Ok(());
        }
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.path).map_err(|e| self.refuse(e))?;
        // It may have been made by somebody else in the meantime.
        self.exists().map(|_| ())
    }

    /// The file's bytes, if it is there and the user's own.
    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let mut file = File::open(self.path.join(name)).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || private(&metadata).is_err() {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?.saturating_add(1));
        file.read_to_end(&mut bytes).ok()?;
        let old = metadata
            .modified()
            .ok()
            .and_then(|m| m.elapsed().ok())
            .is_some_and(|age| age > TOUCH_AFTER);
        if old {
            // Only the order of eviction depends on it.
            let _ = file.set_modified(SystemTime::now());
        }
        Some(bytes)
    }

    /// Writes the whole file or nothing: it appears under its name only when it is complete.
    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Uncached> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let temporary = self.path.join(format!("{}-{number}.tmp", std::process::id()));
        let create = || match create_private(&temporary) {
            // A process of the same number, of another container or long ago, has left it.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&temporary).and_then(|()| create_private(&temporary))
            }
            result => result,
        };
        let written = create()
            .and_then(|mut file| file.write_all(bytes))
            .and_then(|()| fs::rename(&temporary, self.path.join(name)));
        if let Err(e) = written {
            let _ = fs::remove_file(&temporary);
            return Err(self.refuse(e));
        }
        self.bound(bytes.len() as u64);
        Ok(())
    }

    /// Keeps the folder within its bound after `added` more bytes.
    fn bound(&self, added: u64) {
        let mut survey = self.survey.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = survey.as_mut() {
            known.bytes = known.bytes.saturating_add(added);
            known.writes += 1;
            if known.bytes <= self.max_bytes && known.writes < WRITES_PER_SURVEY {
                return;
            }
        }
        *survey = Some(Survey { bytes: self.evict(), writes: 0 });
    }

    /// Removes the images not used for longest until a tenth of the bound is free, and what dead
    /// processes left. Returns the bytes that remain.
    fn evict(&self) -> u64 {
        let mut images = Vec::new();
        for file in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = file.path();
            let Ok(metadata) = file.metadata() else {
                continue;
            };
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            match path.extension().and_then(|e| e.to_str()) {
                Some(IMAGE_EXTENSION) => images.push((modified, metadata.len(), path)),
                Some("tmp" | "lock")
                    if modified.elapsed().is_ok_and(|age| age > ABANDONED_AFTER) =>
                {
                    let _ = fs::remove_file(path);
                }
                _ => {}
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

pub(super) fn create_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Whether nobody but this user (or the administrator) can have written it.
#[cfg(unix)]
pub(crate) fn private(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let Some(user) = user() else {
        return Err("the user of this process is not known".into());
    };
    if metadata.uid() != user {
        return Err(format!("it belongs to user {}, this process to user {user}", metadata.uid()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others may write there".into());
    }
    Ok(())
}

/// On other systems the user's profile folder is private by itself.
#[cfg(not(unix))]
pub(crate) fn private(_: &Metadata) -> Result<(), String> {
    Ok(())
}

/// The effective user: the owner of what this process makes. `/proc/self` is made for it; elsewhere a
/// file is.
#[cfg(unix)]
pub(crate) fn user() -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    use std::sync::OnceLock;
    static USER: OnceLock<Option<u32>> = OnceLock::new();
    let probe = || {
        let path = std::env::temp_dir().join(format!("cuda-kernels-{}.user", std::process::id()));
        let owner = create_private(&path).and_then(|f| f.metadata()).map(|m| m.uid());
        let _ = fs::remove_file(path);
        owner.ok()
    };
    *USER.get_or_init(|| fs::metadata("/proc/self").map(|m| m.uid()).ok().or_else(probe))
}
