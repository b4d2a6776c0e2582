//! The format of a cache file: magic, format, kind, key, length, checksum, payload.

use super::Kind;
use crate::codec::{Hash, Reader, Writer, sha256};

const MAGIC: &[u8; 8] = b"cudakc\r\n";
/// Raised whenever a payload's layout changes.
const FORMAT: u32 = 2;

fn tag(kind: Kind) -> u32 {
    match kind {
        Kind::Image => 0,
        Kind::Library => 1,
        Kind::Record => 2,
        Kind::Bytes => 3,
    }
}

pub(crate) fn encode(kind: Kind, key: &Hash, payload: &[u8]) -> Vec<u8> {
    let mut file = Writer::default();
    file.0.reserve(payload.len() + 96);
    file.0.extend(MAGIC);
    file.u32(FORMAT);
    file.u32(tag(kind));
    file.0.extend(key);
    file.0.extend(sha256(payload));
    file.bytes(payload);
    file.0
}

/// Returns the payload, if every byte of the file is as it was written and for this key.
pub(crate) fn decode(kind: Kind, key: &Hash, mut file: Vec<u8>) -> Option<Vec<u8>> {
    let mut reader = Reader(&file);
    let header = reader.take(MAGIC.len())? == MAGIC
        && reader.u32()? == FORMAT
        && reader.u32()? == tag(kind)
        && reader.take(key.len())? == key;
    let checksum: Hash = reader.array()?;
    let payload = reader.bytes()?;
    let whole = header && reader.0.is_empty() && sha256(payload) == checksum;
    let begin = file.len() - payload.len();
    whole.then(|| file.split_off(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_and_every_flipped_bit_is_noticed() {
        let key = sha256(b"key");
        let file = encode(Kind::Image, &key, b"payload");
        assert_eq!(decode(Kind::Image, &key, file.clone()).as_deref(), Some(&b"payload"[..]));
        assert_eq!(decode(Kind::Library, &key, file.clone()), None);
        assert_eq!(decode(Kind::Image, &sha256(b"other"), file.clone()), None);
        for length in 0..file.len() {
            assert_eq!(decode(Kind::Image, &key, file[..length].to_vec()), None, "{length}");
        }
        for bit in 0..file.len() * 8 {
            let mut flipped = file.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(Kind::Image, &key, flipped), None, "bit {bit}");
        }
        let longer = [&file[..], b"x"].concat();
        assert_eq!(decode(Kind::Image, &key, longer), None);
    }
}
