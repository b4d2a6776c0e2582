use cuda_safe::DeviceBuffer;
use cuda_safe::kernel::Atomic;
use rust_kernels::compact::{CHUNK, count_less, keep_less};

use super::{Setting, same, scan};
use crate::Failure;
use crate::data::Random;

const LIMIT: u32 = 1 << 30;

pub(super) fn run(setting: &Setting<'_>) -> Result<String, Failure> {
    let stream = setting.stream;
    let n = setting.size(1 << 24, 1 << 16) + 1;
    let mut random = Random::new(22);
    let x: Vec<u32> = (0..n).map(|_| random.bits() as u32).collect();

    let mut counts = vec![0; n.div_ceil(CHUNK)];
    count_less::cpu(LIMIT, &x, &mut counts)?;
    let ends = scan::cpu(&counts)?;
    let count = ends.last().map_or(0, |end| *end as usize);
    let mut kept = vec![0; count];
    keep_less::cpu(LIMIT, &x, &ends, Atomic::from_mut(&mut kept))?;

    let on_device = DeviceBuffer::from_slice(stream, &x)?;
    let mut counts = DeviceBuffer::<u32>::zeroed(stream, n.div_ceil(CHUNK))?;
    count_less::launch(stream, LIMIT, &on_device, &mut counts)?;
    let ends = scan::device(stream, &counts)?;
    let mut out = DeviceBuffer::<u32>::zeroed(stream, count)?;
    keep_less::launch(stream, LIMIT, &on_device, &ends, &mut out)?;
    same(&kept, &out.to_vec(stream)?)?;

    let filtered: Vec<u32> = x.into_iter().filter(|x| *x < LIMIT).collect();
    same(&filtered, &kept)?;
    Ok(format!("{count} of {n} words"))
}
