//! What can go wrong before the program runs.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::OWN_FAILURE;

/// Why a program does not run.
#[derive(thiserror::Error)]
pub(crate) enum Error {
    #[error("no program is given")]
    NoProgram,
    #[error("{}: no such program", .0.display())]
    Missing(PathBuf),
    #[error("{}: {why}", .program.display())]
    Unfit { program: PathBuf, why: String },
    #[error("{}: the program cannot be started: {error}", .program.display())]
    Start { program: PathBuf, error: io::Error },
    #[error("cannot {what} {}: {error}", .path.display())]
    File { what: &'static str, path: PathBuf, error: io::Error },
    #[error(
        "there is no {name} beside {}: build it with `cargo build --release -p cuda-emu`, or install the wheel again",
        .folder.display()
    )]
    NoLibrary { name: &'static str, folder: PathBuf },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns that a program cannot run on the device.
    pub(crate) fn unfit(program: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::Unfit { program: program.into(), why: why.into() }
    }

    /// Returns the exit status that `env` has for it.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Missing(_) => 127,
            Self::Unfit { .. } | Self::Start { .. } => 126,
            Self::NoProgram | Self::File { .. } | Self::NoLibrary { .. } => OWN_FAILURE,
        }
    }
}
