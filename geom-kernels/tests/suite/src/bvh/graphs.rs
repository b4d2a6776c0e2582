//! Builds and refits in graphs.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;
use geom_kernels::bvh::Bvh;

use super::inputs::{inputs, uniform};
use super::structure::{Structure, check};
use super::{BUILDERS, Fixture};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh",
        device(rebuild_in_a_graph_follows_the_boxes),
        device(refit_in_a_graph_follows_the_boxes),
        device(refit_after_a_graph_has_built_from_more),
        device(a_build_recorded_and_not_launched),
    ]
}

struct State {
    bvh: Bvh,
    boxes: DeviceBuffer<Aabb<f32>>,
}

fn rebuild_in_a_graph_follows_the_boxes(device: &TestDevice) -> TestResult {
    const N: usize = 250;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(720);
    for builder in BUILDERS {
        let bvh = fixture.with_capacity(N + 10, builder)?;
        let boxes = DeviceBuffer::zeroed(stream, N)?;
        let mut graph = device.context().capture(State { bvh, boxes }, |stream, state| {
            state.bvh.rebuild(stream, &state.boxes)
        })?;
        for input in inputs(&mut rng, N) {
            graph.state_mut().boxes.upload(stream, &input.boxes)?;
            graph.launch(stream)?;
            graph.launch(stream)?;
            check(stream, &graph.state().bvh, &input.boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
        }
    }
    Ok(())
}

fn refit_in_a_graph_follows_the_boxes(device: &TestDevice) -> TestResult {
    const N: usize = 300;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(721);
    for builder in BUILDERS {
        let built = uniform(&mut rng, N);
        let bvh = fixture.built(&built, builder)?;
        let boxes = DeviceBuffer::zeroed(stream, N)?;
        let mut graph = device
            .context()
            .capture(State { bvh, boxes }, |stream, state| state.bvh.refit(stream, &state.boxes))?;
        for input in inputs(&mut rng, N) {
            graph.state_mut().boxes.upload(stream, &input.boxes)?;
            graph.launch(stream)?;
            graph.launch(stream)?;
            Structure::checked(stream, &graph.state().bvh, &built, &input.boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
        }
    }
    Ok(())
}

/// What lies in the memory is from a graph's launch, and of more boxes than the host knows of: a refit
/// reads no box beyond those it is given, and a build after it is sound.
fn refit_after_a_graph_has_built_from_more(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(722);
    let (many, few) = (uniform(&mut rng, 1000), uniform(&mut rng, 10));
    for builder in BUILDERS {
        let (bvh, boxes) = (fixture.with_capacity(1000, builder)?, fixture.upload(&many)?);
        let mut graph = device.context().capture(State { bvh, boxes }, |stream, state| {
            state.bvh.rebuild(stream, &state.boxes)
        })?;
        let there = fixture.upload(&few)?;
        graph.state_mut().bvh.rebuild(stream, &there)?;
        graph.launch(stream)?;
        graph.state_mut().bvh.refit(stream, &there)?;
        let report = graph.state().bvh.report(stream)?;
        ensure_eq!((graph.state().bvh.len(), report.items), (10, 1000));
        // The items that there are boxes for make the bounds.
        let all = few.iter().copied().fold(Aabb::<f32>::EMPTY, super::structure::unite);
        ensure_eq!(report.bounds, Some(all));
        graph.state_mut().bvh.rebuild(stream, &there)?;
        check(stream, &graph.state().bvh, &few)?;
        graph.state_mut().bvh.refit(stream, &there)?;
        check(stream, &graph.state().bvh, &few)?;
    }
    Ok(())
}

fn a_build_recorded_and_not_launched(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    // Memory that others have left full of large numbers is what the hierarchy is likely to get.
    drop(DeviceBuffer::from_slice(stream, &vec![0x7fff_fff0u32; 100_000])?);
    for builder in BUILDERS {
        let bvh = fixture.with_capacity(100, builder)?;
        let boxes = fixture.upload(&uniform(&mut fixture.device.rng(723), 100))?;
        let mut graph = device.context().capture(State { bvh, boxes }, |stream, state| {
            state.bvh.rebuild(stream, &state.boxes)
        })?;
        let State { bvh, boxes } = graph.state_mut();
        ensure_eq!(bvh.len(), 100);
        // It has no items, whatever boxes it is given.
        bvh.refit(stream, &*boxes)?;
        let report = bvh.report(stream)?;
        ensure_eq!((report.items, report.nodes, report.bounds), (0, 1, None));
    }
    Ok(())
}
