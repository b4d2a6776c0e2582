//! How far queries look.

use geom_kernels::mesh::{MeshOptions, NO_FACE, PointQueries, Sign};

use super::brute::Brute;
use super::inputs::{Around, inputs};
use super::queries::{Fixture, same};
use super::thorough;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["mesh", device(limits_are_those_of_all_faces), device(limits_at_their_ends),]
}

fn limits_are_those_of_all_faces(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let brute = Brute::new(&fixture)?;
    let mut rng = device.rng(810);
    let (mut found, mut not_found) = (0, 0);
    for input in inputs(&mut rng, u32::from(thorough(device)))? {
        let fail = |e: Failure| Failure::new(format!("{}: {e}", input.name));
        let mesh = fixture.mesh(&input.mesh, MeshOptions::default())?;
        let oracle = geom_oracle::Mesh::new(&input.mesh.points, &input.mesh.faces);
        let points =
            Around::new(&input).points(&mut rng, if thorough(device) { 2000 } else { 120 });
        let least: Vec<f64> = oracle
            .closest_of_all(&points)
            .into_iter()
            .map(|closest| closest.map_or(1.0, |closest| closest.distance))
            .collect();
        // Some of just the distance, or next to it.
        let limits: Vec<f32> = least
            .iter()
            .map(|d| match rng.below(8) {
                0 => *d as f32,
                1 => (*d as f32).next_up(),
                2 => (*d as f32).next_down().max(0.0),
                3 => (*d * 0.99) as f32,
                4 => (*d * 1.01) as f32,
                5 => (*d * 2.0) as f32,
                6 => 0.0,
                _ => [f32::INFINITY, f32::MAX, -1.0, -0.0, f32::NAN, 1e-30, 1e30][rng.below(7)],
            })
            .collect();
        let wanted = brute.closest(&fixture, &mesh, &points, &limits)?;
        let (points_there, limits_there) = (fixture.upload(&points)?, fixture.upload(&limits)?);
        let queries = PointQueries::at(&points_there).within_each(&limits_there);
        same("limited", &fixture.closest(&mesh, &queries)?, &wanted).map_err(fail)?;
        let within = fixture.within(&mesh, &queries)?;
        for sign in [Sign::Normal, Sign::Parity] {
            let (distances, closest) = fixture.signed(&mesh, &queries, sign)?;
            same("signed", &closest, &wanted).map_err(fail)?;
            for (distance, closest) in distances.iter().zip(&closest) {
                // On the mesh it is 0, also where the position is rounded.
                let size = closest.distance_squared.sqrt();
                ensure!(distance.abs() == size || *distance == 0.0, "{distance} {closest:?}");
                ensure!(closest.face != NO_FACE || *distance == f32::INFINITY);
            }
        }
        for (i, wanted) in wanted.iter().enumerate() {
            let (q, limit, least) = (points[i], limits[i], least[i]);
            ensure_eq!(within[i] == 1, wanted.face != NO_FACE, "{}: {q:?} {limit}", input.name);
            ensure!(within[i] < 2);
            let tolerance = 4.0 * input.unit(q) + input.floor;
            let wide = f64::from(limit);
            if limit >= 0.0 && wide > least + tolerance && oracle.skipped() < input.mesh.faces.len()
            {
                ensure_eq!(within[i], 1, "{}: {q:?} {limit} {least}", input.name);
                found += 1;
            } else if limit.is_nan() || limit < 0.0 || wide < least - tolerance {
                ensure_eq!(within[i], 0, "{}: {q:?} {limit} {least}", input.name);
                not_found += 1;
            }
        }
        // One limit for all is the same limit for each.
        let one = (input.diagonal() * 0.1) as f32;
        let wanted = brute.closest(&fixture, &mesh, &points, &vec![one; points.len()])?;
        let queries = PointQueries::at(&points_there).within_each(&limits_there).within(one);
        same("one limit", &fixture.closest(&mesh, &queries)?, &wanted).map_err(fail)?;
    }
    ensure!(found > 500 && not_found > 500, "{found} {not_found}");
    Ok(())
}

/// Distances that are numbers without rounding: just the limit is within it.
fn limits_at_their_ends(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mesh = fixture.mesh(&geom_kernels::mesh::shapes::cube(2.0)?, MeshOptions::default())?;
    let asked: [([f32; 3], f32, bool); 12] = [
        ([3.0, 0.25, 0.5], 2.0, true),
        ([3.0, 0.25, 0.5], 2f32.next_down(), false),
        ([4.0, 5.0, 0.0], 5.0, true),
        ([4.0, 5.0, 0.0], 5f32.next_down(), false),
        ([0.0, 0.0, 0.0], 1.0, true),
        ([0.0, 0.0, 0.0], 1f32.next_down(), false),
        ([1.0, 0.5, 0.25], 0.0, true),
        ([1.0, 1.0, 1.0], -0.0, true),
        ([1f32.next_up(), 0.5, 0.25], 0.0, false),
        ([1.0, 0.5, 0.25], -f32::MIN_POSITIVE, false),
        ([1.0, 0.5, 0.25], f32::NAN, false),
        ([9.0, 9.0, 9.0], f32::INFINITY, true),
    ];
    let points: Vec<_> = asked.iter().map(|(q, ..)| *q).collect();
    let limits: Vec<_> = asked.iter().map(|(_, limit, _)| *limit).collect();
    let (points, limits) = (fixture.upload(&points)?, fixture.upload(&limits)?);
    let queries = PointQueries::at(&points).within_each(&limits);
    let (found, within) = (fixture.closest(&mesh, &queries)?, fixture.within(&mesh, &queries)?);
    for ((q, limit, wanted), (found, within)) in asked.iter().zip(found.iter().zip(within)) {
        ensure_eq!(found.face != NO_FACE, *wanted, "{q:?} {limit}");
        ensure_eq!(within == 1, *wanted, "{q:?} {limit}");
    }
    for limit in [f32::NAN, -1.0, f32::NEG_INFINITY] {
        let none = fixture.within(&mesh, &PointQueries::at(&points).within(limit))?;
        ensure!(none.iter().all(|within| *within == 0));
    }
    Ok(())
}
