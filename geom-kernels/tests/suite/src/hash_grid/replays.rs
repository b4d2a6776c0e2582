//! Grids that graphs build: what lies in them is what the graph's launch left there, whatever the host
//! enqueued last.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::hash_grid::{GridOptions, GridQueries, HashGrid};

use super::Fixture;
use super::number::inside;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "hash_grid",
        device(a_build_recorded_and_not_launched),
        device(a_graph_builds_from_more_points),
        device(a_graph_of_another_thread_builds),
    ]
}

const RADIUS: f32 = 0.2;
/// With which the answers of queries that there are not are recognised.
const UNTOUCHED: u32 = 0xabcd_ef01;

fn points(device: &TestDevice, n: usize) -> Vec<[f32; 3]> {
    let mut rng = device.rng(590);
    (0..n).map(|_| inside(&mut rng, 0.0, 1.0)).collect()
}

/// Counts and nearest neighbours of own points, in larger buffers whose rest must stay as it is.
fn ask(stream: &Stream, grid: &HashGrid<f32>) -> Result<Vec<u32>, Failure> {
    let n = grid.len();
    let mut counts = DeviceBuffer::from_slice(stream, &vec![UNTOUCHED; n + 5000])?;
    let own = GridQueries::at_grid_points(RADIUS);
    grid.count_neighbors(stream, &own, counts.slice_mut(..n)?)?;
    let mut nearest = DeviceBuffer::from_slice(stream, &vec![UNTOUCHED; 2 * n + 5000])?;
    let mut distances = DeviceBuffer::<f32>::zeroed(stream, 2 * n)?;
    grid.k_nearest(stream, &own, 2, nearest.slice_mut(..2 * n)?, &mut distances)?;
    let (counts, nearest) = (counts.to_vec(stream)?, nearest.to_vec(stream)?);
    ensure!(counts[n..].iter().chain(&nearest[2 * n..]).all(|word| *word == UNTOUCHED));
    // Lists, too, stay inside.
    grid.neighbor_lists(stream, &own)?;
    Ok(counts[..n].to_vec())
}

fn a_build_recorded_and_not_launched(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let there = fixture.upload(&points(device, 100))?;
    // Memory that others have left full of large numbers is what the grid is likely to get.
    drop(fixture.upload(&vec![0x7fff_fff0u32; 100_000])?);
    for options in [GridOptions::default(), GridOptions::default().bounds([0.0; 3], [1.0; 3])] {
        let mut grid = fixture.grid(options)?;
        grid.reserve(stream, 100)?;
        let graph = device.context().capture((grid, &there), |stream, (grid, there)| {
            grid.rebuild(stream, *there, RADIUS)
        })?;
        ensure_eq!(graph.state().0.len(), 100);
        ask(stream, &graph.state().0)?;
    }
    Ok(())
}

fn a_graph_builds_from_more_points(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let (many, few) = (points(device, 1000), points(device, 10));
    let (many_there, few_there) = (fixture.upload(&many)?, fixture.upload(&few)?);
    let mut grid = fixture.grid(GridOptions::default())?;
    grid.reserve(stream, many_there.len())?;
    grid.rebuild(stream, &many_there, RADIUS)?;
    let wanted = ask(stream, &grid)?;
    let mut graph = device.context().capture((grid, &many_there), |stream, (grid, there)| {
        grid.rebuild(stream, *there, RADIUS)
    })?;
    graph.state_mut().0.rebuild(stream, &few_there, RADIUS)?;
    graph.launch(stream)?;
    // Ten queries are asked, and a thousand points are there.
    let counts = ask(stream, &graph.state().0)?;
    for (i, count) in counts.iter().enumerate() {
        ensure!(*count == UNTOUCHED || *count == wanted[i], "{i}: {count}, not {}", wanted[i]);
    }
    Ok(())
}

/// One thread builds a grid while another launches a graph that builds the same one.
fn a_graph_of_another_thread_builds(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let (stream, other) = (&fixture.stream, device.stream()?);
    let (many, few) = (points(device, 20_000), points(device, 3000));
    let (many_there, few_there) = (fixture.upload(&many)?, fixture.upload(&few)?);
    for options in [GridOptions::default(), GridOptions::default().bounds([0.0; 3], [1.0; 3])] {
        let mut grid = fixture.grid(options)?;
        grid.reserve(stream, many.len())?;
        let spare = fixture.grid(options)?;
        let mut graph =
            device.context().capture((grid, &many_there), |stream, (grid, there)| {
                grid.rebuild(stream, *there, 0.05)
            })?;
        let mut grid = std::mem::replace(&mut graph.state_mut().0, spare);
        let (done, launched) = (AtomicBool::new(false), AtomicU32::new(0));
        std::thread::scope(|scope| -> TestResult {
            let launches = scope.spawn(|| -> cuda_safe::Result<()> {
                while !done.load(Ordering::Relaxed) {
                    graph.launch(&other)?;
                    if launched.fetch_add(1, Ordering::Relaxed) % 8 == 7 {
                        other.synchronize()?;
                    }
                }
                Ok(())
            });
            let mut builds = || -> TestResult {
                // On a busy machine the other thread may not have begun when twelve are done.
                let mut built = 0;
                let begun = || launched.load(Ordering::Relaxed) > 0 || launches.is_finished();
                while built < 12 || !begun() {
                    built += 1;
                    grid.rebuild(stream, &few_there, 0.05)?;
                    stream.synchronize()?;
                }
                Ok(())
            };
            let built = builds();
            done.store(true, Ordering::Relaxed);
            let ended = launches.join();
            built?;
            ended.map_err(|_| Failure::new("the thread panicked"))??;
            ensure!(launched.load(Ordering::Relaxed) > 0);
            Ok(())
        })?;
        // What came last counts, and it is whole.
        grid.rebuild(stream, &few_there, 0.05)?;
        ensure_eq!(grid.report(stream)?.points, few.len());
        ask(stream, &grid)?;
    }
    Ok(())
}
