//! Images kept between processes: one small file each, in a folder that belongs to the user alone.
//!
//! Nothing that is wrong with the cache can fail a compile, and nothing read from it is trusted before
//! its checksum: a file that is cut, altered, of another format or of another user is a miss. The folder, like
//! whatever is found by searching, must pass [`trust`](crate::trust), also if a variable names it: the cache deletes
//! files there.

pub(crate) mod entry;
mod folder;
mod limit;
mod lock;
mod name;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::codec::{self, Hash};
use folder::Folder;
pub(crate) use lock::Lock;

/// Bytes that a cache may take if nothing else is said: 1 GiB.
const DEFAULT_MAX_BYTES: u64 = 1 << 30;

/// Whether the cache had an image, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheStatus {
    /// Found: nothing was compiled.
    Hit,
    /// Compiled, and kept for the next time.
    Stored,
    /// Compiled and not kept.
    Uncached(Uncached),
}

/// Why an image was not kept.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Uncached {
    /// The cache is switched off.
    #[error("the cache is off")]
    Off,
    /// The folder cannot be used: missing rights, or rights that others have.
    #[error("the cache's folder {} cannot be used: {reason}", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An `#include` or `__has_include` takes its name from a macro.
    #[error("{file} includes a file that only the preprocessor can name: {directive}")]
    ComputedInclude {
        /// The file or header.
        file: String,
        /// The line.
        directive: String,
    },
    /// The text expands to the time of compiling.
    #[error("{file} depends on {name}")]
    TimeMacro {
        /// The file or header.
        file: String,
        /// The macro.
        name: &'static str,
    },
    /// A file that the program includes cannot be read.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's error.
        reason: String,
    },
    /// The program includes more files than is sensible.
    #[error("the program includes too many files")]
    TooManyFiles,
    /// A file that the program includes changed while it was compiled, so it is unknown which text the compiler read.
    #[error("an included file changed during the compile")]
    Changed,
    /// An option that reads or writes other files.
    #[error("the option {0} reads or writes files of its own")]
    Option(String),
    /// An environment variable that changes what the compiler does.
    #[error("the environment variable {0} changes the compiler's options")]
    Environment(&'static str),
    /// The compiler did not come from a file.
    #[error("the compiler did not come from a file")]
    Compiler,
}

impl fmt::Debug for Uncached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A cache's counts since the process began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The number of images found.
    pub hits: u64,
    /// The number of images that had to be compiled.
    pub misses: u64,
    /// Compiles that were not kept, with the reasons.
    pub uncached: Vec<(Uncached, u64)>,
}

/// A cache of images. Copies of a handle share it.
#[derive(Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

struct Inner {
    folder: Option<Folder>,
    stats: Mutex<CacheStats>,
}

impl Cache {
    /// Returns the user's cache: the folder in `CUDA_KERNEL_CACHE` if that is set (`off` switches caching off),
    /// else `cuda-kernels` in `XDG_CACHE_HOME` or `~/.cache`. A relative folder is below the current folder of the
    /// first call.
    #[must_use]
    pub fn user() -> Self {
        static USER: OnceLock<Cache> = OnceLock::new();
        let open = || match cuda_sys::environment("CUDA_KERNEL_CACHE") {
            Some(value) if value.eq_ignore_ascii_case("off") => Self::off(),
            Some(value) => Self::at(value),
            None => user_folder().map_or_else(Self::off, |f| Self::at(f.join("cuda-kernels"))),
        };
        USER.get_or_init(open).clone()
    }

    /// Returns the cache in `folder`, which is made when the first image is kept.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self::sized(folder, DEFAULT_MAX_BYTES)
    }

    /// Returns the cache in `folder`, of at most `max_bytes`: the images not used for longest make room.
    #[must_use]
    pub fn sized(folder: impl Into<PathBuf>, max_bytes: u64) -> Self {
        Self::new(Some(Folder::new(folder.into(), max_bytes)))
    }

    /// Keeps nothing.
    #[must_use]
    pub fn off() -> Self {
        Self::new(None)
    }

    fn new(folder: Option<Folder>) -> Self {
        Self { inner: Arc::new(Inner { folder, stats: Mutex::default() }) }
    }

    /// Returns the cache's folder; `None` if it is off.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.inner.folder.as_ref().map(Folder::path)
    }

    /// Returns its statistics since the process began.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        self.inner.stats.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count(&self, status: &CacheStatus) {
        let mut stats = self.inner.stats.lock().unwrap_or_else(PoisonError::into_inner);
        match status {
            CacheStatus::Hit => stats.hits += 1,
            CacheStatus::Stored => stats.misses += 1,
            CacheStatus::Uncached(reason) => {
                stats.misses += 1;
                match stats.uncached.iter_mut().find(|(known, _)| known == reason) {
                    Some((_, count)) => *count += 1,
                    None => stats.uncached.push((reason.clone(), 1)),
                }
            }
        }
    }

    /// Returns the bytes that [`keep`](Self::keep) has kept under this key. `None` if there are none, or if their file was
    /// cut or altered.
    #[must_use]
    pub fn find(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.read(Kind::Bytes, &codec::sha256(key)).ok().flatten()
    }

    /// Keeps bytes of a program under a key, beside the images: for results that take long to find, such as the choice of
    /// an algorithm. Everything that the bytes depend on belongs into the key. They count towards the bound of the cache.
    ///
    /// # Errors
    /// The reason why they were not kept. Only time is lost then.
    pub fn keep(&self, key: &[u8], bytes: &[u8]) -> Result<(), Uncached> {
        self.write(Kind::Bytes, &codec::sha256(key), bytes)
    }

    fn usable(&self) -> Result<&Folder, Uncached> {
        self.inner.folder.as_ref().ok_or(Uncached::Off)
    }

    /// Returns the payload kept under `key`, if it is whole and the user's own.
    pub(crate) fn read(&self, kind: Kind, key: &Hash) -> Result<Option<Vec<u8>>, Uncached> {
        let Some(folder) = self.usable()?.find()? else { return Ok(None) };
        let payload = Folder::read(&folder, &kind.file_name(key))
            .and_then(|file| entry::decode(kind, key, file));
        Ok(payload)
    }

    /// Keeps `payload` under `key`.
    pub(crate) fn write(&self, kind: Kind, key: &Hash, payload: &[u8]) -> Result<(), Uncached> {
        let folder = self.usable()?;
        folder.write(&kind.file_name(key), key, &entry::encode(kind, key, payload))
    }

    /// Waits until no other thread or process compiles what `key` names; for a while at most.
    pub(crate) fn lock(&self, key: &Hash) -> Result<Lock, Uncached> {
        let folder = self.usable()?.create()?;
        Ok(Lock::acquire(&folder.join(name::lock(key))))
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("folder", &self.folder())
            .field("stats", &self.stats())
            .finish()
    }
}

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An image.
    Image,
    /// The facts about a compiler from its first load.
    Library,
    /// The compiler of a program's image.
    Record,
    /// Bytes of a program.
    Bytes,
}

impl Kind {
    fn file_name(self, key: &Hash) -> String {
        match self {
            Self::Image => name::image(key),
            Self::Library => name::library(key),
            Self::Record => name::record(key),
            Self::Bytes => name::bytes(key),
        }
    }
}

/// Returns the folder for caches of this user.
fn user_folder() -> Option<PathBuf> {
    let absolute =
        |name: &str| cuda_sys::environment(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if cfg!(windows) {
        return absolute("LOCALAPPDATA");
    }
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_kept_under_their_key() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("cache");
        let cache = Cache::at(&path);
        assert_eq!(cache.find(b"key"), None);
        for bytes in [&b"first"[..], b"", b"second"] {
            cache.keep(b"key", bytes)?;
            assert_eq!(Cache::at(&path).find(b"key").as_deref(), Some(bytes));
        }
        assert_eq!(cache.find(b"other"), None);
        // An image under the same hash is something else.
        assert_eq!(cache.read(Kind::Image, &codec::sha256(b"key"))?, None);
        let [file] =
            std::fs::read_dir(&path)?.collect::<Vec<_>>().try_into().map_err(|_| "files")?;
        std::fs::write(file?.path(), b"cut")?;
        assert_eq!(cache.find(b"key"), None);
        assert_eq!(Cache::off().keep(b"key", b"x"), Err(Uncached::Off));
        Ok(())
    }
}
