//! Why a launch cannot be saved, read or run again.

use std::fmt;

/// The error for arguments with which a launch cannot be saved.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("kernel `{kernel}` cannot be saved: {message}")]
pub struct SaveError {
    pub(super) kernel: &'static str,
    pub(super) message: String,
}

// `main() -> Result` and `unwrap` print `Debug`, so it is readable.
impl fmt::Debug for SaveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for bytes that are not a valid saved launch.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file does not begin with the magic bytes.
    #[error("this is no saved launch")]
    NotSaved,
    /// The file is of another version of the format.
    #[error(
        "the saved launch has version {found} of the format, and this library reads version {known}"
    )]
    Version {
        /// The file's version.
        found: u32,
        /// The version of this library.
        known: u32,
    },
    /// The file is shorter or longer than it says.
    #[error(
        "the saved launch should have {said} bytes after its header, but has {found}: it is truncated or extended"
    )]
    Length {
        /// The length in its header.
        said: u64,
        /// The actual length.
        found: u64,
    },
    /// The checksum does not match: the file was changed.
    #[error("the checksum of the saved launch is wrong: it was changed")]
    Checksum,
    /// The file ends too early.
    #[error("the saved launch ends in the {what} at byte {offset}")]
    Truncated {
        /// The field that is cut off.
        what: &'static str,
        /// The offset of its start.
        offset: u64,
    },
    /// A field has an invalid value.
    #[error("the saved launch has invalid {what} before byte {offset}")]
    Invalid {
        /// The field.
        what: &'static str,
        /// The offset of its end.
        offset: u64,
    },
    /// The file cannot be read.
    #[error("the saved launch cannot be read: {0}")]
    Io(String),
}

// `main() -> Result` and `unwrap` print `Debug`, so it is readable.
impl fmt::Debug for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The differences between a saved launch and a kernel.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the saved launch is not of this kernel: {}", differences.join("; "))]
pub struct Mismatch {
    /// A sentence for each difference.
    pub differences: Vec<String>,
}

// `main() -> Result` and `unwrap` print `Debug`, so it is readable.
impl fmt::Debug for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
