//! Decides what may be loaded, read and deleted by name. The policy is `docs/trust.md`; this is its only
//! implementation.
#![cfg_attr(unix, allow(unsafe_code, reason = "asks the system for the user and for access lists"))]

use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

#[cfg(unix)]
mod unix;

#[cfg(unix)]
pub(crate) use unix::is_own;

/// Why a path is not used.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The system can't read it, or there is nothing.
    Io(io::Error),
    /// Another user could have put it there: the step, and the reason.
    Step(String),
}

impl Refusal {
    /// Returns whether there is nothing at the path.
    pub(crate) fn is_absence(&self) -> bool {
        match self {
            Self::Io(error) => {
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
            }
            Self::Step(_) => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Step(reason) => f.write_str(reason),
        }
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The users, besides the user and root, to whom a path may belong and who may write to its steps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    owners: Vec<u32>,
    groups: Vec<u32>,
    everybody: bool,
}

impl Rule {
    /// The rule for what a search finds: the user, root and nobody else.
    pub(crate) const SEARCHED: Self =
        Self { owners: Vec::new(), groups: Vec::new(), everybody: false };

    /// Returns the rule for what lies around a library: a user who can replace the library may provide that, too.
    ///
    /// Around a library that was searched it accepts what `SEARCHED` does; it accepts more only if the user has named
    /// a library that others can replace.
    pub(crate) fn beside(library: &Path) -> Self {
        #[cfg(unix)]
        return unix::beside(library);
        #[cfg(not(unix))]
        {
            let _ = library;
            Self::SEARCHED
        }
    }

    /// Returns the real path of a file or folder, all links followed, if every step passes.
    ///
    /// Steps are checked from the root down. Only users that the rule accepts can replace a step once it has passed, so
    /// the result may be used by name later.
    pub(crate) fn resolve(&self, path: &Path) -> Result<PathBuf, Refusal> {
        self.walk(path, false)
    }

    /// As [`resolve`](Self::resolve), for a folder in which a folder will be made: it may be a sticky one.
    pub(crate) fn resolve_parent(&self, path: &Path) -> Result<PathBuf, Refusal> {
        self.walk(path, true)
    }

    fn walk(&self, path: &Path, may_end_in_sticky: bool) -> Result<PathBuf, Refusal> {
        if !path.is_absolute() {
            return Err(Refusal::Step(
                "a relative path, which depends on the current folder".into(),
            ));
        }
        #[cfg(unix)]
        return unix::walk(self, path, may_end_in_sticky);
        // Elsewhere access lists decide, and folders of the system and of users are closed to others.
        #[cfg(not(unix))]
        {
            let _ = may_end_in_sticky;
            Ok(path.canonicalize()?)
        }
    }
}

/// Opens a regular file for reading. A FIFO or a device is an error, and nothing waits for its other end.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    unix::without_waiting(&mut options, true);
    regular(options.open(path)?)
}

/// Opens a regular file that the user alone may write to, and does not follow a link.
///
/// `options` says how; it is completed so that nothing waits.
pub(crate) fn open_own(path: &Path, options: &mut OpenOptions) -> io::Result<(File, Metadata)> {
    #[cfg(unix)]
    unix::without_waiting(options, false);
    let (file, metadata) = regular(options.open(path)?)?;
    match private(&metadata) {
        Ok(()) => Ok((file, metadata)),
        Err(reason) => Err(io::Error::new(io::ErrorKind::PermissionDenied, reason)),
    }
}

/// Makes a file that only the user may read or write. Whatever has the name already is an error.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn regular(file: File) -> io::Result<(File, Metadata)> {
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}

/// Checks whether only this user and root can have written it.
#[cfg(unix)]
pub(crate) fn private(metadata: &Metadata) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let user = unix::user();
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

/// Returns whether a file of a folder that passed is a regular one: not a link, and not another user's.
#[cfg(not(unix))]
pub(crate) fn is_own(metadata: &Metadata) -> bool {
    metadata.is_file()
}

/// The longest text that is read whole: configuration of the system's loader, lists of users.
const LONGEST_TEXT: u64 = 16 << 20;

/// Reads a regular file as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    use io::Read;
    let mut text = String::new();
    open(path)?.0.take(LONGEST_TEXT).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(all(test, unix))]
mod tests;
