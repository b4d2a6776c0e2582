//! Closest points, distances, and what a mesh has at a point of a face.

use bytemuck::Zeroable;
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, MeshView, PointQueries, Sign, TriangleMesh, shapes,
};
use geom_kernels::tape::RecordedMesh;
use tape::{Differentiable, Element, Op, Param, Recorder, Seeds, Tape};

use super::super::mesh_points::{soup, upload};
use super::super::{near, points, refused, slopes, wide};
use super::{POINT, differentiate, each, same_sums, same_vectors, threads};
use crate::Geometry;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

/// Three gradients of a launch.
type Gradients<T> = (Vec<T>, Vec<f32>, Vec<f32>);

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::queries",
        device(closest_points),
        device(closest_points_of_bad_faces),
        device(without_gradients_of_vertices),
        device(signed_distances),
        device(distances_of_zero),
        device(normals_and_positions = normals),
        device(faces_within_a_ball),
        device(steps_towards_a_surface = steps),
        device(meshes_that_change),
    ]
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 3000];

const CLOSEST: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void closest(geom::Mesh mesh, const geom::vec3<float>* x, geom::ClosestPoint* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = geom::closest_point(mesh, x[i]);
}"#;

fn closest(device: &TestDevice) -> Result<Op, Failure> {
    let out = each("out", ClosestPoint::ELEMENT);
    differentiate(
        device,
        CLOSEST,
        "closest",
        vec![RecordedMesh::param("mesh"), each("x", POINT), out],
    )
}

/// The gradients by queries and vertices of what `record` writes.
fn gradients<T: Differentiable<Gradient = T> + bytemuck::Pod>(
    stream: &Stream,
    (mesh, queries): (&Mesh<'_>, &DeviceBuffer<[f32; 3]>),
    (out, seeds): (&mut DeviceBuffer<T>, &DeviceBuffer<T>),
    record: impl FnOnce(&mut Recorder<'_>, &mut DeviceBuffer<T>) -> cuda_safe::Result<()>,
) -> Result<Gradients<T>, Failure> {
    let mut tape = Tape::record(stream, |t| {
        t.watch(queries)?;
        t.watch(mesh.points())?;
        record(t, out)
    })?;
    if queries.is_empty() {
        return Ok((Vec::new(), Vec::new(), Vec::new()));
    }
    tape.backward_with(stream, &Seeds::new().with(&*out, seeds)?)?;
    let by_query = tape.gradient(queries)?.to_vec(stream)?;
    let by_vertex = tape.gradient(mesh.points())?.to_vec(stream)?;
    let flat = |points: Vec<[f32; 3]>| points.as_flattened().to_vec();
    Ok((out.to_vec(stream)?, flat(by_query), flat(by_vertex)))
}

/// Fails unless the kernel's gradients are those of the recorded call.
fn compare(
    device: &TestDevice,
    op: &Op,
    mesh: &Mesh<'_>,
    host: &[[f32; 3]],
    rng: &mut Rng,
) -> TestResult {
    let (stream, n) = (device.stream()?, host.len());
    let queries = DeviceBuffer::from_slice(&stream, host)?;
    let seed = |_| ClosestPoint {
        position: [0; 3].map(|_: i32| rng.float()),
        distance_squared: rng.float(),
        u: rng.float(),
        v: rng.float(),
        ..ClosestPoint::zeroed()
    };
    let seeds: Vec<ClosestPoint> = (0..n).map(seed).collect();
    let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
    let mut out = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    let wanted = gradients(&stream, (mesh, &queries), (&mut out, &seeds), |t, out| {
        mesh.record_closest_points(t, &PointQueries::at(&queries), out)
    })?;
    let given = gradients(&stream, (mesh, &queries), (&mut out, &seeds), |t, out| {
        let view = mesh.recorded_view(t)?;
        t.launch(op, threads(n), (view, &queries, out, n as u32))
    })?;
    ensure!(
        bytemuck::cast_slice::<_, u32>(&given.0) == bytemuck::cast_slice::<_, u32>(&wanted.0),
        "the kernel finds other points"
    );
    same_vectors("by query", &given.1, &wanted.1, 3, 1e-6)?;
    same_sums("by vertex", &given.2, &wanted.2, 1e-6)
}

fn closest_points(device: &TestDevice) -> TestResult {
    let (stream, mut rng, op) = (device.stream()?, device.rng(1500), closest(device)?);
    let mesh = upload(device, &stream, &soup(&mut rng, 40))?;
    for n in SIZES {
        let mut host = points(&mut rng, n, 2.0);
        if n > 40 {
            // They find nothing.
            host[7] = [f32::NAN, 0.0, 1.0];
            host[8] = [0.0, f32::INFINITY, 1.0];
            host[9] = [0.0, 0.0, 2e18];
        }
        compare(device, &op, &mesh, &host, &mut rng)?;
    }
    // No face, and no point.
    let empty = upload(device, &stream, &TriangleMesh::default())?;
    compare(device, &op, &empty, &points(&mut rng, 33, 1.0), &mut rng)
}

/// Faces that are lines, points and slivers, that share vertices and lie on each other; queries on them.
fn closest_points_of_bad_faces(device: &TestDevice) -> TestResult {
    let (stream, mut rng, op) = (device.stream()?, device.rng(1501), closest(device)?);
    let mut bad = soup(&mut rng, 12);
    let first = bad.points.len() as u32;
    let thin = |by: f32| [[0.0, 0.0, 0.0], [1.0, 0.25, 0.5], [0.5, 0.125 + by, 0.25]];
    for by in [0.0, 1e-7, 1e-6, 1e-4, 1e-2] {
        let shift = points(&mut rng, 1, 1.0)[0];
        bad.points.extend(thin(by).map(|p| [0, 1, 2].map(|k| p[k] + shift[k])));
    }
    for i in 0..5 {
        let at = first + 3 * i;
        bad.faces.push([at, at + 1, at + 2]);
        bad.faces.push([at + 2, at, at + 1]);
    }
    bad.faces.push([first, first, first + 1]);
    bad.faces.push([first + 4, first + 4, first + 4]);
    bad.faces.push([0, 4, 8]);
    let mesh = upload(device, &stream, &bad)?;
    let mut host = points(&mut rng, 600, 2.0);
    host.extend(bad.points.iter().copied());
    for face in &bad.faces {
        let [a, b, c] = face.map(|i| bad.points[i as usize]);
        host.push([0, 1, 2].map(|k| 0.5 * (a[k] + b[k])));
        host.push([0, 1, 2].map(|k| 0.25 * a[k] + 0.25 * b[k] + 0.5 * c[k]));
    }
    compare(device, &op, &mesh, &host, &mut rng)
}

/// A mesh as an argument without a gradient: that by queries is the same.
fn without_gradients_of_vertices(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n) = (device.stream()?, device.rng(1502), 200);
    let mesh = upload(device, &stream, &soup(&mut rng, 20))?;
    let plain = Param::argument::<MeshView<'_>>("mesh");
    let params = vec![plain, each("x", POINT), each("out", ClosestPoint::ELEMENT)];
    let op = differentiate(device, CLOSEST, "closest", params)?;
    let queries = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 2.0))?;
    let seed = ClosestPoint { position: [1.0, 2.0, -1.0], u: 0.5, ..ClosestPoint::zeroed() };
    let seeds = DeviceBuffer::from_slice(&stream, &vec![seed; n])?;
    let mut out = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    let mut by_query = Vec::new();
    for kernel in [false, true] {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            match kernel {
                true => t.launch(&op, threads(n), (mesh.view(), &queries, &mut out, n as u32)),
                false => mesh.record_closest_points(t, &PointQueries::at(&queries), &mut out),
            }
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        by_query.push(tape.gradient(&queries)?.to_vec(&stream)?.as_flattened().to_vec());
    }
    same_vectors("by query", &by_query[1], &by_query[0], 3, 1e-6)?;
    // A gradient by vertices would be lost.
    let done = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        t.watch(mesh.points())?;
        t.launch(&op, threads(n), (mesh.view(), &queries, &mut out, n as u32))
    });
    refused(done.map(drop), "by a pointer that the specification does not tell of")
}

const SIGNED: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void by_normal(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    geom::ClosestPoint closest;
    if (i < n) out[i] = geom::signed_distance(mesh, x[i], &closest);
}"#;

const PARITY: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void by_parity(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    geom::ClosestPoint closest;
    if (i < n) out[i] = geom::signed_distance_by_parity(mesh, x[i], &closest);
}"#;

const WINDING: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void by_winding(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    geom::ClosestPoint closest;
    if (i < n) out[i] = geom::signed_distance_by_winding(mesh, x[i], &closest);
}"#;

const DISTANCE: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void distance(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sqrtf(geom::closest_point(mesh, x[i]).distance_squared);
}"#;

fn distance_op(device: &TestDevice, text: &str, name: &str) -> Result<Op, Failure> {
    let params = vec![RecordedMesh::param("mesh"), each("x", POINT), each("out", Element::F32)];
    differentiate(device, text, name, params)
}

/// A bumpy sphere.
fn stone() -> Result<TriangleMesh, Failure> {
    let mut stone = shapes::icosphere(1, 1.0)?;
    stone.displace(&shapes::Noise::new(3), 0.3, 2.0)?;
    Ok(stone)
}

fn signed_distances(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1503));
    let options = MeshOptions::default().winding();
    let stone = stone()?;
    let mesh = Mesh::upload(&stream, &device.geometry(), &stone, options)?;
    let signs = [
        (SIGNED, "by_normal", Some(Sign::Normal)),
        (PARITY, "by_parity", Some(Sign::Parity)),
        (WINDING, "by_winding", Some(Sign::Winding)),
        (DISTANCE, "distance", None),
    ];
    for (text, name, sign) in signs {
        let op = distance_op(device, text, name)?;
        for n in [0, 1, 31, 32, 33, 400] {
            let mut host = points(&mut rng, n, 1.5);
            if n > 33 && sign.is_some() {
                // On the surface: the gradient is the normal of the face's plane.
                host[..stone.points.len()].copy_from_slice(&stone.points);
            }
            let queries = DeviceBuffer::from_slice(&stream, &host)?;
            let seeds = DeviceBuffer::from_slice(&stream, &rng.floats(n))?;
            let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
            let of = (&mesh, &queries);
            let wanted = gradients(&stream, of, (&mut out, &seeds), |t, out| {
                let at = PointQueries::at(&queries);
                match sign {
                    Some(sign) => mesh.record_signed_distances(t, &at, sign, out),
                    None => mesh.record_distances(t, &at, out),
                }
            })?;
            let given = gradients(&stream, of, (&mut out, &seeds), |t, out| {
                let view = mesh.recorded_view(t)?;
                t.launch(&op, threads(n), (view, &queries, out, n as u32))
            })?;
            ensure_eq!(given.0, wanted.0);
            // The root of a rounded square is the caller's: near the surface it is off by more than the distance.
            let bound = if sign.is_some() { 1e-6 } else { 1e-4 };
            same_vectors(name, &given.1, &wanted.1, 3, bound)?;
            same_sums(name, &given.2, &wanted.2, bound)?;
        }
    }
    Ok(())
}

/// Points inside a face, on an edge and at a vertex of a cube.
fn distances_of_zero(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let cube = shapes::cube(1.0)?;
    let mesh = upload(device, &stream, &cube)?;
    let top = cube.points.iter().fold(0.0f32, |most, p| most.max(p[2]));
    let host = [[0.25 * top, 0.125 * top, top], [-0.25 * top, -0.5 * top, top]];
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[1.0f32; 2])?;
    let mut out = DeviceBuffer::from_slice(&stream, &[7.0f32; 2])?;
    for (text, name, wanted) in [(SIGNED, "by_normal", 1.0), (DISTANCE, "distance", 0.0)] {
        let op = distance_op(device, text, name)?;
        let of = (&mesh, &queries);
        let (values, by_query, by_vertex) =
            gradients(&stream, of, (&mut out, &seeds), |t, out| {
                let view = mesh.recorded_view(t)?;
                t.launch(&op, threads(2), (view, &queries, out, 2u32))
            })?;
        ensure_eq!(values, [0.0; 2]);
        ensure_eq!(by_query, [0.0, 0.0, wanted, 0.0, 0.0, wanted]);
        let sum: f32 = by_vertex.chunks(3).map(|g| g[2]).sum();
        ensure!((sum + 2.0 * wanted).abs() < 1e-6, "{by_vertex:?}");
    }
    Ok(())
}

const NORMALS: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void normals(geom::Mesh mesh, const geom::vec3<float>* x, geom::vec3<float>* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    geom::ClosestPoint closest = geom::closest_point(mesh, x[i]);
    out[i] = geom::face_normal(mesh, closest.face) + 0.5f * geom::position_at(mesh, geom::face_point(closest));
}"#;

/// The normal and the position at the closest point, against differences.
fn normals(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1504));
    let soup = soup(&mut rng, 8);
    let mesh = upload(device, &stream, &soup)?;
    let params = vec![RecordedMesh::param("mesh"), each("x", POINT), each("out", POINT)];
    let op = differentiate(device, NORMALS, "normals", params)?;
    for n in [1, 32, 33, 60] {
        let host = points(&mut rng, n, 1.5);
        let queries = DeviceBuffer::from_slice(&stream, &host)?;
        let weights = points(&mut rng, n, 1.0);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let of = (&mesh, &queries);
        let (_, by_query, by_vertex) = gradients(&stream, of, (&mut out, &seeds), |t, out| {
            let view = mesh.recorded_view(t)?;
            t.launch(&op, threads(n), (view, &queries, out, n as u32))
        })?;
        let loss = |vertices: &[f64], queries: &[f64]| {
            use geom_oracle::linear::{add, cross, dot, length, scale, sub};
            use geom_oracle::plain::{closest, point};
            let one = |(i, w): (usize, &[f32; 3])| {
                let all = soup.faces.iter();
                let all = all.map(|face| (face, closest(vertices, &[*face], point(queries, i))));
                let nearest = all.min_by(|(_, a), (_, b)| a.distance.total_cmp(&b.distance));
                let Some((face, found)) = nearest else { return 0.0 };
                let [a, b, c] = face.map(|k| point(vertices, k as usize));
                let normal = cross(sub(b, a), sub(c, a));
                let unit = scale(normal, 1.0 / length(&normal));
                dot(&add(unit, scale(found.position, 0.5)), &w.map(f64::from))
            };
            weights.iter().enumerate().map(one).sum::<f64>()
        };
        let (vertices, at) = (wide(&soup.points), wide(&host));
        near(&by_query, &slopes(&at, |q| loss(&vertices, q)))?;
        near(&by_vertex, &slopes(&vertices, |v| loss(v, &at)))?;
    }
    Ok(())
}

const BALL: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void ball(geom::Mesh mesh, const geom::vec3<float>* x, float* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    geom::for_each_within(mesh, x[i], 100.0f, [&](unsigned face) {
        geom::Triangle t;
        if (!geom::face_triangle(mesh, face, &t)) return;
        geom::vec3<float> d = (t.a + t.b + t.c) / 3.0f - x[i];
        sum += dot(d, d);
    });
    out[i] = sum;
}"#;

/// A sum over faces, all of which are near enough.
fn faces_within_a_ball(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1505));
    let soup = soup(&mut rng, 30);
    let mesh = upload(device, &stream, &soup)?;
    let op = distance_op(device, BALL, "ball")?;
    for n in [1, 33] {
        let host = points(&mut rng, n, 1.5);
        let queries = DeviceBuffer::from_slice(&stream, &host)?;
        let weights = rng.floats(n);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let of = (&mesh, &queries);
        let (_, by_query, by_vertex) = gradients(&stream, of, (&mut out, &seeds), |t, out| {
            let view = mesh.recorded_view(t)?;
            t.launch(&op, threads(n), (view, &queries, out, n as u32))
        })?;
        let center = |face: &[u32; 3], k: usize| {
            face.iter().map(|i| f64::from(soup.points[*i as usize][k])).sum::<f64>() / 3.0
        };
        let mut wanted = vec![0.0f32; 3 * n];
        let mut at_vertices = vec![0.0f64; 3 * soup.points.len()];
        for (i, w) in weights.iter().enumerate() {
            for k in 0..3 {
                let mut sum = 0.0;
                for face in &soup.faces {
                    let part = 2.0 * f64::from(*w) * (f64::from(host[i][k]) - center(face, k));
                    sum += part;
                    face.iter().for_each(|v| at_vertices[3 * *v as usize + k] -= part / 3.0);
                }
                wanted[3 * i + k] = sum as f32;
            }
        }
        let at_vertices: Vec<f32> = at_vertices.into_iter().map(|x| x as f32).collect();
        same_sums("by query", &by_query, &wanted, 1e-5)?;
        same_sums("by vertex", &by_vertex, &at_vertices, 1e-5)?;
    }
    Ok(())
}

const STEPS: &str = r#"
#include <geom/mesh.cuh>
extern "C" __global__ void steps(
    geom::Mesh mesh, const geom::vec3<float>* x, const geom::vec3<float>* by, geom::vec3<float>* out, unsigned rounds,
    unsigned n
) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    geom::vec3<float> p = x[i];
    for (unsigned round = 0; round < rounds; ++round) {
        geom::ClosestPoint closest;
        p += geom::signed_distance_by_parity(mesh, p, &closest) * by[i];
    }
    out[i] = p;
}"#;

const STEP: &str = r#"
#include <geom/math/vec.cuh>
extern "C" __global__ void step(const geom::vec3<float>* p, const float* d, const geom::vec3<float>* by,
                                geom::vec3<float>* out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = p[i] + d[i] * by[i];
}"#;

/// Queries in a loop of the kernel, against a chain of recorded calls.
fn steps(device: &TestDevice) -> TestResult {
    let (stream, mut rng, rounds) = (device.stream()?, device.rng(1506), 3);
    let mesh = upload(device, &stream, &stone()?)?;
    let mut params = vec![RecordedMesh::param("mesh")];
    params.extend([
        each("x", POINT),
        each("by", POINT),
        each("out", POINT),
        Param::value("rounds"),
    ]);
    let all = differentiate(device, STEPS, "steps", params)?;
    let params =
        vec![each("p", POINT), each("d", Element::F32), each("by", POINT), each("out", POINT)];
    let one = differentiate(device, STEP, "step", params)?;
    for n in [1, 32, 100] {
        let queries = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 1.5))?;
        let by = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 0.5))?;
        let seeds = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 1.0))?;
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let mut at = Vec::new();
        let mut distances = Vec::new();
        for _ in 0..rounds {
            at.push(DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?);
            distances.push(DeviceBuffer::<f32>::zeroed(&stream, n)?);
        }
        let of = (&mesh, &queries);
        let wanted = gradients(&stream, of, (&mut out, &seeds), |t, out| {
            t.copy(&queries, &mut at[0])?;
            for round in 0..rounds {
                let (before, behind) = at.split_at_mut(round + 1);
                let from = &before[round];
                let d = &mut distances[round];
                mesh.record_signed_distances(t, &PointQueries::at(from), Sign::Parity, &mut *d)?;
                let to = behind.first_mut().unwrap_or(&mut *out);
                t.launch(&one, threads(n), (from, &*d, &by, to, n as u32))?;
            }
            Ok(())
        })?;
        let given = gradients(&stream, of, (&mut out, &seeds), |t, out| {
            let view = mesh.recorded_view(t)?;
            t.launch(&all, threads(n), (view, &queries, &by, out, rounds as u32, n as u32))
        })?;
        same_vectors("by query", &given.1, &wanted.1, 3, 1e-5)?;
        same_sums("by vertex", &given.2, &wanted.2, 1e-5)?;
    }
    Ok(())
}

/// A mesh that is refitted before the pass, and one whose points were changed.
fn meshes_that_change(device: &TestDevice) -> TestResult {
    let (stream, mut rng, n) = (device.stream()?, device.rng(1507), 20);
    let (op, soup) = (closest(device)?, soup(&mut rng, 10));
    let queries = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 1.0))?;
    let seed = ClosestPoint { distance_squared: 1.0, ..ClosestPoint::zeroed() };
    let seeds = DeviceBuffer::from_slice(&stream, &vec![seed; n])?;
    let mut out = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    let mut mesh = upload(device, &stream, &soup)?;
    let record = |mesh: &Mesh<'_>, out: &mut DeviceBuffer<ClosestPoint>| {
        Tape::record(&stream, |t| {
            t.watch(&queries)?;
            let view = mesh.recorded_view(t)?;
            t.launch(&op, threads(n), (view, &queries, out, n as u32))
        })
    };
    let mut tape = record(&mesh, &mut out)?;
    mesh.refit(&stream)?;
    let done = tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?);
    refused(done, "was overwritten after it was recorded")?;
    let moved: Vec<[f32; 3]> = soup.points.iter().map(|p| p.map(|x| 2.0 * x)).collect();
    let mut points = mesh.points_mut().ok_or_else(|| Failure::new("the mesh has its points"))?;
    points.upload(&stream, &moved)?;
    refused(record(&mesh, &mut out).map(drop), "were changed since it was built")?;
    mesh.refit(&stream)?;
    record(&mesh, &mut out)?.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
    Ok(())
}
