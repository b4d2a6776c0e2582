//! One zlib stream, its size in front.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::{CodecError, exhausted, reserve, take_counted};

/// The least by which the output grows.
const STEP: usize = 1 << 16;

pub(super) fn decompress(mut src: &[u8], len: usize) -> Result<Vec<u8>, CodecError> {
    let whole = src.len();
    let stream = take_counted(&mut src, "the zlib stream")?;
    exhausted(whole, src.len())?;
    let mut out = Vec::new();
    inflate(stream, len, &mut out)?;
    Ok(out)
}

pub(super) fn compress(data: &[u8]) -> Result<Vec<u8>, CodecError> {
    // Room for the size, which is known at the end.
    let room = vec![0; size_of::<u64>()];
    let mut encoder = ZlibEncoder::new(room, Compression::default());
    let done = encoder.write_all(data).and_then(|()| encoder.finish());
    // A vector takes whatever is written to it.
    let mut out = done.map_err(|_| CodecError::Memory { len: data.len() as u64 })?;
    if let Some((size, stream)) = out.split_first_chunk_mut() {
        *size = (stream.len() as u64).to_le_bytes();
    }
    Ok(out)
}

/// Appends the `len` bytes that a zlib stream holds. The output grows with the decompressed bytes, so the cost depends
/// on the stream's contents and not on its stated length.
pub(super) fn inflate(stream: &[u8], len: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let start = out.len();
    let mut rest = stream;
    let mut state = Decompress::new(true);
    loop {
        let made = out.len() - start;
        if made > len {
            return Err(CodecError::Broken("a zlib stream longer than its data"));
        }
        if out.len() == out.capacity() {
            // One byte more than there is to come, to see a stream that goes on.
            reserve(out, (len - made).min(made.max(STEP)).saturating_add(1))?;
        }
        let used = state.total_in();
        let status = state
            .decompress_vec(rest, out, FlushDecompress::None)
            .map_err(|_| CodecError::Broken("not a zlib stream"))?;
        // At most the length of `rest`.
        let used = (state.total_in() - used) as usize;
        rest = rest.get(used..).unwrap_or_default();
        let made_before = made;
        let made = out.len() - start;
        match status {
            Status::StreamEnd if made == len => return exhausted(stream.len(), rest.len()),
            Status::StreamEnd => {
                let (found, expected) = (made as u64, len as u64);
                return Err(CodecError::Length { what: "a zlib stream", found, expected });
            }
            // There was room for a byte.
            _ if used == 0 && made == made_before => {
                return Err(CodecError::Truncated("a zlib stream"));
            }
            _ => {}
        }
    }
}
