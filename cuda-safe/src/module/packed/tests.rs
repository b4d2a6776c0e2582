//! Packs that are whole, truncated at every length, changed in every bit, and damaged at random.

use std::io::Write;

use flate2::{Compression, GzBuilder};
use proptest::prelude::*;

use super::PackedPtx;
use crate::error::ErrorKind;

const TEXT: &str = ".version 8.0\n.target sm_75\n.address_size 64\n\n\
    .visible .entry fill(.param .u64 to, .param .u32 n)\n{\n\tret;\n}\n";

/// Returns a gzip file without optional fields.
fn pack(text: &[u8]) -> Vec<u8> {
    pack_with(GzBuilder::new(), text)
}

fn pack_with(builder: GzBuilder, text: &[u8]) -> Vec<u8> {
    let mut encoder = builder.write(Vec::new(), Compression::best());
    encoder.write_all(text).expect("a Vec takes all bytes");
    encoder.finish().expect("a Vec takes all bytes")
}

/// Returns a longer text, as compilers write it: 40 kernels.
fn long() -> String {
    let kernel =
        |i| TEXT.replace("fill", &format!("fill_{i}")).replace("ret", "bar.sync 0;\n\tret");
    (0..40).map(kernel).collect()
}

fn unpack(bytes: &[u8]) -> Result<String, String> {
    PackedPtx::new("the_module", bytes).unpack().map_err(|error| {
        assert!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
        assert!(error.call().is_none() && !error.is_fatal(), "{error}");
        let text = error.to_string();
        assert!(text.contains("`the_module`"), "an error names the module: {text}");
        text
    })
}

#[track_caller]
fn refused(bytes: &[u8], reason: &str) {
    match unpack(bytes) {
        Ok(text) => panic!("unpacked to {} bytes", text.len()),
        Err(error) => assert!(error.contains(reason), "{error}"),
    }
}

#[test]
fn whole_files_unpack_to_their_text() {
    for text in [TEXT, "", &long(), "// \u{3b1}\n", "a\0b"] {
        assert_eq!(unpack(&pack(text.as_bytes())).as_deref(), Ok(text));
    }
    // The file is like one that `gzip` without -n writes, with further fields.
    let builder = GzBuilder::new().filename("fill.ptx").comment("of a test").extra([1, 2, 3]);
    assert_eq!(unpack(&pack_with(builder.mtime(1), TEXT.as_bytes())).as_deref(), Ok(TEXT));
    // Input that deflate compresses most.
    let zeros = "0".repeat(1 << 20);
    assert_eq!(unpack(&pack(zeros.as_bytes())).as_deref(), Ok(zeros.as_str()));
}

#[test]
fn a_packed_text_has_its_name_and_its_bytes() {
    let bytes = pack(TEXT.as_bytes());
    let packed = PackedPtx::new("the_module", &bytes);
    assert_eq!((packed.name(), packed.as_bytes()), ("the_module", &bytes[..]));
    let shown = format!("{packed:?}");
    assert!(shown.contains("the_module") && shown.contains(&bytes.len().to_string()), "{shown}");
}

#[test]
fn every_truncation_is_refused() {
    let builder = GzBuilder::new().filename("fill.ptx").comment("of a test");
    for whole in [pack(TEXT.as_bytes()), pack_with(builder, TEXT.as_bytes()), pack(b"")] {
        for length in 0..whole.len() {
            assert!(unpack(&whole[..length]).is_err(), "{length} of {} bytes", whole.len());
        }
    }
}

#[test]
fn every_changed_bit_is_refused_or_changes_nothing() {
    let whole = pack(TEXT.as_bytes());
    let mut harmless = 0;
    for bit in 0..whole.len() * 8 {
        let mut changed = whole.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        match unpack(&changed) {
            Ok(text) => {
                assert_eq!(text, TEXT, "bit {bit}");
                harmless += 1;
            }
            Err(_) => assert!(!(32..80).contains(&bit), "bit {bit} is of the time or the system"),
        }
    }
    // The time, the level and the system, which a reader ignores, the bit that says that the file is text, and the
    // padding at the end of the compressed data.
    assert!((48..=48 + 1 + 8).contains(&harmless), "{harmless}");
}

#[test]
fn other_formats_and_versions_are_refused() {
    refused(b"", "do not start as a gzip file");
    refused(TEXT.as_bytes(), "do not start as a gzip file");
    refused(b"\x28\xb5\x2f\xfd of Zstandard, which may come", "do not start as a gzip file");
    let whole = pack(TEXT.as_bytes());
    let changed = |index: usize, byte| {
        let mut bytes = whole.clone();
        bytes[index] = byte;
        bytes
    };
    refused(&changed(2, 9), "gzip method 9 is unknown");
    // The flags that are reserved for later versions.
    for flag in 5..8 {
        refused(&changed(3, 1 << flag), "invalid gzip header");
    }
    refused(&[0x1f, 0x8b, 8], "cut short after 3 bytes");
}

#[test]
fn what_follows_the_file_is_refused() {
    let whole = pack(TEXT.as_bytes());
    // The length at the end is right, so another field must be reported.
    let twice = [&whole[..], &whole[..]].concat();
    refused(&twice, &format!("{} bytes follow", whole.len()));
    let length = (TEXT.len() as u32).to_le_bytes();
    refused(&[&whole[..], &[0; 8], &length].concat(), "12 bytes follow");
}

#[test]
fn a_text_that_is_not_utf8_is_refused() {
    refused(&pack(b".version 8.0\n// \xff\n"), "not UTF-8 from byte 16 on");
    refused(&pack(b"\xe2\x82"), "not UTF-8 from byte 0 on");
}

/// Returns the file with another length at its end.
fn stating(bytes: &[u8], length: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let end = bytes.len() - 4;
    bytes[end..].copy_from_slice(&length.to_le_bytes());
    bytes
}

#[test]
fn the_stated_length_bounds_what_is_unpacked() {
    let whole = pack(TEXT.as_bytes());
    let length = TEXT.len() as u32;
    refused(&stating(&whole, length - 1), "not of the stated length");
    refused(&stating(&whole, length + 1), "corrupt");
    refused(&stating(&whole, 0), "not of the stated length");
    // The stated length is more than so few bytes can hold: nothing is allocated.
    refused(&stating(&whole, u32::MAX), "state a text of 4294967295 bytes");
    refused(&stating(&whole, 1 << 20), "state a text of 1048576 bytes");
    // A file that unpacks to far more than it states.
    let zeros = pack(&vec![b'0'; 16 << 20]);
    refused(&stating(&zeros, 100), "not of the stated length, 100 bytes");
}

#[test]
fn a_text_over_the_limit_is_refused() {
    // Bytes that could hold it, and are of none.
    let many = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255], &vec![0; 300_000][..]].concat();
    let limit = PackedPtx::MAX_TEXT_LEN as u32;
    refused(&stating(&many, limit + 1), "longer than 268435456 bytes");
    refused(&stating(&many, limit), "corrupt");
}

/// One change of a file: a bit, a byte, a piece left out, repeated or put in.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Repeat(usize, usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: usize, bytes: &[u8]| at % bytes.len().max(1);
        match self {
            _ if bytes.is_empty() => {}
            Self::Flip(at, bit) => {
                let at = place(*at, bytes);
                bytes[at] ^= 1 << (bit % 8);
            }
            Self::Set(at, byte) => {
                let at = place(*at, bytes);
                bytes[at] = *byte;
            }
            Self::Remove(at, count) => {
                let at = place(*at, bytes);
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Self::Insert(at, piece) => {
                let at = place(*at, bytes);
                bytes.splice(at..at, piece.iter().copied());
            }
            Self::Repeat(at, count) => {
                let at = place(*at, bytes);
                let piece = bytes[at..(at + count).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<usize>();
    prop_oneof![
        (at, any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at, any::<u8>()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at, 1..64_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (at, prop::collection::vec(any::<u8>(), 1..64))
            .prop_map(|(at, piece)| Damage::Insert(at, piece)),
        (at, 1..64_usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn damaged_files_are_refused_or_unpack_to_the_text(damages in prop::collection::vec(damage(), 1..4)) {
        let text = long();
        let mut bytes = pack(text.as_bytes());
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        if let Ok(unpacked) = unpack(&bytes) {
            prop_assert_eq!(unpacked, text);
        }
    }

    #[test]
    fn any_bytes_are_no_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = unpack(&bytes);
        for (byte, magic) in bytes.iter_mut().zip([0x1f, 0x8b, 8, 0]) {
            *byte = magic;
        }
        let _ = unpack(&bytes);
    }
}
