//! Cylinders around the leaves of a node. Boxes around triangles that face in any direction are large, and inside of a
//! curved surface most leaves are as far as the nearest one: cylinders exclude most of those that boxes do not.

use super::block::{Block, LANES, Lanes};
use super::exact::{add, dot, fma, greater, length_squared, lesser, mul, narrow, sub, widen};
use super::simd::{Eight, Simd};
use super::traverse::load;
use crate::Aabb;

/// A cylinder for each child of a node: a point x of the child has |axis · (x - center)| <= height and
/// |x - center| <= radius. Children that are not leaves have endless ones.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Cylinders {
    centers: [Lanes; 3],
    /// Unit vectors, as f32 rounds them, or 0.
    axes: [Lanes; 3],
    radii: Lanes,
    heights: Lanes,
}

impl Cylinders {
    /// Returns the endless cylinders.
    pub(super) fn new() -> Self {
        let (zero, endless) = ([0.0; LANES], [f32::INFINITY; LANES]);
        Self { centers: [zero; 3], axes: [zero; 3], radii: endless, heights: endless }
    }

    /// Puts a cylinder around a block. The bounds are those of its triangles.
    pub(super) fn set(&mut self, lane: usize, block: &Block, bounds: &Aabb<f32>) {
        let (lane, Aabb { lower, upper }) = (lane % LANES, bounds);
        let axis = block.mean_normal();
        let mut center = [0.0; 3];
        for i in 0..3 {
            // Of a block without triangles this is infinite, so its cylinder is not within any distance.
            center[i] = lesser(greater((lower[i] + upper[i]) * 0.5, lower[i]), upper[i]);
            (self.centers[i][lane], self.axes[i][lane]) = (center[i], axis[i]);
        }
        let (mut height, mut square) = (0.0, 0.0);
        for [x, y, z] in &block.corners {
            for ((x, y), z) in x.iter().zip(y).zip(z) {
                let d = sub([*x, *y, *z], center);
                // In this order, a NaN changes nothing.
                height = greater(dot(axis, d).abs(), height);
                square = greater(length_squared(d), square);
            }
        }
        // The rounding errors are less than 2^-21 of the radius.
        let radius = square.sqrt() * 1.000_001 + f32::MIN_POSITIVE;
        (self.radii[lane], self.heights[lane]) = (radius, height + radius * 1e-6);
    }

    /// Returns a bit for each cylinder that is not farther from a point than the root of `limit`.
    ///
    /// With u = 2^-24, p the point less the centre, H its exact part along the axis and L the rest, the distance of a point
    /// of the cylinder is at least that of (H, L) from a rectangle of the height and the radius. p has an error of u |p|,
    /// its square one of 5 u |p|^2, H one of 6 u |p|, which includes the axis's, and the square of L one of at most 20 u
    /// |p|^2. If the distance is at least |p| / 2, that is 20 u |p| of it, else L is at least |p| / 2 and has such an error
    /// itself. With the error of H and the last roundings it is less than 32 u |p|.
    #[inline(always)]
    pub(super) fn within<S: Simd>(&self, simd: S, q: [Eight<S>; 3], limit: f32) -> u32 {
        let zero = Eight::splat(simd, 0.0);
        let p = sub(q, load(simd, &self.centers));
        let along = dot(load(simd, &self.axes), p);
        let across = (length_squared(p) - along * along).greater(zero).sqrt();
        let above = (along.abs() - Eight::load(simd, &self.heights)).greater(zero);
        let beside = (across - Eight::load(simd, &self.radii)).greater(zero);
        let square = fma(beside, beside, above * above);
        square.less_equal(Eight::splat(simd, limit)).signs()
    }
}

impl Block {
    /// Returns the mean of the faces' unit normals, of length 1; 0 if there is none.
    fn mean_normal(&self) -> [f32; 3] {
        let mut sum = [0.0; 3];
        for lane in 0..LANES {
            let n = widen([0, 1, 2].map(|axis: usize| self.normals[axis][lane]));
            let sign = if self.turned(lane) { -1.0 } else { 1.0 };
            // A missing triangle has NaNs.
            if n.iter().all(|x| x.is_finite()) {
                sum = add(sum, mul(n, sign));
            }
        }
        let inverse = 1.0 / length_squared(sum).sqrt();
        if inverse.is_finite() { narrow(mul(sum, inverse)) } else { [0.0; 3] }
    }
}
