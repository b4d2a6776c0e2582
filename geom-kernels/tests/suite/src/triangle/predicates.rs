//! Signs against the crate `robust`, and those of products against whole numbers.

use robust::{Coord, Coord3D, orient2d, orient3d};

use super::inputs::{KINDS, any_size, at, beside, triangle, whole};
use super::{Point, count, row, run};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::predicates",
        device(orientations_are_exact),
        device(edge_sides_are_exact),
        device(ties_have_one_side),
    ]
}

fn sign(value: f64) -> i32 {
    i32::from(value > 0.0) - i32::from(value < 0.0)
}

fn turn([a, b, c]: [Point; 3]) -> i32 {
    let [a, b, c] = [a, b, c].map(|p| Coord { x: f64::from(p[0]), y: f64::from(p[1]) });
    sign(orient2d(a, b, c))
}

fn side([a, b, c, d]: [Point; 4]) -> i32 {
    let wide = |p: Point| Coord3D { x: f64::from(p[0]), y: f64::from(p[1]), z: f64::from(p[2]) };
    sign(orient3d(wide(a), wide(b), wide(c), wide(d)))
}

/// The sign of p x q, of products that f64 holds exactly.
fn edge(p: Point, q: Point) -> i32 {
    let [a, b, c, d] = [p[0], q[1], p[1], q[0]].map(f64::from);
    sign(a * b - c * d)
}

/// Four points, of which often three are on a line in x and y, and all on a plane: exactly, or but for
/// some units in the last place.
fn points(rng: &mut Rng, kind: usize) -> [Point; 4] {
    let [a, b, c] = triangle(rng, kind);
    let d = match rng.below(6) {
        0 => [any_size(rng), any_size(rng), any_size(rng)],
        1 => beside(rng, at(&[a, b, c], 0.25, 0.5)),
        2 => at(&[a, b, c], 0.25, 0.5),
        3 => at(&[a, b, c], 3.0, -1.0),
        4 => a,
        _ => [0; 3].map(|_: i32| whole(rng, 3)),
    };
    let c = match rng.below(4) {
        0 => at(&[a, b, b], 0.5, 0.0),
        1 => beside(rng, at(&[a, b, b], 2.0, 0.0)),
        _ => c,
    };
    // Beyond 2^60 nothing is promised.
    [a, b, c, d].map(|p| p.map(|x| x.clamp(-(2_f32.powi(60)), 2_f32.powi(60))))
}

fn orientations_are_exact(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(60);
    let inputs: Vec<[Point; 4]> = (0..count(20_000)).map(|i| points(&mut rng, i % KINDS)).collect();
    let rows: Vec<[f32; 12]> = inputs.iter().map(|points| row(&[points.as_flattened()])).collect();
    let mut seen = [[0; 3]; 2];
    for (points, found) in inputs.iter().zip(run::<12, 5>(device, "predicates", &rows)?) {
        let [a, b, c, _] = *points;
        let wanted = [turn([a, b, c]), side(*points)];
        ensure_eq!([found[0] as i32, found[1] as i32], wanted, "{points:?}");
        for (seen, wanted) in seen.iter_mut().zip(wanted) {
            seen[(wanted + 1) as usize] += 1;
        }
    }
    let least = inputs.len() / 10;
    ensure!(seen.iter().flatten().all(|seen| *seen > least), "each sign occurs: {seen:?}");
    Ok(())
}

fn edge_sides_are_exact(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(61);
    let mut rows = Vec::new();
    for i in 0..count(20_000) {
        let [mut p, mut q, ..] = points(&mut rng, i % KINDS);
        // Nearly parallel, exactly parallel, and with products that vanish in f32.
        match i % 5 {
            0 => q = beside(&mut rng, p),
            1 => q = p.map(|x| x * 0.5),
            2 => {
                let tiny = 2_f32.powi(-(60 + (rng.below(90) as i32)));
                (p, q) = (p.map(|x| x * tiny), beside(&mut rng, p).map(|x| x * tiny));
            }
            3 => p[rng.below(2)] = 0.0,
            _ => {}
        }
        rows.push(row::<12>(&[&p, &q]));
    }
    let (mut ties, mut vanishing) = (0, 0);
    for (row, found) in rows.iter().zip(run::<12, 5>(device, "predicates", &rows)?) {
        let (p, q) = ([row[0], row[1], 0.0], [row[3], row[4], 0.0]);
        let wanted = edge(p, q);
        ensure_eq!(found[2] as i32, wanted, "{p:?} {q:?}");
        let value = f32::from_bits(found[3]);
        ensure_eq!(sign(value.into()), wanted, "{value} of {p:?} {q:?}");
        let exact = f64::from(p[0]) * f64::from(q[1]) - f64::from(p[1]) * f64::from(q[0]);
        let error = (f64::from(value) - exact).abs();
        // 2 ulp, or the smallest number.
        ensure!(
            error <= exact.abs() * 2.0_f64.powi(-23) + 2.0_f64.powi(-149),
            "{value} of {exact}"
        );
        if wanted != 0 {
            ensure_eq!(found[4] as i32, wanted);
        }
        ties += usize::from(wanted == 0);
        vanishing += usize::from(wanted != 0 && exact.abs() < 2.0_f64.powi(-149));
    }
    ensure!(ties > rows.len() / 10 && vanishing > rows.len() / 50, "{ties} {vanishing}");
    Ok(())
}

/// Points in a line with the origin: the side is that of a point moved by (e, e^2), and turns with the
/// edge's direction.
fn ties_have_one_side(device: &TestDevice) -> TestResult {
    let mut rows = Vec::new();
    for direction in [[1, 0], [0, 1], [1, 1], [-2, 1], [3, -2], [0, 0]] {
        for (from, to) in [(-1, 2), (1, 3), (2, 1), (0, 1), (1, 0), (-1, -1), (0, 0)] {
            let at = |by: i32| [direction[0] * by, direction[1] * by, 0].map(|x| x as f32);
            rows.push(row::<12>(&[&at(from), &at(to)]));
            rows.push(row::<12>(&[&at(to), &at(from)]));
        }
    }
    let found = run::<12, 5>(device, "predicates", &rows)?;
    for (row, found) in rows.iter().zip(&found) {
        let [p, q] = [[row[0], row[1]], [row[3], row[4]]].map(|p| p.map(|x| i64::from(x as i32)));
        ensure_eq!(found[2], 0, "{p:?} {q:?} are a tie");
        // The origin at (2^-10, 2^-20), in those units; all coordinates are less than 2^10.
        let [p, q] = [p, q].map(|[x, y]| [(x << 20) - (1 << 10), (y << 20) - 1]);
        let wanted = (p[0] * q[1] - p[1] * q[0]).signum();
        ensure_eq!(i64::from(found[4] as i32), wanted, "{p:?} {q:?}");
    }
    for pair in found.chunks_exact(2) {
        ensure_eq!(pair[0][4] as i32, -(pair[1][4] as i32));
    }
    Ok(())
}
