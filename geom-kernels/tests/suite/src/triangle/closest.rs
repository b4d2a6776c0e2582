//! The closest point against the least distance in twice the precision.

use super::inputs::{KINDS, bounds, point, query, triangle};
use super::{Point, Triangle, count, real, row, run};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::triangle",
        device(closest_points_are_closest),
        device(corners_are_their_own_closest_points),
        device(faces_agree_on_their_common_edge),
        device(normals_are_right_for_any_needle),
        device(invalid_triangles_are_told),
    ]
}

const EPS: f64 = f32::EPSILON as f64;
/// Half of the smallest f32: what rounding may add to anything.
const UNDERFLOW: f64 = 1e-45;

/// What the kernel gives.
struct Found {
    position: Point,
    d2: f32,
    u: f32,
    v: f32,
    feature: u32,
    /// Of `distance_squared`, as bits.
    d2_alone: u32,
    in_ball: bool,
    at_uv: Point,
    at_given: Point,
    normal: Point,
    valid: bool,
}

impl Found {
    fn new(bits: [u32; 19]) -> Self {
        let f = |i: usize| f32::from_bits(bits[i]);
        let p = |i: usize| [f(i), f(i + 1), f(i + 2)];
        Self {
            position: p(0),
            d2: f(3),
            u: f(4),
            v: f(5),
            feature: bits[6],
            d2_alone: bits[7],
            in_ball: bits[8] == 1,
            at_uv: p(9),
            at_given: p(12),
            normal: p(15),
            valid: bits[18] == 1,
        }
    }
}

struct Input {
    t: Triangle,
    q: Point,
    flags: u32,
    radius: f32,
}

fn find(device: &TestDevice, inputs: &[Input]) -> Result<Vec<Found>, Failure> {
    let rows: Vec<[f32; 16]> = inputs
        .iter()
        .map(|input| {
            let rest = [f32::from_bits(input.flags), 0.25, 0.5, input.radius];
            row(&[input.t.as_flattened(), &input.q, &rest])
        })
        .collect();
    let found = run::<16, 19>(device, "closest", &rows)?;
    Ok(found.into_iter().map(Found::new).collect())
}

fn length(p: Point) -> f64 {
    p.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt()
}

/// The conventions' bound: 4 eps (|q| + the diagonal of the triangle with q).
fn tolerance(t: &Triangle, q: Point) -> f64 {
    let (low, high) = bounds(t);
    let low: Point = std::array::from_fn(|i| low[i].min(q[i]));
    let high: Point = std::array::from_fn(|i| high[i].max(q[i]));
    4.0 * EPS * (length(q) + real::between(low, high)) + 4.0 * UNDERFLOW
}

/// The square of the distance as the conventions round it.
fn rounded_square(p: Point, q: Point) -> f32 {
    let [x, y, z]: Point = std::array::from_fn(|i| q[i] - p[i]);
    z.mul_add(z, y.mul_add(y, x * x))
}

fn inputs(rng: &mut Rng, count: usize) -> Vec<Input> {
    (0..count)
        .map(|i| {
            let t = triangle(rng, i % KINDS);
            let q = query(rng, &t);
            // Often about the distance itself.
            let radius = (real::distance(&t, q) * [1.0, 0.99, 1.01, -1.0][rng.below(4)]) as f32;
            Input { t, q, flags: rng.below(8) as u32, radius }
        })
        .collect()
}

fn closest_points_are_closest(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(63);
    let inputs = inputs(&mut rng, count(20_000));
    let mut features = [0; 7];
    let mut in_ball = 0;
    for (input, found) in inputs.iter().zip(find(device, &inputs)?) {
        check(input, &found)
            .map_err(|e| Failure::new(format!("{:?} {:?} {e}", input.t, input.q)))?;
        features[found.feature as usize] += 1;
        in_ball += usize::from(found.in_ball);
    }
    ensure!(features.iter().all(|n| *n > inputs.len() / 50), "all features occur: {features:?}");
    ensure!(in_ball > inputs.len() / 4 && in_ball < inputs.len() * 3 / 4, "{in_ball}");
    Ok(())
}

fn check(input: &Input, found: &Found) -> TestResult {
    let Input { t, q, .. } = input;
    let tolerance = tolerance(t, *q);
    let (least, got) = (real::distance(t, *q), real::between(found.position, *q));
    ensure!((got - least).abs() <= tolerance, "{got} is not {least} +- {tolerance}");
    let off = real::distance(t, found.position);
    ensure!(off <= tolerance, "{:?} is {off} off the triangle", found.position);
    let (low, high) = bounds(t);
    for i in 0..3 {
        ensure!((low[i]..=high[i]).contains(&found.position[i]), "outside of the box");
    }
    ensure_eq!(found.d2, rounded_square(found.position, *q));
    ensure_eq!(found.d2.to_bits(), found.d2_alone);
    ensure_eq!(found.in_ball, input.radius >= 0.0 && found.d2 <= input.radius * input.radius);
    ensure!(found.valid);

    let (u, v) = (found.u, found.v);
    ensure!((0.0..=1.0).contains(&u) && (0.0..=1.0).contains(&v) && u + v <= 1.0 + f32::EPSILON);
    let off = real::between(found.at_uv, found.position);
    ensure!(off <= tolerance, "u and v are {off} off");
    match found.feature {
        corner @ 0..=2 => {
            ensure_eq!(found.position, t[corner as usize]);
            ensure_eq!([u, v], [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]][corner as usize]);
        }
        3 => ensure_eq!(v, 0.0),
        4 => ensure!((f64::from(u) + f64::from(v) - 1.0).abs() <= EPS, "{u} {v}"),
        5 => ensure_eq!(u, 0.0),
        feature => ensure_eq!(feature, 6),
    }
    let given = super::inputs::at(t, 0.25, 0.5);
    ensure!(real::between(found.at_given, given) <= tolerance, "{:?}", found.at_given);
    Ok(())
}

/// The distance is 0, and the feature a corner, where the point is a corner; also where the other
/// coordinates are so large that nothing else would come back to it.
fn corners_are_their_own_closest_points(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(64);
    let mut inputs = Vec::new();
    for i in 0..count(6_000) {
        let mut t = triangle(&mut rng, i % KINDS);
        // As of a circle's points by sine and cosine.
        t[rng.below(3)][rng.below(3)] *= [1.0, 1e-17][i % 2];
        inputs.push(Input { t, q: t[i % 3], flags: rng.below(8) as u32, radius: 0.0 });
    }
    for (input, found) in inputs.iter().zip(find(device, &inputs)?) {
        let t = input.t;
        ensure!(found.d2 == 0.0 && found.in_ball, "{t:?} {:?}", input.q);
        ensure!(found.feature < 3, "{t:?} {}", found.feature);
        ensure_eq!(found.position, input.q);
    }
    Ok(())
}

/// The triangle as all its six faces would have it, all with the vertices' order of the mesh: where two
/// find the same edge or corner, they find the same bits.
fn faces_agree_on_their_common_edge(device: &TestDevice) -> TestResult {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [1, 2, 0], [2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]];
    let mut rng = device.rng(65);
    let mut all = Vec::new();
    for mut input in inputs(&mut rng, count(4_000)) {
        // Around a middle near the origin, what an f64 rounds shows in an f32.
        if rng.below(2) == 0 {
            let [a, b] = [point(&mut rng), point(&mut rng)];
            input.t[..2].copy_from_slice(&[a, std::array::from_fn(|i| 1e-7 * b[i] - a[i])]);
            input.q = b.map(|x| 1e-7 * x);
        }
        // Of edge 0-1 three faces have another third vertex.
        let other = query(&mut rng, &input.t);
        let index = [5, 2, 8];
        for (k, order) in ORDERS.iter().enumerate() {
            let turned = |edge: usize| index[order[edge]] > index[order[(edge + 1) % 3]];
            let flags = (0..3).map(|edge| u32::from(turned(edge)) << edge).sum();
            let mut vertices = input.t;
            if k >= 3 {
                vertices[2] = other;
            }
            all.push(Input { t: order.map(|i| vertices[i]), flags, ..input });
        }
    }
    let found = find(device, &all)?;
    // The two vertices of the edge that a face found, in the mesh's terms.
    let edge = |k: usize, feature: u32| -> Option<[usize; 2]> {
        let first = feature.checked_sub(3).filter(|edge| *edge < 3)? as usize;
        let mut ends = [ORDERS[k][first], ORDERS[k][(first + 1) % 3]];
        ends.sort_unstable();
        Some(ends)
    };
    let mut agreed = 0;
    for (faces, inputs) in found.chunks_exact(6).zip(all.chunks_exact(6)) {
        for i in 0..6 {
            for j in 0..i {
                let ends = edge(i, faces[i].feature);
                let same_third = (i < 3) == (j < 3);
                let shared = ends == Some([0, 1]) || (same_third && ends.is_some());
                if shared && ends == edge(j, faces[j].feature) {
                    let bits = |p: Point| p.map(f32::to_bits);
                    ensure_eq!(
                        bits(faces[i].position),
                        bits(faces[j].position),
                        "{:?} {:?}",
                        inputs[i].t,
                        inputs[j].t
                    );
                    agreed += 1;
                }
            }
        }
    }
    ensure!(agreed > all.len() / 4, "{agreed}");
    Ok(())
}

fn normals_are_right_for_any_needle(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(66);
    let inputs = inputs(&mut rng, count(10_000));
    let (mut zero, mut thin) = (0, 0);
    for (Input { t, .. }, found) in inputs.iter().zip(find(device, &inputs)?) {
        let projected = |i: usize, j: usize| {
            let [a, b, c] = t.map(|p| robust::Coord { x: f64::from(p[i]), y: f64::from(p[j]) });
            robust::orient2d(a, b, c)
        };
        let area = [projected(1, 2), projected(2, 0), projected(0, 1)];
        for (n, area) in found.normal.iter().zip(area) {
            // A component may vanish beside the others.
            ensure!(f64::from(*n) * area >= 0.0 && (area != 0.0 || *n == 0.0), "{t:?} {area}");
        }
        if area == [0.0; 3] {
            zero += 1;
            continue;
        }
        ensure!((length(found.normal) - 1.0).abs() < EPS, "{:?}", found.normal);
        let n = real::area(t);
        let long = n.iter().map(|x| x * x).sum::<f64>().sqrt();
        let (low, high) = bounds(t);
        let size = real::between(low, high);
        // Where the oracle knows it.
        if long > size * size * 2.0_f64.powi(-60) {
            thin += usize::from(long < size * size * 1e-7);
            for (n, wanted) in found.normal.iter().zip(n) {
                let off = (f64::from(*n) - wanted / long).abs();
                ensure!(off <= 0.51 * EPS, "{t:?}: {n} is {off} off");
            }
        }
    }
    ensure!(zero > inputs.len() / 10 && thin > inputs.len() / 50, "{zero} {thin}");
    Ok(())
}

fn invalid_triangles_are_told(device: &TestDevice) -> TestResult {
    let most = 2_f32.powi(60);
    let bad = [f32::NAN, f32::INFINITY, -f32::INFINITY, most.next_up(), -most.next_up()];
    let mut inputs = Vec::new();
    for x in [most, -most, 0.0].into_iter().chain(bad) {
        for i in 0..9 {
            let mut t = [[0.0, 1.0, 2.0], [3.0, 5.0, 4.0], [8.0, 7.0, 6.0]];
            t[i / 3][i % 3] = x;
            inputs.push(Input { t, q: [0.0; 3], flags: 0, radius: f32::NAN });
        }
    }
    for (i, found) in find(device, &inputs)?.iter().enumerate() {
        ensure_eq!(found.valid, i < 27, "{:?}", inputs[i].t);
        ensure!(!found.in_ball);
    }
    Ok(())
}
