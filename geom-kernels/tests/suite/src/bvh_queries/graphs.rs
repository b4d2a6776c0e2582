//! Queries in graphs, of hierarchies that graphs build.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;
use geom_kernels::bvh::Bvh;

use super::inputs::{inputs, uniform};
use super::oracle::{in_box, items};
use super::{BUILDERS, Fixture};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh_queries",
        device(graphs_build_and_ask_again),
        device(a_build_recorded_and_not_launched),
        device(a_graph_builds_from_more_boxes),
    ]
}

struct State {
    bvh: Bvh,
    boxes: DeviceBuffer<Aabb<f32>>,
    asked: DeviceBuffer<Aabb<f32>>,
    offsets: DeviceBuffer<u64>,
    indices: DeviceBuffer<u32>,
}

/// Built, asked, refitted to the same boxes, and asked again in one graph, in which the second answer is
/// written over the first.
fn graphs_build_and_ask_again(device: &TestDevice) -> TestResult {
    const N: usize = 120;
    const ROOM: usize = 2000;
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(750);
    for builder in BUILDERS {
        let bvh = fixture.built(&uniform(&mut rng, N), builder)?;
        // What is asked is loaded before it is recorded.
        bvh.overlap_lists(stream, &fixture.upload(&uniform(&mut rng, 1))?)?;
        let state = State {
            bvh,
            boxes: DeviceBuffer::zeroed(stream, N)?,
            asked: DeviceBuffer::zeroed(stream, 40)?,
            offsets: DeviceBuffer::zeroed(stream, 41)?,
            indices: DeviceBuffer::zeroed(stream, ROOM)?,
        };
        let mut graph = device.context().capture(state, |stream, state| {
            let State { bvh, boxes, asked, offsets, indices } = state;
            bvh.rebuild(stream, &*boxes)?;
            bvh.overlap_lists_into(stream, &*asked, &mut *offsets, &mut *indices)?;
            bvh.refit(stream, &*boxes)?;
            bvh.overlap_lists_into(stream, &*asked, &mut *offsets, &mut *indices)
        })?;
        for input in inputs(&mut rng, N) {
            let asked: Vec<Aabb<f32>> =
                input.boxes.iter().copied().cycle().skip(5).take(40).collect();
            let state = graph.state_mut();
            state.boxes.upload(stream, &input.boxes)?;
            state.asked.upload(stream, &asked)?;
            state.indices.upload(stream, &vec![u32::MAX; ROOM])?;
            graph.launch(stream)?;
            graph.launch(stream)?;
            let items = items(&input.boxes, &input.boxes);
            let (mut offsets, mut indices) = (vec![0u64], Vec::new());
            for query in &asked {
                indices.extend(in_box(&items, query).into_iter().map(|(i, _)| i));
                offsets.push(indices.len() as u64);
            }
            indices.resize(ROOM.max(indices.len()), u32::MAX);
            indices.truncate(ROOM);
            let fail = |e| Failure::new(format!("{builder:?}, {}: {e}", input.name));
            let state = graph.state();
            first_difference(&state.offsets.to_vec(stream)?, &offsets).map_err(fail)?;
            first_difference(&state.indices.to_vec(stream)?, &indices).map_err(fail)?;
        }
    }
    Ok(())
}

fn a_build_recorded_and_not_launched(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    // Memory that others have left full of large numbers is what the hierarchy is likely to get.
    drop(fixture.upload(&vec![0x7fff_fff0u32; 100_000])?);
    for builder in BUILDERS {
        let bvh = Bvh::new(stream, &fixture.geometry, 100, builder)?;
        let boxes = fixture.upload(&uniform(&mut device.rng(751), 100))?;
        let mut graph = device
            .context()
            .capture((bvh, boxes), |stream, (bvh, boxes)| bvh.rebuild(stream, &*boxes))?;
        let (bvh, boxes) = graph.state_mut();
        let lists = bvh.overlap_lists(stream, &*boxes)?;
        ensure_eq!(lists.offsets.to_vec(stream)?, [0; 101]);
        bvh.refit(stream, &*boxes)?;
        let lists = bvh.overlap_lists(stream, &*boxes)?;
        ensure_eq!(lists.offsets.to_vec(stream)?, [0; 101]);
    }
    Ok(())
}

/// What lies in the memory is of more boxes than the host knows of; a refit leaves out those that it has
/// no boxes for.
fn a_graph_builds_from_more_boxes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(752);
    let (many, few) = (uniform(&mut rng, 500), uniform(&mut rng, 10));
    let everywhere = fixture.upload(&[Aabb { lower: [-9.0f32; 3], upper: [9.0; 3] }])?;
    for builder in BUILDERS {
        let bvh = Bvh::new(stream, &fixture.geometry, 500, builder)?;
        let boxes = fixture.upload(&many)?;
        let mut graph = device
            .context()
            .capture((bvh, boxes), |stream, (bvh, boxes)| bvh.rebuild(stream, &*boxes))?;
        let there = fixture.upload(&few)?;
        graph.state_mut().0.rebuild(stream, &there)?;
        graph.launch(stream)?;
        let lists = fixture.split(&graph.state().0.overlap_lists(stream, &everywhere)?)?;
        ensure_eq!(lists, [(0..500).collect::<Vec<u32>>()]);
        graph.state_mut().0.refit(stream, &there)?;
        let lists = fixture.split(&graph.state().0.overlap_lists(stream, &everywhere)?)?;
        ensure_eq!(lists, [(0..10).collect::<Vec<u32>>()]);
    }
    Ok(())
}
