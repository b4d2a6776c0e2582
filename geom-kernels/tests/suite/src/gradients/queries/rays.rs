//! Hits of rays.

use bytemuck::Zeroable;
use cuda_safe::{DeviceBuffer, LaunchConfig};
use geom_kernels::mesh::{Mesh, Ray, RayHit, TriangleMesh, shapes};
use geom_kernels::tape::RecordedMesh;
use tape::{Differentiable, Element, Op, Seeds, Tape};

use super::super::mesh_points::{soup, upload};
use super::super::points;
use super::{differentiate, each, same_sums, same_vectors, threads};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["gradients::queries", device(nearest_hits), device(sums_over_hits),]
}

const NEAREST: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void hit(geom::Mesh mesh, const geom::MeshRay* rays, geom::RayHit* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::nearest_hit(mesh, rays[i]);
}"#;

fn op(device: &TestDevice, text: &str, name: &str, out: Element) -> Result<Op, Failure> {
    let params = vec![RecordedMesh::param("mesh"), each("rays", Ray::ELEMENT), each("out", out)];
    differentiate(device, text, name, params)
}

/// Rays towards the mesh, some of which hit nothing or are not valid.
fn rays(rng: &mut Rng, mesh: &TriangleMesh, n: usize) -> Vec<Ray> {
    let one = |i: usize| {
        let from = points(rng, 1, 2.0)[0];
        let to = mesh.points[rng.below(mesh.points.len())];
        let by = points(rng, 1, 0.2)[0];
        match i % 20 {
            17 => Ray::new([f32::NAN; 3], to),
            18 => Ray::new(from, [0.0; 3]),
            _ => Ray::new(from, [0, 1, 2].map(|k| to[k] + by[k] - from[k])),
        }
    };
    (0..n).map(one).collect()
}

fn nearest_hits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1510));
    let op = op(device, NEAREST, "hit", RayHit::ELEMENT)?;
    let mut soup = soup(&mut rng, 15);
    // Faces without area.
    soup.faces.push([0, 0, 1]);
    soup.faces.push([2, 2, 2]);
    let mesh = upload(device, &stream, &soup)?;
    for n in [0, 1, 31, 32, 33, 2000] {
        let host = rays(&mut rng, &soup, n);
        let asked = DeviceBuffer::from_slice(&stream, &host)?;
        let seed =
            |_| RayHit { t: rng.float(), u: rng.float(), v: rng.float(), ..RayHit::zeroed() };
        let seeds: Vec<RayHit> = (0..n).map(seed).collect();
        let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
        let mut out = DeviceBuffer::<RayHit>::zeroed(&stream, n)?;
        let mut both = Vec::new();
        for kernel in [false, true] {
            let mut tape = Tape::record(&stream, |t| {
                t.watch(&asked)?;
                t.watch(mesh.points())?;
                if kernel {
                    let view = mesh.recorded_view(t)?;
                    return t.launch(&op, threads(n), (view, &asked, &mut out, n as u32));
                }
                mesh.record_closest_hits(t, &asked, &mut out)
            })?;
            if n == 0 {
                continue;
            }
            tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
            let by_ray: Vec<Ray> = tape.gradient(&asked)?.to_vec(&stream)?;
            let by_ray: Vec<f32> =
                by_ray.iter().flat_map(|ray| [ray.origin, ray.direction]).flatten().collect();
            let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
            both.push((out.to_vec(&stream)?, by_ray, by_vertex.as_flattened().to_vec()));
        }
        let [wanted, given] = &both[..] else { continue };
        ensure_eq!(given.0, wanted.0);
        same_vectors("by origin and direction", &given.1, &wanted.1, 3, 1e-6)?;
        same_sums("by vertex", &given.2, &wanted.2, 1e-6)?;
        ensure!(n < 100 || wanted.1.iter().filter(|x| **x != 0.0).count() > n, "few hits");
    }
    Ok(())
}

const ALL: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void hits(geom::Mesh mesh, const geom::MeshRay* rays, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    geom::for_each_hit(mesh, rays[i], [&](const geom::RayHit& hit) {
        sum += hit.t * hit.t + hit.u;
        return false;
    });
    out[i] = sum;
}"#;

/// A sum over all hits, against a sum over meshes of one face.
fn sums_over_hits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1511));
    let all = op(device, ALL, "hits", Element::F32)?;
    let sphere = shapes::icosphere(1, 1.0)?;
    let mesh = upload(device, &stream, &sphere)?;
    let n = 40;
    let host = rays(&mut rng, &sphere, n);
    let asked = DeviceBuffer::from_slice(&stream, &host)?;
    let seeds = DeviceBuffer::from_slice(&stream, &rng.floats(n))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut run = |mesh: &Mesh<'_>| -> Result<(Vec<f32>, Vec<f32>), Failure> {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&asked)?;
            t.watch(mesh.points())?;
            let view = mesh.recorded_view(t)?;
            t.launch(&all, LaunchConfig::cover(n, 64), (view, &asked, &mut out, n as u32))
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let by_ray: Vec<Ray> = tape.gradient(&asked)?.to_vec(&stream)?;
        let by_ray = by_ray.iter().flat_map(|ray| [ray.origin, ray.direction]).flatten().collect();
        let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
        Ok((by_ray, by_vertex.as_flattened().to_vec()))
    };
    let given = run(&mesh)?;
    let mut wanted = (vec![0.0f32; given.0.len()], vec![0.0f32; given.1.len()]);
    for face in &sphere.faces {
        let one = TriangleMesh { points: sphere.points.clone(), faces: vec![*face] };
        let part = run(&upload(device, &stream, &one)?)?;
        wanted.0.iter_mut().zip(&part.0).for_each(|(sum, x)| *sum += x);
        wanted.1.iter_mut().zip(&part.1).for_each(|(sum, x)| *sum += x);
    }
    same_sums("by origin and direction", &given.0, &wanted.0, 1e-5)?;
    same_sums("by vertex", &given.1, &wanted.1, 1e-5)
}
