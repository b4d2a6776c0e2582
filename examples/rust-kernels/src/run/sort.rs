use cuda_safe::DeviceBuffer;
use rust_kernels::sort::{CHUNK, sort_chunks};

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 24, 1 << 13) + 1;
    let mut random = Random::new(21);
    let x: Vec<u32> = (0..n).map(|_| random.bits() as u32).collect();
    let mut cpu = vec![0; n];
    sort_chunks::cpu(&x, &mut cpu)?;
    let mut out = DeviceBuffer::<u32>::zeroed(stream, n)?;
    sort_chunks::launch(stream, &DeviceBuffer::from_slice(stream, &x)?, &mut out)?;
    same(&cpu, &out.to_vec(stream)?)?;

    let mut sorted = x;
    sorted.chunks_mut(CHUNK).for_each(<[u32]>::sort_unstable);
    same(&sorted, &cpu)?;
    Ok(format!("{n} words in chunks of {CHUNK}"))
}
