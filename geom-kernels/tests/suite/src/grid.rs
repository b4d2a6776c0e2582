//! What hash grids ask of the driver.

use cuda_safe::DeviceBuffer;
use geom_kernels::GeometryKernels;
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};

use test_harness::lab::Lab;
use test_harness::{Case, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["grid", host(rebuild_only_launches), host(queries_of_own_points_only_launch),]
}

/// Neither allocates nor waits: launches, and a memset or two.
fn only_enqueues(calls: &[&str]) -> TestResult {
    let enqueues = |call: &&str| call.starts_with("cuLaunch") || call.starts_with("cuMemset");
    ensure!(!calls.is_empty() && calls.iter().all(enqueues), "{calls:?}");
    Ok(())
}

fn rebuild_only_launches() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let geometry = GeometryKernels::new(&lab.context);
    let points = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 1000)?;
    let bounded = GridOptions::default().bounds([0.0; 3], [1.0; 3]);
    for options in [GridOptions::default(), bounded] {
        let mut grid = HashGrid::new(&stream, &geometry, options)?;
        grid.reserve(&stream, 1000)?;
        // The first launches compare the arguments' types.
        grid.rebuild(&stream, &points, 0.1)?;
        let (calls, ()) = lab.calls(|| grid.rebuild(&stream, &points, 0.1))?;
        only_enqueues(&calls)?;
        // Less than is reserved, and `reserve` where there is room.
        let (calls, ()) = lab.calls(|| grid.rebuild(&stream, points.slice(..10)?, 0.1))?;
        only_enqueues(&calls)?;
        let (calls, ()) = lab.calls(|| {
            grid.reserve(&stream, points.len())?;
            grid.rebuild(&stream, &points, 0.2)
        })?;
        only_enqueues(&calls)?;
        let (calls, ()) = lab.calls(|| grid.reserve(&stream, 1000))?;
        ensure!(calls.is_empty(), "{calls:?}");
        // More: one allocation for all of it.
        let (calls, ()) = lab.calls(|| grid.reserve(&stream, 2000))?;
        let allocations = calls.iter().filter(|call| call.contains("Alloc")).count();
        ensure_eq!(allocations, 1, "{calls:?}");
        drop(grid);
    }
    drop((points, geometry, stream));
    lab.close()
}

fn queries_of_own_points_only_launch() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let geometry = GeometryKernels::new(&lab.context);
    let points = DeviceBuffer::<[f32; 3]>::zeroed(&stream, 1000)?;
    let grid = HashGrid::build(&stream, &geometry, &points, 0.1, GridOptions::default())?;
    let mut counts = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let mut squares = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    for queries in [GridQueries::at_grid_points(0.1), GridQueries::at(&points, 0.1)] {
        grid.count_neighbors(&stream, &queries, &mut counts)?;
        let (calls, ()) = lab.calls(|| grid.count_neighbors(&stream, &queries, &mut counts))?;
        ensure_eq!(calls, ["cuLaunchKernel"]);
        grid.k_nearest(&stream, &queries, 1, &mut counts, &mut squares)?;
        let nearest = || grid.k_nearest(&stream, &queries, 1, &mut counts, &mut squares);
        let (calls, ()) = lab.calls(nearest)?;
        ensure_eq!(calls, ["cuLaunchKernel"]);
    }
    drop((points, counts, squares, grid, geometry, stream));
    lab.close()
}
