//! Attacks on meshes.

use std::mem;

use cuda_safe::{DeviceBuffer, Result, Stream};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, Mesh, MeshOptions, NO_FACE, Overlap, PointQueries, RayHit, Sign,
    TriangleMesh, shapes,
};
use geom_kernels::{Aabb, GeometryKernels, Ray};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// Everything that can be asked of a mesh, with answers in buffers whose last element is a guard.
fn ask_all(stream: &Stream, mesh: &Mesh<'_>, points: usize) -> Result<Vec<ClosestPoint>> {
    let at = [[0.1f32; 3], [NAN; 3], [INF; 3], [1e30; 3], [0.0; 3], [-1e-40; 3]];
    let at = DeviceBuffer::from_slice(stream, &at)?;
    let queries = PointQueries::at(&at);
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(stream, 6)?;
    mesh.closest_points(stream, &queries, &mut closest)?;
    let mut numbers = DeviceBuffer::<f32>::zeroed(stream, 6)?;
    mesh.signed_distances(stream, &queries, Sign::Parity, &mut numbers)?;
    let mut sides = DeviceBuffer::<i32>::zeroed(stream, 6)?;
    mesh.classify(stream, &queries, &mut sides)?;
    if mesh.options() == MeshOptions::default().winding().topology().skip_validation() {
        mesh.winding_numbers(stream, &queries, 2.0, &mut numbers)?;
        mesh.signed_distances(stream, &queries, Sign::Normal, &mut numbers)?;
        mesh.signed_distances(stream, &queries, Sign::Winding, &mut numbers)?;
    }
    let faces = [0, 1, 2, 3, 1 << 31, NO_FACE - 1, NO_FACE];
    let faces: Vec<_> =
        faces.iter().map(|face| FacePoint { face: *face, u: NAN, v: 1e30 }).collect();
    let faces = DeviceBuffer::from_slice(stream, &faces)?;
    let mut vectors = DeviceBuffer::<[f32; 3]>::zeroed(stream, 7)?;
    mesh.positions_at(stream, &faces, &mut vectors)?;
    mesh.normals_at(stream, &faces, &mut vectors)?;
    let attributes = DeviceBuffer::<[f32; 5]>::zeroed(stream, points)?;
    let mut out = DeviceBuffer::<[f32; 5]>::zeroed(stream, 7)?;
    mesh.attributes_at(stream, &faces, &attributes, &mut out)?;
    mesh.report(stream)?;
    closest.to_vec(stream)
}

/// Lets faces name points that are not there, without the check, or after it, and asks a mesh for everything.
///
/// - row: an index that a kernel reads from memory
/// - targets: `Mesh::build`, `Mesh::faces_mut`, `Mesh::points_mut`, `Mesh::refit`, `Mesh::rebuild`,
///   `Mesh::positions_at`, `Mesh::attributes_at`, `Mesh::normals_at`, `Mesh::report`, `Mesh::neighbors`,
///   `Mesh::vertex_normals`
fn faces_that_name_no_points(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let good = shapes::cube(2.0)?;
    let mut bad = good.faces.clone();
    for (i, index) in [8, u32::MAX, 1 << 31, u32::MAX - 1, 9].into_iter().enumerate() {
        bad[i][i % 3] = index;
    }
    let options = MeshOptions::default().winding().topology().skip_validation();
    let points = DeviceBuffer::from_slice(&stream, &good.points)?;
    let first = if lab.variant() == "built" { &bad } else { &good.faces };
    let faces = DeviceBuffer::from_slice(&stream, first)?;
    let mut mesh = Mesh::build(&stream, &geometry, points, faces, options)?;
    if lab.variant() != "built" {
        let Some(mut faces) = mesh.faces_mut() else { return Err(Failure::new("not owned")) };
        faces.upload(&stream, &bad)?;
        match lab.variant() {
            "refitted" => mesh.refit(&stream)?,
            "rebuilt" => mesh.rebuild(&stream)?,
            _ => {}
        }
    }
    let closest = ask_all(&stream, &mesh, 8)?;
    for point in &closest {
        ensure!(point.face == NO_FACE || point.face < 12, "{point:?}");
        ensure!(point.face == NO_FACE || lab.variant() != "built" || point.face >= 5, "{point:?}");
    }
    ensure_eq!(closest[1].face, NO_FACE);
    if let (Some(neighbors), Some(normals)) = (mesh.neighbors(), mesh.vertex_normals()) {
        let neighbors = neighbors.to_vec(&stream)?;
        ensure!(neighbors.iter().all(|face| *face == NO_FACE || *face < 12), "{neighbors:?}");
        ensure_eq!(normals.len(), 8);
    }
    // Back to what it was: right again.
    let Some(mut faces) = mesh.faces_mut() else { return Err(Failure::new("not owned")) };
    faces.upload(&stream, &good.faces)?;
    let Some(mut moved) = mesh.points_mut() else { return Err(Failure::new("not owned")) };
    moved.fill(&stream, [NAN; 3])?;
    mesh.rebuild(&stream)?;
    ensure!(ask_all(&stream, &mesh, 8)?.iter().all(|point| point.face == NO_FACE));
    let Some(mut moved) = mesh.points_mut() else { return Err(Failure::new("not owned")) };
    moved.upload(&stream, &good.points)?;
    mesh.rebuild(&stream)?;
    ensure_eq!(ask_all(&stream, &mesh, 8)?[4].distance_squared, 1.0);
    Ok(())
}

/// Gives meshes other numbers of points, answers of other lengths, and factors that are no numbers.
///
/// - row: launching foreign code is unsafe
/// - targets: `Mesh::refit_to`, `Mesh::closest_points`, `Mesh::winding_numbers`, `Mesh::signed_closest_points`,
///   `Mesh::attributes_at`, `Mesh::count_overlaps`, `PointQueries::within_each`, `Mesh::upload`
fn answers_of_other_lengths(lab: &Lab) -> TestResult {
    let refusal = "room for 5 closest points, and 4 are written";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let cube = shapes::cube(2.0)?;
    let mut mesh = Mesh::upload(&stream, &geometry, &cube, MeshOptions::default().winding())?;
    for n in [0usize, 7, 9] {
        let points = DeviceBuffer::<[f32; 3]>::zeroed(&stream, n)?;
        lab.refused(mesh.refit_to(&stream, points), "points for a mesh of 8")?;
    }
    let at = DeviceBuffer::from_slice(&stream, &[[0.0f32; 3]; 4])?;
    let queries = PointQueries::at(&at);
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 5)?;
    lab.refused(mesh.closest_points(&stream, &queries, &mut closest), refusal)?;
    let mut numbers = DeviceBuffer::<f32>::zeroed(&stream, 4)?;
    lab.refused(
        mesh.signed_closest_points(&stream, &queries, Sign::Parity, &mut numbers, &mut closest),
        refusal,
    )?;
    for beta in [NAN, -1.0, 0.0, 0.999, f32::NEG_INFINITY] {
        lab.refused(
            mesh.winding_numbers(&stream, &queries, beta, &mut numbers),
            "it is at least 1",
        )?;
    }
    mesh.winding_numbers(&stream, &queries, INF, &mut numbers)?;
    ensure!(numbers.to_vec(&stream)?.iter().all(|w| (w - 1.0).abs() < 1e-5));
    let distances = DeviceBuffer::from_slice(&stream, &[NAN, -1.0, 0.5, INF])?;
    let limited = queries.within_each(distances.slice(..3)?);
    let mut closest = closest.slice_mut(..4)?;
    lab.refused(mesh.closest_points(&stream, &limited, &mut closest), "3 distances for 4 points")?;
    mesh.closest_points(&stream, &queries.within_each(&distances), &mut closest)?;
    let faces: Vec<_> = closest.as_slice().to_vec(&stream)?.iter().map(|c| c.face).collect();
    ensure!(faces[..3] == [NO_FACE; 3] && faces[3] < 12, "{faces:?}");
    let attributes = DeviceBuffer::<[f32; 2]>::zeroed(&stream, 9)?;
    let places = DeviceBuffer::<FacePoint>::zeroed(&stream, 1)?;
    let mut out = DeviceBuffer::<[f32; 2]>::zeroed(&stream, 1)?;
    lab.refused(
        mesh.attributes_at(&stream, &places, &attributes, &mut out),
        "9 attributes for 8 points",
    )?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let rays = DeviceBuffer::from_slice(&stream, &[Ray::new([0.0; 3], [1.0; 3])])?;
    lab.refused(
        mesh.count_overlaps(&stream, &rays, Overlap::default(), &mut counts),
        "rays overlap nothing",
    )?;
    let plain = Mesh::upload(&stream, &geometry, &cube, MeshOptions::default())?;
    lab.refused(
        plain.winding_numbers(&stream, &queries, 2.0, &mut numbers),
        "a mesh without winding numbers: MeshOptions::winding",
    )?;
    Ok(())
}

/// Drops meshes and hierarchies right after queries were enqueued, on other threads, and leaks one.
///
/// - row: device memory is freed after the last work
/// - targets: `Mesh::upload`, `Mesh::closest_points`, `Bvh::build`, `Bvh::count_overlaps`, `Mesh::view`, `Bvh::view`
fn meshes_dropped_in_use(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let (stream, other) = (context.stream()?, context.stream()?);
    let geometry = GeometryKernels::new(&context);
    let ball = shapes::icosphere(2, 1.0)?;
    let at: Vec<[f32; 3]> = (0..40).map(|i| [i as f32 * 0.1 - 2.0, 0.3, 0.1]).collect();
    let at = DeviceBuffer::from_slice(&stream, &at)?;
    let unit = Aabb { lower: [0.0f32; 3], upper: [1.0; 3] };
    let mut expected: Option<Vec<ClosestPoint>> = None;
    for round in 0..6 {
        let mesh = Mesh::upload(&stream, &geometry, &ball, MeshOptions::default())?;
        let boxes = DeviceBuffer::from_slice(&stream, &[unit; 50])?;
        let bvh = Bvh::build(&stream, &geometry, &boxes, BuildMode::default())?;
        let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 40)?;
        let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 50)?;
        mesh.closest_points(&other, &PointQueries::at(&at), &mut closest)?;
        bvh.count_overlaps(&other, &boxes, &mut counts)?;
        ensure!(format!("{:?}{:?}", mesh.view(), bvh.view()).len() > 10);
        if round == 2 {
            mem::forget((mesh, bvh));
        } else {
            let drop_all = move || drop((bvh, boxes, mesh));
            std::thread::spawn(drop_all).join().map_err(|_| Failure::new("a panic"))?;
        }
        context.free_deferred()?;
        let mut taken = Vec::new();
        for len in [1usize << 8, 1 << 12, 1 << 15] {
            taken.push(DeviceBuffer::from_slice(&stream, &vec![0xffu8; len])?);
        }
        let seen = closest.to_vec(&stream)?;
        ensure!(seen.iter().all(|c| c.face < 320), "round {round}");
        ensure_eq!(counts.to_vec(&stream)?, [50; 50]);
        match &expected {
            None => expected = Some(seen),
            Some(expected) => ensure!(*expected == seen, "round {round}"),
        }
    }
    Ok(())
}

/// Asks one mesh and one hierarchy from four threads, whose kernels nobody has loaded yet.
///
/// - row: all types may go to other threads
/// - targets: `Mesh::closest_hits`, `Mesh::closest_points`, `Mesh::report`, `GeometryKernels::context`
fn one_mesh_for_four_threads(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    ensure!(*geometry.context() == context);
    let ball = shapes::icosphere(2, 1.0)?;
    let mesh = Mesh::upload(&stream, &geometry, &ball, MeshOptions::default())?;
    let rays: Vec<Ray> = (0..64).map(|i| Ray::new([0.0; 3], [i as f32 - 31.5, 3.0, 1.0])).collect();
    let rays = DeviceBuffer::from_slice(&stream, &rays)?;
    let ask = |stream: Stream| -> Result<(Vec<RayHit>, usize)> {
        let mut hits = DeviceBuffer::<RayHit>::zeroed(&stream, 64)?;
        mesh.closest_hits(&stream, &rays, &mut hits)?;
        Ok((hits.to_vec(&stream)?, mesh.report(&stream)?.edges))
    };
    let ask = &ask;
    let streams = (0..4).map(|_| context.stream()).collect::<Result<Vec<_>>>()?;
    let seen = std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(move || ask(stream))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().map_err(|_| Failure::new("a panic"))
        };
        threads.into_iter().map(join).collect::<std::result::Result<Vec<_>, _>>()
    })?;
    for one in seen {
        let (hits, edges) = one?;
        ensure_eq!(edges, 480);
        ensure!(hits.iter().all(|hit| hit.face < 320 && hit.t > 0.0));
        ensure!(hits == ask(stream.clone())?.0);
    }
    Ok(())
}

/// Gives methods of meshes on the host indices out of range and numbers that are none, and shapes sizes that can't be.
///
/// - row: launching foreign code is unsafe
/// - targets: `TriangleMesh::weld`, `TriangleMesh::volume`, `TriangleMesh::vertex_normals`, `TriangleMesh::displace`,
///   `TriangleMesh::append`, `icosphere`, `plane`, `torus`, `knot`, `cuboid`
fn meshes_of_nonsense_on_the_host(lab: &Lab) -> TestResult {
    let refusal =
        "a mesh of 18446744065119617025 points and 18446744073709551615 faces; at most 2^32 - 1 of";
    let mut mesh = TriangleMesh {
        points: vec![
            [0.0; 3],
            [-0.0; 3],
            [NAN; 3],
            [INF, 0.0, 0.0],
            [1.0, 2.0, 3.0],
            [f32::MAX; 3],
        ],
        faces: vec![[0, 1, 6], [u32::MAX; 3], [2, 3, 4], [0, 0, 0], [5, 4, 0], [7, 1 << 31, 0]],
    };
    let before = mesh.faces.clone();
    mesh.weld();
    ensure_eq!(mesh.faces[0], [0, 0, 6]);
    ensure_eq!(mesh.faces[1], [u32::MAX; 3]);
    ensure_eq!(mesh.vertex_normals().len(), 5);
    ensure!(mesh.area() >= 0.0 || mesh.area().is_nan());
    ensure!(mesh.volume().is_nan() || mesh.volume().is_finite() || mesh.volume().is_infinite());
    let bounds = mesh.bounds().ok_or_else(|| Failure::new("no bounds"))?;
    ensure_eq!((bounds.lower, bounds.upper), ([0.0; 3], [f32::MAX; 3]));
    mesh.flip();
    mesh.scale([-1.0, NAN, 0.0]);
    mesh.transform(&[[INF; 4]; 3]);
    mesh.translate([NAN; 3]);
    let copy = mesh.clone();
    mesh.append(&copy)?;
    ensure_eq!(mesh.faces.len(), 2 * before.len());
    ensure!(mesh.faces.iter().flatten().filter(|index| **index < 10).count() > 12);
    lab.refused(
        mesh.displace(&shapes::Noise::new(1), NAN, 1.0),
        "noise of amplitude NaN and frequency 1; both must be finite",
    )?;
    mesh.displace(&shapes::Noise::new(u64::MAX), 1.0, f32::MAX)?;
    for radius in [0.0, -1.0, NAN, INF] {
        lab.refused(shapes::icosphere(0, radius), "it must be positive")?;
        lab.refused(shapes::torus(radius, 0.5, 3, 3), "the major radius of length")?;
        lab.refused(shapes::cuboid([1.0, radius, 1.0]), "an edge of a cuboid of length")?;
    }
    lab.refused(
        shapes::icosphere(14, 1.0),
        "a sphere of 14 subdivisions; at most 13 are possible",
    )?;
    lab.refused(
        shapes::icosphere(u32::MAX, 1.0),
        "a sphere of 4294967295 subdivisions; at most 13 are possible",
    )?;
    lab.refused(
        shapes::plane([1.0; 2], [u32::MAX; 2]),
        "a mesh of 18446744073709551615 points and 18446744073709551615 faces; at most 2^32 - 1 of",
    )?;
    lab.refused(shapes::plane([1.0; 2], [0, 1]), "a plane of 0 x 1 cells")?;
    lab.refused(
        shapes::plane([1.0; 2], [u32::MAX, 1]),
        "a mesh of 8589934592 points and 8589934590 faces; at most 2^32 - 1 of each are",
    )?;
    lab.refused(shapes::torus(1.0, 0.5, u32::MAX, u32::MAX), refusal)?;
    lab.refused(shapes::knot(u32::MAX, u32::MAX), refusal)?;
    lab.refused(
        shapes::knot(65_536, 65_536),
        "a mesh of 4294967296 points and 8589934592 faces; at most 2^32 - 1 of each are",
    )?;
    lab.refused(
        shapes::knot(2, 3),
        "a closed shape of 2 x 3 points; at least 3 are needed each way",
    )?;
    Ok(())
}

/// Asks meshes and hierarchies of one device with streams, points and answers of another one.
///
/// - row: handles of different contexts or drivers do not mix
/// - targets: `Mesh::build`, `Mesh::closest_points`, `Bvh::build`, `Bvh::refit`, `Mesh::refit_to`, `Mesh::rebuild`
fn meshes_of_two_devices(lab: &Lab) -> TestResult {
    let refusal = "the buffer belongs to another context than the stream it is used on";
    let (context, other) = (lab.context()?, lab.context_of(1)?);
    let (stream, strange) = (context.stream()?, other.stream()?);
    let (geometry, far) = (GeometryKernels::new(&context), GeometryKernels::new(&other));
    let cube = shapes::cube(2.0)?;
    let options = MeshOptions::default();
    lab.refused(
        Mesh::upload(&stream, &far, &cube, options),
        "kernel `mesh_validate` belongs to another context than the stream",
    )?;
    let mut mesh = Mesh::upload(&stream, &geometry, &cube, options)?;
    let points = DeviceBuffer::from_slice(&strange, &cube.points)?;
    let faces = DeviceBuffer::from_slice(&strange, &cube.faces)?;
    lab.refused(Mesh::build(&stream, &geometry, &points, &faces, options), refusal)?;
    lab.refused(
        mesh.rebuild(&strange),
        "kernel `mesh_bound` belongs to another context than the stream",
    )?;
    lab.refused(mesh.refit(&strange), "the last build of the hierarchy has failed")?;
    lab.refused(
        mesh.report(&strange),
        "kernel `mesh_bound_points` belongs to another context than the stream",
    )?;
    lab.refused(
        mesh.refit_to(&stream, points.slice(..)?).map(drop),
        "the last build of the hierarchy has failed",
    )?;
    let mut mesh = Mesh::upload(&stream, &geometry, &cube, options)?;
    let near = DeviceBuffer::from_slice(&stream, &cube.points)?;
    let mut closest = DeviceBuffer::<ClosestPoint>::zeroed(&stream, 8)?;
    lab.refused(mesh.closest_points(&stream, &PointQueries::at(&points), &mut closest), refusal)?;
    lab.refused(
        mesh.closest_points(&strange, &PointQueries::at(&near), &mut closest),
        "kernel `mesh_closest` belongs to another context than the stream",
    )?;
    let boxes = DeviceBuffer::from_slice(&strange, &[Aabb::<f32>::EMPTY; 4])?;
    lab.refused(Bvh::build(&stream, &geometry, &boxes, BuildMode::default()), refusal)?;
    mesh.rebuild(&stream)?;
    mesh.closest_points(&stream, &PointQueries::at(&near), &mut closest)?;
    ensure!(closest.to_vec(&stream)?.iter().all(|c| c.distance_squared == 0.0));
    Ok(())
}

attacks![
    "geometry",
    right(faces_that_name_no_points).variants(&["built", "refitted", "rebuilt", "not_built"]),
    refused(answers_of_other_lengths),
    right(meshes_dropped_in_use),
    right(one_mesh_for_four_threads),
    refused(meshes_of_nonsense_on_the_host),
    refused(meshes_of_two_devices).devices(2),
];
