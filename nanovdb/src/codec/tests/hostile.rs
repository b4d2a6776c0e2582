//! Data that no compressor wrote.

use super::super::{Codec, CodecError, compress, decompress};
use super::golden::readable;
use super::{counted, next};

/// More than any test's data has.
const LIMIT: u64 = 1 << 20;

/// Compressed data of all kinds, with the decompressed length.
fn samples() -> Vec<(Codec, Vec<u8>, usize)> {
    let mut samples: Vec<_> =
        readable().into_iter().map(|(chunk, len)| (Codec::Blosc, chunk, len)).collect();
    for len in [0, 5, 700, 2000] {
        let data: Vec<u8> = (0..len).map(|i| (i / 9 * (i % 4)) as u8).collect();
        for codec in [Codec::Zip, Codec::Blosc] {
            samples.push((codec, compress(codec, &data).expect("compressed"), len));
        }
    }
    samples
}

/// An error, or as many bytes as were asked for.
fn decompresses(codec: Codec, src: &[u8], len: u64) -> bool {
    match decompress(codec, src, len, LIMIT) {
        Ok(data) => {
            assert_eq!(data.len() as u64, len);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn data_cut_short_is_refused() {
    for (codec, src, len) in samples() {
        assert!(decompresses(codec, &src, len as u64));
        for cut in 0..src.len() {
            assert!(!decompresses(codec, &src[..cut], len as u64), "{codec}: {len} to {cut}");
            // Also where the size in front is right.
            let chunk = counted(src.get(8..cut).unwrap_or_default());
            assert!(!decompresses(codec, &chunk, len as u64), "{codec}: {len} to {cut}");
        }
    }
}

#[test]
fn data_that_goes_on_is_refused() {
    for (codec, src, len) in samples() {
        let longer = [src.as_slice(), &[0]].concat();
        let used = CodecError::Trailing { used: src.len(), len: longer.len() };
        assert_eq!(decompress(codec, &longer, len as u64, LIMIT), Err(used));
        let chunk = counted(&longer[8..]);
        assert!(!decompresses(codec, &chunk, len as u64), "{codec}: {len}");
    }
}

#[test]
fn other_lengths_are_refused() {
    for (codec, src, len) in samples() {
        let len = len as u64;
        for wrong in [0, len.wrapping_sub(1), len + 1, 2 * len, 1 << 19, 1 << 30, 1 << 62, u64::MAX]
        {
            if wrong != len {
                assert!(
                    decompress(codec, &src, wrong, u64::MAX).is_err(),
                    "{codec}: {len}, {wrong}"
                );
            }
        }
        let limit = len.saturating_sub(1);
        let beyond = decompress(codec, &src, len, limit);
        assert!(len == 0 || beyond == Err(CodecError::Limit { len, limit }));
    }
}

#[test]
fn flipped_bits_do_no_harm() {
    for (codec, src, len) in samples() {
        let data = decompress(codec, &src, len as u64, LIMIT).expect("a sample");
        for bit in 0..8 * src.len() {
            let mut src = src.clone();
            src[bit / 8] ^= 1 << (bit % 8);
            let whole = decompresses(codec, &src, len as u64);
            // Sizes are there for something, and zlib has a checksum.
            assert!(!whole || bit >= 64, "{codec}: {len}, {bit}");
            if whole && codec == Codec::Zip {
                assert_eq!(decompress(codec, &src, len as u64, LIMIT).as_ref(), Ok(&data));
            }
        }
    }
}

#[test]
fn mutants_do_no_harm() {
    const INTERESTING: [u32; 10] =
        [0, 1, 4, 16, 127, 255, 1 << 16, i32::MAX as u32, 1 << 31, u32::MAX];
    let samples = samples();
    let mut state = 0x1234_5678_9abc_def1;
    let mut whole = 0;
    for _ in 0..100_000 {
        let random = &mut state;
        let below = |random: &mut u64, n: usize| (next(random) % n.max(1) as u64) as usize;
        let (codec, src, len) = &samples[below(random, samples.len())];
        let mut src = src.clone();
        for _ in 0..=below(random, 3) {
            let at = below(random, src.len());
            // The front is where all the meaning is.
            let at = if next(random).is_multiple_of(2) { at % 40 } else { at };
            match next(random) % 5 {
                0 => src[at] = next(random) as u8,
                1 => src[at] ^= 1 << (next(random) % 8),
                2 => {
                    let value = INTERESTING[below(random, INTERESTING.len())].to_le_bytes();
                    for (to, from) in src.iter_mut().skip(at / 4 * 4).zip(value) {
                        *to = from;
                    }
                }
                3 => src.truncate(at.max(8)),
                _ => {
                    let (other, from) = (&samples[below(random, samples.len())].1, at);
                    src.truncate(at.max(8));
                    src.extend_from_slice(other.get(from..).unwrap_or_default());
                }
            }
        }
        // Most have sizes that fit, to get further.
        if !next(random).is_multiple_of(4) && src.len() >= 24 {
            let size = src.len() - 8;
            src[..8].copy_from_slice(&(size as u64).to_le_bytes());
            if *codec == Codec::Blosc {
                src[20..24].copy_from_slice(&(size as u32).to_le_bytes());
            }
        }
        whole += usize::from(decompresses(*codec, &src, *len as u64));
    }
    // Blosc has no checksum: a flipped bit in a literal is data.
    assert!(whole > 1000 && whole < 90_000, "{whole}");
}

/// Returns a chunk's header for so many bytes in blocks of a size, LZ4 over bytes that are not sorted.
fn head(len: u32, block: u32, body: usize) -> Vec<u8> {
    let mut head = vec![2, 1, 0x20, 4];
    for size in [len, block, 16 + body as u32] {
        head.extend_from_slice(&size.to_le_bytes());
    }
    head
}

#[test]
fn a_size_with_nothing_behind_it_costs_nothing() {
    // A terabyte, in each of the formats.
    let sizes = 1_u64 << 40;
    for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
        assert!(decompress(codec, &[], sizes, u64::MAX).is_err());
        assert!(decompress(codec, &counted(&[0; 64]), sizes, u64::MAX).is_err());
    }
    // A chunk of one block, which is one stream, which is one byte.
    let body = [20_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat();
    let body = [body.as_slice(), &[0]].concat();
    let mut chunk = [head(1 << 30, 1 << 30, body.len()), body].concat();
    // Not cut.
    chunk[2] |= 0x10;
    let got = decompress(Codec::Blosc, &counted(&chunk), 1 << 30, u64::MAX);
    assert_eq!(got, Err(CodecError::Broken("a stream that cannot stand for so many bytes")));
    // A chunk of blocks of one byte, without the table.
    let chunk = head(1 << 30, 1, 0);
    let got = decompress(Codec::Blosc, &counted(&chunk), 1 << 30, u64::MAX);
    assert_eq!(got, Err(CodecError::Truncated("a chunk's table of blocks")));
}

#[test]
fn blocks_do_not_share_their_bytes() {
    // Two blocks of 64 equal bytes: one literal, and a match of 58 behind it, and five literals.
    let stream = [0x1f, 7, 1, 0, 58 - 19, 0x50, 7, 7, 7, 7, 7];
    let block = [&(stream.len() as u32).to_le_bytes()[..], &stream].concat();
    let chunk = |second: usize, blocks: usize| {
        let table = [24_u32.to_le_bytes(), (second as u32).to_le_bytes()].concat();
        let body = [table, block.repeat(blocks)].concat();
        counted(&[head(128, 64, body.len()), body].concat())
    };
    let whole = decompress(Codec::Blosc, &chunk(24 + block.len(), 2), 128, LIMIT);
    assert_eq!(whole, Ok(vec![7; 128]));
    let shared = CodecError::Broken("blocks that share their bytes");
    assert_eq!(decompress(Codec::Blosc, &chunk(24, 1), 128, LIMIT), Err(shared));
    for place in [0, 16, 23, 24 + 2 * block.len(), 1 << 31] {
        assert!(decompress(Codec::Blosc, &chunk(place, 2), 128, LIMIT).is_err(), "{place}");
    }
}

#[test]
fn what_blosc_1_does_not_have_is_refused() {
    let (good, len) = readable().swap_remove(0);
    let len = len as u64;
    let refused = |at: usize, value: u8| {
        let mut chunk = good.clone();
        chunk[8 + at] = value;
        decompress(Codec::Blosc, &chunk, len, LIMIT).unwrap_err()
    };
    let flags = good[10];
    assert_eq!(refused(0, 5), CodecError::Unsupported("version 2 of Blosc"));
    for (at, value) in [(0, 0), (0, 1), (1, 0), (1, 2), (2, flags | 8), (2, flags | 0xe0), (3, 0)] {
        assert!(matches!(refused(at, value), CodecError::Broken(_)), "{at}, {value}");
    }
}

#[test]
fn matches_before_the_start_are_refused() {
    // LZ4: a match at distance 0, and one at 2 behind one byte.
    for stream in [[0x11, 7, 0, 0, 0], [0x11, 7, 2, 0, 0]] {
        let body = [&20_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), &stream].concat();
        let chunk = [head(6, 6, body.len()), body].concat();
        let broken = CodecError::Broken("a stream that is not of its compressor");
        assert_eq!(decompress(Codec::Blosc, &counted(&chunk), 6, LIMIT), Err(broken));
    }
}
