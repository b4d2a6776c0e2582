//! Chunks to data.

use super::super::{exhausted, reserve, take, zip};
use super::header::{self, Compressor, Header, length};
use super::{CodecError, blosclz, shuffle, streams};

/// Reads chunks, and keeps the memory for a block from one to the next.
#[derive(Debug, Default)]
pub(super) struct Reader {
    block: Vec<u8>,
}

impl Reader {
    /// Appends the `len` bytes that a chunk holds.
    pub(super) fn chunk(
        &mut self,
        src: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), CodecError> {
        let (header, body) = Header::read(src, len)?;
        if header.has(header::STORED) {
            length("a chunk that is not compressed", body.len() as u64, len)?;
            reserve(out, len)?;
            out.extend_from_slice(body);
            return Ok(());
        }
        if len == 0 {
            return exhausted(body.len(), body.len());
        }

        // The table says where blocks begin. They are in any order: threads write
        // them as they get done.
        let mut blocks = body;
        let table = 4 * len.div_ceil(header.block) as u64;
        let table = take(&mut blocks, table, "a chunk's table of blocks")?;
        // The bytes left for later blocks. No byte is read twice, so a small chunk cannot decompress to a large one.
        let mut unread = blocks.len();
        let mut left = len;
        for place in table.as_chunks::<4>().0 {
            let place = u64::from(u32::from_le_bytes(*place));
            // The places count from the start of the chunk (the document says the end of the table).
            let place = place.checked_sub((header::LEN + table.len()) as u64);
            let mut rest = blocks;
            let before = place.ok_or(CodecError::Broken("a block within the table of blocks"))?;
            take(&mut rest, before, "a block")?;
            let size = header.block.min(left);
            let used = self.streams(&header, rest, size)?;
            unread = unread
                .checked_sub(used)
                .ok_or(CodecError::Broken("blocks that share their bytes"))?;
            self.unfilter(&header, out)?;
            left -= size;
        }
        Ok(())
    }

    /// Decompresses the streams of a block of `size` bytes, and says how many they have themselves.
    fn streams(&mut self, header: &Header, src: &[u8], size: usize) -> Result<usize, CodecError> {
        let uncut = header.has(header::UNCUT) || size < header.block;
        let count = streams(header.value, size, uncut);
        if !size.is_multiple_of(count) {
            return Err(CodecError::Broken("a block that is not cut into equal streams"));
        }
        self.block.clear();
        let mut rest = src;
        for _ in 0..count {
            let (bytes, behind) =
                rest.split_first_chunk().ok_or(CodecError::Truncated("a stream's size"))?;
            rest = behind;
            let stream = take(&mut rest, u64::from(u32::from_le_bytes(*bytes)), "a stream")?;
            self.stream(header.compressor, stream, size / count)?;
        }
        Ok(src.len() - rest.len())
    }

    /// Appends a stream of `len` bytes to the block.
    fn stream(&mut self, compressor: Compressor, src: &[u8], len: usize) -> Result<(), CodecError> {
        // A stream that compression would not make smaller is stored uncompressed.
        if src.len() == len {
            reserve(&mut self.block, len)?;
            self.block.extend_from_slice(src);
            return Ok(());
        }
        if len > compressor.most(src.len()) {
            return Err(CodecError::Broken("a stream that cannot stand for so many bytes"));
        }
        if compressor == Compressor::Zlib {
            return zip::inflate(src, len, &mut self.block);
        }
        reserve(&mut self.block, len)?;
        let start = self.block.len();
        self.block.resize(start + len, 0);
        let to = self.block.get_mut(start..).unwrap_or_default();
        let made = match compressor {
            Compressor::BloscLz => blosclz::decompress(src, to),
            _ => lz4_flex::block::decompress_into(src, to).ok(),
        };
        match made {
            Some(made) => length("a stream", made as u64, len),
            None => Err(CodecError::Broken("a stream that is not of its compressor")),
        }
    }

    /// Appends the block as it was before the filter.
    fn unfilter(&self, header: &Header, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let block = self.block.as_slice();
        reserve(out, block.len())?;
        let shuffled = header.has(header::SHUFFLED) && header.value > 1;
        let bit_shuffled = header.has(header::BIT_SHUFFLED) && block.len() >= header.value;
        if !shuffled && !bit_shuffled {
            out.extend_from_slice(block);
            return Ok(());
        }
        let start = out.len();
        out.resize(start + block.len(), 0);
        let to = out.get_mut(start..).unwrap_or_default();
        if shuffled {
            shuffle::unshuffle(header.value, block, to);
        } else {
            shuffle::bit_unshuffle(header.value, block, to);
        }
        Ok(())
    }
}
