//! The host's time of small allocations and uploads.

use std::mem::MaybeUninit;

use cuda_safe::DeviceBuffer;

use super::{Bench, Work};
use crate::data::random;
use crate::raw::{Pool, check, need};
use crate::report::Row;
use crate::stop::Stop;
use crate::timing::{Paired, burst};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["alloc_free_async/4KiB"], run: alloc_free },
    Work { names: &["htod/4KiB"], run: small_upload },
];

const CALLS: u32 = 200;
const BYTES: usize = 4096;

fn alloc_free(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let pool = Pool::new(gpu.device)?;
    let (allocate, free) = (pool.allocator(&gpu.stream, BYTES)?, pool.freer(&gpu.stream)?);
    let raw = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || free(allocate()?))
    };
    let ours = || DeviceBuffer::<MaybeUninit<u8>>::uninit(&gpu.stream, BYTES);
    let aligned = ours()?.device_ptr() % 256 == 0;
    if !aligned {
        return Err(Stop::failed("the memory is not aligned to 256 bytes"));
    }
    let mut timed = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || ours().map(drop))
    };
    let paired = Paired::measure(bench.pairs, &mut timed, &raw)?;
    gpu.stream.synchronize()?;
    let errors = gpu.context.take_drop_errors();
    if let Some(error) = errors.first() {
        return Err(Stop::failed(format!("a free failed: {error}")));
    }
    Ok(vec![
        Row::host("alloc_free_async/4KiB", &paired)
            .check("no free failed; aligned to 256 bytes")
            .device(&gpu.name)
            .at_most("diff_ns", paired.difference().median, 100.0),
    ])
}

fn small_upload(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let source = random(BYTES / size_of::<f32>(), 3);
    let mut buffer = DeviceBuffer::<f32>::zeroed(&gpu.stream, source.len())?;
    buffer.upload(&gpu.stream, &source)?;
    if buffer.to_vec(&gpu.stream)? != source {
        return Err(Stop::failed("what was uploaded is not what came back"));
    }
    let copy = need(gpu.driver.as_sys().fns().cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync")?;
    let (to, from, stream) = (buffer.device_ptr(), source.as_ptr(), gpu.stream.as_raw());
    let raw = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || {
            // SAFETY: source and buffer have that many bytes and live until the stream is drained.
            check("cuMemcpyHtoDAsync", unsafe { copy(to, from.cast(), BYTES, stream) })
        })
    };
    let mut ours = || {
        gpu.stream.synchronize()?;
        burst(CALLS, || buffer.upload(&gpu.stream, &source))
    };
    let paired = Paired::measure(bench.pairs, &mut ours, &raw)?;
    gpu.stream.synchronize()?;
    Ok(vec![
        Row::host("htod/4KiB", &paired)
            .check("4096 of 4096 bytes came back")
            .device(&gpu.name)
            .at_most("diff_ns", paired.difference().median, 0.0),
    ])
}
