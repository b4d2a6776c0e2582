//! Rays: `geom/mesh/rays.cuh`, `geom/mesh/triangle/ray.cuh` and `geom/bvh/ray_boxes.cuh`, which have the proofs.

use std::ops::ControlFlow;

use super::Mesh;
use super::block::{Block, LANES, Lanes};
use super::exact::{fma, greater, lesser, max, min, sub, three};
use super::predicates::{
    EDGE_FUNCTION_LEAST, difference_of_products, perturbed_edge_side, wide_difference_of_products,
};
use super::simd::{Eight, Simd, Task};
use super::traverse::{Stack, lanes_of, splat};
use super::tree::{LEAF, Node};
use super::triangle::{Triangle, is_valid};
use crate::mesh::{NO_FACE, RayHit};
use crate::{Aabb, Ray};

/// The result of a batch call for a ray that hits nothing.
pub(super) const NO_HIT: RayHit =
    RayHit { t: f32::INFINITY, face: NO_FACE, u: 0.0, v: 0.0, front: 0 };

/// Increases a positive number by more than the errors of five roundings.
const UP: f32 = 1.0 + 4.0 * f32::EPSILON;

/// Returns a bound for a t that was rounded to this one, or to a greater one: it is less than 0 for 0.
#[inline(always)]
fn lowered(t: f32) -> f32 {
    let next = t.next_down();
    if next > 0.0 { next / UP } else { next }
}

/// The data of a ray that its tests share.
#[derive(Clone, Copy)]
struct Shear {
    origin: [f32; 3],
    /// The direction divided by its greatest component, which is `along`, in the two other axes.
    shear: [f32; 2],
    along: f32,
    /// The axes that become x, y and z.
    axes: [usize; 3],
}

impl Shear {
    /// Returns `None` for a ray that hits nothing because of its origin or direction.
    #[inline(always)]
    fn new(origin: [f32; 3], direction: [f32; 3]) -> Option<Self> {
        let sizes = three(|axis| direction[axis].abs());
        let mut z = usize::from(sizes[0] < sizes[1]);
        if sizes[z] < sizes[2] {
            z = 2;
        }
        let (mut x, mut y) = ((z + 1) % 3, (z + 2) % 3);
        let along = direction[z];
        if along.is_sign_negative() {
            (x, y) = (y, x);
        }
        let valid = is_valid(origin) && direction.iter().all(|c| c.is_finite()) && along != 0.0;
        let shear = [direction[x] / along, direction[y] / along];
        valid.then_some(Self { origin, shear, along, axes: [x, y, z] })
    }

    /// Returns the sheared point in the plane, and its coordinate along the ray.
    #[inline(always)]
    fn point(&self, [x, y, z]: [f32; 3]) -> ([f32; 2], f32) {
        ([fma(-self.shear[0], z, x), fma(-self.shear[1], z, y)], z)
    }

    #[inline(always)]
    fn triangle(&self, t: Triangle) -> [([f32; 2], f32); 3] {
        let [x, y, z] = three(|i| self.axes[i] % 3);
        three(|corner| {
            let d = sub(t[corner], self.origin);
            self.point([d[x], d[y], d[z]])
        })
    }

    /// Returns a bit for each triangle whose edge functions agree in sign or do not decide.
    #[inline(always)]
    fn candidates<S: Simd>(&self, simd: S, block: &Block) -> u32 {
        let [x, y, z] = three(|i| self.axes[i] % 3);
        let shear = [Eight::splat(simd, -self.shear[0]), Eight::splat(simd, -self.shear[1])];
        let from = splat(simd, [self.origin[x], self.origin[y], self.origin[z]]);
        #[inline(always)]
        fn point<S: Simd>(
            [x, y, z]: [&Lanes; 3],
            from: [Eight<S>; 3],
            shear: [Eight<S>; 2],
            simd: S,
        ) -> [Eight<S>; 2] {
            let p = [Eight::load(simd, x), Eight::load(simd, y), Eight::load(simd, z)];
            let [x, y, z] = sub(p, from);
            [fma(shear[0], z, x), fma(shear[1], z, y)]
        }
        let [a, b, c] = &block.corners;
        let a = point([&a[x], &a[y], &a[z]], from, shear, simd);
        let b = point([&b[x], &b[y], &b[z]], from, shear, simd);
        let c = point([&c[x], &c[y], &c[z]], from, shear, simd);
        let at_a = difference_of_products(b, c);
        let at_b = difference_of_products(c, a);
        let at_c = difference_of_products(a, b);
        let least = at_a.abs().lesser(at_b.abs()).lesser(at_c.abs());
        let unsure = least.less(Eight::splat(simd, EDGE_FUNCTION_LEAST)).signs();
        let (a, b, c) = (at_a.signs(), at_b.signs(), at_c.signs());
        unsure | a & b & c | !(a | b | c) & 0xff
    }

    /// Returns the t at which the ray hits the triangle, if it does between `t_min` and `t_max`.
    #[inline(always)]
    fn hit(&self, triangle: Triangle, t_min: f32, t_max: f32) -> Option<f32> {
        let [(a, depth_a), (b, depth_b), (c, depth_c)] = self.triangle(triangle);
        let at_a = difference_of_products(b, c);
        let at_b = difference_of_products(c, a);
        let at_c = difference_of_products(a, b);
        let least = lesser(lesser(at_a.abs(), at_b.abs()), at_c.abs());
        let mut t = f32::NAN;
        let mut wide = least < EDGE_FUNCTION_LEAST;
        if wide {
            // There is a tie, or a number is too small to decide.
            let side = perturbed_edge_side(b, c);
            if side == 0 || side != perturbed_edge_side(c, a) || side != perturbed_edge_side(a, b) {
                return None;
            }
        } else {
            let negative = at_a.is_sign_negative();
            if negative != at_b.is_sign_negative() || negative != at_c.is_sign_negative() {
                return None;
            }
            let volume = fma(at_c, depth_c, fma(at_b, depth_b, at_a * depth_a));
            // Products of three coordinates may overflow or underflow.
            wide = !(EDGE_FUNCTION_LEAST..=f32::MAX).contains(&volume.abs());
            // The division is in two steps, because the direction may have any length.
            t = volume / (at_a + at_b + at_c) / self.along;
        }
        if wide {
            let wide_a = wide_difference_of_products(b, c);
            let wide_b = wide_difference_of_products(c, a);
            let wide_c = wide_difference_of_products(a, b);
            let area = (wide_a + wide_b + wide_c) * f64::from(self.along);
            let (depth_a, depth_b, depth_c) =
                (f64::from(depth_a), f64::from(depth_b), f64::from(depth_c));
            t = (fma(wide_c, depth_c, fma(wide_b, depth_b, wide_a * depth_a)) / area) as f32;
        }
        // The sum with 0 turns -0 into 0.
        t += 0.0;
        (t_min <= t && t <= t_max).then_some(t)
    }

    /// Returns the hit at t, with u and v for the face's own order of corners.
    #[inline(always)]
    fn hit_of(&self, block: &Block, lane: usize, t: f32) -> RayHit {
        let [(a, depth_a), (b, depth_b), (c, depth_c)] = self.triangle(block.ordered(lane));
        let of_a = wide_difference_of_products(b, c);
        let of_b = wide_difference_of_products(c, a);
        let of_c = wide_difference_of_products(a, b);
        let area = of_a + of_b + of_c;
        let along = f64::from(self.along);
        let inverse = 1.0 / (area * along);
        let (depth_a, depth_b, depth_c) =
            (f64::from(depth_a), f64::from(depth_b), f64::from(depth_c));
        let depth = fma(of_c, depth_c, fma(of_b, depth_b, of_a * depth_a));
        let (mut u, mut v, mut front) = (0.0, 0.0, false);
        // A device leaves these as they are if t overflows when it is computed so.
        if ((depth * inverse) as f32).is_finite() {
            u = (of_b * (inverse * along)).abs() as f32;
            v = (of_c * (inverse * along)).abs() as f32;
            front = area < 0.0;
        }
        let of = [max(1.0 - u - v, 0.0), u, v];
        let [_, b, c] = block.places(lane);
        let front = u32::from(front != block.turned(lane));
        RayHit { t, face: block.faces[lane % LANES], u: of[b], v: of[c], front }
    }
}

/// A ray against the boxes of nodes, which are enlarged by more than all rounding errors.
#[derive(Clone, Copy)]
struct RayBoxes {
    /// For each axis: 1 / direction, the summands for the near and the far plane, and which bound is near.
    inverse: [f32; 3],
    near: [f32; 3],
    far: [f32; 3],
    back: [usize; 3],
    /// The factor from the caller's t to that of the scaled direction.
    scale: f32,
    t_min: f32,
}

impl RayBoxes {
    #[inline(always)]
    fn new(bounds: &Aabb<f32>, ray: &Ray) -> Self {
        let greatest = |of: [f32; 3]| greater(greater(of[0].abs(), of[1].abs()), of[2].abs());
        // The biased exponent, at least 1, so that both powers are normal numbers.
        let exponent = (greatest(ray.direction).to_bits() >> 23).clamp(1, 253);
        let (scale, unscale) =
            (f32::from_bits(exponent << 23), f32::from_bits((254 - exponent) << 23));
        // The factors are 2^-19 and 2^-20, the least margin 2^-80.
        let beyond = |axis: usize| {
            let at = ray.origin[axis];
            greater(at - bounds.lower[axis], bounds.upper[axis] - at)
        };
        let reach = beyond(0) + beyond(1) + beyond(2);
        let rounded = reach * 1.907_348_6e-6 + greatest(ray.origin) * 9.536_743e-7;
        let margin = greater(rounded * UP, 8.271_806e-25);
        let mut boxes = Self {
            inverse: [0.0; 3],
            near: [0.0; 3],
            far: [0.0; 3],
            back: [0; 3],
            scale,
            t_min: lowered(ray.t_min) * scale,
        };
        for axis in 0..3 {
            let along = ray.direction[axis] * unscale;
            let back = along.is_sign_negative();
            // The least size is 2^-60.
            let size = greater(along.abs(), 8.673_617e-19);
            let (inverse, outwards) =
                if back { (-1.0 / size, -margin) } else { (1.0 / size, margin) };
            boxes.inverse[axis] = inverse;
            boxes.near[axis] = -((ray.origin[axis] + outwards) * inverse);
            boxes.far[axis] = -((ray.origin[axis] - outwards) * inverse);
            boxes.back[axis] = usize::from(back);
        }
        boxes
    }

    /// Returns a bound for a t of the caller that was rounded.
    #[inline(always)]
    fn scaled(&self, t: f32) -> f32 {
        lesser(t.next_up() * UP * self.scale, f32::MAX)
    }

    /// Returns the t at which the ray enters each child, and a bit for each that it meets before `farthest`.
    #[inline(always)]
    fn enter<S: Simd>(&self, simd: S, node: &Node, farthest: f32) -> (Eight<S>, u32) {
        let inverse = splat(simd, self.inverse);
        let plane = |axis: usize, far: usize, summand: [f32; 3]| {
            let bound = Eight::load(simd, &node.bounds[(self.back[axis] ^ far) & 1][axis]);
            fma(bound, inverse[axis], Eight::splat(simd, summand[axis]))
        };
        let [nx, ny, nz] = three(|axis| plane(axis, 0, self.near));
        let [fx, fy, fz] = three(|axis| plane(axis, 1, self.far));
        let enter = nx.greater(ny).greater(nz.greater(Eight::splat(simd, self.t_min)));
        let leave = fx.lesser(fy).lesser(fz.lesser(Eight::splat(simd, farthest)));
        // Before 0 there may be hits whose t is rounded to 0, but the stack has no negative distances.
        (enter.greater(Eight::splat(simd, 0.0)), enter.less_equal(leave).signs())
    }
}

/// A ray that may hit something: t are not negative and finite.
struct Prepared {
    shear: Shear,
    boxes: RayBoxes,
    t_min: f32,
    t_max: f32,
}

impl Prepared {
    #[inline(always)]
    fn new(mesh: &Mesh, ray: &Ray) -> Option<Self> {
        let shear = Shear::new(ray.origin, ray.direction)?;
        let ordered = ray.t_min <= ray.t_max;
        if mesh.tree.nodes.is_empty() || !ordered {
            return None;
        }
        let t_min = max(ray.t_min, 0.0);
        // The sum with 0 turns -0 into 0.
        let t_max = min(ray.t_max, f32::MAX) + 0.0;
        let boxes = RayBoxes::new(&mesh.tree.bounds, &Ray { t_min, t_max, ..*ray });
        (t_min <= t_max).then_some(Self { shear, boxes, t_min, t_max })
    }

    /// Calls `found` with the block, lane and t of hits, until it stops the search. It returns the greatest t of
    /// hits that are still wanted.
    #[inline(always)]
    fn search<S: Simd>(
        &self,
        simd: S,
        mesh: &Mesh,
        mut found: impl FnMut(u32, &Block, usize, f32) -> ControlFlow<(), f32>,
    ) {
        let (mut stack, mut t_max) = (Stack::new(), self.t_max);
        let mut farthest = self.boxes.scaled(t_max);
        let mut next = Some(0);
        while let Some(child) = next {
            let index = child & !LEAF;
            if child & LEAF == 0 {
                let Some(node) = mesh.tree.nodes.get(index as usize) else { return };
                let (enter, met) = self.boxes.enter(simd, node, farthest);
                next = stack.push_ordered(simd, met, enter, &node.children, farthest);
                continue;
            }
            if let Some(block) = mesh.tree.blocks.get(index as usize) {
                for lane in lanes_of(self.shear.candidates(simd, block)) {
                    if let Some(t) = self.shear.hit(block.ordered(lane), self.t_min, t_max) {
                        match found(index, block, lane, t) {
                            ControlFlow::Break(()) => return,
                            ControlFlow::Continue(t) if t < t_max => {
                                t_max = t;
                                farthest = self.boxes.scaled(t);
                            }
                            ControlFlow::Continue(_) => {}
                        }
                    }
                }
            }
            next = stack.pop(farthest);
        }
    }
}

/// A query of a ray.
pub(super) struct AlongRay<'a, Q> {
    pub(super) mesh: &'a Mesh,
    pub(super) ray: &'a Ray,
    pub(super) query: Q,
}

/// A kind of query of a ray.
pub(super) trait RayQuery {
    /// The result.
    type Found;
    /// Computes it.
    fn find<S: Simd>(self, simd: S, mesh: &Mesh, ray: &Ray) -> Self::Found;
}

impl<Q: RayQuery> Task for AlongRay<'_, Q> {
    type Output = Q::Found;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> Q::Found {
        self.query.find(simd, self.mesh, self.ray)
    }
}

/// The first hit: the one of least (t, face).
#[derive(Clone, Copy)]
pub(super) struct Nearest;

impl RayQuery for Nearest {
    type Found = Option<RayHit>;

    #[inline(always)]
    fn find<S: Simd>(self, simd: S, mesh: &Mesh, ray: &Ray) -> Option<RayHit> {
        let prepared = Prepared::new(mesh, ray)?;
        let mut best = u64::from(prepared.t_max.to_bits()) << 32 | u64::from(NO_FACE);
        let mut place = None;
        prepared.search(simd, mesh, |number, block, lane, t| {
            let key = u64::from(t.to_bits()) << 32 | u64::from(block.faces[lane]);
            if key < best {
                best = key;
                place = Some((number, lane));
            }
            ControlFlow::Continue(f32::from_bits((best >> 32) as u32))
        });
        let (number, lane) = place?;
        let block = mesh.tree.blocks.get(number as usize)?;
        Some(prepared.shear.hit_of(block, lane, f32::from_bits((best >> 32) as u32)))
    }
}

/// Whether there is a hit.
#[derive(Clone, Copy)]
pub(super) struct Any;

impl RayQuery for Any {
    type Found = bool;

    #[inline(always)]
    fn find<S: Simd>(self, simd: S, mesh: &Mesh, ray: &Ray) -> bool {
        let mut any = false;
        if let Some(prepared) = Prepared::new(mesh, ray) {
            prepared.search(simd, mesh, |_, _, _, _| {
                any = true;
                ControlFlow::Break(())
            });
        }
        any
    }
}

/// The number of hits.
#[derive(Clone, Copy)]
pub(super) struct Count;

impl RayQuery for Count {
    type Found = u32;

    #[inline(always)]
    fn find<S: Simd>(self, simd: S, mesh: &Mesh, ray: &Ray) -> u32 {
        let mut count = 0;
        if let Some(prepared) = Prepared::new(mesh, ray) {
            prepared.search(simd, mesh, |_, _, _, _| {
                count += 1;
                ControlFlow::Continue(prepared.t_max)
            });
        }
        count
    }
}

/// A call of a function for each hit, until it returns true; the result is whether it did.
pub(super) struct Each<F>(pub(super) F);

impl<F: FnMut(RayHit) -> bool> RayQuery for Each<F> {
    type Found = bool;

    #[inline(always)]
    fn find<S: Simd>(mut self, simd: S, mesh: &Mesh, ray: &Ray) -> bool {
        let mut stopped = false;
        if let Some(prepared) = Prepared::new(mesh, ray) {
            prepared.search(simd, mesh, |_, block, lane, t| {
                stopped = (self.0)(prepared.shear.hit_of(block, lane, t));
                if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(prepared.t_max) }
            });
        }
        stopped
    }
}
