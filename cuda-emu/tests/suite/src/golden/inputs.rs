//! What the golden kernels are given: random words, many of them special.

use test_harness::Rng;

/// Threads of a launch, and of a block. Hashes are taken block by block.
pub(super) const THREADS: usize = 4096;
pub(super) const BLOCK: usize = 256;
/// Words that a thread takes, and that it writes at most.
pub(super) const IN: usize = 3;
pub(super) const OUT: usize = 16;
/// Launches of a kernel, each with inputs of its own.
pub(super) const ROUNDS: u64 = 3;

/// Halves of words: zeros, denormals, the ends of the normal numbers, infinities, NaNs, ones, the
/// ends of the integers, and where shifts change their ways.
const SPECIAL_32: [u32; 28] = [
    0,
    0x8000_0000,
    0x0000_0001,
    0x8000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7fa0_1234,
    0xffc1_2345,
    0x3f80_0000,
    0xbf80_0000,
    0x3f00_0000,
    0x4b00_0001,
    0x4f00_0000,
    0x5f00_0000,
    0x7fff_ffff,
    0xffff_ffff,
    31,
    32,
    33,
    64,
    255,
    0x0000_ffff,
    0x0001_0000,
];

/// The same for whole words.
const SPECIAL_64: [u64; 20] = [
    0,
    0x8000_0000_0000_0000,
    1,
    0x800f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000,
    0x7ff4_0000_0000_1234,
    0xfff8_1234_5678_9abc,
    0x3ff0_0000_0000_0000,
    0xbff0_0000_0000_0000,
    0x3fe0_0000_0000_0000,
    0x36a0_0000_0000_0000,
    0x47ef_ffff_f000_0000,
    0x41e0_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_ffff,
    0x0000_0001_0000_0000,
];

/// The same for quarters, as f16 and as bfloat16.
const SPECIAL_16: [u16; 16] = [
    0, 0x8000, 0x0001, 0x03ff, 0x0400, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0x7d01, 0x3c00, 0xbc00,
    0x3f80, 0x7f80, 0xffc1, 0x7fff,
];

/// The inputs of a round: `IN` words a thread.
pub(super) fn inputs(round: u64) -> Vec<u64> {
    // Not the seed that a run may be given: the recording knows this one.
    let mut rng = Rng::new(0x601d_e200 + round);
    (0..THREADS * IN).map(|_| word(&mut rng)).collect()
}

/// A random word, often a special one.
pub(crate) fn word(rng: &mut Rng) -> u64 {
    let random = rng.next();
    match rng.below(9) {
        0..=2 => random,
        3 => pair(rng, |rng| SPECIAL_32[rng.below(SPECIAL_32.len())]),
        4 => SPECIAL_64[rng.below(SPECIAL_64.len())],
        // Floats whose sums and products are not trivial.
        5 => pair(rng, |rng| {
            let bits = rng.next() as u32;
            (bits & 0x807f_ffff) | ((115 + (bits >> 23 & 0xff) % 24) << 23)
        }),
        6 => (random & 0x800f_ffff_ffff_ffff) | ((1011 + (random >> 52 & 0x7ff) % 24) << 52),
        7 => (0..4).fold(0, |word, _| word << 16 | u64::from(quarter(rng))),
        // Small whole numbers.
        _ => pair(rng, |rng| (rng.next() as i32 >> (20 + rng.below(12))) as u32),
    }
}

fn pair(rng: &mut Rng, half: fn(&mut Rng) -> u32) -> u64 {
    u64::from(half(rng)) << 32 | u64::from(half(rng))
}

fn quarter(rng: &mut Rng) -> u16 {
    let bits = rng.next() as u16;
    match rng.below(3) {
        0 => SPECIAL_16[rng.below(SPECIAL_16.len())],
        1 => (bits & 0x83ff) | ((9 + (bits >> 10 & 0x1f) % 12) << 10),
        _ => bits,
    }
}
