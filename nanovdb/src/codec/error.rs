//! Errors of compressed grids.

use super::Codec;

/// Why grids could not be compressed or decompressed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// A number that is no codec's.
    #[error("no codec has the number {0}: 0 is no compression, 1 is zip, 2 is Blosc")]
    Unknown(u16),
    /// The crate was built without its feature `codecs`.
    #[error("{0} is not built in: the feature `codecs` of the crate `nanovdb` is off")]
    NotBuiltIn(Codec),
    /// The contents of the Blosc container are not supported.
    #[error("{0} is not supported in a Blosc container")]
    Unsupported(&'static str),
    /// More than the caller wants.
    #[error("the grids have {len} bytes, {limit} are allowed")]
    Limit {
        /// The grids' length.
        len: u64,
        /// The most that may be.
        limit: u64,
    },
    /// There is no memory for so much.
    #[error("no memory for {len} bytes")]
    Memory {
        /// The number of bytes requested.
        len: u64,
    },
    /// The data ends in the midst of what is named.
    #[error("the compressed data ends before {0} does")]
    Truncated(&'static str),
    /// There is more data than the grids are made of.
    #[error("the grids are in the first {used} of {len} compressed bytes")]
    Trailing {
        /// How much of the data is used.
        used: usize,
        /// How much there is.
        len: usize,
    },
    /// The decompressed data does not have the expected length.
    #[error("{what} has {found} bytes, where {expected} are expected")]
    Length {
        /// Whose length.
        what: &'static str,
        /// The length it has, or would have.
        found: u64,
        /// The length it has to have.
        expected: u64,
    },
    /// Data that no compressor writes.
    #[error("broken compressed data: {0}")]
    Broken(&'static str),
}

impl std::fmt::Debug for CodecError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
