//! Hash grids: every kind of grid, query and call.

use cuda_safe::vector::{Double3, Float3, Float4};
use geom_kernels::hash_grid::{GridOptions, HashGrid, Pairs};
use geom_kernels::structures::Exact;
use geom_kernels::structures::hash_grid::{At, GridQueries, HashGrid as CpuGrid, Neighbor};
use geom_kernels::{Points, Real};

use super::book::Book;
use super::calls::{self, Got, Lab, filled, filled_both};
use super::inputs::{SIZES, coordinates, rng};
use test_harness::{TestDevice, TestResult};

pub(super) fn f32s(device: &TestDevice, book: &mut Book) -> TestResult {
    all::<f32>(device, book)
}

pub(super) fn f64s(device: &TestDevice, book: &mut Book) -> TestResult {
    all::<f64>(device, book)
}

const N: usize = 400;
const GROUPS: u32 = 5;

/// Points of a grid; one in a hundred is not finite, and `far` are as far out as this.
fn input<T: Real>(seed: u64, far: f64) -> Vec<T> {
    let mut rng = rng(seed);
    let mut all = coordinates::<T>(&mut rng, N, 1.0);
    for i in 0..N {
        match i % 100 {
            50 => all[3 * i + 1] = T::narrow(f64::NAN),
            51 => all[3 * i] = T::narrow(f64::INFINITY),
            52 => all[3 * i + 2] = T::narrow(far * (1.0 + i as f64)),
            // The same place twice.
            53 => all.copy_within(3 * i - 3..3 * i, 3 * i),
            _ => {}
        }
    }
    all
}

fn kinds<T: Real>() -> Vec<(&'static str, GridOptions<T>, f64)> {
    let corner = |x: f64| [x, 0.9 * x, 0.8 * x].map(T::narrow);
    let (low, high) = (corner(-1.0), corner(1.0));
    vec![
        ("open", calls::open(), 1.0),
        ("rows", calls::open(), 100.0),
        ("hashed", calls::open(), 1e9),
        ("bounds", calls::bounded(low, high), 1.0),
        ("periodic", calls::periodic(low, high), 3.0),
        ("periodic_y", calls::periodic_in([false, true, false], low, high), 3.0),
        ("groups", calls::grouped(calls::open(), GROUPS), 1.0),
        ("bounded_groups", calls::grouped(calls::bounded(low, high), GROUPS), 1.0),
    ]
}

/// A grid of the device, and the same on the CPU.
type Both<'a, T> = (&'a HashGrid<T>, &'a CpuGrid<T>);

/// The grid on the CPU, with its coordinates one after the other and its groups.
fn rebuild_on_cpu<T: Exact>(
    grid: &mut CpuGrid<T>,
    coordinates: &[T],
    groups: Option<&[u32]>,
    radius: T,
) -> Got<()> {
    let (points, _) = coordinates.as_chunks::<3>();
    match groups {
        None => grid.rebuild(points, radius)?,
        Some(groups) => grid.rebuild_grouped(points, groups, radius)?,
    }
    Ok(())
}

fn all<T: Real + Exact>(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let radius = T::narrow(0.21);
    for (seed, (name, options, far)) in (10..).zip(kinds::<T>()) {
        let host_groups: Vec<u32> = (0..N as u32).map(|i| i * 7 % (GROUPS + 1)).collect();
        let groups = lab.up(&host_groups)?;
        let has_groups = name.ends_with("groups");
        let groups = has_groups.then_some(&groups);
        let host_groups = has_groups.then_some(&*host_groups);
        let host = input::<T>(seed, far);
        let points = lab.up(&host)?;
        let mut grid = calls::grid(&lab, options)?;
        calls::build_grid(&lab, &mut grid, calls::flat(&points)?, groups, radius)?;
        let mut on_cpu = CpuGrid::new(options)?;
        on_cpu.reserve(N)?;
        rebuild_on_cpu(&mut on_cpu, &host, host_groups, radius)?;
        let whole = name != "hashed" && name != "periodic_y";
        queries(&lab, book, name, (&grid, &on_cpu), (radius, N, whole))?;
        // Again, from the points in the opposite order.
        let reversed: Vec<T> = host.chunks(3).rev().flatten().copied().collect();
        let points = lab.up(&reversed)?;
        calls::rebuild_grid(&lab, &mut grid, calls::flat(&points)?, groups, radius)?;
        rebuild_on_cpu(&mut on_cpu, &reversed, host_groups, radius)?;
        let name = format!("{name}/rebuilt");
        report(&lab, book, &name, (&grid, &on_cpu))?;
        lists(&lab, book, &name, (&grid, &on_cpu), (radius, Pairs::All))?;
    }
    sizes::<T>(&lab, book)
}

fn report<T: Exact>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): Both<'_, T>,
) -> TestResult {
    let reports = [there.report(&lab.stream)?, here.report()];
    let [there, here] = reports.map(|report| calls::grid_report(&report));
    book.put_both(format!("{name}/report"), &there, &here)
}

fn lists<T: Exact>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): Both<'_, T>,
    (radius, pairs): (T, Pairs),
) -> TestResult {
    let (offsets, indices) = calls::neighbor_lists(lab, there, &calls::own(radius, pairs))?;
    let found = here.neighbor_lists(&GridQueries::at_grid_points(radius).pairs(pairs))?;
    book.put_both(format!("{name}/lists/offsets"), &offsets, &found.offsets)?;
    book.put_both(format!("{name}/lists/indices"), &indices, &found.indices)
}

/// The k nearest of queries on both sides.
fn nearest<T: Real + Exact>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (there, here): Both<'_, T>,
    queries: (&geom_kernels::hash_grid::GridQueries<'_, T>, &GridQueries<'_, T>),
    (n, k): (usize, usize),
) -> TestResult {
    let (indices, squares) = calls::nearest_points(lab, there, queries.0, (n, k))?;
    let (found, distances) = filled_both((n * k, n * k), |indices, squares| {
        here.k_nearest(queries.1, k, indices, squares)
    })?;
    book.put_both(format!("{name}/indices"), &indices, &found)?;
    book.put_both(format!("{name}/squares"), &squares, &distances)
}

/// All queries of one grid of n points.
fn queries<T: Real + Exact>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    both: Both<'_, T>,
    (radius, n, whole): (T, usize, bool),
) -> TestResult {
    let (there, here) = both;
    report(lab, book, name, both)?;
    for (which, pairs) in [("all", Pairs::All), ("others", Pairs::Others), ("half", Pairs::Half)] {
        let counts = calls::neighbor_counts(lab, there, &calls::own(radius, pairs), n)?;
        let own = GridQueries::at_grid_points(radius).pairs(pairs);
        let found = filled(n, |counts| here.count_neighbors(&own, counts))?;
        book.put_both(format!("{name}/{which}/counts"), &counts, &found)?;
        lists(lab, book, &format!("{name}/{which}"), both, (radius, pairs))?;
    }
    for (k, reach) in [(1, radius), (5, T::narrow(0.5)), (33, T::narrow(f64::INFINITY))] {
        let own = calls::own(reach, Pairs::Others);
        let on_cpu = GridQueries::at_grid_points(reach).pairs(Pairs::Others);
        nearest(lab, book, &format!("{name}/nearest_{k}"), both, (&own, &on_cpu), (n, k))?;
    }
    // Anywhere, with radii and groups of their own.
    let m = 65;
    let mut rng = rng(30);
    let mut host = coordinates::<T>(&mut rng, m, 1.3);
    host[7] = T::narrow(f64::NAN);
    let points = lab.up(&host)?;
    let host_radii: Vec<T> = (0..m).map(|i| T::narrow(0.008 * i as f64 - 0.01)).collect();
    let radii = lab.up(&host_radii)?;
    let host_groups: Vec<u32> = (0..m as u32).map(|i| i % 7).collect();
    let groups = lab.up(&host_groups)?;
    let (host, _) = host.as_chunks::<3>();
    let plain = GridQueries::at(host, radius);
    let with_each = plain.within_each(&host_radii).groups(&host_groups);
    for (which, sorted) in [("given", false), ("sorted", true)] {
        let at = calls::at(calls::flat(&points)?, radius, sorted);
        let each = calls::with_groups(calls::with_radii(at, &radii), &groups);
        for (which, queries, on_cpu) in
            [(which.to_owned(), at, plain), (format!("{which}_radii"), each, with_each)]
        {
            let name = format!("{name}/{which}");
            let counts = calls::neighbor_counts(lab, there, &queries, m)?;
            let found = filled(m, |counts| here.count_neighbors(&on_cpu, counts))?;
            book.put_both(format!("{name}/counts"), &counts, &found)?;
            let total = counts.iter().map(|n| *n as usize).sum::<usize>();
            for (room, size) in [("more", total + 9), ("less", total / 2)] {
                let (offsets, indices) =
                    calls::neighbor_lists_into(lab, there, &queries, (m, size))?;
                let (found_offsets, found) = filled_both((m + 1, size), |offsets, indices| {
                    here.neighbor_lists_into(&on_cpu, offsets, indices)
                })?;
                book.put_both(format!("{name}/into_{room}/offsets"), &offsets, &found_offsets)?;
                book.put_both(format!("{name}/into_{room}/indices"), &indices, &found)?;
            }
            if !whole {
                continue;
            }
            for k in if sorted { [1, 8] } else { [2, 128] } {
                let name = format!("{name}/nearest_{k}");
                nearest(lab, book, &name, both, (&queries, &on_cpu), (m, k))?;
            }
        }
    }
    let infinite = T::narrow(f64::INFINITY);
    let wide = calls::at(calls::flat(&points)?, infinite, false);
    let on_cpu = GridQueries::at(host, infinite);
    nearest(lab, book, &format!("{name}/nearest_of_all"), both, (&wide, &on_cpu), (m, 4))
}

/// Grids of few points, in memory that was reserved, and points that lie otherwise.
fn sizes<T: Real + Exact>(lab: &Lab, book: &mut Book) -> TestResult {
    let radius = T::narrow(0.4);
    let mut grid = calls::grid(lab, calls::open::<T>())?;
    calls::reserve_grid(lab, &mut grid, 40)?;
    let mut on_cpu = CpuGrid::new(calls::open::<T>())?;
    on_cpu.reserve(40)?;
    for n in SIZES {
        let host = coordinates::<T>(&mut rng(40), n, 1.0);
        let points = lab.up(&host)?;
        calls::rebuild_grid(lab, &mut grid, calls::flat(&points)?, None, radius)?;
        rebuild_on_cpu(&mut on_cpu, &host, None, radius)?;
        let (name, both) = (format!("size_{n}"), (&grid, &on_cpu));
        report(lab, book, &name, both)?;
        lists(lab, book, &name, both, (radius, Pairs::All))?;
        let own = (&calls::own(radius, Pairs::All), &GridQueries::at_grid_points(radius));
        nearest(lab, book, &format!("{name}/nearest"), both, own, (n, 3))?;
    }
    // 60 points in rows of 8 numbers, and as three arrays.
    let host = coordinates::<T>(&mut rng(41), 160, 1.0);
    let data = lab.up(&host)?;
    for (name, layout) in [("rows_of_8", [60, 8, 1]), ("three_arrays", [60, 1, 60])] {
        calls::build_grid(lab, &mut grid, calls::strided(&data, layout)?, None, radius)?;
        let [n, stride, component] = layout;
        let number = |i| host[i / 3 * stride + i % 3 * component];
        let coordinates: Vec<T> = (0..3 * n).map(number).collect();
        on_cpu.reserve(n)?;
        rebuild_on_cpu(&mut on_cpu, &coordinates, None, radius)?;
        lists(lab, book, name, (&grid, &on_cpu), (radius, Pairs::Half))?;
    }
    Ok(())
}

/// Points as vectors, and sums over neighbours. Snippets are compiled where they run, so they add numbers whose sums
/// are exact: their bits don't depend on the compiler.
pub(super) fn sums(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let mut rng = rng(50);
    let host: Vec<[f32; 3]> =
        (0..400).map(|_| [0; 3].map(|_: i32| rng.below(256) as f32 / 128.0 - 1.0)).collect();
    let threes: Vec<Float3> = host.iter().map(|[x, y, z]| Float3 { x: *x, y: *y, z: *z }).collect();
    let fours: Vec<Float4> =
        host.iter().map(|[x, y, z]| Float4 { x: *x, y: *y, z: *z, w: 9.0 }).collect();
    let doubles: Vec<Double3> =
        (host.iter().map(|p| p.map(f64::from))).map(|[x, y, z]| Double3 { x, y, z }).collect();
    let wide: Vec<[f64; 3]> = host.iter().map(|p| p.map(f64::from)).collect();
    of(&lab, book, "arrays", (Points::from(&lab.up(&host)?), &host))?;
    of(&lab, book, "float3", (Points::from(&lab.up(&threes)?), &host))?;
    of(&lab, book, "float4", (Points::from(&lab.up(&fours)?), &host))?;
    of(&lab, book, "double_arrays", (Points::from(&lab.up(&wide)?), &wide))?;
    of(&lab, book, "double3", (Points::from(&lab.up(&doubles)?), &wide))
}

fn of<T: Real + Exact>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    (points, host): (Points<'_, T>, &[[T; 3]]),
) -> TestResult {
    let radius = T::narrow(0.25);
    let n = points.len();
    let mut grid = calls::grid(lab, calls::open::<T>())?;
    calls::build_grid(lab, &mut grid, points, None, radius)?;
    let on_cpu = CpuGrid::build(host, radius, calls::open::<T>())?;
    lists(lab, book, name, (&grid, &on_cpu), (radius, Pairs::All))?;
    let own = calls::own(radius, Pairs::Others);
    let queries = GridQueries::at_grid_points(radius).pairs(Pairs::Others);
    let snippet =
        "sum.x += n.position.x; sum.y += n.position.y; sum.z += n.delta.z; sum.w += n.index;";
    // SAFETY: float4 is Float4; the snippet touches its arguments alone.
    let sums: Vec<Float4> =
        unsafe { calls::neighbor_sums(lab, &grid, &own, ("float4", snippet, None), n) }?;
    let mut found = vec![[0.0f32; 4]; n];
    on_cpu.neighbor_sums(&queries, &mut found, |sum, near: &Neighbor<T>, _| {
        let terms = [near.position[0], near.position[1], near.delta[2]].map(T::wide);
        for (sum, term) in sum.iter_mut().zip(terms) {
            *sum += term as f32;
        }
        sum[3] += near.index as f32;
    })?;
    book.put_both(format!("{name}/positions"), &sums, bytemuck::cast_slice(&found))?;
    let snippet = "sum += n.index ^ data ^ i;";
    // SAFETY: the types are the same on both sides; the snippet touches its arguments alone.
    let sums: Vec<u64> = unsafe {
        calls::neighbor_sums(lab, &grid, &own, ("unsigned long long", snippet, Some(5)), n)
    }?;
    let mut found = vec![0; n];
    on_cpu.neighbor_sums(&queries, &mut found, |sum, near, at: &At<T>| {
        *sum += u64::from(near.index ^ 5 ^ at.index);
    })?;
    book.put_both(format!("{name}/indices"), &sums, &found)
}
