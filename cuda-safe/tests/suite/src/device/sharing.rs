//! Random work on several streams gives what the program's order says; and threads that share a
//! context, a stream or a buffer.

use cuda_safe::{DeviceBuffer, Event, Stream};

use super::MS;
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, deep, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "sharing",
        device(random_work_on_four_streams),
        device(ten_threads_on_one_context),
        device(threads_read_one_buffer),
        device(threads_launch_on_one_stream),
    ]
}

const LEN: usize = 3000;

/// A buffer and what it must hold.
struct Pair {
    device: DeviceBuffer<u32>,
    host: Vec<u32>,
}

impl Pair {
    fn new(stream: &Stream, rng: &mut Rng) -> cuda_safe::Result<Self> {
        let host = rng.words(LEN);
        Ok(Self { device: DeviceBuffer::from_slice(stream, &host)?, host })
    }
}

fn range(rng: &mut Rng) -> std::ops::Range<usize> {
    let start = rng.below(LEN);
    start..start + 1 + rng.below(LEN - start)
}

fn random_work_on_four_streams(device: &TestDevice) -> TestResult {
    for seed in 0..if deep() { 40 } else { 8 } {
        random_work(device, &mut device.rng(1000 + seed))
            .map_err(|failure| Failure::new(format!("seed {seed}: {failure}")))?;
    }
    Ok(())
}

fn random_work(device: &TestDevice, rng: &mut Rng) -> TestResult {
    let streams = (0..4).map(|_| device.stream()).collect::<Result<Vec<_>, _>>()?;
    let (basic, delay) = (Basic::of(device)?, Delay::of(device)?);
    let mut pairs =
        (0..5).map(|index| Pair::new(&streams[index % 4], rng)).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..150 {
        let stream = &streams[rng.below(4)];
        let (target, source) = (rng.below(5), rng.below(5));
        let (range, value) = (range(rng), rng.below(1000) as u32);
        let count = range.len() as u64;
        // Slow kernels in between, so that a wait that is missing shows.
        if rng.below(3) == 0 {
            device.count(delay.delay(&streams[rng.below(4)], (1, 1), MS / 2))?;
        }
        let Pair { device: buffer, host } = &mut pairs[target];
        match rng.below(8) {
            0 => {
                let view = buffer.slice_mut(range.clone())?;
                device.count(basic.fill(stream, (4, 128), view, count, value))?;
                host[range].fill(value);
            }
            1 => {
                let view = buffer.slice_mut(range.clone())?;
                device.count(basic.add(stream, (4, 128), view, count, value))?;
                host[range].iter_mut().for_each(|word| *word = word.wrapping_add(value));
            }
            2 => {
                let view = buffer.slice_mut(range.clone())?;
                let launched = delay.delayed_fill(stream, (1, 128), view, count, value, MS / 4);
                device.count(launched)?;
                host[range].fill(value);
            }
            3 if source != target => {
                let [to, from] = two(&mut pairs, target, source);
                let view = to.device.slice_mut(range.clone())?;
                let other = from.device.slice(range.clone())?;
                device.count(basic.copy(stream, (4, 128), other, view, count))?;
                to.host[range.clone()].copy_from_slice(&from.host[range]);
            }
            4 if source != target => {
                let [to, from] = two(&mut pairs, target, source);
                let mut view = to.device.slice_mut(range.clone())?;
                view.copy_from(stream, from.device.slice(range.clone())?)?;
                to.host[range.clone()].copy_from_slice(&from.host[range]);
            }
            5 => {
                let words = rng.words(range.len());
                buffer.slice_mut(range.clone())?.upload(stream, &words)?;
                host[range].copy_from_slice(&words);
            }
            6 => {
                let got = buffer.slice(range.clone())?.to_vec(stream)?;
                first_difference(&got, &host[range])?;
            }
            // Freed while others may use it, and made anew elsewhere.
            _ => pairs[target] = Pair::new(stream, rng)?,
        }
    }
    for (index, Pair { device: buffer, host }) in pairs.iter().enumerate() {
        first_difference(&buffer.to_vec(&streams[index % 4])?, host)?;
    }
    Ok(())
}

/// Two different pairs.
fn two(pairs: &mut [Pair], target: usize, source: usize) -> [&mut Pair; 2] {
    let (low, high) = pairs.split_at_mut(target.max(source));
    if target < source {
        [&mut low[target], &mut high[0]]
    } else {
        [&mut high[0], &mut low[source]]
    }
}

/// Runs `job` on `count` threads, which get their numbers.
fn threads(count: u64, job: impl Fn(u64) -> TestResult + Sync) -> TestResult {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let job = &job;
                scope.spawn(move || job(number))
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Failure::new("panicked"))))
    })
}

fn ten_threads_on_one_context(device: &TestDevice) -> TestResult {
    let (basic, delay) = (Basic::of(device)?, Delay::of(device)?);
    threads(10, |thread| {
        let stream = device.stream()?;
        let mut rng = device.rng(200 + thread);
        let words = rng.words(LEN);
        let mut buffer = DeviceBuffer::from_slice(&stream, &words)?;
        let mut copy = DeviceBuffer::<u32>::zeroed(&stream, LEN)?;
        for _ in 0..20 {
            let n = LEN as u64;
            device.count(basic.add(&stream, (4, 128), &mut buffer, n, thread as u32 + 1))?;
            device.count(delay.delayed_copy(&stream, (1, 128), &buffer, &mut copy, n, MS / 10))?;
            Event::new(device.context())?.record(&stream)?;
        }
        let added = 20 * (thread as u32 + 1);
        let wanted: Vec<u32> = words.iter().map(|word| word.wrapping_add(added)).collect();
        first_difference(&copy.to_vec(&stream)?, &wanted)
    })
}

/// A buffer that is only read is shared by reference, each thread with a stream of its own.
fn threads_read_one_buffer(device: &TestDevice) -> TestResult {
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    for round in 0..20 {
        let words = device.rng(300 + round).words(LEN);
        let buffer = DeviceBuffer::from_slice(&stream, &words)?;
        threads(4, |_| {
            let mine = device.stream()?;
            let mut copy = DeviceBuffer::<u32>::zeroed(&mine, LEN)?;
            device.count(basic.copy(&mine, (4, 128), &buffer, &mut copy, LEN as u64))?;
            first_difference(&copy.to_vec(&mine)?, &words)
        })?;
    }
    Ok(())
}

fn threads_launch_on_one_stream(device: &TestDevice) -> TestResult {
    const LAUNCHES: u32 = 200;
    let (stream, basic) = (device.stream()?, Basic::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 4 * LEN)?;
    let (low, high) = buffer.split_at_mut(2 * LEN)?;
    let (one, two) = low.split_at_mut(LEN)?;
    let (three, four) = high.split_at_mut(LEN)?;
    let quarters = std::sync::Mutex::new(vec![one, two, three, four]);
    threads(4, |_| {
        let taken = quarters.lock().map_err(|_| Failure::new("poisoned"))?.pop();
        let mut quarter = taken.ok_or_else(|| Failure::new("four quarters for four threads"))?;
        for _ in 0..LAUNCHES {
            device.count(basic.add(&stream, (4, 128), &mut quarter, LEN as u64, 1))?;
        }
        Ok(())
    })?;
    drop(quarters);
    ensure_eq!(buffer.len(), 4 * LEN);
    first_difference(&buffer.to_vec(&stream)?, &vec![LAUNCHES; 4 * LEN])
}
