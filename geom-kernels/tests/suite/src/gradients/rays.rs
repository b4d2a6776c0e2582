//! Hits of rays: with respect to origins, directions and vertices.

use bytemuck::Zeroable;
use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{NO_FACE, Ray, RayHit};
use tape::{Seeds, Tape};

use super::mesh_points::{soup, upload};
use super::{near, points, refused, slopes, wide};
use geom_oracle::linear::{cross, dot, length, sub};
use geom_oracle::plain::point;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::rays",
        device(hits),
        device(deterministic_bits),
        device(vertices_changed_behind_the_tape),
    ]
}

/// t, u and v of the nearest hit; zeros if there is none.
fn nearest(vertices: &[f64], faces: &[[u32; 3]], ray: &[f64]) -> [f64; 3] {
    let (origin, direction) = (point(ray, 0), point(ray, 1));
    let mut best = [f64::INFINITY, 0.0, 0.0];
    for face in faces {
        let [a, b, c] = face.map(|i| point(vertices, i as usize));
        let (ab, ac, ao) = (sub(b, a), sub(c, a), sub(origin, a));
        let n = cross(ab, ac);
        let by = -dot(&n, &direction);
        let turn = cross(ao, direction);
        let (u, v) = (dot(&ac, &turn) / by, -dot(&ab, &turn) / by);
        let t = dot(&n, &ao) / by;
        if t >= 0.0 && u >= 0.0 && v >= 0.0 && u + v <= 1.0 && t < best[0] {
            best = [t, u, v];
        }
    }
    if best[0].is_finite() { best } else { [0.0; 3] }
}

/// Whether a direction is nearly along a face: where it hits, f32 tells badly.
fn grazes(vertices: &[[f32; 3]], direction: [f32; 3]) -> bool {
    let direction = direction.map(f64::from);
    vertices.chunks_exact(3).any(|face| {
        let [a, b, c] = [face[0], face[1], face[2]].map(|p| p.map(f64::from));
        let n = cross(sub(b, a), sub(c, a));
        dot(&n, &direction).abs() < 0.05 * length(&n) * length(&direction)
    })
}

/// Rays to points of the faces, and some to nowhere.
fn rays(rng: &mut Rng, vertices: &[[f32; 3]], n: usize) -> Vec<Ray> {
    let mut rays = Vec::new();
    while rays.len() < n {
        let from = points(rng, 1, 4.0)[0];
        let face = 3 * rng.below(vertices.len() / 3);
        let to: [f32; 3] = std::array::from_fn(|k| {
            0.4 * vertices[face][k] + 0.35 * vertices[face + 1][k] + 0.25 * vertices[face + 2][k]
        });
        let away = if rays.len() % 10 == 9 { -1.0 } else { 1.0 };
        let direction = std::array::from_fn(|k| away * (to[k] - from[k]));
        if !grazes(vertices, direction) {
            rays.push(Ray::new(from, direction));
        }
    }
    rays
}

/// Origin and direction of each.
fn numbers(rays: &[Ray]) -> Vec<[f32; 3]> {
    rays.iter().flat_map(|ray| [ray.origin, ray.direction]).collect()
}

fn hits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1430));
    let soup = soup(&mut rng, 15);
    let mesh = upload(device, &stream, &soup)?;
    for n in [0, 1, 31, 32, 33, 120] {
        let host = rays(&mut rng, &soup.points, n);
        let asked = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<RayHit>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&asked)?;
            t.watch(mesh.points())?;
            mesh.record_closest_hits(t, &asked, &mut out)
        })?;
        if n == 0 {
            continue;
        }
        let weights: Vec<[f32; 3]> = points(&mut rng, n, 1.0);
        let seeds: Vec<RayHit> = weights
            .iter()
            .map(|w| RayHit { t: w[0], u: w[1], v: w[2], ..RayHit::zeroed() })
            .collect();
        let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let (vertices, at) = (wide(&soup.points), wide(&numbers(&host)));
        for (i, hit) in out.to_vec(&stream)?.iter().enumerate() {
            let [t, u, v] = nearest(&vertices, &soup.faces, &at[6 * i..6 * i + 6]);
            let found = hit.face != NO_FACE;
            let off = |a: f32, b: f64| (f64::from(a) - b).abs() > 1e-3;
            let wrong = off(hit.t, t) || off(hit.u, u) || off(hit.v, v);
            ensure!(found == (t > 0.0) && !(found && wrong), "{hit:?}, not {t} {u} {v}");
        }
        let loss = |vertices: &[f64], rays: &[f64]| {
            let one = |(ray, w): (&[f64], &[f32; 3])| {
                dot(&nearest(vertices, &soup.faces, ray), &w.map(f64::from))
            };
            rays.chunks(6).zip(&weights).map(one).sum::<f64>()
        };
        let got = tape.gradient(&asked)?.to_vec(&stream)?;
        ensure!(got.iter().all(|ray| ray.t_min == 0.0 && ray.t_max == 0.0));
        near(numbers(&got).as_flattened(), &slopes(&at, |rays| loss(&vertices, rays)))?;
        let got = tape.gradient(mesh.points())?.to_vec(&stream)?;
        near(got.as_flattened(), &slopes(&vertices, |vertices| loss(vertices, &at)))?;
    }
    Ok(())
}

fn deterministic_bits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1431));
    let soup = soup(&mut rng, 3);
    let mesh = upload(device, &stream, &soup)?;
    let n = 300;
    let asked = DeviceBuffer::from_slice(&stream, &rays(&mut rng, &soup.points, n))?;
    let seeds: Vec<RayHit> =
        rng.floats(n).into_iter().map(|t| RayHit { t, ..RayHit::zeroed() }).collect();
    let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
    let mut out = DeviceBuffer::<RayHit>::zeroed(&stream, n)?;
    let mut all = Vec::new();
    for deterministic in [true, true, false] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(mesh.points())?;
            mesh.record_closest_hits(t, &asked, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        all.push(tape.gradient(mesh.points())?.to_vec(&stream)?);
    }
    let bits = |of: &[[f32; 3]]| of.as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    ensure_eq!(bits(&all[0]), bits(&all[1]));
    let wanted: Vec<Option<f64>> = wide(&all[0]).into_iter().map(Some).collect();
    ensure!(wanted.iter().flatten().any(|x| *x != 0.0));
    near(all[2].as_flattened(), &wanted)
}

fn vertices_changed_behind_the_tape(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1432));
    let soup = soup(&mut rng, 3);
    let mut mesh = upload(device, &stream, &soup)?;
    let asked = DeviceBuffer::from_slice(&stream, &rays(&mut rng, &soup.points, 5))?;
    let seeds = DeviceBuffer::from_slice(&stream, &[RayHit { t: 1.0, ..RayHit::zeroed() }; 5])?;
    let mut out = DeviceBuffer::<RayHit>::zeroed(&stream, 5)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&asked)?;
        mesh.record_closest_hits(t, &asked, &mut out)
    })?;
    let seeds = Seeds::new().with(&out, &seeds)?;
    tape.backward_with(&stream, &seeds)?;
    let missing = || Failure::new("the mesh does not own its points");
    mesh.points_mut().ok_or_else(missing)?.upload(&stream, &soup.points)?;
    refused(tape.backward_with(&stream, &seeds), "`mesh nearest hits`) was overwritten")
}
