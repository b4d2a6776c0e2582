//! Decompresses the contents of an entry. The sizes come from outside.

use std::io::Read;

use ruzstd::decoding::StreamingDecoder;

/// A byte of an LZ4 block stands for at most this many bytes of its contents.
const LZ4_RATIO: usize = 255;

/// Decompresses a block of LZ4 to exactly `size` bytes.
pub(super) fn lz4(packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    if size > packed.len().saturating_mul(LZ4_RATIO) {
        let length = packed.len();
        return Err(format!("{size} bytes after decompression, from {length} bytes of LZ4"));
    }
    let mut unpacked = vec![0; size];
    match lz4_flex::block::decompress_into(packed, &mut unpacked) {
        Ok(count) if count == size => Ok(unpacked),
        Ok(count) => Err(format!("LZ4 of {count} bytes, where the header states {size}")),
        Err(error) => Err(format!("corrupt LZ4: {error}")),
    }
}

/// Decompresses a frame of zstd to exactly `size` bytes.
pub(super) fn zstd(packed: &[u8], size: usize) -> Result<Vec<u8>, String> {
    let frame = frame(packed).ok_or("corrupt zstd: no frame header")?;
    // The decoder allocates the window before it reads data. An encoder that does not know the size of its input
    // states a window of a few MB.
    let most = u64::try_from(size).unwrap_or(u64::MAX).max(MOST_WINDOW);
    if frame.window > most {
        return Err(format!("zstd with a window of {} bytes for {size}", frame.window));
    }
    if let Some(stated) = frame.content.filter(|&stated| stated != size as u64) {
        return Err(format!("zstd of {stated} bytes, where the header states {size}"));
    }
    // A compressed block of 128 KiB takes at least four bytes.
    if (size as u64) > (packed.len() as u64).saturating_mul(MOST_BLOCK / 4) {
        let length = packed.len();
        return Err(format!("{size} bytes after decompression, from {length} bytes of zstd"));
    }
    let corrupt = |error: &dyn std::fmt::Display| format!("corrupt zstd: {error}");
    let decoder = StreamingDecoder::new(packed).map_err(|error| corrupt(&error))?;
    let mut unpacked = Vec::new();
    let mut limited = decoder.take((size as u64).saturating_add(1));
    limited.read_to_end(&mut unpacked).map_err(|error| corrupt(&error))?;
    if unpacked.len() == size {
        Ok(unpacked)
    } else if unpacked.len() > size {
        Err(format!("zstd of more than the {size} bytes that the header states"))
    } else {
        Err(format!("zstd of {} bytes, where the header states {size}", unpacked.len()))
    }
}

/// A window that is allowed for contents of any size.
const MOST_WINDOW: u64 = 8 << 20;

/// Bytes of a block at most (RFC 8878, 3.1.1.2).
const MOST_BLOCK: u64 = 128 << 10;

struct Frame {
    window: u64,
    content: Option<u64>,
}

/// Reads the sizes in a frame's header (RFC 8878, 3.1.1.1); `None` if there is no such header.
fn frame(packed: &[u8]) -> Option<Frame> {
    let rest = packed.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (&descriptor, mut rest) = rest.split_first()?;
    let single = descriptor & 0x20 != 0;
    let mut window = 0;
    if !single {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        let base = 1_u64 << (10 + (byte >> 3));
        window = base + base / 8 * u64::from(byte & 7);
    }
    rest = rest.get([0, 1, 2, 4][usize::from(descriptor & 3)]..)?;
    let bytes = match (descriptor >> 6, single) {
        (0, false) => 0,
        (0, true) => 1,
        (code, _) => 1 << code,
    };
    let field = rest.get(..bytes)?;
    let number = field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
    let content = match bytes {
        0 => None,
        2 => Some(number + 256),
        _ => Some(number),
    };
    if single {
        window = content?;
    }
    Some(Frame { window, content })
}
