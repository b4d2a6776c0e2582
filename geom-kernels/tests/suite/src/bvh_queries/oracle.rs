//! What queries find, by looking at every box. The arithmetic is that of the headers, in f32 with every
//! rounding spelled out; those that are not to nearest come from exact products in f64.

use geom_kernels::{Aabb, Ray};

pub(super) const MOST: f32 = (1u64 << 60) as f32;

fn in_range(p: [f32; 3]) -> bool {
    p.iter().all(|x| x.abs() <= MOST)
}

/// Whether a box can be found at all.
pub(super) fn is_item(b: &Aabb<f32>) -> bool {
    in_range(b.lower) && in_range(b.upper) && (0..3).all(|axis| b.lower[axis] <= b.upper[axis])
}

/// Whether two boxes have a point in common, the second being any.
pub(super) fn overlap(item: &Aabb<f32>, query: &Aabb<f32>) -> bool {
    (0..3).all(|axis| {
        query.lower[axis] <= query.upper[axis]
            && item.lower[axis] <= query.upper[axis]
            && query.lower[axis] <= item.upper[axis]
    })
}

fn square(d: [f32; 3]) -> f32 {
    d[2].mul_add(d[2], d[1].mul_add(d[1], d[0] * d[0]))
}

/// The square of the distance, as it is rounded.
pub(super) fn distance_squared(item: &Aabb<f32>, p: [f32; 3]) -> f32 {
    square(std::array::from_fn(|axis| {
        (item.lower[axis] - p[axis]).max(p[axis] - item.upper[axis]).max(0.0)
    }))
}

/// The same to the box's centre.
pub(super) fn center_distance_squared(item: &Aabb<f32>, p: [f32; 3]) -> f32 {
    square(std::array::from_fn(|axis| 0.5 * item.lower[axis] + 0.5 * item.upper[axis] - p[axis]))
}

/// The greatest square of a distance that is within a radius; none if that finds nothing.
pub(super) fn reach(center: [f32; 3], radius: f32) -> Option<f32> {
    (in_range(center) && radius >= 0.0).then(|| (radius * radius).min(f32::MAX))
}

fn product(a: f32, b: f32) -> (f64, f32) {
    let exact = f64::from(a) * f64::from(b);
    (exact, exact as f32)
}

fn mul_down(a: f32, b: f32) -> f32 {
    let (exact, nearest) = product(a, b);
    if f64::from(nearest) > exact { nearest.next_down() } else { nearest }
}

fn mul_up(a: f32, b: f32) -> f32 {
    let (exact, nearest) = product(a, b);
    if f64::from(nearest) < exact { nearest.next_up() } else { nearest }
}

/// A ray that finds anything, with a t_min of 0 at least and a finite t_max.
pub(super) fn prepared(ray: &Ray) -> Option<Ray> {
    let longest = ray.direction.iter().fold(0.0f32, |most, x| most.max(x.abs()));
    let t_min = ray.t_min.max(0.0) + 0.0;
    let t_max = ray.t_max.min(f32::MAX);
    let fine = in_range(ray.origin)
        && in_range(ray.direction)
        && longest >= MOST.recip()
        && ray.t_min <= ray.t_max
        && t_min <= t_max;
    fine.then_some(Ray { t_min, t_max, ..*ray })
}

/// Where a prepared ray meets a box, if it does.
pub(super) fn enters(item: &Aabb<f32>, ray: &Ray) -> Option<f32> {
    let (mut enter, mut leave) = (f32::NAN, f32::NAN);
    for axis in 0..3 {
        let d = ray.direction[axis];
        let d = if d.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(d) } else { d };
        let inverse = 1.0 / d;
        let planes = [item.lower[axis], item.upper[axis]];
        let back = usize::from(inverse.is_sign_negative());
        // A NaN loses.
        enter = enter.max(mul_down(planes[back] - ray.origin[axis], inverse));
        leave = leave.min(mul_up(planes[1 - back] - ray.origin[axis], inverse));
    }
    // Never -0.
    let enter = mul_down(enter, f32::from_bits(0x3f7f_fffc)).max(ray.t_min) + 0.0;
    (enter <= leave.min(ray.t_max)).then_some(enter)
}

/// Indices of those boxes that are items and for which `f` has a value.
pub(super) fn find<V>(
    items: &[Option<Aabb<f32>>],
    f: impl Fn(&Aabb<f32>) -> Option<V>,
) -> Vec<(u32, V)> {
    let all = (0..).zip(items);
    all.filter_map(|(i, item)| Some((i, f(item.as_ref()?)?))).collect()
}

/// The boxes that can be found, of a hierarchy that was built from `built` and has `now`.
pub(crate) fn items(built: &[Aabb<f32>], now: &[Aabb<f32>]) -> Vec<Option<Aabb<f32>>> {
    let both = built.iter().zip(now);
    both.map(|(built, now)| (is_item(built) && is_item(now)).then_some(*now)).collect()
}

pub(crate) fn in_box(items: &[Option<Aabb<f32>>], query: &Aabb<f32>) -> Vec<(u32, f32)> {
    find(items, |item| overlap(item, query).then_some(0.0))
}

pub(crate) fn within(
    items: &[Option<Aabb<f32>>],
    center: [f32; 3],
    radius: f32,
) -> Vec<(u32, f32)> {
    let Some(reach) = reach(center, radius) else { return Vec::new() };
    find(items, |item| Some(distance_squared(item, center)).filter(|square| *square <= reach))
}

pub(super) fn along(items: &[Option<Aabb<f32>>], ray: &Ray) -> Vec<(u32, f32)> {
    let Some(ray) = prepared(ray) else { return Vec::new() };
    find(items, |item| enters(item, &ray))
}
