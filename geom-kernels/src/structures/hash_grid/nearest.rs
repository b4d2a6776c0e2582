//! The k nearest points: `geom/hash_grid/nearest.cuh`.

use super::HashGrid;
use crate::structures::exact::Exact;

/// Up to K points, nearest first; among equally near ones the one with the smaller index first: `geom::Nearest`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearest<T, const K: usize> {
    /// The number of points.
    pub count: u32,
    /// Their indices, then `u32::MAX`.
    pub index: [u32; K],
    /// Their squared distances, then infinity.
    pub distance_squared: [T; K],
}

impl<T: Exact> HashGrid<T> {
    /// Returns the index and the squared distance of the nearest point to `x` within `most`, which may be infinite.
    /// Among equally near points it is the one of least index.
    #[must_use]
    pub fn nearest(&self, x: [T; 3], most: T) -> Option<(u32, T)> {
        let nearest = self.nearest_neighbors::<1>(x, most);
        (nearest.count > 0).then_some((nearest.index[0], nearest.distance_squared[0]))
    }

    /// Returns the K nearest points to `x` within `most`, which may be infinite.
    #[must_use]
    pub fn nearest_neighbors<const K: usize>(&self, x: [T; 3], most: T) -> Nearest<T, K> {
        self.nearest_others(x, most, u32::MAX)
    }

    /// Works like [`nearest_neighbors`](Self::nearest_neighbors), without the point of index `skip`.
    #[must_use]
    pub fn nearest_others<const K: usize>(&self, x: [T; 3], most: T, skip: u32) -> Nearest<T, K> {
        let mut nearest =
            Nearest { count: 0, index: [u32::MAX; K], distance_squared: [T::INFINITY; K] };
        let Nearest { index, distance_squared, .. } = &mut nearest;
        nearest.count = self.find_nearest((x, most), (0, skip), index, distance_squared);
        nearest
    }

    /// Writes the nearest points within `most`, as many as the slices have elements, and returns how many there are.
    /// The other elements become `u32::MAX` and infinity.
    pub(super) fn find_nearest(
        &self,
        (x, most): ([T; 3], T),
        (group, skip): (u32, u32),
        indices: &mut [u32],
        squares: &mut [T],
    ) -> u32 {
        let k = indices.len().min(squares.len());
        let mut radius = self.header.radius;
        if radius == T::ZERO {
            radius = self.header.size[1];
        }
        let mut doublings = 0;
        loop {
            let is_less = radius < most;
            let last = doublings == 8 || !is_less;
            let within = if last { most } else { radius };
            indices.fill(u32::MAX);
            squares.fill(T::INFINITY);
            let mut count = 0;
            if k > 0 {
                for near in self.near_in_group(x, within, group).filter(|near| near.index != skip) {
                    insert(indices, squares, &mut count, (near.index, near.distance_squared));
                }
            }
            if last || count == k {
                return count as u32;
            }
            radius = radius + radius;
            doublings += 1;
        }
    }
}

/// Inserts a point if it is among the nearest so far.
#[inline(always)]
fn insert<T: Exact>(
    indices: &mut [u32],
    squares: &mut [T],
    count: &mut usize,
    (index, square): (u32, T),
) {
    let before = |(other, other_square): (u32, T)| {
        square < other_square || (square == other_square && index < other)
    };
    let k = indices.len().min(squares.len());
    let (indices, squares) = (&mut indices[..k], &mut squares[..k]);
    let mut at = *count;
    if at == k {
        // Every element is taken: the last one makes room.
        at -= 1;
        if !before((indices[at], squares[at])) {
            return;
        }
    } else {
        *count += 1;
    }
    while at > 0 && before((indices[at - 1], squares[at - 1])) {
        indices[at] = indices[at - 1];
        squares[at] = squares[at - 1];
        at -= 1;
    }
    indices[at] = index;
    squares[at] = square;
}
