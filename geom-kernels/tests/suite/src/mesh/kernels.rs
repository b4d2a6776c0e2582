//! Meshes in kernels of a user's own, whatever they are compiled with.

use cuda_safe::{LaunchConfig, Module};
use geom_kernels::Aabb;
use geom_kernels::bvh::BvhQueries;
use geom_kernels::mesh::{
    ClosestPoint, FacePoint, Mesh, MeshOptions, Overlap, PointQueries, Ray, RayHit, Sign,
};

use super::inputs::{Around, inputs, invalid_points};
use super::overlaps;
use super::queries::{Fixture, bits};
use super::ray_inputs::rays;
use super::thorough;
use crate::flags::{flags, module};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases!["mesh", device(kernels_find_what_batches_find_under_all_flags),]
}

pub(crate) const SOURCE: &str = include_str!("../../kernels/mesh_queries.cu");

/// What is asked.
struct Asked {
    points: Vec<[f32; 3]>,
    rays: Vec<Ray>,
    places: Vec<FacePoint>,
    /// Around each of the points, and a radius.
    boxes: Vec<Aabb<f32>>,
    radii: Vec<f32>,
}

/// The answers of the kernels, as words.
fn of_kernels(
    fixture: &Fixture<'_>,
    module: &Module,
    mesh: &Mesh<'_>,
    asked: &Asked,
) -> Result<Vec<u32>, Failure> {
    let (stream, device) = (&fixture.stream, fixture.device);
    let n = asked.points.len();
    let points = fixture.upload(&asked.points)?;
    let mut closest = fixture.room::<ClosestPoint>(n)?;
    let mut distances = fixture.room::<f32>(n)?;
    let (mut sides, mut within) = (fixture.room::<i32>(n)?, fixture.room::<u32>(n)?);
    let kernel = module.kernel("ask_points")?;
    let args =
        (mesh.view(), &points, n as u32, &mut closest, &mut distances, &mut sides, &mut within);
    // SAFETY: reads n points, and writes n of each answer.
    unsafe { device.launch(&kernel, stream, LaunchConfig::cover(n, 64), args)? };

    let m = asked.rays.len();
    let rays = fixture.upload(&asked.rays)?;
    let mut nearest = fixture.room::<RayHit>(m)?;
    let mut sums = fixture.room::<u32>(m)?;
    let kernel = module.kernel("ask_rays")?;
    let args = (mesh.view(), &rays, m as u32, &mut nearest, &mut sums);
    // SAFETY: reads m rays, and writes m of each answer.
    unsafe { device.launch(&kernel, stream, LaunchConfig::cover(m, 64), args)? };

    let k = asked.places.len();
    let places = fixture.upload(&asked.places)?;
    let (mut positions, mut normals) = (fixture.room::<[f32; 3]>(k)?, fixture.room::<[f32; 3]>(k)?);
    let kernel = module.kernel("ask_faces")?;
    let args = (mesh.view(), &places, k as u32, &mut positions, &mut normals);
    // SAFETY: reads k places, and writes k of each answer.
    unsafe { device.launch(&kernel, stream, LaunchConfig::cover(k, 64), args)? };

    let (boxes, radii) = (fixture.upload(&asked.boxes)?, fixture.upload(&asked.radii)?);
    let (mut of_overlaps, mut stopped) = (fixture.room::<u32>(4 * n)?, fixture.room::<u32>(n)?);
    let kernel = module.kernel("ask_overlaps")?;
    let args = (mesh.view(), &boxes, &points, &radii, n as u32, &mut of_overlaps, &mut stopped);
    // SAFETY: reads n boxes, points and radii, and writes four answers and one for each.
    unsafe { device.launch(&kernel, stream, LaunchConfig::cover(n, 64), args)? };

    let mut all = bits(&closest.to_vec(stream)?).to_vec();
    all.extend(bits(&distances.to_vec(stream)?));
    all.extend(bits(&sides.to_vec(stream)?));
    all.extend(within.to_vec(stream)?);
    all.extend(of_overlaps.to_vec(stream)?);
    all.extend(stopped.to_vec(stream)?);
    all.extend(bits(&nearest.to_vec(stream)?));
    all.extend(sums.to_vec(stream)?);
    all.extend(bits(&positions.to_vec(stream)?));
    all.extend(bits(&normals.to_vec(stream)?));
    Ok(all)
}

/// The same of the batch calls.
fn of_batches(fixture: &Fixture<'_>, mesh: &Mesh<'_>, asked: &Asked) -> Result<Vec<u32>, Failure> {
    let points = fixture.upload(&asked.points)?;
    let queries = PointQueries::at(&points);
    let mut all = bits(&fixture.closest(mesh, &queries)?).to_vec();
    all.extend(bits(&fixture.signed(mesh, &queries, Sign::Normal)?.0));
    all.extend(bits(&fixture.sides(mesh, &queries)?));
    all.extend(fixture.within(mesh, &queries.within(0.25))?.into_iter().map(u32::from));
    let (boxes, radii) = (fixture.upload(&asked.boxes)?, fixture.upload(&asked.radii)?);
    let balls = BvhQueries::spheres(&points, 0.0).within_each(&radii);
    let mut each = Vec::new();
    for queries in [BvhQueries::boxes(&boxes), balls] {
        for of in [Overlap::Faces, Overlap::Boxes] {
            each.push(overlaps::lists(fixture, mesh, queries, of)?);
        }
    }
    let sum = |list: &Vec<u32>| list.iter().fold(0u32, |sum, face| sum.wrapping_add(face + 1));
    for i in 0..asked.points.len() {
        all.extend(each.iter().map(|lists| sum(&lists[i])));
    }
    all.extend(each[0].iter().map(|list| match list.len() {
        n @ 0..2 => n as u32,
        _ => 102,
    }));
    let lists = fixture.hits(mesh, &asked.rays)?;
    for list in &lists {
        all.extend(bits(&[list.first().copied().unwrap_or(super::queries::NO_HIT)]));
    }
    all.extend(
        lists.iter().map(|list| {
            list.iter().fold(0u32, |sum, hit| sum.wrapping_add(hit.face.wrapping_add(1)))
        }),
    );
    all.extend(bits(&fixture.positions(mesh, &asked.places)?));
    all.extend(bits(&fixture.normals(mesh, &asked.places)?));
    Ok(all)
}

fn kernels_find_what_batches_find_under_all_flags(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(880);
    let all: Vec<(_, Module)> = flags()
        .into_iter()
        .map(|(flag, options)| Ok((flag, module(device, SOURCE, options)?)))
        .collect::<Result<_, Failure>>()?;
    let step = if thorough(device) { 1 } else { 3 };
    for (k, input) in inputs(&mut rng, 0)?.into_iter().step_by(step).enumerate() {
        let mut points = Around::new(&input).points(&mut rng, 80);
        points.extend(&invalid_points()[..3]);
        let size = 0.1 * input.diagonal() as f32;
        let boxed = |p: &[f32; 3]| Aabb { lower: p.map(|x| x - size), upper: p.map(|x| x + size) };
        let asked = Asked {
            boxes: points.iter().map(boxed).collect(),
            radii: points.iter().map(|_| size * rng.float()).collect(),
            points,
            rays: rays(&mut rng, &input, 80),
            places: (0..80)
                .map(|_| {
                    let face = rng.below(input.mesh.faces.len() + 2) as u32;
                    FacePoint { face, u: rng.float(), v: rng.float() }
                })
                .collect(),
        };
        let options = MeshOptions::default();
        let options = if k % 2 == 0 { options } else { options.topology() };
        let mesh = fixture.mesh(&input.mesh, options)?;
        let wanted = of_batches(&fixture, &mesh, &asked)?;
        for (flag, module) in &all {
            let got = of_kernels(&fixture, module, &mesh, &asked)?;
            first_difference(&got, &wanted)
                .map_err(|e| Failure::new(format!("{}, {flag}: {e}", input.name)))?;
        }
    }
    Ok(())
}
