//! The faces that have a point in common with a box or a ball: `geom/mesh/overlap.cuh` and
//! `triangle/overlap.cuh`, which have the proofs.

use super::Mesh;
use super::block::{Block, LANES};
use super::closest::distances_to_boxes;
use super::exact::{length_squared, max, min, three};
use super::predicates::{orient2d, orient3d};
use super::sides::projected;
use super::simd::{Eight, Simd, Task};
use super::traverse::{Stack, load, splat};
use super::tree::{LEAF, Node};
use super::triangle::{Triangle, bounds, closest_point, is_valid};
use crate::Aabb;
use crate::mesh::Overlap;

/// Returns whether two boxes have a point in common.
fn boxes_overlap(a: &Aabb<f32>, b: &Aabb<f32>) -> bool {
    (0..3).all(|axis| a.lower[axis] <= b.upper[axis] && b.lower[axis] <= a.upper[axis])
}

/// Returns whether the line of an edge separates the projections of triangle and box; the orientation of the
/// triangle's projection if none does.
fn not_separated(t: Triangle, of: &Aabb<f32>, axis: usize) -> Option<i32> {
    let [a, b, c] = t.map(|p| projected(p, axis));
    let (lower, upper) = (projected(of.lower, axis), projected(of.upper, axis));
    let turn = orient2d(a, b, c);
    // In counterclockwise order, the triangle is left of its edges. One without area has edges in both directions
    // along its line, so both sides are tested.
    let (second, third) = if turn < 0 { (c, b) } else { (b, c) };
    let all_right = |p: [f32; 2], q: [f32; 2]| {
        // The corner of the rectangle that is farthest to the left.
        let x = if q[1] < p[1] { upper[0] } else { lower[0] };
        let y = if p[0] < q[0] { upper[1] } else { lower[1] };
        orient2d(p, q, [x, y]) < 0
    };
    (!all_right(a, second) && !all_right(second, third) && !all_right(third, a)).then_some(turn)
}

/// Returns whether the triangle and the box, which is not empty, have a point in common; touching is enough.
fn overlaps_box(t: Triangle, of: &Aabb<f32>) -> bool {
    let own = bounds(t);
    if !boxes_overlap(&own, of) {
        return false;
    }
    // The part of the box outside of the triangle's box does not matter.
    let both = Aabb {
        lower: three(|axis| max(own.lower[axis], of.lower[axis])),
        upper: three(|axis| min(own.upper[axis], of.upper[axis])),
    };
    let turn = |axis: usize| not_separated(t, &both, axis);
    let (Some(x), Some(y), Some(z)) = (turn(0), turn(1), turn(2)) else { return false };
    // The signs of the normal's components are the orientations of the projections.
    let turns = [x, y, z];
    let behind = three(|i| if turns[i] > 0 { both.lower[i] } else { both.upper[i] });
    let before = three(|i| if turns[i] > 0 { both.upper[i] } else { both.lower[i] });
    orient3d(t, behind) >= 0 && orient3d(t, before) <= 0
}

/// The region of a query.
pub(super) enum Region {
    /// The bounds are finite.
    Box(Aabb<f32>),
    /// The centre, the radius, and its square, which is finite.
    Ball([f32; 3], f32, f32),
}

impl Region {
    /// Returns the box made finite; `None` if it is empty or has a NaN.
    pub(super) fn of_box(of: &Aabb<f32>) -> Option<Self> {
        let valid = (0..3).all(|axis| of.lower[axis] <= of.upper[axis]);
        valid.then(|| {
            let lower = three(|axis| max(of.lower[axis], -f32::MAX));
            Self::Box(Aabb { lower, upper: three(|axis| min(of.upper[axis], f32::MAX)) })
        })
    }

    /// Returns the ball; `None` if it finds nothing.
    pub(super) fn of_ball(center: [f32; 3], radius: f32) -> Option<Self> {
        let square = min(radius * radius, f32::MAX);
        (is_valid(center) && 0.0 <= radius).then_some(Self::Ball(center, radius, square))
    }

    /// Returns a bit for each child whose box overlaps.
    #[inline(always)]
    fn children<S: Simd>(&self, simd: S, node: &Node) -> u32 {
        match self {
            Self::Box(of) => {
                let [lower, upper] = &node.bounds;
                let (lower, upper) = (load(simd, lower), load(simd, upper));
                let (from, to) = (splat(simd, of.lower), splat(simd, of.upper));
                let axis = |axis: usize| {
                    lower[axis].less_equal(to[axis]).and(from[axis].less_equal(upper[axis]))
                };
                axis(0).and(axis(1)).and(axis(2)).signs()
            }
            Self::Ball(center, _, square) => {
                let distances = distances_to_boxes(simd, node, splat(simd, *center));
                distances.less_equal(Eight::splat(simd, *square)).signs()
            }
        }
    }

    /// Returns whether a face overlaps.
    fn face(&self, overlap: Overlap, block: &Block, lane: usize) -> bool {
        let (t, flags) = block.face(lane);
        let own = bounds(t);
        match self {
            Self::Box(of) if overlap == Overlap::Boxes => boxes_overlap(&own, of),
            Self::Box(of) => overlaps_box(t, of),
            Self::Ball(center, radius, square) => {
                let beyond = |axis: usize| {
                    max(own.lower[axis] - center[axis], center[axis] - own.upper[axis])
                };
                let apart = length_squared(three(|axis| max(beyond(axis), 0.0)));
                // The box is tested first: its distance is at most that of its contents, also rounded.
                apart <= *square
                    && (overlap == Overlap::Boxes
                        || closest_point(t, flags, *center).distance_squared <= radius * radius)
            }
        }
    }
}

/// A call of a function for each face that overlaps, until it returns true; the result is whether it did.
pub(super) struct EachFace<'a, F> {
    pub(super) mesh: &'a Mesh,
    pub(super) region: Region,
    pub(super) overlap: Overlap,
    pub(super) f: F,
}

impl<F: FnMut(u32) -> bool> Task for EachFace<'_, F> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) -> bool {
        let (mut stack, mut next) = (Stack::new(), Some(0));
        while let Some(child) = next {
            let index = (child & !LEAF) as usize;
            if child & LEAF == 0 {
                if let Some(node) = self.mesh.tree.nodes.get(index) {
                    stack.push_all(self.region.children(simd, node), &node.children);
                }
            } else if let Some(block) = self.mesh.tree.blocks.get(index) {
                for lane in 0..LANES {
                    // The coordinates of faces that are skipped are NaN.
                    let there = !block.corners[0][0][lane].is_nan();
                    if there
                        && self.region.face(self.overlap, block, lane)
                        && (self.f)(block.faces[lane])
                    {
                        return true;
                    }
                }
            }
            next = stack.pop(0.0);
        }
        false
    }
}
