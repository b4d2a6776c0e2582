//! Boxes of all kinds, and what is asked of them: mostly what lies on them.

use bytemuck::{Pod, Zeroable};
use geom_kernels::{Aabb, Ray};

use super::oracle::MOST;
use test_harness::Rng;

/// Boxes, and what they are called.
pub(super) struct Input {
    pub(super) name: &'static str,
    pub(super) boxes: Vec<Aabb<f32>>,
}

fn point(rng: &mut Rng) -> [f32; 3] {
    [rng.float(), rng.float(), rng.float()]
}

/// The smallest box of two points.
fn hull(a: [f32; 3], b: [f32; 3]) -> Aabb<f32> {
    let pick = |f: fn(f32, f32) -> f32| std::array::from_fn(|axis| f(a[axis], b[axis]));
    Aabb { lower: pick(f32::min), upper: pick(f32::max) }
}

/// Small boxes all over a cube.
pub(super) fn uniform(rng: &mut Rng, n: usize) -> Vec<Aabb<f32>> {
    let near = |rng: &mut Rng, p: [f32; 3]| p.map(|x| x + 0.1 * rng.float());
    (0..n)
        .map(|_| {
            let at = point(rng);
            let (a, b) = (near(rng, at), near(rng, at));
            hull(a, b)
        })
        .collect()
}

/// Each twice as far as the last: a hierarchy by the order of centres is as deep as it gets.
fn geometric(n: usize) -> Vec<Aabb<f32>> {
    let far = |i: usize| [((i % 120) as f32 - 60.0).exp2(); 3];
    (0..n)
        .map(|i| Aabb { lower: far(i), upper: far(i).map(|x| 1.5 * x).map(|x| x.min(MOST)) })
        .collect()
}

/// A box that is not one: each kind in turn.
pub(super) fn invalid(kind: usize) -> Aabb<f32> {
    let mut b = Aabb { lower: [0.0; 3], upper: [1.0; 3] };
    match kind % 6 {
        0 => b.lower[0] = f32::NAN,
        1 => b.upper[1] = f32::NAN,
        2 => b.upper[2] = f32::INFINITY,
        3 => b.lower[1] = -MOST.next_up(),
        4 => b.lower[2] = 1.0f32.next_up(),
        _ => b = Aabb::<f32>::EMPTY,
    }
    b
}

/// All kinds, `n` of each.
pub(super) fn inputs(rng: &mut Rng, n: usize) -> Vec<Input> {
    let mut all = Vec::new();
    let mut input = |name, boxes| all.push(Input { name, boxes });
    input("uniform", uniform(rng, n));
    // Whole numbers: faces touch, and points lie on them.
    let mut whole = |_| {
        let at: [f32; 3] = std::array::from_fn(|_| rng.below(8) as f32);
        hull(at, std::array::from_fn(|axis| at[axis] + rng.below(3) as f32))
    };
    input("whole numbers", (0..n).map(&mut whole).collect());
    input("equal", vec![Aabb { lower: [-1.0, 2.0, 3.0], upper: [4.0, 5.0, 6.0] }; n]);
    let shell = |i: usize| Aabb { lower: [-(i as f32); 3], upper: [i as f32; 3] };
    input("shells", (0..n).map(shell).collect());
    input("geometric", geometric(n));
    let mut huge = |_| hull(point(rng).map(|x| x * MOST), point(rng).map(|x| x * MOST));
    input("huge", (0..n).map(&mut huge).collect());
    let mut tiny = |_| hull(point(rng).map(|x| x * 1e-40), point(rng).map(|x| x * 1e-38));
    input("tiny", (0..n).map(&mut tiny).collect());
    let mut skipped = uniform(rng, n);
    for (kind, i) in (0..n).step_by(3).enumerate() {
        skipped[i] = invalid(kind);
    }
    input("skipped", skipped);
    input("all skipped", (0..n).map(invalid).collect());
    all
}

/// One of each kind: what the test's kernels take.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Query {
    pub(crate) wanted: Aabb<f32>,
    pub(crate) center: [f32; 3],
    pub(crate) radius: f32,
    unused: [u32; 2],
    pub(super) ray: Ray,
}

/// `n` queries of these boxes.
pub(crate) fn queries(rng: &mut Rng, boxes: &[Aabb<f32>], n: usize) -> Vec<Query> {
    let valid: Vec<Aabb<f32>> = boxes.iter().copied().filter(super::oracle::is_item).collect();
    let unit = Aabb { lower: [0.0; 3], upper: [1.0; 3] };
    (0..n)
        .map(|i| {
            let mut some = || {
                if valid.is_empty() { unit } else { valid[rng.below(valid.len())] }
            };
            let (a, b) = (some(), some());
            let center = place(rng, &a);
            Query {
                wanted: wanted(rng, i, &a, &b),
                center: odd(rng, center),
                radius: radius(rng, i, &a, &b),
                unused: [0; 2],
                ray: ray(rng, i, &a, &b),
            }
        })
        .collect()
}

/// A corner, a point of a face or an edge, or one inside.
fn place(rng: &mut Rng, b: &Aabb<f32>) -> [f32; 3] {
    std::array::from_fn(|axis| match rng.below(3) {
        0 => b.lower[axis],
        1 => b.upper[axis],
        _ => 0.5 * b.lower[axis] + 0.5 * b.upper[axis],
    })
}

/// Rarely something that is no point.
fn odd(rng: &mut Rng, mut p: [f32; 3]) -> [f32; 3] {
    if rng.below(16) == 0 {
        let all = [f32::NAN, f32::INFINITY, MOST.next_up(), -MOST.next_up()];
        p[rng.below(3)] = all[rng.below(4)];
    }
    p
}

fn wanted(rng: &mut Rng, i: usize, a: &Aabb<f32>, b: &Aabb<f32>) -> Aabb<f32> {
    let axis = rng.below(3);
    let mut wanted = *a;
    match i % 8 {
        0 => {}
        1 => wanted = hull(place(rng, a), place(rng, b)),
        // It touches, and it just does not.
        2 => wanted.lower[axis] = a.upper[axis],
        3 => {
            wanted.lower[axis] = a.upper[axis].next_up();
            wanted.upper[axis] = wanted.lower[axis];
        }
        4 => wanted.lower[axis] = f32::NEG_INFINITY,
        5 => wanted = Aabb { lower: [f32::NEG_INFINITY; 3], upper: [f32::INFINITY; 3] },
        6 => wanted = Aabb { lower: place(rng, b), upper: place(rng, a) },
        _ => {
            let all = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
            wanted.lower[axis] = all[rng.below(3)];
        }
    }
    wanted
}

fn radius(rng: &mut Rng, i: usize, a: &Aabb<f32>, b: &Aabb<f32>) -> f32 {
    let gap = b.lower[i % 3] - a.upper[i % 3];
    match rng.below(8) {
        0 => 0.0,
        1 => f32::INFINITY,
        2 => [f32::NAN, -1.0, -f32::MIN_POSITIVE, -0.0][rng.below(4)],
        3 | 4 => gap.abs(),
        5 => gap.abs().next_down(),
        _ => 0.3 * (rng.float() + 1.0) * (gap.abs() + (a.upper[0] - a.lower[0])),
    }
}

fn ray(rng: &mut Rng, i: usize, a: &Aabb<f32>, b: &Aabb<f32>) -> Ray {
    let (from, to) = (place(rng, a), place(rng, b));
    let towards = std::array::from_fn(|axis| to[axis] * 0.5 - from[axis] * 0.5);
    let sign = if rng.below(2) == 0 { 1.0 } else { -1.0 };
    let mut along = [0.0, -0.0, 0.0];
    along[rng.below(3)] = sign;
    let ray = match i % 8 {
        // From one to another, along an axis and often within a face, from outside.
        0 | 1 => Ray::new(from, towards),
        2 => Ray::new(from, along),
        3 => {
            let back = std::array::from_fn(|axis| from[axis] - 3.0 * along[axis]);
            Ray::new(back, along)
        }
        4 => Ray::new(from, towards).between(0.0, 2.0),
        // Almost along an axis, and of odd lengths.
        5 => {
            along[rng.below(3)] = 1e-30 * rng.float();
            Ray::new(from, along)
        }
        6 => Ray::new(from, towards.map(|x: f32| x * (rng.float() * 30.0).exp2()))
            .between(0.5 * rng.float(), 1.0 + rng.float()),
        _ => {
            let ray = Ray::new(from, along);
            match rng.below(10) {
                0 => Ray::new(from, [0.0; 3]),
                1 => Ray::new(from, [f32::NAN, 1.0, 0.0]),
                2 => Ray::new(from, [f32::INFINITY, 1.0, 0.0]),
                3 => ray.between(1.0, 0.5),
                4 => ray.between(f32::NAN, 1.0),
                5 => ray.between(0.0, f32::NAN),
                6 => ray.between(-2.0, -0.0),
                7 => ray.between(f32::INFINITY, f32::INFINITY),
                8 => Ray::new(from, along.map(|x: f32| x * MOST.recip())),
                _ => Ray::new(from, along.map(|x: f32| x * MOST.next_up())),
            }
        }
    };
    Ray { origin: odd(rng, ray.origin), ..ray }
}
