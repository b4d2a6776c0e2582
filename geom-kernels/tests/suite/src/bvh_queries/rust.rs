//! Kernels in Rust that query hierarchies: the same bits on the CPU as on the device, and those of all boxes.

use cuda_safe::kernel::kernel;
use geom_kernels::structures;
use geom_kernels::{Aabb, Ray};

use super::inputs::{inputs, queries, uniform};
use super::oracle::{along, find, in_box, items, within};
use super::{BUILDERS, Fixture};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, first_difference};

pub(super) fn cases() -> Vec<Case> {
    cases!["bvh_queries", device(hierarchies_in_kernels)]
}

/// For each query the numbers of items and their hashes in the order of the loop, sums in that order, and single items.
#[kernel]
fn ask(
    bvh: &structures::Bvh,
    boxes: &[Aabb<f32>],
    centers: &[[f32; 3]],
    radii: &[f32],
    rays: &[Ray],
    numbers: &mut [[u32; 10]],
    sums: &mut [[f32; 4]],
) {
    assert!(boxes.len() == sums.len() && centers.len() == sums.len() && radii.len() == sums.len());
    assert!(rays.len() == sums.len() && numbers.len() == sums.len());
    each((numbers, sums), |i, (numbers, sums)| {
        let (mut counts, mut hashes, mut totals) = ([0u32; 3], [0u32; 3], [0.0f32; 2]);
        for item in bvh.overlaps_ascending(&boxes[i]) {
            counts[0] += 1;
            hashes[0] = hashes[0].wrapping_mul(31).wrapping_add(item);
        }
        for near in bvh.within_ascending(centers[i], radii[i]) {
            counts[1] += 1;
            hashes[1] = hashes[1].wrapping_mul(31).wrapping_add(near.item);
            totals[0] = totals[0] * 0.5 + near.distance_squared;
        }
        for met in bvh.along_ascending(&rays[i]) {
            counts[2] += 1;
            hashes[2] = hashes[2].wrapping_mul(31).wrapping_add(met.item);
            totals[1] = totals[1] * 0.5 + met.t;
        }
        let (mut nearest, mut first) = ((u32::MAX, -1.0f32), (u32::MAX, -1.0f32));
        if let Some(found) = bvh.nearest_box(centers[i], radii[i]) {
            nearest = (found.item, found.distance_squared);
        }
        if let Some(found) = bvh.first_box_along(&rays[i]) {
            first = (found.item, found.t);
        }
        let any = bvh.any_overlapping(&boxes[i]) as u32;
        *numbers = [
            counts[0],
            hashes[0],
            counts[1],
            hashes[1],
            counts[2],
            hashes[2],
            nearest.0,
            first.0,
            bvh.count_overlapping(&boxes[i]),
            any,
        ];
        *sums = [totals[0], totals[1], nearest.1, first.1];
    });
}

type Results = (Vec<[u32; 10]>, Vec<[u32; 4]>);

/// What the kernel is to find, by all boxes.
fn wanted(items: &[Option<Aabb<f32>>], q: &super::inputs::Query) -> ([u32; 10], [u32; 4]) {
    let lists = [in_box(items, &q.wanted), within(items, q.center, q.radius), along(items, &q.ray)];
    let hash = |list: &[(u32, f32)]| {
        list.iter().fold(0u32, |hash, (item, _)| hash.wrapping_mul(31).wrapping_add(*item))
    };
    let sum = |list: &[(u32, f32)]| list.iter().fold(0.0f32, |sum, (_, x)| sum * 0.5 + x);
    // The first of the least, as lists are ascending.
    let least = |list: &[(u32, f32)]| {
        let least = list.iter().copied().reduce(|a, b| if b.1 < a.1 { b } else { a });
        least.unwrap_or((u32::MAX, -1.0))
    };
    let (nearest, first) = (least(&lists[1]), least(&lists[2]));
    let count = |list: usize| lists[list].len() as u32;
    let numbers = [
        count(0),
        hash(&lists[0]),
        count(1),
        hash(&lists[1]),
        count(2),
        hash(&lists[2]),
        nearest.0,
        first.0,
        count(0),
        u32::from(count(0) > 0),
    ];
    let sums = [sum(&lists[1]), sum(&lists[2]), nearest.1, first.1];
    (numbers, sums.map(f32::to_bits))
}

fn hierarchies_in_kernels(device: &TestDevice) -> TestResult {
    let f = Fixture::new(device)?;
    let mut rng = Rng::new(780);
    let sizes = [0, 1, 31, 32, 33, 65].map(|n| ("of some size", uniform(&mut rng, n)));
    let kinds = inputs(&mut rng, 130).into_iter().map(|input| (input.name, input.boxes));
    let mut most = 0;
    for (number, (name, boxes)) in sizes.into_iter().chain(kinds).enumerate() {
        let asked = queries(&mut rng, &boxes, 70);
        let here = structures::Bvh::build(&boxes)?;
        let there = f.built(&boxes, BUILDERS[number % 2])?;
        let items = items(&boxes, &boxes);
        ensure!(find(&items, |_| Some(())).len() == here.report().items, "{name}");
        let all: Results = asked.iter().map(|q| wanted(&items, q)).unzip();
        let of = (
            asked.iter().map(|q| q.wanted).collect::<Vec<_>>(),
            asked.iter().map(|q| q.center).collect::<Vec<_>>(),
            asked.iter().map(|q| q.radius).collect::<Vec<_>>(),
            asked.iter().map(|q| q.ray).collect::<Vec<_>>(),
        );
        let (mut numbers, mut sums) = (vec![[7; 10]; asked.len()], vec![[7.0; 4]; asked.len()]);
        ask::cpu(&here, &of.0, &of.1, &of.2, &of.3, &mut numbers, &mut sums)?;
        let (mut on_device, mut sums_there) = (f.upload(&numbers)?, f.upload(&sums)?);
        ask::launch(
            &f.stream,
            &there,
            &f.upload(&of.0)?,
            &f.upload(&of.1)?,
            &f.upload(&of.2)?,
            &f.upload(&of.3)?,
            &mut on_device,
            &mut sums_there,
        )?;
        let bits = |sums: &[[f32; 4]]| sums.iter().map(|x| x.map(f32::to_bits)).collect::<Vec<_>>();
        let found = [
            (numbers, bits(&sums)),
            (on_device.to_vec(&f.stream)?, bits(&sums_there.to_vec(&f.stream)?)),
        ];
        for (place, found) in ["the CPU", "the device"].into_iter().zip(found) {
            let compared =
                first_difference(&found.0, &all.0).and(first_difference(&found.1, &all.1));
            compared.map_err(|error| Failure::new(format!("{name}, {place}: {error}")))?;
        }
        most = all.0.iter().fold(most, |most, numbers| numbers[0].max(numbers[2]).max(most));
    }
    ensure!(most > 96, "no query finds more than {most} items");
    Ok(())
}
