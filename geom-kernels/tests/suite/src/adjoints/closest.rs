//! The closest point of a triangle, its barycentric coordinates, and distances.

use super::differences::{OF_F32, OF_F64, Skipped, gradients, largest, near};
use super::{MESH_SOURCE, both, count, point, row, single};
use geom_oracle::linear::{add, cross, dot, length, normalize, scale, sub};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "adjoints",
        device(closest_points_of_every_feature),
        device(closest_points_of_needles),
        device(distances_of_zero_have_their_subgradients),
        device(degenerate_faces_are_edges_and_vertices),
    ]
}

type Point = [f64; 3];
type Triangle = [Point; 3];

/// Columns and results of the kernel.
const COLUMNS: usize = 22;
const RESULTS: usize = 49;

/// Where a triangle is closest to a point.
#[derive(Clone, Copy)]
struct Closest {
    position: Point,
    weights: [f64; 3],
    feature: usize,
}

/// By trying all: inside by volumes, then the edges and the corners.
fn closest(t: &Triangle, q: Point) -> Closest {
    let at = |weights: [f64; 3], feature: usize| {
        let position = std::array::from_fn(|i| (0..3).map(|k| weights[k] * t[k][i]).sum());
        Closest { position, weights, feature }
    };
    let (ab, ac, aq) = (sub(t[1], t[0]), sub(t[2], t[0]), sub(q, t[0]));
    let n = cross(ab, ac);
    let (u, v) = (dot(&n, &cross(aq, ac)) / dot(&n, &n), dot(&n, &cross(ab, aq)) / dot(&n, &n));
    if u > 0.0 && v > 0.0 && u + v < 1.0 {
        return at([1.0 - u - v, u, v], 6);
    }
    let mut all = Vec::new();
    for i in 0..3 {
        let mut weights = [0.0; 3];
        weights[i] = 1.0;
        all.push(at(weights, i));
        let j = (i + 1) % 3;
        let along = sub(t[j], t[i]);
        let s = dot(&sub(q, t[i]), &along) / dot(&along, &along);
        if s > 0.0 && s < 1.0 {
            weights[i] = 1.0 - s;
            weights[j] = s;
            all.push(at(weights, 3 + i));
        }
    }
    let distance = |c: &Closest| length(&sub(q, c.position));
    let first = all[0];
    all.into_iter().fold(first, |best, c| if distance(&c) < distance(&best) { c } else { best })
}

/// A row for the kernel, and what it asks.
#[derive(Debug, Clone, Copy)]
struct Input {
    t: Triangle,
    q: Point,
    feature: usize,
    /// The signed distance.
    value: f64,
    /// Gradients: of the position, u, v, the distance, its square, the signed one.
    g: [f64; 8],
}

impl Input {
    fn new(rng: &mut Rng, t: Triangle, q: Point) -> Self {
        let found = closest(&t, q);
        let side = [1.0, -1.0][rng.below(2)];
        let value = single(side * length(&sub(q, found.position)));
        let g = [0; 8].map(|_: i32| f64::from(rng.float()));
        Self { t, q, feature: found.feature, value, g }
    }

    fn row(&self) -> [f64; COLUMNS] {
        let [t, q, g] = [self.t.as_flattened(), &self.q, &self.g];
        row(&[t, q, &[self.feature as f64, self.value], g])
    }

    /// The four losses, as functions of q and the corners, while the feature is the same.
    fn losses(&self, x: &[f64]) -> Option<[f64; 4]> {
        let p = |i: usize| [x[3 * i], x[3 * i + 1], x[3 * i + 2]];
        let (q, g) = (p(0), &self.g);
        let found = closest(&[p(1), p(2), p(3)], q);
        let [_, u, v] = found.weights;
        let d = length(&sub(q, found.position));
        (found.feature == self.feature).then(|| {
            let of_point = dot(&g[..3], &found.position) + g[3] * u + g[4] * v;
            [of_point, g[5] * d, g[6] * d * d, g[7] * self.value.signum() * d]
        })
    }

    fn arguments(&self) -> [f64; 12] {
        row(&[&self.q, self.t.as_flattened()])
    }

    /// The least of its heights and its distance: in which space its answers change.
    fn scale(&self) -> f64 {
        let edges = [0, 1, 2].map(|i| length(&sub(self.t[(i + 1) % 3], self.t[i])));
        let height = area(&self.t) / largest(&edges);
        height.min(self.value.abs())
    }
}

/// Twice the area.
fn area(t: &Triangle) -> f64 {
    length(&cross(sub(t[1], t[0]), sub(t[2], t[0])))
}

fn run(device: &TestDevice, inputs: &[Input]) -> Result<[Vec<[f64; RESULTS]>; 2], Failure> {
    let rows: Vec<_> = inputs.iter().map(Input::row).collect();
    both(device, MESH_SOURCE, "closest", &rows)
}

/// A triangle of some height, and a point whose feature is this one or any.
fn input(rng: &mut Rng, feature: usize) -> Input {
    loop {
        let t: Triangle = [0; 3].map(|_: i32| point(rng));
        let (u, v) = (f64::from(rng.float()).abs(), f64::from(rng.float()).abs());
        let weights = match feature {
            0..3 => std::array::from_fn(|i| f64::from(i == feature)),
            3..6 => std::array::from_fn(|i| match (i + 6 - feature) % 3 {
                0 => 1.0 - u,
                1 => u,
                _ => 0.0,
            }),
            _ => [1.0 - u - v, u, v],
        };
        let on: Point = std::array::from_fn(|i| (0..3).map(|k| weights[k] * t[k][i]).sum());
        let q = add(on, point(rng)).map(single);
        let input = Input::new(rng, t, q);
        if input.feature == feature && input.scale() > 0.05 {
            return input;
        }
    }
}

fn closest_points_of_every_feature(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1100);
    let inputs: Vec<Input> = (0..count(10_500)).map(|i| input(&mut rng, i % 7)).collect();
    let [wide, narrow] = run(device, &inputs)?;
    let mut skipped = Skipped::default();
    let mut forward = 0;
    for (input, (wide, narrow)) in inputs.iter().zip(wide.iter().zip(&narrow)) {
        // Where the forward answer is the same: elsewhere two features are as near, up to rounding.
        forward += usize::from(wide[48] == input.feature as f64);
        let h = 5e-4 * input.scale();
        let wanted = gradients(&input.arguments(), h, |x| input.losses(x));
        for k in 0..4 {
            let part = 12 * k..12 * (k + 1);
            near(&narrow[part.clone()], &wide[part.clone()], OF_F32)
                .map_err(|e| Failure::new(format!("f32, {k}, {input:?}: {e}")))?;
            let Some(wanted) = &wanted else { continue };
            near(&wide[part], &wanted[k], OF_F64)
                .map_err(|e| Failure::new(format!("{k}, {input:?}: {e}")))?;
        }
        skipped.count(wanted);
    }
    ensure!(forward * 1000 > inputs.len() * 999, "{forward} of {}", inputs.len());
    skipped.are_few()
}

/// Triangles of heights down to 1e-6, where f32 must be as good as f64. Moving all by the same moves the
/// position, and nothing else, which needs no differences: so do scaling and turning.
fn closest_points_of_needles(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1101);
    let mut inputs = Vec::new();
    while inputs.len() < count(4_000) {
        let [a, b, c] = [0; 3].map(|_: i32| point(&mut rng));
        let u = f64::from(rng.float());
        let power = -(1 + rng.below(6) as i32);
        let third = add(add(a, scale(sub(b, a), u)), scale(c, 10f64.powi(power)));
        let mut t = [a, b, third.map(single)];
        t.rotate_left(rng.below(3));
        let up = normalize(cross(sub(t[1], t[0]), sub(t[2], t[0])));
        let inside = scale(add(add(t[0], t[1]), t[2]), 1.0 / 3.0);
        let away = [up, point(&mut rng)][rng.below(2)];
        let q = add(inside, scale(away, f64::from(rng.float()))).map(single);
        // Thinner ones are taken to be edges.
        if area(&t) > 1e-5 && length(&sub(q, closest(&t, q).position)) > 1e-3 {
            inputs.push(Input::new(&mut rng, t, q));
        }
    }
    let [wide, narrow] = run(device, &inputs)?;
    let mut inside = 0;
    for (input, (wide, narrow)) in inputs.iter().zip(wide.iter().zip(&narrow)) {
        inside += usize::from(input.feature == 6);
        let failed = |e: Failure| Failure::new(format!("{input:?}: {e}"));
        for k in 0..4 {
            let part = 12 * k..12 * (k + 1);
            let (wide, narrow) = (&wide[part.clone()], &narrow[part]);
            near(narrow, wide, OF_F32).map_err(failed)?;
            let most = largest(wide);
            // The sum of gradients, by axes, and the moment about each.
            let sum: Point = std::array::from_fn(|i| (0..4).map(|p| wide[3 * p + i]).sum());
            let moved = if k == 0 { [input.g[0], input.g[1], input.g[2]] } else { [0.0; 3] };
            ensure!(length(&sub(sum, moved)) < 1e-9 * most.max(1.0), "{input:?} {k}: {sum:?}");
            let moment = (0..4).fold([0.0; 3], |moment, p| {
                let at = [input.q, input.t[0], input.t[1], input.t[2]][p];
                add(moment, cross(at, [wide[3 * p], wide[3 * p + 1], wide[3 * p + 2]]))
            });
            let turned = match k {
                0 => cross(closest(&input.t, input.q).position, moved),
                _ => [0.0; 3],
            };
            // The oracle's own position is right to this.
            let bound = 1e-8 * most.max(1.0);
            ensure!(length(&sub(moment, turned)) < bound, "{input:?} {k}: {moment:?} {turned:?}");
        }
    }
    ensure!(inside > inputs.len() / 10, "{inside}");
    Ok(())
}

/// The unsigned distance has none, the signed one that of the plane, and the square's is 0.
fn distances_of_zero_have_their_subgradients(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1102);
    let mut inputs = Vec::new();
    for i in 0..count(1_400) {
        // Corners of quarters and an edge along an axis: what lies between has no roundings.
        let mut t: Triangle = [0; 3].map(|_: i32| [0; 3].map(|_: i32| rng.below(64) as f64 / 4.0));
        while area(&t) < 1.0 {
            t = [0; 3].map(|_: i32| [0; 3].map(|_: i32| rng.below(64) as f64 / 4.0));
        }
        let feature = i % 7;
        let weights = match feature {
            0..3 => std::array::from_fn(|k| f64::from(k == feature)),
            3..6 => std::array::from_fn(|k| [0.75, 0.25, 0.0][(k + 6 - feature) % 3]),
            _ => [0.5, 0.25, 0.25],
        };
        let q = std::array::from_fn(|i| (0..3).map(|k| weights[k] * t[k][i]).sum());
        let g = [0; 8].map(|_: i32| f64::from(rng.float()));
        inputs.push((Input { t, q, feature, value: [0.0, -0.0][i % 2], g }, weights));
    }
    let asked: Vec<Input> = inputs.iter().map(|(input, _)| *input).collect();
    for (k, all) in run(device, &asked)?.into_iter().enumerate() {
        for ((input, weights), got) in inputs.iter().zip(all) {
            let t = &input.t;
            let n = normalize(cross(sub(t[1], t[0]), sub(t[2], t[0])));
            let along = scale(n, input.g[7]);
            let corners = weights.map(|w| scale(along, -w));
            let wanted: [f64; 12] = row(&[&along, corners.as_flattened()]);
            near(&got[36..48], &wanted, [OF_F64, OF_F32][k])
                .map_err(|e| Failure::new(format!("{input:?}: {e}")))?;
            // Weights that are found anew are off by a rounding; so is the point.
            ensure!(largest(&got[24..36]) < 1e-13, "{input:?} {got:?}");
            ensure_eq!(&got[12..24], &[0.0; 12], "{input:?}");
            ensure!(got.iter().all(|x| x.is_finite()), "{input:?} {got:?}");
        }
    }
    Ok(())
}

/// Faces without area that an answer names as faces, and edges without length that it names as edges.
fn degenerate_faces_are_edges_and_vertices(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(1103);
    let mut asked = Vec::new();
    for i in 0..count(2_000) {
        // Thirds of a line of quarters, exactly on one line; or two or three corners alike.
        let [a, mut step, q] = [0; 3].map(|_: i32| [0; 3].map(|_: i32| rng.below(64) as f64 / 4.0));
        step[0] += 0.25;
        let at = |n: f64| add(a, scale(step, n));
        let t: Triangle = match i % 5 {
            0 => [at(0.0), at(3.0), at(1.0)],
            1 => [at(1.0), at(-1.0), at(2.0)],
            2 => [at(3.0), at(2.0), at(0.0)],
            3 => [at(0.0), at(0.0), at(1.0)],
            _ => [a; 3],
        };
        let g = [0; 8].map(|_: i32| f64::from(rng.float()));
        let longest = [0, 1, 2, 1, 0][i % 5];
        asked.push((Input { t, q, feature: 6, value: -1.0, g }, longest));
    }
    let inputs: Vec<Input> = asked.iter().map(|(input, _)| *input).collect();
    // What the longest edge, or its end, has.
    let same: Vec<Input> = asked
        .iter()
        .map(|(input, edge)| {
            let (from, to) = (input.t[*edge], input.t[(edge + 1) % 3]);
            let along = sub(to, from);
            let s = dot(&sub(input.q, from), &along) / dot(&along, &along);
            let feature = if s.is_nan() || s <= 0.0 {
                *edge
            } else if s >= 1.0 {
                (edge + 1) % 3
            } else {
                3 + edge
            };
            Input { feature, ..*input }
        })
        .collect();
    let (got, wanted) = (run(device, &inputs)?, run(device, &same)?);
    let mut of_edges = 0;
    for (got, wanted) in got.iter().zip(&wanted) {
        for (i, (got, wanted)) in got.iter().zip(wanted).enumerate() {
            ensure_eq!(got, wanted, "{:?}", inputs[i]);
            ensure!(got.iter().all(|x| x.is_finite()), "{got:?}");
            of_edges += usize::from(same[i].feature >= 3);
        }
    }
    ensure!(of_edges > inputs.len() / 4, "{of_edges}");
    // And an edge without length is its first corner.
    let edges: Vec<Input> = inputs
        .iter()
        .filter(|input| input.t[0] == input.t[1])
        .map(|input| Input { feature: 3, ..*input })
        .collect();
    let vertices: Vec<Input> = edges.iter().map(|input| Input { feature: 0, ..*input }).collect();
    ensure_eq!(run(device, &edges)?, run(device, &vertices)?);
    Ok(())
}
