//! Attention by FlashAttention's algorithm: the weights of keys are never in global memory.

use cuda_safe::kernel::{Device, device, kernel};
use half::f16;

/// The elements that a query, a key and a value have.
pub const HEAD: usize = 64;

/// A tile has as many queries, and as many keys.
pub const TILE: usize = 64;

/// Scores are divided by the square root of `HEAD`, and weights are powers of 2.
const SCALE: f32 = 0.125 * std::f32::consts::LOG2_E;

/// What a thread shows to the others: 16 numbers. The last 4 keep those of neighbours in different banks.
#[derive(Debug, Clone, Copy, Device)]
#[repr(C)]
struct Shown {
    of: [f32; 20],
}

#[device]
impl Shown {
    const ZERO: Self = Self { of: [0.0; 20] };
}

/// The last bits of the sum of this and a small number are the nearest integer; its own last 9 bits are 0.
const ROUND: f32 = 12_582_912.0;

/// 2 to the power of a number from -126 to 0, by a polynomial with a relative error of at most 2.2e-7; smaller numbers count
/// as -126.
#[device(contract)]
fn exp2(x: f32) -> f32 {
    let x = x.max(-126.0);
    let shifted = x + ROUND;
    let t = x - (shifted - ROUND);
    let mut power = t * 0.0013276472 + 0.009675541;
    power = power * t + 0.05550713;
    power = power * t + 0.2402212;
    power = power * t + 0.69314694;
    power = power * t + 1.0000001;
    // The exponent begins at bit 23.
    f32::from_bits(power.to_bits().wrapping_add(shifted.to_bits().wrapping_shl(23)))
}

/// Gives each of `n` queries the mean of the values, weighted by the softmax of the query's products with the keys. A
/// causal query has the keys up to its own index. All arrays have `n` rows, in which `heads` heads have `HEAD` elements
/// each.
///
/// A block has a tile of the queries of a head. Its thread `[i, j]` has the queries `i + 16 a`, of each tile of keys the
/// keys `j + 16 b`, and of the means the elements `4 j + d`, for `a`, `b` and `d` below 4. A larger score than all before
/// scales down what the thread has summed up so far.
#[kernel(contract, min_blocks = 3)]
pub fn attention(
    n: usize,
    heads: usize,
    causal: bool,
    q: &[f16],
    k: &[f16],
    v: &[f16],
    out: &mut [f32],
) {
    let columns = heads * HEAD;
    assert!(q.len() == n * columns && k.len() == n * columns && v.len() == n * columns);
    blocks(Threads::<16, 16>, tiles::<TILE, HEAD, _>(out, [n, columns]), |block, out| {
        let [row, column] = out.origin();
        let origin = [row as isize, column as isize];
        // Two more elements in a row keep the elements of a column in different banks.
        let mut queries = block.shared([[f16::ZERO; HEAD + 2]; TILE]);
        let mut keys = block.shared([[f16::ZERO; HEAD + 2]; TILE]);
        let mut values = block.shared([[f16::ZERO; HEAD]; TILE]);
        let mut shown = block.shared([Shown::ZERO; 256]);
        let mut score = block.per_thread([[0.0f32; 4]; 4]);
        let mut sum = block.per_thread([[0.0f32; 4]; 4]);
        let mut total = block.per_thread([0.0f32; 4]);
        let mut top = block.per_thread([-1e30f32; 4]);
        let mut next = block.per_thread([-1e30f32; 4]);

        block.load_matrix(queries.cells(HEAD), q, [n, columns], origin, f16::ZERO);
        let end = if causal { (row + TILE).min(n) } else { n };
        for start in (0..end).step_by(TILE) {
            let origin = [start as isize, column as isize];
            // Whether all queries see all keys of the tile.
            let whole = start + TILE <= if causal { row + 1 } else { n };
            block.load_matrix(keys.cells(HEAD), k, [n, columns], origin, f16::ZERO);
            block.load_matrix(&mut values, v, [n, columns], origin, f16::ZERO);
            block.each((&mut score, &mut next), |[i, j], (score, next)| {
                *score = [[0.0; 4]; 4];
                for first in (0..HEAD).step_by(8) {
                    for u in 0..4 {
                        // Neighbours are read together.
                        let t = first + 2 * u;
                        let (mut of_query, mut of_key) = ([[0.0f32; 2]; 4], [[0.0f32; 2]; 4]);
                        for a in 0..4 {
                            for e in 0..2 {
                                of_query[a][e] = queries[i + 16 * a][t + e].to_f32();
                                of_key[a][e] = keys[j + 16 * a][t + e].to_f32();
                            }
                        }
                        for a in 0..4 {
                            for b in 0..4 {
                                score[a][b] += of_query[a][0] * of_key[b][0];
                                score[a][b] += of_query[a][1] * of_key[b][1];
                            }
                        }
                    }
                }
                if !whole {
                    for a in 0..4 {
                        for b in 0..4 {
                            let (query, key) = (row + i + 16 * a, start + j + 16 * b);
                            if key >= n || (causal && key > query) {
                                score[a][b] = f32::NEG_INFINITY;
                            }
                        }
                    }
                }
                for a in 0..4 {
                    for b in 0..4 {
                        next[a] = next[a].max(score[a][b]);
                    }
                }
            });
            // 16 threads have the same queries.
            for bit in 0..4 {
                let mut other = block.per_thread([0.0f32; 4]);
                block.each((&mut other, &mut next), |_, (other, next)| *other = *next);
                block.warp_xor(&mut other, 1 << bit);
                block.each((&mut next, &mut other), |_, (next, other)| {
                    for a in 0..4 {
                        next[a] = next[a].max(other[a]);
                    }
                });
            }
            block.each(
                (&mut shown, &mut score, &mut sum, &mut total, &mut top, &mut next),
                |_, (shown, score, sum, total, top, next)| {
                    for a in 0..4 {
                        let shrink = exp2((top[a] - next[a]) * SCALE);
                        let scaled = next[a] * SCALE;
                        top[a] = next[a];
                        total[a] *= shrink;
                        for b in 0..4 {
                            let weight = exp2(score[a][b] * SCALE - scaled);
                            total[a] += weight;
                            sum[a][b] *= shrink;
                            shown.of[4 * b + a] = weight;
                        }
                    }
                },
            );
            block.each(&mut sum, |[i, j], sum| {
                for b in 0..4 {
                    for t in 0..16 {
                        let weights = shown[16 * i + t].of;
                        for d in 0..4 {
                            let value = values[16 * b + t][4 * j + d].to_f32();
                            for a in 0..4 {
                                sum[a][d] += weights[4 * b + a] * value;
                            }
                        }
                    }
                }
            });
        }
        for bit in 0..4 {
            let mut other = block.per_thread([0.0f32; 4]);
            block.each((&mut other, &mut total), |_, (other, total)| *other = *total);
            block.warp_xor(&mut other, 1 << bit);
            block.each((&mut total, &mut other), |_, (total, other)| {
                for a in 0..4 {
                    total[a] += other[a];
                }
            });
        }
        block.each((&mut shown, &mut sum, &mut total), |_, (shown, sum, total)| {
            for a in 0..4 {
                for d in 0..4 {
                    shown.of[4 * d + a] = sum[a][d] / total[a];
                }
            }
        });
        block.each(out, |[i, j], out| *out = shown[16 * (i % 16) + j / 4].of[4 * (j % 4) + i / 16]);
    });
}
