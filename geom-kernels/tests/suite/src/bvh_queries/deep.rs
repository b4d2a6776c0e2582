//! Trees that are too deep for the stack of a traversal.

use cuda_safe::nvrtc::Options;
use geom_kernels::Aabb;
use geom_kernels::bvh::BuildMode;

use super::inputs::{inputs, queries};
use super::kernels::check;
use super::{BUILDERS, Fixture, SOURCE};
use crate::flags::module;
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure};

pub(super) fn cases() -> Vec<Case> {
    cases!["bvh_queries", device(deep_trees_lose_nothing), device(small_stacks_lose_nothing),]
}

/// Boxes for which the order of centres makes a tree of one level for each bit of a key: groups of boxes
/// whose centres are each half as far from the origin as the last, and which surround it. A node opens its
/// own group, which is larger than what is left.
fn nested(group: usize) -> Vec<Aabb<f32>> {
    let step = |k: usize, axis: usize| {
        let unit = (-(k as f32)).exp2();
        let mut center = [0.0; 3];
        center[axis] = unit;
        let half = unit * [16.0, 12.0, 9.0][axis];
        Aabb { lower: center.map(|x| x - half), upper: center.map(|x| x + half) }
    };
    let steps = (0..21).flat_map(|k| (0..3).map(move |axis| step(k, axis)));
    steps.flat_map(|b| vec![b; group]).collect()
}

/// As deep as it gets.
fn deep_trees_lose_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, SOURCE, Options::new())?;
    let mut rng = device.rng(770);
    let mut boxes = nested(16);
    let bvh = fixture.built(&boxes, BuildMode::Fast)?;
    let depth = bvh.report(&fixture.stream)?.depth;
    // Of each level three wait.
    ensure!(depth > 40, "{depth}");
    let asked = queries(&mut rng, &boxes, 64);
    check(&fixture, &module, &bvh, &boxes, &asked)?;
    // Now all are equal, and no node is nearer than another.
    let mut bvh = bvh;
    for b in &mut boxes {
        (b.lower, b.upper) = ([-1.0; 3], [1.0; 3]);
    }
    bvh.refit(&fixture.stream, &fixture.upload(&boxes)?)?;
    let asked = queries(&mut rng, &boxes, 64);
    check(&fixture, &module, &bvh, &boxes, &asked)
}

/// With stacks of a node's children and little more, every tree is too deep.
fn small_stacks_lose_nothing(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(771);
    let all = inputs(&mut rng, 150);
    for room in [3, 4, 7] {
        let module = module(device, SOURCE, Options::new().define("GEOM_BVH_STACK", room))?;
        for input in &all {
            let asked = queries(&mut rng, &input.boxes, 64);
            for builder in BUILDERS {
                let bvh = fixture.built(&input.boxes, builder)?;
                check(&fixture, &module, &bvh, &input.boxes, &asked).map_err(|e| {
                    Failure::new(format!("{room}, {builder:?}, {}: {e}", input.name))
                })?;
            }
        }
    }
    Ok(())
}
