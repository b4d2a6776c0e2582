//! The generator XORWOW: the states of its sequences.
//!
//! A step is a linear function of 160 bits, and beside it a counter. So any number of steps is a matrix of bits.

/// The sequences that cuRAND's host functions use.
pub(crate) const SEQUENCES: usize = 4096;

/// The distance of two sequences in steps, as a power of two.
const DISTANCE: usize = 67;

/// What the counter is increased by in each step.
const COUNTER: u32 = 362_437;

/// Five words of 32 bits, and the counter.
pub(crate) type State = [u32; 6];

/// The words, without the counter.
type Words = [u32; 5];

/// A linear function of words: the images of the 160 bits.
type Matrix = Vec<Words>;

fn step(v: Words) -> Words {
    let t = v[0] ^ (v[0] >> 2);
    [v[1], v[2], v[3], v[4], (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1))]
}

fn apply(matrix: &Matrix, words: Words) -> Words {
    let mut result = [0; 5];
    for (bit, image) in matrix.iter().enumerate() {
        if words[bit / 32] >> (bit % 32) & 1 == 1 {
            for (to, from) in result.iter_mut().zip(image) {
                *to ^= from;
            }
        }
    }
    result
}

fn one_step() -> Matrix {
    let unit = |bit: usize| {
        let mut words = [0; 5];
        words[bit / 32] = 1 << (bit % 32);
        words
    };
    (0..160).map(|bit| step(unit(bit))).collect()
}

fn squared(matrix: &Matrix) -> Matrix {
    matrix.iter().map(|image| apply(matrix, *image)).collect()
}

/// Returns the first state of a seed.
fn seeded(seed: u64) -> State {
    let low = (seed as u32 ^ 0xaad2_6b49).wrapping_mul(1_099_087_573);
    let high = ((seed >> 32) as u32 ^ 0xf7dc_efdd).wrapping_mul(2_591_861_531);
    [
        123_456_789_u32.wrapping_add(low),
        362_436_069 ^ low,
        521_288_629_u32.wrapping_add(high),
        88_675_123 ^ high,
        5_783_321_u32.wrapping_add(low),
        6_615_241_u32.wrapping_add(high).wrapping_add(low),
    ]
}

/// Returns the states of the sequences in the order in which they take turns, from a position on.
pub(crate) fn states(seed: u64, offset: u64) -> Vec<State> {
    let count = SEQUENCES as u64;
    let [v0, v1, v2, v3, v4, counter] = seeded(seed);
    let mut powers = vec![one_step()];
    for number in 0..DISTANCE {
        powers.push(squared(&powers[number]));
    }
    let jump = &powers[DISTANCE];
    let mut words = [v0, v1, v2, v3, v4];
    let mut begins = Vec::with_capacity(SEQUENCES);
    for _ in 0..SEQUENCES {
        begins.push(words);
        words = apply(jump, words);
    }
    let ahead = |words: Words, steps: u64| {
        let bits = (0..64).filter(|bit| steps >> bit & 1 == 1);
        bits.fold(words, |words, bit| apply(&powers[bit], words))
    };
    let of = |place: u64| {
        let place = offset.wrapping_add(place);
        let steps = place / count;
        let [v0, v1, v2, v3, v4] = ahead(begins[(place % count) as usize], steps);
        // Sequences are a multiple of 2^32 steps apart, so the counter depends on the steps alone.
        [v0, v1, v2, v3, v4, counter.wrapping_add(COUNTER.wrapping_mul(steps as u32))]
    };
    (0..count).map(of).collect()
}
