//! Lists and counts: which pairs count, and what happens if there is no room.

use cuda_safe::DeviceBuffer;
use geom_kernels::hash_grid::{GridQueries, Pairs};

use super::Fixture;
use super::inputs::inputs;
use super::number::Number;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(counts_are_the_lengths_of_lists_f32 = counts::<f32>),
        device(counts_are_the_lengths_of_lists_f64 = counts::<f64>),
        device(pairs_come_as_asked_for),
        device(lists_without_room_are_cut_off),
        device(lists_of_no_points),
    ]
}

fn counts<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for input in inputs::<T>(&mut device.rng(510), 70) {
        let grid = fixture.built(&input.points, input.radius)?;
        for pairs in [Pairs::All, Pairs::Others, Pairs::Half] {
            let queries = GridQueries::at_grid_points(input.radius).pairs(pairs);
            let lists = fixture.lists(&grid, &queries)?;
            let mut counts = fixture.upload(&[7u32; 70])?;
            grid.count_neighbors(&fixture.stream, &queries, &mut counts)?;
            let lengths: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
            let same = first_difference(&counts.to_vec(&fixture.stream)?, &lengths);
            same.map_err(|failure| Failure::new(format!("{}: {failure}", input.name)))?;
        }
    }
    Ok(())
}

/// Of the list of all: without the point, and only those that follow.
fn pairs_come_as_asked_for(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    for input in inputs::<f32>(&mut device.rng(511), 90) {
        let grid = fixture.built(&input.points, input.radius)?;
        let lists =
            |pairs| fixture.lists(&grid, &GridQueries::at_grid_points(input.radius).pairs(pairs));
        let all = lists(Pairs::All)?;
        for (kind, counts) in
            [(Pairs::Others, (|i, j| i != j) as fn(u32, u32) -> bool), (Pairs::Half, |i, j| i < j)]
        {
            let wanted: Vec<Vec<u32>> = (0..)
                .zip(&all)
                .map(|(i, list)| list.iter().copied().filter(|j| counts(i, *j)).collect())
                .collect();
            first_difference(&lists(kind)?, &wanted)?;
        }
        // Each is in the other's list, and finite points in their own.
        for (i, list) in (0..).zip(&all) {
            let finite = input.points[i as usize].iter().all(|x| x.is_finite());
            ensure_eq!(list.contains(&i), finite);
            ensure!(list.iter().all(|j| all[*j as usize].contains(&i)), "{}", input.name);
        }
    }
    Ok(())
}

fn lists_without_room_are_cut_off(device: &TestDevice) -> TestResult {
    const UNTOUCHED: u32 = 0xdead_beef;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    for input in inputs::<f32>(&mut device.rng(512), 80).into_iter().take(4) {
        let grid = fixture.built(&input.points, input.radius)?;
        let queries = GridQueries::at_grid_points(input.radius);
        let whole = grid.neighbor_lists(stream, &queries)?;
        let (all_offsets, all) = (whole.offsets.to_vec(stream)?, whole.indices.to_vec(stream)?);
        let total = all.len();
        ensure!(total > 80);
        for capacity in [0, 1, total / 3, total - 1, total, total + 1, total + 100] {
            // Elements beyond what the call is given, which it must not know of.
            let mut room = fixture.upload(&vec![UNTOUCHED; capacity + 50])?;
            let mut offsets = DeviceBuffer::<u64>::zeroed(stream, 81)?;
            grid.neighbor_lists_into(stream, &queries, &mut offsets, room.slice_mut(..capacity)?)?;
            ensure_eq!(offsets.to_vec(stream)?, all_offsets, "exact, whatever the room");
            let mut wanted = all[..capacity.min(total)].to_vec();
            wanted.resize(capacity + 50, UNTOUCHED);
            first_difference(&room.to_vec(stream)?, &wanted)?;
        }
    }
    Ok(())
}

fn lists_of_no_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let never_built = fixture.grid::<f32>(Default::default())?;
    let of_none = fixture.built::<f32>(&[], 0.5)?;
    let at = fixture.upload(&[[0.0f32; 3]; 5])?;
    for grid in [&never_built, &of_none] {
        ensure!(grid.is_empty());
        let lists = grid.neighbor_lists(stream, &GridQueries::at_grid_points(1.0))?;
        ensure_eq!(lists.offsets.to_vec(stream)?, [0]);
        ensure_eq!(lists.indices.len(), 0);
        for radius in [1.0, f32::INFINITY] {
            let lists = grid.neighbor_lists(stream, &GridQueries::at(&at, radius))?;
            ensure_eq!(lists.offsets.to_vec(stream)?, [0; 6]);
        }
        let mut counts = fixture.upload(&[9u32; 5])?;
        grid.count_neighbors(stream, &GridQueries::at(&at, 1.0), &mut counts)?;
        ensure_eq!(counts.to_vec(stream)?, [0; 5]);
        let mut nearest = fixture.upload(&[9u32; 15])?;
        let mut distances = fixture.upload(&[9.0f32; 15])?;
        let everywhere = GridQueries::at(&at, f32::INFINITY);
        grid.k_nearest(stream, &everywhere, 3, &mut nearest, &mut distances)?;
        ensure_eq!(nearest.to_vec(stream)?, [u32::MAX; 15]);
        ensure_eq!(distances.to_vec(stream)?, [f32::INFINITY; 15]);
    }
    // No queries of a grid with points.
    let grid = fixture.built(&[[0.0f32; 3]; 3], 0.5)?;
    let nowhere = fixture.upload::<[f32; 3]>(&[])?;
    let lists = grid.neighbor_lists(stream, &GridQueries::at(&nowhere, 1.0))?;
    ensure_eq!(lists.offsets.to_vec(stream)?, [0]);
    Ok(())
}
