//! The k nearest points.

use cuda_safe::DeviceBuffer;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};

use super::inputs::{Input, inputs};
use super::number::{Number, inside};
use super::oracle::{Oracle, Space};
use super::{Fixture, thorough};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(nearest_are_those_of_brute_force_f32 = brute_force::<f32>),
        device(nearest_are_those_of_brute_force_f64 = brute_force::<f64>),
        device(nearest_in_a_periodic_box),
    ]
}

const KS: [usize; 5] = [8, 1, 32, 9, 128];

fn brute_force<T: Number>(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(520);
    let n = if thorough(device) { 300 } else { 60 };
    for (turn, input) in inputs::<T>(&mut rng, n).into_iter().enumerate() {
        let grid = fixture.built(&input.points, input.radius)?;
        let oracle = Oracle::new(Space::open(), &input.points, None);
        let other: Vec<[T; 3]> = (0..20).map(|_| inside(&mut rng, -2.0, 2.0)).collect();
        let ks: Vec<usize> =
            if thorough(device) { KS.to_vec() } else { vec![KS[turn % 5], KS[(turn + 2) % 5]] };
        for k in ks {
            for (at, radius, pairs) in [
                (None, T::INFINITY, Pairs::Others),
                (None, T::of(input.radius.f64() * 1.5), Pairs::All),
                (Some(&other), T::INFINITY, Pairs::All),
            ] {
                let checked = check(&fixture, &grid, &oracle, (&input, at), (k, radius, pairs));
                checked.map_err(|failure| {
                    let asked = format!("{} nearest within {radius}, {pairs:?}", k);
                    Failure::new(format!("{}, {asked}: {failure}", input.name))
                })?;
            }
        }
    }
    Ok(())
}

fn check<T: Number>(
    fixture: &Fixture<'_>,
    grid: &HashGrid<T>,
    oracle: &Oracle<'_, T>,
    (input, other): (&Input<T>, Option<&Vec<[T; 3]>>),
    (k, radius, pairs): (usize, T, Pairs),
) -> TestResult {
    let stream = &fixture.stream;
    let at = other.unwrap_or(&input.points);
    let at_there = fixture.upload(at)?;
    let queries = match other {
        Some(_) => GridQueries::at(T::points(&at_there), radius),
        None => GridQueries::at_grid_points(radius).pairs(pairs),
    };
    let mut indices = DeviceBuffer::<u32>::zeroed(stream, at.len() * k)?;
    let mut distances = fixture.upload(&vec![T::NAN; at.len() * k])?;
    grid.k_nearest(stream, &queries, k, &mut indices, &mut distances)?;
    let (indices, distances) = (indices.to_vec(stream)?, distances.to_vec(stream)?);
    let mut full = 0;
    for (i, query) in at.iter().enumerate() {
        let mut wanted = oracle.near(*query, radius, 0);
        wanted.retain(|(index, _)| pairs == Pairs::All || *index as usize != i);
        // Stable: of equally near ones the one with the smaller index first.
        wanted.sort_by(|(_, a), (_, b)| a.f64().total_cmp(&b.f64()));
        wanted.truncate(k);
        full += usize::from(wanted.len() == k);
        wanted.resize(k, (u32::MAX, T::INFINITY));
        let range = k * i..k * (i + 1);
        let found: Vec<_> =
            indices[range.clone()].iter().copied().zip(distances[range].iter().copied()).collect();
        ensure!(found == wanted, "query {i} at {query:?}: {found:?}, not {wanted:?}");
    }
    if radius.f64() == f64::INFINITY && k < input.points.len() / 2 {
        ensure!(full > 0);
    }
    Ok(())
}

fn nearest_in_a_periodic_box(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(521);
    let input = super::inputs::uniform::<f32>(&mut rng, 150);
    let bounds = [[0.0; 3], [1.0; 3]];
    let options = GridOptions::default().periodic(bounds[0], bounds[1]);
    let mut grid = fixture.grid(options)?;
    let points = fixture.upload(&input.points)?;
    grid.reserve(&fixture.stream, points.len())?;
    grid.rebuild(&fixture.stream, &points, input.radius)?;
    let oracle = Oracle::new(Space::periodic([true; 3], bounds), &input.points, None);
    ensure!(!oracle.space.is_open());
    // Points of other boxes are found through their images.
    let other: Vec<[f32; 3]> = (0..50).map(|_| inside(&mut rng, -7.0, 7.0)).collect();
    for k in [1, 8, 20] {
        let ask = |other, pairs| {
            check(&fixture, &grid, &oracle, (&input, other), (k, f32::INFINITY, pairs))
        };
        ask(None, Pairs::Others)?;
        ask(Some(&other), Pairs::All)?;
    }
    ensure_eq!(grid.len(), 150);
    Ok(())
}
