use cuda_safe::{DeviceBuffer, Stream};
use rust_kernels::scan::{CHUNK, add_sums, scan_chunks};

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    // Three levels of chunks.
    let n = setting.size(1 << 24, CHUNK * CHUNK + 1);
    let mut random = Random::new(11);
    let x: Vec<u32> = (0..n).map(|_| random.below(8) as u32).collect();

    let on_cpu = cpu(&x)?;
    let on_device = device(stream, &DeviceBuffer::from_slice(stream, &x)?)?.to_vec(stream)?;
    same(&on_cpu, &on_device)?;
    let mut sum = 0;
    for (i, (x, scanned)) in x.iter().zip(&on_cpu).enumerate() {
        sum += x;
        if sum != *scanned {
            return Err(format!("sum {i} is {scanned}, and {sum} one after the other").into());
        }
    }
    Ok(format!("{n} words, sum {sum}"))
}

/// The chunks, the sums of the chunks in the same way, and what the chunks before have.
pub(super) fn cpu(x: &[u32]) -> Result<Vec<u32>, Failure> {
    let (mut out, mut sums) = (vec![0; x.len()], vec![0; x.len().div_ceil(CHUNK)]);
    scan_chunks::cpu(x, &mut out, &mut sums)?;
    if sums.len() > 1 {
        add_sums::cpu(&cpu(&sums)?, &mut out)?;
    }
    Ok(out)
}

pub(super) fn device(stream: &Stream, x: &DeviceBuffer<u32>) -> Result<DeviceBuffer<u32>, Failure> {
    let mut out = DeviceBuffer::zeroed(stream, x.len())?;
    let mut sums = DeviceBuffer::zeroed(stream, x.len().div_ceil(CHUNK))?;
    scan_chunks::launch(stream, x, &mut out, &mut sums)?;
    if sums.len() > 1 {
        add_sums::launch(stream, &device(stream, &sums)?, &mut out)?;
    }
    Ok(out)
}
