//! Sums of what a snippet says, against sums in f64.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, DeviceRepr, ErrorKind};
use geom_kernels::hash_grid::{GridQueries, NeighborSum, Pairs};

use super::Fixture;
use super::inputs::uniform;
use super::oracle::{Oracle, Space};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused,
    ensure_refused_for, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(sums_of_positions),
        device(sums_of_other_types),
        device(sums_see_what_they_are_given),
        device(snippets_that_do_not_compile),
    ]
}

/// The article's sum.
fn sums_of_positions(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let input = uniform::<f32>(&mut device.rng(550), 500);
    let grid = fixture.built(&input.points, input.radius)?;
    let oracle = Oracle::new(Space::open(), &input.points, None);
    // SAFETY: float4 is Float4; the snippet touches its arguments alone.
    let sum = unsafe {
        NeighborSum::<f32, Float4>::compile(
            &fixture.geometry,
            "float4",
            None,
            "sum.x += n.position.x; sum.y += n.position.y; sum.z += n.position.z; sum.w += 1.0f;",
        )
    }?;
    let mut sums = DeviceBuffer::<Float4>::zeroed(&fixture.stream, 500)?;
    let queries = GridQueries::at_grid_points(input.radius);
    sum.run(&fixture.stream, &grid, &queries, &mut sums)?;
    let first = sums.to_vec(&fixture.stream)?;
    for (query, sum) in input.points.iter().zip(&first) {
        let near = oracle.near(*query, input.radius, 0);
        ensure_eq!(sum.w, near.len() as f32);
        for (axis, sum) in [sum.x, sum.y, sum.z].into_iter().enumerate() {
            let exact: f64 =
                near.iter().map(|(j, _)| f64::from(input.points[*j as usize][axis])).sum();
            // All terms are positive: each addition rounds by at most half a unit of the whole sum.
            let bound = f64::from(f32::EPSILON) * near.len() as f64 * exact;
            ensure!((f64::from(sum) - exact).abs() <= bound, "{sum} instead of {exact}");
        }
    }
    // The same order, so the same bits.
    sums.fill(&fixture.stream, Float4 { x: 0.0, y: 0.0, z: 0.0, w: 0.0 })?;
    sum.run(&fixture.stream, &grid, &queries, &mut sums)?;
    ensure!(sums.to_vec(&fixture.stream)? == first);
    Ok(())
}

/// A type of the test's.
#[derive(Debug, Clone, Copy, PartialEq, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Facts {
    count: u32,
    largest: u32,
    sum: f64,
}

// SAFETY: repr(C), and the fields of the struct that the snippet's program declares, in its order.
unsafe impl DeviceRepr for Facts {}

fn sums_of_other_types(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let input = uniform::<f64>(&mut device.rng(551), 300);
    let grid = fixture.built(&input.points, input.radius)?;
    let oracle = Oracle::new(Space::open(), &input.points, None);
    let near: Vec<Vec<(u32, f64)>> =
        input.points.iter().map(|query| oracle.near(*query, input.radius, 0)).collect();
    let queries = GridQueries::at_grid_points(input.radius);
    let geometry = &fixture.geometry;
    // SAFETY: the types are the same on both sides; the snippet touches its arguments alone.
    let count = unsafe { NeighborSum::<f64, u32>::compile(geometry, "unsigned", None, "++sum;") }?;
    let mut counts = DeviceBuffer::<u32>::zeroed(stream, 300)?;
    count.run(stream, &grid, &queries, &mut counts)?;
    let wanted: Vec<u32> = near.iter().map(|near| near.len() as u32).collect();
    first_difference(&counts.to_vec(stream)?, &wanted)?;

    // Of doubles, and of floats: kernels weighted by distance.
    let snippet = "Real w = 1 - n.distance_squared / (r * r); sum += w * w * w;";
    // SAFETY: as above.
    let double = unsafe { NeighborSum::<f64, f64>::compile(geometry, "double", None, snippet) }?;
    let mut sums = DeviceBuffer::<f64>::zeroed(stream, 300)?;
    double.run(stream, &grid, &queries, &mut sums)?;
    // SAFETY: as above.
    let float = unsafe { NeighborSum::<f64, f32>::compile(geometry, "float", None, snippet) }?;
    let mut rounded = DeviceBuffer::<f32>::zeroed(stream, 300)?;
    float.run(stream, &grid, &queries, &mut rounded)?;
    let both = sums.to_vec(stream)?.into_iter().zip(rounded.to_vec(stream)?);
    for (near, (sum, rounded)) in near.iter().zip(both) {
        let weight = |square: f64| (1.0 - square / (input.radius * input.radius)).powi(3);
        let exact: f64 = near.iter().map(|(_, square)| weight(*square)).sum();
        ensure!((sum - exact).abs() <= 1e-13 * (1.0 + exact), "{sum} instead of {exact}");
        let bound = 1e-5 * (1.0 + exact);
        ensure!((f64::from(rounded) - exact).abs() <= bound, "{rounded} instead of {exact}");
    }

    // SAFETY: the struct has the fields of Facts.
    let facts = unsafe {
        NeighborSum::<f64, Facts>::compile(
            geometry,
            "struct { unsigned count, largest; double sum; }",
            None,
            "++sum.count; sum.largest = n.index > sum.largest ? n.index : sum.largest;
             sum.sum += n.delta.x + n.delta.y + n.delta.z;",
        )
    }?;
    let mut all = DeviceBuffer::<Facts>::zeroed(stream, 300)?;
    facts.run(stream, &grid, &queries.pairs(Pairs::Half), &mut all)?;
    for ((i, near), facts) in (0..).zip(&near).zip(all.to_vec(stream)?) {
        let later: Vec<u32> = near.iter().map(|(j, _)| *j).filter(|j| *j > i).collect();
        ensure_eq!(facts.count, later.len() as u32);
        ensure_eq!(facts.largest, later.last().copied().unwrap_or(0));
        let at = |j: u32| input.points[j as usize].iter().sum::<f64>();
        let exact: f64 = later.iter().map(|j| at(i) - at(*j)).sum();
        ensure!((facts.sum - exact).abs() < 1e-12, "{} instead of {exact}", facts.sum);
    }
    Ok(())
}

/// Data, the query and its index and radius; others than the grid's points.
fn sums_see_what_they_are_given(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let input = uniform::<f32>(&mut device.rng(552), 200);
    let grid = fixture.built(&input.points, input.radius)?;
    let masses: Vec<f32> = (0..200).map(|i| (i % 16) as f32).collect();
    let masses_there = fixture.upload(&masses)?;
    let radii: Vec<f32> = (0..200).map(|i| input.radius * (i % 5) as f32 / 4.0).collect();
    let radii_there = fixture.upload(&radii)?;
    // SAFETY: indices are of points, of which there are as many as masses.
    let sum = unsafe {
        NeighborSum::<f32, Float4>::compile(
            &fixture.geometry,
            "float4",
            Some("const float*"),
            "sum.x += data[n.index]; sum.y = x.y; sum.z = i; sum.w = r;",
        )
    }?;
    let mut sums = DeviceBuffer::<Float4>::zeroed(stream, 200)?;
    let at: Vec<[f32; 3]> = input.points.iter().rev().copied().collect();
    let at_there = fixture.upload(&at)?;
    let queries = GridQueries::at(&at_there, 0.0).within_each(&radii_there);
    // SAFETY: the snippet reads a mass for each index of a point, of which there are as many.
    unsafe { sum.run_with(stream, &grid, &queries, &masses_there, &mut sums) }?;
    let oracle = Oracle::new(Space::open(), &input.points, None);
    for (i, sum) in sums.to_vec(stream)?.into_iter().enumerate() {
        let near = oracle.near(at[i], radii[i], 0);
        let mass = near.iter().map(|(j, _)| masses[*j as usize]).sum();
        let wanted = Float4 { x: mass, y: at[i][1], z: i as f32, w: radii[i] };
        ensure!(sum == wanted, "{i}: {sum:?}, not {wanted:?}");
    }

    // Another type of data than it was compiled for, and the wrong number of sums.
    let refused = sum.run(stream, &grid, &queries, &mut sums);
    // No data, where the snippet needs them.
    ensure_refused(refused)?;
    // SAFETY: a number is too short for a pointer, so nothing is launched.
    let refused = unsafe { sum.run_with(stream, &grid, &queries, 1u32, &mut sums) };
    // A number for a pointer.
    ensure_refused(refused)?;
    // SAFETY: as above, and with too few sums nothing is launched.
    let refused =
        unsafe { sum.run_with(stream, &grid, &queries, &masses_there, sums.slice_mut(1..)?) };
    ensure_refused_for(refused, "199")?;
    Ok(())
}

fn snippets_that_do_not_compile(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    // SAFETY: it can't be run.
    let sum = unsafe {
        NeighborSum::<f32, f32>::compile(
            &fixture.geometry,
            "float",
            None,
            "sum += 1.0f;\nsum += n.no_such_field;",
        )
    };
    match sum {
        Ok(_) => Err(Failure::new("it was compiled")),
        Err(error) => {
            ensure!(matches!(error.kind(), ErrorKind::Compile(_)), "{error}");
            // The compiler names the snippet and the line in it.
            let text = format!("{error} {:?}", error.kind());
            ensure!(text.contains("snippet(2)"), "{text}");
            ensure!(text.contains("no_such_field"), "{text}");
            Ok(())
        }
    }
}
