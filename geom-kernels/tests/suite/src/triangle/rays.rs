//! Rays: exactly one hit of what tiles the plane around them, and the hit that f64 finds.

use super::inputs::{point, size, triangle, whole};
use super::{Point, Triangle, count, real, row, run};
use geom_oracle::linear::{cross, dot, length, sub};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::triangle",
        device(rays_hit_what_f64_hits),
        device(a_fan_around_a_vertex_is_hit_once),
        device(a_grid_is_hit_once_at_edges_and_vertices),
        device(rays_that_hit_nothing),
        device(rays_of_any_scale),
    ]
}

/// A triangle, a ray's origin and direction, its t.
struct Input {
    t: Triangle,
    origin: Point,
    direction: Point,
    range: [f32; 2],
}

struct Found {
    valid: bool,
    hit: bool,
    t: f32,
    u: f32,
    v: f32,
    front: bool,
}

const ALL: [f32; 2] = [0.0, f32::INFINITY];

fn find(device: &TestDevice, inputs: &[Input]) -> Result<Vec<Found>, Failure> {
    let rows: Vec<[f32; 17]> = inputs
        .iter()
        .map(|i| row(&[i.t.as_flattened(), &i.origin, &i.direction, &i.range]))
        .collect();
    let found = run::<17, 6>(device, "rays", &rows)?;
    let number = f32::from_bits;
    Ok(found
        .into_iter()
        .map(|[valid, hit, t, u, v, front]| Found {
            valid: valid == 1,
            hit: hit == 1,
            t: number(t),
            u: number(u),
            v: number(v),
            front: front == 1,
        })
        .collect())
}

/// t, u, v, and the cosine between ray and normal: Moller and Trumbore's solution, in f64.
fn solve(input: &Input) -> [f64; 4] {
    let wide = |p: Point| p.map(f64::from);
    let [a, b, c] = input.t.map(wide);
    let (d, r) = (wide(input.direction), sub(wide(input.origin), a));
    let (e, f) = (sub(b, a), sub(c, a));
    let n = cross(e, f);
    let det = -dot(&d, &n);
    let moment = cross(r, d);
    [
        dot(&r, &n) / det,
        dot(&f, &moment) / det,
        -dot(&e, &moment) / det,
        -det / (length(&n) * length(&d)),
    ]
}

fn rays_hit_what_f64_hits(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(70);
    let mut inputs = Vec::new();
    for i in 0..count(20_000) {
        let t = triangle(&mut rng, [10, 5, 6, 2][i % 4]);
        let [u, v] = [0; 2].map(|_: i32| f64::from(rng.float().abs()) * 0.7);
        let near = super::inputs::at(&t, u, v);
        let mut direction = point(&mut rng);
        if i % 8 == 0 {
            direction[i / 8 % 3] = 0.0;
            direction[(i / 8 + 1) % 3] = 0.0;
        }
        let by = rng.float() * 10.0;
        let origin = std::array::from_fn(|k| near[k] - by * direction[k]);
        let range = if i % 3 == 0 { [0.0, rng.float().abs() * 20.0] } else { ALL };
        inputs.push(Input { t, origin, direction, range });
    }
    let (mut hit, mut missed) = (0, 0);
    for (input, found) in inputs.iter().zip(find(device, &inputs)?) {
        let [t, u, v, cosine] = solve(input);
        let far = input.origin.iter().chain(input.t.as_flattened());
        let far = far.fold(0.0, |most: f64, x| most.max(f64::from(x.abs())));
        let long = length(&input.direction.map(f64::from));
        // What some ulp of the coordinates may change, seen at an angle.
        let (across, along) = (
            far * 1e-6 / (f64::from(size(&input.t)) * cosine.abs()),
            far * 1e-6 / (long * cosine.abs()),
        );
        let shape = real::area(&input.t);
        let thin = length(&shape) / f64::from(size(&input.t)).powi(2);
        if !(thin > 0.05 && cosine.abs() > 0.05) {
            continue;
        }
        let across = across / thin;
        let inside = u.min(v).min(1.0 - u - v);
        let [first, last] = input.range.map(f64::from);
        let in_range = (t - first).min(last - t);
        if inside > across && in_range > along {
            ensure!(found.hit, "{:?} {:?} {:?}", input.t, input.origin, input.direction);
            let off = (f64::from(found.t) - t).abs();
            ensure!(off <= along, "t {} is not {t}: {off}, {along}", found.t);
            let off = (f64::from(found.u) - u).abs().max((f64::from(found.v) - v).abs());
            ensure!(off <= across, "{} {} are not {u} {v}", found.u, found.v);
            ensure_eq!(found.front, cosine < 0.0);
            hit += 1;
        } else if inside < -across || in_range < -along {
            ensure!(!found.hit, "{:?} {:?} {:?}", input.t, input.origin, input.direction);
            missed += 1;
        }
    }
    ensure!(hit > inputs.len() / 20 && missed > inputs.len() / 4, "{hit} {missed}");
    Ok(())
}

/// A closed fan: its centre, then the corners in the order in which they turn around the ray.
fn fan(rng: &mut Rng, direction: [f64; 3], offset: f32) -> Vec<[f64; 3]> {
    let centre = [0; 3].map(|_: i32| f64::from(whole(rng, 1000) + offset));
    let unit = geom_oracle::linear::normalize(direction);
    // Two axes across.
    let least = (0..3).min_by(|i, j| unit[*i].abs().total_cmp(&unit[*j].abs())).unwrap_or(0);
    let mut axis = [0.0; 3];
    axis[least] = 1.0;
    let x = geom_oracle::linear::normalize(cross(unit, axis));
    let y = cross(unit, x);
    let corners = 4 + rng.below(8);
    let mut all = vec![centre];
    for i in 0..corners {
        let angle = (i as f64 + 0.6 * f64::from(rng.float()).abs()) / corners as f64;
        let (sin, cos) = (angle * std::f64::consts::TAU).sin_cos();
        let far = 100.0 + 900.0 * f64::from(rng.float()).abs();
        let deep = 300.0 * f64::from(rng.float());
        // Even numbers: what divides an edge into quarters is exact.
        all.push(std::array::from_fn(|k| {
            let corner = centre[k] + far * (cos * x[k] + sin * y[k]) + deep * unit[k];
            (corner / 2.0).round() * 2.0
        }));
    }
    all
}

/// Rays to the centre, to points of the edges that meet there, and to some ulp beside them: to points
/// that are exactly on the ray, and to rounded ones. Each hits exactly one triangle of the fan.
fn a_fan_around_a_vertex_is_hit_once(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(71);
    let mut inputs = Vec::new();
    let mut sizes = Vec::new();
    for i in 0..count(1_500) {
        let direction = loop {
            let d = [0; 3].map(|_: i32| f64::from(whole(&mut rng, 9)));
            if d != [0.0; 3] {
                break d;
            }
        };
        let offset = [0.0, 1e3, 1e5][i % 3];
        let points = fan(&mut rng, direction, offset);
        let ring = &points[1..];
        let corner = ring[rng.below(ring.len())];
        let part = [0.0, 0.5, 0.25, 0.125, 0.1, 0.3][rng.below(6)];
        let target: [f64; 3] =
            std::array::from_fn(|k| points[0][k] + part * (corner[k] - points[0][k]));
        let by = 1 + rng.below(64);
        let mut origin = target.map(|x| x as f32);
        for k in 0..3 {
            origin[k] = (target[k] - by as f64 * direction[k]) as f32;
        }
        let mut direction = direction.map(|x| x as f32);
        match rng.below(4) {
            0 => direction = direction.map(|x| x * 0.1),
            1 => origin = super::inputs::beside(&mut rng, origin),
            // Aimed from anywhere, as well as f32 can.
            2 => {
                let from = point(&mut rng);
                let from: Point = std::array::from_fn(|k| origin[k] + from[k]);
                let aim: Point = std::array::from_fn(|k| target[k] as f32 - from[k]);
                let straight = dot(&aim.map(f64::from), &direction.map(f64::from))
                    / (length(&aim.map(f64::from)) * length(&direction.map(f64::from)));
                if straight > 0.99 {
                    (origin, direction) = (from, aim);
                }
            }
            _ => {}
        }
        let narrow = |p: [f64; 3]| p.map(|x| x as f32);
        sizes.push(ring.len());
        for k in 0..ring.len() {
            let (b, c) = (narrow(ring[k]), narrow(ring[(k + 1) % ring.len()]));
            let a = narrow(points[0]);
            // Any corner first, and both turns.
            let mut t = if rng.below(2) == 0 { [a, b, c] } else { [a, c, b] };
            t.rotate_left(rng.below(3));
            inputs.push(Input { t, origin, direction, range: [f32::NEG_INFINITY, f32::INFINITY] });
        }
    }
    let found = find(device, &inputs)?;
    let mut at = 0;
    for size in sizes {
        let hits = found[at..at + size].iter().filter(|found| found.hit).count();
        let Input { origin, direction, .. } = &inputs[at];
        ensure_eq!(hits, 1, "{origin:?} {direction:?} {:?}", inputs[at].t);
        at += size;
    }
    Ok(())
}

/// A grid of squares, each of two triangles; rays straight and aslant through its vertices, the middles of
/// its edges and of its diagonals.
fn a_grid_is_hit_once_at_edges_and_vertices(device: &TestDevice) -> TestResult {
    let mut inputs = Vec::new();
    let mut rays = 0;
    let squares = 3;
    for turn in 0..3 {
        // Whole numbers on other axes, so that the grid lies across each.
        let place = |p: [f32; 3]| -> Point { std::array::from_fn(|i| p[(i + turn) % 3]) };
        for slope in [[0.0, 0.0, 1.0], [0.0, 0.0, -1.0], [1.0, 0.0, 2.0], [1.0, -1.0, -1.0]] {
            for step in 0..49 {
                let target = [1 + step % 7, 1 + step / 7].map(|x| x as f32 * 0.5 - 0.5);
                let target = [target[0] * 0.8 + 0.25, target[1] * 0.8 + 0.25];
                let exact = target.map(|x| (x * 2.0).round() * 0.5);
                for target in [exact, target] {
                    let [x, y, z]: Point = slope;
                    let origin = place([target[0] - 4.0 * x, target[1] - 4.0 * y, -4.0 * z]);
                    rays += 1;
                    for square in 0..squares * squares {
                        let (i, j) = ((square % squares) as f32, (square / squares) as f32);
                        let [a, b] = [[i, j, 0.0], [i + 1.0, j, 0.0]].map(place);
                        let [c, d] = [[i + 1.0, j + 1.0, 0.0], [i, j + 1.0, 0.0]].map(place);
                        for t in [[a, b, c], [c, d, a]] {
                            inputs.push(Input { t, origin, direction: place(slope), range: ALL });
                        }
                    }
                }
            }
        }
    }
    let found = find(device, &inputs)?;
    let each = 2 * squares * squares;
    let mut on_edges = 0;
    for ray in 0..rays {
        let (inputs, found) = (&inputs[each * ray..][..each], &found[each * ray..][..each]);
        let hits: Vec<_> = found.iter().filter(|found| found.hit).collect();
        ensure_eq!(hits.len(), 1, "{:?} {:?}", inputs[0].origin, inputs[0].direction);
        ensure!((hits[0].t - 4.0).abs() < 1e-5, "{}", hits[0].t);
        on_edges += usize::from(hits[0].u == 0.0 || hits[0].v == 0.0);
    }
    ensure!(on_edges > rays / 8, "{on_edges} of {rays}");
    Ok(())
}

fn rays_that_hit_nothing(device: &TestDevice) -> TestResult {
    let t = [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 4.0, 0.0]];
    let (o, d) = ([1.0, 1.0, -2.0], [0.0, 0.0, 1.0]);
    let big = 2_f32.powi(60).next_up();
    let input = |origin, direction, range| Input { t, origin, direction, range };
    let mut inputs = vec![
        // 0..5 do hit: t is 2, exactly, and a range is closed.
        input(o, d, ALL),
        input(o, d, [2.0, 2.0]),
        input(o, [0.0, 0.0, 0.5], [4.0, f32::MAX]),
        input(o, [0.0, 0.0, f32::MAX], [0.0, 1.0]),
        input([1.0, 1.0, -0.5], [0.0, 0.0, f32::from_bits(1 << 22)], ALL),
        // Not in the range, which may be none; behind.
        input(o, d, [0.0, 2_f32.next_down()]),
        input(o, d, [2_f32.next_up(), f32::INFINITY]),
        input(o, d, [f32::NAN, f32::INFINITY]),
        input(o, d, [0.0, f32::NAN]),
        input(o, d, [3.0, 1.0]),
        input(o, [0.0, 0.0, -1.0], ALL),
        // t is beyond the largest number.
        input([1.0, 1.0, -1e18], [0.0, 0.0, f32::from_bits(1)], ALL),
    ];
    let valid = inputs.len();
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        inputs.push(input(o, [bad, 0.0, 1.0], ALL));
        inputs.push(input(o, [0.0, 0.0, bad], ALL));
        inputs.push(input([1.0, bad, -2.0], d, ALL));
    }
    inputs.push(input(o, [0.0, -0.0, 0.0], ALL));
    inputs.push(input([1.0, 1.0, -big], d, ALL));
    for (i, found) in find(device, &inputs)?.iter().enumerate() {
        ensure_eq!(found.valid, i < valid, "{i}");
        ensure_eq!(found.hit, i < 5, "{i}");
    }

    // Triangles without area, and edge-on, with the ray through them.
    let mut rng = device.rng(72);
    let mut inputs = Vec::new();
    for i in 0..count(3_000) {
        let p = [0; 3].map(|_: i32| whole(&mut rng, 3));
        let direction = [0; 3].map(|_: i32| whole(&mut rng, 3));
        let t = if i % 2 == 0 {
            triangle(&mut rng, 3 + i / 2 % 2)
        } else {
            let by = |n: f32| std::array::from_fn(|k| p[k] + n * direction[k]);
            let mut t = [by(2.0), by(5.0), [0; 3].map(|_: i32| whole(&mut rng, 9))];
            t.rotate_left(rng.below(3));
            t
        };
        inputs.push(Input { t, origin: p, direction, range: [f32::NEG_INFINITY, f32::INFINITY] });
    }
    // Divisions by 3 shear inexactly; by powers of two they do not.
    inputs.retain(|input| {
        let most = input.direction.iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        most == 1.0 || most == 2.0
    });
    ensure!(inputs.len() > 500);
    for (input, found) in inputs.iter().zip(find(device, &inputs)?) {
        ensure!(!found.hit, "{:?} {:?} {:?}", input.t, input.origin, input.direction);
    }
    Ok(())
}

/// The same hit at any power of two, down to where all products vanish in f32.
fn rays_of_any_scale(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(73);
    let mut inputs = Vec::new();
    const POWERS: [i32; 6] = [0, 55, -60, -75, -100, -120];
    for _ in 0..count(500) {
        // Whole numbers: none is rounded when it gets small.
        let t = [0; 3].map(|_: i32| [0; 3].map(|_: i32| whole(&mut rng, 7)));
        let [u, v] = [rng.below(5), rng.below(4)].map(|x| x as f64 / 8.0);
        let target = super::inputs::at(&t, u, v);
        let direction = [0; 3].map(|_: i32| whole(&mut rng, 8));
        let origin: Point = std::array::from_fn(|k| target[k] - 2.0 * direction[k]);
        for power in POWERS {
            let scaled = |p: Point| p.map(|x| (f64::from(x) * 2_f64.powi(power)) as f32);
            inputs.push(Input { t: t.map(scaled), origin: scaled(origin), direction, range: ALL });
        }
    }
    let found = find(device, &inputs)?;
    let mut hits = 0;
    for (found, inputs) in found.chunks_exact(POWERS.len()).zip(inputs.chunks_exact(POWERS.len())) {
        for (found_here, power) in found.iter().zip(POWERS) {
            let t = (f64::from(found[0].t) * 2_f64.powi(power)) as f32;
            ensure_eq!(
                (found_here.hit, found_here.t, found_here.u, found_here.v, found_here.front),
                (found[0].hit, t, found[0].u, found[0].v, found[0].front),
                "2^{power} {:?} {:?} {:?}",
                inputs[0].t,
                inputs[0].origin,
                inputs[0].direction
            );
        }
        hits += usize::from(found[0].hit);
    }
    ensure!(hits > inputs.len() / POWERS.len() / 4, "{hits}");
    Ok(())
}
