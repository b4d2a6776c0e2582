//! What a mesh has at points of its faces.

use cuda_safe::DeviceBuffer;
use geom_kernels::mesh::{ClosestPoint, FacePoint, Mesh, MeshOptions, PointQueries, shapes};
use tape::{Differentiable, Seeds, Tape};

use super::mesh_points::{soup, upload};
use super::user::{User, threads};
use super::{near, points, refused, slopes, wide};
use crate::Geometry;
use geom_oracle::linear::{cross, dot, normalize, sub};
use geom_oracle::plain::{closest, point};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::evaluate",
        device(positions),
        device(normals),
        device(attributes),
        device(points_among_the_attributes),
        device(attributes_at_closest_points),
        device(deterministic_bits),
        device(faces_that_do_not_exist),
        device(what_is_refused),
    ]
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 300];

/// Points of faces, some beyond the edges.
fn face_points(rng: &mut Rng, faces: usize, n: usize) -> Vec<FacePoint> {
    let one = |rng: &mut Rng| FacePoint {
        face: rng.below(faces) as u32,
        u: 0.7 * rng.float(),
        v: 0.7 * rng.float(),
    };
    (0..n).map(|_| one(rng)).collect()
}

/// u and v of each.
fn uv(points: &[FacePoint]) -> Vec<f32> {
    points.iter().flat_map(|p| [p.u, p.v]).collect()
}

fn f64s(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|x| f64::from(*x)).collect()
}

/// (1 - u - v) a + u b + v c of numbers that vertices have.
fn between(of: &[f64], width: usize, face: [u32; 3], k: usize, u: f64, v: f64) -> f64 {
    let [a, b, c] = face.map(|i| of[width * i as usize + k]);
    (1.0 - u - v) * a + u * b + v * c
}

fn positions(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1450));
    let soup = soup(&mut rng, 25);
    let mesh = upload(device, &stream, &soup)?;
    for n in SIZES {
        let host = face_points(&mut rng, soup.faces.len(), n);
        let asked = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&asked)?;
            t.watch(mesh.points())?;
            mesh.record_positions_at(t, &asked, &mut out)
        })?;
        let mut plain = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        mesh.positions_at(&stream, &asked, &mut plain)?;
        ensure_eq!(out.to_vec(&stream)?, plain.to_vec(&stream)?);
        if n == 0 {
            continue;
        }
        let weights = points(&mut rng, n, 1.0);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let loss = |vertices: &[f64], uv: &[f64]| {
            let one = |(i, w): (usize, &[f32; 3])| {
                let face = soup.faces[host[i].face as usize];
                let number = |k| between(vertices, 3, face, k, uv[2 * i], uv[2 * i + 1]);
                (0..3).map(|k| f64::from(w[k]) * number(k)).sum::<f64>()
            };
            weights.iter().enumerate().map(one).sum::<f64>()
        };
        let (vertices, at) = (wide(&soup.points), f64s(&uv(&host)));
        let by_uv = tape.gradient(&asked)?.to_vec(&stream)?;
        ensure!(by_uv.iter().all(|p| p.face == 0));
        near(&uv(&by_uv), &slopes(&at, |at| loss(&vertices, at)))?;
        let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
        near(by_vertex.as_flattened(), &slopes(&vertices, |v| loss(v, &at)))?;
    }
    Ok(())
}

fn normals(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1451));
    let mut soup = soup(&mut rng, 25);
    // No area.
    soup.faces[7] = [21, 22, 21];
    let mesh = upload(device, &stream, &soup)?;
    for n in SIZES {
        let host = face_points(&mut rng, soup.faces.len(), n);
        let asked = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&asked)?;
            t.watch(mesh.points())?;
            mesh.record_normals_at(t, &asked, &mut out)
        })?;
        let mut plain = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        mesh.normals_at(&stream, &asked, &mut plain)?;
        ensure_eq!(out.to_vec(&stream)?, plain.to_vec(&stream)?);
        if n == 0 {
            continue;
        }
        let weights = points(&mut rng, n, 1.0);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let loss = |vertices: &[f64]| {
            let one = |(at, w): (&FacePoint, &[f32; 3])| {
                let [a, b, c] = soup.faces[at.face as usize].map(|i| point(vertices, i as usize));
                let area = cross(sub(b, a), sub(c, a));
                if at.face == 7 { 0.0 } else { dot(&normalize(area), &w.map(f64::from)) }
            };
            host.iter().zip(&weights).map(one).sum::<f64>()
        };
        let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
        near(by_vertex.as_flattened(), &slopes(&wide(&soup.points), loss))?;
        ensure!(uv(&tape.gradient(&asked)?.to_vec(&stream)?).iter().all(|x| *x == 0.0));
    }
    Ok(())
}

fn attributes_of<const N: usize>(device: &TestDevice, seed: u64) -> TestResult
where
    [f32; N]: Differentiable<Gradient = [f32; N]> + bytemuck::Pod,
{
    let (stream, mut rng) = (device.stream()?, device.rng(seed));
    let sphere = shapes::icosphere(1, 1.0)?;
    let mesh = upload(device, &stream, &sphere)?;
    for n in SIZES {
        let host = face_points(&mut rng, sphere.faces.len(), n);
        let row = |rng: &mut Rng| std::array::from_fn::<f32, N, _>(|_| rng.float());
        let values: Vec<[f32; N]> = (0..sphere.points.len()).map(|_| row(&mut rng)).collect();
        let weights: Vec<[f32; N]> = (0..n).map(|_| row(&mut rng)).collect();
        let asked = DeviceBuffer::from_slice(&stream, &host)?;
        let given = DeviceBuffer::from_slice(&stream, &values)?;
        let mut out = DeviceBuffer::<[f32; N]>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&asked)?;
            t.watch(&given)?;
            mesh.record_attributes_at(t, &asked, &given, &mut out)
        })?;
        if n == 0 {
            continue;
        }
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let loss = |values: &[f64], uv: &[f64]| {
            let one = |(i, w): (usize, &[f32; N])| {
                let face = sphere.faces[host[i].face as usize];
                let number = |k| between(values, N, face, k, uv[2 * i], uv[2 * i + 1]);
                (0..N).map(|k| f64::from(w[k]) * number(k)).sum::<f64>()
            };
            weights.iter().enumerate().map(one).sum::<f64>()
        };
        let (values, at) = (f64s(values.as_flattened()), f64s(&uv(&host)));
        let by_uv = tape.gradient(&asked)?.to_vec(&stream)?;
        near(&uv(&by_uv), &slopes(&at, |at| loss(&values, at)))?;
        let by_value = tape.gradient(&given)?.to_vec(&stream)?;
        near(by_value.as_flattened(), &slopes(&values, |values| loss(values, &at)))?;
    }
    Ok(())
}

fn attributes(device: &TestDevice) -> TestResult {
    attributes_of::<1>(device, 1452)?;
    attributes_of::<3>(device, 1453)?;
    attributes_of::<7>(device, 1454)
}

/// The attributes are the vertices' positions, and the same buffer has the points of faces.
fn points_among_the_attributes(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1455));
    let soup = soup(&mut rng, 8);
    let (n, vertices) = (50, soup.points.len());
    let host = face_points(&mut rng, soup.faces.len(), n);
    let all: Vec<[f32; 3]> = soup
        .points
        .iter()
        .copied()
        .chain(host.iter().map(|p| [f32::from_bits(p.face), p.u, p.v]))
        .collect();
    let all = DeviceBuffer::from_slice(&stream, &all)?;
    let faces = DeviceBuffer::from_slice(&stream, &soup.faces)?;
    let mesh = Mesh::build(
        &stream,
        &device.geometry(),
        all.slice(..vertices)?,
        &faces,
        MeshOptions::default(),
    )?;
    let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
    let weights = points(&mut rng, n, 1.0);
    let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
    let loss = |all: &[f64]| {
        let one = |(i, w): (usize, &[f32; 3])| {
            let (face, at) = (soup.faces[host[i].face as usize], 3 * (vertices + i));
            let number = |k| between(all, 3, face, k, all[at + 1], all[at + 2]);
            (0..3).map(|k| f64::from(w[k]) * number(k)).sum::<f64>()
        };
        weights.iter().enumerate().map(one).sum::<f64>()
    };
    let mut numbers = wide(&soup.points);
    numbers.extend(host.iter().flat_map(|p| [0.0, f64::from(p.u), f64::from(p.v)]));
    let wanted = slopes(&numbers, loss);
    for (deterministic, as_attributes) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&all)?;
            // SAFETY: a face's index and two numbers, as they were written above.
            let asked = unsafe {
                let view = all.slice(vertices..)?;
                view.allocation().view::<FacePoint>(view.byte_range())?
            };
            if as_attributes {
                return mesh.record_attributes_at(t, asked, mesh.points(), &mut out);
            }
            mesh.record_positions_at(t, asked, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        near(tape.gradient(&all)?.to_vec(&stream)?.as_flattened(), &wanted)?;
    }
    Ok(())
}

/// loss = sum of w f(closest(q)): through the position, u and v of the closest point. The points of faces are
/// made by an operation of a user.
fn attributes_at_closest_points(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1457), User::new(device)?);
    let soup = soup(&mut rng, 20);
    let mesh = upload(device, &stream, &soup)?;
    let n = 120;
    let host = points(&mut rng, n, 2.0);
    let values = rng.floats(soup.points.len());
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let given =
        DeviceBuffer::from_slice(&stream, &values.iter().map(|x| [*x]).collect::<Vec<_>>())?;
    let mut found = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
    let mut asked = DeviceBuffer::<FacePoint>::zeroed(&stream, n)?;
    let mut out = DeviceBuffer::<[f32; 1]>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        t.watch(&given)?;
        t.watch(mesh.points())?;
        t.fill(&mut loss, 0.0)?;
        mesh.record_closest_points(t, &PointQueries::at(&queries), &mut found)?;
        t.launch(&user.face_points, threads(n), (&found, &mut asked, n as u32))?;
        mesh.record_attributes_at(t, &asked, &given, &mut out)?;
        let numbers = out.as_slice().cast::<f32>()?;
        t.launch(&user.add_squares, threads(n), (numbers, &mut loss, n as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let value = |vertices: &[f64], values: &[f64], queries: &[f64]| {
        let one = |i| {
            let q = point(queries, i);
            let best = soup
                .faces
                .iter()
                .map(|face| (face, closest(vertices, &[*face], q)))
                .min_by(|a, b| a.1.distance.total_cmp(&b.1.distance));
            best.map_or(0.0, |(face, at)| between(values, 1, *face, 0, at.u, at.v).powi(2))
        };
        (0..n).map(one).sum::<f64>()
    };
    let (vertices, values, at) = (wide(&soup.points), f64s(&values), wide(&host));
    let by_query = tape.gradient(&queries)?.to_vec(&stream)?;
    near(by_query.as_flattened(), &slopes(&at, |at| value(&vertices, &values, at)))?;
    let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
    near(by_vertex.as_flattened(), &slopes(&vertices, |v| value(v, &values, &at)))?;
    let by_value = tape.gradient(&given)?.to_vec(&stream)?;
    near(by_value.as_flattened(), &slopes(&values, |values| value(&vertices, values, &at)))
}

/// Many points on few faces.
fn deterministic_bits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1458));
    let cube = shapes::cube(1.0)?;
    let mesh = upload(device, &stream, &cube)?;
    let n = 700;
    let asked = DeviceBuffer::from_slice(&stream, &face_points(&mut rng, cube.faces.len(), n))?;
    let seeds = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 1.0))?;
    for which in 0..3 {
        let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        let mut all = Vec::new();
        for deterministic in [true, true, false] {
            let mut tape = Tape::new(&stream)?;
            tape.set_deterministic(deterministic);
            tape.record_again(&stream, |t| {
                t.watch(mesh.points())?;
                match which {
                    0 => mesh.record_positions_at(t, &asked, &mut out),
                    1 => mesh.record_normals_at(t, &asked, &mut out),
                    _ => mesh.record_attributes_at(t, &asked, mesh.points(), &mut out),
                }
            })?;
            tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
            all.push(tape.gradient(mesh.points())?.to_vec(&stream)?);
        }
        let bits =
            |of: &[[f32; 3]]| of.as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        ensure!(all[0].as_flattened().iter().any(|x| *x != 0.0));
        ensure_eq!(bits(&all[0]), bits(&all[1]));
        let wanted: Vec<Option<f64>> = wide(&all[0]).into_iter().map(Some).collect();
        near(all[2].as_flattened(), &wanted)?;
    }
    Ok(())
}

fn faces_that_do_not_exist(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mesh = upload(device, &stream, &shapes::cube(1.0)?)?;
    let host =
        [FacePoint { face: 12, u: 0.25, v: 0.25 }, FacePoint { face: u32::MAX, u: 0.0, v: 0.0 }];
    let asked = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]; 2])?;
    let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 2)?;
    for which in 0..3 {
        let mut tape = Tape::record(&stream, |t| {
            t.watch(mesh.points())?;
            t.watch(&asked)?;
            match which {
                0 => mesh.record_positions_at(t, &asked, &mut out),
                1 => mesh.record_normals_at(t, &asked, &mut out),
                _ => mesh.record_attributes_at(t, &asked, mesh.points(), &mut out),
            }
        })?;
        ensure!(out.to_vec(&stream)?.as_flattened().iter().all(|x| x.is_nan()));
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let by = tape.gradient(mesh.points())?.to_vec(&stream)?;
        ensure!(by.as_flattened().iter().all(|x| *x == 0.0), "{by:?}");
        let by = uv(&tape.gradient(&asked)?.to_vec(&stream)?);
        ensure!(by.iter().all(|x| *x == 0.0), "{by:?}");
    }
    Ok(())
}

fn what_is_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let mut mesh = upload(device, &stream, &shapes::cube(1.0)?)?;
    let asked = DeviceBuffer::from_slice(&stream, &[FacePoint { face: 1, u: 0.25, v: 0.25 }])?;
    let ones = DeviceBuffer::from_slice(&stream, &[[1.0f32; 3]])?;
    let mut out = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 1)?;
    let mut two = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 2)?;
    let long = Tape::record(&stream, |t| mesh.record_positions_at(t, &asked, &mut two));
    refused(long.map(|_| ()), "room for 2 positions")?;
    let few = Tape::record(&stream, |t| mesh.record_attributes_at(t, &asked, &ones, &mut out));
    refused(few.map(|_| ()), "1 attributes for 8")?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&asked)?;
        mesh.record_positions_at(t, &asked, &mut out)
    })?;
    let seeds = Seeds::new().with(&out, &ones)?;
    tape.backward_with(&stream, &seeds)?;
    let missing = || Failure::new("the mesh does not own its points");
    mesh.points_mut().ok_or_else(missing)?.upload(&stream, &[[0.0; 3]; 8])?;
    refused(tape.backward_with(&stream, &seeds), "`mesh positions`) was overwritten")
}
