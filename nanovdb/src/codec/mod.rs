//! How grids are compressed in files.
//!
//! A file names one codec for all grids of a segment ([`Codec`]). Compression applies to the bytes of the grids as they
//! lie in memory. This module converts between the bytes in the file, including the sizes in front, and the bytes in
//! memory.
//!
//! | Codec | In the file |
//! |---|---|
//! | None | the bytes |
//! | Zip | u64 size of the stream, one zlib stream ([RFC 1950](https://www.rfc-editor.org/rfc/rfc1950)) |
//! | Blosc | for each 2^30 bytes or what is left: u64 size of the chunk, one chunk of Blosc 1 |
//!
//! All sizes are little-endian. Whatever the file claims, nothing is allocated that the bytes behind
//! the claim could not fill: LZ4 makes at most 255 bytes of one, deflate 1032.

#[cfg(feature = "codecs")]
mod blosc;
mod error;
#[cfg(test)]
mod tests;
#[cfg(feature = "codecs")]
mod zip;

use std::fmt;

pub use error::CodecError;

/// The compression of the grids of a file. The numbers are those of the file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u16)]
pub enum Codec {
    /// Not at all.
    #[default]
    None = 0,
    /// One zlib stream: small and slow.
    Zip = 1,
    /// LZ4 over bytes sorted by significance, in a Blosc container: nearly as small, and fast.
    Blosc = 2,
}

impl Codec {
    /// Returns the codec with a number.
    ///
    /// # Errors
    /// [`CodecError::Unknown`]: there is none.
    pub fn from_code(code: u16) -> Result<Self, CodecError> {
        match code {
            0 => Ok(Self::None),
            1 => Ok(Self::Zip),
            2 => Ok(Self::Blosc),
            _ => Err(CodecError::Unknown(code)),
        }
    }

    /// Its number.
    #[must_use]
    pub fn code(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no compression",
            Self::Zip => "zip",
            Self::Blosc => "Blosc",
        })
    }
}

/// Returns the `len` bytes that were compressed to `src`, all of it.
///
/// # Errors
/// `len` is beyond `limit`, the codec is not built in, or `src` is not what compressing `len` bytes
/// gives: see [`CodecError`].
pub fn decompress(codec: Codec, src: &[u8], len: u64, limit: u64) -> Result<Vec<u8>, CodecError> {
    if len > limit {
        return Err(CodecError::Limit { len, limit });
    }
    let len = usize::try_from(len).map_err(|_| CodecError::Memory { len })?;
    match codec {
        Codec::None => stored(src, len),
        #[cfg(feature = "codecs")]
        Codec::Zip => zip::decompress(src, len),
        #[cfg(feature = "codecs")]
        Codec::Blosc => blosc::decompress(src, len),
        #[cfg(not(feature = "codecs"))]
        Codec::Zip | Codec::Blosc => Err(CodecError::NotBuiltIn(codec)),
    }
}

/// Returns `data` as it is stored in a file. Other readers of the format can read it.
///
/// # Errors
/// [`CodecError::NotBuiltIn`]: the codec is not.
pub fn compress(codec: Codec, data: &[u8]) -> Result<Vec<u8>, CodecError> {
    match codec {
        Codec::None => Ok(data.to_vec()),
        #[cfg(feature = "codecs")]
        Codec::Zip => zip::compress(data),
        #[cfg(feature = "codecs")]
        Codec::Blosc => Ok(blosc::compress(data)),
        #[cfg(not(feature = "codecs"))]
        Codec::Zip | Codec::Blosc => Err(CodecError::NotBuiltIn(codec)),
    }
}

fn stored(src: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let data = src.get(..len).ok_or(CodecError::Truncated("the grids"))?;
    exhausted(src.len(), src.len() - len)?;
    let mut out = Vec::new();
    reserve(&mut out, len)?;
    out.extend_from_slice(data);
    Ok(out)
}

/// Checks that all of the `len` bytes have been read.
fn exhausted(len: usize, left: usize) -> Result<(), CodecError> {
    match left {
        0 => Ok(()),
        _ => Err(CodecError::Trailing { used: len - left, len }),
    }
}

/// Room for `more` bytes. Memory that is not there is an error like others: a file can ask for it.
fn reserve(out: &mut Vec<u8>, more: usize) -> Result<(), CodecError> {
    out.try_reserve(more).map_err(|_| CodecError::Memory { len: more as u64 })
}

/// Splits the first `len` bytes off `src` and returns them.
#[cfg(feature = "codecs")]
fn take<'a>(src: &mut &'a [u8], len: u64, what: &'static str) -> Result<&'a [u8], CodecError> {
    let taken = usize::try_from(len).ok().and_then(|len| src.split_off(..len));
    taken.ok_or(CodecError::Truncated(what))
}

/// Splits off a u64 and as many bytes as it says, and returns those bytes.
#[cfg(feature = "codecs")]
fn take_counted<'a>(src: &mut &'a [u8], what: &'static str) -> Result<&'a [u8], CodecError> {
    let (count, rest) = src.split_first_chunk().ok_or(CodecError::Truncated("a size"))?;
    *src = rest;
    take(src, u64::from_le_bytes(*count), what)
}
