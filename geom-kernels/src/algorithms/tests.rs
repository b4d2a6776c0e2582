//! Tests of sorts between two sets of buffers, which have no public calls, on the software device.

use cuda_safe::{Context, DeviceBuffer, Driver, Result, Stream};

use super::radix::{Buffers, Counts, Digits, Layout, RESULT_AT, RadixKey, Wishes};
use crate::GeometryKernels;

type Answer = std::result::Result<(), Box<dyn std::error::Error>>;

fn random(n: usize) -> Vec<u64> {
    let mut rng = test_support::Rng::new(20_260_505);
    std::iter::repeat_with(|| rng.next()).take(n).collect()
}

/// Two buffers each for keys and values; the second ones hold garbage.
struct Sorted<K> {
    keys: [DeviceBuffer<K>; 2],
    values: [DeviceBuffer<u32>; 2],
    state: DeviceBuffer<u32>,
}

impl<K: RadixKey> Sorted<K> {
    fn new(stream: &Stream, keys: &[K], layout: &Layout) -> Result<Self> {
        let mut other_keys = DeviceBuffer::from_slice(stream, keys)?;
        let mut state = DeviceBuffer::zeroed(stream, layout.words())?;
        let values: Vec<u32> = (0..keys.len() as u32).map(|place| place * 3).collect();
        let mut other_values = DeviceBuffer::from_slice(stream, &values)?;
        state.fill(stream, 0xdead_beef)?;
        other_values.fill(stream, 0xdead_beef)?;
        other_keys.fill(stream, K::zeroed())?;
        Ok(Self {
            keys: [DeviceBuffer::from_slice(stream, keys)?, other_keys],
            values: [DeviceBuffer::from_slice(stream, &values)?, other_values],
            state,
        })
    }

    fn buffers(&mut self) -> (Buffers<'_, K>, &mut DeviceBuffer<u32>) {
        let keys = self.keys.each_mut().map(DeviceBuffer::as_slice_mut);
        let values = self.values.each_mut().map(DeviceBuffer::as_slice_mut);
        (Buffers { keys, values }, &mut self.state)
    }
}

/// Checks both kinds of sorts, with values and with indices, with digits counted before and not.
fn check<K: RadixKey + Ord + std::fmt::Debug>(
    (kernels, stream): (&GeometryKernels, &Stream),
    keys: &[K],
    (begin, end): (u32, u32),
    of: impl Fn(&K) -> u64,
) -> Answer {
    let digits = Digits::new(begin, end);
    let layout = Layout::new::<K>(keys.len(), digits)?;
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|place| of(&keys[*place as usize]));
    for (planned, indices, counted) in
        (0..8).map(|bits| (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0))
    {
        let mut sorted = Sorted::new(stream, keys, &layout)?;
        let (mut buffers, state) = sorted.buffers();
        if counted {
            kernels.clear(stream, &layout, &mut state.as_slice_mut())?;
            let (n, first) = (keys.len() as u32, buffers.keys[0].as_slice());
            // SAFETY: the digits are those of bits that the keys have.
            unsafe {
                kernels.kernels::<Counts>()?.count(
                    stream,
                    (2, 512),
                    first,
                    n,
                    digits,
                    0,
                    &mut *state,
                )?;
            };
        }
        let wishes = Wishes { indices, counted };
        let mut view = state.as_slice_mut();
        let result = if planned {
            kernels.sort_buffers_planned(stream, &layout, &mut buffers, &mut view, wishes)?;
            state.to_vec(stream)?[RESULT_AT] as usize
        } else {
            kernels.sort_buffers(stream, &layout, &mut buffers, &mut view, wishes)?
        };
        let wanted: Vec<K> = order.iter().map(|place| keys[*place as usize]).collect();
        assert_eq!(sorted.keys[result].to_vec(stream)?, wanted, "{wishes:?} {planned}");
        let factor = if indices { 1 } else { 3 };
        let wanted: Vec<u32> = order.iter().map(|place| place * factor).collect();
        assert_eq!(sorted.values[result].to_vec(stream)?, wanted, "{wishes:?} {planned}");
    }
    Ok(())
}

#[test]
fn sorts_between_buffers_are_stable_however_they_are_made() -> Answer {
    let driver = Driver::from_sys(cuda_emu::driver())?;
    let context: Context = driver.device(0)?.context()?;
    let stream = context.stream()?;
    let sort = GeometryKernels::new(&context).algorithms();
    let on = (sort.kernels(), &stream);
    for n in [1, 33, 5000, 60_000] {
        let random = random(n);
        let short: Vec<u32> = random.iter().map(|key| *key as u32).collect();
        check(on, &short, (0, 20), |key| u64::from(*key & 0xf_ffff))?;
        check(on, &short, (0, 8), |key| u64::from(*key & 0xff))?;
        check(on, &short, (3, 32), |key| u64::from(*key >> 3))?;
        check(on, &random, (0, 64), |key| *key)?;
    }
    // Keys in which some digits are all equal: first, last, in the middle, all, all but one.
    let random = random(10_000);
    for mask in [0xff_ffff, 0xffff << 48, 0xff << 24, 0, 0xff_ff00_00ff_0000, 1 << 63] {
        let keys: Vec<u64> =
            random.iter().map(|key| key & mask | 0x0055_0000_5500_0055 & !mask).collect();
        check(on, &keys, (0, 64), |key| *key)?;
        check(on, &keys, (0, 63), |key| key & !(1 << 63))?;
    }
    Ok(())
}

#[test]
fn sorts_of_nothing_leave_everything_alone() -> Answer {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let sort = GeometryKernels::new(&context).algorithms();
    check((sort.kernels(), &stream), &[] as &[u64], (0, 64), |key| *key)
}

#[test]
fn buffers_that_are_too_short_are_refused() -> Answer {
    let context = Driver::from_sys(cuda_emu::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let sort = GeometryKernels::new(&context).algorithms();
    let small = Layout::new::<u32>(100, Digits::new(0, 32))?;
    let large = Layout::new::<u32>(10_000, Digits::new(0, 32))?;
    let mut sorted = Sorted::new(&stream, &[7u32; 100], &small)?;
    let (mut buffers, state) = sorted.buffers();
    let mut view = state.as_slice_mut();
    let wishes = Wishes::default();
    let result = sort.kernels().sort_buffers(&stream, &large, &mut buffers, &mut view, wishes);
    assert!(result.is_err_and(|error| error.to_string().contains("10000 pairs")));
    let mut short = view.slice_mut(..small.words() - 1)?;
    let result = sort.kernels().sort_buffers(&stream, &small, &mut buffers, &mut short, wishes);
    assert!(result.is_err_and(|error| error.to_string().contains("state")));
    Ok(())
}
