//! Hierarchies of the CPU: they find what all boxes say, and what the device finds.

use geom_kernels::bvh::{BuildMode, BvhQueries};
use geom_kernels::structures::Bvh;
use geom_kernels::structures::bvh::BvhQueries as CpuQueries;
use geom_kernels::{Aabb, Ray};

use super::Fixture;
use super::inputs::{Query, inputs, invalid, queries, uniform};
use super::kernels::{Told, best, told};
use super::oracle::{
    along, center_distance_squared, distance_squared, find, in_box, items, prepared, reach, within,
};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused_for,
    first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh_queries",
        host(cpu_queries_find_what_is_there),
        host(cpu_queries_of_any_size),
        host(cpu_queries_after_refits),
        host(cpu_trees_that_are_deep),
        host(cpu_queries_refuse_what_does_not_fit),
        device(cpu_lists_are_the_devices),
    ]
}

fn bits(mut found: Vec<(u32, f32)>) -> Vec<Told> {
    found.sort_by_key(|(item, _)| *item);
    found.into_iter().map(|(item, value)| (item, value.to_bits())).collect()
}

/// Asks all there is to ask, and compares; returns how many items there were. `items` are those that can be found.
fn check(bvh: &Bvh, items: &[Option<Aabb<f32>>], all: &[Query]) -> Result<[usize; 3], Failure> {
    let mut totals = [0; 3];
    for q in all {
        let wanted =
            [in_box(items, &q.wanted), within(items, q.center, q.radius), along(items, &q.ray)];
        let found = [
            bvh.overlaps(&q.wanted).map(|item| (item, 0.0)).collect(),
            bvh.within(q.center, q.radius).collect(),
            bvh.along(&q.ray).collect::<Vec<_>>(),
        ];
        for (kind, (found, wanted)) in found.into_iter().zip(&wanted).enumerate() {
            totals[kind] += wanted.len();
            let (found, wanted) = (bits(found), bits(wanted.clone()));
            ensure!(found == wanted, "kind {kind}, {q:?}: {found:?}, not {wanted:?}");
        }
        let near = |value: &dyn Fn(u32, f32) -> f32| {
            let Some(reach) = reach(q.center, q.radius) else { return best(&[], 0.0, 0.0, value) };
            let all = find(items, |item| Some(distance_squared(item, q.center)));
            best(&all, 0.0, reach, value)
        };
        let least =
            |item: u32| items[item as usize].map_or(0.0, |of| distance_squared(&of, q.center));
        let center = |item: u32| {
            items[item as usize].map_or(0.0, |of| center_distance_squared(&of, q.center))
        };
        let nearest = |distance: &dyn Fn(u32) -> f32| {
            // Every item is asked for once.
            let mut seen = Vec::new();
            let found = bvh.nearest(q.center, q.radius, |item, limit| {
                assert!(!seen.contains(&item) && limit >= 0.0);
                seen.push(item);
                distance(item)
            });
            found.map_or((u32::MAX, f32::INFINITY.to_bits()), |found| {
                (found.item, found.distance_squared.to_bits())
            })
        };
        let found = [nearest(&center), nearest(&|item| told(item, least(item), 0.0))];
        let wanted = [near(&|item, _| center(item)), near(&|item, least| told(item, least, 0.0))];
        ensure!(found == wanted, "nearest, {q:?}: {found:?}, not {wanted:?}");

        let first = bvh.first_along(&q.ray, |item, enter, _| {
            told(item, enter, prepared(&q.ray).map_or(0.0, |ray| ray.t_min))
        });
        let first = first
            .map_or((u32::MAX, f32::INFINITY.to_bits()), |found| (found.item, found.t.to_bits()));
        let wanted = prepared(&q.ray).map_or(best(&[], 0.0, 0.0, |_, x| x), |ray| {
            let met = along(items, &q.ray);
            best(&met, ray.t_min, ray.t_max, |item, least| told(item, least, ray.t_min))
        });
        ensure!(first == wanted, "first, {q:?}: {first:?}, not {wanted:?}");
    }
    Ok(totals)
}

fn cpu_queries_find_what_is_there() -> TestResult {
    let mut rng = Rng::new(770);
    for input in inputs(&mut rng, 250) {
        let asked = queries(&mut rng, &input.boxes, 400);
        let items = items(&input.boxes, &input.boxes);
        let bvh = Bvh::build(&input.boxes)?;
        let totals = check(&bvh, &items, &asked)
            .map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
        let some = items.iter().flatten().count();
        let report = bvh.report();
        ensure_eq!((report.items, report.skipped), (some, items.len() - some));
        ensure_eq!(report.bounds.is_some(), some > 0);
        let least = if some == 0 { 0 } else { 100 };
        ensure!(totals.iter().all(|n| *n >= least), "{}: {totals:?}", input.name);
    }
    Ok(())
}

fn cpu_queries_of_any_size() -> TestResult {
    let mut rng = Rng::new(771);
    for n in [0, 1, 2, 7, 8, 9, 31, 32, 33, 65, 3000, 20_000] {
        let boxes = uniform(&mut rng, n);
        let asked = queries(&mut rng, &boxes, if n > 1000 { 24 } else { 80 });
        let bvh = Bvh::build(&boxes)?;
        check(&bvh, &items(&boxes, &boxes), &asked)
            .map_err(|e| Failure::new(format!("{n}: {e}")))?;
        ensure_eq!((bvh.len(), bvh.is_empty()), (n, n == 0));
    }
    let asked = queries(&mut rng, &[], 64);
    ensure_eq!(check(&Bvh::default(), &[], &asked)?, [0; 3]);
    Ok(())
}

fn cpu_queries_after_refits() -> TestResult {
    let mut rng = Rng::new(772);
    for input in inputs(&mut rng, 150) {
        let mut bvh = Bvh::build(&input.boxes)?;
        let mut gone = uniform(&mut rng, 150);
        for (kind, i) in (0..150).step_by(2).enumerate() {
            gone[i] = invalid(kind);
        }
        for now in
            [uniform(&mut rng, 150), gone, vec![Aabb::<f32>::EMPTY; 150], input.boxes.clone()]
        {
            bvh.refit(&now)?;
            let (asked, items) = (queries(&mut rng, &now, 40), items(&input.boxes, &now));
            check(&bvh, &items, &asked)
                .map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
            ensure_eq!(bvh.report().bounds.is_some(), items.iter().any(Option::is_some));
        }
    }
    Ok(())
}

/// Boxes each twice as far as the last, many of them equal: no split is a good one, and the stack has no room.
fn cpu_trees_that_are_deep() -> TestResult {
    let mut rng = Rng::new(773);
    let mut boxes: Vec<Aabb<f32>> = (0..120)
        .map(|i| {
            let far = (i as f32 - 60.0).exp2();
            Aabb { lower: [far; 3], upper: [1.5 * far; 3] }
        })
        .collect();
    boxes.extend(vec![Aabb { lower: [0.25; 3], upper: [0.5; 3] }; 3000]);
    let bvh = Bvh::build(&boxes)?;
    ensure!(bvh.report().depth < 60, "{:?}", bvh.report());
    let asked = queries(&mut rng, &boxes, 100);
    let totals = check(&bvh, &items(&boxes, &boxes), &asked)?;
    ensure!(totals.iter().all(|n| *n > 10_000), "{totals:?}");
    Ok(())
}

fn cpu_lists_are_the_devices(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let mut rng = device.rng(774);
    for input in inputs(&mut rng, 200) {
        let there = fixture.built(&input.boxes, BuildMode::Fast)?;
        let here = Bvh::build(&input.boxes)?;
        let report = there.report(stream)?;
        ensure_eq!(here.report().items, report.items);
        ensure_eq!(here.report().bounds, report.bounds);
        let all = queries(&mut rng, &input.boxes, 129);
        let (boxes, rays): (Vec<_>, Vec<Ray>) = all.iter().map(|q| (q.wanted, q.ray)).unzip();
        let (centers, radii): (Vec<_>, Vec<_>) = all.iter().map(|q| (q.center, q.radius)).unzip();
        let (up, up_rays) = (fixture.upload(&boxes)?, fixture.upload(&rays)?);
        let (up_centers, up_radii) = (fixture.upload(&centers)?, fixture.upload(&radii)?);
        for (there_queries, here_queries) in [
            (BvhQueries::boxes(&up), CpuQueries::boxes(&boxes)),
            (
                BvhQueries::spheres(&up_centers, 0.0).within_each(&up_radii),
                CpuQueries::spheres(&centers, 0.0).within_each(&radii),
            ),
            (BvhQueries::spheres(&up_centers, 0.5), CpuQueries::spheres(&centers, 0.5)),
            (BvhQueries::rays(&up_rays), CpuQueries::rays(&rays)),
        ] {
            let wanted = there.overlap_lists(stream, there_queries)?;
            let found = here.overlap_lists(&here_queries)?;
            let compared = first_difference(&found.offsets, &wanted.offsets.to_vec(stream)?)
                .and_then(|()| first_difference(&found.indices, &wanted.indices.to_vec(stream)?));
            compared.map_err(|e| Failure::new(format!("{}: {e}", input.name)))?;
            let mut counts = vec![u32::MAX; all.len()];
            here.count_overlaps(&here_queries, &mut counts)?;
            let lengths: Vec<u32> =
                found.offsets.windows(2).map(|pair| (pair[1] - pair[0]) as u32).collect();
            first_difference(&counts, &lengths)?;
        }
    }
    Ok(())
}

fn cpu_queries_refuse_what_does_not_fit() -> TestResult {
    let boxes = uniform(&mut Rng::new(775), 10);
    let mut bvh = Bvh::build(&boxes)?;
    let own = CpuQueries::boxes(&boxes);
    ensure_refused_for(bvh.count_overlaps(&own, &mut [0; 9]), "room for 9 counts, and 10 are")?;
    ensure_refused_for(bvh.overlap_lists(&own.within_each(&[1.0; 10])), "have no radius")?;
    let centers = [[0.0; 3]; 10];
    for radius in [f32::NAN, -1.0] {
        let spheres = CpuQueries::spheres(&centers, radius);
        ensure_refused_for(bvh.overlap_lists(&spheres), "no radius")?;
    }
    let spheres = CpuQueries::spheres(&centers, 10.0);
    ensure_refused_for(bvh.overlap_lists(&spheres.within_each(&[1.0; 8])), "8 radii for 10")?;
    ensure_refused_for(bvh.refit(&boxes[1..]), "9 boxes for a hierarchy of 10")?;
    let (mut offsets, mut indices) = ([0; 11], [7; 95]);
    let refused = bvh.overlap_lists_into(&spheres, &mut offsets[1..], &mut indices);
    ensure_refused_for(refused, "room for 10 offsets, and 11 are")?;
    bvh.overlap_lists_into(&spheres, &mut offsets, &mut indices)?;
    ensure_eq!(offsets[10], 100);
    ensure_eq!(indices[90..], [0, 1, 2, 3, 4]);
    ensure_eq!((spheres.len(), spheres.is_empty()), (10, false));
    Ok(())
}
