//! Boxes and rays: exact answers on input whose exact answers integers hold, and the same bits under all
//! flags.

use std::fmt::Debug;

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, LaunchConfig};

use super::flags::{flags, module};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure, ensure_eq, first_difference,
};

pub(super) const SOURCE: &str = include_str!("../kernels/boxes.cu");

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::boxes",
        device(f32_answers_are_exact = |d| answers::<f32>(d, "of_float")),
        device(f64_answers_are_exact = |d| answers::<f64>(d, "of_double")),
        device(no_ray_misses_a_corner_it_is_sent_to),
        device(degenerate_input_has_a_meaning),
    ]
}

/// The results of a thread, and how many numbers each is, in the kernel's order.
const RESULTS: [(&str, usize); 27] = [
    ("is_empty", 1),
    ("overlaps", 1),
    ("contains point", 1),
    ("contains box", 1),
    ("distance_squared", 1),
    ("distance_squared_down", 1),
    ("enters", 1),
    ("enter", 1),
    ("ray overlaps", 1),
    ("closest_point", 3),
    ("center", 3),
    ("extent", 3),
    ("surface_area", 1),
    ("longest_axis", 1),
    ("grow lower", 3),
    ("grow upper", 3),
    ("unite lower", 3),
    ("unite upper", 3),
    ("intersect lower", 3),
    ("intersect upper", 3),
    ("expand lower", 3),
    ("expand upper", 3),
    ("dot", 1),
    ("length", 1),
    ("distance to a corner", 1),
    ("cross", 3),
    ("inverse", 3),
];

const INPUTS: usize = 24;
/// Coordinates are whole numbers of this.
const UNIT: f64 = 1.0 / 1024.0;

/// f32 or f64.
trait Number: Pod + PartialEq + Debug + Into<f64> {
    const EPSILON: f64;
    fn of(value: f64) -> Self;
    fn bits(self) -> u64;
    /// Rounded to nearest: a * b + c.
    fn fma(self, b: Self, c: Self) -> Self;
    fn mul(self, b: Self) -> Self;
    fn sqrt(self) -> Self;
}

macro_rules! number {
    ($float:ty) => {
        impl Number for $float {
            const EPSILON: f64 = <$float>::EPSILON as f64;
            fn of(value: f64) -> Self {
                value as $float
            }
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            fn fma(self, b: Self, c: Self) -> Self {
                self.mul_add(b, c)
            }
            fn mul(self, b: Self) -> Self {
                self * b
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
        }
    };
}
number!(f32);
number!(f64);

/// What one thread gave, by name.
struct Answer<T>(Vec<T>);

impl<T: Number> Answer<T> {
    fn get(&self, name: &str) -> Vec<f64> {
        let mut at = 0;
        for (known, count) in RESULTS {
            if known == name {
                return self.0[at..at + count].iter().map(|value| (*value).into()).collect();
            }
            at += count;
        }
        Vec::new()
    }

    /// NaN, which equals nothing, if there is no such result.
    fn one(&self, name: &str) -> f64 {
        self.get(name).first().copied().unwrap_or(f64::NAN)
    }

    fn holds(&self, name: &str) -> bool {
        self.one(name) == 1.0
    }
}

/// Runs the kernel under all flags, which must agree on every bit.
fn run<T: Number>(
    device: &TestDevice,
    kernel: &str,
    inputs: &[[f64; INPUTS]],
) -> Result<Vec<Answer<T>>, Failure> {
    let stream = device.stream()?;
    let n = inputs.len();
    let rows: usize = RESULTS.iter().map(|(_, count)| count).sum();
    let numbers: Vec<T> = inputs.as_flattened().iter().map(|value| T::of(*value)).collect();
    let input = DeviceBuffer::from_slice(&stream, &numbers)?;
    let mut first: Option<Vec<T>> = None;
    for (flag, options) in flags() {
        let kernel = module(device, SOURCE, options)?.kernel(kernel)?;
        let mut out = DeviceBuffer::<T>::zeroed(&stream, n * rows)?;
        let arguments = (&input, &mut out, n as u32);
        // SAFETY: each of n threads reads its 24 numbers and writes elements k * n + i for k < rows.
        unsafe { device.launch(&kernel, &stream, LaunchConfig::cover(n, 64), arguments) }?;
        let out = out.to_vec(&stream)?;
        if let Some(first) = &first {
            let bits = |all: &[T]| all.iter().map(|value| value.bits()).collect::<Vec<_>>();
            first_difference(&bits(&out), &bits(first))
                .map_err(|error| Failure::new(format!("{flag}: {error}")))?;
        }
        first = Some(out);
    }
    let out = first.unwrap_or_default();
    Ok((0..n).map(|i| Answer((0..rows).map(|k| out[k * n + i]).collect())).collect())
}

/// A thread's input in whole units: two boxes, a point, a ray.
struct Whole {
    a: [[i64; 3]; 2],
    b: [[i64; 3]; 2],
    p: [i64; 3],
    origin: [i64; 3],
    direction: [i64; 3],
    /// In units of t; none for an infinite ray.
    last: Option<i64>,
}

impl Whole {
    /// With coordinates below `range`: small ones coincide often.
    fn random(rng: &mut Rng, range: i64) -> Self {
        let mut three = || [0; 3].map(|_: i64| rng.below(2 * range as usize) as i64 - range);
        let mut corners = [three(), three(), three(), three()];
        let (p, origin, mut direction) = (three(), three(), three());
        let kind = rng.below(16);
        for axis in 0..3 {
            // One box in 16 stays as it is, and is likely empty.
            if kind != 0 {
                let (low, high) = corners.split_at_mut(1);
                if low[0][axis] > high[0][axis] {
                    std::mem::swap(&mut low[0][axis], &mut high[0][axis]);
                }
            }
            let (low, high) = corners.split_at_mut(3);
            if low[2][axis] > high[0][axis] {
                std::mem::swap(&mut low[2][axis], &mut high[0][axis]);
            }
            if rng.below(4) == 0 {
                direction[axis] = 0;
            }
        }
        let last = (rng.below(2) == 0).then(|| rng.below(2048) as i64);
        let [a0, a1, b0, b1] = corners;
        Self { a: [a0, a1], b: [b0, b1], p, origin, direction, last }
    }

    fn numbers(&self) -> [f64; INPUTS] {
        let parts =
            [self.a[0], self.a[1], self.b[0], self.b[1], self.p, self.origin, self.direction];
        let mut all = [0.0; INPUTS];
        for (to, from) in all.iter_mut().zip(parts.as_flattened()) {
            *to = *from as f64 * UNIT;
        }
        all[21] = self.last.map_or(f64::INFINITY, |last| last as f64 * UNIT);
        all
    }

    /// The t where the ray enters box `a` and where it leaves it, as fractions with positive
    /// denominators; none if it stays outside of a slab that it is parallel to.
    fn slabs(&self) -> Option<[(i64, i64); 2]> {
        let more = |a: (i64, i64), b: (i64, i64)| {
            i128::from(a.0) * i128::from(b.1) > i128::from(b.0) * i128::from(a.1)
        };
        let mut enter = (0, 1);
        let mut leave = self.last.map_or((i64::from(i32::MAX), 1), |last| (last, 1024));
        for axis in 0..3 {
            let (o, d) = (self.origin[axis], self.direction[axis]);
            let (low, high) = (self.a[0][axis] - o, self.a[1][axis] - o);
            if d == 0 {
                if low > 0 || high < 0 {
                    return None;
                }
                continue;
            }
            let (near, far) = if d > 0 { ((low, d), (high, d)) } else { ((-high, -d), (-low, -d)) };
            if more(near, enter) {
                enter = near;
            }
            if more(leave, far) {
                leave = far;
            }
        }
        Some([enter, leave])
    }
}

fn value((over, under): (i64, i64)) -> f64 {
    over as f64 / under as f64
}

fn is_empty(b: &[[i64; 3]; 2]) -> bool {
    (0..3).any(|axis| b[0][axis] > b[1][axis])
}

fn inside(b: &[[i64; 3]; 2], p: &[i64; 3]) -> bool {
    (0..3).all(|axis| b[0][axis] <= p[axis] && p[axis] <= b[1][axis])
}

fn answers<T: Number>(device: &TestDevice, kernel: &str) -> TestResult {
    let mut rng = device.rng(43);
    let count = if deep() { 100_000 } else { 3_000 };
    // From often touching to hardly ever; the largest are still exact in f32, as are their squares in f64.
    let inputs: Vec<Whole> =
        (0..count).map(|i| Whole::random(&mut rng, [4, 64, 1 << 12, 1 << 22][i % 4])).collect();
    let numbers: Vec<_> = inputs.iter().map(Whole::numbers).collect();
    let found = run::<T>(device, kernel, &numbers)?;
    let (mut hits, mut invented) = (0, 0);
    for (input, found) in inputs.iter().zip(&found) {
        let rays = check_ray(input, found)?;
        hits += usize::from(rays.0);
        invented += usize::from(rays.0 && !rays.1);
        check_box(input, found)?;
    }
    // Otherwise the test would show nothing.
    ensure!(hits > count / 20 && hits < count / 2, "{hits} of {count} rays hit");
    ensure!(invented * 200 < count, "{invented} hits of {count} rays are none");
    Ok(())
}

/// Whether the device tells of a hit, and whether there is one.
fn check_ray<T: Number>(input: &Whole, found: &Answer<T>) -> Result<(bool, bool), Failure> {
    let (told, enter) = (found.holds("enters"), found.one("enter"));
    ensure_eq!(found.holds("ray overlaps"), told);
    for axis in 0..3 {
        let wanted = T::of(1.0 / (input.direction[axis] as f64 * UNIT));
        let inverse = found.get("inverse")[axis];
        ensure!(inverse.abs() == wanted.into().abs(), "{inverse}");
    }
    let slabs = if is_empty(&input.a) { None } else { input.slabs() };
    let Some([first, last]) = slabs else {
        // Parallel to a slab and outside, or an empty box: rounding can't make a hit of the former.
        ensure!(!told || is_empty(&input.a), "{:?}", input.numbers());
        return Ok((told, false));
    };
    let hit = i128::from(first.0) * i128::from(last.1) <= i128::from(last.0) * i128::from(first.1);
    ensure!(told || !hit, "missed: {:?}", input.numbers());
    if hit {
        // A product of 24 and 25 bits is exact; in f64 it is rounded, but not past a whole number.
        ensure!(enter * first.1 as f64 <= first.0 as f64, "{enter} is after {first:?}");
        ensure!(enter >= value(first) * (1.0 - 8.0 * T::EPSILON), "{enter} is before {first:?}");
    } else if told {
        // Within some ulp.
        ensure!(value(first) <= value(last) * (1.0 + 8.0 * T::EPSILON), "{:?}", input.numbers());
    }
    Ok((told, hit))
}

fn check_box<T: Number>(input: &Whole, found: &Answer<T>) -> TestResult {
    let (a, b, p) = (&input.a, &input.b, &input.p);
    let three = |f: &dyn Fn(usize) -> i64| -> Vec<f64> {
        (0..3).map(|axis| T::of(f(axis) as f64 * UNIT).into()).collect()
    };
    ensure_eq!(found.holds("is_empty"), is_empty(a));
    if !is_empty(a) {
        let overlaps = (0..3).all(|i| a[0][i] <= b[1][i] && b[0][i] <= a[1][i]);
        ensure_eq!(found.holds("overlaps"), overlaps);
        ensure_eq!(found.holds("contains point"), inside(a, p));
        ensure_eq!(found.holds("contains box"), inside(a, &b[0]) && inside(a, &b[1]));
        ensure_eq!(found.get("closest_point"), three(&|i| p[i].clamp(a[0][i], a[1][i])));
        let away: [i64; 3] = std::array::from_fn(|i| (a[0][i] - p[i]).max(p[i] - a[1][i]).max(0));
        let [x, y, z] = away.map(|x| T::of(x as f64 * UNIT));
        let squared: f64 = z.fma(z, y.fma(y, x.mul(x))).into();
        ensure_eq!(found.one("distance_squared"), squared);
        // Below 2^50, so exact.
        let exact = away.iter().map(|x| x * x).sum::<i64>() as f64 * UNIT * UNIT;
        let down = found.one("distance_squared_down");
        ensure!(down <= exact && down >= exact * (1.0 - 4.0 * T::EPSILON), "{down} for {exact}");
        let middle = |i: usize| T::of((a[0][i] as f64 * 0.5 + a[1][i] as f64 * 0.5) * UNIT);
        let middle: Vec<f64> = (0..3).map(|i| middle(i).into()).collect();
        ensure_eq!(found.get("center"), middle);
        let sides: [i64; 3] = std::array::from_fn(|i| a[1][i] - a[0][i]);
        ensure_eq!(found.get("extent"), three(&|i| sides[i]));
        let [x, y, z] = sides.map(|x| T::of(x as f64 * UNIT));
        let half: f64 = z.fma(x, y.fma(z, x.mul(y))).into();
        ensure_eq!(found.one("surface_area"), 2.0 * half);
        let longest = (0..3).rev().max_by_key(|i| sides[*i]).unwrap_or(0);
        ensure_eq!(found.one("longest_axis"), longest as f64, "{sides:?}");
        let by = p[0];
        ensure_eq!(found.get("expand lower"), three(&|i| a[0][i] - by));
        ensure_eq!(found.get("expand upper"), three(&|i| a[1][i] + by));
    } else {
        ensure_eq!(found.one("surface_area"), 0.0);
    }
    ensure_eq!(found.get("grow lower"), three(&|i| a[0][i].min(p[i])));
    ensure_eq!(found.get("grow upper"), three(&|i| a[1][i].max(p[i])));
    ensure_eq!(found.get("unite lower"), three(&|i| a[0][i].min(b[0][i])));
    ensure_eq!(found.get("unite upper"), three(&|i| a[1][i].max(b[1][i])));
    ensure_eq!(found.get("intersect lower"), three(&|i| a[0][i].max(b[0][i])));
    ensure_eq!(found.get("intersect upper"), three(&|i| a[1][i].min(b[1][i])));

    let corner = a[0].map(|x| T::of(x as f64 * UNIT));
    let [x, y, z] = p.map(|x| T::of(x as f64 * UNIT));
    let [u, v, w] = corner;
    let dot: f64 = z.fma(w, y.fma(v, x.mul(u))).into();
    ensure_eq!(found.one("dot"), dot);
    let length: f64 = z.fma(z, y.fma(y, x.mul(x))).sqrt().into();
    ensure_eq!(found.one("length"), length);
    let minus = |x: T| T::of(-x.into());
    let cross = [y.fma(w, minus(z.mul(v))), z.fma(u, minus(x.mul(w))), x.fma(v, minus(y.mul(u)))];
    ensure_eq!(found.get("cross"), cross.map(Into::<f64>::into));
    Ok(())
}

/// Rays from anywhere to the corners of boxes that have no roundness: the corner is the only point that
/// they have in common, or nearly, and origin, direction and t are all rounded.
fn no_ray_misses_a_corner_it_is_sent_to(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(44);
    let count = if deep() { 100_000 } else { 4_000 };
    let mut inputs = Vec::new();
    for i in 0..count {
        // A direction of small whole numbers and a whole t: the corner is exactly on the ray.
        let direction = [0; 3].map(|_: i64| rng.below(2001) as i64 - 1000);
        let t = 1 + rng.below(1000) as i64;
        let origin = [0; 3].map(|_: i64| rng.below(1 << 20) as i64 - (1 << 19));
        let corner: [i64; 3] = std::array::from_fn(|axis| origin[axis] + t * direction[axis]);
        let mut a = [corner, corner];
        for axis in 0..3 {
            // A box that grows to either side, or in some axes not at all.
            let size = [0, 1, 77, 4099][rng.below(4)];
            a[rng.below(2)][axis] = corner[axis];
            if rng.below(2) == 0 { a[0][axis] -= size } else { a[1][axis] += size }
        }
        let last = (i % 2 == 0).then_some(1024 * t);
        inputs.push(Whole { a, b: a, p: corner, origin, direction, last });
    }
    let numbers: Vec<_> = inputs.iter().map(Whole::numbers).collect();
    let mut hits = 0;
    for (input, found) in inputs.iter().zip(run::<f32>(device, "of_float", &numbers)?) {
        let (told, hit) = check_ray(input, &found)?;
        ensure!(told && hit, "{:?}", input.numbers());
        hits += 1;
    }
    for (input, found) in inputs.iter().zip(run::<f64>(device, "of_double", &numbers)?) {
        ensure!(check_ray(input, &found)? == (true, true), "{:?}", input.numbers());
    }
    ensure_eq!(hits, count);
    Ok(())
}

/// Boxes without points, coordinates that are no numbers, rays that go nowhere.
fn degenerate_input_has_a_meaning(device: &TestDevice) -> TestResult {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let unit = [0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let empty = [INF, INF, INF, -INF, -INF, -INF];
    let input = |a: [f64; 6], p: [f64; 3], ray: [f64; 6], last: f64| -> [f64; INPUTS] {
        let mut all = [0.0; INPUTS];
        all[..6].copy_from_slice(&a);
        all[6..12].copy_from_slice(&unit);
        all[12..15].copy_from_slice(&p);
        all[15..21].copy_from_slice(&ray);
        all[21] = last;
        all
    };
    let across = [-1.0, 0.5, 0.5, 1.0, 0.0, 0.0];
    // Smaller than every normal number of f32; as f64 they are ordinary, so these run in f32 alone.
    let tiny = 1e-40;
    let huge = 3e38;
    let inputs = [
        // 0: an empty box
        input(empty, [0.25, 0.5, 2.0], across, INF),
        // 1, 2: a ray without direction, inside and outside
        input(unit, [0.5; 3], [0.5, 1.0, 0.0, 0.0, 0.0, 0.0], INF),
        input(unit, [0.5; 3], [0.5, 1.5, 0.0, 0.0, 0.0, 0.0], INF),
        // 3, 4: within a face, both ways along
        input(unit, [0.5; 3], [-1.0, 1.0, 0.5, 1.0, 0.0, 0.0], INF),
        input(unit, [0.5; 3], [2.0, 0.0, 0.0, -1.0, -0.0, 0.0], INF),
        // 5: a point that is none
        input(unit, [NAN, 0.5, 3.0], across, INF),
        // 6, 7: a box that is bounded on one side only; and a ray of NaN
        input([NAN, 0.0, 0.0, 1.0, 1.0, 1.0], [0.5; 3], across, INF),
        input(unit, [0.5; 3], [NAN; 6], INF),
        // 8, 9: a direction that is all but parallel, outside and inside of the slab
        input(unit, [0.5; 3], [-1.0, -tiny, 0.5, 1.0, tiny, 0.0], INF),
        input(unit, [0.5; 3], [-1.0, tiny, 0.5, 1.0, -tiny, 0.0], INF),
        // 10: beyond the largest number
        input(
            [huge, -huge, -huge, huge, huge, huge],
            [0.0; 3],
            [-huge, 0.0, 0.0, 1.0, 0.0, 0.0],
            INF,
        ),
        // 11, 12: the box begins where the ray ends, and one step later
        input(unit, [0.5; 3], across, 1.0),
        input(unit, [0.5; 3], across, 0.9999),
        // 13: behind the ray
        input(unit, [0.5; 3], [2.0, 0.5, 0.5, 1.0, 0.0, 0.0], INF),
        // 14: the products underflow
        input([1e-38, 0.0, 0.0, 1e-38, 1.0, 1.0], [0.5; 3], [0.0, 0.5, 0.5, 1e30, 0.0, 0.0], INF),
    ];
    let found = run::<f32>(device, "of_float", &inputs)?;
    let hits: Vec<usize> = (0..inputs.len()).filter(|i| found[*i].holds("enters")).collect();
    ensure_eq!(hits, [1, 3, 4, 5, 6, 7, 9, 11, 14]);
    for (i, enter) in [(1, 0.0), (7, 0.0), (11, 1.0 - 4.0 * f64::from(f32::EPSILON) / 2.0)] {
        ensure_eq!(found[i].one("enter"), enter, "{i}");
    }

    let empty = &found[0];
    ensure!(empty.holds("is_empty"));
    for name in ["overlaps", "contains point", "contains box", "surface_area"] {
        ensure_eq!(empty.one(name), 0.0, "{name}");
    }
    for name in ["distance_squared", "distance_squared_down"] {
        ensure_eq!(empty.one(name), INF, "{name}");
    }
    ensure!(empty.get("center").iter().all(|x| x.is_nan()));
    ensure_eq!(empty.get("extent"), [0.0; 3]);
    for name in ["grow lower", "grow upper"] {
        ensure_eq!(empty.get(name), [0.25, 0.5, 2.0], "{name}");
    }
    ensure_eq!(empty.get("unite lower"), [0.0; 3]);
    ensure_eq!(empty.get("unite upper"), [1.0; 3]);

    let none = &found[5];
    ensure!(!none.holds("contains point"));
    ensure_eq!(none.one("distance_squared"), 4.0);
    ensure_eq!(none.get("closest_point"), [0.0, 0.5, 1.0]);
    ensure_eq!(none.get("grow lower"), [0.0; 3]);
    ensure_eq!(none.get("grow upper"), [1.0, 1.0, 3.0]);
    Ok(())
}
