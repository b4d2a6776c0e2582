//! Data to chunks.

use super::header::{self, Compressor};
use super::{BLOCK, MIN_STREAM, VALUE, shuffle, streams};

/// Returns the chunk that holds `data`, at most [`super::CHUNK`] bytes of it.
///
/// Blocks know nothing of each other: they can be made in any order.
pub(super) fn chunk(data: &[u8]) -> Vec<u8> {
    let value = usize::from(VALUE);
    let size = match data.len() {
        len if len >= BLOCK => BLOCK,
        // A block that is cut has whole values only. The rest is a block for itself.
        len if len >= value * MIN_STREAM => len - len % value,
        len => len,
    };
    let blocks = data.chunks(size.max(1));
    let table = 4 * blocks.len();

    let mut out = head(header::SHUFFLED, data.len(), size);
    out.resize(header::LEN + table, 0);
    let mut places = Vec::with_capacity(table);
    let mut memory = Memory::default();
    for block in blocks {
        places.extend_from_slice(&word(out.len()));
        memory.block(block, block.len() < size, &mut out);
    }
    if out.len() >= header::LEN + data.len() {
        let mut out = head(header::STORED, data.len(), size);
        out.extend_from_slice(data);
        return sized(out);
    }
    if let Some(to) = out.get_mut(header::LEN..header::LEN + table) {
        to.copy_from_slice(&places);
    }
    sized(out)
}

/// Returns the header of a chunk, less the size of the chunk.
fn head(flags: u8, len: usize, block: usize) -> Vec<u8> {
    let flags = flags | (Compressor::Lz4 as u8) << header::COMPRESSOR;
    let mut out = vec![header::VERSION, header::STREAM_VERSION, flags, VALUE];
    out.extend_from_slice(&word(len));
    out.extend_from_slice(&word(block));
    out.extend_from_slice(&word(0));
    out
}

/// Returns a chunk whose header has its size.
fn sized(mut chunk: Vec<u8>) -> Vec<u8> {
    let len = word(chunk.len());
    if let Some(to) = chunk.get_mut(header::LEN - len.len()..header::LEN) {
        to.copy_from_slice(&len);
    }
    chunk
}

/// Returns a size in a chunk. A chunk holds 2^30 bytes, and LZ4 adds at most one for 255 of them.
fn word(size: usize) -> [u8; 4] {
    (size as u32).to_le_bytes()
}

/// Memory for a block, kept from one to the next.
#[derive(Debug, Default)]
struct Memory {
    shuffled: Vec<u8>,
    stream: Vec<u8>,
}

impl Memory {
    /// Appends the streams of a block.
    fn block(&mut self, data: &[u8], uncut: bool, out: &mut Vec<u8>) {
        self.shuffled.resize(data.len(), 0);
        shuffle::shuffle(data, &mut self.shuffled);
        let len = data.len() / streams(usize::from(VALUE), data.len(), uncut);
        self.stream.resize(lz4_flex::block::get_maximum_output_size(len), 0);
        for stream in self.shuffled.chunks(len.max(1)) {
            let made = lz4_flex::block::compress_into(stream, &mut self.stream);
            // A stream that compression does not make smaller is stored uncompressed; the reader detects that by the
            // size.
            let smaller = made.ok().filter(|made| *made < len);
            let bytes = smaller.and_then(|made| self.stream.get(..made)).unwrap_or(stream);
            out.extend_from_slice(&word(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}
