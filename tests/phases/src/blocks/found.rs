//! Kernels over blocks that drawn programs have found to differ, or not to compile.

use gpu_phases::{Block, Shared, device, kernel};

use super::{SIZES, words};
use crate::both;

#[kernel]
fn nested_targets(x: &[u32], out: &mut [u32]) {
    assert!(x.len() == out.len());
    blocks(Threads::<64>, chunks(out, 70), |block, mut out| {
        let first = out.start();
        let mut tile = block.shared([[7u32; 10]; 8]);
        let mut own = block.per_thread(3u32);
        let mut line = block.shared([1u32; 70]);
        block.each(((&mut own, &mut line), &mut tile), |i, ((own, l), t)| {
            *own += i as u32;
            *l = *own;
            *t += *l;
        });
        block.each((&mut out, (&mut line, (&mut own,))), |i, (o, (l, (own,)))| {
            *o = x[first + i] ^ *l ^ tile[i % 8][i % 10] ^ *own;
        });
    });
}

#[test]
fn tuples_of_targets_are_targets() {
    for n in SIZES {
        both!(nested_targets(read words(n), write vec![0u32; n])).unwrap();
    }
}

#[device]
fn steps_back<const N: usize>(
    block: &mut Block<N>,
    now: &mut Shared<[u32; 64]>,
    next: &mut Shared<[u32; 64]>,
) -> u32 {
    let mut now = &mut *now;
    let mut next = &mut *next;
    for _ in 0..3 {
        block.each(&mut *next, |i, t| *t = now[63 - i] + i as u32);
        std::mem::swap(&mut now, &mut next);
    }
    now[5]
}

#[kernel]
fn references_in_turn(out: &mut [u32]) {
    blocks(Threads::<64>, chunks(out, 64), |block, mut out| {
        let mut now = block.shared([1u32; 64]);
        let mut next = block.shared([2u32; 64]);
        let last = steps_back(block, &mut now, &mut next);
        block.each(&mut out, |i, o| *o = now[i] ^ (next[63 - i] << 9) ^ (last << 20));
    });
}

#[test]
fn references_to_arrays_are_swapped() {
    both!(references_in_turn(write vec![0u32; 100])).unwrap();
}
