//! Maps between index space and the world, as in `geom/volume/map.cuh`.

use crate::Real;
use crate::structures::volume::exact::{Float, fma};
use crate::structures::volume::fma::Query;
use crate::volume::RawMap;

/// A number in whose precision a map has coefficients.
pub trait MapOf: Float {
    /// Returns the matrix, its inverse, and the translation.
    fn parts(map: &RawMap) -> ([Self; 9], [Self; 9], [Self; 3]);
}

impl MapOf for f32 {
    #[inline(always)]
    fn parts(map: &RawMap) -> ([Self; 9], [Self; 9], [Self; 3]) {
        (map.m, map.inverse, map.v)
    }
}
impl MapOf for f64 {
    #[inline(always)]
    fn parts(map: &RawMap) -> ([Self; 9], [Self; 9], [Self; 3]) {
        (map.m64, map.inverse64, map.v64)
    }
}
/// Returns a row of a matrix, or a column of its transpose, times a vector.
#[inline(always)]
fn row<C: Float>([a, b, c]: [C; 3], [x, y, z]: [C; 3]) -> C {
    fma(x, a, fma(y, b, z * c))
}

#[inline(always)]
fn times<C: Float>([a, b, c, d, e, f, g, h, i]: [C; 9], v: [C; 3]) -> [C; 3] {
    [row([a, b, c], v), row([d, e, f], v), row([g, h, i], v)]
}

#[inline(always)]
fn transposed_times<C: Float>([a, b, c, d, e, f, g, h, i]: [C; 9], v: [C; 3]) -> [C; 3] {
    [row([a, d, g], v), row([b, e, h], v), row([c, f, i], v)]
}

/// What is mapped, and to where.
#[derive(Debug, Clone, Copy)]
pub(super) enum To {
    World,
    Index,
    WorldDirection,
    IndexDirection,
    WorldGradient,
    IndexGradient,
}

/// A map of vectors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map<'a>(pub(super) To, pub(super) &'a RawMap);

impl Map<'_> {
    /// Maps a vector.
    #[inline(always)]
    pub(super) fn number<C: MapOf>(self, v: [C; 3]) -> [C; 3] {
        let (m, inverse, [vx, vy, vz]) = C::parts(self.1);
        let [x, y, z] = v;
        match self.0 {
            To::World => {
                let one = |a, b, c, v| fma(x, a, fma(y, b, fma(z, c, v)));
                [one(m[0], m[1], m[2], vx), one(m[3], m[4], m[5], vy), one(m[6], m[7], m[8], vz)]
            }
            To::Index => times(inverse, [x - vx, y - vy, z - vz]),
            To::WorldDirection => times(m, v),
            To::IndexDirection => times(inverse, v),
            To::WorldGradient => transposed_times(inverse, v),
            To::IndexGradient => transposed_times(m, v),
        }
    }
}

impl<P: Real> Query<[P; 3]> for Map<'_> {
    type Output = [P; 3];

    #[inline(always)]
    fn get(&self, v: &[P; 3]) -> [P; 3] {
        self.number(v.map(P::to_cpu)).map(P::of_cpu)
    }
}
