//! Random programs on several streams, compared with a model on the host.

use cuda_safe::{
    DeviceBuffer, LaunchConfig, PinnedBuffer, Result, Stream, Transfer, UnifiedBuffer, kernels,
};
use test_harness::{Failure, TestResult, ensure};

use crate::lab::Lab;

kernels! {
    struct Kernels;
    // SAFETY: thread i reads element i of y, and reads and writes element i of x, if i < n.
    unsafe in r#"
        extern "C" __global__ void add(const unsigned* y, unsigned* x, unsigned n) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] += y[i];
        }
    "# {
        safe fn add(y: &[u32], x: &mut [u32], n: u32) where n <= x.len(), n <= y.len();
    }
}

/// Numbers that depend on the seed of the run.
pub(in crate::attacks) struct Random(u64);

impl Random {
    pub(in crate::attacks) fn new(salt: u64) -> Self {
        let seed = std::env::var("CUDA_EMU_SEED").ok().and_then(|text| text.parse().ok());
        Self(seed.unwrap_or(1u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (salt << 32) ^ 0x5bd1_e995)
    }

    pub(in crate::attacks) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    /// Less than `end`, which is not 0.
    pub(in crate::attacks) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap_or(0)
    }

    pub(in crate::attacks) fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const N: usize = 300;

/// A part of `0..N` that may be empty.
fn part(random: &mut Random) -> std::ops::Range<usize> {
    let (a, b) = (random.below(N + 1), random.below(N + 1));
    a.min(b)..a.max(b)
}

fn differs(seen: &[u32], wanted: &[u32], what: &str, step: usize) -> TestResult {
    let first = seen.iter().zip(wanted).position(|(a, b)| a != b);
    ensure!(seen.len() == wanted.len() && first.is_none(), "{what} in step {step}: at {first:?}");
    Ok(())
}

struct Machine {
    streams: Vec<Stream>,
    buffers: Vec<(DeviceBuffer<u32>, Vec<u32>)>,
    unified: (UnifiedBuffer<u32>, Vec<u32>),
    transfers: Vec<(Transfer<u32>, Vec<u32>)>,
}

impl Machine {
    fn step(&mut self, kernels: &Kernels, random: &mut Random, step: usize) -> TestResult {
        let stream = random.pick(&self.streams).clone();
        let context = stream.context();
        let count = self.buffers.len();
        let (i, j) = (random.below(count), random.below(count - 1));
        let j = if j >= i { j + 1 } else { j };
        let [(x, x_now), (y, y_now)] = self
            .buffers
            .get_disjoint_mut([i, j])
            .map_err(|error| Failure::new(error.to_string()))?;
        let value = step as u32 * 1000;
        let range = part(random);
        match random.below(16) {
            0 => {
                let data: Vec<u32> = range.clone().map(|i| value + i as u32).collect();
                x.slice_mut(range.clone())?.upload(&stream, &data)?;
                x_now[range].copy_from_slice(&data);
            }
            1 => {
                x.slice_mut(range.clone())?.fill(&stream, value)?;
                x_now[range].fill(value);
            }
            2 => {
                x.slice_mut(range.clone())?.copy_from(&stream, y.slice(range.clone())?)?;
                x_now[range.clone()].copy_from_slice(&y_now[range]);
            }
            3 | 4 => {
                let n = range.len() as u32;
                let (from, to) = (y.slice(range.clone())?, x.slice_mut(range.clone())?);
                kernels.add(&stream, LaunchConfig::cover(range.len(), 64), from, to, n)?;
                for i in range {
                    x_now[i] = x_now[i].wrapping_add(y_now[i]);
                }
            }
            5 => {
                *x = y.try_clone(&stream)?;
                x_now.clone_from(y_now);
            }
            6 => {
                let seen = x.slice(range.clone())?.to_vec(&stream)?;
                differs(&seen, &x_now[range], "a download", step)?;
            }
            7 => {
                *x = DeviceBuffer::zeroed(&stream, N)?;
                x_now.fill(0);
            }
            8 => {
                let new = context.stream()?;
                self.streams[step % 4] = new;
            }
            9 => {
                std::mem::swap(x, y);
                std::mem::swap(x_now, y_now);
            }
            10 => {
                let (left, mut right) = x.split_at_mut(N / 2)?;
                right.copy_from(&stream, &left)?;
                x_now.copy_within(..N / 2, N / 2);
            }
            11 => {
                let bytes = x.as_slice_mut().cast_mut::<u8>()?;
                let (_, mut bytes) = bytes.split_at_mut(N * 2)?;
                bytes.fill(&stream, step as u8)?;
                x_now[N / 2..].fill(u32::from_ne_bytes([step as u8; 4]));
            }
            12 => {
                let target = PinnedBuffer::zeroed(&context, N)?;
                self.transfers.push((x.download_pinned(&stream, target)?, x_now.clone()));
            }
            13 => {
                let data: Vec<u32> = (0..N).map(|i| value ^ i as u32).collect();
                let source = PinnedBuffer::from_slice(&context, &data)?;
                x_now.clone_from(&data);
                self.transfers.push((x.upload_pinned(&stream, source)?, data));
            }
            14 => {
                let (unified, now) = &mut self.unified;
                unified.copy_from(&stream, &*x)?;
                now.clone_from(x_now);
                y.copy_from(random.pick(&self.streams), &*unified)?;
                y_now.clone_from(now);
            }
            _ => {
                let (unified, now) = &mut self.unified;
                differs(&unified.host()?, now, "a guard", step)?;
                unified.host_mut()?[range.clone()].fill(value);
                now[range].fill(value);
                if random.below(2) == 0
                    && let Some((transfer, expected)) = self.transfers.pop()
                {
                    differs(&transfer.wait()?, &expected, "a transfer", step)?;
                }
            }
        }
        Ok(())
    }
}

/// Runs random programs of kernels, copies, fills, clones, drops, transfers and guards on four streams that come and
/// go, and compares all results with the same program on the host.
///
/// - row: work that uses the same bytes
/// - row: device memory is freed after the last work
/// - targets: `DeviceBuffer::split_at_mut`, `DeviceSliceMut::split_at_mut`, `DeviceSlice::slice`,
///   `DeviceBuffer::slice_mut`, `DeviceSliceMut::cast_mut`, `DeviceBuffer::download_pinned`, `UnifiedBuffer::host_mut`
pub(super) fn random_programs(lab: &Lab) -> TestResult {
    let context = lab.context()?;
    let kernels = Kernels::load(&context)?;
    let mut random = Random::new(lab.variant().parse()?);
    let streams =
        [context.stream()?, context.stream()?, context.stream()?, context.stream()?].to_vec();
    let buffers = (0..5)
        .map(|i| {
            Ok((DeviceBuffer::from_slice(&streams[i % 4], &[i as u32; N])?, vec![i as u32; N]))
        })
        .collect::<Result<_>>()?;
    let unified = (UnifiedBuffer::pinned(&streams[0], N)?, vec![0; N]);
    let mut machine = Machine { streams, buffers, unified, transfers: Vec::new() };
    for step in 0..250 {
        machine.step(&kernels, &mut random, step)?;
    }
    let stream = context.stream()?;
    for (i, (buffer, now)) in machine.buffers.iter().enumerate() {
        differs(&buffer.slice(..)?.slice(..)?.to_vec(&stream)?, now, "buffer", i)?;
    }
    for (transfer, expected) in machine.transfers {
        differs(&transfer.wait()?, &expected, "a transfer", 250)?;
    }
    let (unified, now) = machine.unified;
    differs(&unified.host()?, &now, "a guard", 250)
}
