//! The same questions asked in other ways.

use cuda_safe::vector::Float4;
use geom_kernels::Points;
use geom_kernels::QueryOrder;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};

use super::Fixture;
use super::inputs::uniform;
use super::number::{Number, as_double3, as_float3, inside};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(order_of_work_does_not_change_answers),
        device(points_lie_as_they_like),
        device(points_moved_after_the_build_stay),
        device(several_grids_and_streams_at_once),
    ]
}

fn order_of_work_does_not_change_answers(device: &TestDevice) -> TestResult {
    order_for::<f32>(device)?;
    order_for::<f64>(device)
}

fn order_for<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(560);
    let input = uniform::<T>(&mut rng, 400);
    let points = fixture.upload(&input.points)?;
    let mut at: Vec<[T; 3]> = (0..300).map(|_| inside(&mut rng, -0.5, 1.5)).collect();
    at[17] = [T::NAN; 3];
    let at_there = fixture.upload(&at)?;
    let radii: Vec<T> =
        (0..300).map(|i| T::of(input.radius.f64() * (i % 9) as f64 / 4.0)).collect();
    let radii_there = fixture.upload(&radii)?;
    let groups: Vec<u32> = (0..400).map(|i| i % 2).collect();
    let groups_there = fixture.upload(&groups)?;
    let asked_groups = fixture.upload(&groups[..300])?;
    let (zero, one) = ([T::of(0.0); 3], [T::of(1.0); 3]);
    let options = GridOptions::default();
    let all = [
        options,
        options.bounds(zero, one),
        options.periodic(zero, one),
        options.groups(2),
        options.bounds(zero, one).groups(2),
    ];
    for (number, options) in all.into_iter().enumerate() {
        let has_groups = number >= 3;
        let mut grid = fixture.grid(options)?;
        // Small enough cells that the same points once make a table and once rows.
        for radius in [input.radius, T::of(input.radius.f64() / 64.0)] {
            if has_groups {
                grid.reserve(stream, points.len())?;
                grid.rebuild_grouped(stream, T::points(&points), &groups_there, radius)?;
            } else {
                grid.reserve(stream, points.len())?;
                grid.rebuild(stream, T::points(&points), radius)?;
            }
            let mut queries =
                GridQueries::at(T::points(&at_there), input.radius).within_each(&radii_there);
            if has_groups {
                queries = queries.groups(&asked_groups);
            }
            let given = fixture.lists(&grid, &queries.order(QueryOrder::Given))?;
            first_difference(&fixture.lists(&grid, &queries.order(QueryOrder::Sorted))?, &given)?;
            first_difference(&fixture.lists(&grid, &queries.order(QueryOrder::Auto))?, &given)?;
            ensure!(given.iter().map(Vec::len).sum::<usize>() > 300);
        }
    }
    // A grid without points has no order.
    let grid = fixture.grid::<T>(options)?;
    let queries = GridQueries::at(T::points(&at_there), input.radius).order(QueryOrder::Sorted);
    ensure!(fixture.lists(&grid, &queries)?.iter().all(Vec::is_empty));
    Ok(())
}

fn points_lie_as_they_like(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let input = uniform::<f32>(&mut device.rng(561), 150);
    let (points, n) = (&input.points, 150);
    let wanted = {
        let grid = fixture.built(points, input.radius)?;
        fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?
    };
    let same = |name: &str, points: Points<'_, f32>| -> TestResult {
        ensure_eq!(points.len(), n);
        let mut grid = fixture.grid(GridOptions::default())?;
        grid.reserve(&fixture.stream, points.len())?;
        grid.rebuild(&fixture.stream, points, input.radius)?;
        let own = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
        let as_queries = fixture.lists(&grid, &GridQueries::at(points, input.radius))?;
        first_difference(&own, &wanted)
            .and_then(|()| first_difference(&as_queries, &wanted))
            .map_err(|failure| Failure::new(format!("{name}: {failure}")))
    };
    let arrays = fixture.upload(points)?;
    same("arrays", (&arrays).into())?;
    // Behind others, so that they begin in the middle of the buffer.
    let longer: Vec<[f32; 3]> = [[[9.0; 3]; 5].as_slice(), points].concat();
    let longer = fixture.upload(&longer)?;
    same("a part", longer.slice(5..)?.into())?;
    let vectors = fixture.upload(&as_float3(points))?;
    same("Float3", (&vectors).into())?;
    let fours: Vec<Float4> =
        points.iter().map(|&[x, y, z]| Float4 { x, y, z, w: f32::NAN }).collect();
    let fours = fixture.upload(&fours)?;
    same("Float4", (&fours).into())?;
    let flat = fixture.upload(&points.concat())?;
    same("flat", Points::flat(&flat)?)?;
    let planar: Vec<f32> =
        (0..3).flat_map(|axis| points.iter().map(move |point| point[axis])).collect();
    let planar = fixture.upload(&planar)?;
    same("planar", Points::strided(&planar, n, 1, n)?)?;
    // Particles of 8 numbers, the position from the third on; nothing after the last coordinate.
    let mut particles = vec![f32::NAN; 8 * n - 3];
    for (i, point) in points.iter().enumerate() {
        particles[8 * i + 2..8 * i + 5].copy_from_slice(point);
    }
    let particles = fixture.upload(&particles)?;
    same("particles", Points::strided(particles.slice(2..)?, n, 8, 1)?)?;

    let doubles: Vec<[f64; 3]> = points.iter().map(|p| p.map(f64::from)).collect();
    let vectors = fixture.upload(&as_double3(&doubles))?;
    let mut grid = fixture.grid::<f64>(GridOptions::default())?;
    grid.reserve(&fixture.stream, vectors.len())?;
    grid.rebuild(&fixture.stream, &vectors, f64::from(input.radius))?;
    let lists = fixture.lists(&grid, &GridQueries::at_grid_points(f64::from(input.radius)))?;
    let wide = fixture.built(&doubles, f64::from(input.radius))?;
    let wide = fixture.lists(&wide, &GridQueries::at_grid_points(f64::from(input.radius)))?;
    first_difference(&lists, &wide)
}

/// The grid has a copy of its own.
fn points_moved_after_the_build_stay(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let input = uniform::<f32>(&mut device.rng(562), 100);
    let mut points = fixture.upload(&input.points)?;
    let mut grid = fixture.grid(GridOptions::default())?;
    grid.reserve(stream, points.len())?;
    grid.rebuild(stream, &points, input.radius)?;
    let before = fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?;
    points.fill(stream, [0.5; 3])?;
    first_difference(&fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?, &before)?;
    grid.rebuild(stream, &points, input.radius)?;
    let all: Vec<u32> = (0..100).collect();
    ensure_eq!(fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))?, vec![all; 100]);
    Ok(())
}

/// What is enqueued on other streams waits for the builds it needs, and for no others.
fn several_grids_and_streams_at_once(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(563);
    let inputs: Vec<_> = (0..4).map(|i| uniform::<f32>(&mut rng, 80 + 30 * i)).collect();
    let alone = inputs.iter().map(|input| {
        let grid = fixture.built(&input.points, input.radius)?;
        fixture.lists(&grid, &GridQueries::at_grid_points(input.radius))
    });
    let alone: Vec<_> = alone.collect::<Result<_, Failure>>()?;

    let streams = (0..3).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
    let mut grids: Vec<HashGrid<f32>> = Vec::new();
    let mut buffers = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let stream = &streams[i % 3];
        let points = fixture.upload(&input.points)?;
        let grid = HashGrid::build(
            stream,
            &fixture.geometry,
            &points,
            input.radius,
            GridOptions::default(),
        )?;
        grids.push(grid);
        buffers.push(points);
    }
    for round in 0..3 {
        let mut counts = Vec::new();
        for (i, (grid, input)) in grids.iter_mut().zip(&inputs).enumerate() {
            // Another stream than that of the build.
            let mut count = fixture.upload(&vec![u32::MAX; input.points.len()])?;
            let queries = GridQueries::at_grid_points(input.radius);
            grid.count_neighbors(&streams[(i + round) % 3], &queries, &mut count)?;
            grid.rebuild(&streams[(i + round + 1) % 3], &buffers[i], input.radius)?;
            counts.push(count);
        }
        for (i, counts) in counts.iter().enumerate() {
            let wanted: Vec<u32> = alone[i].iter().map(|list| list.len() as u32).collect();
            first_difference(&counts.to_vec(&fixture.stream)?, &wanted)?;
            let queries = GridQueries::at_grid_points(inputs[i].radius);
            let lists = grids[i].neighbor_lists(&streams[round], &queries)?;
            first_difference(&fixture.split(&lists)?, &alone[i])?;
        }
    }
    Ok(())
}
