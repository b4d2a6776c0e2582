//! Rays against integers, against the tree, and against moved corners.

use std::cmp::Ordering;

use super::{Class, Hit, Nearest, Ray};
use crate::Mesh;
use crate::rng::{Rng, soup, sphere};

type Int3 = [i128; 3];

fn sub(a: Int3, b: Int3) -> Int3 {
    std::array::from_fn(|i| a[i] - b[i])
}

fn volume(a: Int3, b: Int3, c: Int3) -> i128 {
    a[0] * (b[1] * c[2] - b[2] * c[1])
        + a[1] * (b[2] * c[0] - b[0] * c[2])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

/// Returns the hit of a ray of integers: t as a fraction, its front, and how many edges.
fn hit_of_integers(corners: [Int3; 3], o: Int3, d: Int3) -> Option<(i128, i128, bool, u8)> {
    let [a, b, c] = corners.map(|corner| sub(corner, o));
    let edges = [volume(d, b, c), volume(d, c, a), volume(d, a, b)];
    let slope: i128 = edges.iter().sum();
    let same = edges.iter().all(|x| *x >= 0) || edges.iter().all(|x| *x <= 0);
    let met = edges.iter().filter(|x| **x == 0).count() as u8;
    (same && slope != 0).then(|| {
        let (over, under) = (volume(a, b, c) * slope.signum(), slope.abs());
        (over, under, slope < 0, met)
    })
}

/// Rays through corners, middles of edges and points of faces of large triangles, and a step beside.
#[test]
fn decisions_are_those_of_integers() {
    let mut rng = Rng::new(11);
    let mut met = [0; 4];
    for step in 0..20_000 {
        let range = if step % 3 == 0 { 4 } else { 1 << 20 };
        let mut point = || -> Int3 {
            std::array::from_fn(|_| 4 * (rng.below(2 * range) as i128 - range as i128))
        };
        let (corners, mut o) = ([point(), point(), point()], point());
        let [a, b, c] = corners;
        let aim: Int3 = match step % 4 {
            0 => a,
            1 => std::array::from_fn(|i| (a[i] + b[i]) / 2),
            _ => std::array::from_fn(|i| (a[i] + 2 * b[i] + c[i]) / 4),
        };
        // From the face itself, or so close to it that volumes are small against what they are made of.
        let at = step % 5 < 2;
        if at {
            o = aim;
            o[step % 2] += (step % 5) as i128;
        }
        let mut d = if at { sub(point(), o) } else { sub(aim, o) };
        d[step % 3] += rng.below(3) as i128 - 1;
        if d.iter().any(|x| x.abs() >= 1 << 24) {
            continue;
        }

        let float = |p: Int3| p.map(|x| x as f32);
        let mesh = Mesh::new(&corners.map(float), &[[0, 1, 2]]);
        let (t_min, t_max) = [(-2.0, 2.0), (0.0, 1.0), (1.0, 9.0), (1.0, 1.0)][rng.below(4)];
        let ray = Ray { origin: float(o), direction: float(d), t_min, t_max };
        let found = mesh.ray_hits(&ray);
        let wanted = hit_of_integers(corners, o, d).filter(|(over, under, ..)| {
            over >= &(under * t_min as i128) && over <= &(under * t_max as i128)
        });
        let (Some(wanted), [hit]) = (wanted, &found[..]) else {
            assert!(
                wanted.is_none() && found.is_empty(),
                "{corners:?} {ray:?} {wanted:?} {found:?}"
            );
            met[3] += 1;
            continue;
        };
        let (over, under, front, edges) = wanted;
        let t = over as f64 / under as f64;
        assert!((hit.t - t).abs() <= 1e-13 * t.abs(), "{} is not {t}", hit.t);
        assert_eq!((hit.front, hit.edges, hit.face), (front, edges, 0));
        met[usize::from(edges)] += 1;
    }
    assert!(met.iter().all(|count| *count > 300), "{met:?}");
}

#[test]
fn weights_and_positions_agree() {
    let points = [[0.0, 0.0, 2.0], [4.0, 0.0, 2.0], [0.0, 4.0, 2.0]];
    let mesh = Mesh::new(&points, &[[0, 1, 2]]);
    let hit = |x: f32, y: f32| mesh.ray_hits(&Ray::new([x, y, 0.0], [0.0, 0.0, 0.5]));
    let inside = Hit { t: 4.0, uv: [0.25, 0.5], face: 0, front: false, edges: 0 };
    assert_eq!(hit(1.0, 2.0), [inside]);
    assert_eq!(hit(4.0, 0.0), [Hit { uv: [1.0, 0.0], edges: 2, ..inside }]);
    assert_eq!(hit(0.0, 1.0), [Hit { uv: [0.0, 0.25], edges: 1, ..inside }]);
    assert_eq!(hit(-0.5, 1.0), []);
    let back = Ray::segment([1.0, 1.0, 3.0], [1.0, 1.0, 2.0]);
    let front = Hit { t: 1.0, uv: [0.25, 0.25], front: true, ..inside };
    assert_eq!(mesh.ray_hits(&back), [front]);
    assert_eq!(mesh.ray_hit_on_face(0, &back), Some(front));
    assert_eq!(mesh.ray_hit_on_face(1, &back), None);
    assert_eq!(mesh.ray_hits(&Ray { t_max: 1f32.next_down(), ..back }), []);
    // Along the face, and what is no ray.
    assert_eq!(mesh.ray_hits(&Ray::new([-1.0, 1.0, 2.0], [1.0, 0.0, 0.0])), []);
    assert_eq!(mesh.ray_hits(&Ray { direction: [0.0; 3], ..back }), []);
    assert_eq!(mesh.ray_hits(&Ray { origin: [1.0, 1.0, f32::INFINITY], ..back }), []);
    assert_eq!(mesh.ray_hits(&Ray { t_max: f32::NAN, ..back }), []);
    assert_eq!(mesh.ray_hits_brute(&Ray { t_min: f32::NAN, ..back }), []);
}

fn random_ray(rng: &mut Rng, kind: usize) -> Ray {
    let far = if kind == 3 { 4096.0 } else { 0.0 };
    let mut point = || if kind == 1 { rng.lattice_point() } else { rng.point() };
    let (from, to) = (point().map(|x| 2.0 * x + far), point().map(|x| x + far));
    let ray = Ray::segment(from, to);
    [ray, Ray { t_max: f32::INFINITY, ..ray }, Ray { t_min: -0.5, t_max: 0.75, ..ray }]
        [rng.below(3)]
}

#[test]
fn the_tree_finds_what_asking_every_face_finds() {
    let mut rng = Rng::new(12);
    let mut found = [0; 4];
    for faces in [0, 1, 4, 5, 31, 32, 33, 300] {
        for (kind, found) in found.iter_mut().enumerate() {
            let (points, faces) = soup(&mut rng, faces, kind);
            let mesh = Mesh::new(&points, &faces);
            for _ in 0..100 {
                let ray = random_ray(&mut rng, kind);
                let hits = mesh.ray_hits(&ray);
                assert_eq!(hits, mesh.ray_hits_brute(&ray));
                assert!(hits.is_sorted_by(|a, b| a.t <= b.t));
                *found += hits.len();
            }
        }
    }
    assert!(found[0] > 500 && found[1] > 500 && found[3] > 20, "{found:?}");
}

/// A line through a closed surface goes in and out, and never slips through between faces.
#[test]
fn closed_surfaces_are_tight() {
    let mut rng = Rng::new(13);
    let (points, faces) = sphere(3);
    let mesh = Mesh::new(&points, &faces);
    for step in 0..2000 {
        // To a vertex, near one, or anywhere.
        let vertex = points[rng.below(points.len())];
        let to = [vertex, vertex.map(|x| x * (1.0 + f32::EPSILON)), rng.point()][step % 3];
        let hits = mesh.ray_hits(&Ray::new([0.0; 3], to));
        assert!(!hits.is_empty() && hits.iter().all(|hit| !hit.front), "{to:?}");
        assert!(hits.len() == 1 || hits.iter().all(|hit| hit.edges > 0));
    }
    assert_eq!(mesh.ray_hits(&Ray::new([0.0; 3], points[0])).len(), 4);
}

/// Certain results do not change if corners move by less than the tolerance.
#[test]
fn certain_answers_survive_moved_corners() {
    let mut rng = Rng::new(14);
    let tolerance = 1e-3;
    let mut counts = [[0; 3]; 2];
    for kind in [0, 2] {
        let (points, faces) = soup(&mut rng, 60, kind);
        let mesh = Mesh::new(&points, &faces);
        for _ in 0..600 {
            let ray = random_ray(&mut rng, kind);
            let distance = |p: &[f32; 3]| {
                let along = |i: usize| f64::from(p[i] - ray.origin[i]).powi(2);
                (along(0) + along(1) + along(2)).sqrt()
            };
            // Corners of a face move as far as its farthest one may, by sums of three parts.
            let mut moved = points.clone();
            for face in moved.chunks_mut(3) {
                let reach = face.iter().map(distance).fold(0.0, f64::max) * tolerance / 1.8;
                face.iter_mut().flatten().for_each(|x| *x += rng.float() * reach as f32);
            }
            let moved = Mesh::new(&moved, &faces);
            let nearest = mesh.nearest_certain(&ray, tolerance);
            let hits = moved.ray_hits(&ray);
            match (nearest, hits.first()) {
                (Nearest::Hit(hit, error), Some(first)) => {
                    assert_eq!((hit.face, hit.front), (first.face, first.front));
                    assert!((hit.t - first.t).abs() <= error);
                    assert_eq!(mesh.classify(hit.face, &ray, tolerance), Class::Hit(hit, error));
                    counts[0][0] += 1;
                }
                (Nearest::Miss, None) => counts[0][1] += 1,
                (Nearest::Uncertain, _) => counts[0][2] += 1,
                wrong => panic!("{wrong:?}"),
            }
            let missed = |face| mesh.classify(face, &ray, tolerance) == Class::Miss;
            let none = (0..faces.len() as u32).all(missed);
            assert_eq!(nearest == Nearest::Miss, none);
            for face in 0..faces.len() as u32 {
                let hit = moved.ray_hit_on_face(face, &ray);
                match (mesh.classify(face, &ray, tolerance), hit) {
                    (Class::Hit(..), Some(_)) => counts[1][0] += 1,
                    (Class::Miss, None) => counts[1][1] += 1,
                    (Class::Uncertain, _) => counts[1][2] += 1,
                    wrong => panic!("{wrong:?}"),
                }
            }
        }
    }
    assert!(counts.iter().flatten().all(|count| *count > 20), "{counts:?}");
}

/// A case that a tolerance can't decide is reported as uncertain, and no other.
#[test]
fn only_the_brink_is_uncertain() {
    let (points, faces) = sphere(2);
    let mesh = Mesh::new(&points, &faces);
    let mut rng = Rng::new(15);
    let mut certain = 0;
    for _ in 0..1000 {
        let ray = Ray::new(rng.point(), rng.point());
        let wanted = mesh.ray_hits(&ray).first().copied();
        match mesh.nearest_certain(&ray, 1e-6) {
            Nearest::Hit(hit, error) => {
                assert_eq!(wanted.map(|hit| hit.t.total_cmp(&0.0)), Some(Ordering::Greater));
                assert_eq!(wanted, Some(hit));
                assert!(error < 1e-4 * (1.0 + hit.t), "{error}");
                certain += 1;
            }
            Nearest::Miss => {
                assert_eq!(wanted, None);
                certain += 1;
            }
            Nearest::Uncertain => {}
        }
    }
    assert!(certain > 990, "{certain}");
    for vertex in &points {
        let ray = Ray::new([0.0; 3], *vertex);
        assert_eq!(mesh.nearest_certain(&ray, 1e-6), Nearest::Uncertain);
        // It ends at the surface.
        let middle = points[0].map(|x| x * 0.5);
        let ray = Ray { t_max: 1.0, ..Ray::segment(middle, *vertex) };
        assert_eq!(mesh.nearest_certain(&ray, 1e-6), Nearest::Uncertain);
    }
    // It passes outside of the face's box.
    let mesh = Mesh::new(&[[0.0, 0.0, 2.0], [4.0, 0.0, 2.0], [0.0, 4.0, 2.0]], &[[0, 1, 2]]);
    let ray = Ray::new([-0.001, 1.0, 0.0], [0.0, 0.0, 1.0]);
    assert_eq!(mesh.nearest_certain(&ray, 1e-3), Nearest::Uncertain);
    assert_eq!(mesh.nearest_certain(&ray, 1e-5), Nearest::Miss);
}
