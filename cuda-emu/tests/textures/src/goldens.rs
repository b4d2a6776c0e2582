//! What a GPU computed.

use std::io::{Error, ErrorKind, Read, Write};

use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;

/// What a GPU computed for a mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Golden {
    /// The mode's name.
    pub name: String,
    /// How many words there are.
    pub count: u32,
    /// The hash of all words.
    pub hash: u64,
    /// The first words.
    pub words: Vec<u32>,
}

/// The hash of words (FNV-1a with a longer mix).
pub fn hash(words: &[u32]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, word| {
        let mixed = (hash ^ u64::from(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    })
}

/// Packs goldens, the first words of each at most, after a line about the device.
///
/// # Errors
/// If the compressor fails.
pub fn pack(about: &str, goldens: &[Golden], words: usize) -> Result<Vec<u8>, Error> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    text(&mut encoder, about)?;
    for golden in goldens {
        text(&mut encoder, &golden.name)?;
        encoder.write_all(&golden.count.to_le_bytes())?;
        encoder.write_all(&golden.hash.to_le_bytes())?;
        let kept = &golden.words[..golden.words.len().min(words)];
        encoder.write_all(&(kept.len() as u32).to_le_bytes())?;
        // The bytes of one significance next to each other are packed better.
        for shift in [24, 16, 8, 0] {
            let bytes: Vec<u8> = kept.iter().map(|word| (word >> shift) as u8).collect();
            encoder.write_all(&bytes)?;
        }
    }
    encoder.finish()
}

fn text(to: &mut impl Write, text: &str) -> Result<(), Error> {
    to.write_all(&(text.len() as u32).to_le_bytes())?;
    to.write_all(text.as_bytes())
}

/// Unpacks goldens: the line about the device, and each mode.
///
/// # Errors
/// If the bytes are not packed goldens.
pub fn unpack(packed: &[u8]) -> Result<(String, Vec<Golden>), Error> {
    let mut bytes = Vec::new();
    ZlibDecoder::new(packed).read_to_end(&mut bytes)?;
    let mut rest = bytes.as_slice();
    let about = take_text(&mut rest)?;
    let mut goldens = Vec::new();
    while !rest.is_empty() {
        let name = take_text(&mut rest)?;
        let count = number(take(&mut rest, 4)?) as u32;
        let hash = number(take(&mut rest, 8)?);
        let kept = number(take(&mut rest, 4)?) as usize;
        let mut words = vec![0; kept];
        for _ in 0..4 {
            for (word, byte) in words.iter_mut().zip(take(&mut rest, kept)?) {
                *word = *word << 8 | u32::from(*byte);
            }
        }
        goldens.push(Golden { name, count, hash, words });
    }
    Ok((about, goldens))
}

fn take<'b>(rest: &mut &'b [u8], count: usize) -> Result<&'b [u8], Error> {
    let Some((taken, left)) = rest.split_at_checked(count) else {
        return Err(Error::new(ErrorKind::UnexpectedEof, "goldens end early"));
    };
    *rest = left;
    Ok(taken)
}

fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

fn take_text(rest: &mut &[u8]) -> Result<String, Error> {
    let length = number(take(rest, 4)?) as usize;
    let bytes = take(rest, length)?.to_vec();
    String::from_utf8(bytes).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}
