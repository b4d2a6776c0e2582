//! Batch calls find what is there, with either builder, and after refits.

use geom_kernels::Aabb;
use geom_kernels::bvh::{BuildMode, Bvh, BvhQueries};

use super::inputs::{Query, inputs, invalid, queries, uniform};
use super::oracle::{along, in_box, items, within};
use super::{BUILDERS, Fixture};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
    first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh_queries",
        device(batches_find_what_is_there),
        device(batches_of_any_size),
        device(batches_of_many),
        device(batches_in_another_order),
        device(batches_after_refits),
        device(batches_refuse_what_does_not_fit),
    ]
}

/// The lists of all three kinds, after each other; counts must agree with them.
fn ask(fixture: &Fixture<'_>, bvh: &Bvh, all: &[Query]) -> Result<[Vec<Vec<u32>>; 3], Failure> {
    let stream = &fixture.stream;
    let boxes = fixture.upload(&all.iter().map(|q| q.wanted).collect::<Vec<_>>())?;
    let centers = fixture.upload(&all.iter().map(|q| q.center).collect::<Vec<_>>())?;
    let radii = fixture.upload(&all.iter().map(|q| q.radius).collect::<Vec<_>>())?;
    let rays = fixture.upload(&all.iter().map(|q| q.ray).collect::<Vec<_>>())?;
    let kinds = [
        BvhQueries::boxes(&boxes),
        BvhQueries::spheres(&centers, 0.0).within_each(&radii),
        BvhQueries::rays(&rays),
    ];
    let mut lists: [Vec<Vec<u32>>; 3] = Default::default();
    for (kind, lists) in kinds.into_iter().zip(&mut lists) {
        ensure_eq!((kind.len(), kind.is_empty()), (all.len(), all.is_empty()));
        *lists = fixture.split(&bvh.overlap_lists(stream, kind)?)?;
        let mut counts = fixture.upload(&vec![u32::MAX; all.len()])?;
        bvh.count_overlaps(stream, kind, &mut counts)?;
        let lengths: Vec<u32> = lists.iter().map(|list| list.len() as u32).collect();
        first_difference(&counts.to_vec(stream)?, &lengths)?;
    }
    Ok(lists)
}

/// Asks and compares; how many there were of each kind.
fn check(
    fixture: &Fixture<'_>,
    bvh: &Bvh,
    items: &[Option<Aabb<f32>>],
    all: &[Query],
) -> Result<[usize; 3], Failure> {
    let indices = |found: Vec<(u32, f32)>| found.into_iter().map(|(i, _)| i).collect::<Vec<_>>();
    let wanted = [
        all.iter().map(|q| indices(in_box(items, &q.wanted))).collect::<Vec<_>>(),
        all.iter().map(|q| indices(within(items, q.center, q.radius))).collect(),
        all.iter().map(|q| indices(along(items, &q.ray))).collect(),
    ];
    let found = ask(fixture, bvh, all)?;
    for (name, (found, wanted)) in
        ["boxes", "spheres", "rays"].into_iter().zip(found.iter().zip(&wanted))
    {
        for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
            first_difference(found, wanted).map_err(|e| {
                Failure::new(format!("{name}, {:?}: {e}: {found:?}, not {wanted:?}", all[i]))
            })?;
        }
        ensure_eq!(found.len(), wanted.len());
    }
    Ok(wanted.map(|lists| lists.iter().map(Vec::len).sum()))
}

fn batches_find_what_is_there(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(730);
    for input in inputs(&mut rng, 200) {
        let asked = queries(&mut rng, &input.boxes, 160);
        let items = items(&input.boxes, &input.boxes);
        for builder in BUILDERS {
            let bvh = fixture.built(&input.boxes, builder)?;
            let counts = check(&fixture, &bvh, &items, &asked)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
            let least = if items.iter().all(Option::is_none) { 0 } else { 100 };
            ensure!(counts.iter().all(|n| *n >= least), "{}: {counts:?}", input.name);
        }
    }
    Ok(())
}

fn batches_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(731);
    for n in [0, 1, 2, 4, 5, 31, 32, 33] {
        let boxes = uniform(&mut rng, n);
        for (asked, builder) in [0, 1, 31, 32, 33, 129].into_iter().zip(BUILDERS.iter().cycle()) {
            let asked = queries(&mut rng, &boxes, asked);
            let bvh = fixture.built(&boxes, *builder)?;
            check(&fixture, &bvh, &items(&boxes, &boxes), &asked)?;
        }
    }
    // One without anything, and one that had something.
    let mut never = Bvh::new(&fixture.stream, &fixture.geometry, 50, BuildMode::Fast)?;
    let asked = queries(&mut rng, &[], 64);
    ensure_eq!(check(&fixture, &never, &[], &asked)?, [0; 3]);
    never.rebuild(&fixture.stream, &fixture.upload(&uniform(&mut rng, 50))?)?;
    never.rebuild(&fixture.stream, &fixture.upload::<Aabb<f32>>(&[])?)?;
    ensure_eq!(check(&fixture, &never, &[], &asked)?, [0; 3]);
    Ok(())
}

fn batches_of_many(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(732);
    let boxes = uniform(&mut rng, 5000);
    let asked = queries(&mut rng, &boxes, 100);
    for builder in BUILDERS {
        let bvh = fixture.built(&boxes, builder)?;
        let counts = check(&fixture, &bvh, &items(&boxes, &boxes), &asked)?;
        // Among them lists of everything, which blocks sort.
        ensure!(counts[0] > 5 * boxes.len() && counts[1] > 5 * boxes.len(), "{counts:?}");
    }
    Ok(())
}

/// So many that they are sorted first, which changes no answer.
fn batches_in_another_order(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(735);
    let boxes = uniform(&mut rng, 400);
    let bvh = fixture.built(&boxes, BuildMode::Fast)?;
    let mut asked = queries(&mut rng, &boxes, 33_000);
    for query in &mut asked {
        // Few answers each.
        query.radius = query.radius.min(0.05);
        for axis in 0..3 {
            query.wanted.upper[axis] = query.wanted.upper[axis].min(query.wanted.lower[axis] + 0.1);
        }
    }
    let whole = ask(&fixture, &bvh, &asked)?;
    let (first, second) = asked.split_at(asked.len() / 2);
    let mut halves = ask(&fixture, &bvh, first)?;
    for (all, more) in halves.iter_mut().zip(ask(&fixture, &bvh, second)?) {
        all.extend(more);
    }
    for (name, (whole, halves)) in
        ["boxes", "spheres", "rays"].into_iter().zip(whole.iter().zip(&halves))
    {
        first_difference(whole, halves).map_err(|e| Failure::new(format!("{name}: {e}")))?;
        ensure!(whole.iter().filter(|list| !list.is_empty()).count() > 500, "{name}");
    }
    Ok(())
}

fn batches_after_refits(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(733);
    for builder in BUILDERS {
        for input in inputs(&mut rng, 150) {
            let mut bvh = fixture.built(&input.boxes, builder)?;
            let mut gone = uniform(&mut rng, 150);
            for (kind, i) in (0..150).step_by(2).enumerate() {
                gone[i] = invalid(kind);
            }
            for now in [uniform(&mut rng, 150), gone, vec![Aabb::<f32>::EMPTY; 150]] {
                bvh.refit(stream, &fixture.upload(&now)?)?;
                let asked = queries(&mut rng, &now, 40);
                check(&fixture, &bvh, &items(&input.boxes, &now), &asked)
                    .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
            }
        }
    }
    Ok(())
}

fn batches_refuse_what_does_not_fit(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let boxes = uniform(&mut device.rng(734), 10);
    let there = fixture.upload(&boxes)?;
    let bvh = fixture.built(&boxes, BuildMode::Fast)?;
    let mut counts = fixture.upload(&[7u32; 9])?;
    let refused = bvh.count_overlaps(stream, &there, &mut counts);
    ensure_refused_for(refused, "room for 9 counts, and 10 are")?;
    let centers = fixture.upload(&[[0.0f32; 3]; 9])?;
    for radius in [f32::NAN, -1.0] {
        let refused =
            bvh.count_overlaps(stream, BvhQueries::spheres(&centers, radius), &mut counts);
        ensure_refused_for(refused, "no radius")?;
    }
    let radii = fixture.upload(&[1.0f32; 8])?;
    let refused = bvh.overlap_lists(stream, BvhQueries::spheres(&centers, 0.0).within_each(&radii));
    ensure_refused_for(refused, "8 radii for 9")?;
    let (mut offsets, mut indices) = (fixture.upload(&[0u64; 10])?, fixture.upload(&[0u32; 10])?);
    let refused = bvh.overlap_lists_into(stream, &there, &mut offsets, &mut indices);
    ensure_refused_for(refused, "room for 10 offsets, and 11 are")?;
    ensure_eq!(counts.to_vec(stream)?, [7; 9]);
    // One radius for all, of points that lie among other numbers.
    let spheres = BvhQueries::spheres(&centers, 10.0);
    bvh.count_overlaps(stream, spheres, &mut counts)?;
    ensure_eq!(counts.to_vec(stream)?, [10; 9]);
    Ok(())
}
