//! Prefix sums, reductions and selections.

use std::fmt::Debug;

use cuda_safe::{DeviceBuffer, Stream};
use geom_kernels::algorithms::{Algorithms, Number, Scan, SelectFlag, Selectable};

use super::keys::is_refused;
use super::{garbage, sizes, sort};
use test_harness::{Case, Rng, TestDevice, TestResult, cases, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "geometry",
        device(scans_equal_the_hosts),
        device(offsets_end_with_the_sum_of_all),
        device(float_sums_follow_the_documented_tree),
        device(reductions_equal_the_hosts),
        device(reductions_know_nans_zeros_and_nothing),
        device(selections_are_in_order_and_counted),
        device(selections_too_large_are_cut_and_told),
        device(scans_in_a_graph_give_the_same_each_time),
        device(sums_refuse_what_does_not_fit),
    ]
}

fn scans_equal_the_hosts(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(511));
    for n in sizes(device) {
        // Large enough that sums wrap around.
        let words: Vec<u64> = (0..n).map(|_| rng.next()).collect();
        let short: Vec<u32> = words.iter().map(|word| *word as u32).collect();
        check_scan(&sort, &stream, &short, u32::wrapping_add)?;
        check_scan(&sort, &stream, &words, u64::wrapping_add)?;
        let short: Vec<i32> = words.iter().map(|word| *word as i32).collect();
        let words: Vec<i64> = words.iter().map(|word| *word as i64).collect();
        check_scan(&sort, &stream, &short, i32::wrapping_add)?;
        check_scan(&sort, &stream, &words, i64::wrapping_add)?;
    }
    Ok(())
}

fn check_scan<T: Scan + PartialEq + Debug>(
    sort: &Algorithms<'_>,
    stream: &Stream,
    elements: &[T],
    add: fn(T, T) -> T,
) -> TestResult {
    let n = elements.len();
    let from = DeviceBuffer::from_slice(stream, elements)?;
    let mut to = DeviceBuffer::<T>::zeroed(stream, n)?;
    let (mut before, mut inclusive, mut sum) = (Vec::new(), Vec::new(), T::zeroed());
    for element in elements {
        before.push(sum);
        sum = add(sum, *element);
        inclusive.push(sum);
    }
    sort.exclusive_scan(stream, &from, &mut to)?;
    first_difference(&to.to_vec(stream)?, &before)?;
    let mut scratch = garbage(stream, Algorithms::scan_scratch(n))?;
    sort.with_scratch(&mut scratch).inclusive_scan(stream, &from, &mut to)?;
    first_difference(&to.to_vec(stream)?, &inclusive)
}

fn offsets_end_with_the_sum_of_all(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(512));
    for n in sizes(device) {
        let counts = rng.words(n);
        let device_counts = DeviceBuffer::from_slice(&stream, &counts)?;
        let mut wanted = vec![0u64];
        for count in &counts {
            wanted.push(wanted[wanted.len() - 1] + u64::from(*count));
        }
        let mut offsets = DeviceBuffer::<u64>::zeroed(&stream, n + 1)?;
        offsets.fill(&stream, 77)?;
        let mut scratch = garbage(&stream, Algorithms::scan_scratch(n))?;
        sort.with_scratch(&mut scratch).offsets(&stream, &device_counts, &mut offsets)?;
        first_difference(&offsets.to_vec(&stream)?, &wanted)?;
        let mut offsets = DeviceBuffer::<u32>::zeroed(&stream, n + 1)?;
        offsets.fill(&stream, 77)?;
        sort.offsets(&stream, &device_counts, &mut offsets)?;
        let wanted: Vec<u32> = wanted.iter().map(|offset| *offset as u32).collect();
        first_difference(&offsets.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

/// The tree of `Algorithms::sum`'s documentation.
fn tree<T: Copy>(elements: &[T], add: fn(T, T) -> T) -> T {
    let parts: Vec<T> = elements.chunks(4096).map(|chunk| tree_of_chunk(chunk, add)).collect();
    if parts.len() == 1 { parts[0] } else { tree(&parts, add) }
}

fn tree_of_chunk<T: Copy>(chunk: &[T], add: fn(T, T) -> T) -> T {
    let of_thread = |thread: usize| chunk[thread..].iter().step_by(256).copied().reduce(add);
    let mut sums: Vec<Option<T>> = (0..256)
        .map(|thread| if thread < chunk.len() { of_thread(thread) } else { None })
        .collect();
    while sums.len() > 1 {
        let half = sums.split_off(sums.len() / 2);
        for (sum, other) in sums.iter_mut().zip(half) {
            *sum = match (*sum, other) {
                (Some(sum), Some(other)) => Some(add(sum, other)),
                (one, other) => one.or(other),
            };
        }
    }
    sums[0].unwrap_or(chunk[0])
}

/// A result of one element, with scratch that is full of garbage.
fn reduced<T: Number>(
    sort: &Algorithms<'_>,
    stream: &Stream,
    elements: &[T],
    operation: fn(
        &Algorithms<'_>,
        &Stream,
        &DeviceBuffer<T>,
        &mut DeviceBuffer<T>,
    ) -> cuda_safe::Result<()>,
) -> cuda_safe::Result<T> {
    let from = DeviceBuffer::from_slice(stream, elements)?;
    let mut to = DeviceBuffer::<T>::from_slice(stream, &[T::zeroed()])?;
    let mut scratch = garbage(stream, Algorithms::reduce_scratch::<T>(elements.len()))?;
    operation(&sort.with_scratch(&mut scratch), stream, &from, &mut to)?;
    Ok(to.to_vec(stream)?[0])
}

fn sum<T: Number>(sort: &Algorithms<'_>, stream: &Stream, of: &[T]) -> cuda_safe::Result<T> {
    reduced(sort, stream, of, |sort, stream, from, to| sort.sum(stream, from, to))
}

fn min<T: Number>(sort: &Algorithms<'_>, stream: &Stream, of: &[T]) -> cuda_safe::Result<T> {
    reduced(sort, stream, of, |sort, stream, from, to| sort.min(stream, from, to))
}

fn max<T: Number>(sort: &Algorithms<'_>, stream: &Stream, of: &[T]) -> cuda_safe::Result<T> {
    reduced(sort, stream, of, |sort, stream, from, to| sort.max(stream, from, to))
}

fn float_sums_follow_the_documented_tree(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(513));
    for n in sizes(device).into_iter().skip(1) {
        // Of very different sizes, so that another order gives other bits.
        let scale = |rng: &mut Rng| 10f32.powi(rng.below(9) as i32 - 4);
        let floats: Vec<f32> = (0..n).map(|_| rng.float() * scale(&mut rng)).collect();
        let wide: Vec<f64> = (0..n).map(|_| f64::from(rng.float()) / 3.0).collect();
        let add = |a, b| a + b;
        ensure_eq!(sum(&sort, &stream, &floats)?.to_bits(), tree(&floats, add).to_bits(), "{n}");
        let add = |a, b| a + b;
        ensure_eq!(sum(&sort, &stream, &wide)?.to_bits(), tree(&wide, add).to_bits(), "{n}");
        let tiny: Vec<f32> = floats.iter().map(|float| float * 1e-42).collect();
        let add = |a, b| a + b;
        ensure_eq!(sum(&sort, &stream, &tiny)?.to_bits(), tree(&tiny, add).to_bits(), "{n}");
    }
    Ok(())
}

fn reductions_equal_the_hosts(device: &TestDevice) -> TestResult {
    macro_rules! check {
        ($sort:ident, $stream:ident, $($type:ty),+: $words:ident) => {$({
            let values: Vec<$type> = $words.iter().map(|word| *word as $type).collect();
            let wanted = values.iter().fold(0, |sum: $type, value| sum.wrapping_add(*value));
            ensure_eq!(sum(&$sort, &$stream, &values)?, wanted);
            let wanted = values.iter().copied().min().unwrap_or(<$type>::MAX);
            ensure_eq!(min(&$sort, &$stream, &values)?, wanted);
            let wanted = values.iter().copied().max().unwrap_or(<$type>::MIN);
            ensure_eq!(max(&$sort, &$stream, &values)?, wanted);
        })+};
    }
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(514));
    for n in sizes(device) {
        let words: Vec<u64> = (0..n).map(|_| rng.next()).collect();
        check!(sort, stream, u32, i32, u64, i64: words);
        let floats: Vec<f32> = (0..n).map(|_| rng.float() * 1e30).collect();
        let wide: Vec<f64> = floats.iter().map(|float| f64::from(*float) * 1e200).collect();
        let least = floats.iter().copied().fold(f32::INFINITY, f32::min);
        ensure_eq!(min(&sort, &stream, &floats)?, least);
        let greatest = floats.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        ensure_eq!(max(&sort, &stream, &floats)?, greatest);
        let least = wide.iter().copied().fold(f64::INFINITY, f64::min);
        ensure_eq!(min(&sort, &stream, &wide)?, least);
        let greatest = wide.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        ensure_eq!(max(&sort, &stream, &wide)?, greatest);
    }
    Ok(())
}

fn reductions_know_nans_zeros_and_nothing(device: &TestDevice) -> TestResult {
    let (stream, sort) = (device.stream()?, sort(device));
    let is = |value: f32, wanted: f32| value.to_bits() == wanted.to_bits();
    let mut values = vec![f32::NAN; 5000];
    ensure_eq!(min(&sort, &stream, &values)?.is_nan(), true);
    ensure_eq!(max(&sort, &stream, &values)?.is_nan(), true);
    values[4990] = 0.0;
    values[17] = -0.0;
    ensure_eq!(is(min(&sort, &stream, &values)?, -0.0), true);
    ensure_eq!(is(max(&sort, &stream, &values)?, 0.0), true);
    ensure_eq!(sum(&sort, &stream, &values)?.is_nan(), true);
    values.fill(-0.0);
    ensure_eq!(is(sum(&sort, &stream, &values)?, -0.0), true);
    values[3] = 1e-45;
    ensure_eq!(is(sum(&sort, &stream, &values)?, 1e-45), true);
    ensure_eq!(is(max(&sort, &stream, &values)?, 1e-45), true);
    values[4000] = f32::INFINITY;
    ensure_eq!(sum(&sort, &stream, &values)?, f32::INFINITY);
    values[1] = f32::NEG_INFINITY;
    ensure_eq!(sum(&sort, &stream, &values)?.is_nan(), true);
    ensure_eq!(is(sum(&sort, &stream, &[])?, 0.0), true);
    ensure_eq!(min::<f32>(&sort, &stream, &[])?, f32::INFINITY);
    ensure_eq!(max::<f64>(&sort, &stream, &[])?, f64::NEG_INFINITY);
    let wide = vec![f64::NAN; 300];
    ensure_eq!(max(&sort, &stream, &wide)?.is_nan(), true);
    Ok(())
}

fn selections_are_in_order_and_counted(device: &TestDevice) -> TestResult {
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(515));
    for n in sizes(device) {
        for one_in in [1, 2, 50, usize::MAX] {
            let some =
                |rng: &mut Rng| if rng.below(one_in) == 0 { 1 + rng.below(255) as u8 } else { 0 };
            let flags: Vec<u8> = (0..n).map(|_| some(&mut rng)).collect();
            // Only the highest byte is not 0.
            let wide_flags: Vec<u32> = flags.iter().map(|flag| u32::from(*flag) << 24).collect();
            let floats = rng.floats(n);
            let words: Vec<u64> = (0..n).map(|_| rng.next()).collect();
            check_select(&sort, &stream, &flags, &floats)?;
            check_select(&sort, &stream, &wide_flags, &words)?;
            if n < 5000 {
                check_select(&sort, &stream, &flags, &words)?;
                check_select(&sort, &stream, &wide_flags, &floats)?;
            }
        }
    }
    Ok(())
}

fn check_select<F: SelectFlag, T: Selectable + PartialEq + Debug>(
    sort: &Algorithms<'_>,
    stream: &Stream,
    flags: &[F],
    elements: &[T],
) -> TestResult {
    let n = flags.len();
    let marked = |place: &usize| bytemuck::bytes_of(&flags[*place]).iter().any(|byte| *byte != 0);
    let wanted: Vec<usize> = (0..n).filter(marked).collect();
    let device_flags = DeviceBuffer::from_slice(stream, flags)?;
    let from = DeviceBuffer::from_slice(stream, elements)?;
    let mut selected = DeviceBuffer::<T>::zeroed(stream, n)?;
    let mut places = DeviceBuffer::<u32>::zeroed(stream, n)?;
    let mut number = DeviceBuffer::<u32>::from_slice(stream, &[99])?;
    let mut scratch = garbage(stream, Algorithms::select_scratch(n))?;
    let within = sort.with_scratch(&mut scratch);

    within.select(stream, &device_flags, &from, &mut selected, &mut number)?;
    ensure_eq!(number.to_vec(stream)?, [wanted.len() as u32]);
    let elements: Vec<T> = wanted.iter().map(|place| elements[*place]).collect();
    first_difference(&selected.to_vec(stream)?[..wanted.len()], &elements)?;

    number.fill(stream, 99)?;
    within.select_indices(stream, &device_flags, &mut places, &mut number)?;
    ensure_eq!(number.to_vec(stream)?, [wanted.len() as u32]);
    let wanted: Vec<u32> = wanted.iter().map(|place| *place as u32).collect();
    first_difference(&places.to_vec(stream)?[..wanted.len()], &wanted)
}

fn selections_too_large_are_cut_and_told(device: &TestDevice) -> TestResult {
    let (stream, sort) = (device.stream()?, sort(device));
    let n = 10_000;
    let flags: Vec<u8> = (0..n).map(|i| u8::from(i % 2 == 1)).collect();
    let flags = DeviceBuffer::from_slice(&stream, &flags)?;
    let mut number = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    for room in [0, 1, 33, 4999, 5000, 5001] {
        let mut places = DeviceBuffer::<u32>::zeroed(&stream, 6000)?;
        sort.select_indices(&stream, &flags, places.slice_mut(..room)?, &mut number)?;
        ensure_eq!(number.to_vec(&stream)?, [5000]);
        let mut wanted: Vec<u32> = (0..5000.min(room as u32)).map(|i| 2 * i + 1).collect();
        wanted.resize(6000, 0);
        first_difference(&places.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

fn scans_in_a_graph_give_the_same_each_time(device: &TestDevice) -> TestResult {
    struct State {
        counts: DeviceBuffer<u32>,
        offsets: DeviceBuffer<u64>,
        places: DeviceBuffer<u32>,
        number: DeviceBuffer<u32>,
        sum: DeviceBuffer<u32>,
    }
    let (stream, sort, mut rng) = (device.stream()?, sort(device), device.rng(516));
    let n = 20_000;
    let state = State {
        counts: DeviceBuffer::zeroed(&stream, n)?,
        offsets: DeviceBuffer::zeroed(&stream, n + 1)?,
        places: DeviceBuffer::zeroed(&stream, n)?,
        number: DeviceBuffer::zeroed(&stream, 1)?,
        sum: DeviceBuffer::zeroed(&stream, 1)?,
    };
    let mut graph = device.context().capture(state, |stream, state| {
        sort.offsets(stream, &state.counts, &mut state.offsets)?;
        sort.select_indices(stream, &state.counts, &mut state.places, &mut state.number)?;
        sort.sum(stream, &state.counts, &mut state.sum)
    })?;
    for _ in 0..2 {
        let counts: Vec<u32> = (0..n).map(|_| rng.below(3) as u32).collect();
        let total: u32 = counts.iter().sum();
        let marked = counts.iter().filter(|count| **count != 0).count();
        graph.state_mut().counts.upload(&stream, &counts)?;
        graph.launch(&stream)?;
        let state = graph.state();
        ensure_eq!(state.offsets.to_vec(&stream)?[n], u64::from(total));
        ensure_eq!(state.number.to_vec(&stream)?, [marked as u32]);
        ensure_eq!(state.sum.to_vec(&stream)?, [total]);
    }
    Ok(())
}

fn sums_refuse_what_does_not_fit(device: &TestDevice) -> TestResult {
    let (stream, sort) = (device.stream()?, sort(device));
    let words = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let mut ten = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let mut nine = DeviceBuffer::<u32>::zeroed(&stream, 9)?;
    let mut one = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    is_refused(sort.exclusive_scan(&stream, &words, &mut nine), "9 elements, not 10")?;
    is_refused(sort.inclusive_scan(&stream, &words, &mut nine), "9 elements, not 10")?;
    is_refused(sort.offsets::<u32>(&stream, &words, &mut ten), "10 elements, not 11")?;
    is_refused(sort.sum(&stream, &words, &mut ten), "the result has 10")?;
    is_refused(sort.select(&stream, &words, &nine, &mut ten, &mut one), "10 elements, not 9")?;
    is_refused(sort.select_indices(&stream, &words, &mut ten, &mut nine), "9 elements, not 1")?;
    let mut scratch = garbage(&stream, Algorithms::scan_scratch(10) - 1)?;
    let result = sort.with_scratch(&mut scratch).exclusive_scan(&stream, &words, &mut ten);
    is_refused(result, "bytes of scratch")
}
