//! What is refused: before the driver is asked, with words that name it.

use cuda_safe::{DeviceBuffer, Result};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};
use geom_kernels::{MAX_POINTS, Points};

use super::Fixture;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(refuses_options),
        device(refuses_builds),
        device(refuses_queries),
        device(refuses_points_that_do_not_lie_there),
    ]
}

/// The call was refused for a reason that names `part`.
#[track_caller]
fn refused<T>(result: Result<T>, part: &str) -> TestResult {
    let Err(error) = result else { return Err(Failure::new(format!("no error about {part:?}"))) };
    let text = error.to_string();
    if error.code().is_none() && text.contains(part) {
        return Ok(());
    }
    Err(Failure::new(format!("not about {part:?}: {text}")))
}

fn refuses_options(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let new = |options| HashGrid::<f32>::new(&fixture.stream, &fixture.geometry, options);
    let options = GridOptions::default();
    refused(new(options.groups(0)), "0 groups")?;
    refused(new(options.groups((1 << 24) + 1)), "16777217 groups")?;
    let (zero, one) = ([0.0; 3], [1.0; 3]);
    for wrong in [f32::NAN, f32::INFINITY, -1.0] {
        refused(new(options.bounds(zero, [1.0, wrong, 1.0])), "not a box")?;
        refused(new(options.periodic(zero, [1.0, wrong, 1.0])), "not a box")?;
    }
    // The extent is not a number of the type.
    refused(new(options.bounds([f32::MIN; 3], [f32::MAX; 3])), "not a box")?;
    // Without volume there is nothing to repeat.
    refused(new(options.periodic(zero, [1.0, 0.0, 1.0])), "not a box")?;
    new(options.periodic_in([true, false, true], zero, [1.0, 0.0, 1.0]))?;
    new(options.bounds(zero, zero))?;
    // Bounds that are set again are not periodic any more.
    new(options.periodic(zero, one).bounds(zero, zero))?;
    let (low, high) = ([-1.0e300; 3], [1.0e300; 3]);
    HashGrid::<f64>::new(
        &fixture.stream,
        &fixture.geometry,
        GridOptions::default().bounds(low, high),
    )?;
    let (low, high) = ([-f64::MAX; 3], [f64::MAX; 3]);
    let all = GridOptions::default().bounds(low, high);
    refused(HashGrid::<f64>::new(&fixture.stream, &fixture.geometry, all), "not a box")
}

fn refuses_builds(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let points = fixture.upload(&[[0.0f32; 3]; 10])?;
    let mut grid = fixture.grid::<f32>(GridOptions::default())?;
    for radius in [-1.0, f32::NAN, f32::NEG_INFINITY, -f32::MIN_POSITIVE] {
        refused(grid.rebuild(stream, &points, radius), "no radius")?;
    }
    // -0 is 0.
    grid.reserve(stream, points.len())?;
    grid.rebuild(stream, &points, -0.0)?;
    ensure_eq!(grid.len(), 10);
    refused(grid.reserve(stream, MAX_POINTS + 1), "2^30")?;
    ensure_eq!((grid.len(), grid.capacity()), (10, 10));
    let groups = fixture.upload(&[0u32; 9])?;
    refused(grid.rebuild_grouped(stream, &points, &groups, 0.1), "9 groups for 10 points")?;
    let mut grouped = fixture.grid::<f32>(GridOptions::default().groups(2))?;
    let (geometry, options) = (&fixture.geometry, *grouped.options());
    refused(HashGrid::build(stream, geometry, &points, 0.1, options), "groups")?;
    refused(grouped.rebuild(stream, &points, 0.1), "groups")?;
    ensure_eq!(grouped.report(stream)?.points, 0);
    Ok(())
}

fn refuses_queries(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let grid = fixture.built(&[[0.0f32; 3]; 10], 0.5)?;
    let at = fixture.upload(&[[0.0f32; 3]; 7])?;
    let mut counts = DeviceBuffer::<u32>::zeroed(stream, 10)?;
    for radius in [-1.0, f32::NAN, f32::NEG_INFINITY] {
        refused(
            grid.count_neighbors(stream, &GridQueries::at_grid_points(radius), &mut counts),
            "no radius",
        )?;
        refused(grid.neighbor_lists(stream, &GridQueries::at(&at, radius)), "no radius")?;
    }
    let own = GridQueries::at_grid_points(0.5);
    refused(grid.count_neighbors(stream, &own, counts.slice_mut(1..)?), "room for 9 counts")?;
    refused(
        grid.count_neighbors(stream, &GridQueries::at(&at, 0.5), &mut counts),
        "7 are written",
    )?;
    let (radii, groups) = (fixture.upload(&[1.0f32; 6])?, fixture.upload(&[0u32; 8])?);
    let wrong = GridQueries::at(&at, 0.5).within_each(&radii);
    refused(grid.neighbor_lists(stream, &wrong), "6 radii for 7 queries")?;
    let wrong = GridQueries::at_grid_points(0.5).groups(&groups);
    refused(grid.neighbor_lists(stream, &wrong), "8 groups for 10 queries")?;
    for pairs in [Pairs::Others, Pairs::Half] {
        let wrong = GridQueries::at(&at, 0.5).pairs(pairs);
        refused(grid.neighbor_lists(stream, &wrong), "own points")?;
    }
    let mut offsets = DeviceBuffer::<u64>::zeroed(stream, 10)?;
    let lists = grid.neighbor_lists_into(stream, &own, &mut offsets, &mut counts);
    refused(lists, "room for 10 offsets")?;

    let mut near = DeviceBuffer::<u32>::zeroed(stream, 1290)?;
    let mut squares = DeviceBuffer::<f32>::zeroed(stream, 1290)?;
    for k in [0, 129, usize::MAX] {
        let text = format!("the {k} nearest");
        refused(grid.k_nearest(stream, &own, k, &mut near, &mut squares), &text)?;
    }
    let half = own.pairs(Pairs::Half);
    refused(grid.k_nearest(stream, &half, 129, &mut near, &mut squares), "129")?;
    refused(grid.k_nearest(stream, &half, 1, &mut near, &mut squares), "half")?;
    refused(grid.k_nearest(stream, &own, 2, &mut near, &mut squares), "room for 1290 indices")?;
    let few = near.slice_mut(..20)?;
    refused(grid.k_nearest(stream, &own, 2, few, &mut squares), "room for 1290 distances")?;

    // Nothing was written, and the grid still answers.
    ensure!(counts.to_vec(stream)?.iter().all(|count| *count == 0));
    grid.count_neighbors(stream, &own, &mut counts)?;
    ensure_eq!(counts.to_vec(stream)?, [10; 10]);
    Ok(())
}

fn refuses_points_that_do_not_lie_there(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let numbers = fixture.upload(&[0.5f32; 30])?;
    refused(Points::flat(numbers.slice(1..)?), "29 coordinates")?;
    refused(Points::strided(&numbers, 11, 3, 1), "11 points")?;
    refused(Points::strided(&numbers, 10, 3, 2), "don't lie")?;
    refused(Points::strided(&numbers, 2, usize::MAX, 1), "don't lie")?;
    refused(Points::strided(&numbers, 1, 1, usize::MAX), "don't lie")?;
    // All the same number: no more memory than one point is needed for very many.
    refused(Points::strided(&numbers, MAX_POINTS + 1, 0, 1), "2^30")?;
    ensure_eq!(Points::strided(&numbers, MAX_POINTS, 0, 1)?.len(), MAX_POINTS);
    ensure_eq!(Points::strided(&numbers, 10, 3, 1)?.len(), 10);
    ensure_eq!(Points::strided(&numbers, 0, 3, 1)?.len(), 0);
    // One coordinate for all, and none.
    let mut grid = fixture.grid::<f32>(GridOptions::default())?;
    grid.reserve(&fixture.stream, 30)?;
    grid.rebuild(&fixture.stream, Points::strided(&numbers, 30, 1, 0)?, 0.1)?;
    ensure_eq!(grid.report(&fixture.stream)?.points, 30);
    let lists = fixture.lists(&grid, &GridQueries::at_grid_points(0.1))?;
    ensure_eq!(lists, vec![(0..30).collect::<Vec<u32>>(); 30]);
    Ok(())
}
