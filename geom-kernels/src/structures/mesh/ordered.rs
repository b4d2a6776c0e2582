//! Queries of many points in the order of a Morton curve: each finds what it reads in the cache, and begins with a face
//! near the one before. The results are the same in any order.

use cuda_safe::Result;
use rayon::prelude::*;

use super::Mesh;
use super::batch::{CHUNK, Limit};
use super::closest::PointQuery;
use super::simd::{Simd, Task, with_simd};
use crate::lengths::same_length;

/// Points below which sorting does not pay.
const FEW: usize = 256;
/// The bits of an index, below a point's key.
const INDEX_BITS: u32 = 34;

/// Queries of points, whose results are converted.
#[derive(Clone, Copy)]
pub(super) struct Points<'a, Q, C> {
    pub(super) mesh: &'a Mesh,
    pub(super) limit: Limit<'a>,
    pub(super) query: Q,
    pub(super) convert: C,
}

/// The queries of these indices.
struct Chunk<'a, Q, C, R> {
    of: Points<'a, Q, C>,
    points: &'a [[f32; 3]],
    order: &'a [u64],
    /// The bits of an index in `order`.
    mask: u64,
    results: &'a mut [R],
}

impl<Q: PointQuery, C: Fn(Q::Found) -> R + Copy + Sync, R> Task for Chunk<'_, Q, C, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Points { mesh, limit, query, convert } = self.of;
        let mut near = None;
        for (index, result) in self.order.iter().zip(self.results) {
            let index = (*index & self.mask) as usize;
            if let Some(q) = self.points.get(index) {
                *result = convert(query.find(simd, mesh, (*q, limit.at(index)), &mut near));
            }
        }
    }
}

/// Computes the result of each query, on all cores.
pub(super) fn for_points<Q: PointQuery, R: Send + Copy>(
    what: &str,
    points: &[[f32; 3]],
    results: &mut [R],
    of: Points<'_, Q, impl Fn(Q::Found) -> R + Copy + Sync>,
) -> Result<()> {
    same_length(what, results.len(), points.len())?;
    let given = || (0..points.len() as u64).collect();
    let sorts = points.len() >= FEW && (points.len() as u64) < 1 << INDEX_BITS;
    let (order, mask): (Vec<u64>, u64) =
        if sorts { (sorted(of.mesh, points), (1 << INDEX_BITS) - 1) } else { (given(), u64::MAX) };
    let run = |results: &mut [R]| {
        let chunks = order.par_chunks(CHUNK).zip(results.par_chunks_mut(CHUNK));
        // A core that has ended takes what is left chunk by chunk: some cost many times as much as others.
        chunks.with_max_len(1).for_each(|(order, results)| {
            with_simd(Chunk { of, points, order, mask, results });
        });
    };
    if !sorts {
        run(results);
        return Ok(());
    }
    let mut found = results.to_vec();
    run(&mut found);
    for (index, found) in order.iter().zip(found) {
        if let Some(result) = results.get_mut((*index & mask) as usize) {
            *result = found;
        }
    }
    Ok(())
}

/// Returns the indices of the points along a Morton curve through the mesh's bounds, each below the point's key.
fn sorted(mesh: &Mesh, points: &[[f32; 3]]) -> Vec<u64> {
    let (lower, upper) = (mesh.tree.bounds.lower, mesh.tree.bounds.upper);
    let scale: [f32; 3] = std::array::from_fn(|axis| 1023.0 / (upper[axis] - lower[axis]));
    let key = |(index, p): (usize, &[f32; 3])| {
        let cell = |axis: usize| {
            // The conversion saturates, and a NaN becomes 0.
            let at = ((p[axis] - lower[axis]) * scale[axis]) as u32;
            u64::from(spread(at.min(1023))) << axis
        };
        (cell(0) | cell(1) | cell(2)) << INDEX_BITS | index as u64
    };
    let mut keys: Vec<u64> = points.par_iter().enumerate().with_min_len(CHUNK).map(key).collect();
    keys.par_sort_unstable();
    keys
}

/// Spreads ten bits, with two zeros between each and the next.
fn spread(mut bits: u32) -> u32 {
    bits = (bits | bits << 16) & 0x0300_00ff;
    bits = (bits | bits << 8) & 0x0300_f00f;
    bits = (bits | bits << 4) & 0x030c_30c3;
    (bits | bits << 2) & 0x0924_9249
}
