//! Errors.

use std::fmt;

use crate::ValueType;

/// The result of what can fail here.
pub type Result<T> = std::result::Result<T, Error>;

/// A level of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Nodes of 8^3 voxels.
    Leaf = 0,
    /// Nodes of 16^3 leaves or tiles.
    Lower = 1,
    /// Nodes of 32^3 lower nodes or tiles.
    Upper = 2,
    /// The table of upper nodes and tiles.
    Root = 3,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Leaf => "leaf",
            Self::Lower => "lower node",
            Self::Upper => "upper node",
            Self::Root => "root entry",
        })
    }
}

/// A finding of a check of a file or grid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    pub(crate) check: &'static str,
    pub(crate) what: String,
    pub(crate) offset: Option<u64>,
    pub(crate) node: Option<(Level, u64)>,
}

impl Flaw {
    pub(crate) fn new(check: &'static str, what: impl Into<String>) -> Self {
        Self { check, what: what.into(), offset: None, node: None }
    }

    pub(crate) fn at(mut self, offset: usize) -> Self {
        self.offset = Some(offset as u64);
        self
    }

    pub(crate) fn node(mut self, level: Level, index: usize) -> Self {
        self.node = Some((level, index as u64));
        self
    }

    /// Returns the check's name, short and stable.
    #[must_use]
    pub fn check(&self) -> &'static str {
        self.check
    }

    /// Returns what is wrong, in words.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Returns the position, in bytes from the beginning of the grid, or of the file if the check's name begins with
    /// `file`.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// Returns the node: its level, and its index among the nodes of that level or the root's entries.
    #[must_use]
    pub fn node_index(&self) -> Option<(Level, u64)> {
        self.node
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.what)?;
        if let Some((level, index)) = self.node {
            write!(f, ", {level} {index}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", at byte {offset}")?;
        }
        write!(f, " (check {})", self.check)
    }
}

/// Why a volume could not be read, made or written.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a grid is not what the format asks for, or not what this crate asks for.
    #[error("invalid NanoVDB data: {0}")]
    Invalid(Flaw),
    /// Values of a type that this crate does not know, or knows and does not support.
    #[error("values of type {name} (number {code}) are not supported")]
    UnsupportedType {
        /// The type's number in the format.
        code: u32,
        /// Its name, `unknown` if it has none.
        name: &'static str,
    },
    /// A grid with values of another type than asked for.
    #[error("the grid's values are of type {found}, not {asked}")]
    WrongType {
        /// The grid's type.
        found: ValueType,
        /// The type that was requested.
        asked: &'static str,
    },
    /// The input for a grid, or the options for writing it, are invalid.
    #[error("{0}")]
    Input(Flaw),
    /// A file claims to hold more than is allowed.
    #[error("the file claims {claimed} bytes of grids, {limit} are allowed")]
    Limit {
        /// The claim.
        claimed: u64,
        /// [`ReadOptions::limit`](crate::ReadOptions).
        limit: u64,
    },
    /// There is no memory for so much.
    #[error("no memory for {len} bytes")]
    Memory {
        /// The number of bytes requested.
        len: u64,
    },
    /// Compressed data is broken or cannot be made.
    #[error("compressed data: {0}")]
    Codec(crate::CodecError),
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

impl From<crate::CodecError> for Error {
    fn from(error: crate::CodecError) -> Self {
        Self::Codec(error)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Returns a short name of the check that found the error; it stays the same between versions.
    #[must_use]
    pub fn check(&self) -> &'static str {
        match self {
            Self::Invalid(flaw) | Self::Input(flaw) => flaw.check,
            Self::UnsupportedType { .. } => "type",
            Self::WrongType { .. } => "wrong-type",
            Self::Limit { .. } => "limit",
            Self::Memory { .. } => "memory",
            Self::Codec(_) => "codec",
            Self::Io(_) => "io",
        }
    }
}

impl From<Flaw> for Error {
    fn from(flaw: Flaw) -> Self {
        Self::Invalid(flaw)
    }
}

pub(crate) fn input(check: &'static str, what: impl Into<String>) -> Error {
    Error::Input(Flaw::new(check, what))
}
