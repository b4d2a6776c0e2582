//! Building.

use geom_kernels::Aabb;
use geom_kernels::bvh::{BuildMode, MAX_BOXES};

use super::inputs::{inputs, soup, sphere, surface, uniform};
use super::structure::{Structure, check, is_valid};
use super::{BUILDERS, Fixture};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
    first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh",
        device(builds_from_any_boxes),
        device(builds_of_any_size),
        device(builds_of_many),
        device(fast_builds_follow_the_curve),
        device(quality_costs_less = cost),
        device(builds_are_alike),
        device(rebuild_with_fewer_and_more_boxes),
        device(refuses_what_has_no_room),
    ]
}

fn builds_from_any_boxes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(700);
    for builder in BUILDERS {
        for input in inputs(&mut rng, 300) {
            let bvh = fixture.built(&input.boxes, builder)?;
            check(&fixture.stream, &bvh, &input.boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
        }
    }
    Ok(())
}

fn builds_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(701);
    let sizes =
        [0, 1, 2, 3, 4, 5, 6, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1000];
    for builder in BUILDERS {
        for n in sizes {
            let boxes = uniform(&mut rng, n);
            let bvh = fixture.built(&boxes, builder)?;
            ensure_eq!((bvh.len(), bvh.capacity(), bvh.is_empty()), (n, n, n == 0));
            check(&fixture.stream, &bvh, &boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {n}: {e}")))?;
        }
    }
    Ok(())
}

fn builds_of_many(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(702);
    for builder in BUILDERS {
        for boxes in [uniform(&mut rng, 50_000), surface(&mut rng, 110)] {
            let bvh = fixture.built(&boxes, builder)?;
            check(&fixture.stream, &bvh, &boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", boxes.len())))?;
        }
    }
    Ok(())
}

/// The Morton keys of boxes, and u64::MAX for those that are skipped.
fn keys(boxes: &[Aabb<f32>]) -> Vec<u64> {
    let center = |b: &Aabb<f32>| -> [f32; 3] {
        std::array::from_fn(|axis| 0.5 * b.lower[axis] + 0.5 * b.upper[axis])
    };
    let (mut lower, mut upper) = ([f32::INFINITY; 3], [f32::NEG_INFINITY; 3]);
    for b in boxes.iter().filter(|b| is_valid(b)) {
        for axis in 0..3 {
            lower[axis] = lower[axis].min(center(b)[axis]);
            upper[axis] = upper[axis].max(center(b)[axis]);
        }
    }
    let side = (0..3).map(|axis| upper[axis] - lower[axis]).fold(0.0, f32::max);
    let inverse = ((21.0f32).exp2() / side).min(f32::MAX);
    let key = |b: &Aabb<f32>| {
        let mut key = 0;
        for (axis, (at, lower)) in center(b).into_iter().zip(lower).enumerate() {
            let cell = ((at - lower) * inverse).floor() as u64;
            for bit in 0..21 {
                key |= (cell.min((1 << 21) - 1) >> bit & 1) << (3 * bit + 2 - axis as u64);
            }
        }
        key
    };
    boxes.iter().map(|b| if is_valid(b) { key(b) } else { u64::MAX }).collect()
}

/// Leaves are in the order of the Morton curve, equal ones by index, and what is below a node is what
/// has the same highest bits.
fn fast_builds_follow_the_curve(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(703);
    for input in inputs(&mut rng, 700) {
        let keys = keys(&input.boxes);
        let bvh = fixture.built(&input.boxes, BuildMode::Fast)?;
        let structure = Structure::checked(&fixture.stream, &bvh, &input.boxes, &input.boxes)?;
        let mut wanted: Vec<u32> = (0..input.boxes.len() as u32).collect();
        wanted.retain(|i| keys[*i as usize] != u64::MAX);
        wanted.sort_by_key(|i| keys[*i as usize]);
        first_difference(&structure.items, &wanted)
            .map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
        // The leading bits that all of a node have in common are in no item beside it.
        let gap = |i: usize| {
            let (a, b) = (keys[structure.items[i] as usize], keys[structure.items[i + 1] as usize]);
            (a ^ b, if a == b { i ^ (i + 1) } else { 0 })
        };
        for node in &structure.nodes {
            let (first, end) = (node.first as usize, (node.first + node.count) as usize);
            let inside = (first..end.saturating_sub(1)).map(gap).max();
            let Some(inside) = inside else { continue };
            ensure!(first == 0 || gap(first - 1) > inside, "{}: {first}", input.name);
            ensure!(end == structure.items.len() || gap(end - 1) > inside, "{}", input.name);
        }
    }
    Ok(())
}

/// Of triangles of all sizes, of a surface, and of small ones that are scattered evenly.
fn cost(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(704);
    // Of each its boxes, and how much of the fast builder's cost is allowed.
    let meshes = [
        (soup(&mut rng, 5000), 0.65),
        (sphere(&mut rng, 50), 0.95),
        (uniform(&mut rng, 5000), 0.96),
    ];
    for (boxes, most) in meshes {
        let cost = |builder| -> Result<f64, Failure> {
            let bvh = fixture.built(&boxes, builder)?;
            Ok(Structure::checked(&fixture.stream, &bvh, &boxes, &boxes)?.cost())
        };
        let (fast, quality) = (cost(BuildMode::Fast)?, cost(BuildMode::Quality)?);
        ensure!(quality < most * fast, "{quality}, and {fast} of the fast builder");
    }
    Ok(())
}

/// The same leaves in the same order, whichever thread comes first.
fn builds_are_alike(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(705);
    let boxes = uniform(&mut rng, 3000);
    for builder in BUILDERS {
        let mut first: Option<Vec<u32>> = None;
        for _ in 0..4 {
            let bvh = fixture.built(&boxes, builder)?;
            let (nodes, items) = bvh.parts(&fixture.stream)?;
            let mut leaves: Vec<u32> =
                nodes.iter().flat_map(|node| node.child).filter(|c| c >> 31 != 0).collect();
            leaves.sort_unstable();
            leaves.extend(items);
            let first = first.get_or_insert_with(|| leaves.clone());
            first_difference(&leaves, first)?;
        }
    }
    Ok(())
}

fn rebuild_with_fewer_and_more_boxes(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(706);
    for builder in BUILDERS {
        let mut bvh = fixture.with_capacity(700, builder)?;
        check(stream, &bvh, &[])?;
        let bytes = bvh.size_bytes();
        for n in [5, 300, 1, 700, 64, 0, 33] {
            let boxes = uniform(&mut rng, n);
            bvh.rebuild(stream, &fixture.upload(&boxes)?)?;
            ensure_eq!((bvh.len(), bvh.capacity(), bvh.size_bytes()), (n, 700, bytes));
            check(stream, &bvh, &boxes)
                .map_err(|e| Failure::new(format!("{builder:?}, {n}: {e}")))?;
        }
    }
    Ok(())
}

fn refuses_what_has_no_room(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(707);
    let boxes = uniform(&mut rng, 20);
    let there = fixture.upload(&boxes)?;
    let mut bvh = fixture.built(&boxes, BuildMode::default())?;
    let more = fixture.upload(&uniform(&mut rng, 21))?;
    let refused = bvh.rebuild(stream, &more);
    ensure_refused_for(refused, "room for 20")?;
    check(stream, &bvh, &boxes)?;
    let refused = bvh.refit(stream, there.slice(1..)?);
    ensure_refused_for(refused, "built from 20")?;
    check(stream, &bvh, &boxes)?;
    let refused = fixture.with_capacity(MAX_BOXES + 1, BuildMode::Fast);
    ensure_refused_for(refused, "2^28")?;
    Ok(())
}
