//! Texels and coordinates, from seeds.

use crate::modes::{Access, Content, Coordinates, Format, Geometry, Mode, Operation};
use crate::random::Random;

/// Fetches of a mode.
pub const FETCHES: usize = 4096;
/// Words that a thread reads: layer, x, y, z, level, three derivatives along x, three along y, four values to store.
pub const INPUTS: usize = 16;

/// Numbers that arithmetic treats specially.
const SPECIAL: [u32; 12] = [
    0x7fc0_0000, // NaN
    0xffc0_0001,
    0x7f80_0000, // infinity
    0xff80_0000,
    0x8000_0000, // -0
    0x0000_0001, // the least subnormal
    0x807f_ffff,
    0x0080_0000,
    0x7f7f_ffff, // the largest number
    0xff7f_ffff,
    0x4f00_0000, // 2^31
    0xcf00_0000,
];

/// The bytes of one level of a mode's array, without padding: rows, then slices.
pub fn texels(mode: &Mode, level: u32) -> Vec<u8> {
    let [width, height, depth] = mode.extent(level);
    let mut random = Random::new(0x7e8e_1500 + u64::from(level));
    let mut bytes = Vec::new();
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                for _ in 0..mode.channels {
                    let lit = x % 4 == 1 && y % 4 == 1 % height && z % 3 == 1 % depth;
                    texel(mode, lit, &mut random, &mut bytes);
                }
            }
        }
    }
    bytes
}

/// One channel of a texel.
fn texel(mode: &Mode, lit: bool, random: &mut Random, bytes: &mut Vec<u8>) {
    let any = random.bits();
    let float = |value: u32| match mode.content {
        Content::Random => {
            // The exponents of numbers from 2^-7 to 1.
            value & 0x807f_ffff | (120 + value % 7) << 23
        }
        Content::Impulse => u32::from(lit) * 1.0_f32.to_bits(),
        Content::Special => {
            if value.is_multiple_of(3) {
                SPECIAL[value as usize / 3 % SPECIAL.len()]
            } else {
                value
            }
        }
    };
    match mode.format {
        Format::U8 | Format::S8 => bytes.push((any >> 24) as u8),
        Format::U16 | Format::S16 => bytes.extend(((any >> 16) as u16).to_le_bytes()),
        Format::U32 | Format::S32 => bytes.extend(any.to_le_bytes()),
        Format::F16 => {
            let half = match mode.content {
                Content::Random => any >> 16 & 0x83ff | (8 + any % 7) << 10,
                Content::Impulse => u32::from(lit) * 0x3c00,
                Content::Special => any >> 16,
            };
            bytes.extend((half as u16).to_le_bytes());
        }
        Format::F32 => bytes.extend(float(any).to_le_bytes()),
    }
}

/// What the threads read: [`INPUTS`] words for each of the [`FETCHES`].
pub fn inputs(mode: &Mode) -> Vec<u32> {
    let mut random = Random::new(0xc0_0bd1);
    let mut words = Vec::with_capacity(FETCHES * INPUTS);
    for thread in 0..FETCHES as u32 {
        let mut word = [0; INPUTS];
        word[0] = layer(mode, &mut random);
        match mode.operation {
            Operation::SurfaceLoad(..)
            | Operation::SurfaceStore(..)
            | Operation::SurfaceStoreFormatted(_)
            | Operation::SurfaceReduce(_) => surface(mode, thread, &mut word, &mut random),
            _ if mode.geometry.is_cube() => word[1..4].copy_from_slice(&direction(&mut random)),
            _ => {
                let [width, height, depth] = mode.extent(0);
                for (word, extent) in word[1..4].iter_mut().zip([width, height, depth]) {
                    *word = match mode.coordinates {
                        Coordinates::Integers => integer(extent, &mut random),
                        Coordinates::Texels => coordinate(extent, &mut random).to_bits(),
                        Coordinates::Normalized => {
                            let value = coordinate(extent, &mut random);
                            // Half of them are multiplied by the reciprocal, which rounds another way.
                            let size = extent as f32;
                            if thread % 2 == 0 { value / size } else { value * (1.0 / size) }
                                .to_bits()
                        }
                    };
                }
            }
        }
        word[4] = level(mode.levels, &mut random).to_bits();
        for word in &mut word[5..11] {
            *word = derivative(&mut random).to_bits();
        }
        for word in &mut word[12..16] {
            let bits = random.bits();
            *word = match random.below(4) {
                0 => bits,
                1 => (bits as i32 >> 20) as u32,
                2 => random.between(-1.25, 1.25).to_bits(),
                _ => random.between(-300.0, 70_000.0).to_bits(),
            };
        }
        words.extend(word);
    }
    words
}

/// A coordinate in units of texels.
fn coordinate(extent: u32, random: &mut Random) -> f32 {
    let size = extent as f32;
    let whole = (random.below(extent + 4) as f32) - 2.0;
    match random.below(100) {
        0..25 => whole + random.below(1024) as f32 / 1024.0,
        25..38 => whole + 0.5,
        38..47 => whole,
        47..55 => whole + (random.below(256) as f32 + 0.5) / 256.0,
        55..85 => random.between(-0.75, size + 0.75),
        85..93 => random.between(-3.5 * size, 3.5 * size),
        93..96 => {
            let sign = random.bits() << 31;
            f32::from_bits(sign | (127 + random.below(128)) << 23 | random.bits() >> 9)
        }
        96..98 => f32::from_bits(SPECIAL[random.below(SPECIAL.len() as u32) as usize]),
        _ => f32::from_bits(random.bits()),
    }
}

fn integer(extent: u32, random: &mut Random) -> u32 {
    match random.below(32) {
        0 => random.bits(),
        1 => 1 << 31,
        2 => (1 << 31) - 1,
        _ => random.below(extent + 6).wrapping_sub(3),
    }
}

/// A direction from the centre of a cube.
fn direction(random: &mut Random) -> [u32; 3] {
    let mut vector = [0.0; 3];
    for value in &mut vector {
        *value = match random.below(16) {
            0 => 0.0,
            1 => 1.0,
            2 => -1.0,
            3 => random.below(33) as f32 / 16.0 - 1.0,
            _ => random.between(-1.0, 1.0),
        };
    }
    let scale = [1.0, 1.0, 3.0, 1e-6, 1e20][random.below(5) as usize];
    let mut vector = vector.map(|value: f32| (value * scale).to_bits());
    if random.below(50) == 0 {
        let special = SPECIAL[random.below(SPECIAL.len() as u32) as usize];
        vector[random.below(3) as usize] = special;
    }
    vector
}

fn layer(mode: &Mode, random: &mut Random) -> u32 {
    let layers = mode.layers().max(1);
    match random.below(20) {
        0 => layers,
        1 => random.bits(),
        _ => random.below(layers),
    }
}

fn level(levels: u32, random: &mut Random) -> f32 {
    let end = levels as f32;
    match random.below(20) {
        0..4 => random.below(levels + 2) as f32 - 1.0,
        4..7 => random.below(levels * 2 + 2) as f32 / 2.0 - 0.5,
        7..12 => random.below(levels * 256) as f32 / 256.0,
        12..18 => random.between(-2.0, end + 1.0),
        18 => f32::from_bits(SPECIAL[random.below(SPECIAL.len() as u32) as usize]),
        _ => f32::from_bits(random.bits()),
    }
}

/// A derivative of a normalized coordinate.
fn derivative(random: &mut Random) -> f32 {
    let scale = (2.0_f32).powi(-(random.below(9) as i32));
    match random.below(16) {
        0 => 0.0,
        1 => scale,
        2 => f32::from_bits(SPECIAL[random.below(SPECIAL.len() as u32) as usize]),
        _ => random.between(-scale, scale),
    }
}

/// Coordinates of a surface: x in bytes, except for a formatted store. Stores write each texel at most once.
fn surface(mode: &Mode, thread: u32, word: &mut [u32; INPUTS], random: &mut Random) {
    let [width, height, depth] = mode.extent(0);
    match mode.operation {
        Operation::SurfaceLoad(bytes, _) => {
            let row = width * mode.texel_bytes() as u32 / bytes;
            word[1] = integer(row, random).wrapping_mul(bytes);
            word[2] = integer(height, random);
            word[3] = integer(depth, random);
        }
        Operation::SurfaceStore(bytes, Access::Zero) => {
            let row = width * mode.texel_bytes() as u32 / bytes;
            word[1] = (thread % row).wrapping_sub(3).wrapping_mul(bytes);
            word[2] = (thread / row).wrapping_sub(2);
            word[3] = 0;
            word[0] = 0;
        }
        Operation::SurfaceStore(bytes, _) => {
            let row = width * mode.texel_bytes() as u32 / bytes;
            word[1] = thread % row * bytes;
            word[2] = thread / row % height;
            word[3] = thread / row / height % depth;
            word[0] = thread / row / height;
        }
        Operation::SurfaceReduce(_) => {
            word[1] = integer(width, random).wrapping_mul(mode.texel_bytes() as u32);
            word[2] = integer(height, random);
        }
        _ => {
            word[1] = (thread % width).wrapping_sub(3);
            word[2] = (thread / width).wrapping_sub(2);
        }
    }
    if matches!(mode.geometry, Geometry::D1 | Geometry::A1) {
        word[2] = 0;
    }
}
