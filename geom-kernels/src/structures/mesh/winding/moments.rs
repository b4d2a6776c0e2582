//! The moments of nodes: `geom/mesh/moments.cuh` and `moments_build.cuh`, which have the mathematics.

use super::super::exact::{add, cross, fma, length_squared, mul, narrow, sub, widen};
use super::super::simd::{Simd, Task};
use super::wide::{Corners, Node, Wide, places_of};

/// All triangles below a child of a node, for points that are distant.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) center: [f32; 3],
    /// The radius of a ball around the centre with all triangles that have an area.
    pub(super) radius: f32,
    pub(super) dipole: [f32; 3],
    /// Of xx, yy, xy, xz and yz.
    pub(super) quadrupole: [f32; 5],
    /// Of xxx, xyy, xxy, yyy, xxz, yyz and xyz.
    pub(super) octupole: [f32; 7],
}

/// A symmetric matrix: xx, yy, zz, xy, xz, yz.
type Symmetric2 = [f64; 6];
/// A symmetric tensor of three indices: xxx, yyy, zzz, xxy, xxz, xyy, yyz, xzz, yzz, xyz.
type Symmetric3 = [f64; 10];

/// The moments of triangles about a point, not yet made traceless. The octupole is three times its value.
#[derive(Clone, Copy, Default)]
struct Expansion {
    area: f64,
    center: [f64; 3],
    radius: f64,
    dipole: [f64; 3],
    quadrupole: Symmetric2,
    octupole: Symmetric3,
}

/// Returns `a + k s`.
#[inline(always)]
fn add_times(a: Symmetric2, k: f64, s: Symmetric2) -> Symmetric2 {
    let of = |i: usize| fma(k, s[i], a[i]);
    [of(0), of(1), of(2), of(3), of(4), of(5)]
}

/// Returns the symmetric part of v w^T.
#[inline(always)]
fn product(v: [f64; 3], w: [f64; 3]) -> Symmetric2 {
    let half = |i: usize, k: usize| 0.5 * fma(v[i], w[k], v[k] * w[i]);
    [v[0] * w[0], v[1] * w[1], v[2] * w[2], half(0, 1), half(0, 2), half(1, 2)]
}

/// Returns `t` plus three times the symmetric part of v times s.
#[inline(always)]
fn add_product(t: Symmetric3, v: [f64; 3], s: Symmetric2) -> Symmetric3 {
    let ([x, y, z], [wx, wy, wz]) = (v, add(v, v));
    let [xx, yy, zz, xy, xz, yz] = s;
    [
        fma(3.0 * x, xx, t[0]),
        fma(3.0 * y, yy, t[1]),
        fma(3.0 * z, zz, t[2]),
        fma(wx, xy, fma(y, xx, t[3])),
        fma(wx, xz, fma(z, xx, t[4])),
        fma(wy, xy, fma(x, yy, t[5])),
        fma(wy, yz, fma(z, yy, t[6])),
        fma(wz, xz, fma(x, zz, t[7])),
        fma(wz, yz, fma(y, zz, t[8])),
        fma(x, yz, fma(y, xz, fma(z, xy, t[9]))),
    ]
}

/// Factors of the dipole, the quadrupole and the octupole, for a radius that is not 0.
#[inline(always)]
fn units(r: f64) -> [f64; 3] {
    let inverse = 1.0 / r;
    let dipole = 0.079_577_471_545_947_67 * inverse * inverse;
    let quadrupole = -3.0 * dipole * inverse;
    [dipole, quadrupole, -2.5 * quadrupole * inverse]
}

/// Returns the stored form, and the area divided by the square of the radius, for the parent.
#[inline(always)]
fn pack(e: &Expansion) -> (Moments, f32) {
    // The radius is rounded up.
    let radius = (e.radius * 1.000_000_24) as f32;
    let mut out = Moments { center: narrow(e.center), radius, ..Moments::default() };
    if radius.is_nan() || radius <= 0.0 {
        return (out, 0.0);
    }
    let radius = f64::from(radius);
    let [dipole, quadrupole, once] = units(radius);
    out.dipole = narrow(mul(e.dipole, dipole));

    let [xx, yy, zz, xy, xz, yz] = e.quadrupole;
    let (trace, twice) = ((xx + yy + zz) / 3.0, 2.0 * quadrupole);
    out.quadrupole = [
        ((xx - trace) * quadrupole) as f32,
        ((yy - trace) * quadrupole) as f32,
        (xy * twice) as f32,
        (xz * twice) as f32,
        (yz * twice) as f32,
    ];

    let [xxx, yyy, zzz, xxy, xxz, xyy, yyz, xzz, yzz, xyz] = e.octupole;
    let x = (xxx + xyy + xzz) / 5.0;
    let y = (xxy + yyy + yzz) / 5.0;
    let z = (xxz + yyz + zzz) / 5.0;
    let third = once / 3.0;
    out.octupole = [
        (fma(-3.0, x, xxx) * third) as f32,
        ((xyy - x) * once) as f32,
        ((xxy - y) * once) as f32,
        (fma(-3.0, y, yyy) * third) as f32,
        ((xxz - z) * third) as f32,
        ((yyz - z) * third) as f32,
        (xyz * (once + once)) as f32,
    ];
    (out, (e.area / radius / radius) as f32)
}

#[inline(always)]
fn unpack(of: &Moments, area: f32) -> Expansion {
    let mut out = Expansion { center: widen(of.center), ..Expansion::default() };
    out.radius = f64::from(of.radius);
    if of.radius.is_nan() || of.radius <= 0.0 {
        return out;
    }
    let [dipole, quadrupole, octupole] = units(out.radius);
    out.area = f64::from(area) * out.radius * out.radius;
    out.dipole = mul(widen(of.dipole), 1.0 / dipole);

    let (once, half) = (1.0 / quadrupole, 0.5 * (1.0 / quadrupole));
    let [xx, yy, xy, xz, yz] = of.quadrupole;
    let (xx, yy) = (f64::from(xx) * once, f64::from(yy) * once);
    let [xy, xz, yz] = mul(widen([xy, xz, yz]), half);
    out.quadrupole = [xx, yy, -(xx + yy), xy, xz, yz];

    let (unit, three) = (1.0 / octupole, 3.0 * (1.0 / octupole));
    let [xxx, xyy, xxy, yyy, xxz, yyz, xyz] = of.octupole;
    let (xxx, yyy) = (f64::from(xxx) * three, f64::from(yyy) * three);
    let (xyy, xxy) = (f64::from(xyy) * unit, f64::from(xxy) * unit);
    let (xxz, yyz) = (f64::from(xxz) * three, f64::from(yyz) * three);
    let xyz = 0.5 * f64::from(xyz) * unit;
    let (xzz, yzz, zzz) = (-(xxx + xyy), -(xxy + yyy), -(xxz + yyz));
    out.octupole = [xxx, yyy, zzz, xxy, xxz, xyy, yyz, xzz, yzz, xyz];
    out
}

/// Returns the corners of a triangle, a vector along its normal whose length is twice its area, and its area; `None` if
/// it has no area or is skipped.
#[inline(always)]
fn leaf_triangle(of: &Corners) -> Option<([[f64; 3]; 3], [f64; 3], f64)> {
    let [a, b, c] = [widen(of.ordered[0]), widen(of.ordered[1]), widen(of.ordered[2])];
    let n = cross(sub(b, a), sub(c, a));
    let normal = if of.turned { [-n[0], -n[1], -n[2]] } else { n };
    let area = 0.5 * length_squared(n).sqrt();
    (of.has_area && 0.0 < area).then_some(([a, b, c], normal, area))
}

#[inline(always)]
fn greater(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

/// Returns the moments of a leaf, about the mean of its triangles by area, rounded to f32.
#[inline(always)]
fn expand_leaf(triangles: &[Corners]) -> Expansion {
    let mut out = Expansion::default();
    for ([a, b, c], _, area) in triangles.iter().filter_map(leaf_triangle) {
        out.area += area;
        out.center = add(out.center, mul(add(add(a, b), c), area / 3.0));
    }
    if out.area.is_nan() || out.area <= 0.0 {
        return Expansion::default();
    }
    out.center = widen(narrow(mul(out.center, 1.0 / out.area)));
    let mut farthest = 0.0;
    for ([a, b, c], normal, _) in triangles.iter().filter_map(leaf_triangle) {
        let [a, b, c] = [sub(a, out.center), sub(b, out.center), sub(c, out.center)];
        let (area, sum) = (mul(normal, 0.5), add(add(a, b), c));
        out.dipole = add(out.dipole, area);
        out.quadrupole = add_times(out.quadrupole, 1.0 / 3.0, product(area, sum));
        let mut second = product(sum, sum);
        for corner in [a, b, c] {
            second = add_times(second, 1.0, product(corner, corner));
            farthest = greater(farthest, length_squared(corner));
        }
        out.octupole = add_product(out.octupole, mul(area, 1.0 / 12.0), second);
    }
    out.radius = farthest.sqrt();
    out
}

/// Returns the sums of four numbers in the device's order.
#[inline(always)]
fn sums<const N: usize>(of: [[f64; N]; 4]) -> [f64; N] {
    let mut sums = [0.0; N];
    for (i, sum) in sums.iter_mut().enumerate() {
        *sum = (of[0][i] + of[1][i]) + (of[2][i] + of[3][i]);
    }
    sums
}

/// Returns the moments of a node with these children.
#[inline(always)]
fn unite_four(mut children: [Expansion; 4], node: &Node) -> Expansion {
    let each = |of: fn(&Expansion) -> [f64; 3]| {
        let [a, b, c, d] = &children;
        sums([of(a), of(b), of(c), of(d)])
    };
    let [area, ..] = each(|of| [of.area, 0.0, 0.0]);
    let weighted = each(|of| mul(of.center, of.area));
    let center = if 0.0 < area { widen(narrow(mul(weighted, 1.0 / area))) } else { [0.0; 3] };
    let mut radius = 0.0;
    for (lane, child) in children.iter_mut().enumerate() {
        if 0.0 < child.area {
            let d = sub(child.center, center);
            let (away, reach) =
                (length_squared(d).sqrt() + child.radius, Wide::reach(node, lane, center));
            radius = greater(radius, if away < reach { away } else { reach });
            child.octupole = add_product(child.octupole, mul(d, 2.0), child.quadrupole);
            child.octupole = add_product(child.octupole, child.dipole, product(d, d));
            child.quadrupole = add_times(child.quadrupole, 1.0, product(child.dipole, d));
        }
    }
    let [a, b, c, d] = &children;
    Expansion {
        area,
        center,
        radius,
        dipole: sums([a.dipole, b.dipole, c.dipole, d.dipole]),
        quadrupole: sums([a.quadrupole, b.quadrupole, c.quadrupole, d.quadrupole]),
        octupole: sums([a.octupole, b.octupole, c.octupole, d.octupole]),
    }
}

/// Computes the moments of all children.
pub(super) struct Make<'a>(pub(super) &'a Wide);

impl Task for Make<'_> {
    type Output = Vec<[Moments; 4]>;

    #[inline(always)]
    fn run<S: Simd>(self, _: S) -> Self::Output {
        let Wide { nodes, triangles, .. } = self.0;
        let mut all = vec![[(Moments::default(), 0.0); 4]; nodes.len()];
        for (number, node) in nodes.iter().enumerate().rev() {
            let mut children = [Expansion::default(); 4];
            for (lane, child) in children.iter_mut().enumerate() {
                let to = &mut all[number][lane];
                if let Some(places) = places_of(node.children[lane]) {
                    *to = pack(&expand_leaf(&triangles[places]));
                }
                *child = unpack(&to.0, to.1);
            }
            let (up, lane) = ((node.parent / 4) as usize, (node.parent % 4) as usize);
            if let Some(parent) = all[..number].get_mut(up) {
                parent[lane] = pack(&unite_four(children, node));
            }
        }
        all.into_iter().map(without_areas).collect()
    }
}

/// Drops the areas. (`array::map` is not inlined.)
#[inline(always)]
fn without_areas(node: [(Moments, f32); 4]) -> [Moments; 4] {
    let [a, b, c, d] = node;
    [a.0, b.0, c.0, d.0]
}
