//! Building, again and again: reports, memory, graphs.

use cuda_safe::DeviceBuffer;
use geom_kernels::hash_grid::{GridOptions, GridQueries, GridReport, HashGrid, Lookup};

use super::inputs::{inputs, uniform};
use super::number::inside;
use super::oracle::{Oracle, Space};
use super::{Fixture, sorted};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    ensure_refused_for, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(report_says_what_is_in_it),
        device(any_radius_to_build_with),
        device(rebuild_with_fewer_and_more_points),
        device(rebuild_without_room_breaks_nothing),
        device(rebuild_in_a_graph_follows_the_points),
        device(graphs_hold_queries_of_any_size),
    ]
}

fn report_says_what_is_in_it(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(570);
    let report_of = |options, points: &[[f64; 3]], radius| -> Result<GridReport, Failure> {
        let mut grid = fixture.grid(options)?;
        let points = fixture.upload(points)?;
        grid.reserve(stream, points.len())?;
        grid.rebuild(stream, &points, radius)?;
        Ok(grid.report(stream)?)
    };
    let options = GridOptions::default();
    let mut points: Vec<[f64; 3]> = (0..200).map(|_| inside(&mut rng, 0.0, 1.0)).collect();
    points[3][1] = f64::NAN;
    points[99][0] = f64::NEG_INFINITY;
    points[199][2] = f64::INFINITY;
    for options in
        [options, options.bounds([0.0; 3], [1.0; 3]), options.periodic([0.0; 3], [1.0; 3])]
    {
        let report = report_of(options, &points, 0.25)?;
        ensure_eq!((report.points, report.left_out), (197, 3));
        // As long as a cell of the radius's size in y and z; the split in x is the grid's business.
        match report.lookup {
            Lookup::Table([x, 3..=4, 3..=4]) if x >= 4 => {}
            other => return Err(Failure::new(format!("{options:?}: {other:?}"))),
        }
    }
    // Without bounds, small cells are too many for a table.
    let report = report_of(options, &points, 1e-3)?;
    ensure_eq!(report, GridReport { points: 197, left_out: 3, lookup: Lookup::Rows });
    let report = report_of(options, &points, 1e-10)?;
    ensure_eq!(report, GridReport { points: 197, left_out: 3, lookup: Lookup::HashedRows });
    // With bounds they are as small as there is room for.
    let bounded = options.bounds([0.0; 3], [1.0; 3]);
    match report_of(bounded, &points, 1e-10)?.lookup {
        Lookup::Table(cells) => ensure!(cells.iter().product::<u32>() > 200, "{cells:?}"),
        other => return Err(Failure::new(format!("{other:?}"))),
    }

    for nothing in [vec![], vec![[f64::NAN, 0.0, 0.0]; 70]] {
        for options in [options, bounded] {
            let report = report_of(options, &nothing, 0.1)?;
            ensure_eq!((report.points, report.left_out), (0, nothing.len()));
        }
    }
    let never = fixture.grid::<f32>(GridOptions::default())?;
    ensure_eq!((never.report(stream)?.points, never.len(), never.capacity()), (0, 0, 0));
    Ok(())
}

/// Far too small, far too large, none, infinite: only slower.
fn any_radius_to_build_with(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(571);
    for input in inputs::<f32>(&mut rng, 60) {
        let oracle = Oracle::new(Space::open(), &input.points, None);
        let points = fixture.upload(&input.points)?;
        let [low, high] = input.bounds;
        for options in [GridOptions::default(), GridOptions::default().bounds(low, high)] {
            let mut grid = fixture.grid(options)?;
            for radius in [0.0, f32::MIN_POSITIVE, input.radius * 30.0, f32::MAX, f32::INFINITY] {
                grid.reserve(&fixture.stream, points.len())?;
                grid.rebuild(&fixture.stream, &points, radius)?;
                let lists = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
                for (query, list) in input.points.iter().zip(&lists) {
                    let near = oracle.near(*query, input.radius, 0);
                    let wanted: Vec<u32> = near.into_iter().map(|(index, _)| index).collect();
                    let name = input.name;
                    ensure!(sorted(list) == wanted, "{name}, built for {radius}: {list:?}");
                }
            }
        }
    }
    Ok(())
}

/// Counts of a grid that was just built from these points.
fn check_counts(
    fixture: &Fixture<'_>,
    grid: &HashGrid<f32>,
    points: &[[f32; 3]],
    radius: f32,
) -> TestResult {
    let oracle = Oracle::new(Space::open(), points, None);
    let mut counts = fixture.upload(&vec![u32::MAX; points.len()])?;
    grid.count_neighbors(&fixture.stream, &GridQueries::at_grid_points(radius), &mut counts)?;
    let wanted: Vec<u32> =
        points.iter().map(|query| oracle.near(*query, radius, 0).len() as u32).collect();
    first_difference(&counts.to_vec(&fixture.stream)?, &wanted)
}

fn rebuild_with_fewer_and_more_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(572);
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    for options in [GridOptions::default(), bounded] {
        let mut grid = fixture.grid(options)?;
        grid.reserve(stream, 700)?;
        let bytes = grid.size_bytes();
        for n in [5, 300, 1, 700, 64, 0, 33] {
            let input = uniform::<f32>(&mut rng, n);
            let points = fixture.upload(&input.points)?;
            for radius in [0.2, 1e-3] {
                grid.rebuild(stream, &points, radius)?;
                ensure_eq!((grid.len(), grid.capacity(), grid.size_bytes()), (n, 700, bytes));
                check_counts(&fixture, &grid, &input.points, radius)?;
            }
        }
        // Less is no reason to let anything go.
        grid.reserve(stream, 10)?;
        ensure_eq!((grid.len(), grid.capacity()), (33, 700));
        let input = uniform::<f32>(&mut rng, 900);
        let points = fixture.upload(&input.points)?;
        grid.reserve(stream, points.len())?;
        grid.rebuild(stream, &points, 0.1)?;
        ensure!(grid.capacity() >= 900 && grid.size_bytes() > bytes);
        check_counts(&fixture, &grid, &input.points, 0.1)?;
    }
    Ok(())
}

fn rebuild_without_room_breaks_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(573);
    let input = uniform::<f32>(&mut rng, 100);
    let more = uniform::<f32>(&mut rng, 101);
    let points = fixture.upload(&input.points)?;
    let more = fixture.upload(&more.points)?;
    let mut grid = fixture.grid::<f32>(GridOptions::default())?;
    let refused = grid.rebuild(stream, &points, 0.1);
    ensure_refused_for(refused, "room for 0")?;
    grid.reserve(stream, 100)?;
    grid.rebuild(stream, &points, 0.1)?;
    let refused = grid.rebuild(stream, &more, 0.1);
    ensure_refused_for(refused, "room for 100")?;
    let refused = grid.rebuild(stream, &points, f32::NAN);
    ensure_refused(refused)?;
    ensure_eq!(grid.len(), 100, "what was built before is there");
    check_counts(&fixture, &grid, &input.points, 0.1)
}

struct Simulation {
    grid: HashGrid<f32>,
    points: DeviceBuffer<[f32; 3]>,
    counts: DeviceBuffer<u32>,
}

fn rebuild_in_a_graph_follows_the_points(device: &TestDevice) -> TestResult {
    const N: usize = 250;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(574);
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    let periodic = GridOptions::default().periodic([-4.0; 3], [4.0; 3]);
    for options in [GridOptions::default(), bounded, periodic] {
        let mut grid = fixture.grid(options)?;
        grid.reserve(stream, N)?;
        let state = Simulation {
            grid,
            points: DeviceBuffer::zeroed(stream, N)?,
            counts: DeviceBuffer::zeroed(stream, N)?,
        };
        let mut graph = device.context().capture(state, |stream, state| {
            let Simulation { grid, points, counts } = state;
            grid.rebuild(stream, &*points, 0.15)?;
            grid.count_neighbors(stream, &GridQueries::at_grid_points(0.15), &mut *counts)
        })?;
        // Spread, so that the device has to choose another way to find cells; near together; alike.
        for scale in [1.0, 0.1, 3.0, 0.0, 1.0] {
            let input = uniform::<f32>(&mut rng, N);
            let points: Vec<[f32; 3]> =
                input.points.iter().map(|point| point.map(|x| x * scale)).collect();
            graph.state_mut().points.upload(stream, &points)?;
            for _ in 0..2 {
                graph.state_mut().counts.fill(stream, u32::MAX)?;
                graph.launch(stream)?;
            }
            let oracle = Oracle::new(Space::open(), &points, None);
            let wanted: Vec<u32> =
                points.iter().map(|query| oracle.near(*query, 0.15, 0).len() as u32).collect();
            let counts = graph.state().counts.to_vec(stream)?;
            let same = first_difference(&counts, &wanted);
            same.map_err(|failure| Failure::new(format!("{options:?}, {scale}: {failure}")))?;
        }
        // The grid is as it was built last.
        let report = graph.state().grid.report(stream)?;
        ensure_eq!((report.points, report.left_out), (N, 0));
    }
    Ok(())
}

/// Lists, nearest ones and sorted queries, whose scratch becomes memory of the graph.
fn graphs_hold_queries_of_any_size(device: &TestDevice) -> TestResult {
    const N: usize = 120;
    struct Step {
        simulation: Simulation,
        offsets: DeviceBuffer<u64>,
        indices: DeviceBuffer<u32>,
        nearest: DeviceBuffer<u32>,
        squares: DeviceBuffer<f32>,
    }
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(575);
    let mut grid = fixture.grid(GridOptions::default())?;
    grid.reserve(stream, N)?;
    let state = Step {
        simulation: Simulation {
            grid,
            points: DeviceBuffer::zeroed(stream, N)?,
            counts: DeviceBuffer::zeroed(stream, N)?,
        },
        offsets: DeviceBuffer::zeroed(stream, N + 1)?,
        indices: DeviceBuffer::zeroed(stream, N * N)?,
        nearest: DeviceBuffer::zeroed(stream, N)?,
        squares: DeviceBuffer::zeroed(stream, N)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        let Step { simulation: Simulation { grid, points, .. }, .. } = state;
        grid.rebuild(stream, &*points, 0.2)?;
        let queries = GridQueries::at(&*points, 0.2).order(geom_kernels::QueryOrder::Sorted);
        let Step { offsets, indices, nearest, squares, .. } = state;
        let grid = &state.simulation.grid;
        grid.neighbor_lists_into(stream, &queries, &mut *offsets, &mut *indices)?;
        grid.k_nearest(stream, &queries, 1, &mut *nearest, &mut *squares)
    })?;
    for _ in 0..3 {
        let input = uniform::<f32>(&mut rng, N);
        graph.state_mut().simulation.points.upload(stream, &input.points)?;
        graph.launch(stream)?;
        let grid = fixture.built(&input.points, 0.2)?;
        let wanted = grid.neighbor_lists(stream, &GridQueries::at_grid_points(0.2))?;
        let state = graph.state();
        first_difference(&state.offsets.to_vec(stream)?, &wanted.offsets.to_vec(stream)?)?;
        let wanted = wanted.indices.to_vec(stream)?;
        first_difference(&state.indices.to_vec(stream)?[..wanted.len()], &wanted)?;
        // Each is nearest to itself.
        let itself: Vec<u32> = (0..N as u32).collect();
        first_difference(&state.nearest.to_vec(stream)?, &itself)?;
        ensure_eq!(state.squares.to_vec(stream)?, [0.0; N]);
    }
    Ok(())
}
