//! Errors of reading and writing meshes.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The format of a mesh file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileFormat {
    /// Wavefront OBJ.
    Obj,
    /// Stereolithography.
    Stl,
    /// Polygon file format, also known as Stanford's.
    Ply,
}

impl FileFormat {
    /// Returns the format for a file extension.
    pub(super) fn of(path: &Path) -> Result<Self, FileError> {
        let extension = path.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
        match extension.as_deref() {
            Some("obj") => Ok(Self::Obj),
            Some("stl") => Ok(Self::Stl),
            Some("ply") => Ok(Self::Ply),
            _ => Err(FileError { path: None, format: None, kind: FileErrorKind::UnknownFormat }),
        }
    }
}

impl fmt::Display for FileFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Obj => "OBJ",
            Self::Stl => "STL",
            Self::Ply => "PLY",
        })
    }
}

/// An error of reading or writing a mesh, with the file and the format.
#[derive(Error)]
#[error("{}{}{kind}", prefix(path.as_ref().map(|path| path.display())), prefix(*format))]
pub struct FileError {
    path: Option<PathBuf>,
    format: Option<FileFormat>,
    kind: FileErrorKind,
}

/// An error in a file, or in the mesh to be written.
#[derive(Error)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// Reading or writing failed.
    #[error("{0}")]
    Io(std::io::Error),
    /// The path has no extension of a known format.
    #[error("not one of the extensions obj, stl and ply")]
    UnknownFormat,
    /// The data is not a valid mesh; the message says why.
    #[error("{0}")]
    Invalid(String),
}

impl fmt::Debug for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for FileErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<std::io::Error> for FileErrorKind {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<String> for FileErrorKind {
    fn from(what: String) -> Self {
        Self::Invalid(what)
    }
}

impl FileError {
    pub(super) fn new(format: FileFormat, kind: impl Into<FileErrorKind>) -> Self {
        Self { path: None, format: Some(format), kind: kind.into() }
    }

    pub(super) fn at(self, path: &Path) -> Self {
        Self { path: Some(path.to_owned()), ..self }
    }

    /// Returns the file's path, if there is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the format, if it is known.
    #[must_use]
    pub fn format(&self) -> Option<FileFormat> {
        self.format
    }

    /// Returns the kind of error.
    #[must_use]
    pub fn kind(&self) -> &FileErrorKind {
        &self.kind
    }
}

fn prefix(what: Option<impl fmt::Display>) -> String {
    what.map(|what| format!("{what}: ")).unwrap_or_default()
}
