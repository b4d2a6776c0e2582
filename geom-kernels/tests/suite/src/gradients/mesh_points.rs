//! Closest points and distances: with respect to points and vertices.

use bytemuck::Zeroable;
use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::mesh::{
    ClosestPoint, Mesh, MeshOptions, NO_FACE, PointQueries, Sign, TriangleMesh, shapes,
};
use tape::{Recorder, Seeds, Tape};

use super::user::{User, threads};
use super::{near, points, refused, slopes, slopes_of_terms, wide};
use crate::Geometry;
use geom_oracle::plain::{closest, is_inside, point};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "gradients::mesh",
        device(closest_points),
        device(distances),
        device(signed_distances),
        device(points_among_the_vertices),
        device(sums_of_a_transformed_cloud),
        device(nothing_found_has_none),
        device(deterministic_bits),
    ]
}

/// Triangles that share nothing: there are no ties.
pub(super) fn soup(rng: &mut Rng, n: usize) -> TriangleMesh {
    let mut mesh = TriangleMesh::default();
    for i in 0..n as u32 {
        let center = points(rng, 1, 1.0)[0];
        let corners = points(rng, 3, 0.5);
        mesh.points.extend(corners.iter().map(|p| [0, 1, 2].map(|k| p[k] + center[k])));
        mesh.faces.push([3 * i, 3 * i + 1, 3 * i + 2]);
    }
    mesh
}

/// A bumpy sphere.
fn stone() -> Result<TriangleMesh, Failure> {
    let mut stone = shapes::icosphere(1, 1.0)?;
    stone.displace(&shapes::Noise::new(3), 0.3, 2.0)?;
    Ok(stone)
}

pub(super) fn upload(
    device: &TestDevice,
    stream: &Stream,
    mesh: &TriangleMesh,
) -> Result<Mesh<'static>, Failure> {
    Ok(Mesh::upload(stream, &device.geometry(), mesh, MeshOptions::default())?)
}

const SIZES: [usize; 6] = [0, 1, 31, 32, 33, 150];

fn closest_points(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1400));
    let soup = soup(&mut rng, 25);
    let mesh = upload(device, &stream, &soup)?;
    for n in SIZES {
        let host = points(&mut rng, n, 2.0);
        let queries = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            t.watch(mesh.points())?;
            mesh.record_closest_points(t, &PointQueries::at(&queries), &mut out)
        })?;
        let mut plain = DeviceBuffer::<ClosestPoint>::zeroed(&stream, n)?;
        mesh.closest_points(&stream, &PointQueries::at(&queries), &mut plain)?;
        ensure_eq!(out.to_vec(&stream)?, plain.to_vec(&stream)?);
        if n == 0 {
            continue;
        }
        let weights: Vec<[f32; 6]> = (0..n).map(|_| [0; 6].map(|_: i32| rng.float())).collect();
        let seeds: Vec<ClosestPoint> = weights
            .iter()
            .map(|w| ClosestPoint {
                position: [w[0], w[1], w[2]],
                distance_squared: w[3],
                u: w[4],
                v: w[5],
                ..ClosestPoint::zeroed()
            })
            .collect();
        let seeds = DeviceBuffer::from_slice(&stream, &seeds)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let one = |vertices: &[f64], i: usize, query: [f64; 3]| {
            let found = closest(vertices, &soup.faces, query);
            let [x, y, z] = found.position;
            let all = [x, y, z, found.distance * found.distance, found.u, found.v];
            all.iter().zip(&weights[i]).map(|(a, w)| a * f64::from(*w)).sum::<f64>()
        };
        let (vertices, at) = (wide(&soup.points), wide(&host));
        let loss = |vertices: &[f64]| (0..n).map(|i| one(vertices, i, point(&at, i))).sum();
        let by_query = tape.gradient(&queries)?.to_vec(&stream)?;
        let wanted = slopes_of_terms(&at, |i, query| one(&vertices, i, point(query, 0)));
        near(by_query.as_flattened(), &wanted)?;
        let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
        near(by_vertex.as_flattened(), &slopes(&vertices, loss))?;
    }
    Ok(())
}

/// What is recorded of distances, and the distance in f64.
type Record<'r> = dyn Fn(
        &Mesh<'_>,
        &mut Recorder<'_>,
        &PointQueries<'_>,
        &mut DeviceBuffer<f32>,
    ) -> cuda_safe::Result<()>
    + 'r;

fn check_distances(
    device: &TestDevice,
    record: &Record<'_>,
    signed: bool,
    seed: u64,
) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(seed));
    let stone = stone()?;
    let mesh = upload(device, &stream, &stone)?;
    for n in SIZES {
        let host = points(&mut rng, n, 1.5);
        let queries = DeviceBuffer::from_slice(&stream, &host)?;
        let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            t.watch(mesh.points())?;
            record(&mesh, t, &PointQueries::at(&queries), &mut out)
        })?;
        if n == 0 {
            continue;
        }
        let weights = rng.floats(n);
        let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        let (vertices, at) = (wide(&stone.points), wide(&host));
        let side = |i: usize| {
            if signed && is_inside(&vertices, &stone.faces, point(&at, i)) { -1.0 } else { 1.0 }
        };
        let sides: Vec<f64> = (0..n).map(side).collect();
        let one = |vertices: &[f64], i: usize, query: [f64; 3]| {
            closest(vertices, &stone.faces, query).distance * sides[i] * f64::from(weights[i])
        };
        let loss = |vertices: &[f64]| (0..n).map(|i| one(vertices, i, point(&at, i))).sum();
        for (i, got) in out.to_vec(&stream)?.into_iter().enumerate() {
            let wanted = closest(&vertices, &stone.faces, point(&at, i)).distance * sides[i];
            ensure!((f64::from(got) - wanted).abs() < 1e-5, "{got}, not {wanted}");
        }
        let by_query = tape.gradient(&queries)?.to_vec(&stream)?;
        let wanted = slopes_of_terms(&at, |i, query| one(&vertices, i, point(query, 0)));
        near(by_query.as_flattened(), &wanted)?;
        let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
        near(by_vertex.as_flattened(), &slopes(&vertices, loss))?;
    }
    Ok(())
}

fn distances(device: &TestDevice) -> TestResult {
    check_distances(device, &|mesh, t, at, out| mesh.record_distances(t, at, out), false, 1401)
}

fn signed_distances(device: &TestDevice) -> TestResult {
    for (sign, seed) in [(Sign::Normal, 1402), (Sign::Parity, 1403)] {
        let record: &Record<'_> =
            &|mesh, t, at, out| mesh.record_signed_distances(t, at, sign, out);
        check_distances(device, record, true, seed)?;
    }
    Ok(())
}

/// The points that are asked for are vertices of other faces, which no face here names, and of this one.
fn points_among_the_vertices(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1404));
    let mut soup = soup(&mut rng, 10);
    soup.points.extend(points(&mut rng, 40, 2.0));
    // The last ten of the faces' own vertices are asked for, too: their distance is 0.
    let (first, n) = (20, soup.points.len() - 20);
    let all = DeviceBuffer::from_slice(&stream, &soup.points)?;
    let faces = DeviceBuffer::from_slice(&stream, &soup.faces)?;
    let mesh = Mesh::build(&stream, &device.geometry(), &all, &faces, MeshOptions::default())?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let weights: Vec<f32> = (0..n).map(|i| if i < 10 { 0.0 } else { rng.float() }).collect();
    let seeds = DeviceBuffer::from_slice(&stream, &weights)?;
    let vertices = wide(&soup.points);
    let wanted = slopes(&vertices, |x| {
        let one = |i| closest(x, &soup.faces, point(x, first + i)).distance;
        (0..n).filter(|i| *i >= 10).map(|i| one(i) * f64::from(weights[i])).sum::<f64>()
    });
    for deterministic in [false, true] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(&all)?;
            mesh.record_distances(t, &PointQueries::at(all.slice(first..)?), &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        near(tape.gradient(&all)?.to_vec(&stream)?.as_flattened(), &wanted)?;
    }
    Ok(())
}

/// loss = sum of squares of the signed distances of points that a map has moved, by the map and the points.
fn sums_of_a_transformed_cloud(device: &TestDevice) -> TestResult {
    let (stream, mut rng, user) = (device.stream()?, device.rng(1405), User::new(device)?);
    let stone = stone()?;
    let mesh = upload(device, &stream, &stone)?;
    let n = 70;
    let host = points(&mut rng, n, 1.5);
    let rows: Vec<f32> =
        (0..12).map(|i| if i % 5 == 0 { 0.9 } else { 0.2 * rng.float() }).collect();
    let (cloud, map) =
        (DeviceBuffer::from_slice(&stream, &host)?, DeviceBuffer::from_slice(&stream, &rows)?);
    let mut moved = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
    let mut distances = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut loss = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&cloud)?;
        t.watch(&map)?;
        t.watch(mesh.points())?;
        t.fill(&mut loss, 0.0)?;
        t.launch(&user.transform, threads(n), (&map, &cloud, &mut moved, n as u32))?;
        mesh.record_signed_distances(t, &PointQueries::at(&moved), Sign::Normal, &mut distances)?;
        t.launch(&user.add_squares, threads(n), (&distances, &mut loss, n as u32))
    })?;
    tape.backward(&stream, &loss)?;
    let value = |rows: &[f64], cloud: &[f64], vertices: &[f64]| {
        let one = |i: usize| {
            let q = point(cloud, i);
            let q = std::array::from_fn(|r| {
                (0..3).map(|k| rows[4 * r + k] * q[k]).sum::<f64>() + rows[4 * r + 3]
            });
            closest(vertices, &stone.faces, q).distance.powi(2)
        };
        (0..n).map(one).sum::<f64>()
    };
    let rows: Vec<f64> = rows.iter().map(|x| f64::from(*x)).collect();
    let (at, vertices) = (wide(&host), wide(&stone.points));
    let by_map = tape.gradient(&map)?.to_vec(&stream)?;
    near(&by_map, &slopes(&rows, |rows| value(rows, &at, &vertices)))?;
    let by_cloud = tape.gradient(&cloud)?.to_vec(&stream)?;
    near(by_cloud.as_flattened(), &slopes(&at, |at| value(&rows, at, &vertices)))?;
    let by_vertex = tape.gradient(mesh.points())?.to_vec(&stream)?;
    near(by_vertex.as_flattened(), &slopes(&vertices, |vertices| value(&rows, &at, vertices)))
}

/// Points that are too far, or not finite; a mesh without faces; limits that are watched.
fn nothing_found_has_none(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let host = [[3.0f32, 0.0, 0.0], [f32::NAN, 0.0, 0.0], [0.0, 0.0, 1.5]];
    let queries = DeviceBuffer::from_slice(&stream, &host)?;
    let ones = DeviceBuffer::from_slice(&stream, &[1.0f32; 3])?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 3)?;
    let sphere = shapes::icosphere(2, 1.0)?;
    for (mesh, found) in [(sphere, true), (TriangleMesh::default(), false)] {
        let mesh = upload(device, &stream, &mesh)?;
        let mut tape = Tape::record(&stream, |t| {
            t.watch(&queries)?;
            let near = PointQueries::at(&queries).within(1.0);
            mesh.record_signed_distances(t, &near, Sign::Normal, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &ones)?)?;
        let by = tape.gradient(&queries)?.to_vec(&stream)?;
        ensure_eq!(by[0], [0.0; 3]);
        ensure_eq!(by[1], [0.0; 3]);
        ensure!((by[2][2] == 0.0) != found && (!found || (by[2][2] - 1.0).abs() < 1e-3), "{by:?}");
        ensure_eq!(out.to_vec(&stream)?[0], f32::INFINITY);
    }
    let mesh = upload(device, &stream, &shapes::cube(1.0)?)?;
    let mut limits = DeviceBuffer::from_slice(&stream, &[1.0f32; 3])?;
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 3)?;
    let tape = Tape::record(&stream, |t| {
        t.watch(&limits)?;
        let each = PointQueries::at(&queries).within_each(&limits);
        mesh.record_closest_points(t, &each, &mut closest)
    });
    refused(tape.map(|_| ()), "as if it were constant")?;
    // The adjoint does not look at them: they may be others by then.
    let mut tape = Tape::record(&stream, |t| {
        t.watch(&queries)?;
        let each = PointQueries::at(&queries).within_each(&limits);
        mesh.record_closest_points(t, &each, &mut closest)
    })?;
    limits.fill(&stream, 0.0)?;
    let seeds = DeviceBuffer::from_slice(&stream, &[ClosestPoint::zeroed(); 3])?;
    tape.backward_with(&stream, &Seeds::new().with(&closest, &seeds)?)?;
    // Nothing is watched: the answers are there all the same, and nothing is remembered.
    let mut tape = Tape::record(&stream, |t| {
        mesh.record_closest_points(t, &PointQueries::at(&queries), &mut closest)
    })?;
    let answers = closest.to_vec(&stream)?;
    ensure!(answers[0].face != NO_FACE && answers[1].face == NO_FACE);
    let none = tape.backward_with(&stream, &Seeds::new().with(&closest, &seeds)?);
    refused(none, "no differentiable path")
}

/// Many points for each vertex, on tapes that are deterministic: the same bits, near those of another.
fn deterministic_bits(device: &TestDevice) -> TestResult {
    let (stream, mut rng) = (device.stream()?, device.rng(1406));
    let cube = shapes::cube(1.0)?;
    let mesh = upload(device, &stream, &cube)?;
    let n = 700;
    let queries = DeviceBuffer::from_slice(&stream, &points(&mut rng, n, 2.0))?;
    let seeds = DeviceBuffer::from_slice(&stream, &rng.floats(n))?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut all = Vec::new();
    for deterministic in [true, true, false] {
        let mut tape = Tape::new(&stream)?;
        tape.set_deterministic(deterministic);
        tape.record_again(&stream, |t| {
            t.watch(mesh.points())?;
            mesh.record_signed_distances(t, &PointQueries::at(&queries), Sign::Normal, &mut out)
        })?;
        tape.backward_with(&stream, &Seeds::new().with(&out, &seeds)?)?;
        all.push(tape.gradient(mesh.points())?.to_vec(&stream)?);
    }
    let bits = |of: &[[f32; 3]]| of.as_flattened().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    ensure_eq!(bits(&all[0]), bits(&all[1]));
    let wanted: Vec<Option<f64>> = wide(&all[0]).into_iter().map(Some).collect();
    near(all[2].as_flattened(), &wanted)
}
