//! Hash grids: every kind of grid, query and call.

use cuda_safe::vector::{Double3, Float3, Float4};
use geom_kernels::hash_grid::{GridOptions, HashGrid, Pairs};
use geom_kernels::{Points, Real};

use super::book::Book;
use super::calls::{self, Lab, Plain};
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

fn all<T: Real>(device: &TestDevice, book: &mut Book) -> TestResult {
    let lab = Lab::new(device)?;
    let radius = T::narrow(0.21);
    for (seed, (name, options, far)) in (10..).zip(kinds::<T>()) {
        let groups: Vec<u32> = (0..N as u32).map(|i| i * 7 % (GROUPS + 1)).collect();
        let groups = lab.up(&groups)?;
        let groups = name.ends_with("groups").then_some(&groups);
        let host = input::<T>(seed, far);
        let points = lab.up(&host)?;
        let mut grid = calls::grid(&lab, options)?;
        calls::build_grid(&lab, &mut grid, calls::flat(&points)?, groups, radius)?;
        let whole = name != "hashed" && name != "periodic_y";
        queries(&lab, book, name, &grid, (radius, N, whole))?;
        // Again, from the points in the opposite order.
        let reversed: Vec<T> = host.chunks(3).rev().flatten().copied().collect();
        let points = lab.up(&reversed)?;
        calls::rebuild_grid(&lab, &mut grid, calls::flat(&points)?, groups, radius)?;
        book.put(format!("{name}/rebuilt/report"), &calls::grid_report(&lab, &grid)?);
        lists(&lab, book, &format!("{name}/rebuilt"), &grid, (radius, Pairs::All))?;
    }
    sizes::<T>(&lab, book)
}

fn lists<T: Real>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    grid: &HashGrid<T>,
    (radius, pairs): (T, Pairs),
) -> TestResult {
    let (offsets, indices) = calls::neighbor_lists(lab, grid, &calls::own(radius, pairs))?;
    book.put(format!("{name}/lists/offsets"), &offsets);
    book.put(format!("{name}/lists/indices"), &indices);
    Ok(())
}

/// All queries of one grid of n points.
fn queries<T: Real>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    grid: &HashGrid<T>,
    (radius, n, whole): (T, usize, bool),
) -> TestResult {
    book.put(format!("{name}/report"), &calls::grid_report(lab, grid)?);
    for (which, pairs) in [("all", Pairs::All), ("others", Pairs::Others), ("half", Pairs::Half)] {
        let own = calls::own(radius, pairs);
        book.put(format!("{name}/{which}/counts"), &calls::neighbor_counts(lab, grid, &own, n)?);
        lists(lab, book, &format!("{name}/{which}"), grid, (radius, pairs))?;
    }
    for (k, reach) in [(1, radius), (5, T::narrow(0.5)), (33, T::narrow(f64::INFINITY))] {
        let own = calls::own(reach, Pairs::Others);
        let (indices, squares) = calls::nearest_points(lab, grid, &own, (n, k))?;
        book.put(format!("{name}/nearest_{k}/indices"), &indices);
        book.put(format!("{name}/nearest_{k}/squares"), &squares);
    }
    // Anywhere, with radii and groups of their own.
    let m = 65;
    let mut rng = rng(30);
    let mut host = coordinates::<T>(&mut rng, m, 1.3);
    host[7] = T::narrow(f64::NAN);
    let points = lab.up(&host)?;
    let radii: Vec<T> = (0..m).map(|i| T::narrow(0.008 * i as f64 - 0.01)).collect();
    let radii = lab.up(&radii)?;
    let groups: Vec<u32> = (0..m as u32).map(|i| i % 7).collect();
    let groups = lab.up(&groups)?;
    for (which, sorted) in [("given", false), ("sorted", true)] {
        let at = calls::at(calls::flat(&points)?, radius, sorted);
        let each = calls::with_groups(calls::with_radii(at, &radii), &groups);
        for (which, queries) in [(which.to_owned(), at), (format!("{which}_radii"), each)] {
            let counts = calls::neighbor_counts(lab, grid, &queries, m)?;
            book.put(format!("{name}/{which}/counts"), &counts);
            let total = counts.iter().map(|n| *n as usize).sum::<usize>();
            for (room, size) in [("more", total + 9), ("less", total / 2)] {
                let (offsets, indices) =
                    calls::neighbor_lists_into(lab, grid, &queries, (m, size))?;
                book.put(format!("{name}/{which}/into_{room}/offsets"), &offsets);
                book.put(format!("{name}/{which}/into_{room}/indices"), &indices);
            }
            if !whole {
                continue;
            }
            for k in if sorted { [1, 8] } else { [2, 128] } {
                let (indices, squares) = calls::nearest_points(lab, grid, &queries, (m, k))?;
                book.put(format!("{name}/{which}/nearest_{k}/indices"), &indices);
                book.put(format!("{name}/{which}/nearest_{k}/squares"), &squares);
            }
        }
    }
    let wide = calls::at(calls::flat(&points)?, T::narrow(f64::INFINITY), false);
    let (indices, squares) = calls::nearest_points(lab, grid, &wide, (m, 4))?;
    book.put(format!("{name}/nearest_of_all/indices"), &indices);
    book.put(format!("{name}/nearest_of_all/squares"), &squares);
    Ok(())
}

/// Grids of few points, in memory that was reserved, and points that lie otherwise.
fn sizes<T: Real>(lab: &Lab, book: &mut Book) -> TestResult {
    let radius = T::narrow(0.4);
    let mut grid = calls::grid(lab, calls::open::<T>())?;
    calls::reserve_grid(lab, &mut grid, 40)?;
    for n in SIZES {
        let points = lab.up(&coordinates::<T>(&mut rng(40), n, 1.0))?;
        calls::rebuild_grid(lab, &mut grid, calls::flat(&points)?, None, radius)?;
        book.put(format!("size_{n}/report"), &calls::grid_report(lab, &grid)?);
        lists(lab, book, &format!("size_{n}"), &grid, (radius, Pairs::All))?;
        let own = calls::own(radius, Pairs::All);
        let (indices, squares) = calls::nearest_points(lab, &grid, &own, (n, 3))?;
        book.put(format!("size_{n}/nearest/indices"), &indices);
        book.put(format!("size_{n}/nearest/squares"), &squares);
    }
    // 60 points in rows of 8 numbers, and as three arrays.
    let data = lab.up(&coordinates::<T>(&mut rng(41), 160, 1.0))?;
    for (name, layout) in [("rows_of_8", [60, 8, 1]), ("three_arrays", [60, 1, 60])] {
        calls::build_grid(lab, &mut grid, calls::strided(&data, layout)?, None, radius)?;
        lists(lab, book, name, &grid, (radius, Pairs::Half))?;
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
    of(&lab, book, "arrays", Points::from(&lab.up(&host)?))?;
    of(&lab, book, "float3", Points::from(&lab.up(&threes)?))?;
    of(&lab, book, "float4", Points::from(&lab.up(&fours)?))?;
    of::<f64>(&lab, book, "double_arrays", Points::from(&lab.up(&wide)?))?;
    of::<f64>(&lab, book, "double3", Points::from(&lab.up(&doubles)?))
}

fn of<T: Real + Plain>(
    lab: &Lab,
    book: &mut Book,
    name: &str,
    points: Points<'_, T>,
) -> TestResult {
    let radius = T::narrow(0.25);
    let n = points.len();
    let mut grid = calls::grid(lab, calls::open::<T>())?;
    calls::build_grid(lab, &mut grid, points, None, radius)?;
    lists(lab, book, name, &grid, (radius, Pairs::All))?;
    let own = calls::own(radius, Pairs::Others);
    let snippet =
        "sum.x += n.position.x; sum.y += n.position.y; sum.z += n.delta.z; sum.w += n.index;";
    // SAFETY: float4 is Float4; the snippet touches its arguments alone.
    let sums: Vec<Float4> =
        unsafe { calls::neighbor_sums(lab, &grid, &own, ("float4", snippet, None), n) }?;
    book.put(format!("{name}/positions"), &sums);
    let snippet = "sum += n.index ^ data ^ i;";
    // SAFETY: the types are the same on both sides; the snippet touches its arguments alone.
    let sums: Vec<u64> = unsafe {
        calls::neighbor_sums(lab, &grid, &own, ("unsigned long long", snippet, Some(5)), n)
    }?;
    book.put(format!("{name}/indices"), &sums);
    Ok(())
}
