//! Queries in kernels of a user's own, whatever they are compiled with.

use cuda_safe::nvrtc::Options;
use cuda_safe::{DeviceBuffer, LaunchConfig, Module, arg::KernelArgs};
use geom_kernels::bvh::{BuildMode, Bvh};
use geom_kernels::{Aabb, Ray};

use super::inputs::{Query, inputs, queries, uniform};
use super::oracle::{
    along, center_distance_squared, distance_squared, find, in_box, items, prepared, reach, within,
};
use super::{BUILDERS, Fixture, SOURCE};
use crate::flags::{flags, module};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "bvh_queries",
        device(kernels_find_what_is_there),
        device(kernels_of_any_size),
        device(kernels_do_not_depend_on_flags),
        device(kernels_ask_within_queries),
    ]
}

/// An item and the bits of its value.
pub(super) type Told = (u32, u32);

/// A kernel of the test's, for each of some queries.
struct Asker<'a> {
    fixture: &'a Fixture<'a>,
    module: &'a Module,
    queries: DeviceBuffer<Query>,
    n: usize,
}

impl Asker<'_> {
    /// # Safety
    /// The arguments are the kernel's, and hold as much as it reads and writes for the queries.
    unsafe fn launch(&self, kernel: &str, args: impl KernelArgs) -> TestResult {
        let kernel = self.module.kernel(kernel)?;
        let launch = LaunchConfig::cover(self.n, 64);
        // SAFETY: the caller's promise.
        unsafe { self.fixture.device.launch(&kernel, &self.fixture.stream, launch, args) }?;
        Ok(())
    }
}

/// What `told` of the kernels gives.
pub(super) fn told(item: u32, least: f32, start: f32) -> f32 {
    match item % 7 {
        0 => f32::INFINITY,
        1 => f32::NAN,
        2 => -1.0,
        3 => start,
        4 => least,
        _ => least + 0.125 * (item % 32) as f32,
    }
}

/// The least value and item of those that count: from `start` to `most`, and not less than an item's own
/// least.
pub(super) fn best(
    all: &[(u32, f32)],
    start: f32,
    most: f32,
    value: impl Fn(u32, f32) -> f32,
) -> Told {
    let counted = all.iter().filter_map(|&(item, least)| {
        let value = value(item, least);
        let value = (value >= start).then_some(value.max(least))?;
        (value <= most).then_some((value.to_bits(), item))
    });
    counted.min().map_or((u32::MAX, f32::INFINITY.to_bits()), |(bits, item)| (item, bits))
}

fn hash(found: &[(u32, f32)]) -> u32 {
    found.iter().fold(0, |hash, (item, told)| {
        let item = (item + 1).wrapping_mul(0x9e37_79b9);
        hash.wrapping_add(item ^ told.to_bits().wrapping_mul(0x85eb_ca6b))
    })
}

/// Asks all there is to ask of a hierarchy, and compares. `boxes` are its items' own.
pub(super) fn check(
    fixture: &Fixture<'_>,
    module: &Module,
    bvh: &Bvh,
    boxes: &[Aabb<f32>],
    all: &[Query],
) -> TestResult {
    let (stream, n) = (&fixture.stream, all.len());
    let asker = Asker { fixture, module, queries: fixture.upload(all)?, n };
    let words = boxes.len().div_ceil(32).max(1);
    let zeros = |n| DeviceBuffer::<u32>::zeroed(stream, n);
    let (mut bits, mut facts) = (zeros(3 * n * words)?, zeros(8 * n)?);
    let args = (bvh.view(), &asker.queries, n as u32, words as u32, &mut bits, &mut facts);
    // SAFETY: 3 * words words of bits for each query, enough for all items, and 8 facts.
    unsafe { asker.launch("every", args) }?;
    let mut third = zeros(6 * n)?;
    // SAFETY: 6 words for each query.
    unsafe { asker.launch("third", (bvh.view(), &asker.queries, n as u32, &mut third)) }?;
    let (there, mut found) = (fixture.upload(boxes)?, zeros(7 * n)?);
    let args = (bvh.view(), &there, &asker.queries, n as u32, &mut found);
    // SAFETY: a box for each item, and 7 words for each query.
    unsafe { asker.launch("best", args) }?;
    let (bits, facts) = (bits.to_vec(stream)?, facts.to_vec(stream)?);
    let (third, found) = (third.to_vec(stream)?, found.to_vec(stream)?);

    let items = items(boxes, boxes);
    for (i, q) in all.iter().enumerate() {
        let fail = |what: String| Err(Failure::new(format!("{q:?}: {what}")));
        let wanted =
            [in_box(&items, &q.wanted), within(&items, q.center, q.radius), along(&items, &q.ray)];
        for (kind, wanted) in wanted.iter().enumerate() {
            let mut marks = vec![0u32; words];
            for (item, _) in wanted {
                marks[*item as usize / 32] |= 1 << (item % 32);
            }
            let count = wanted.len() as u32;
            let facts = &facts[8 * i + 2 * kind..][..2];
            if facts != [count, hash(wanted)] || bits[(3 * i + kind) * words..][..words] != marks {
                return fail(format!("kind {kind}: {facts:?}, and there are {wanted:?}"));
            }
            let (last, seen) = (third[6 * i + 2 * kind], third[6 * i + 2 * kind + 1]);
            let right =
                if count < 3 { last == u32::MAX } else { wanted.iter().any(|w| w.0 == last) };
            if !right || seen != count.min(3) {
                return fail(format!("kind {kind}: stopped at {last} of {wanted:?}, after {seen}"));
            }
        }
        // A `ray<float>` is made without an end of a t_max that is NaN.
        let same = Ray { t_max: q.ray.t_max.min(f32::MAX), ..q.ray };
        let count = along(&items, &same).len() as u32;
        ensure_eq!(facts[8 * i + 6..8 * i + 8], [0, count], "{q:?}");

        let near = |value: &dyn Fn(u32, f32) -> f32| {
            let Some(reach) = reach(q.center, q.radius) else { return best(&[], 0.0, 0.0, value) };
            let all = find(&items, |item| Some(distance_squared(item, q.center)));
            best(&all, 0.0, reach, value)
        };
        let center = near(&|item, _| center_distance_squared(&boxes[item as usize], q.center));
        let nearest = near(&|item, least| told(item, least, 0.0));
        let first = prepared(&q.ray).map_or(best(&[], 0.0, 0.0, |_, x| x), |ray| {
            best(&wanted[2], ray.t_min, ray.t_max, |item, least| told(item, least, ray.t_min))
        });
        let answers = [center, nearest, first].map(|(item, bits)| [item, bits]);
        let found = &found[7 * i..7 * (i + 1)];
        if found != [answers.as_flattened(), &[0]].concat() {
            return fail(format!("{found:?}, not {answers:?}"));
        }
    }
    Ok(())
}

fn kernels_find_what_is_there(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, SOURCE, Options::new())?;
    let mut rng = device.rng(760);
    for input in inputs(&mut rng, 130) {
        let asked = queries(&mut rng, &input.boxes, 128);
        for builder in BUILDERS {
            let bvh = fixture.built(&input.boxes, builder)?;
            check(&fixture, &module, &bvh, &input.boxes, &asked)
                .map_err(|e| Failure::new(format!("{builder:?}, {}: {e}", input.name)))?;
        }
    }
    Ok(())
}

fn kernels_of_any_size(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let module = module(device, SOURCE, Options::new())?;
    let mut rng = device.rng(761);
    for (n, builder) in [0, 1, 4, 5, 31, 32, 33, 5000].into_iter().zip(BUILDERS.iter().cycle()) {
        let boxes = uniform(&mut rng, n);
        let asked = queries(&mut rng, &boxes, 33);
        let bvh = fixture.built(&boxes, *builder)?;
        check(&fixture, &module, &bvh, &boxes, &asked)?;
    }
    Ok(())
}

/// Answers that are right under all flags are the same.
fn kernels_do_not_depend_on_flags(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let mut rng = device.rng(762);
    let all = inputs(&mut rng, 60);
    let asked: Vec<Vec<Query>> =
        all.iter().map(|input| queries(&mut rng, &input.boxes, 64)).collect();
    for (flag, options) in flags() {
        let module = module(device, SOURCE, options)?;
        for (input, asked) in all.iter().zip(&asked) {
            let bvh = fixture.built(&input.boxes, BuildMode::Fast)?;
            check(&fixture, &module, &bvh, &input.boxes, asked)
                .map_err(|e| Failure::new(format!("{flag}, {}: {e}", input.name)))?;
        }
    }
    Ok(())
}

/// Three queries under way, of two hierarchies.
fn kernels_ask_within_queries(device: &TestDevice) -> TestResult {
    let fixture = Fixture::new(device)?;
    let stream = &fixture.stream;
    let module = module(device, SOURCE, Options::new())?;
    let mut rng = device.rng(763);
    let (outer, inner) = (uniform(&mut rng, 200), uniform(&mut rng, 300));
    let (a, b) =
        (fixture.built(&outer, BuildMode::Fast)?, fixture.built(&inner, BuildMode::Quality)?);
    let all = queries(&mut rng, &outer, 40);
    let asker = Asker { fixture: &fixture, module: &module, queries: fixture.upload(&all)?, n: 40 };
    let (there, mut out) = (fixture.upload(&outer)?, DeviceBuffer::<u32>::zeroed(stream, 120)?);
    let args = (a.view(), &there, b.view(), &asker.queries, 40u32, &mut out);
    // SAFETY: a box for each item of the outer one, and 3 words for each query.
    unsafe { asker.launch("nested", args) }?;
    let (outer_items, inner_items) = (items(&outer, &outer), items(&inner, &inner));
    let mut total = [0; 3];
    for (q, found) in all.iter().zip(out.to_vec(stream)?.chunks(3)) {
        let near: Vec<u32> =
            within(&inner_items, q.center, q.radius).into_iter().map(|(i, _)| i).collect();
        let mut wanted = [0u32; 3];
        for (item, _) in in_box(&outer_items, &q.wanted) {
            let item = &outer[item as usize];
            for (other, _) in in_box(&inner_items, item) {
                wanted[0] += 1;
                wanted[1] += u32::from(near.contains(&other));
            }
            wanted[2] += u32::from(!within(&inner_items, item.lower, q.radius).is_empty());
        }
        ensure!(found == wanted, "{q:?}: {found:?}, not {wanted:?}");
        total = std::array::from_fn(|k| total[k] + wanted[k]);
    }
    ensure!(total.iter().all(|n| *n > 10), "{total:?}");
    Ok(())
}
