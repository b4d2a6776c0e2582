//! Lists: without room, and long ones.

use cuda_safe::DeviceBuffer;
use geom_kernels::Aabb;
use geom_kernels::bvh::BuildMode;

use super::Fixture;
use super::inputs::uniform;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh_queries",
        device(lists_without_room_are_cut_off),
        device(lists_of_any_length_are_sorted),
    ]
}

const UNTOUCHED: u32 = 0xdead_beef;

/// What fits is the beginning of what there is, whatever the order of leaves.
fn lists_without_room_are_cut_off(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(740);
    let boxes = uniform(&mut rng, 700);
    let bvh = fixture.built(&boxes, BuildMode::Fast)?;
    // Larger ones, so that lists have some ten elements, and one of all in the middle.
    let mut asked: Vec<Aabb<f32>> = uniform(&mut rng, 60);
    for b in &mut asked {
        b.upper = b.upper.map(|x| x + 0.6);
    }
    asked[30] = Aabb { lower: [-9.0; 3], upper: [9.0; 3] };
    let there = fixture.upload(&asked)?;
    let whole = bvh.overlap_lists(stream, &there)?;
    let (all_offsets, all) = (whole.offsets.to_vec(stream)?, whole.indices.to_vec(stream)?);
    let total = all.len();
    ensure!(all_offsets[31] - all_offsets[30] == 700 && total > 1000, "{total}");
    let begin = all_offsets[30] as usize;
    let middle = [1, 2, 31, 32, 33, 200, 699].map(|n| begin + n);
    let ends = [0, 1, 7, 50, total - 1, total, total + 1, total + 100];
    for capacity in middle.into_iter().chain(ends) {
        // Elements beyond what the call is given, which it must not know of.
        let mut room = fixture.upload(&vec![UNTOUCHED; capacity + 50])?;
        let mut offsets = DeviceBuffer::<u64>::zeroed(stream, 61)?;
        bvh.overlap_lists_into(stream, &there, &mut offsets, room.slice_mut(..capacity)?)?;
        ensure_eq!(offsets.to_vec(stream)?, all_offsets, "exact, whatever the room");
        let mut wanted = all[..capacity.min(total)].to_vec();
        wanted.resize(capacity + 50, UNTOUCHED);
        first_difference(&room.to_vec(stream)?, &wanted)?;
    }
    Ok(())
}

/// Lengths around those at which the sort changes, several of them in one block of threads.
fn lists_of_any_length_are_sorted(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(741);
    // Along a line, in no order: a query that ends at x finds the first x.
    let mut places: Vec<usize> = (0..3000).collect();
    for i in (1..places.len()).rev() {
        places.swap(i, rng.below(i + 1));
    }
    let at = |x: usize| [x as f32, 0.0, 0.0];
    let boxes: Vec<Aabb<f32>> =
        places.iter().map(|x| Aabb { lower: at(*x), upper: at(*x) }).collect();
    let bvh = fixture.built(&boxes, BuildMode::Fast)?;
    let lengths =
        [0, 1, 2, 3, 31, 32, 33, 34, 100, 1023, 1024, 1025, 5, 1026, 1500, 2047, 2048, 2049, 3000];
    let asked: Vec<Aabb<f32>> = lengths
        .iter()
        .map(|n| Aabb { lower: [-1.0; 3], upper: [*n as f32 - 0.5, 0.0, 0.0] })
        .collect();
    let lists = fixture.split(&bvh.overlap_lists(stream, &fixture.upload(&asked)?)?)?;
    for (list, n) in lists.iter().zip(lengths) {
        let mut wanted: Vec<u32> =
            (0..).zip(&places).filter(|(_, x)| **x < n).map(|(i, _)| i).collect();
        wanted.sort_unstable();
        ensure_eq!(wanted.len(), n);
        first_difference(list, &wanted)?;
    }
    Ok(())
}
