use cuda_safe::{DeviceBuffer, Stream};
use rust_kernels::scan::{CHUNK, scan};

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    // Groups of blocks, too.
    let n = setting.size(1 << 24, 40 * CHUNK + 1);
    let mut sum = 0;
    for n in [0, 1, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1, 33 * CHUNK, n] {
        let mut random = Random::new(11);
        let x: Vec<u32> = (0..n).map(|_| random.below(8) as u32).collect();
        let on_cpu = cpu(&x)?;
        let x_on_device = DeviceBuffer::from_slice(setting.stream, &x)?;
        same(&on_cpu, &device(setting.stream, &x_on_device)?.to_vec(setting.stream)?)?;
        sum = 0;
        for (i, (x, scanned)) in x.iter().zip(&on_cpu).enumerate() {
            sum += x;
            if sum != *scanned {
                return Err(format!("sum {i} is {scanned}, and {sum} one after the other").into());
            }
        }
    }
    Ok(format!("{n} words, sum {sum}"))
}

pub(super) fn cpu(x: &[u32]) -> Result<Vec<u32>, Failure> {
    let mut out = vec![0; x.len()];
    scan::cpu(x, &mut out)?;
    Ok(out)
}

pub(super) fn device(stream: &Stream, x: &DeviceBuffer<u32>) -> Result<DeviceBuffer<u32>, Failure> {
    let mut out = DeviceBuffer::zeroed(stream, x.len())?;
    scan::launch(stream, x, &mut out)?;
    Ok(out)
}
