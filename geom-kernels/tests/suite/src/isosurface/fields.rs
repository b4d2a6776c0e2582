//! Dense fields of all kinds and sizes, bit for bit, and without the table.

use geom_kernels::isosurface::Map;

use super::inputs::{Values, broken, extremes, gyroid, noise, sphere, steps};
use super::oracle::Oracle;
use super::{Fixture, thorough};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "isosurface",
        device(surfaces_are_the_oracles),
        device(fields_of_any_size),
        device(fields_of_many_tiles),
        device(numbers_that_are_not_finite_make_holes),
        device(values_beyond_all_numbers),
        device(any_affine_map),
        host(the_oracle_finds_wrong_faces),
    ]
}

/// The same bits as the oracle's; and no holes, whatever the table says. How many faces there are.
pub(super) fn check(
    fixture: &Fixture,
    name: &str,
    values: &Values,
    map: Map,
    iso: f32,
) -> Result<usize, Failure> {
    let fail = |e: Failure| Failure::new(format!("{name}, {:?}: {e}", values.dims));
    let found = fixture.extract(values, map, iso)?;
    let oracle = Oracle::new(values, iso);
    let wanted = oracle.mesh(&map);
    let flat = |points: &[[f32; 3]]| -> Vec<u32> {
        points.iter().flatten().map(|x| x.to_bits()).collect()
    };
    first_difference(&flat(&found.mesh.points), &flat(&wanted.points)).map_err(fail)?;
    first_difference(found.mesh.faces.as_flattened(), wanted.faces.as_flattened()).map_err(fail)?;
    let faces = found.mesh.faces.len();
    ensure_eq!(
        (found.counts.vertices as usize, found.counts.faces as usize),
        (oracle.edges.len(), faces)
    );
    ensure!(found.counts.is_complete());
    let has_cells = values.dims.iter().all(|n| *n > 1);
    let broken = has_cells && values.data.iter().any(|x| !x.is_finite());
    ensure_eq!(found.counts.not_finite(), broken, "{name}");
    ensure_eq!(found.normals.len(), oracle.edges.len());
    if super::oracle::determinant(&map.rows()) > 0.0 {
        oracle.check_faces(&found.mesh.faces).map_err(fail)?;
    }
    Ok(faces)
}

fn surfaces_are_the_oracles(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(900);
    let map = Map::scaled([0.1, 0.2, 0.05], [-1.0, 0.25, 3.0])?;
    let dims = [9, 8, 34];
    for _ in 0..3 {
        ensure!(check(&fixture, "noise", &noise(&mut rng, dims), map, 0.1)? > 1000);
        ensure!(check(&fixture, "steps", &steps(&mut rng, dims), map, 0.0)? > 1000);
        ensure!(check(&fixture, "extremes", &extremes(&mut rng, dims), map, 0.0)? > 1000);
        ensure!(check(&fixture, "extremes", &extremes(&mut rng, dims), map, 1e-42)? > 1000);
        ensure!(check(&fixture, "extremes", &extremes(&mut rng, dims), map, f32::MAX)? > 1000);
    }
    ensure!(check(&fixture, "gyroid", &gyroid(dims, 7.5), map, 0.0)? > 300);
    let ball = sphere(dims, [4.0, 4.0, 16.0], 3.3);
    ensure!(check(&fixture, "sphere", &ball, map, 0.0)? > 100);
    Ok(())
}

fn fields_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(901);
    let map = Map::default();
    for n in [0, 1, 2, 3, 31, 32, 33, 64, 65] {
        for axis in 0..3 {
            let mut dims = [3, 4, 3];
            dims[axis] = n;
            let faces = check(&fixture, "noise", &noise(&mut rng, dims), map, 0.0)?;
            ensure_eq!(faces > 0, n > 1, "{dims:?}");
        }
    }
    for dims in [[1, 1, 1], [0, 0, 0], [0, usize::MAX, 7], [1, 1, 40], [33, 1, 33]] {
        if dims.contains(&0) || dims.contains(&1) {
            let values = noise(&mut rng, if dims.contains(&0) { [0; 3] } else { dims });
            check(&fixture, "nothing", &Values { dims, ..values }, map, 0.0)?;
        }
    }
    for dims in [[2, 3, 4], [5, 4, 3], [3, 31, 33], [31, 3, 32], [32, 33, 3]] {
        ensure!(check(&fixture, "noise", &noise(&mut rng, dims), map, 0.0)? > 0, "{dims:?}");
    }
    Ok(())
}

/// Tiles with nothing in them, between others; a tile is 8 planes of 32 rows here.
fn fields_of_many_tiles(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(902);
    let map = Map::default();
    let ball = sphere([40, 32, 40], [30.0, 16.0, 25.0], 8.0);
    ensure!(check(&fixture, "sphere", &ball, map, 0.0)? > 1000);
    let mut values = noise(&mut rng, [45, 32, 33]);
    for (i, value) in values.data.iter_mut().enumerate() {
        // Whole planes without a surface.
        if i / (32 * 33) % 20 > 3 {
            *value = value.abs() + 0.5;
        }
    }
    ensure!(check(&fixture, "noise in planes", &values, map, 0.0)? > 10_000);
    if thorough(device) {
        let dims = [131, 140, 129];
        let ball = sphere(dims, [65.0, 70.0, 64.0], 55.0);
        ensure!(check(&fixture, "a large sphere", &ball, map, 0.0)? > 50_000);
        let values = noise(&mut rng, [70, 65, 97]);
        ensure!(check(&fixture, "much noise", &values, map, 0.0)? > 500_000);
    }
    Ok(())
}

fn numbers_that_are_not_finite_make_holes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(903);
    let map = Map::default();
    for one_in in [3, 20, 500] {
        for dims in [[7, 6, 33], [4, 5, 64], [12, 3, 31]] {
            check(&fixture, "broken", &broken(&mut rng, dims, one_in), map, 0.0)?;
        }
    }
    // The last number of all alone.
    let mut values = noise(&mut rng, [3, 4, 35]);
    if let Some(last) = values.data.last_mut() {
        *last = f32::NEG_INFINITY;
    }
    ensure!(check(&fixture, "the last", &values, map, 0.0)? > 0);
    let all = Values::from_fn([4, 4, 4], |_| f32::NAN);
    ensure_eq!(check(&fixture, "all", &all, map, 0.0)?, 0);
    Ok(())
}

fn values_beyond_all_numbers(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(904);
    let map = Map::default();
    let values = noise(&mut rng, [8, 9, 40]);
    for iso in [1.5, -1.5, f32::MAX, -f32::MAX] {
        ensure_eq!(check(&fixture, "beyond", &values, map, iso)?, 0);
    }
    // What equals the value is outside.
    let flat = Values::from_fn([4, 4, 4], |at| if at == [1, 2, 1] { -1.0 } else { 0.0 });
    ensure_eq!(check(&fixture, "a dent", &flat, map, 0.0)?, 8);
    ensure_eq!(check(&fixture, "flat", &flat, map, -1.0)?, 0);
    Ok(())
}

fn any_affine_map(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(905);
    let values = noise(&mut rng, [6, 7, 33]);
    let mut mirrored = 0;
    for _ in 0..6 {
        let rows = [[0; 4]; 3].map(|row| row.map(|_: i32| f64::from(rng.float())));
        mirrored += usize::from(super::oracle::determinant(&rows) < 0.0);
        check(&fixture, "a map", &values, Map::from_rows(rows)?, 0.0)?;
    }
    ensure!(mirrored > 0 && mirrored < 6);
    let singular = [[1.0, 2.0, 3.0, 0.0], [2.0, 4.0, 6.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    ensure!(Map::from_rows(singular).is_err());
    ensure!(Map::scaled([1.0, 0.0, 1.0], [0.0; 3]).is_err());
    ensure!(Map::scaled([1.0; 3], [f64::NAN, 0.0, 0.0]).is_err());
    ensure!(Map::scaled([1e200; 3], [0.0; 3]).is_err());
    Ok(())
}

/// What `check_faces` is for: one face missing, twice, turned around, or of other vertices.
fn the_oracle_finds_wrong_faces() -> TestResult {
    let values = noise(&mut Rng::new(906), [5, 6, 7]);
    let oracle = Oracle::new(&values, 0.0);
    let right = oracle.mesh(&Map::default()).faces;
    oracle.check_faces(&right)?;
    for i in 0..right.len() {
        let mut faces = right.clone();
        faces.remove(i);
        ensure!(oracle.check_faces(&faces).is_err(), "without face {i}");
        let mut faces = right.clone();
        faces.push(right[i]);
        ensure!(oracle.check_faces(&faces).is_err(), "face {i} twice");
        let mut faces = right.clone();
        faces[i].swap(0, 1);
        ensure!(oracle.check_faces(&faces).is_err(), "face {i} turned around");
        let mut faces = right.clone();
        faces[i][2] = (faces[i][2] + 1) % oracle.edges.len() as u32;
        ensure!(oracle.check_faces(&faces).is_err(), "face {i} with another vertex");
    }
    Ok(())
}
