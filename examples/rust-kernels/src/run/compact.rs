use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::Atomic;
use rust_kernels::compact::{CHUNK, keep_less};

use super::{Setting, same};
use crate::Failure;
use crate::data::Random;

const LIMIT: u32 = 1 << 30;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    // Groups of blocks, too.
    let n = setting.size(1 << 24, 33 * CHUNK + 1);
    let mut kept = 0;
    for n in [0, 1, 31, 32, 33, CHUNK - 1, CHUNK, CHUNK + 1, n] {
        kept = of_size(setting, n)?;
    }
    Ok(format!("{kept} of {n} words"))
}

fn of_size(setting: &Setting<'_>, n: usize) -> Result<usize, Failure> {
    let stream = setting.stream;
    let mut random = Random::new(22);
    let x: Vec<u32> = (0..n).map(|_| random.bits() as u32).collect();

    let (mut kept, mut count) = (vec![0; n], [0]);
    keep_less::cpu(LIMIT, &x, Atomic::from_mut(&mut kept), Atomic::from_mut(&mut count))?;

    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut out = DeviceBuffer::<u32>::zeroed(stream, n)?;
    let mut out_count = DeviceBuffer::<u32>::zeroed(stream, 1)?;
    keep_less::launch(stream, LIMIT, &on_device, &mut out, &mut out_count)?;
    same(&kept, &out.to_vec(stream)?)?;
    same(&count, &out_count.to_vec(stream)?)?;

    let filtered: Vec<u32> = x.into_iter().filter(|x| *x < LIMIT).collect();
    kept.truncate(count[0] as usize);
    same(&filtered, &kept)?;
    Ok(kept.len())
}
