//! A handle to an NVRTC: where it is, what it can do, and, only when needed, the loaded library.
#![allow(unsafe_code, reason = "loads the builtins and asks the library for its version")]

use std::ffi::c_int;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use cuda_sys::nvrtcResult;
use once_cell::sync::OnceCell;

use crate::cache::{Cache, Kind};
use crate::codec::{Hash, KeyWriter, Reader, Writer};
use crate::error::NotFound;
use crate::find::{self, Bound};
use crate::trust::{self, Rule};
use crate::{Arch, Error};

/// A version of NVRTC: the version of its CUDA toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NvrtcVersion {
    /// Major version.
    pub major: u32,
    /// Minor version.
    pub minor: u32,
}

impl fmt::Display for NvrtcVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The run-time compiler. Finding it loads nothing; the library is loaded at the first compile that
/// the cache does not have, and stays loaded. Copies of a handle share it.
#[derive(Clone)]
pub struct Nvrtc {
    inner: Arc<Inner>,
}

struct Inner {
    /// `None` if it is a table of functions from the caller.
    path: Option<PathBuf>,
    raw: OnceCell<&'static cuda_sys::Nvrtc>,
    facts: OnceCell<Facts>,
}

/// Facts about a library that loading it provides, cached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) version: NvrtcVersion,
    /// Architectures as numbers like 90.
    pub(crate) archs: Vec<u32>,
    /// Distinguishes builds of one version; `None` if there is no file.
    pub(crate) build: Option<Hash>,
}

impl Nvrtc {
    /// Finds the NVRTC of this machine, without loading it.
    ///
    /// It searches, in this order: the variable `CUDA_NVRTC` (a file or a folder; if set, nothing else), the loader's
    /// path, `CUDA_PATH` and `CUDA_HOME`, `/usr/local/cuda*`, the active Python environment, the folder that
    /// `cargo xtask setup` filled (`CUDA_SETUP_DIR`, or else `target/cuda` above the running program), and the packages
    /// of `python3`. Of several in one place it takes the newest.
    ///
    /// The variables are trusted. A library found elsewhere is used only if every step of its path belongs to the user
    /// or root, and others may not write to it.
    ///
    /// # Errors
    /// [`Error::NotFound`], with every place that was searched.
    pub fn find() -> Result<Self, Error> {
        Self::find_within(Bound::default())
    }

    /// Finds the NVRTC of this machine that suits a driver, without loading it. `cuda_version` is what
    /// `cuDriverGetVersion` returns: 13000 for CUDA 13.0.
    ///
    /// A driver loads images of its own major version or an older one. Of several libraries in one place, one whose
    /// whole version does not exceed the driver's is preferred, because only its PTX loads too. The library that
    /// `CUDA_NVRTC` names is used without this check.
    ///
    /// # Errors
    /// [`Error::NotFound`], with every place that was searched.
    pub fn find_for_driver(cuda_version: i32) -> Result<Self, Error> {
        Self::find_within(Bound::of_driver(cuda_version))
    }

    /// Finds the library as [`find`](Self::find) does, and loads it.
    ///
    /// # Errors
    /// As `find`; [`Error::Load`] if the system's loader refuses it.
    pub fn load() -> Result<Self, Error> {
        Self::find()?.loaded()
    }

    /// Finds the library as [`find_for_driver`](Self::find_for_driver) does, and loads it.
    ///
    /// # Errors
    /// As `find_for_driver`; [`Error::Load`] if the system's loader refuses it.
    pub fn load_for_driver(cuda_version: i32) -> Result<Self, Error> {
        Self::find_for_driver(cuda_version)?.loaded()
    }

    /// Names the NVRTC at `path` (the library, or a folder that holds it), without loading it.
    ///
    /// [`find`](Self::find) with the environment variable `CUDA_NVRTC` set to the path needs no `unsafe`.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is none.
    ///
    /// # Safety
    /// The handle loads the library as soon as it is needed. So the caller promises:
    /// - The initialisers of the library, of its builtins beside it and of the libraries that they need may run in
    ///   this process: they have no preconditions, and they do not end or corrupt the process.
    /// - The library is an NVRTC: each function that it exports under a name of `nvrtc.h` has the C ABI of the header
    ///   and does what NVRTC's function does.
    pub unsafe fn at(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let found = find::at(path, Bound::default()).map_err(|reason| NotFound {
            max_major: None,
            tried: vec![crate::error::Attempt {
                origin: "given path".into(),
                path: path.to_owned(),
                reason,
            }],
        })?;
        Ok(Self::of_file(&found.path))
    }

    /// Names the NVRTC at `path` as [`at`](Self::at) does, then loads it.
    ///
    /// # Errors
    /// As `at`; [`Error::Load`] if the system's loader refuses it.
    ///
    /// # Safety
    /// As for `at`.
    pub unsafe fn load_from(path: impl AsRef<Path>) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        unsafe { Self::at(path) }?.loaded()
    }

    /// Creates a table of functions as a compiler. Its images are not cached: nothing identifies it.
    #[must_use]
    pub fn from_functions(raw: &'static cuda_sys::Nvrtc) -> Self {
        Self {
            inner: Arc::new(Inner {
                path: None,
                raw: OnceCell::with_value(raw),
                facts: OnceCell::new(),
            }),
        }
    }

    fn of_file(path: &Path) -> Self {
        // The real file: its builtins lie beside it, not beside a link.
        let path = path
            .canonicalize()
            .or_else(|_| std::path::absolute(path))
            .unwrap_or_else(|_| path.to_owned());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = known.iter().find(|n| n.path() == Some(&path)) {
            return handle.clone();
        }
        let inner = Inner { path: Some(path), raw: OnceCell::new(), facts: OnceCell::new() };
        let handle = Self { inner: Arc::new(inner) };
        known.push(handle.clone());
        handle
    }

    pub(crate) fn find_within(bound: Bound) -> Result<Self, Error> {
        static FOUND: Mutex<Vec<(Bound, Nvrtc)>> = Mutex::new(Vec::new());
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, handle)) = found.iter().find(|(b, _)| *b == bound) {
            return Ok(handle.clone());
        }
        let handle = Self::of_file(&find::search(bound)?.path);
        found.push((bound, handle.clone()));
        Ok(handle)
    }

    fn loaded(self) -> Result<Self, Error> {
        self.raw()?;
        Ok(self)
    }

    /// Returns the folders with CUDA's own headers (`cuda_fp16.h`, `cooperative_groups.h`, CUB, libcu++) that
    /// lie around this library, for [`Options::include_path`](crate::Options::include_path): NVRTC
    /// itself has none. Empty if none are installed there.
    ///
    /// ```no_run
    /// let nvrtc = cuda_safe_nvrtc::Nvrtc::find()?;
    /// let mut program = cuda_safe_nvrtc::Program::new("#include <cuda_fp16.h>").library(&nvrtc);
    /// for folder in nvrtc.include_paths() {
    ///     program = program.include_path(folder);
    /// }
    /// # Ok::<(), cuda_safe_nvrtc::Error>(())
    /// ```
    #[must_use]
    pub fn include_paths(&self) -> Vec<PathBuf> {
        self.path().map(find::headers::around).unwrap_or_default()
    }

    /// Returns the library's file; `None` for a table of functions.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// Returns whether the library is loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        self.inner.raw.get().is_some()
    }

    /// Returns the version. Loads the library unless the user's cache remembers it.
    ///
    /// # Errors
    /// If the library cannot be loaded or returns an error.
    pub fn version(&self) -> Result<NvrtcVersion, Error> {
        Ok(self.facts(&Cache::user())?.version)
    }

    /// Returns the virtual architectures that it compiles for, oldest first. Loads the library unless the
    /// user's cache remembers them.
    ///
    /// # Errors
    /// If the library cannot be loaded or returns an error.
    pub fn supported_archs(&self) -> Result<Vec<Arch>, Error> {
        Ok(self
            .facts(&Cache::user())?
            .archs
            .iter()
            .map(|n| Arch::compute(n / 10, n % 10))
            .collect())
    }

    /// Returns the functions, loaded if they were not.
    pub(crate) fn raw(&self) -> Result<&'static cuda_sys::Nvrtc, Error> {
        self.inner
            .raw
            .get_or_try_init(|| {
                let path = self.inner.path.as_deref().unwrap_or(Path::new(""));
                // SAFETY: the user has named the library as an NVRTC (`CUDA_NVRTC` and other variables), or the caller
                // of `at` has promised that it is one, or it was found under NVRTC's name in a place to which only the
                // user and root can write.
                let raw = unsafe { cuda_sys::Nvrtc::load_from(path) }.map_err(Error::Load)?;
                if let (Some(folder), Ok(version)) = (path.parent(), query_version(raw)) {
                    load_builtins(path, &folder.join(find::builtins_name(version)));
                }
                Ok(raw)
            })
            .copied()
    }

    /// Returns the version and the architectures, from `cache` if it has an entry for the file.
    pub(crate) fn facts(&self, cache: &Cache) -> Result<&Facts, Error> {
        self.inner.facts.get_or_try_init(|| {
            let identity = self.inner.path.as_deref().and_then(identity);
            if let Some(key) = &identity
                && let Ok(Some(payload)) = cache.read(Kind::Library, key)
                && let Some(facts) = Facts::decode(&payload)
            {
                return Ok(facts);
            }
            let raw = self.raw()?;
            let version = query_version(raw)?;
            let build = self.inner.path.as_deref().and_then(|path| build(path, version));
            let facts = Facts { version, archs: query_archs(raw)?, build };
            if let Some(key) = &identity {
                // Without the record the next process loads the library too; nothing else is lost.
                let _ = cache.write(Kind::Library, key, &facts.encode());
            }
            Ok(facts)
        })
    }

    /// Writes the facts into a cache that holds an image but not yet them: they may have come from
    /// another cache, and the next process would have to load the library for them.
    pub(crate) fn remember(&self, facts: &Facts, cache: &Cache) {
        if let Some(key) = self.inner.path.as_deref().and_then(identity)
            && let Ok(None) = cache.read(Kind::Library, &key)
        {
            let _ = cache.write(Kind::Library, &key, &facts.encode());
        }
    }
}

/// Every handle to a file, so that a library is loaded once.
static KNOWN: Mutex<Vec<Nvrtc>> = Mutex::new(Vec::new());

impl fmt::Debug for Nvrtc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nvrtc")
            .field("path", &self.inner.path)
            .field("loaded", &self.is_loaded())
            .field("facts", &self.inner.facts.get())
            .finish()
    }
}

impl Facts {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.u32(self.version.major);
        writer.u32(self.version.minor);
        writer.optional(self.build.as_ref().map(<[u8; 32]>::as_slice));
        writer.count(self.archs.len());
        for arch in &self.archs {
            writer.u32(*arch);
        }
        writer.0
    }

    pub(crate) fn decode(payload: &[u8]) -> Option<Self> {
        let mut reader = Reader(payload);
        let version = NvrtcVersion { major: reader.u32()?, minor: reader.u32()? };
        let build = match reader.optional()? {
            Some(bytes) => Some(bytes.try_into().ok()?),
            None => None,
        };
        let archs = (0..reader.count()?).map(|_| reader.u32()).collect::<Option<_>>()?;
        reader.0.is_empty().then_some(Self { version, archs, build })
    }
}

/// Identifies a library's file without reading it.
fn identity(path: &Path) -> Option<Hash> {
    let metadata = std::fs::metadata(path).ok()?;
    let modified = metadata.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    let mut key = KeyWriter::default();
    key.field(path.as_os_str().as_encoded_bytes());
    key.field(&metadata.len().to_le_bytes());
    key.field(&modified.as_nanos().to_le_bytes());
    Some(key.finish())
}

/// Distinguishes builds of one version by properties that change with any code: the sizes and both ends of the library
/// and of its builtins. Hashing all of their 110 MB would take longer than a compile.
fn build(path: &Path, version: NvrtcVersion) -> Option<Hash> {
    use std::io::{Read, Seek, SeekFrom};
    const END: u64 = 64 * 1024;
    let mut key = KeyWriter::default();
    for path in [path.to_owned(), path.with_file_name(find::builtins_name(version))] {
        // A library without builtins compiles nothing, or uses those of another folder.
        let Ok((mut file, metadata)) = trust::open(&path) else {
            key.field(b"");
            continue;
        };
        let length = metadata.len();
        let mut ends = Vec::new();
        file.by_ref().take(END).read_to_end(&mut ends).ok()?;
        file.seek(SeekFrom::Start(length.saturating_sub(END))).ok()?;
        file.take(END).read_to_end(&mut ends).ok()?;
        key.field(&length.to_le_bytes());
        key.field(&ends);
    }
    Some(key.finish())
}

/// Loads the builtins and keeps them, so that NVRTC, which asks the loader for them by name alone,
/// gets those of its folder. If that fails, NVRTC's own search may still find them, or reports that it does not.
fn load_builtins(nvrtc: &Path, path: &Path) {
    // `path` may be a link to anywhere.
    let Ok(path) = Rule::beside(nvrtc).resolve(path) else { return };
    if !path.is_file() {
        return;
    }
    // SAFETY: only a user who could have replaced the loaded NVRTC can have put the file there, and NVIDIA's builtins
    // are data with an accessor.
    let library = unsafe { libloading::Library::new(path) };
    // Unloading it would take it away from NVRTC.
    library.map(std::mem::forget).unwrap_or_default();
}

fn query_version(raw: &cuda_sys::Nvrtc) -> Result<NvrtcVersion, Error> {
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: both pointers are valid for one write.
    let code = unsafe { raw.nvrtcVersion(&raw mut major, &raw mut minor) };
    check(raw, "nvrtcVersion", code)?;
    let number = |n: c_int| u32::try_from(n).unwrap_or(0);
    Ok(NvrtcVersion { major: number(major), minor: number(minor) })
}

fn query_archs(raw: &cuda_sys::Nvrtc) -> Result<Vec<u32>, Error> {
    let mut count: c_int = 0;
    // SAFETY: the pointer is valid for one write.
    let code = unsafe { raw.nvrtcGetNumSupportedArchs(&raw mut count) };
    check(raw, "nvrtcGetNumSupportedArchs", code)?;
    let mut archs: Vec<c_int> = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the library writes as many numbers as it has just said, and there is room for them.
    let code = unsafe { raw.nvrtcGetSupportedArchs(archs.as_mut_ptr()) };
    check(raw, "nvrtcGetSupportedArchs", code)?;
    Ok(archs.into_iter().filter_map(|n| u32::try_from(n).ok()).collect())
}

/// Turns the code that a call returned into a result.
pub(crate) fn check(
    raw: &cuda_sys::Nvrtc,
    call: &'static str,
    answer: Result<nvrtcResult, cuda_sys::MissingSymbol>,
) -> Result<(), Error> {
    match answer {
        Ok(nvrtcResult::NVRTC_SUCCESS) => Ok(()),
        Ok(code) => Err(Error::Status { call, code, log: String::new() }),
        Err(missing) => {
            Err(Error::MissingSymbol { symbol: missing.name, library: raw.source().into() })
        }
    }
}
