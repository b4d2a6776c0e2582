//! The 16 bytes in front of a chunk.

use super::CodecError;

/// The version of the format. Blosc 2 writes larger ones.
pub(super) const VERSION: u8 = 2;
/// The version of each of the compressors' formats.
pub(super) const STREAM_VERSION: u8 = 1;
/// The length of a header.
pub(super) const LEN: usize = 16;

/// Bytes are sorted by significance.
pub(super) const SHUFFLED: u8 = 0x01;
/// There is no table and there are no blocks: the data follows uncompressed.
pub(super) const STORED: u8 = 0x02;
/// Bits are sorted by significance.
pub(super) const BIT_SHUFFLED: u8 = 0x04;
/// Not in use.
const RESERVED: u8 = 0x08;
/// No block is cut into streams.
pub(super) const UNCUT: u8 = 0x10;
/// The compressor stands in the flags from this bit on.
pub(super) const COMPRESSOR: u32 = 5;

/// The compressor of the streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    BloscLz = 0,
    Lz4 = 1,
    Zlib = 3,
}

impl Compressor {
    /// Returns the most bytes that so many compressed bytes can decompress to.
    ///
    /// LZ4 and BloscLZ write lengths as sums of bytes. Deflate's longest match is 258 bytes, its
    /// shortest code for one is two bits. The rest is for beginnings and ends.
    pub(super) fn most(self, compressed: usize) -> usize {
        let factor = match self {
            Self::BloscLz | Self::Lz4 => 255,
            Self::Zlib => 1032,
        };
        compressed.saturating_mul(factor).saturating_add(64)
    }
}

/// A header, as far as it can be checked by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) flags: u8,
    pub(super) compressor: Compressor,
    /// The size of a value.
    pub(super) value: usize,
    /// The size of a block: positive if there is data.
    pub(super) block: usize,
}

impl Header {
    /// Returns the header of the chunk `src` that has to hold `len` bytes, and what follows it.
    pub(super) fn read(src: &[u8], len: usize) -> Result<(Self, &[u8]), CodecError> {
        let (head, body) =
            src.split_first_chunk::<LEN>().ok_or(CodecError::Truncated("a chunk's header"))?;
        let [version, stream_version, flags, value, sizes @ ..] = *head;
        let [n0, n1, n2, n3, b0, b1, b2, b3, c0, c1, c2, c3] = sizes;
        let found = u32::from_le_bytes([n0, n1, n2, n3]);
        let block = u32::from_le_bytes([b0, b1, b2, b3]);
        let compressed = u32::from_le_bytes([c0, c1, c2, c3]);

        match version {
            VERSION => {}
            3.. => return Err(CodecError::Unsupported("version 2 of Blosc")),
            _ => return Err(CodecError::Broken("a chunk of no version of Blosc")),
        }
        if flags & RESERVED != 0 {
            return Err(CodecError::Broken("a chunk with a flag that Blosc 1 does not have"));
        }
        let compressor = match flags >> COMPRESSOR {
            0 => Compressor::BloscLz,
            1 => Compressor::Lz4,
            2 => return Err(CodecError::Unsupported("Snappy")),
            3 => Compressor::Zlib,
            4 => return Err(CodecError::Unsupported("Zstandard")),
            _ => return Err(CodecError::Broken("a chunk of no compressor of Blosc 1")),
        };
        if stream_version != STREAM_VERSION {
            return Err(CodecError::Broken("a chunk of no version of its compressor"));
        }
        length("a chunk", u64::from(found), len)?;
        length("a compressed chunk", u64::from(compressed), src.len())?;
        let header = Self {
            flags,
            compressor,
            value: usize::from(value),
            block: usize::try_from(block).unwrap_or(usize::MAX),
        };
        if len != 0 && (value == 0 || block == 0) {
            return Err(CodecError::Broken("a chunk with values or blocks of no size"));
        }
        Ok((header, body))
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

pub(super) fn length(what: &'static str, found: u64, expected: usize) -> Result<(), CodecError> {
    match expected as u64 {
        expected if expected == found => Ok(()),
        expected => Err(CodecError::Length { what, found, expected }),
    }
}
