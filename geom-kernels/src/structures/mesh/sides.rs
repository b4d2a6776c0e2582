//! The side of a closed mesh that a point is on: `geom/mesh/sides.cuh` and `triangle/crossing.cuh`, which have the
//! proofs.

use super::Mesh;
use super::exact::three;
use super::predicates::{orient2d, orient3d, side_of_tie};
use super::simd::{Eight, Simd};
use super::traverse::{Stack, lanes_of, load, splat};
use super::tree::LEAF;
use super::triangle::{Triangle, is_valid};

/// Returns the projection along an axis, which keeps the handedness.
#[inline(always)]
pub(super) fn projected(p: [f32; 3], axis: usize) -> [f32; 2] {
    match axis {
        0 => [p[1], p[2]],
        1 => [p[2], p[0]],
        _ => [p[0], p[1]],
    }
}

/// Returns the common sign of the sides that are not 0: 0 if all are 0, `None` if they differ.
#[inline(always)]
fn common(sides: [i32; 3]) -> Option<i32> {
    let (positive, negative) = (sides.iter().any(|s| *s > 0), sides.iter().any(|s| *s < 0));
    (!(positive && negative)).then(|| i32::from(positive) - i32::from(negative))
}

/// Returns the sides of q from the three edges of a triangle in the plane.
#[inline(always)]
fn sides_of_edges([a, b, c]: [[f32; 2]; 3], q: [f32; 2]) -> [i32; 3] {
    [orient2d(a, b, q), orient2d(b, c, q), orient2d(c, a, q)]
}

/// Returns whether the triangle's projection contains the projection of q; its edges and corners belong to it.
fn covers(t: Triangle, q: [f32; 3], axis: usize) -> bool {
    let (corners, q) = (t.map(|p| projected(p, axis)), projected(q, axis));
    let between =
        |i: usize| corners.iter().any(|p| p[i] <= q[i]) && corners.iter().any(|p| q[i] <= p[i]);
    between(0) && between(1) && common(sides_of_edges(corners, q)).is_some()
}

/// Whether and how a ray towards +x meets a triangle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crossing {
    No,
    Yes,
    /// It starts on the triangle.
    On,
}

/// Returns how the ray from q towards +x crosses the triangle. The box of the projected triangle contains q, and a corner has
/// at least the x of q.
#[inline(always)]
fn crosses(t: Triangle, q: [f32; 3]) -> Crossing {
    let (corners, p) = (three(|i| projected(t[i], 0)), projected(q, 0));
    let sides = sides_of_edges(corners, p);
    let Some(side) = common(sides) else { return Crossing::No };
    if side == 0 {
        // The triangle is parallel to x, or a line or a point, and q is on its plane or line. If q is on the
        // triangle, all three projections cover it.
        return if covers(t, q, 1) && covers(t, q, 2) { Crossing::On } else { Crossing::No };
    }
    let ahead = orient3d(t, q);
    if ahead == 0 {
        return Crossing::On;
    }
    let [a, b, c] = corners;
    let edges = [(a, b), (b, c), (c, a)].into_iter().zip(sides);
    let agree = |((from, to), of)| (if of != 0 { of } else { side_of_tie(from, to) }) == side;
    if ahead == side && { edges }.all(agree) { Crossing::Yes } else { Crossing::No }
}

/// Returns a bit for each box that the ray meets.
#[inline(always)]
fn boxes_met<S: Simd>([x, y, z]: [Eight<S>; 3], lower: [Eight<S>; 3], upper: [Eight<S>; 3]) -> u32 {
    let along_y = lower[1].less_equal(y).and(y.less_equal(upper[1]));
    let along_z = lower[2].less_equal(z).and(z.less_equal(upper[2]));
    along_y.and(along_z).and(x.less_equal(upper[0])).signs()
}

/// Returns -1 if q is inside a closed mesh, 1 if it is outside or not valid, 0 if it lies on it.
#[inline(always)]
pub(super) fn side_of<S: Simd>(simd: S, mesh: &Mesh, q: [f32; 3]) -> i32 {
    if !is_valid(q) {
        return 1;
    }
    let wide_q = splat(simd, q);
    let (mut stack, mut crossings) = (Stack::new(), 0u32);
    let mut next = Some(0);
    while let Some(child) = next {
        let index = (child & !LEAF) as usize;
        if child & LEAF == 0 {
            if let Some(node) = mesh.tree.nodes.get(index) {
                let [lower, upper] = &node.bounds;
                let met = boxes_met(wide_q, load(simd, lower), load(simd, upper));
                stack.push_all(met, &node.children);
            }
        } else if let Some(block) = mesh.tree.blocks.get(index) {
            let [a, b, c] = &block.corners;
            let (a, b, c) = (load(simd, a), load(simd, b), load(simd, c));
            let lower = |axis: usize| a[axis].lesser(b[axis]).lesser(c[axis]);
            let upper = |axis: usize| a[axis].greater(b[axis]).greater(c[axis]);
            let met = boxes_met(wide_q, three(lower), three(upper));
            for lane in lanes_of(met) {
                match crosses(block.ordered(lane), q) {
                    Crossing::No => {}
                    Crossing::Yes => crossings += 1,
                    Crossing::On => return 0,
                }
            }
        }
        next = stack.pop(0.0);
    }
    if crossings & 1 != 0 { -1 } else { 1 }
}
