use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::Atomic;
use rust_kernels::histogram::histogram;

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 24, 1 << 16) + 1;
    let mut random = Random::new(12);
    // Lower bytes are more frequent.
    let data: Vec<u32> = (0..n).map(|_| (random.bits() & random.bits()) as u32).collect();

    let mut cpu = vec![0; 256];
    histogram::cpu(&data, Atomic::from_mut(&mut cpu))?;
    let on_device = DeviceBuffer::from_slice(stream, &data)?;
    let mut bins = DeviceBuffer::<u32>::zeroed(stream, 256)?;
    histogram::launch(stream, &on_device, &mut bins)?;
    same(&cpu, &bins.to_vec(stream)?)?;

    let mut counts = vec![0; 256];
    data.iter().for_each(|word| counts[(word & 255) as usize] += 1);
    same(&counts, &cpu)?;
    Ok(format!("{n} words, {} of them with the byte 0", cpu[0]))
}
