//! Very many points and rays against the oracle: on a GPU ten million pairs of a query and a mesh, half of
//! them of meshes of more than 10,000 faces.

use geom_kernels::bvh::BuildMode;
use geom_kernels::mesh::{ClosestPoint, Mesh, MeshOptions, PointQueries, Ray, RayHit, Sign};
use geom_oracle::Nearest;
use rayon::prelude::*;

use super::closest::check;
use super::inputs::{Around, Input, inputs};
use super::queries::Fixture;
use super::ray_inputs::{rays, to_oracle};
use super::rays::{TOLERANCE, check_hit};
use super::signs::{is_of_side, side};
use super::thorough;
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases!["mesh", device(ten_million_pairs),]
}

/// How many pairs there are on a GPU, and elsewhere.
const PAIRS: [usize; 2] = [10_000_000, 20_000];
/// How many are asked at once.
const CHUNK: usize = 1 << 18;
/// Of so many points, one ray is asked.
const POINTS_PER_RAY: usize = 10;

/// What came of an input.
#[derive(Default)]
struct Tally {
    points: usize,
    rays: usize,
    /// Rays of which the oracle is not sure.
    unsure: usize,
    failures: Vec<String>,
    /// The greatest error of a distance, in eps (|q| + diagonal).
    worst: f64,
}

fn ten_million_pairs(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let long = thorough(device);
    let mut failed = 0;
    let mut total = 0;
    for (level, meshes) in levels(device, long)?.into_iter().enumerate() {
        let half = PAIRS[usize::from(!long)] / 2;
        // So that points and rays are `half` together.
        let each = half.div_ceil(meshes.len()) * POINTS_PER_RAY / (POINTS_PER_RAY + 1) + 1;
        for (k, input) in meshes.iter().enumerate() {
            let mut rng = device.rng(900 + (level * 100 + k) as u64);
            let tally = of_input(&fixture, &mut rng, input, each)?;
            println!(
                "{}, {} faces: {} points, {} rays ({} unsure), {} failures, worst {:.3} eps (|q| + diagonal)",
                input.name,
                input.mesh.faces.len(),
                tally.points,
                tally.rays,
                tally.unsure,
                tally.failures.len(),
                tally.worst,
            );
            tally.failures.iter().take(20).for_each(|failure| println!("  {failure}"));
            failed += tally.failures.len();
            total += tally.points + tally.rays;
        }
    }
    println!("{total} pairs, {failed} failures");
    ensure!(total >= PAIRS[usize::from(!long)], "{total} pairs");
    ensure!(failed == 0, "{failed} failures");
    Ok(())
}

/// Small meshes, and large ones, which have more than 10,000 faces where there is time.
fn levels(device: &TestDevice, long: bool) -> Result<[Vec<Input>; 2], Failure> {
    let mut rng = device.rng(899);
    let small = inputs(&mut rng, 0)?;
    let mut large = inputs(&mut rng, if long { 3 } else { 1 })?;
    let least = if long { 10_000 } else { 500 };
    large.retain(|input| input.mesh.faces.len() > least);
    ensure!(large.len() > 15, "{}", large.len());
    Ok([small, large])
}

fn of_input(
    fixture: &Fixture<'_>,
    rng: &mut Rng,
    input: &Input,
    count: usize,
) -> Result<Tally, Failure> {
    let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
    let around = Around::new(input);
    let mut tally = Tally::default();
    // Points come from seeds of their own, so that all cores make them.
    for first in (0..count).step_by(CHUNK) {
        let n = CHUNK.min(count - first);
        let builder = if first % (2 * CHUNK) == 0 { BuildMode::Quality } else { BuildMode::Fast };
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default().build_mode(builder))?;
        let seeds: Vec<u64> = (0..n.div_ceil(1024)).map(|_| rng.next()).collect();
        let parts = seeds
            .par_iter()
            .enumerate()
            .map(|(k, seed)| around.points(&mut Rng::new(*seed), 1024.min(n - 1024 * k)));
        let points: Vec<[f32; 3]> = parts.collect::<Vec<_>>().concat();
        of_points(fixture, input, &oracle, (&mesh, &points), &mut tally)?;
        let rays = rays(rng, input, n.div_ceil(POINTS_PER_RAY));
        of_rays(fixture, &oracle, (&mesh, &rays), &mut tally)?;
    }
    Ok(tally)
}

fn of_points(
    fixture: &Fixture<'_>,
    input: &Input,
    oracle: &geom_oracle::Mesh,
    (mesh, points): (&Mesh<'_>, &[[f32; 3]]),
    tally: &mut Tally,
) -> TestResult {
    let there = fixture.upload(points)?;
    let queries = PointQueries::at(&there);
    let mut out = fixture.room::<ClosestPoint>(points.len())?;
    let mut distances = fixture.room::<f32>(points.len())?;
    let stream = &fixture.stream;
    mesh.signed_closest_points(stream, &queries, Sign::Normal, &mut distances, &mut out)?;
    let (found, distances) = (out.to_vec(stream)?, distances.to_vec(stream)?);
    let checked: Vec<Result<f64, String>> = (points.par_iter(), &found, &distances)
        .into_par_iter()
        .map(|(q, found, distance)| {
            let wanted = oracle.closest(q.map(f64::from));
            let fail = |what: String| format!("{q:?}, {found:?}, {wanted:?}: {what}");
            let error =
                check(input, oracle, *q, (found, wanted)).map_err(|e| fail(e.to_string()))?;
            if input.solid {
                let side = side(input, oracle, *q, wanted.map_or(1.0, |wanted| wanted.distance));
                if !is_of_side(*distance, side) {
                    return Err(fail(format!("{distance} on side {side}")));
                }
            }
            Ok(error)
        })
        .collect();
    tally.points += points.len();
    for checked in checked {
        match checked {
            Ok(error) => tally.worst = tally.worst.max(error),
            Err(failure) => tally.failures.push(failure),
        }
    }
    Ok(())
}

fn of_rays(
    fixture: &Fixture<'_>,
    oracle: &geom_oracle::Mesh,
    (mesh, rays): (&Mesh<'_>, &[Ray]),
    tally: &mut Tally,
) -> TestResult {
    let there = fixture.upload(rays)?;
    let mut out = fixture.room::<RayHit>(rays.len())?;
    mesh.closest_hits(&fixture.stream, &there, &mut out)?;
    let found = out.to_vec(&fixture.stream)?;
    let checked: Vec<Result<bool, String>> = (rays, &found)
        .into_par_iter()
        .map(|(ray, found)| {
            let wanted = oracle.nearest_certain(&to_oracle(ray), TOLERANCE);
            let fail = |what: &str| format!("{ray:?}, {found:?}, {wanted:?}: {what}");
            match wanted {
                Nearest::Hit(hit, _) if hit.face != found.face => Err(fail("another face")),
                Nearest::Hit(hit, error) => check_hit(oracle, ray, found, (hit, error))
                    .map(|()| true)
                    .map_err(|e| fail(&e.to_string())),
                Nearest::Miss if found.face != u32::MAX => Err(fail("a hit")),
                Nearest::Miss => Ok(true),
                Nearest::Uncertain => Ok(false),
            }
        })
        .collect();
    tally.rays += rays.len();
    for checked in checked {
        match checked {
            Ok(sure) => tally.unsure += usize::from(!sure),
            Err(failure) => tally.failures.push(failure),
        }
    }
    Ok(())
}
