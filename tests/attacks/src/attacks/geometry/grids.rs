//! Attacks on hash grids, and on sorts and what goes with them.

use cuda_safe::{DeviceBuffer, Result, Stream};
use geom_kernels::GeometryKernels;
use geom_kernels::algorithms::Algorithms;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid, Pairs};
use geom_kernels::{MAX_POINTS, Points};
use test_harness::{TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

/// Points that are no numbers, infinite, tiny, huge, and there several times.
fn awkward() -> Vec<[f32; 3]> {
    let odd = [0.0, -0.0, f32::MIN_POSITIVE / 4.0, 1.0, -1.0, 0.25, 1e30, -f32::MAX];
    let mut points: Vec<[f32; 3]> = Vec::new();
    for (i, a) in odd.iter().enumerate() {
        points.push([*a, odd[(i + 1) % 8], odd[(i + 3) % 8]]);
        points.push([*a; 3]);
        points.push([*a; 3]);
    }
    points.push([f32::NAN, 0.0, 0.0]);
    points.push([0.0, f32::INFINITY, 0.0]);
    points.push([0.0, 0.0, f32::NEG_INFINITY]);
    points
}

fn finite(point: &[f32; 3]) -> bool {
    point.iter().all(|x| x.is_finite())
}

/// Counts neighbours, in f32 as the grid does.
fn neighbors(points: &[[f32; 3]], at: &[f32; 3], radius: f32) -> u32 {
    if !finite(at) {
        return 0;
    }
    let near = points.iter().filter(|point| {
        let square: f32 = (0..3).map(|i| at[i] - point[i]).map(|d| d * d).sum();
        finite(point) && square <= radius * radius
    });
    near.count() as u32
}

/// Builds grids of points that are not finite, huge, tiny or doubled, and asks for neighbours at such points.
///
/// - row: launching foreign code is unsafe
/// - targets: `HashGrid::new`, `HashGrid::reserve`, `HashGrid::rebuild`, `HashGrid::count_neighbors`,
///   `HashGrid::neighbor_lists`, `HashGrid::report`, `GridQueries::at`, `GridQueries::at_grid_points`
fn grids_of_awkward_points(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let points = awkward();
    let options = match lab.variant() {
        "free" => GridOptions::default(),
        "bounds" => GridOptions::default().bounds([-1.0; 3], [1.0; 3]),
        _ => GridOptions::default().bounds([0.0; 3], [f32::MIN_POSITIVE; 3]),
    };
    let mut grid = HashGrid::<f32>::new(&stream, &geometry, options)?;
    let device = DeviceBuffer::from_slice(&stream, &points)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, points.len())?;
    grid.reserve(&stream, device.len())?;
    for built_for in [1.0f32, 0.0, f32::MIN_POSITIVE, 1e30, f32::INFINITY] {
        if let Err(error) = grid.rebuild(&stream, &device, built_for) {
            lab.refused(Err::<(), _>(error), "radius")?;
            continue;
        }
        ensure_eq!(grid.report(&stream)?.left_out, 3);
        for radius in [1.0f32, 0.0, 0.5] {
            let expected: Vec<u32> =
                points.iter().map(|at| neighbors(&points, at, radius)).collect();
            grid.count_neighbors(&stream, &GridQueries::at(&device, radius), &mut counts)?;
            ensure_eq!(counts.to_vec(&stream)?, expected, "built for {built_for}, within {radius}");
            grid.count_neighbors(&stream, &GridQueries::at_grid_points(radius), &mut counts)?;
            ensure_eq!(counts.to_vec(&stream)?, expected, "own, built for {built_for}");
            let lists = grid.neighbor_lists(&stream, &GridQueries::at(&device, radius))?;
            let found = lists.indices.to_vec(&stream)?;
            ensure_eq!(found.len(), expected.iter().sum::<u32>() as usize);
            ensure!(found.iter().all(|i| finite(&points[*i as usize])));
        }
    }
    Ok(())
}

/// Makes grids of boxes that are none, and asks for radii, numbers of neighbours and lengths that can't be.
///
/// - row: launching foreign code is unsafe
/// - targets: `HashGrid::new`, `HashGrid::k_nearest`, `HashGrid::count_neighbors`, `HashGrid::reserve`,
///   `HashGrid::rebuild`, `GridOptions::periodic`, `GridOptions::groups`, `GridQueries::within_each`,
///   `GridQueries::pairs`
fn grids_that_cannot_be(lab: &Lab) -> TestResult {
    let refusal = "NaN is no radius";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let new = |options: GridOptions<f32>| HashGrid::new(&stream, &geometry, options);
    for (lower, upper) in [
        ([0.0f32; 3], [0.0f32; 3]),
        ([1.0; 3], [-1.0; 3]),
        ([f32::NAN; 3], [1.0; 3]),
        ([0.0; 3], [f32::INFINITY; 3]),
        ([-f32::MAX; 3], [f32::MAX; 3]),
    ] {
        lab.refused(
            new(GridOptions::default().periodic(lower, upper)),
            "]: not a box of finite extent",
        )?;
    }
    lab.refused(new(GridOptions::default().groups(0)), "0 groups; from 1 to 2^24 are possible")?;
    let points = DeviceBuffer::from_slice(&stream, &[[0.0f32; 3], [0.5; 3]])?;
    let mut grid = new(GridOptions::default())?;
    lab.refused(grid.rebuild(&stream, &points, 1.0), "2 points, and room for 0")?;
    lab.refused(grid.rebuild(&stream, &points, -1.0), "-1.0 is no radius")?;
    lab.refused(grid.rebuild(&stream, &points, f32::NAN), refusal)?;
    lab.refused(
        grid.reserve(&stream, MAX_POINTS + 1),
        "1073741825 points; at most 2^30 are possible",
    )?;
    lab.refused(
        grid.reserve(&stream, usize::MAX),
        "18446744073709551615 points; at most 2^30 are possible",
    )?;
    grid.reserve(&stream, points.len())?;
    grid.rebuild(&stream, &points, 1.0)?;
    let own = GridQueries::at_grid_points(1.0);
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 3)?;
    lab.refused(
        grid.count_neighbors(&stream, &own, &mut counts),
        "room for 3 counts, and 2 are written",
    )?;
    let mut two = counts.slice_mut(..2)?;
    lab.refused(
        grid.count_neighbors(&stream, &GridQueries::at_grid_points(f32::NAN), &mut two),
        refusal,
    )?;
    let radii = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    lab.refused(
        grid.count_neighbors(&stream, &own.within_each(&radii), &mut two),
        "1 radii for 2 queries",
    )?;
    let mut squares = DeviceBuffer::<f32>::zeroed(&stream, 256)?;
    let mut indices = DeviceBuffer::<u32>::zeroed(&stream, 256)?;
    for k in [0usize, 129, 1 << 63, usize::MAX, (1 << 63) + 1] {
        lab.refused(
            grid.k_nearest(&stream, &own, k, &mut indices, &mut squares),
            "nearest; from 1 to 128 are possible",
        )?;
    }
    lab.refused(
        grid.k_nearest(&stream, &own.pairs(Pairs::Half), 128, &mut indices, &mut squares),
        "half of the pairs has no nearest ones of each point",
    )?;
    grid.k_nearest(&stream, &own, 128, &mut indices, &mut squares)?;
    let found = indices.to_vec(&stream)?;
    ensure_eq!((found[0], found[1], found[2], found[128]), (0, 1, u32::MAX, 1));
    grid.count_neighbors(&stream, &own, two)?;
    ensure_eq!(counts.to_vec(&stream)?, [2, 2, 0]);
    Ok(())
}

/// Describes points with strides and components that overflow, overlap, or lead outside of the buffer.
///
/// - row: launching foreign code is unsafe
/// - targets: `Points::strided`, `Points::flat`, `HashGrid::build`, `HashGrid::count_neighbors`
fn strides_that_lead_outside(lab: &Lab) -> TestResult {
    let refusal = "points";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let data = DeviceBuffer::from_slice(&stream, &(0..30).map(|i| i as f32).collect::<Vec<_>>())?;
    let most = usize::MAX;
    for (len, stride, component) in [
        (2usize, most, 1usize),
        (2, 1, most),
        (2, most / 2 + 1, most / 4 + 1),
        (1, 0, 15),
        (3, 1 << 63, 1),
        (30, 1, 1),
        (11, 3, 1),
        (MAX_POINTS + 1, 0, 0),
        (most, 0, 0),
        (most, most, most),
    ] {
        lab.refused(Points::strided(&data, len, stride, component), refusal)?;
    }
    lab.refused(Points::flat(data.slice(..29)?), refusal)?;
    // All of them at one place, from a single number.
    let mut grid = HashGrid::<f32>::new(&stream, &geometry, GridOptions::default())?;
    let doubled = Points::strided(data.slice(7..8)?, 1000, 0, 0)?;
    grid.reserve(&stream, doubled.len())?;
    grid.rebuild(&stream, doubled, 0.5)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    grid.count_neighbors(&stream, &GridQueries::at_grid_points(0.0), &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [1000; 1000]);
    // Backwards through each other: x, y and z begin at the last numbers that fit.
    let last = Points::strided(&data, 10, 1, 10)?;
    grid.reserve(&stream, last.len())?;
    grid.rebuild(&stream, last, 2.0)?;
    let mut counts = counts.slice_mut(..10)?;
    grid.count_neighbors(&stream, &GridQueries::at(last, 2.0), &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [2, 3, 3, 3, 3, 3, 3, 3, 3, 2]);
    let empty = Points::strided(data.slice(..0)?, 0, most, most);
    if let Ok(empty) = empty {
        grid.reserve(&stream, empty.len())?;
        grid.rebuild(&stream, empty, 1.0)?;
        ensure!(grid.is_empty());
    }
    Ok(())
}

/// Builds a grid in a graph from more or fewer points than the host's last build, and asks for its own points.
///
/// - row: an index that a kernel reads from memory
/// - targets: `HashGrid::build`, `HashGrid::rebuild`, `GridQueries::at_grid_points`, `Context::capture`
fn own_points_of_another_build(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let geometry = GeometryKernels::new(&context);
    let (recorded, built) = if lab.variant() == "fewer" { (10usize, 700) } else { (700, 10) };
    let make = |n: usize| {
        let points: Vec<[f32; 3]> = (0..n).map(|i| [i as f32 * 10.0, 0.0, 0.0]).collect();
        DeviceBuffer::from_slice(&stream, &points)
    };
    let (first, second) = (make(recorded)?, make(built)?);
    let grid =
        HashGrid::<f32>::build(&stream, &geometry, &make(700)?, 1.0, GridOptions::default())?;
    let mut graph = context.capture(grid, |s, grid| grid.rebuild(s, &first, 1.0))?;
    graph.state_mut().reserve(&stream, second.len())?;
    graph.state_mut().rebuild(&stream, &second, 1.0)?;
    graph.launch(&stream)?;
    let grid = graph.state();
    ensure_eq!(grid.len(), built);
    let mut counts = DeviceBuffer::from_slice(&stream, &vec![9u32; built])?;
    grid.count_neighbors(&stream, &GridQueries::at_grid_points(1.0), &mut counts)?;
    let seen = counts.to_vec(&stream)?;
    // Those that both builds have are found; the others have no result, or none.
    ensure!(seen[..10].iter().all(|count| *count == 1), "{:?}", &seen[..10]);
    ensure!(seen[10..].iter().all(|count| *count == 9 || *count <= 1), "{:?}", &seen[10..20]);
    let lists = grid.neighbor_lists(&stream, &GridQueries::at_grid_points(25.0))?;
    let indices = lists.indices.to_vec(&stream)?;
    ensure!(indices.iter().all(|i| (*i as usize) < 700), "an index of no point");
    Ok(())
}

/// Builds grids with groups that the grid does not have, and asks for such groups.
///
/// - row: launching foreign code is unsafe
/// - targets: `HashGrid::rebuild_grouped`, `GridQueries::groups`, `GridOptions::groups`
fn groups_that_are_not_there(lab: &Lab) -> TestResult {
    let refusal = "group";
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let points = DeviceBuffer::from_slice(&stream, &[[0.0f32; 3]; 8])?;
    let groups = [0u32, 1, 2, 3, u32::MAX, 1 << 31, 1, 0];
    let groups = DeviceBuffer::from_slice(&stream, &groups)?;
    let mut grid = HashGrid::<f32>::new(&stream, &geometry, GridOptions::default().groups(3))?;
    lab.refused(grid.rebuild(&stream, &points, 1.0), refusal)?;
    lab.refused(grid.rebuild_grouped(&stream, &points, groups.slice(..7)?, 1.0), refusal)?;
    grid.reserve(&stream, points.len())?;
    grid.rebuild_grouped(&stream, &points, &groups, 1.0)?;
    ensure_eq!(grid.report(&stream)?.left_out, 3);
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 8)?;
    grid.count_neighbors(&stream, &GridQueries::at_grid_points(1.0), &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [2, 2, 1, 0, 0, 0, 2, 2]);
    let asked = GridQueries::at(&points, 1.0);
    grid.count_neighbors(&stream, &asked.groups(&groups), &mut counts)?;
    ensure_eq!(counts.to_vec(&stream)?, [2, 2, 1, 0, 0, 0, 2, 2]);
    lab.refused(
        grid.count_neighbors(&stream, &asked.groups(groups.slice(..7)?), &mut counts),
        refusal,
    )?;
    Ok(())
}

/// Asks periodic grids for radii that reach around the box many times, at points far outside of it.
///
/// - row: launching foreign code is unsafe
/// - targets: `GridOptions::periodic`, `GridOptions::periodic_in`, `HashGrid::count_neighbors`, `HashGrid::k_nearest`
fn radii_around_a_periodic_box(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let geometry = GeometryKernels::new(&lab.context()?);
    let points: Vec<[f32; 3]> = (0..50).map(|i| [i as f32 * 0.37, i as f32 * -3.1, 1e6]).collect();
    let points = DeviceBuffer::from_slice(&stream, &points)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 50)?;
    let mut indices = DeviceBuffer::<u32>::zeroed(&stream, 50 * 50)?;
    let mut squares = DeviceBuffer::<f32>::zeroed(&stream, 50 * 50)?;
    for options in [
        GridOptions::default().periodic([0.0f32; 3], [1.0; 3]),
        GridOptions::default().periodic_in([true, false, true], [-1.0f32; 3], [1e-3; 3]),
        GridOptions::default().periodic([0.0f32; 3], [1e-30; 3]),
    ] {
        let Ok(mut grid) = HashGrid::<f32>::new(&stream, &geometry, options) else { continue };
        for radius in [0.1f32, 1e20] {
            grid.reserve(&stream, points.len())?;
            grid.rebuild(&stream, &points, radius)?;
            for asked in [1e19f32, f32::INFINITY] {
                // Each point is a neighbour once.
                match grid.count_neighbors(
                    &stream,
                    &GridQueries::at_grid_points(asked),
                    &mut counts,
                ) {
                    Ok(()) => ensure_eq!(counts.to_vec(&stream)?, [50; 50], "{asked}, {radius}"),
                    Err(error) => lab.refused(Err::<(), _>(error), "radius")?,
                }
            }
            let all = GridQueries::at_grid_points(f32::INFINITY);
            grid.k_nearest(&stream, &all, 50, &mut indices, &mut squares)?;
            for list in indices.to_vec(&stream)?.chunks(50) {
                let mut list = list.to_vec();
                list.sort_unstable();
                ensure!(list.iter().copied().eq(0..50), "{list:?}");
            }
        }
    }
    Ok(())
}

/// Sorts NaNs, zeros of both signs and equal keys, by bits that keys don't have, with scratch memory of every length.
///
/// - row: launching foreign code is unsafe
/// - targets: `Algorithms::sort_keys`, `Algorithms::argsort`, `Algorithms::with_scratch`, `Algorithms::argsort_scratch`
fn keys_of_every_kind(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let sort = GeometryKernels::new(&lab.context()?).algorithms();
    let odd = [f32::NAN, -f32::NAN, 0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, 1e-45, -1e-45];
    let host: Vec<f32> = (0..5000).map(|i| odd[i * 5 % 8]).collect();
    let keys = DeviceBuffer::from_slice(&stream, &host)?;
    let mut sorted = DeviceBuffer::<f32>::zeroed(&stream, host.len())?;
    let mut order = DeviceBuffer::<u32>::zeroed(&stream, host.len())?;
    #[expect(clippy::reversed_empty_ranges, reason = "it is tried")]
    {
        lab.refused(
            sort.sort_keys(&stream, &keys, &mut sorted, 5..3),
            "a sort by bits 5..3 of keys that have bits 0..32",
        )?;
    }
    lab.refused(
        sort.sort_keys(&stream, &keys, &mut sorted, ..33),
        "a sort by bits 0..33 of keys that have bits 0..32",
    )?;
    lab.refused(
        sort.sort_keys(&stream, &keys, &mut sorted, ..=u32::MAX),
        "a sort by bits 0..4294967295 of keys that have bits 0..32",
    )?;
    lab.refused(
        sort.sort_keys(&stream, &keys, &mut sorted, u32::MAX..),
        "a sort by bits 4294967295..32 of keys that have bits 0..32",
    )?;
    lab.refused(
        Algorithms::keys_scratch::<u64>(usize::MAX, ..),
        "a sort: 18446744073709551615 elements, but one call works on less than 2^31",
    )?;
    lab.refused(
        Algorithms::keys_scratch::<u64>(1 << 31, ..),
        "a sort: 2147483648 elements, but one call works on less than 2^31",
    )?;
    sort.sort_keys(&stream, &keys, &mut sorted, ..)?;
    let mut expected = host.clone();
    expected.sort_by(f32::total_cmp);
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    ensure_eq!(bits(&sorted.to_vec(&stream)?), bits(&expected));
    let mut by_key: Vec<u32> = (0..5000).collect();
    by_key.sort_by(|a, b| host[*a as usize].total_cmp(&host[*b as usize]));
    sort.argsort(&stream, &keys, &mut order, ..)?;
    ensure_eq!(order.to_vec(&stream)?, by_key);
    // No bits: nothing moves.
    sort.argsort(&stream, &keys, &mut order, 7..7)?;
    ensure!(order.to_vec(&stream)?.iter().copied().eq(0..5000));
    // Scratch memory at odd addresses, and of each length around the least.
    let least = Algorithms::argsort_scratch::<f32>(5000, ..)?;
    let mut scratch = DeviceBuffer::<u8>::zeroed(&stream, least + 64)?;
    for skip in [0usize, 1, 4, 8] {
        for extra in [0usize, 32] {
            let part = scratch.slice_mut(skip..skip + least - 16 + extra)?;
            order.fill(&stream, 0)?;
            if sort.with_scratch(part).argsort(&stream, &keys, &mut order, ..).is_ok() {
                ensure_eq!(order.to_vec(&stream)?, by_key, "{skip}, {extra}");
            }
        }
    }
    Ok(())
}

/// Selects more than there is room for, and sums what wraps around, with values right behind the outputs.
///
/// - row: launching foreign code is unsafe
/// - targets: `Algorithms::select`, `Algorithms::select_indices`, `Algorithms::offsets`, `Algorithms::exclusive_scan`,
///   `Algorithms::sum`, `Algorithms::min`
fn outputs_without_room(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let sort = GeometryKernels::new(&lab.context()?).algorithms();
    let n = 9000usize;
    let flags = DeviceBuffer::from_slice(&stream, &vec![255u8; n])?;
    let host: Vec<u32> = (0..n as u32).collect();
    let elements = DeviceBuffer::from_slice(&stream, &host)?;
    let mut out = DeviceBuffer::from_slice(&stream, &vec![7u32; n])?;
    let mut number = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    for room in [0usize, 1, 4095, 4097] {
        out.fill(&stream, 7)?;
        sort.select(&stream, &flags, &elements, out.slice_mut(..room)?, &mut number)?;
        let seen = out.to_vec(&stream)?;
        ensure_eq!(seen[..room], host[..room]);
        ensure!(seen[room..].iter().all(|x| *x == 7), "written behind {room} elements");
        ensure_eq!(number.to_vec(&stream)?, [n as u32]);
        sort.select_indices(&stream, &flags, out.slice_mut(1..1 + room)?, &mut number)?;
        ensure_eq!(out.slice(room + 1..)?.to_vec(&stream)?, vec![7; n - room - 1]);
    }
    lab.refused(
        sort.select(&stream, flags.slice(1..)?, &elements, &mut out, &mut number),
        "the flags of a selection has 8999 elements, not 9000",
    )?;
    let counts = DeviceBuffer::from_slice(&stream, &vec![u32::MAX; n])?;
    let mut offsets = DeviceBuffer::<u64>::zeroed(&stream, n + 1)?;
    sort.offsets(&stream, &counts, &mut offsets)?;
    ensure_eq!(offsets.to_vec(&stream)?[n], n as u64 * u64::from(u32::MAX));
    lab.refused(
        sort.offsets(&stream, &counts, offsets.slice_mut(..n)?),
        "the output of a scan to offsets has 9000 elements, not 9001",
    )?;
    sort.exclusive_scan(&stream, &counts, &mut out)?;
    ensure_eq!(out.to_vec(&stream)?[n - 1], (n as u32 - 1).wrapping_mul(u32::MAX));
    let none = elements.slice(..0)?;
    sort.sum(&stream, none, &mut number)?;
    ensure_eq!(number.to_vec(&stream)?, [0]);
    sort.min(&stream, none, &mut number)?;
    ensure_eq!(number.to_vec(&stream)?, [u32::MAX]);
    lab.refused(
        sort.sum(&stream, &elements, out.slice_mut(..2)?),
        "the result has 2 elements, not 1",
    )?;
    lab.refused(
        sort.sum(&stream, &elements, out.slice_mut(..0)?),
        "the result has 0 elements, not 1",
    )?;
    let mut infinite = DeviceBuffer::<f32>::zeroed(&stream, 1)?;
    let both = DeviceBuffer::from_slice(&stream, &[f32::INFINITY, f32::NEG_INFINITY, 1.0])?;
    sort.sum(&stream, &both, &mut infinite)?;
    ensure!(infinite.to_vec(&stream)?[0].is_nan());
    Ok(())
}

/// Records sorts with one scratch buffer in two graphs, drops what it can, and launches them on two streams at once.
///
/// - row: nothing slips in between
/// - row: a launch is ordered with all other work
/// - targets: `Algorithms::with_scratch`, `Algorithms::sort_keys`, `Context::capture`, `GraphExec::launch`
fn one_scratch_for_two_graphs(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let sort = GeometryKernels::new(&context).algorithms();
    let host: Vec<Vec<u32>> = (0..2u32)
        .map(|seed| (0..3000u32).map(|i| (i + seed).wrapping_mul(2_654_435_761)).collect())
        .collect();
    let mut scratch =
        DeviceBuffer::<u8>::zeroed(&stream, Algorithms::keys_scratch::<u32>(3000, ..)?)?;
    let within = sort.with_scratch(&mut scratch);
    let state = |i: usize, stream: &Stream| -> Result<_> {
        let keys = DeviceBuffer::from_slice(stream, &host[i])?;
        Ok((keys, DeviceBuffer::<u32>::zeroed(stream, 3000)?))
    };
    // Loads the kernels.
    let (keys, mut sorted) = state(0, &stream)?;
    within.sort_keys(&stream, &keys, &mut sorted, ..)?;
    let record = |stream: &Stream, (keys, sorted): &mut (DeviceBuffer<u32>, DeviceBuffer<u32>)| {
        within.sort_keys(stream, &*keys, &mut *sorted, ..)
    };
    let mut one = context.capture(state(0, &stream)?, record)?;
    let mut two = context.capture(state(1, &stream)?, record)?;
    let (first, second) = (context.stream()?, context.stream()?);
    std::thread::scope(|scope| -> TestResult {
        let launching = scope.spawn(|| (0..6).try_for_each(|_| two.launch(&second)));
        for _ in 0..6 {
            one.launch(&first)?;
        }
        launching.join().map_err(|_| test_harness::Failure::new("a panic"))??;
        Ok(())
    })?;
    for (graph, mut expected) in [one, two].into_iter().zip(host.clone()) {
        expected.sort_unstable();
        ensure_eq!(graph.into_state().1.to_vec(&stream)?, expected);
    }
    Ok(())
}

attacks![
    "geometry",
    right(grids_of_awkward_points).variants(&["free", "bounds", "tiny_bounds"]),
    refused(grids_that_cannot_be),
    refused(strides_that_lead_outside),
    right(own_points_of_another_build).variants(&["fewer", "more"]),
    refused(groups_that_are_not_there),
    right(radii_around_a_periodic_box),
    refused(keys_of_every_kind),
    refused(outputs_without_room),
    right(one_scratch_for_two_graphs),
];
