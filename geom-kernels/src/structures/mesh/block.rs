//! Triangles in the form that queries read: `geom/mesh/packed.cuh`, eight side by side.

use std::array::from_fn;

use super::exact::{length_squared, sub, widen};
use super::simd::{Eight, Simd};
use super::triangle::{Triangle, is_valid, normal};

/// The number of triangles in a block, and of children of a node.
pub(super) const LANES: usize = 8;
/// A number of each triangle or child.
pub(super) type Lanes<T = f32> = [T; LANES];

/// Up to eight triangles: a leaf of the tree. The corners of missing ones, and of faces that are skipped, are NaN: no
/// query finds them.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Block {
    /// The coordinates of the corners, which come in the order of their vertices' indices.
    pub(super) corners: [[Lanes; 3]; 3],
    /// The reciprocals of the squares of the lengths of edges 0-1, 1-2 and 0-2; 0 if the square is less than 2^-126.
    pub(super) inverses: [Lanes; 3],
    /// The unit normals of corners 0, 1, 2 in this order; 0 without an area.
    pub(super) normals: [Lanes; 3],
    /// The faces.
    pub(super) faces: Lanes<u32>,
    /// Twice the position of corner a among the three, and one more if corner b comes after corner c. Bit 31 is set
    /// if reordering has reversed the orientation.
    pub(super) codes: Lanes<u32>,
}

/// The word of a lane without a triangle.
pub(super) const NO_TRIANGLE: u32 = u32::MAX;

impl Block {
    /// Packs these faces. One that is missing, or has an index out of range or a coordinate that is not valid, becomes
    /// NaN.
    pub(super) fn new(lanes: Lanes<u32>, points: &[[f32; 3]], faces: &[[u32; 3]]) -> Self {
        let none = [f32::NAN; LANES];
        let mut block = Self {
            corners: [[none; 3]; 3],
            inverses: [[0.0; LANES]; 3],
            normals: [none; 3],
            faces: lanes,
            codes: [0; LANES],
        };
        for (lane, face) in lanes.into_iter().enumerate() {
            if let Some((index, triangle)) = face_of(points, faces, face) {
                block.set(lane, index, triangle);
            }
        }
        block
    }

    fn set(&mut self, lane: usize, index: [u32; 3], triangle: Triangle) {
        let [x, y, z] = index;
        let a = usize::from(x > y) + usize::from(x > z);
        let b = usize::from(y >= x) + usize::from(y > z);
        let c = 3 - a - b;
        let code = a as u32 * 2 + u32::from(b > c);
        let mut corners = triangle;
        (corners[a], corners[b], corners[c]) = (triangle[0], triangle[1], triangle[2]);
        for (to, from) in self.corners.iter_mut().zip(corners) {
            for (to, from) in to.iter_mut().zip(from) {
                to[lane] = from;
            }
        }
        let inverse = |from: usize, to: usize| {
            let square = length_squared(sub(widen(corners[to]), widen(corners[from])));
            if square < f64::from(f32::MIN_POSITIVE) { 0.0 } else { 1.0 / square as f32 }
        };
        let inverses = [inverse(0, 1), inverse(1, 2), inverse(0, 2)];
        let normal = normal(corners);
        for axis in 0..3 {
            self.inverses[axis][lane] = inverses[axis];
            self.normals[axis][lane] = normal[axis];
        }
        // The orders b a c, a c b and c b a reverse the orientation.
        let turned = 0x26u32 >> code & 1;
        self.codes[lane] = code | turned << 31;
    }

    /// Returns the corners in the order of their vertices' indices.
    #[inline(always)]
    pub(super) fn ordered(&self, lane: usize) -> Triangle {
        from_fn(|corner| from_fn(|axis| self.corners[corner][axis][lane % LANES]))
    }

    /// Returns the positions of the face's corners among the three ordered ones.
    #[inline(always)]
    pub(super) fn places(&self, lane: usize) -> [usize; 3] {
        let code = self.codes[lane % LANES] & 7;
        let a = (code >> 1) as usize % 3;
        let (less, more) = (usize::from(a == 0), if a == 2 { 1 } else { 2 });
        if code & 1 != 0 { [a, more, less] } else { [a, less, more] }
    }

    /// Returns whether reordering has reversed the orientation.
    #[inline(always)]
    pub(super) fn turned(&self, lane: usize) -> bool {
        self.codes[lane % LANES] >> 31 != 0
    }

    /// Returns a bit for each triangle whose orientation reordering has reversed.
    #[inline(always)]
    pub(super) fn all_turned<S: Simd>(&self, simd: S) -> u32 {
        Eight::load(simd, bytemuck::cast_ref(&self.codes)).signs()
    }

    /// Returns the face with its corners in their own order, and a bit for each of its edges that runs from the higher
    /// to the lower vertex.
    #[inline(always)]
    pub(super) fn face(&self, lane: usize) -> (Triangle, u32) {
        let (ordered, [a, b, c]) = (self.ordered(lane), self.places(lane));
        let flags = u32::from(a > b) | u32::from(b > c) << 1 | u32::from(c > a) << 2;
        ([ordered[a], ordered[b], ordered[c]], flags)
    }
}

/// Returns the vertices and corners of a face, unless it does not exist, or an index is out of range.
#[inline]
pub(super) fn corners_of(
    points: &[[f32; 3]],
    faces: &[[u32; 3]],
    face: u32,
) -> Option<([u32; 3], Triangle)> {
    let index = *faces.get(face as usize)?;
    let [a, b, c] = index.map(|vertex| points.get(vertex as usize).copied());
    Some((index, [a?, b?, c?]))
}

/// Returns the vertices and corners of a face, unless queries skip it.
#[inline]
pub(super) fn face_of(
    points: &[[f32; 3]],
    faces: &[[u32; 3]],
    face: u32,
) -> Option<([u32; 3], Triangle)> {
    corners_of(points, faces, face).filter(|(_, corners)| corners.iter().all(|p| is_valid(*p)))
}
