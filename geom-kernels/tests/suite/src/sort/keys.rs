//! Sorting keys, pairs, and places of keys.

use std::cmp::Ordering;
use std::ops::Range;

use bytemuck::Pod;
use cuda_safe::{DeviceBuffer, ErrorKind, Result, Stream};
use geom_kernels::algorithms::{Algorithms, Key};

use super::{garbage, sizes, sort};
use test_harness::{Case, Failure, Rng, TestDevice, TestResult, cases, ensure, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "geometry",
        device(sort_is_stable_for_all_sizes_and_shapes),
        device(sort_uses_the_bits_it_is_told),
        device(sort_orders_signed_and_floating_keys),
        device(sort_keys_and_argsort_agree_with_pairs),
        device(sort_in_a_graph_gives_the_same_each_time),
        device(sort_refuses_what_does_not_fit),
        device(sort_takes_parts_of_buffers),
    ]
}

/// Keys in shapes that are hard for some sort or other.
fn shapes(rng: &mut Rng, n: usize) -> Vec<(&'static str, Vec<u64>)> {
    let random: Vec<u64> = (0..n).map(|_| rng.next()).collect();
    let mut ascending = random.clone();
    ascending.sort_unstable();
    let descending = ascending.iter().rev().copied().collect();
    let few = random.iter().map(|key| (key % 3) * 0x0101_0101_0101_0101).collect();
    let runs = (0..n).map(|i| (i as u64 / 1000).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    vec![
        ("random", random),
        ("all equal", vec![0x1234_5678_9abc_def0; n]),
        ("all ones", vec![u64::MAX; n]),
        ("ascending", ascending),
        ("descending", descending),
        ("few values", few),
        ("runs", runs),
    ]
}

/// The places of the keys in the order that a stable sort by `bits` gives.
fn expected(keys: &[u64], bits: &Range<u32>) -> Vec<u32> {
    let width = bits.end - bits.start;
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|place| {
        let key = keys[*place as usize];
        if width == 0 { 0 } else { key >> bits.start & mask }
    });
    order
}

fn gather<T: Copy>(from: &[T], order: &[u32]) -> Vec<T> {
    order.iter().map(|place| from[*place as usize]).collect()
}

/// Sorts on the device by `bits`, with values that tell where each key was, and compares.
fn check_pairs<K: Key + PartialEq + std::fmt::Debug>(
    sort: &Algorithms<'_>,
    stream: &Stream,
    keys: &[K],
    bits: Range<u32>,
    order: &[u32],
) -> TestResult {
    let places: Vec<u32> = (0..keys.len() as u32).map(|place| !place).collect();
    let device_keys = DeviceBuffer::from_slice(stream, keys)?;
    let values = DeviceBuffer::from_slice(stream, &places)?;
    let mut sorted = DeviceBuffer::<K>::zeroed(stream, keys.len())?;
    let mut sorted_values = DeviceBuffer::<u32>::zeroed(stream, keys.len())?;
    let to = (&mut sorted, &mut sorted_values);
    sort.sort_pairs(stream, (&device_keys, &values), to, bits)?;
    first_difference(&sorted_values.to_vec(stream)?, &gather(&places, order))?;
    first_difference(&as_bytes(&sorted.to_vec(stream)?), &as_bytes(&gather(keys, order)))?;
    first_difference(&as_bytes(&device_keys.to_vec(stream)?), &as_bytes(keys))?;
    first_difference(&values.to_vec(stream)?, &places)
}

/// Floats by their bits: a NaN is equal to itself.
fn as_bytes<T: Pod>(values: &[T]) -> Vec<u8> {
    bytemuck::cast_slice(values).to_vec()
}

/// What failed, with where it did.
fn at(what: impl FnOnce() -> String, result: TestResult) -> TestResult {
    result.map_err(|failure| Failure::new(format!("{}: {failure}", what())))
}

fn sort_is_stable_for_all_sizes_and_shapes(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(501));
    for n in sizes(device) {
        for (shape, keys) in shapes(&mut rng, n) {
            // Large ones in every shape only where that is quick.
            if n > 5000 && n < 1 << 20 && !matches!(shape, "random" | "all ones" | "few values") {
                continue;
            }
            let short: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
            let wide: Vec<u64> = short.iter().map(|key| u64::from(*key)).collect();
            let order = expected(&wide, &(0..32));
            let result = check_pairs(&sort, &stream, &short, 0..32, &order);
            at(|| format!("{n} keys of 32 bits, {shape}"), result)?;
            let bits = if n > 5000 { 20..64 } else { 0..64 };
            let order = expected(&keys, &bits);
            let result = check_pairs(&sort, &stream, &keys, bits, &order);
            at(|| format!("{n} keys of 64 bits, {shape}"), result)?;
        }
    }
    Ok(())
}

fn sort_uses_the_bits_it_is_told(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(502));
    let n = 5000;
    let keys: Vec<u64> = (0..n).map(|_| rng.next()).collect();
    let short: Vec<u32> = keys.iter().map(|key| *key as u32).collect();
    let wide: Vec<u64> = short.iter().map(|key| u64::from(*key)).collect();
    for begin in (0..=32).step_by(3) {
        for end in (begin..=32).step_by(5).chain([32]) {
            let order = expected(&wide, &(begin..end));
            let result = check_pairs(&sort, &stream, &short, begin..end, &order);
            at(|| format!("bits {begin}..{end} of 32"), result)?;
        }
    }
    for bits in [0..0, 64..64, 0..1, 63..64, 0..9, 31..33, 7..60, 0..63, 20..50, 3..20] {
        let order = expected(&keys, &bits);
        let result = check_pairs(&sort, &stream, &keys, bits.clone(), &order);
        at(|| format!("bits {bits:?} of 64"), result)?;
    }
    Ok(())
}

fn sort_orders_signed_and_floating_keys(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(503));
    let mut words: Vec<u64> = (0..9000).map(|_| rng.next()).collect();
    // Few other bits than those of the sign and the exponent: zeros, infinities, NaNs, all of them often.
    words.extend((0..1000).map(|_| rng.next() & 0xfff0_0000_8000_0001));
    for special in [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, 5e-324] {
        words.extend([special.to_bits(), (-special).to_bits()].repeat(20));
    }
    let halves: Vec<u32> = words
        .iter()
        .map(|word| (word >> 32) as u32)
        .chain([0.0, f32::INFINITY, f32::NAN, 1e-45].map(f32::to_bits))
        .chain([-0.0, f32::NEG_INFINITY, -f32::NAN, -1e-45].map(f32::to_bits))
        .collect();
    check_ordered(&sort, &stream, &cast::<_, i32>(&halves), i32::cmp)?;
    check_ordered(&sort, &stream, &cast::<_, f32>(&halves), f32::total_cmp)?;
    check_ordered(&sort, &stream, &cast::<_, i64>(&words), i64::cmp)?;
    check_ordered(&sort, &stream, &cast::<_, f64>(&words), f64::total_cmp)
}

fn cast<T: Pod, U: Pod>(words: &[T]) -> Vec<U> {
    words.iter().map(|word| bytemuck::cast(*word)).collect()
}

fn check_ordered<K: Key + PartialEq + std::fmt::Debug>(
    sort: &Algorithms<'_>,
    stream: &Stream,
    keys: &[K],
    compare: fn(&K, &K) -> Ordering,
) -> TestResult {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by(|a, b| compare(&keys[*a as usize], &keys[*b as usize]));
    let width = 8 * size_of::<K>() as u32;
    at(|| std::any::type_name::<K>().to_owned(), check_pairs(sort, stream, keys, 0..width, &order))
}

fn sort_keys_and_argsort_agree_with_pairs(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(504));
    for n in [0, 1, 33, 4097, 70_000] {
        for bits in [0..32, 0..20, 5..13] {
            let keys = rng.words(n);
            let wide: Vec<u64> = keys.iter().map(|key| u64::from(*key)).collect();
            let order = expected(&wide, &bits);
            let device_keys = DeviceBuffer::from_slice(&stream, &keys)?;
            let mut sorted = DeviceBuffer::<u32>::zeroed(&stream, n)?;
            let mut places = DeviceBuffer::<u32>::zeroed(&stream, n)?;
            // With exactly as much scratch as asked for, which is full of garbage.
            let bytes = Algorithms::keys_scratch::<u32>(n, bits.clone())?;
            let mut scratch = garbage(&stream, bytes)?;
            let within = sort.with_scratch(&mut scratch);
            within.sort_keys(&stream, &device_keys, &mut sorted, bits.clone())?;
            let bytes = Algorithms::argsort_scratch::<u32>(n, bits.clone())?;
            let mut scratch = garbage(&stream, bytes)?;
            let within = sort.with_scratch(&mut scratch);
            within.argsort(&stream, &device_keys, &mut places, bits.clone())?;
            first_difference(&sorted.to_vec(&stream)?, &gather(&keys, &order))?;
            first_difference(&places.to_vec(&stream)?, &order)?;
        }
    }
    Ok(())
}

fn sort_in_a_graph_gives_the_same_each_time(device: &TestDevice) -> TestResult {
    struct State {
        keys: DeviceBuffer<u64>,
        sorted: DeviceBuffer<u64>,
        order: DeviceBuffer<u32>,
        scratch: DeviceBuffer<u8>,
    }
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(505));
    let n = 10_000;
    let bytes = Algorithms::argsort_scratch::<u64>(n, ..)?;
    let state = State {
        keys: DeviceBuffer::zeroed(&stream, n)?,
        sorted: DeviceBuffer::zeroed(&stream, n)?,
        order: DeviceBuffer::zeroed(&stream, n)?,
        scratch: garbage(&stream, bytes)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        // One with memory of the graph's own, one with the caller's.
        sort.sort_keys(stream, &state.keys, &mut state.sorted, ..)?;
        sort.with_scratch(&mut state.scratch).argsort(stream, &state.keys, &mut state.order, 0..40)
    })?;
    for _ in 0..2 {
        let keys: Vec<u64> = (0..n).map(|_| rng.next()).collect();
        graph.state_mut().keys.upload(&stream, &keys)?;
        graph.launch(&stream)?;
        let order = expected(&keys, &(0..40));
        first_difference(&graph.state().order.to_vec(&stream)?, &order)?;
        let order = expected(&keys, &(0..64));
        first_difference(&graph.state().sorted.to_vec(&stream)?, &gather(&keys, &order))?;
    }
    Ok(())
}

/// The call was refused with a message that says `part`.
pub(super) fn is_refused<T>(result: Result<T>, part: &str) -> TestResult {
    let Err(error) = result else {
        return Err(Failure::new(format!("no error about {part:?}")));
    };
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
    ensure!(error.to_string().contains(part), "{error}");
    Ok(())
}

fn sort_refuses_what_does_not_fit(device: &TestDevice) -> TestResult {
    let (stream, sort) = (device.stream()?, sort(device));
    let keys = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let values = DeviceBuffer::<u32>::zeroed(&stream, 99)?;
    let mut sorted = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let mut short = DeviceBuffer::<u32>::zeroed(&stream, 99)?;

    is_refused(sort.sort_keys(&stream, &keys, &mut short, ..), "99 elements, not 100")?;
    is_refused(sort.argsort(&stream, &keys, &mut short, ..), "the order has 99")?;
    let pairs = sort.sort_pairs(&stream, (&keys, &values), (&mut sorted, &mut short), ..);
    is_refused(pairs, "the values has 99")?;
    let pairs = sort.sort_pairs(&stream, (&keys, &keys), (&mut sorted, &mut short), ..);
    is_refused(pairs, "the sorted values has 99")?;
    #[allow(clippy::reversed_empty_ranges, reason = "a range in the wrong order is the test")]
    is_refused(sort.sort_keys(&stream, &keys, &mut sorted, 20..10), "bits 20..10")?;
    is_refused(sort.sort_keys(&stream, &keys, &mut sorted, 0..33), "bits 0..33")?;
    is_refused(sort.sort_keys(&stream, &keys, &mut sorted, 0..=u32::MAX), "bits 0..")?;
    is_refused(Algorithms::keys_scratch::<u64>(10, 0..65), "bits 0..64")?;
    is_refused(Algorithms::pairs_scratch::<u32>(1 << 31, ..), "less than 2^31")?;

    let bytes = Algorithms::keys_scratch::<u32>(100, ..)?;
    let mut scratch = garbage(&stream, bytes - 1)?;
    let result = sort.with_scratch(&mut scratch).sort_keys(&stream, &keys, &mut sorted, ..);
    is_refused(result, "bytes of scratch")?;
    let mut scratch = garbage(&stream, bytes + 1)?;
    let result =
        sort.with_scratch(scratch.slice_mut(1..)?).sort_keys(&stream, &keys, &mut sorted, ..);
    is_refused(result, "aligned")
}

/// Views that begin anywhere: nothing beyond them is read or written.
fn sort_takes_parts_of_buffers(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(506));
    let keys = rng.words(9001);
    let device_keys = DeviceBuffer::from_slice(&stream, &keys)?;
    let mut sorted = DeviceBuffer::<u32>::zeroed(&stream, 9001)?;
    let from = device_keys.slice(1..5000)?;
    sort.sort_keys(&stream, from, sorted.slice_mut(3..5002)?, ..)?;
    let mut wanted = vec![0; 9001];
    wanted[3..5002].copy_from_slice(&keys[1..5000]);
    wanted[3..5002].sort_unstable();
    first_difference(&sorted.to_vec(&stream)?, &wanted)
}
