//! Rays: against the oracle, against all faces, and through closed meshes.

use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{Mesh, MeshOptions, Ray, RayHit};
use geom_oracle::{Class, Nearest};

use super::brute::Brute;
use super::inputs::{Around, Input, displaced, inputs};
use super::queries::{Fixture, bits, same};
use super::ray_inputs::{rays, to_oracle};
use super::shapes::lattice_cube;
use super::{blend, length, sub, thorough, wide};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh",
        device(rays_hit_what_the_oracle_is_sure_of),
        device(rays_hit_what_all_faces_say),
        device(rays_do_not_depend_on_the_hierarchy),
        device(rays_do_not_slip_through),
        device(rays_of_a_lattice_hit_as_often_as_they_cross),
    ]
}

/// What rounding may move a corner by, as a part of its distance to the origin: see `geom/mesh/rays.cuh`.
pub(super) const TOLERANCE: f64 = 1e-6;

/// Holds one hit against what the oracle is sure of; `error` is how much t may be off.
pub(super) fn check_hit(
    oracle: &geom_oracle::Mesh,
    ray: &Ray,
    got: &RayHit,
    (wanted, error): (geom_oracle::Hit, f64),
) -> TestResult {
    let t = f64::from(got.t);
    ensure!((t - wanted.t).abs() <= error, "{got:?}, not {wanted:?} +- {error}");
    ensure_eq!(got.front == 1, wanted.front, "{got:?} {wanted:?}");
    ensure!(got.front < 2 && got.u >= 0.0 && got.v >= 0.0, "{got:?}");
    ensure!(f64::from(got.u) + f64::from(got.v) <= 1.0 + super::EPS, "{got:?}");
    // u, v and t name the same point.
    let face = oracle.triangle(got.face).copied().unwrap_or_default();
    let of_face = blend(face, f64::from(got.u), f64::from(got.v));
    let (o, d) = (wide(ray.origin), wide(ray.direction));
    let off = length(sub(of_face, std::array::from_fn(|i| o[i] + t * d[i])));
    ensure!(off <= 2.0 * error * length(d), "{got:?}: u and v are {off} off");
    Ok(())
}

fn rays_hit_what_the_oracle_is_sure_of(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(830);
    let (mut sure, mut unsure, mut close) = (0, 0, 0);
    for input in inputs(&mut rng, 0)? {
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let rays = rays(&mut rng, &input, if thorough(device) { 3000 } else { 250 });
        for (ray, hits) in rays.iter().zip(fixture.hits(&mesh, &rays)?) {
            let fail = |e: Failure| Failure::new(format!("{}, {ray:?}, {hits:?}: {e}", input.name));
            let mut left: Vec<&RayHit> = hits.iter().collect();
            for face in 0..input.mesh.faces.len() as u32 {
                let found =
                    left.iter().position(|hit| hit.face == face).map(|i| left.swap_remove(i));
                match oracle.classify(face, &to_oracle(ray), TOLERANCE) {
                    Class::Hit(wanted, error) => {
                        let Some(found) = found else {
                            return Err(fail(Failure::new(format!("misses {wanted:?}"))));
                        };
                        check_hit(&oracle, ray, found, (wanted, error)).map_err(fail)?;
                        sure += 1;
                        close += u32::from(error <= 1e-5 * wanted.t);
                    }
                    Class::Miss if found.is_some() => {
                        return Err(fail(Failure::new(format!("hits face {face}"))));
                    }
                    Class::Miss => {}
                    Class::Uncertain => unsure += 1,
                }
            }
            ensure!(left.is_empty(), "{}: {left:?} more than once", input.name);
            ensure!(hits.is_sorted_by_key(|hit| (hit.t.to_bits(), hit.face)), "{hits:?}");
            match oracle.nearest_certain(&to_oracle(ray), TOLERANCE) {
                Nearest::Hit(wanted, _) => {
                    ensure_eq!(hits.first().map(|hit| hit.face), Some(wanted.face), "{ray:?}");
                }
                Nearest::Miss => ensure!(hits.is_empty(), "{}, {ray:?}: {hits:?}", input.name),
                Nearest::Uncertain => {}
            }
        }
    }
    ensure!(sure > 5000 && unsure > 500, "{sure} {unsure}");
    ensure!(close > sure / 2, "{close} of {sure} are held to 1e-5 of t");
    Ok(())
}

fn rays_hit_what_all_faces_say(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let mut rng = device.rng(831);
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let mut rays = rays(&mut rng, &input, if thorough(device) { 4000 } else { 250 });
        for ray in rays.iter_mut().step_by(3) {
            *ray = ray.between(rng.float() * 0.5, rng.float().abs() * 3.0);
        }
        brute
            .check(&fixture, &mesh, &[], &rays)
            .map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
    }
    Ok(())
}

fn rays_do_not_depend_on_the_hierarchy(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(832);
    let step = if thorough(device) { 1 } else { 3 };
    for input in inputs(&mut rng, u32::from(thorough(device)))?.into_iter().step_by(step) {
        let rays = rays(&mut rng, &input, if thorough(device) { 4000 } else { 150 });
        let all = |mesh: &Mesh<'_>| -> Result<Vec<RayHit>, Failure> {
            Ok(fixture.hits(mesh, &rays)?.concat())
        };
        let wanted = all(&fixture.mesh(&input.mesh, MeshOptions::default())?)?;
        let bent = displaced(&mut rng, &input.mesh, (input.diagonal() * 0.2) as f32);
        let (bent, straight) = (fixture.upload(&bent)?, fixture.upload(&input.mesh.points)?);
        let mut mesh =
            fixture.mesh(&input.mesh, MeshOptions::default().build_mode(BuildMode::Fast))?;
        same(format!("{}, fast", input.name), &all(&mesh)?, &wanted)?;
        mesh.refit_to(stream, &bent)?;
        let others = all(&mesh)?;
        ensure!(input.diagonal() == 0.0 || bits(&others) != bits(&wanted), "the mesh is bent");
        mesh.refit_to(stream, &straight)?;
        same(format!("{}, refitted", input.name), &all(&mesh)?, &wanted)?;
    }
    Ok(())
}

/// Through a closed mesh, rays from inside cross an odd number of faces, rays from outside an even number;
/// whatever vertices and edges they are aimed at.
fn rays_do_not_slip_through(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(833);
    let mut seen = [0; 2];
    for input in inputs(&mut rng, u32::from(thorough(device)))?.into_iter().filter(|i| i.solid) {
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let around = Around::new(&input);
        let mut rays = rays(&mut rng, &input, if thorough(device) { 20_000 } else { 600 });
        for ray in &mut rays {
            ray.t_max = f32::INFINITY;
        }
        // From the middle to all that there is.
        let middle = around.point(&mut rng);
        let towards = |p: &[f32; 3]| Ray::new(middle, std::array::from_fn(|i| p[i] - middle[i]));
        rays.extend(input.mesh.points.iter().take(2000).map(towards));
        for (ray, hits) in rays.iter().zip(fixture.hits(&mesh, &rays)?) {
            // Where the origin is in doubt, so is whether the face that it lies next to is crossed.
            let q = wide(ray.origin);
            let distance = oracle.closest(q).map_or(0.0, |closest| closest.distance);
            let reach = length(q) + input.diagonal();
            if ray.direction == [0.0; 3] || distance <= 4.0 * TOLERANCE * reach {
                continue;
            }
            let inside = oracle.inside_by_parity(ray.origin);
            ensure_eq!(hits.len() % 2 == 1, inside, "{}, {ray:?}: {hits:?}", input.name);
            seen[usize::from(inside)] += 1;
        }
    }
    ensure!(seen[0] > 2000 && seen[1] > 200, "{seen:?}");
    Ok(())
}

/// Through a cube cut into squares, along its lattice: through vertices, along edges, in planes of faces.
fn rays_of_a_lattice_hit_as_often_as_they_cross(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let input = Input::solid("cube", lattice_cube(4)?)?;
    let mut rays = Vec::new();
    let mut wanted = Vec::new();
    let steps = || (-6..=6).map(|k| k as f32 * 0.25);
    for axis in 0..3 {
        for (x, y) in steps().flat_map(|x| steps().map(move |y| (x, y))) {
            for (from, sign) in [(-3.0f32, 1.0f32), (3.0, -1.0), (0.0, 1.0), (0.5, -1.0)] {
                let (mut origin, mut direction) = ([from; 3], [0.0; 3]);
                origin[(axis + 1) % 3] = x;
                origin[(axis + 2) % 3] = y;
                direction[axis] = sign;
                rays.push(Ray::new(origin, direction));
                let crosses = if from.abs() < 1.0 { 1 } else { 2 };
                wanted.push((x.abs().max(y.abs()), crosses));
            }
        }
    }
    // Diagonals of faces and of the cube, through vertices.
    for k in 0..5 {
        let at = k as f32 * 0.5 - 1.0;
        rays.push(Ray::new([-2.0, -2.0, at], [1.0, 1.0, 0.0]));
        rays.push(Ray::new([-2.0, at, -2.0], [2.0, 0.0, 2.0]));
        wanted.extend([(at.abs(), 2); 2]);
    }
    rays.push(Ray::new([3.0; 3], [-1.0; 3]));
    rays.push(Ray::new([0.0; 3], [1.0, -1.0, 1.0]));
    wanted.extend([(0.0, 2), (0.0, 1)]);
    let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
    for ((ray, hits), (off, crosses)) in rays.iter().zip(fixture.hits(&mesh, &rays)?).zip(wanted) {
        match off {
            // Just in the plane of a side: as if beside it, inside or outside.
            1.0 => ensure!(hits.len() <= crosses, "{ray:?}: {hits:?}"),
            off if off > 1.0 => ensure!(hits.is_empty(), "{ray:?}: {hits:?}"),
            _ => {
                ensure_eq!(hits.len(), crosses, "{ray:?}: {hits:?}");
                // Nothing of this is rounded.
                for hit in &hits {
                    let (d, o) = (ray.direction, ray.origin);
                    let p: [f32; 3] = std::array::from_fn(|i| o[i] + hit.t * d[i]);
                    ensure_eq!(
                        p.iter().map(|x| x.abs()).fold(0.0, f32::max),
                        1.0,
                        "{ray:?} {hit:?}"
                    );
                }
            }
        }
    }
    Ok(())
}
