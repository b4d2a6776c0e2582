//! Overlap of a triangle and a box, against projections to all axes in whole numbers.

use super::inputs::{at, bounds, query, triangle, whole};
use super::{Point, Triangle, count, row, run};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::triangle",
        device(overlaps_of_boxes_are_exact),
        device(overlaps_miss_no_point),
        device(overlaps_of_strange_boxes),
    ]
}

struct Input {
    t: Triangle,
    lower: Point,
    upper: Point,
}

fn find(device: &TestDevice, inputs: &[Input]) -> Result<Vec<bool>, Failure> {
    let rows: Vec<[f32; 15]> =
        inputs.iter().map(|i| row(&[i.t.as_flattened(), &i.lower, &i.upper])).collect();
    let found = run::<15, 1>(device, "overlapping", &rows)?;
    Ok(found.into_iter().map(|[found]| found == 1).collect())
}

/// Whether triangles overlap boxes (lower and upper corners), by the header.
pub(crate) fn overlapping(
    device: &TestDevice,
    pairs: &[(Triangle, Point, Point)],
) -> Result<Vec<bool>, Failure> {
    let inputs: Vec<Input> =
        pairs.iter().map(|&(t, lower, upper)| Input { t, lower, upper }).collect();
    find(device, &inputs)
}

/// Whether a triangle overlaps a box, of whole numbers that are not large.
pub(crate) fn exact_overlap(t: Triangle, lower: Point, upper: Point) -> bool {
    overlap(&Input { t, lower, upper })
}

/// The separating axis theorem as it stands: all corners projected to all 13 axes.
fn overlap(input: &Input) -> bool {
    let wide = |p: Point| p.map(|x| x as i128);
    let cross = |a: [i128; 3], b: [i128; 3]| -> [i128; 3] {
        std::array::from_fn(|i| {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            a[j] * b[k] - a[k] * b[j]
        })
    };
    let t = input.t.map(wide);
    let sides = [wide(input.lower), wide(input.upper)];
    let corners: Vec<[i128; 3]> =
        (0..8).map(|k| std::array::from_fn(|i| sides[k >> i & 1][i])).collect();
    let edges: [[i128; 3]; 3] =
        std::array::from_fn(|i| std::array::from_fn(|k| t[(i + 1) % 3][k] - t[i][k]));
    let units = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
    let mut axes = units.to_vec();
    axes.push(cross(edges[0], edges[1]));
    axes.extend(edges.iter().flat_map(|edge| units.map(|unit| cross(unit, *edge))));
    axes.iter().all(|axis| {
        let range = |points: &[[i128; 3]]| {
            let at = |p: &[i128; 3]| p[0] * axis[0] + p[1] * axis[1] + p[2] * axis[2];
            let all = points.iter().map(at);
            (all.clone().min(), all.max())
        };
        let (a, b) = (range(&t), range(&corners));
        a.0 <= b.1 && b.0 <= a.1
    })
}

pub(crate) fn whole_box(rng: &mut Rng, n: usize) -> (Point, Point) {
    let (a, b): (Point, Point) =
        ([0; 3].map(|_: i32| whole(rng, n)), [0; 3].map(|_: i32| whole(rng, n)));
    (
        std::array::from_fn(|i| a[i].min(b[i])),
        std::array::from_fn(|i| if rng.below(8) == 0 { a[i].min(b[i]) } else { a[i].max(b[i]) }),
    )
}

/// Where they often touch, and where coordinates are large; at any power of two, also where f64's products
/// are no more exact.
fn overlaps_of_boxes_are_exact(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(90);
    let (mut inputs, mut wanted) = (Vec::new(), Vec::new());
    for i in 0..count(15_000) {
        let n = [2, 3, 9, 1 << 20][i % 4];
        let (lower, upper) = whole_box(&mut rng, n);
        let mut t = [0; 3].map(|_: i32| [0; 3].map(|_: i32| whole(&mut rng, n)));
        match rng.below(8) {
            0 => t[2] = t[0],
            // On a line.
            1 => t[2] = std::array::from_fn(|k| 2.0 * t[1][k] - t[0][k]),
            2 => t = [t[0]; 3],
            _ => {}
        }
        let input = Input { t, lower, upper };
        wanted.push(overlap(&input));
        let scale = 2_f64.powi([0, 0, 30, -120][i / 4 % 4]);
        let scaled = |p: Point| p.map(|x| (f64::from(x) * scale) as f32);
        let t = input.t.map(scaled);
        inputs.push(Input { t, lower: scaled(lower), upper: scaled(upper) });
    }
    let found = find(device, &inputs)?;
    let mut boxes_only = 0;
    for ((input, found), wanted) in inputs.iter().zip(found).zip(&wanted) {
        ensure_eq!(found, *wanted, "{:?} {:?} {:?}", input.t, input.lower, input.upper);
        let (low, high) = bounds(&input.t);
        let boxes = (0..3).all(|i| low[i] <= input.upper[i] && input.lower[i] <= high[i]);
        boxes_only += usize::from(boxes && !wanted);
    }
    let hits = wanted.iter().filter(|wanted| **wanted).count();
    ensure!(hits > wanted.len() / 8 && boxes_only > wanted.len() / 20, "{hits} {boxes_only}");
    Ok(())
}

/// Of triangles of all shapes: a corner in the box is an overlap, and a box around a point of the triangle,
/// larger than that is rounded; a box on one side of the plane is none.
fn overlaps_miss_no_point(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(91);
    let (mut inputs, mut wanted) = (Vec::new(), Vec::new());
    for i in 0..count(10_000) {
        let t = triangle(&mut rng, i % super::inputs::KINDS);
        let corner = t[rng.below(3)];
        match rng.below(3) {
            0 => {
                // A box with the corner as one of its own.
                let q = query(&mut rng, &t);
                let lower = std::array::from_fn(|i| corner[i].min(q[i]));
                let upper = std::array::from_fn(|i| corner[i].max(q[i]));
                inputs.push(Input { t, lower, upper });
                wanted.push(Some(true));
            }
            1 => {
                let (u, v) =
                    (f64::from(rng.float()).abs() * 0.5, f64::from(rng.float()).abs() * 0.5);
                let p = at(&t, u, v);
                let most = t.as_flattened().iter().fold(0.0, |most: f32, x| most.max(x.abs()));
                let lower = p.map(|x| x - most * f32::EPSILON - f32::from_bits(1));
                let upper = p.map(|x| x + most * f32::EPSILON + f32::from_bits(1));
                inputs.push(Input { t, lower, upper });
                wanted.push(Some(true));
            }
            _ => {
                let (p, q) = (query(&mut rng, &t), query(&mut rng, &t));
                let lower: Point = std::array::from_fn(|i| p[i].min(q[i]));
                let upper: Point = std::array::from_fn(|i| p[i].max(q[i]));
                let side = |k: usize| {
                    let at: Point =
                        std::array::from_fn(|i| if k >> i & 1 == 0 { lower[i] } else { upper[i] });
                    let [a, b, c, d] = [t[0], t[1], t[2], at].map(|p| robust::Coord3D {
                        x: f64::from(p[0]),
                        y: f64::from(p[1]),
                        z: f64::from(p[2]),
                    });
                    robust::orient3d(a, b, c, d)
                };
                let above = (0..8).all(|k| side(k) > 0.0) || (0..8).all(|k| side(k) < 0.0);
                inputs.push(Input { t, lower, upper });
                wanted.push(above.then_some(false));
            }
        }
    }
    let found = find(device, &inputs)?;
    for ((input, found), wanted) in inputs.iter().zip(found).zip(&wanted) {
        if let Some(wanted) = wanted {
            ensure_eq!(found, *wanted, "{:?} {:?} {:?}", input.t, input.lower, input.upper);
        }
    }
    ensure!(wanted.iter().filter(|wanted| **wanted == Some(false)).count() > wanted.len() / 20);
    Ok(())
}

fn overlaps_of_strange_boxes(device: &TestDevice) -> TestResult {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let t = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 4.0]];
    let input = |lower, upper| Input { t, lower, upper };
    let inputs = [
        // Everything, and half of it; a point of the triangle.
        input([-inf; 3], [inf; 3]),
        input([1.0, -inf, -inf], [inf; 3]),
        input([1.0; 3], [1.0; 3]),
        // Half of everything, next to it; a point beside it.
        input([-inf, -inf, -inf], [-1.0, inf, inf]),
        input([1.0, 1.0, 1.0_f32.next_up()], [1.0, 1.0, 1.0_f32.next_up()]),
        // Empty ones, and none.
        input([inf; 3], [-inf; 3]),
        input([3.0, 0.0, 0.0], [1.0, 4.0, 4.0]),
        input([nan, 0.0, 0.0], [1.0, 4.0, 4.0]),
        input([0.0; 3], [1.0, 4.0, nan]),
    ];
    let found = find(device, &inputs)?;
    ensure_eq!(found, [true, true, true, false, false, false, false, false, false]);
    Ok(())
}
