//! Closest points and signed distances: `geom/mesh/closest.cuh` and `signed_distance.cuh`, which have the proofs.

use super::Mesh;
use super::block::{Block, LANES};
use super::exact::{
    NAN, add, add_up, cross, dot, fma_each, greater, length_squared, lesser, mul_up, sqrt_up, sub,
    sub_up, three, widen,
};
use super::sides::side_of;
use super::simd::{Eight, Simd, Task};
use super::traverse::{Stack, lanes_of, load, splat};
use super::tree::{LEAF, Node};
use super::triangle::{closest_point, is_valid, normal};
use crate::Aabb;
use crate::mesh::{ClosestPoint, NO_FACE};

/// The result of a batch call for a query that finds nothing.
pub(super) const NOTHING: ClosestPoint = ClosestPoint {
    position: [NAN; 3],
    distance_squared: f32::INFINITY,
    face: NO_FACE,
    u: 0.0,
    v: 0.0,
    feature: 6,
};

/// The bits for the sides on which a point is of the faces that may be nearest; both if that cannot be decided.
const FRONT: u32 = 1;
const BACK: u32 = 2;

/// Returns a bound of the distance from q to any corner of the box, rounded up.
#[inline(always)]
fn reach(bounds: &Aabb<f32>, q: [f32; 3]) -> f32 {
    let Aabb { lower, upper } = bounds;
    let [x, y, z] =
        three(|axis| greater(sub_up(q[axis], lower[axis]), sub_up(upper[axis], q[axis])));
    add_up(add_up(x, y), z)
}

/// Returns the squares of the distances from a point to the boxes of a node, as `bvh::PointBoxes` rounds them.
#[inline(always)]
pub(super) fn distances_to_boxes<S: Simd>(simd: S, node: &Node, q: [Eight<S>; 3]) -> Eight<S> {
    let [lower, upper] = &node.bounds;
    let (below, above) = (sub(load(simd, lower), q), sub(q, load(simd, upper)));
    let zero = Eight::splat(simd, 0.0);
    let beyond = |axis: usize| below[axis].greater(above[axis]).greater(zero);
    length_squared([beyond(0), beyond(1), beyond(2)])
}

/// Returns the squares of the distances from q to the triangles, which decide between faces, and the heights of q above
/// the planes of their ordered corners. Where there is no triangle, the distance is infinite. `None` if all planes are
/// farther than `limit`.
///
/// A triangle is as far as its plane, at least. The errors of the height and of the key are part of the slack in
/// `limit`, as those of boxes are.
#[inline(always)]
fn distance_keys<S: Simd>(
    simd: S,
    block: &Block,
    q: [Eight<S>; 3],
    limit: f32,
) -> Option<(Eight<S>, Eight<S>)> {
    let [v0, v1, v2] = &block.corners;
    let (v0, v1, v2) = (load(simd, v0), load(simd, v1), load(simd, v2));
    let n = load(simd, &block.normals);
    let p0 = sub(q, v0);
    let height = dot(n, p0);
    if height.abs().less_equal(Eight::splat(simd, limit)).signs() == 0 {
        return None;
    }
    let [inverse01, inverse12, inverse02] = load(simd, &block.inverses);
    let [zero, one, infinity] = splat(simd, [0.0, 1.0, f32::INFINITY]);
    let saturate = |a: Eight<S>| a.greater(zero).lesser(one);
    let p1 = sub(q, v1);
    let (e01, e02, e12) = (sub(v1, v0), sub(v2, v0), sub(v2, v1));
    let t01 = saturate(dot(e01, p0) * inverse01);
    let t02 = saturate(dot(e02, p0) * inverse02);
    let t12 = saturate(dot(e12, p1) * inverse12);
    let d01 = length_squared(fma_each(-t01, e01, p0));
    let d02 = length_squared(fma_each(-t02, e02, p0));
    let d12 = length_squared(fma_each(-t12, e12, p1));
    let (k0, k1) = (cross(p0, n), cross(p1, n));
    let (in01, in12, in02) = (dot(e01, k0), dot(e12, k1), dot(e02, k0));
    // In this order, a NaN becomes infinite.
    let edges = d01.lesser(d12).lesser(d02).lesser(infinity);
    // Beyond a corner, the nearest points of both of its edges are clamped to it.
    let beyond0 = t01.less_equal(zero).and(t02.less_equal(zero));
    let beyond1 = one.less_equal(t01).and(t12.less_equal(zero));
    let beyond2 = one.less_equal(t02).and(one.less_equal(t12));
    let between = zero.less(in01).and(zero.less(in12)).and(in02.less(zero));
    let inside = beyond0.or(beyond1).or(beyond2).and_not(between);
    let plane = inside.choose(height * height, infinity);
    Some((edges.lesser(plane), height))
}

/// The state of a search.
struct Search<const SIDES: bool> {
    q: [f32; 3],
    slack: f32,
    /// The key of the nearest face so far, its index in the lower bits, and its block and lane.
    best: u64,
    place: Option<(u32, u32)>,
    /// The greatest distance of a box or plane that may contain a nearer face, and its square.
    reach: f32,
    farthest: f32,
    /// The square of the greatest distance of a cylinder that may contain a nearer face.
    around: f32,
    sides: u32,
}

impl<const SIDES: bool> Search<SIDES> {
    #[inline(always)]
    fn new(mesh: &Mesh, q: [f32; 3], distance: f32) -> Self {
        // The factor is 2^-19, the summand 2^-62.
        let reach = reach(&mesh.tree.bounds, q);
        let slack = add_up(mul_up(reach, 1.907_348_6e-6), 2.168_404_3e-19);
        let square = lesser(distance * distance, f32::MAX);
        let best = u64::from(square.to_bits()) << 32 | u64::from(NO_FACE);
        let mut search =
            Self { q, slack, best, place: None, reach: 0.0, farthest: 0.0, around: 0.0, sides: 0 };
        search.shrink(square);
        search
    }

    /// Visits boxes up to slack beyond this distance.
    #[inline(always)]
    fn shrink(&mut self, square: f32) {
        let distance = add_up(sqrt_up(square), self.slack);
        self.reach = distance;
        // The errors of cylinders are less than slack.
        self.around = lesser((distance + self.slack) * (distance + self.slack), f32::MAX);
        // The bits that a device uses for the number of a child are set.
        self.farthest = f32::from_bits(lesser(mul_up(distance, distance), f32::MAX).to_bits() | 3);
    }

    #[inline(always)]
    fn square(&self) -> f32 {
        f32::from_bits((self.best >> 32) as u32)
    }

    #[inline(always)]
    fn visit<S: Simd>(&mut self, simd: S, q: [Eight<S>; 3], number: u32, block: &Block) {
        let Some((keys, heights)) = distance_keys(simd, block, q, self.reach) else { return };
        let limit = if SIDES { self.farthest } else { self.square() };
        let near = keys.less_equal(Eight::splat(simd, limit)).signs();
        if near == 0 {
            return;
        }
        // Of equally near faces, the one of the least index is found.
        let least = keys.least();
        let mut nearest = (u64::MAX, 0);
        for lane in lanes_of(keys.less_equal(Eight::splat(simd, least)).signs()) {
            let key = u64::from(least.to_bits()) << 32 | u64::from(block.faces[lane]);
            nearest = nearest.min((key, lane as u32));
        }
        let (key, lane) = nearest;
        let (found, old) = (key < self.best, self.square());
        if found {
            self.best = key;
            self.place = Some((number, lane));
            self.shrink(least);
        }
        if SIDES {
            let close = keys.less_equal(Eight::splat(simd, self.farthest)).signs();
            let slack = Eight::splat(simd, self.slack);
            let either = (heights.abs() - slack).less_equal(Eight::splat(simd, 0.0)).signs();
            let behind = heights.signs() ^ block.all_turned(simd);
            let front = if close & (either | !behind) != 0 { FRONT } else { 0 };
            let back = if close & (either | behind) != 0 { BACK } else { 0 };
            // A face farther than the best by more than slack does not change the result.
            let kept = if !found || old <= self.farthest { self.sides } else { 0 };
            self.sides = kept | front | back;
        }
    }

    /// Searches the tree; returns early once anything is found if `ANY`. The block `first` is searched before all others.
    #[inline(always)]
    fn run<S: Simd, const ANY: bool>(&mut self, simd: S, mesh: &Mesh, first: Option<u32>) {
        let q = splat(simd, self.q);
        if let Some(number) = first
            && let Some(block) = mesh.tree.blocks.get(number as usize)
        {
            self.visit(simd, q, number, block);
        }
        let mut stack = Stack::new();
        let mut next = Some(0);
        while let Some(child) = next {
            if child & LEAF != 0 {
                let number = child & !LEAF;
                if first != Some(number)
                    && let Some(block) = mesh.tree.blocks.get(number as usize)
                {
                    self.visit(simd, q, number, block);
                }
                if ANY && self.place.is_some() {
                    return;
                }
                next = stack.pop(self.farthest);
            } else if let Some(node) = mesh.tree.nodes.get(child as usize) {
                let distances = distances_to_boxes(simd, node, q);
                let mut near = distances.less_equal(Eight::splat(simd, self.farthest)).signs();
                if near & node.leaves(simd) != 0
                    && let Some(cylinders) = mesh.tree.cylinders.get(child as usize)
                {
                    near &= cylinders.within(simd, q, self.around);
                }
                next = stack.push_ordered(simd, near, distances, &node.children, self.farthest);
            } else {
                return;
            }
        }
    }

    #[inline(always)]
    fn closest(&self, mesh: &Mesh) -> Option<ClosestPoint> {
        let (number, lane) = self.place?;
        let (block, lane) = (mesh.tree.blocks.get(number as usize)?, lane as usize);
        let (triangle, flags) = block.face(lane);
        let face = block.faces[lane % LANES];
        Some(ClosestPoint { face, ..closest_point(triangle, flags, self.q) })
    }
}

/// Returns whether the query is valid.
#[inline(always)]
fn can_find(q: [f32; 3], distance: f32) -> bool {
    is_valid(q) && 0.0 <= distance
}

/// A query of a point.
pub(super) struct AtPoint<'a, Q> {
    pub(super) mesh: &'a Mesh,
    pub(super) q: [f32; 3],
    pub(super) distance: f32,
    pub(super) query: Q,
}

/// A kind of query of a point.
pub(super) trait PointQuery: Copy + Sync {
    /// The result.
    type Found;
    /// Computes it for a point, within a distance. `near` is a block that was found for a point nearby, and may become the
    /// one of this point: what is in it bounds the distance before the search begins.
    fn find<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        point: ([f32; 3], f32),
        near: &mut Option<u32>,
    ) -> Self::Found;
}

impl<Q: PointQuery> Task for AtPoint<'_, Q> {
    type Output = Q::Found;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Q::Found {
        self.query.find(simd, self.mesh, (self.q, self.distance), &mut None)
    }
}

/// The closest point.
#[derive(Clone, Copy)]
pub(super) struct Closest;

impl PointQuery for Closest {
    type Found = Option<ClosestPoint>;

    #[inline(always)]
    fn find<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        (q, distance): ([f32; 3], f32),
        near: &mut Option<u32>,
    ) -> Option<ClosestPoint> {
        if !can_find(q, distance) {
            return None;
        }
        let mut search = Search::<false>::new(mesh, q, distance);
        search.run::<S, false>(simd, mesh, *near);
        *near = search.place.map(|(number, _)| number).or(*near);
        search.closest(mesh)
    }
}

/// Whether a face is within the distance.
#[derive(Clone, Copy)]
pub(super) struct Within;

impl PointQuery for Within {
    type Found = bool;

    #[inline(always)]
    fn find<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        (q, distance): ([f32; 3], f32),
        _: &mut Option<u32>,
    ) -> bool {
        if !can_find(q, distance) {
            return false;
        }
        let mut search = Search::<false>::new(mesh, q, distance);
        search.run::<S, true>(simd, mesh, None);
        search.place.is_some()
    }
}

/// The signed distance by normals, and the closest point.
#[derive(Clone, Copy)]
pub(super) struct ByNormal;

impl PointQuery for ByNormal {
    type Found = Option<(f32, ClosestPoint)>;

    #[inline(always)]
    fn find<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        (q, distance): ([f32; 3], f32),
        _: &mut Option<u32>,
    ) -> Self::Found {
        if !can_find(q, distance) {
            return None;
        }
        let mut search = Search::<true>::new(mesh, q, distance);
        search.run::<S, false>(simd, mesh, None);
        let closest = search.closest(mesh)?;
        let side = match search.sides {
            FRONT => 1,
            BACK => -1,
            _ => ambiguous_side(simd, mesh, q, &closest),
        };
        Some((signed(&closest, side), closest))
    }
}

/// The signed distance by parity, and the closest point.
#[derive(Clone, Copy)]
pub(super) struct ByParity;

impl PointQuery for ByParity {
    type Found = Option<(f32, ClosestPoint)>;

    #[inline(always)]
    fn find<S: Simd>(
        self,
        simd: S,
        mesh: &Mesh,
        (q, distance): ([f32; 3], f32),
        near: &mut Option<u32>,
    ) -> Self::Found {
        let closest = Closest.find(simd, mesh, (q, distance), near)?;
        Some((signed(&closest, side_of(simd, mesh, q)), closest))
    }
}

/// Returns the distance with its sign: negative inside, 0 on the mesh.
fn signed(closest: &ClosestPoint, side: i32) -> f32 {
    let size = closest.distance_squared.sqrt();
    match side {
        0 => 0.0,
        1.. => size,
        _ => -size,
    }
}

/// Returns the side of a point whose nearest faces do not agree.
#[inline]
fn ambiguous_side<S: Simd>(simd: S, mesh: &Mesh, q: [f32; 3], closest: &ClosestPoint) -> i32 {
    if mesh.topology.as_ref().is_none_or(|topology| topology.closed) {
        return side_of(simd, mesh, q);
    }
    let d = sub(widen(q), widen(closest.position));
    let n = pseudonormal(mesh, closest).unwrap_or_default();
    if dot(d, widen(n)) < 0.0 { -1 } else { 1 }
}

/// Returns the sum of the normals of the faces around a point of a face, or a vector with its direction.
fn pseudonormal(mesh: &Mesh, closest: &ClosestPoint) -> Option<[f32; 3]> {
    let topology = mesh.topology.as_ref()?;
    let (index, corners) = mesh.face_corners(closest.face)?;
    let n = normal(corners);
    let feature = closest.feature as usize;
    match feature {
        0..=2 => {
            let vertex = index[feature] as usize;
            Some(topology.vertex_normals.get(vertex).copied().unwrap_or(n))
        }
        3..=5 => {
            let edge = 3 * closest.face as usize + (feature - 3);
            let other = topology.neighbors.get(edge).and_then(|face| mesh.face_corners(*face));
            Some(other.map_or(n, |(_, other)| add(n, normal(other))))
        }
        _ => Some(n),
    }
}
