//! The same results by brute force, in f64.

use geom_kernels::mesh::{NO_FACE, TriangleMesh};
use rayon::prelude::*;

use crate::speed::Answers;

/// How many results of each kind are checked.
const SAMPLE: usize = 200;

type Vector = [f64; 3];
type Triangle = [Vector; 3];

/// Compares a sample of the results, spread over all, with brute force; says how many. Signs only of a mesh
/// that is closed, turned outwards, and does not cut itself.
///
/// # Errors
/// The first result that is wrong, with what it should be.
pub(crate) fn check(mesh: &TriangleMesh, answers: &Answers, signs: bool) -> Result<String, String> {
    let wide = |p: [f32; 3]| p.map(f64::from);
    let corner = |i: u32| mesh.points.get(i as usize).copied().map(wide);
    let faces: Vec<Option<Triangle>> =
        mesh.faces.iter().map(|&[a, b, c]| Some([corner(a)?, corner(b)?, corner(c)?])).collect();
    let bounds = mesh.bounds().ok_or("nothing to compare with")?;
    let diagonal = length(sub(wide(bounds.upper), wide(bounds.lower)));
    let eps = f64::from(f32::EPSILON);

    let step = answers.points.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<usize> = (0..answers.points.len()).step_by(step).collect();
    sample.par_iter().try_for_each(|&i| {
        let (at, found) = (wide(answers.points[i]), f64::from(answers.distances[i]));
        let triangles = || faces.iter().flatten();
        let distance = triangles().map(|t| distance(t, at)).fold(f64::INFINITY, f64::min);
        // As `Mesh::closest_points` says; written so that a NaN is refused.
        let error = 4.0 * eps * (length(at) + diagonal);
        let is_near = found.abs() == distance || (found.abs() - distance).abs() <= error;
        let inside = triangles().map(|t| solid_angle(t, at)).sum::<f64>() > std::f64::consts::TAU;
        let is_on_side = !signs || distance <= error || inside == (found < 0.0);
        if !is_near || !is_on_side {
            let side = if inside { "inside" } else { "outside" };
            return Err(format!("distance {found} of {at:?}, not {distance}, {side}"));
        }

        let (ray, hit) = (answers.rays[i], answers.hits[i]);
        let (origin, direction) = (wide(ray.origin), wide(ray.direction));
        let slack = 16.0 * eps * (length(origin) + length(direction) + diagonal);
        let (mut from, mut to) = (f64::INFINITY, f64::INFINITY);
        for (first, last) in triangles().map(|t| hit_range(t, origin, direction, slack)) {
            (from, to) = (from.min(first), to.min(last));
        }
        let (t, face) = (f64::from(hit.t), faces.get(hit.face as usize));
        let is_of_face = match face.and_then(Option::as_ref) {
            Some(face) => hit.t.is_finite() && hit_range(face, origin, direction, slack).0 <= t,
            None => hit.t == f32::INFINITY && hit.face == NO_FACE,
        };
        if !is_of_face || !(from..=to).contains(&t) {
            return Err(format!("hit {hit:?} of {ray:?}, not between {from} and {to}"));
        }
        Ok(())
    })?;
    let what = if signs { "signed distances" } else { "distances, without their signs," };
    Ok(format!("{} {what} and as many hits agree with brute force in f64", sample.len()))
}

fn sub(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|axis| a[axis] - b[axis])
}

fn dot(a: Vector, b: Vector) -> f64 {
    (0..3).map(|axis| a[axis] * b[axis]).sum()
}

fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// Of a point from a triangle: of its plane, if the point is above the triangle, or of its nearest edge.
fn distance(triangle: &Triangle, at: Vector) -> f64 {
    let [a, b, c] = *triangle;
    let normal = cross(sub(b, a), sub(c, a));
    let edges = [(a, b), (b, c), (c, a)];
    if normal != [0.0; 3]
        && edges.iter().all(|&(from, to)| dot(cross(sub(to, from), sub(at, from)), normal) >= 0.0)
    {
        return dot(sub(at, a), normal).abs() / length(normal);
    }
    let to_edge = |&(from, to): &(Vector, Vector)| {
        let (edge, way) = (sub(to, from), sub(at, from));
        // Of an edge without length, 0.
        let squared = dot(edge, edge).max(f64::MIN_POSITIVE);
        let part = (dot(way, edge) / squared).clamp(0.0, 1.0);
        length(sub(way, edge.map(|x| x * part)))
    };
    edges.iter().map(to_edge).fold(f64::INFINITY, f64::min)
}

/// The part of the sphere around a point that a triangle covers, seen from inside positive (van Oosterom,
/// Strackee, 1983): of a closed mesh, 4π inside and 0 outside in all.
fn solid_angle(triangle: &Triangle, at: Vector) -> f64 {
    let [a, b, c] = triangle.map(|corner| sub(corner, at));
    let (la, lb, lc) = (length(a), length(b), length(c));
    let volume = dot(a, cross(b, c));
    2.0 * volume.atan2(la * lb * lc + dot(a, b) * lc + dot(b, c) * la + dot(c, a) * lb)
}

/// Of a ray that hits a triangle, where that may be the first hit at the least, and where one certainly is,
/// if all may be off by `slack`; infinite if not (Möller, Trumbore, 1997).
fn hit_range(triangle: &Triangle, origin: Vector, direction: Vector, slack: f64) -> (f64, f64) {
    let [a, b, c] = *triangle;
    let (e1, e2, from) = (sub(b, a), sub(c, a), sub(origin, a));
    let normal = cross(e1, e2);
    let towards = -dot(direction, normal);
    let moment = cross(from, direction);
    let (u, v) = (dot(e2, moment) / towards, -dot(e1, moment) / towards);
    let t = dot(from, normal) / towards;
    // The flatter the ray, the farther slack moves the hit: along it, and on the triangle.
    let along = slack * length(normal) / towards.abs();
    let longest = length(e1).max(length(e2)).max(length(sub(c, b)));
    let across = along * length(direction) * longest / length(normal);
    let is_inside = |by: f64| u >= by && v >= by && u + v <= 1.0 - by;
    let (mut first, mut last) = (f64::INFINITY, f64::INFINITY);
    if is_inside(-across) && t >= -along {
        first = (t - along).max(0.0);
    }
    if is_inside(across) && t >= along {
        last = t + along;
    }
    (first, last)
}

#[cfg(test)]
mod tests {
    use geom_kernels::mesh::{Ray, RayHit, shapes};

    use super::*;

    #[test]
    fn a_wrong_answer_is_found() {
        let cube = shapes::cube(2.0).unwrap();
        let hit = |t, face| RayHit { t, face, u: 0.25, v: 0.25, front: 1 };
        let right = || Answers {
            points: vec![[0.0, 0.25, 0.0], [3.0, 0.5, 0.25], [4.0, 5.0, 0.0]],
            distances: vec![-0.75, 2.0, 5.0],
            rays: vec![
                Ray::new([3.0, 0.25, 0.5], [-2.0, 0.0, 0.0]),
                Ray::new([0.0, 0.25, 0.5], [0.0, 0.0, -0.5]),
                Ray::new([3.0, 0.25, 0.5], [0.0, 1.0, 0.0]),
            ],
            hits: vec![hit(1.0, 3), hit(3.0, 8), hit(f32::INFINITY, NO_FACE)],
        };
        check(&cube, &right(), true).unwrap();
        let spoils: [fn(&mut Answers, usize); 8] = [
            |answers, i| answers.distances[i] += 1e-4,
            |answers, i| answers.distances[i] *= -1.0,
            |answers, i| answers.distances[i] = f32::NAN,
            |answers, i| answers.hits[i].t = answers.hits[i].t.min(9.0) + 1e-3,
            |answers, i| answers.hits[i].t = 0.99,
            |answers, i| answers.hits[i].t = f32::NAN,
            |answers, i| answers.hits[i].face ^= u32::MAX,
            |answers, i| answers.hits[i].face = 0,
        ];
        for i in 0..3 {
            for spoil in spoils {
                let mut answers = right();
                spoil(&mut answers, i);
                assert!(check(&cube, &answers, true).is_err(), "{i}: {:?}", answers.hits);
            }
        }
    }
}
