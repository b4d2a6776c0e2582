//! Number-theoretic transforms: Fourier transforms modulo a prime, by which polynomials are multiplied exactly.

use cuda_safe::kernel::{device, kernel};

/// The values that are transformed together.
pub const LENGTH: usize = 1024;

/// A prime, of which 3 is a primitive root: 119 * 2^23 + 1.
pub const MODULUS: u32 = 998_244_353;

/// A factor `w` in the lower half, and in the upper one `w * 2^32 / MODULUS` rounded down, which saves a product the division.
/// A thread loads both by one instruction.
pub type Root = u64;

/// Returns a power of a number modulo `MODULUS`.
#[must_use]
pub fn power(base: u32, exponent: u32) -> u32 {
    let (mut result, mut square) = (1, u64::from(base));
    for bit in 0..32 {
        if exponent >> bit & 1 == 1 {
            result = result * square % u64::from(MODULUS);
        }
        square = square * square % u64::from(MODULUS);
    }
    result as u32
}

/// Returns the roots of `forward`, or of `inverse`. Those of a step that combines values `distance` apart begin at the
/// index `distance`. The first one is the factor of all results.
#[must_use]
pub fn roots(inverse: bool) -> Vec<Root> {
    let forward = power(3, (MODULUS - 1) / LENGTH as u32);
    let (root, scale) = match inverse {
        true => (power(forward, MODULUS - 2), power(LENGTH as u32, MODULUS - 2)),
        false => (forward, 1),
    };
    let mut factors = vec![scale; LENGTH];
    for (at, factor) in factors.iter_mut().enumerate().skip(1) {
        let distance = 1 << at.ilog2();
        *factor = power(root, ((at - distance) * (LENGTH / 2 / distance)) as u32);
    }
    let quotient = |w: u32| (u64::from(w) << 32) / u64::from(MODULUS);
    factors.into_iter().map(|w| quotient(w) << 32 | u64::from(w)).collect()
}

/// The sum of two numbers below `MODULUS`, and their difference: a negative one would be greater than all others.
#[device]
fn sum(a: u32, b: u32) -> u32 {
    let sum = a + b;
    sum.min(sum.wrapping_sub(MODULUS))
}

#[device]
fn difference(a: u32, b: u32) -> u32 {
    let difference = a.wrapping_sub(b);
    difference.min(difference.wrapping_add(MODULUS))
}

/// The product of a number and a root, by Shoup's method.
#[device]
fn product(a: u32, root: Root) -> u32 {
    let quotient = ((a as u64 * (root >> 32)) >> 32) as u32;
    let rest = a.wrapping_mul(root as u32).wrapping_sub(quotient.wrapping_mul(MODULUS));
    rest.min(rest.wrapping_sub(MODULUS))
}

/// Transforms each block of `LENGTH` numbers below `MODULUS`. Result `k` stands at the index whose bits are those of
/// `k` in reverse.
#[kernel]
pub fn forward(roots: &[Root], x: &[u32], out: &mut [u32]) {
    assert!(roots.len() == LENGTH && x.len() == out.len() && out.len() % LENGTH == 0);
    blocks(Threads::<256>, chunks(out, LENGTH), |block, out| {
        let mut tile = block.shared([0u32; LENGTH]);
        block.load(&mut tile, x, out.start() as isize, 0);
        for step in 0..10 {
            let distance = (LENGTH / 2) >> step;
            block.each(tile.pairs(distance), |i, (a, b)| {
                let (x, y) = (*a, *b);
                *a = sum(x, y);
                *b = product(difference(x, y), roots[distance + (i & (distance - 1))]);
            });
        }
        block.each(out, |i, out| *out = tile[i]);
    });
}

/// The inverse of `forward`, with its order of results.
#[kernel]
pub fn inverse(roots: &[Root], x: &[u32], out: &mut [u32]) {
    assert!(roots.len() == LENGTH && x.len() == out.len() && out.len() % LENGTH == 0);
    blocks(Threads::<256>, chunks(out, LENGTH), |block, out| {
        let mut tile = block.shared([0u32; LENGTH]);
        block.load(&mut tile, x, out.start() as isize, 0);
        for step in 0..10 {
            let distance = 1 << step;
            block.each(tile.pairs(distance), |i, (a, b)| {
                let (x, y) = (*a, product(*b, roots[distance + (i & (distance - 1))]));
                *a = sum(x, y);
                *b = difference(x, y);
            });
        }
        block.each(out, |i, out| *out = product(tile[i], roots[0]));
    });
}
