//! Inside and outside of closed meshes by crossings, with points that align with vertices and edges.

use super::inputs::{any_size, whole};
use super::{Point, Triangle, count, row, run};
use geom_oracle::linear::{cross, dot, length, sub};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "geometry::triangle",
        device(crossings_of_tetrahedra_tell_the_side),
        device(crossings_count_windings),
        device(points_on_triangles_are_told),
    ]
}

fn find(device: &TestDevice, inputs: &[(Triangle, Point)]) -> Result<Vec<i32>, Failure> {
    let rows: Vec<[f32; 12]> = inputs.iter().map(|(t, q)| row(&[t.as_flattened(), q])).collect();
    let found = run::<12, 1>(device, "crossings", &rows)?;
    Ok(found.into_iter().map(|[found]| found as i32).collect())
}

/// The sign of det(a - q, b - q, c - q).
fn side([a, b, c]: Triangle, q: Point) -> i32 {
    let wide =
        |p: Point| robust::Coord3D { x: f64::from(p[0]), y: f64::from(p[1]), z: f64::from(p[2]) };
    let value = robust::orient3d(wide(a), wide(b), wide(c), wide(q));
    i32::from(value > 0.0) - i32::from(value < 0.0)
}

/// Faces of a tetrahedron, whose normals point outwards if its four corners turn one way.
fn faces([a, b, c, d]: [Point; 4]) -> [Triangle; 4] {
    [[a, c, b], [a, b, d], [b, c, d], [c, a, d]]
}

/// Of tetrahedra of any shape and turn, some of them flat: corners of small whole numbers, where most
/// points align with something, and of all sizes at once.
fn crossings_of_tetrahedra_tell_the_side(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(80);
    let mut inputs = Vec::new();
    for i in 0..count(6_000) {
        let mut corner = || -> Point {
            [0; 3].map(|_: i32| if i % 4 == 3 { any_size(&mut rng) } else { whole(&mut rng, 2) })
        };
        let corners = [corner(), corner(), corner(), corner()];
        let mut q = corner();
        // Aligned with a corner, in y and z.
        if rng.below(2) == 0 {
            (q[1], q[2]) = (corners[i / 4 % 4][1], corners[i / 4 % 4][2]);
        }
        inputs.extend(faces(corners).map(|t| (t, q)));
    }
    let found = find(device, &inputs)?;
    let (mut inside, mut outside, mut on) = (0, 0, 0);
    for (found, inputs) in found.chunks_exact(4).zip(inputs.chunks_exact(4)) {
        let q = inputs[0].1;
        let sides: [i32; 4] = std::array::from_fn(|i| side(inputs[i].0, q));
        let flat = side(inputs[0].0, inputs[1].0[2]) == 0;
        // What lies on a face is on the plane of one, and outside of none.
        let (up, down) = (sides.contains(&1), sides.contains(&-1));
        if found.contains(&2) {
            ensure!(sides.contains(&0) && !(up && down), "{inputs:?} {found:?}");
            on += 1;
            continue;
        }
        let sum: i32 = found.iter().sum();
        let wanted = if up && down || sides.contains(&0) { 0 } else { sides[0] };
        // On the closed tetrahedron, but on no face: impossible, unless it is flat.
        ensure!(flat || (up && down) || !sides.contains(&0), "missed: {inputs:?}");
        ensure_eq!(sum, if flat { 0 } else { wanted }, "{inputs:?} {found:?}");
        inside += usize::from(wanted != 0 && !flat);
        outside += usize::from(up && down);
    }
    let all = inputs.len() / 4;
    ensure!(inside > all / 100 && outside > all / 4 && on > all / 20, "{inside} {outside} {on}");
    Ok(())
}

/// An icosahedron's faces.
fn icosahedron() -> Vec<[[f64; 3]; 3]> {
    let golden = (1.0 + 5_f64.sqrt()) / 2.0;
    let mut corners = Vec::new();
    for axis in 0..3 {
        for (x, y) in [(1.0, golden), (1.0, -golden), (-1.0, golden), (-1.0, -golden)] {
            let mut corner = [0.0; 3];
            corner[(axis + 1) % 3] = x;
            corner[(axis + 2) % 3] = y;
            corners.push(corner);
        }
    }
    let near = |a: &[f64; 3], b: &[f64; 3]| (length(&sub(*a, *b)) - 2.0).abs() < 1e-9;
    let mut faces = Vec::new();
    for (i, a) in corners.iter().enumerate() {
        for (j, b) in corners.iter().enumerate().skip(i + 1) {
            for c in corners.iter().skip(j + 1) {
                if near(a, b) && near(b, c) && near(a, c) {
                    let out = dot(a, &cross(sub(*b, *a), sub(*c, *a))) > 0.0;
                    faces.push(if out { [*a, *b, *c] } else { [*a, *c, *b] });
                }
            }
        }
    }
    faces
}

/// Each face as four, at the middles of its edges.
fn divided(faces: &[[[f64; 3]; 3]]) -> Vec<[[f64; 3]; 3]> {
    let mut all = Vec::new();
    for [a, b, c] in faces.iter().copied() {
        let middle =
            |a: [f64; 3], b: [f64; 3]| -> [f64; 3] { std::array::from_fn(|i| (a[i] + b[i]) / 2.0) };
        let (ab, bc, ca) = (middle(a, b), middle(b, c), middle(c, a));
        all.extend([[a, ab, ca], [ab, b, bc], [ca, bc, c], [ab, bc, ca]]);
    }
    all
}

/// How often the faces wind around the point, and the least angle at which it sees none of them: by their
/// solid angles. Van Oosterom and Strackee, 1983.
fn winding(faces: &[Triangle], q: Point) -> f64 {
    let wide = |p: Point| sub(p.map(f64::from), q.map(f64::from));
    let angle = |t: &Triangle| {
        let [a, b, c] = t.map(wide);
        let (x, y, z) = (length(&a), length(&b), length(&c));
        let under = x * y * z + dot(&a, &b) * z + dot(&b, &c) * x + dot(&c, &a) * y;
        2.0 * dot(&a, &cross(b, c)).atan2(under)
    };
    faces.iter().map(angle).sum::<f64>() / (4.0 * std::f64::consts::PI)
}

/// A closed mesh whose vertices are moved anywhere, so that it is no more convex, and may cross itself;
/// vertices on a lattice, so that many align.
fn body(rng: &mut Rng, kind: usize) -> Vec<Triangle> {
    let faces = divided(&icosahedron());
    let seed = rng.next();
    let offset = [0.0, 1e3, 1e5][kind % 3];
    let scale = [64.0, 8.0, 1.0][kind % 3];
    faces
        .iter()
        .map(|t| {
            t.map(|p| {
                // The same for the same vertex, whichever face asks.
                let key = p.iter().fold(seed, |key, x| {
                    key.rotate_left(21) ^ ((x * 4096.0).round() as i64 as u64).wrapping_mul(31)
                });
                let mut rng = Rng::new(key);
                let far = 1.0 + 0.7 * f64::from(rng.float());
                p.map(|x| ((x * far * scale).round() / scale) as f32 + offset)
            })
        })
        .collect()
}

fn crossings_count_windings(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(81);
    let mut inputs = Vec::new();
    let mut each = 0;
    for i in 0..count(150) {
        let faces = body(&mut rng, i);
        each = faces.len();
        let corner = faces[rng.below(each)][0];
        let other = faces[rng.below(each)][rng.below(3)];
        let offset = [0.0, 1e3, 1e5][i % 3];
        let x = offset + rng.float() * 2.0;
        let q = match i / 3 % 3 {
            0 => [x, corner[1], corner[2]],
            1 => [x, corner[1], other[2]],
            _ => [x, offset + rng.float(), corner[2]],
        };
        inputs.extend(faces.iter().map(|t| (*t, q)));
    }
    let found = find(device, &inputs)?;
    let mut seen = [0; 2];
    for (found, inputs) in found.chunks_exact(each).zip(inputs.chunks_exact(each)) {
        if found.contains(&2) {
            continue;
        }
        let faces: Vec<Triangle> = inputs.iter().map(|(t, _)| *t).collect();
        let wanted = winding(&faces, inputs[0].1);
        // Otherwise it is too near to a face for the oracle.
        ensure!((wanted - wanted.round()).abs() < 1e-6, "{wanted}");
        ensure_eq!(found.iter().sum::<i32>(), wanted.round() as i32, "{:?}", inputs[0].1);
        let crossed = found.iter().filter(|found| **found != 0).count();
        ensure_eq!(crossed % 2, wanted.round() as usize % 2);
        seen[usize::from(wanted.round() != 0.0)] += 1;
    }
    ensure!(seen.iter().all(|seen| *seen > 20), "{seen:?}");
    Ok(())
}

/// Whether a point of whole numbers is on the triangle: on its plane and between its edges, or on one.
fn is_on(t: &Triangle, q: Point) -> bool {
    let wide = |p: Point| p.map(|x| x as i64);
    let sub = |a: [i64; 3], b: [i64; 3]| -> [i64; 3] { std::array::from_fn(|i| a[i] - b[i]) };
    let dot = |a: [i64; 3], b: [i64; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let cross = |a: [i64; 3], b: [i64; 3]| -> [i64; 3] {
        std::array::from_fn(|i| {
            let (j, k) = ((i + 1) % 3, (i + 2) % 3);
            a[j] * b[k] - a[k] * b[j]
        })
    };
    let (q, corners) = (wide(q), t.map(wide));
    let on_edge = (0..3).any(|i| {
        let (to_a, to_b) = (sub(corners[i], q), sub(corners[(i + 1) % 3], q));
        cross(to_a, to_b) == [0; 3] && dot(to_a, to_b) <= 0
    });
    let [a, b, c] = corners;
    let n = cross(sub(b, a), sub(c, a));
    let left = |p: [i64; 3], r: [i64; 3]| dot(n, cross(sub(p, q), sub(r, q))) > 0;
    on_edge || (dot(n, sub(q, a)) == 0 && left(a, b) && left(b, c) && left(c, a))
}

fn points_on_triangles_are_told(device: &TestDevice) -> TestResult {
    let mut rng = device.rng(82);
    let mut inputs = Vec::new();
    for _ in 0..count(20_000) {
        let mut t = [0; 4].map(|_: i32| [0; 3].map(|_: i32| whole(&mut rng, 2)));
        // Often all on a plane along an axis.
        if rng.below(2) == 0 {
            let axis = rng.below(3);
            for p in &mut t {
                p[axis] = 1.0;
            }
        }
        inputs.push(([t[0], t[1], t[2]], t[3]));
    }
    let mut on = 0;
    for ((t, q), found) in inputs.iter().zip(find(device, &inputs)?) {
        ensure_eq!(found == 2, is_on(t, *q), "{t:?} {q:?} {found}");
        on += usize::from(found == 2);
    }
    ensure!(on > inputs.len() / 20, "{on}");
    Ok(())
}
