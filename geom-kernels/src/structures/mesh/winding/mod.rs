//! Winding numbers: `geom/mesh/winding.cuh`, which has the formulas. The number depends on the hierarchy, so this is the
//! device's, of the builder that the mesh's options name.

mod binary;
mod moments;
mod wide;

use super::Mesh;
use super::closest::{Closest, PointQuery};
use super::exact::{cross, dot, fma, length_squared, mul, sub};
use super::simd::{Simd, with_simd};
use super::triangle::is_valid;
use crate::bvh::BuildMode;
use crate::mesh::ClosestPoint;
use moments::{Make, Moments};
use wide::{Corners, NOTHING, Wide, places_of};

/// The most entries of the stack of a traversal: `GEOM_BVH_STACK`.
const STACK: usize = 64;
/// The error bound of series in [`Sign::Winding`](crate::mesh::Sign::Winding).
const BETA: f32 = 2.0;

/// The hierarchy of a mesh with winding numbers.
#[derive(Debug, Clone)]
pub(super) struct Winding {
    tree: Wide,
    moments: Vec<[Moments; 4]>,
}

impl Winding {
    pub(super) fn new(points: &[[f32; 3]], faces: &[[u32; 3]], mode: BuildMode) -> Self {
        let tree = Wide::new(points, faces, mode);
        let moments = with_simd(Make(&tree));
        Self { tree, moments }
    }

    /// Updates the hierarchy to points that have moved.
    pub(super) fn refit(&mut self, points: &[[f32; 3]], faces: &[[u32; 3]]) {
        self.tree.refit(points, faces);
        self.moments = with_simd(Make(&self.tree));
    }

    /// Returns the winding number at a point. `beta` is at least 1.
    #[inline(always)]
    pub(super) fn number(&self, q: [f32; 3], beta: f32) -> f32 {
        if !is_valid(q) {
            return 0.0;
        }
        let mut sum = Sum { of: self, q, beta, value: 0.0, excess: 0.0 };
        sum.traverse();
        sum.value
    }
}

/// Returns 1 / sqrt(a) to about an ulp.
#[inline(always)]
fn inverse_root(a: f32) -> f32 {
    let a = if a < f32::MIN_POSITIVE { f32::MIN_POSITIVE } else { a };
    let mut root = f32::from_bits(0x5f37_642fu32.wrapping_sub(a.to_bits() >> 1));
    for _ in 0..2 {
        let off = fma(-(a * root), root, 1.0);
        root = fma(root * off, fma(0.375, off, 0.5), root);
    }
    root
}

/// Returns the tangent of half the solid angle of a triangle, as a fraction. `legs` lead to its corners.
#[inline(always)]
fn solid_angle([a, b, c]: [[f32; 3]; 3], area: [f32; 3]) -> [f32; 2] {
    let root = |v| inverse_root(length_squared(v));
    let (ia, ib, ic) = (root(a), root(b), root(c));
    let (ab, bc, ca) = (dot(a, b) * ia * ib, dot(b, c) * ib * ic, dot(c, a) * ic * ia);
    let under = (ab + bc) + (ca + 1.0);
    let (least, more, of_two) = if ia < ib { (ia, ib, b) } else { (ib, ia, a) };
    let (nearest, greatest, other) = if more < ic { (c, ic, more) } else { (of_two, more, ic) };
    let height = dot(mul(nearest, greatest), area);
    [height * least * other, under]
}

/// Returns the part of the winding number that is due to some triangles.
#[inline(always)]
fn winding_of(triangles: &[Corners], q: [f32; 3]) -> f32 {
    let (mut re, mut im, mut turns) = (1.0f32, 0.0f32, 0.0f32);
    for triangle in triangles {
        let [a, b, c] = triangle.ordered;
        let area = cross(sub(b, a), sub(c, a));
        let [over, under] = solid_angle([sub(a, q), sub(b, q), sub(c, q)], area);
        // The point is in the plane of the triangle, or the face is skipped (NaN).
        if over == 0.0 || over.is_nan() {
            continue;
        }
        let over = if triangle.turned { -over } else { over };
        let (below, down) = (im < 0.0, over < 0.0);
        let real = fma(re, under, -(im * over));
        im = fma(re, over, im * under);
        re = real;
        if below == down && (im < 0.0) != below {
            turns += if below { -1.0 } else { 1.0 };
        }
    }
    fma(angle(im, re), 0.159_154_94, turns)
}

/// Returns the angle from the x axis to (x, y): `exact::atan2` of `geom/math/angle.cuh` for f32.
#[inline(always)]
fn angle(y: f32, x: f32) -> f32 {
    #[allow(clippy::excessive_precision, reason = "the digits of the header")]
    const TERMS: [f32; 8] = [
        0.002_920_691_156_759_858,
        -0.016_367_923_468_351_364,
        0.043_211_851_269_006_73,
        -0.075_522_132_217_884_06,
        0.106_660_038_232_803_34,
        -0.142_110_556_364_059_45,
        0.199_937_731_027_603_15,
        -0.333_331_525_325_775_15,
    ];
    let (height, width) = (y.abs(), x.abs());
    let (low, high) = if height < width { (height, width) } else { (width, height) };
    if high == 0.0 {
        return 0.0;
    }
    let t = low / high;
    let s = t * t;
    let [first, rest @ ..] = TERMS;
    let mut q = first;
    for term in rest {
        q = fma(s, q, term);
    }
    let mut angle = fma(t * s, q, t);
    if width < height {
        angle = std::f32::consts::FRAC_PI_2 - angle;
    }
    if x < 0.0 {
        angle = std::f32::consts::PI - angle;
    }
    if y < 0.0 { -angle } else { angle }
}

/// A sum over the hierarchy for one point: W. Kahan's compensated sum.
struct Sum<'a> {
    of: &'a Winding,
    q: [f32; 3],
    beta: f32,
    value: f32,
    excess: f32,
}

impl Sum<'_> {
    #[inline(always)]
    fn add(&mut self, term: f32) {
        let part = term - self.excess;
        let sum = self.value + part;
        self.excess = (sum - self.value) - part;
        self.value = sum;
    }

    /// Adds a child of a node if it is distant; else returns it.
    #[inline(always)]
    fn add_far(&mut self, node: usize, lane: usize) -> Option<u32> {
        let child = self.of.tree.nodes[node].children[lane % 4];
        if child == NOTHING {
            return None;
        }
        let Moments { center, radius, dipole, quadrupole, octupole } =
            &self.of.moments[node][lane % 4];
        let d = sub(*center, self.q);
        let (square, near) = (length_squared(d), self.beta * radius);
        // With an infinite beta, a radius of 0 gives NaN: the child is not distant.
        let is_far = near * near < square;
        if !is_far {
            return Some(child);
        }
        let [qxx, qyy, qxy, qxz, qyz] = *quadrupole;
        let [oxxx, oxyy, oxxy, oyyy, oxxz, oyyz, oxyz] = *octupole;
        let inverse = inverse_root(square);
        let size = radius * inverse;
        let [x, y, z] = mul(d, size * inverse);
        let (zz, yz) = (z * z, y * z);
        let twice = zz + zz;
        let (xx, yy) = (fma(x, x, -zz), fma(y, y, -zz));
        let [nx, ny, nz] = *dipole;
        let of_x = fma(qxy, y, fma(qxz, z, nx));
        let of_x = fma(oxxx, xx - twice, of_x);
        let of_x = fma(oxyz, yz, fma(oxyy, yy, of_x));
        let of_y = fma(oyyy, yy - twice, fma(oxxy, xx, fma(qyz, z, ny)));
        let of_z = fma(oxxz, fma(3.0, xx, twice), nz);
        let of_z = fma(oyyz, fma(3.0, yy, twice), of_z);
        let all = fma(qxx, xx, qyy * yy);
        let all = fma(x, of_x, fma(y, of_y, fma(z, of_z, all)));
        self.add(size * all);
        None
    }

    /// Adds the triangles of a child if it is a leaf. Returns whether it is.
    #[inline(always)]
    fn add_near(&mut self, child: u32) -> bool {
        let Some(places) = places_of(child) else { return false };
        let triangles = self.of.tree.triangles.get(places).unwrap_or_default();
        self.add(winding_of(triangles, self.q));
        true
    }

    /// Adds all triangles, in the order of the device.
    #[inline(always)]
    fn traverse(&mut self) {
        let (mut stack, mut size, mut next) = ([0u32; STACK], 0, 0u32);
        loop {
            if !self.add_near(next) {
                if size + 4 > STACK {
                    self.walk(next);
                } else {
                    for lane in (0..4).rev() {
                        if let Some(child) = self.add_far(next as usize, lane) {
                            stack[size % STACK] = child;
                            size += 1;
                        }
                    }
                }
            }
            if size == 0 {
                return;
            }
            size -= 1;
            next = stack[size % STACK];
        }
    }

    /// Adds all triangles below a node without a stack, as the device does where its stack is full.
    fn walk(&mut self, top: u32) {
        let (mut node, mut lane) = (top, 0);
        loop {
            if lane == 4 {
                let parent = self.of.tree.nodes[node as usize].parent;
                if node == top || parent == NOTHING {
                    return;
                }
                (node, lane) = (parent / 4, parent as usize % 4 + 1);
                continue;
            }
            match self.add_far(node as usize, lane) {
                Some(child) if !self.add_near(child) => (node, lane) = (child, 0),
                _ => lane += 1,
            }
        }
    }
}

/// The winding number, with this beta. The mesh has the hierarchy for it.
#[derive(Clone, Copy)]
pub(super) struct Number<'a>(pub(super) &'a Winding, pub(super) f32);

impl PointQuery for Number<'_> {
    type Found = f32;

    #[inline(always)]
    fn find<S: Simd>(self, _: S, _: &Mesh, (q, _): ([f32; 3], f32), _: &mut Option<u32>) -> f32 {
        self.0.number(q, self.1)
    }
}

/// The signed distance by winding numbers, and the closest point.
#[derive(Clone, Copy)]
pub(super) struct ByWinding<'a>(pub(super) &'a Winding);

impl PointQuery for ByWinding<'_> {
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
        let size = closest.distance_squared.sqrt();
        Some((if 0.5 < self.0.number(q, BETA) { -size } else { size }, closest))
    }
}
