//! Meshes in host memory: their queries have the bits of the device's.

use geom_kernels::Aabb;
use geom_kernels::bvh::BvhQueries;
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, MeshOptions, Overlap, PointQueries, Ray, Sign, TriangleMesh, shapes,
};
use geom_kernels::structures::{self, Limit};

use super::inputs::{Around, Input, displaced, inputs, invalid_points, soup};
use super::queries::{Fixture, NO_HIT, bits, same};
use super::ray_inputs::rays;
use super::thorough;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "mesh::cpu",
        device(points_have_the_bits_of_the_device),
        device(rays_have_the_bits_of_the_device),
        device(refits_have_the_bits_of_the_device),
        device(sizes_around_a_block),
        device(overlaps_are_those_of_the_device),
        device(values_at_points_have_the_bits_of_the_device),
        host(wrong_lengths_and_indices_are_refused),
    ]
}

/// Memory full of what is no result.
fn garbage<T: bytemuck::Pod>(n: usize) -> Vec<T> {
    vec![bytemuck::pod_read_unaligned(&vec![0xa5u8; size_of::<T>()]); n]
}

/// Compares all queries of points.
fn check_points(
    fixture: &Fixture<'_>,
    (input, options): (&Input, MeshOptions),
    (mesh, cpu): (&geom_kernels::mesh::Mesh<'_>, &structures::Mesh),
    points: &[[f32; 3]],
) -> TestResult {
    let n = points.len();
    let there = fixture.upload(points)?;
    let each: Vec<f32> = (0..n)
        .map(|i| match i % 16 {
            7 => f32::NAN,
            8 => -1.0,
            9 => f32::INFINITY,
            _ => (input.diagonal() * (i % 16) as f64 * 0.02) as f32,
        })
        .collect();
    let (all, reach) = ((input.diagonal() * 0.1) as f32, fixture.upload(&each)?);
    let at = PointQueries::at(&there);
    let limits = [
        (Limit::None, at),
        (Limit::All(all), at.within(all)),
        (Limit::Each(&each), at.within_each(&reach)),
    ];
    for (limit, queries) in limits {
        let about = |what: &str| format!("{}, {options:?}, {limit:?}: {what}", input.name);
        let mut closest = garbage::<ClosestPoint>(n);
        cpu.closest_points(points, limit, &mut closest)?;
        same(about("closest points"), &closest, &fixture.closest(mesh, &queries)?)?;
        let mut within = garbage::<u8>(n);
        cpu.any_within(points, limit, &mut within)?;
        ensure_eq!(within, fixture.within(mesh, &queries)?, "{}", about("within"));
        for sign in [Sign::Normal, Sign::Parity] {
            let (wanted, _) = fixture.signed(mesh, &queries, sign)?;
            let (mut distances, mut found) = (garbage::<f32>(n), vec![(0.0, NOTHING); n]);
            cpu.signed_distances(points, limit, sign, &mut distances)?;
            cpu.signed_closest_points(points, limit, sign, &mut found)?;
            let (of_found, closest_too): (Vec<f32>, Vec<ClosestPoint>) = found.into_iter().unzip();
            same(about("distances"), &distances, &of_found)?;
            same(about("closest points of distances"), &closest_too, &closest)?;
            for (i, (got, wanted)) in distances.iter().zip(&wanted).enumerate() {
                // The signs of open meshes depend on the hierarchy where faces are equally near.
                let sure = input.solid || sign == Sign::Parity;
                let equal = got.to_bits() == wanted.to_bits();
                let zero = *got == 0.0 || *wanted == 0.0;
                ensure!(
                    equal || (!sure && (zero || got.abs() == wanted.abs())),
                    "{}: {sign:?}, {:?}: {got}, not {wanted}",
                    about("distances"),
                    points[i]
                );
            }
        }
    }
    let mut sides = garbage::<i32>(n);
    cpu.classify(points, &mut sides)?;
    ensure_eq!(sides, fixture.sides(mesh, &at)?, "{}", input.name);
    Ok(())
}

const NOTHING: ClosestPoint =
    ClosestPoint { position: [0.0; 3], distance_squared: 0.0, face: 0, u: 0.0, v: 0.0, feature: 0 };

fn points_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(870);
    let n = if thorough(device) { 2000 } else { 100 };
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let mut points = Around::new(&input).points(&mut rng, n);
        points.extend(invalid_points());
        points.extend_from_slice(&input.mesh.points[..input.mesh.points.len().min(20)]);
        for options in [MeshOptions::default(), MeshOptions::default().topology()] {
            let mesh = fixture.mesh(&input.mesh, options)?;
            let cpu = structures::Mesh::new(&input.mesh, options)?;
            check_points(&fixture, (&input, options), (&mesh, &cpu), &points)?;
        }
    }
    Ok(())
}

/// Compares all queries of rays.
fn check_rays(
    fixture: &Fixture<'_>,
    name: &str,
    (mesh, cpu): (&geom_kernels::mesh::Mesh<'_>, &structures::Mesh),
    rays: &[Ray],
) -> Result<usize, Failure> {
    let (mut nearest, mut any, mut counts) =
        (garbage(rays.len()), garbage(rays.len()), garbage(rays.len()));
    cpu.closest_hits(rays, &mut nearest)?;
    cpu.any_hits(rays, &mut any)?;
    cpu.count_hits_of(rays, &mut counts)?;
    let wanted = fixture.hits(mesh, rays)?;
    let (offsets, all) = cpu.all_hits(rays);
    same(format!("{name}: lists of hits"), &all, &wanted.concat())?;
    ensure_eq!(offsets.last(), Some(&(all.len() as u64)), "{name}");
    ensure_eq!(offsets.len(), rays.len() + 1, "{name}");
    for (i, (ray, wanted)) in rays.iter().zip(&wanted).enumerate() {
        let first = wanted.first().copied().unwrap_or(NO_HIT);
        same(format!("{name}, {ray:?}: first"), &[nearest[i]], &[first])?;
        ensure_eq!(
            (any[i], counts[i]),
            (u8::from(!wanted.is_empty()), wanted.len() as u32),
            "{name}, {ray:?}"
        );
        let mut hits = Vec::new();
        ensure!(!cpu.for_each_hit(ray, |hit| {
            hits.push(hit);
            false
        }));
        hits.sort_by(|a, b| a.t.total_cmp(&b.t).then(a.face.cmp(&b.face)));
        same(format!("{name}, {ray:?}: all"), &hits, wanted)?;
        let mut calls = 0;
        let stopped = cpu.for_each_hit(ray, |_| {
            calls += 1;
            calls == 2
        });
        ensure_eq!((stopped, calls), (wanted.len() >= 2, wanted.len().min(2)), "{name}, {ray:?}");
    }
    Ok(wanted.iter().map(Vec::len).sum())
}

/// Rays that hit nothing because of their numbers, and others whose t are not usual.
fn unusual(rays: &[Ray]) -> Vec<Ray> {
    let odd = [f32::NAN, f32::INFINITY, -1.0, 0.0, -0.0, 0.5, 1e-40, f32::MAX];
    let ranges = odd.into_iter().flat_map(|t_min| odd.map(|t_max| (t_min, t_max)));
    let mut all: Vec<Ray> = rays
        .iter()
        .cycle()
        .zip(ranges)
        .map(|(ray, (t_min, t_max))| ray.between(t_min, t_max))
        .collect();
    for (i, ray) in rays.iter().enumerate().take(60) {
        let mut bad = *ray;
        let value = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 2f32.powi(61), 1e-45][i % 5];
        if i % 2 == 0 {
            bad.origin[i % 3] = value;
        } else {
            bad.direction[i % 3] = value;
        }
        all.push(bad);
        // Where t is so small that it is rounded to a few bits, the device's first hit may not be the nearest one.
        all.push(Ray { direction: ray.direction.map(|x| x * [1e-38, 1e5, 0.0][i % 3]), ..*ray });
    }
    all
}

fn rays_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(871);
    let (n, mut hits) = (if thorough(device) { 2000 } else { 150 }, 0);
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let mut rays = rays(&mut rng, &input, n);
        rays.extend(unusual(&rays));
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let cpu = structures::Mesh::new(&input.mesh, MeshOptions::default())?;
        hits += check_rays(&fixture, &input.name, (&mesh, &cpu), &rays)?;
    }
    ensure!(hits > 3000, "{hits} hits");
    Ok(())
}

fn refits_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(872);
    let options = MeshOptions::default().topology();
    for input in inputs(&mut rng, 0)?.into_iter().step_by(2) {
        let points = Around::new(&input).points(&mut rng, 50);
        let mut mesh = fixture.mesh(&input.mesh, options)?;
        let mut cpu = structures::Mesh::new(&input.mesh, options)?;
        let mut bent = Input::new(&input.name, input.mesh.clone());
        bent.mesh.points = displaced(&mut rng, &input.mesh, (input.diagonal() * 0.2) as f32);
        // A face whose corner is no longer valid is not found.
        if let Some(point) = bent.mesh.points.first_mut() {
            point[1] = f32::NAN;
        }
        mesh.refit_to(&fixture.stream, fixture.upload(&bent.mesh.points)?)?;
        cpu.refit_to(&bent.mesh.points)?;
        check_points(&fixture, (&bent, options), (&mesh, &cpu), &points)?;
        check_rays(&fixture, &input.name, (&mesh, &cpu), &rays(&mut rng, &input, 50))?;
        let normals =
            mesh.vertex_normals().map(|normals| normals.to_vec(&fixture.stream)).transpose()?;
        same(&input.name, cpu.vertex_normals().unwrap_or_default(), &normals.unwrap_or_default())?;
        let neighbors =
            mesh.neighbors().map(|neighbors| neighbors.to_vec(&fixture.stream)).transpose()?;
        ensure_eq!(cpu.neighbors().map(<[u32]>::to_vec), neighbors, "{}", input.name);
        mesh.refit_to(&fixture.stream, fixture.upload(&input.mesh.points)?)?;
        cpu.refit_to(&input.mesh.points)?;
        check_points(&fixture, (&input, options), (&mesh, &cpu), &points)?;
    }
    Ok(())
}

/// Meshes and queries of a few elements, and faces with an index out of range.
fn sizes_around_a_block(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(873);
    let options = MeshOptions::default().skip_validation();
    for faces in [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65] {
        let mut host = soup(&mut rng, faces, 0.5);
        let n = host.points.len() as u32;
        host.faces.extend([[0, 1, n], [u32::MAX, 0, 1]]);
        let mesh = fixture.mesh(&host, options)?;
        let cpu = structures::Mesh::new(&host, options)?;
        let input = Input::new(&format!("soup of {faces}"), host);
        for n in [0, 1, 31, 32, 33, 64, 65] {
            let points = Around::new(&input).points(&mut rng, n);
            check_points(&fixture, (&input, options), (&mesh, &cpu), &points)?;
            check_rays(&fixture, &input.name, (&mesh, &cpu), &rays(&mut rng, &input, n))?;
        }
    }
    Ok(())
}

fn overlaps_are_those_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(874);
    let mut found = 0;
    for input in inputs(&mut rng, 0)? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let cpu = structures::Mesh::new(&input.mesh, MeshOptions::default())?;
        let around = Around::new(&input);
        let mut centers = around.points(&mut rng, 40);
        centers.extend(invalid_points());
        let size = |rng: &mut Rng| {
            (input.diagonal() as f32) * [0.0, 0.01, 0.2][rng.below(3)] * rng.float().abs()
        };
        let mut boxes: Vec<Aabb<f32>> = centers
            .iter()
            .map(|lower| Aabb { lower: *lower, upper: lower.map(|x| x + size(&mut rng)) })
            .collect();
        boxes.push(Aabb { lower: [f32::NEG_INFINITY; 3], upper: [f32::INFINITY; 3] });
        boxes.push(Aabb::<f32>::EMPTY);
        let mut radii: Vec<f32> = centers.iter().map(|_| size(&mut rng)).collect();
        for (i, odd) in [f32::NAN, f32::INFINITY, f32::MAX].into_iter().enumerate() {
            radii[i] = odd;
        }
        let (there, centers_there) = (fixture.upload(&boxes)?, fixture.upload(&centers)?);
        let reach = fixture.upload(&radii)?;
        let balls = BvhQueries::spheres(&centers_there, 0.0).within_each(&reach);
        for overlap in [Overlap::Faces, Overlap::Boxes] {
            let all = [
                cpu.overlap_lists(&boxes, overlap),
                cpu.within_lists(&centers, Limit::Each(&radii), overlap)?,
            ];
            for (kind, queries) in [("boxes", BvhQueries::boxes(&there)), ("balls", balls)] {
                let lists = mesh.overlap_lists(&fixture.stream, queries, overlap)?;
                let offsets = lists.offsets.to_vec(&fixture.stream)?;
                let indices = lists.indices.to_vec(&fixture.stream)?;
                let (own_offsets, own_indices) = &all[usize::from(kind == "balls")];
                ensure_eq!(
                    (own_offsets, own_indices),
                    (&offsets, &indices),
                    "{}, {kind}",
                    input.name
                );
                for (i, range) in offsets.windows(2).enumerate() {
                    let mut faces = Vec::new();
                    let each = |face| {
                        faces.push(face);
                        false
                    };
                    let stopped = match kind {
                        "boxes" => cpu.for_each_overlap(&boxes[i], overlap, each),
                        _ => cpu.for_each_within(centers[i], radii[i], overlap, each),
                    };
                    faces.sort_unstable();
                    let about = format!("{}, {overlap:?}, {kind} {i}", input.name);
                    let wanted = indices.get(range[0] as usize..range[1] as usize);
                    ensure_eq!((stopped, Some(&*faces)), (false, wanted), "{about}");
                    found += faces.len();
                }
            }
        }
    }
    ensure!(found > 5000, "{found} faces");
    Ok(())
}

fn values_at_points_have_the_bits_of_the_device(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(875);
    for input in inputs(&mut rng, 0)? {
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let cpu = structures::Mesh::new(&input.mesh, MeshOptions::default().topology())?;
        let faces = input.mesh.faces.len();
        let point = |rng: &mut Rng| FacePoint {
            face: rng.below(faces + 3) as u32,
            u: rng.float(),
            v: rng.float(),
        };
        let points: Vec<FacePoint> = (0..200).map(|_| point(&mut rng)).collect();
        let attributes = displaced(&mut rng, &input.mesh, 1.0);
        let there = fixture.upload(&attributes)?;
        let mut values = [garbage(points.len()), garbage(points.len()), garbage(points.len())];
        cpu.positions_at(&points, &mut values[0])?;
        cpu.normals_at(&points, &mut values[1])?;
        cpu.attributes_at(&points, &attributes, &mut values[2])?;
        let wanted = [
            fixture.positions(&mesh, &points)?,
            fixture.normals(&mesh, &points)?,
            fixture.attributes(&mesh, &points, &there)?,
        ];
        // The bits of a NaN may be any.
        let one_nan = |p: [f32; 3]| p.map(|x| if x.is_nan() { f32::NAN } else { x });
        for (got, wanted) in values.into_iter().zip(wanted) {
            let [got, wanted] =
                [got, wanted].map(|all| all.into_iter().map(one_nan).collect::<Vec<_>>());
            same(&input.name, &got, &wanted)?;
        }
        let normals = cpu.vertex_normals().map(<[[f32; 3]]>::to_vec).unwrap_or_default();
        for p in &points {
            ensure_eq!(
                format!("{:?}", cpu.smooth_normal(*p)),
                format!("{:?}", cpu.attribute_at(&normals, *p))
            );
        }
    }
    Ok(())
}

fn wrong_lengths_and_indices_are_refused() -> TestResult {
    let cube = shapes::cube(2.0)?;
    let mut cpu = structures::Mesh::new(&cube, MeshOptions::default())?;
    let (points, mut few) = ([[0.0; 3]; 3], [NOTHING; 2]);
    test_harness::ensure_refused_for(
        cpu.closest_points(&points, Limit::None, &mut few),
        "closest points",
    )?;
    let each = [1.0; 2];
    let mut enough = [NOTHING; 3];
    let refused = cpu.closest_points(&points, Limit::Each(&each), &mut enough);
    test_harness::ensure_refused_for(refused, "2 distances for 3 points")?;
    let refused = cpu.signed_distances(&points, Limit::None, Sign::Winding, &mut [0.0; 3]);
    test_harness::ensure_refused_for(refused, "winding")?;
    test_harness::ensure_refused_for(cpu.refit_to(&points), "3 points for a mesh of 8")?;
    ensure_eq!(bits(cpu.points()), bits(&cube.points));
    let bad = TriangleMesh { faces: vec![[0, 1, 2], [0, 8, 1]], ..cube };
    let refused = structures::Mesh::new(&bad, MeshOptions::default());
    test_harness::ensure_refused_for(refused, "face 1: vertex index 8, but there are 8 points")?;
    Ok(())
}
