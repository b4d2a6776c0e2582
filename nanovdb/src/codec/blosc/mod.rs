//! Chunks of Blosc 1, each with its size in front.
//!
//! The format is that of `README_CHUNK_FORMAT` of [c-blosc](https://github.com/Blosc/c-blosc),
//! version 2 of the format, which c-blosc 1 has written since its first release. A chunk is a header
//! ([`header`]), a table with the place of each block, and the blocks, which are all of one size but
//! for the last. A block was filtered ([`shuffle`]: bytes or bits by significance) and cut into
//! streams, one for each byte of a value or one in all, which were compressed each for itself.
//!
//! LZ4, zlib and BloscLZ ([`blosclz`]) are read; Snappy and Zstandard, which NanoVDB never writes,
//! are refused by name. Written is LZ4 over sorted bytes, as by NanoVDB itself.

mod blosclz;
mod header;
mod read;
mod shuffle;
mod write;

use super::{CodecError, exhausted, take_counted};

/// How many bytes of the grids a chunk holds: this, and the last what is left.
const CHUNK: usize = 1 << 30;
/// The size of a value, for the filters.
const VALUE: u8 = 4;
/// The size of a block.
const BLOCK: usize = 1 << 18;

/// Beyond this size of a value a block is one stream.
const MAX_STREAMS: usize = 16;
/// So is a block with fewer values than these.
const MIN_STREAM: usize = 128;

/// Into how many streams a block is cut.
///
/// The number is not in the file: c-blosc knows it from the sizes, and has since a flag for blocks
/// that are not cut. The last block, if it is shorter, never is.
fn streams(value: usize, block: usize, uncut: bool) -> usize {
    let cut = !uncut && value <= MAX_STREAMS && block / value >= MIN_STREAM;
    if cut { value } else { 1 }
}

pub(super) fn decompress(mut src: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let whole = src.len();
    let mut out = Vec::new();
    let mut reader = read::Reader::default();
    // No bytes are one chunk, too.
    loop {
        let chunk = take_counted(&mut src, "a chunk")?;
        reader.chunk(chunk, (len - out.len()).min(CHUNK), &mut out)?;
        if out.len() == len {
            exhausted(whole, src.len())?;
            return Ok(out);
        }
    }
}

pub(super) fn compress(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = data;
    loop {
        let (chunk, behind) = rest.split_at(rest.len().min(CHUNK));
        let chunk = write::chunk(chunk);
        out.extend_from_slice(&(chunk.len() as u64).to_le_bytes());
        out.extend_from_slice(&chunk);
        rest = behind;
        if rest.is_empty() {
            return out;
        }
    }
}
