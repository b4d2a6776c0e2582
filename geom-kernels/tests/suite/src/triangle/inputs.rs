//! Triangles of all shapes, and points around them.

use super::{Point, Triangle};
use test_harness::Rng;

/// In -1..1, per axis.
pub(super) fn point(rng: &mut Rng) -> Point {
    [0; 3].map(|_: i32| rng.float())
}

/// Of any magnitude from 2^-149 to 2^60, or 0.
pub(super) fn any_size(rng: &mut Rng) -> f32 {
    let power = rng.below(210) as i32 - 149;
    (f64::from(rng.float()) * 2_f64.powi(power)) as f32
}

/// A whole number from -n to n.
pub(super) fn whole(rng: &mut Rng, n: usize) -> f32 {
    rng.below(2 * n + 1) as f32 - n as f32
}

fn plus(a: Point, b: Point, by: f32) -> Point {
    std::array::from_fn(|i| (f64::from(a[i]) + f64::from(b[i]) * f64::from(by)) as f32)
}

/// How many kinds of triangles there are.
pub(super) const KINDS: usize = 11;

/// A triangle of this kind.
pub(super) fn triangle(rng: &mut Rng, kind: usize) -> Triangle {
    let base: Triangle = [0; 3].map(|_: i32| point(rng));
    let [a, b, c] = base;
    match kind {
        // A needle or a cap: two corners, and a third next to the line through them.
        0 => {
            let along = plus(b, a, -1.0);
            let power = -(rng.below(14) as i32);
            let third = plus(plus(a, along, rng.float() * 1.5), c, 10_f32.powi(power));
            let mut t = [a, b, third];
            t.rotate_left(rng.below(3));
            t
        }
        // Needles of 1e-7.
        1 => [a, b, plus(plus(a, plus(b, a, -1.0), 0.5), c, 1e-7)],
        // Small whole numbers, which often are degenerate.
        2 => [0; 3].map(|_: i32| [0; 3].map(|_: i32| whole(rng, 2))),
        // On a line, exactly.
        3 => {
            let (a, along) =
                ([0; 3].map(|_: i32| whole(rng, 9)), [0; 3].map(|_: i32| whole(rng, 9)));
            [a, plus(a, along, whole(rng, 4)), plus(a, along, whole(rng, 4))]
        }
        // Two or three corners that coincide.
        4 => [[a, a, c], [a, b, a], [a, b, b], [a, a, a]][rng.below(4)],
        // Far from the origin.
        5 => base.map(|p| p.map(|x| x + [1e3, 1e5][rng.below(2)])),
        6 => base.map(|p| p.map(|x| x + 1e5)),
        // Very large, and very small down to subnormal numbers.
        7 => {
            let scale = [2_f64.powi(59), 2_f64.powi(-60), 2_f64.powi(-110), 2_f64.powi(-135)];
            let scale = scale[rng.below(4)];
            base.map(|p| p.map(|x| (f64::from(x) * scale) as f32))
        }
        // Sizes that have nothing to do with each other.
        8 => base.map(|p| p.map(|_| any_size(rng))),
        // On a line but for one corner next to the origin: thinner than f64 can tell.
        9 => {
            let tiny = 2_f32.powi(-20 - rng.below(40) as i32);
            let mut t = [a.map(|x| x * tiny), b, b.map(|x| x * 0.5)];
            t.rotate_left(rng.below(3));
            t
        }
        _ => base,
    }
}

/// (1 - u - v) a + u b + v c, rounded from f64.
pub(super) fn at(t: &Triangle, u: f64, v: f64) -> Point {
    let [a, b, c] = *t;
    std::array::from_fn(|i| {
        ((1.0 - u - v) * f64::from(a[i]) + u * f64::from(b[i]) + v * f64::from(c[i])) as f32
    })
}

/// The largest distance of two corners along an axis.
pub(super) fn size(t: &Triangle) -> f32 {
    let spread = |i: usize| {
        let (low, high) = bounds(t);
        high[i] - low[i]
    };
    spread(0).max(spread(1)).max(spread(2))
}

pub(super) fn bounds(t: &Triangle) -> (Point, Point) {
    let [a, b, c] = *t;
    let low = std::array::from_fn(|i| a[i].min(b[i]).min(c[i]));
    (low, std::array::from_fn(|i| a[i].max(b[i]).max(c[i])))
}

/// A unit in the last place up or down, or none, in each axis.
pub(super) fn beside(rng: &mut Rng, p: Point) -> Point {
    p.map(|x| match rng.below(3) {
        0 => x.next_up(),
        1 => x.next_down(),
        _ => x,
    })
}

/// A point on, next to, around or far from the triangle, never beyond 2^60.
pub(super) fn query(rng: &mut Rng, t: &Triangle) -> Point {
    let (u, v) = (f64::from(rng.float()).abs(), f64::from(rng.float()).abs());
    let corner = rng.below(3);
    let on = match rng.below(5) {
        0 => t[corner],
        1 => at(t, [u, 0.0, u][corner], [0.0, u, 1.0 - u][corner]),
        2 => at(t, u.min(1.0 - v), v.min(1.0 - u)),
        3 => at(t, 3.0 * u - 1.0, 3.0 * v - 1.0),
        _ => at(t, u * 0.5, v * 0.5),
    };
    let away = match rng.below(6) {
        0 => 0.0,
        1 => return beside(rng, on).map(bounded),
        2 => 1e-6,
        3 => 0.1,
        4 => 3.0,
        _ => 1e6,
    };
    // Straight up from the plane, or anywhere.
    let direction = if rng.below(2) == 0 { point(rng) } else { up(t) };
    plus(on, direction, (size(t) * away).min(1e17)).map(bounded)
}

fn up(t: &Triangle) -> Point {
    let n = super::real::area(t);
    let length = n.iter().map(|x| x * x).sum::<f64>().sqrt();
    if length > 0.0 { n.map(|x| (x / length) as f32) } else { [1.0, 0.0, 0.0] }
}

fn bounded(x: f32) -> f32 {
    let most = 2_f32.powi(60);
    x.clamp(-most, most)
}
