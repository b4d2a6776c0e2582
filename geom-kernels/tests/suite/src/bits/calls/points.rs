//! `geom_kernels::hash_grid`.

use cuda_safe::DeviceBuffer;
use geom_kernels::hash_grid::{
    GridOptions, GridQueries, GridReport, HashGrid, Lookup, NeighborSum, Pairs,
};
use geom_kernels::{Points, QueryOrder, Real};

use super::{Got, Lab, Plain, word};

/// Points that lie as x, y, z, x, y, z, …
pub(in super::super) fn flat<T: Real>(data: &DeviceBuffer<T>) -> Got<Points<'_, T>> {
    Ok(Points::flat(data)?)
}

/// Points with strides.
pub(in super::super) fn strided<T: Real>(
    data: &DeviceBuffer<T>,
    [n, stride, component]: [usize; 3],
) -> Got<Points<'_, T>> {
    Ok(Points::strided(data, n, stride, component)?)
}

/// A grid that is not built.
pub(in super::super) fn grid<T: Real>(lab: &Lab, options: GridOptions<T>) -> Got<HashGrid<T>> {
    Ok(HashGrid::new(&lab.stream, &lab.geometry, options)?)
}

pub(in super::super) fn open<T: Real>() -> GridOptions<T> {
    GridOptions::default()
}

pub(in super::super) fn bounded<T: Real>(lower: [T; 3], upper: [T; 3]) -> GridOptions<T> {
    GridOptions::default().bounds(lower, upper)
}

pub(in super::super) fn periodic<T: Real>(lower: [T; 3], upper: [T; 3]) -> GridOptions<T> {
    GridOptions::default().periodic(lower, upper)
}

pub(in super::super) fn periodic_in<T: Real>(
    axes: [bool; 3],
    lower: [T; 3],
    upper: [T; 3],
) -> GridOptions<T> {
    GridOptions::default().periodic_in(axes, lower, upper)
}

pub(in super::super) fn grouped<T: Real>(options: GridOptions<T>, groups: u32) -> GridOptions<T> {
    options.groups(groups)
}

pub(in super::super) fn build_grid<'a, T: Real>(
    lab: &Lab,
    grid: &mut HashGrid<T>,
    points: impl Into<Points<'a, T>>,
    groups: Option<&'a DeviceBuffer<u32>>,
    radius: T,
) -> Got<()> {
    let points = points.into();
    grid.reserve(&lab.stream, points.len())?;
    match groups {
        None => grid.rebuild(&lab.stream, points, radius)?,
        Some(groups) => grid.rebuild_grouped(&lab.stream, points, groups, radius)?,
    }
    Ok(())
}

/// Builds it again in the memory that it has.
pub(in super::super) fn rebuild_grid<'a, T: Real>(
    lab: &Lab,
    grid: &mut HashGrid<T>,
    points: impl Into<Points<'a, T>>,
    groups: Option<&'a DeviceBuffer<u32>>,
    radius: T,
) -> Got<()> {
    match groups {
        None => grid.rebuild(&lab.stream, points, radius)?,
        Some(groups) => grid.rebuild_grouped(&lab.stream, points, groups, radius)?,
    }
    Ok(())
}

pub(in super::super) fn reserve_grid<T: Real>(
    lab: &Lab,
    grid: &mut HashGrid<T>,
    points: usize,
) -> Got<()> {
    Ok(grid.reserve(&lab.stream, points)?)
}

/// Points, points left out, the kind of lookup, and the cells of a table.
pub(in super::super) fn grid_report(report: &GridReport) -> Vec<u64> {
    let lookup = match report.lookup {
        Lookup::Table(cells) => [0, cells[0].into(), cells[1].into(), cells[2].into()],
        Lookup::Rows => [1, 0, 0, 0],
        Lookup::HashedRows => [2, 0, 0, 0],
        _ => [3, 0, 0, 0],
    };
    [&[word(report.points), word(report.left_out)], &lookup[..]].concat()
}

/// Queries at the grid's own points.
pub(in super::super) fn own<'a, T: Real>(radius: T, pairs: Pairs) -> GridQueries<'a, T> {
    GridQueries::at_grid_points(radius).pairs(pairs)
}

/// Queries at other points.
pub(in super::super) fn at<T: Real>(
    points: Points<'_, T>,
    radius: T,
    sorted: bool,
) -> GridQueries<'_, T> {
    let order = if sorted { QueryOrder::Sorted } else { QueryOrder::Given };
    GridQueries::at(points, radius).order(order)
}

pub(in super::super) fn with_radii<'a, T: Real>(
    queries: GridQueries<'a, T>,
    radii: &'a DeviceBuffer<T>,
) -> GridQueries<'a, T> {
    queries.within_each(radii)
}

pub(in super::super) fn with_groups<'a, T: Real>(
    queries: GridQueries<'a, T>,
    groups: &'a DeviceBuffer<u32>,
) -> GridQueries<'a, T> {
    queries.groups(groups)
}

pub(in super::super) fn neighbor_counts<T: Real>(
    lab: &Lab,
    grid: &HashGrid<T>,
    queries: &GridQueries<'_, T>,
    n: usize,
) -> Got<Vec<u32>> {
    lab.filled(n, |counts| grid.count_neighbors(&lab.stream, queries, counts))
}

/// Offsets and indices.
pub(in super::super) fn neighbor_lists<T: Real>(
    lab: &Lab,
    grid: &HashGrid<T>,
    queries: &GridQueries<'_, T>,
) -> Got<(Vec<u64>, Vec<u32>)> {
    let lists = grid.neighbor_lists(&lab.stream, queries)?;
    Ok((lab.down(&lists.offsets)?, lab.down(&lists.indices)?))
}

/// The same with room for `room` indices.
pub(in super::super) fn neighbor_lists_into<T: Real>(
    lab: &Lab,
    grid: &HashGrid<T>,
    queries: &GridQueries<'_, T>,
    (n, room): (usize, usize),
) -> Got<(Vec<u64>, Vec<u32>)> {
    lab.filled_both((n + 1, room), |offsets, indices| {
        grid.neighbor_lists_into(&lab.stream, queries, offsets, indices)
    })
}

/// Indices and squares of distances of the k nearest.
pub(in super::super) fn nearest_points<T: Real>(
    lab: &Lab,
    grid: &HashGrid<T>,
    queries: &GridQueries<'_, T>,
    (n, k): (usize, usize),
) -> Got<(Vec<u32>, Vec<T>)> {
    lab.filled_both((n * k, n * k), |indices, squares| {
        grid.k_nearest(&lab.stream, queries, k, indices, squares)
    })
}

/// The sums of a snippet without data, or with a number.
///
/// # Safety
/// As `NeighborSum::compile`; `data` is an `unsigned`.
pub(in super::super) unsafe fn neighbor_sums<T: Real, Out: Plain>(
    lab: &Lab,
    grid: &HashGrid<T>,
    queries: &GridQueries<'_, T>,
    (output, snippet, data): (&str, &str, Option<u32>),
    n: usize,
) -> Got<Vec<Out>> {
    let kind = data.map(|_| "unsigned");
    // SAFETY: the caller's promise.
    let sum = unsafe { NeighborSum::<T, Out>::compile(&lab.geometry, output, kind, snippet) }?;
    lab.filled(n, |sums| match data {
        None => sum.run(&lab.stream, grid, queries, sums),
        // SAFETY: data is what the snippet was compiled for, and leads nowhere.
        Some(data) => unsafe { sum.run_with(&lab.stream, grid, queries, data, sums) },
    })
}
