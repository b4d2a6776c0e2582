//! Compressed data decompresses to the same bytes.

use proptest::prelude::*;

use super::super::{Codec, compress, decompress};
use super::next;

/// Sizes about those at which something changes: values, streams, blocks.
const SIZES: [usize; 24] = [
    0, 1, 3, 4, 5, 31, 32, 33, 127, 128, 255, 256, 257, 511, 512, 513, 515, 65_537, 262_143,
    262_144, 262_145, 262_656, 524_287, 3_000_001,
];

/// Zeros, noise, a smooth function, and what repeats itself.
fn kinds(len: usize) -> [Vec<u8>; 4] {
    let mut state = 0x9e37_79b9_7f4a_7c15;
    let noise: Vec<u8> = (0..len).map(|_| next(&mut state) as u8).collect();
    let smooth = |i: usize| ((i / 4) as f32).sqrt().to_le_bytes()[i % 4];
    let again = (0..len).map(|i| noise[i % 77]).collect();
    [vec![0; len], noise, (0..len).map(smooth).collect(), again]
}

fn comes_back(codec: Codec, data: &[u8]) -> usize {
    let len = data.len() as u64;
    let compressed = compress(codec, data).expect("compressed");
    let got = decompress(codec, &compressed, len, len);
    assert!(got.as_deref() == Ok(data), "{codec}: {len} bytes");
    for wrong in [len.wrapping_sub(1), len + 1] {
        assert!(decompress(codec, &compressed, wrong, u64::MAX).is_err(), "{codec}: {len} bytes");
    }
    compressed.len()
}

#[test]
fn data_of_all_sizes_comes_back() {
    for len in SIZES {
        for (kind, data) in kinds(len).iter().enumerate() {
            for codec in [Codec::None, Codec::Zip, Codec::Blosc] {
                let compressed = comes_back(codec, data);
                // Size and header of a chunk; zlib's of each 16 KiB and of the whole.
                let most = len + 24 + len / 3000;
                assert!(compressed <= most, "{codec}: {len} bytes of kind {kind}: {compressed}");
            }
        }
    }
}

#[test]
fn codecs_make_less_of_what_repeats() {
    let [zeros, _, smooth, again] = kinds(3_000_001);
    for codec in [Codec::Zip, Codec::Blosc] {
        assert!(comes_back(codec, &zeros) < 20_000, "{codec}");
        assert!(comes_back(codec, &smooth) < 2_400_000, "{codec}");
        assert!(comes_back(codec, &again) < 50_000, "{codec}");
    }
}

proptest! {
    #[test]
    fn data_comes_back(
        runs in prop::collection::vec((any::<[u8; 3]>(), 1_usize..40), 0..60),
        codec in 0_u16..3,
    ) {
        let data = runs.iter().flat_map(|(bytes, times)| bytes.repeat(*times)).collect::<Vec<_>>();
        comes_back(Codec::from_code(codec).expect("a codec"), &data);
    }
}
