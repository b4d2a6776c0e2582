//! Kernels over blocks that drawn programs have found to differ, or not to compile.

use gpu_phases::kernel;

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
