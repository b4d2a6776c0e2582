//! The rate of large copies between host and device.

use std::ffi::c_void;

use cuda_safe::{DeviceBuffer, PinnedBuffer};
use cuda_sys::CUdeviceptr;

use super::{Bench, Work};
use crate::data::random;
use crate::gpu::Gpu;
use crate::raw::{RawError, check, need, synchronizer};
use crate::report::{Row, Unit};
use crate::stats::{Stats, median};
use crate::stop::Stop;
use crate::timing::{Paired, once};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["htod_pinned/256MiB"], run: up_pinned },
    Work { names: &["dtoh_pinned/256MiB"], run: down_pinned },
    Work { names: &["htod_pageable/256MiB"], run: up_pageable },
    Work { names: &["dtoh_pageable/256MiB"], run: down_pageable },
    Work { names: &["dtoh_fresh/256MiB"], run: down_fresh },
];

const BYTES: usize = 256 << 20;
const ELEMENTS: usize = BYTES / size_of::<f32>();

fn row(work: &str, gpu: &Gpu, paired: &Paired) -> Row {
    let rate = |nanoseconds: &f64| BYTES as f64 / (1u64 << 30) as f64 / (nanoseconds / 1e9);
    let rates = |times: &[f64]| times.iter().map(rate).collect::<Vec<f64>>();
    let (raw, ratio) = (median(&rates(&paired.raw)), paired.ratio().median);
    Row::new(work, Unit::Gibs, &rates(&paired.ours))
        .figure("raw_gibs", raw)
        .figure("raw_aa_gibs", median(&rates(&paired.again)))
        .figure("time_ratio", ratio)
        .figure("ms_median", Stats::of(&paired.ours).median / 1e6)
        .note(format!("raw {raw:.2}, time {ratio:.3} of raw"))
        .check("all bytes equal")
        .device(&gpu.name)
}

fn same(found: &[f32], expected: &[f32]) -> Result<(), Stop> {
    if found == expected { Ok(()) } else { Err(Stop::failed("the copy differs from its source")) }
}

/// `cuMemcpyHtoDAsync` of all bytes and a wait.
fn raw_up(gpu: &Gpu) -> Result<impl Fn(CUdeviceptr, *const c_void) -> Result<(), RawError>, Stop> {
    let copy = need(gpu.driver.as_sys().fns().cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync")?;
    let wait = synchronizer(gpu.driver, &gpu.stream)?;
    let stream = gpu.stream.as_raw();
    Ok(move |to, from| {
        // SAFETY: the rows below give the addresses of live memory of that size.
        check("cuMemcpyHtoDAsync", unsafe { copy(to, from, BYTES, stream) })?;
        wait()
    })
}

/// `cuMemcpyDtoHAsync` of all bytes and a wait.
fn raw_down(gpu: &Gpu) -> Result<impl Fn(*mut c_void, CUdeviceptr) -> Result<(), RawError>, Stop> {
    let copy = need(gpu.driver.as_sys().fns().cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync")?;
    let wait = synchronizer(gpu.driver, &gpu.stream)?;
    let stream = gpu.stream.as_raw();
    Ok(move |to, from| {
        // SAFETY: the rows below give the addresses of live memory of that size.
        check("cuMemcpyDtoHAsync", unsafe { copy(to, from, BYTES, stream) })?;
        wait()
    })
}

fn up_pinned(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let data = random(ELEMENTS, 4);
    let mut device = DeviceBuffer::<f32>::zeroed(&gpu.stream, ELEMENTS)?;
    // In a cell of its own while the transfer holds it.
    let mut source = Some(PinnedBuffer::from_slice(&gpu.context, &data)?);
    let raw_source = PinnedBuffer::from_slice(&gpu.context, &data)?;
    let (to, copy) = (device.device_ptr(), raw_up(gpu)?);
    let raw = || Ok(once(|| Ok(copy(to, raw_source.as_ptr().cast())?))?.0);
    let mut ours = || {
        let pinned = source.take().ok_or_else(|| Stop::failed("a transfer kept its buffer"))?;
        let (time, pinned) =
            once(|| Ok(device.as_slice_mut().upload_pinned(&gpu.stream, pinned)?.wait()?))?;
        source = Some(pinned);
        Ok(time)
    };
    ours()?;
    let paired = Paired::measure(bench.samples, &mut ours, &raw)?;
    same(&device.to_vec(&gpu.stream)?, &data)?;
    Ok(vec![row("htod_pinned/256MiB", gpu, &paired)])
}

fn down_pinned(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let data = random(ELEMENTS, 5);
    let device = DeviceBuffer::from_slice(&gpu.stream, &data)?;
    let mut target = Some(PinnedBuffer::<f32>::zeroed(&gpu.context, ELEMENTS)?);
    let mut raw_target = PinnedBuffer::<f32>::zeroed(&gpu.context, ELEMENTS)?;
    let (to, copy) = (raw_target.as_mut_ptr(), raw_down(gpu)?);
    let raw = || Ok(once(|| Ok(copy(to.cast(), device.device_ptr())?))?.0);
    let mut ours = || {
        let pinned = target.take().ok_or_else(|| Stop::failed("a transfer kept its buffer"))?;
        let (time, pinned) =
            once(|| Ok(device.as_slice().download_pinned(&gpu.stream, pinned)?.wait()?))?;
        target = Some(pinned);
        Ok(time)
    };
    let paired = Paired::measure(bench.samples, &mut ours, &raw)?;
    same(target.as_deref().unwrap_or_default(), &data)?;
    Ok(vec![row("dtoh_pinned/256MiB", gpu, &paired)])
}

fn up_pageable(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let data = random(ELEMENTS, 6);
    let mut device = DeviceBuffer::<f32>::zeroed(&gpu.stream, ELEMENTS)?;
    let (to, copy) = (device.device_ptr(), raw_up(gpu)?);
    let raw = || Ok(once(|| Ok(copy(to, data.as_ptr().cast())?))?.0);
    let mut ours = || {
        let (time, ()) = once(|| {
            device.upload(&gpu.stream, &data)?;
            Ok(gpu.stream.synchronize()?)
        })?;
        Ok(time)
    };
    let paired = Paired::measure(bench.samples, &mut ours, &raw)?;
    // Our calls ran before raw calls, too: the downloaded bytes must be ours.
    device.fill(&gpu.stream, f32::NAN)?;
    device.upload(&gpu.stream, &data)?;
    same(&device.to_vec(&gpu.stream)?, &data)?;
    Ok(vec![row("htod_pageable/256MiB", gpu, &paired)])
}

fn down_pageable(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let data = random(ELEMENTS, 7);
    let device = DeviceBuffer::from_slice(&gpu.stream, &data)?;
    // Ones, not zeros: zeroed memory is not touched before the first write.
    let (mut target, mut raw_target) = (vec![1.0f32; ELEMENTS], vec![1.0f32; ELEMENTS]);
    let (to, copy) = (raw_target.as_mut_ptr(), raw_down(gpu)?);
    let raw = || Ok(once(|| Ok(copy(to.cast(), device.device_ptr())?))?.0);
    let mut ours = || Ok(once(|| Ok(device.download(&gpu.stream, &mut target)?))?.0);
    let paired = Paired::measure(bench.samples, &mut ours, &raw)?;
    same(&target, &data)?;
    same(&raw_target, &data)?;
    Ok(vec![row("dtoh_pageable/256MiB", gpu, &paired)])
}

fn down_fresh(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = bench.gpu()?;
    let data = random(ELEMENTS, 8);
    let device = DeviceBuffer::from_slice(&gpu.stream, &data)?;
    let copy = raw_down(gpu)?;
    let raw = || {
        let (time, _fresh) = once(|| {
            let mut fresh = Vec::<f32>::with_capacity(ELEMENTS);
            copy(fresh.as_mut_ptr().cast(), device.device_ptr())?;
            Ok(fresh)
        })?;
        Ok(time)
    };
    let mut last = Vec::new();
    let mut ours = || {
        // The vector before is freed outside of the time.
        last = Vec::new();
        let (time, fresh) = once(|| Ok(device.to_vec(&gpu.stream)?))?;
        last = fresh;
        Ok(time)
    };
    let paired = Paired::measure(bench.samples, &mut ours, &raw)?;
    same(&last, &data)?;
    Ok(vec![row("dtoh_fresh/256MiB", gpu, &paired)])
}
