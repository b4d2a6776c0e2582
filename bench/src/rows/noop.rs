//! The time of our side of a call, on a driver that does nothing. Needs no GPU.

use std::cell::RefCell;
use std::mem::MaybeUninit;

use cuda_safe::dlpack::TensorRef;
use cuda_safe::kernel::kernel;
use cuda_safe::{DeviceBuffer, LaunchConfig, Module};
use cuda_sys::noop;
use serde_json::json;

use super::launch::tensors;
use super::{Bench, Work};
use crate::gpu::{Gpu, Saxpy};
use crate::raw::{Launcher, Pool};
use crate::report::Row;
use crate::stop::Stop;
use crate::timing::{Paired, burst};

pub(super) const WORKS: &[Work] = &[
    Work { names: &["noop/launch5", "noop/launch5/safe"], run: launch5 },
    Work { names: &["noop/launch_rust"], run: launch_rust },
    Work { names: &["noop/lend_three_views"], run: lend_three_views },
    Work { names: &["noop/alloc_free"], run: alloc_free },
];

/// So many that a burst takes far longer than reading the clock.
const CALLS: u32 = 20_000;

const N: usize = 1024;

/// The parameters of saxpy and no code: nothing runs on this driver.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 out, .param .u64 n)
{
    ret;
}
.visible .entry saxpy4(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 out, .param .u64 n)
{
    ret;
}
";

/// Driver calls that one call of `f` makes.
fn driver_calls<E>(f: impl FnOnce() -> Result<(), E>) -> Result<u64, E> {
    noop::reset();
    f()?;
    Ok(noop::total_calls())
}

fn row(work: &str, paired: &Paired, calls: u64, expected: u64) -> Result<Row, Stop> {
    if calls != expected {
        return Err(Stop::failed(format!("{calls} driver calls instead of {expected}")));
    }
    Ok(Row::host(work, paired)
        .check(format!("driver calls: {calls}"))
        .extra("driver_calls", json!(calls))
        .device("no-op table"))
}

fn launch5(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = Gpu::noop()?;
    let module = Module::from_ptx(&gpu.context, PTX)?;
    // SAFETY: on this driver no kernel runs, so none leaves its arguments.
    let kernels = unsafe { Saxpy::from_module(&module) }?;
    let kernel = kernels.saxpy_kernel();
    let stream = &gpu.stream;
    let x = DeviceBuffer::<f32>::zeroed(stream, N)?;
    let y = DeviceBuffer::<f32>::zeroed(stream, N)?;
    let mut out = DeviceBuffer::<f32>::zeroed(stream, N)?;
    let (launch, n) = (LaunchConfig::cover(N, 256), N as u64);
    let launcher = Launcher::new(gpu.driver, kernel, stream, launch.grid.x, launch.block.x)?;
    let arrays = [x.device_ptr(), y.device_ptr(), out.device_ptr()];
    // SAFETY: kernel, stream and arrays are alive; the kernel has these parameters.
    let raw = || burst(CALLS, || unsafe { launcher.saxpy(2.5, arrays, n) });
    let direct = |out: &mut DeviceBuffer<f32>| {
        // SAFETY: as above.
        unsafe { kernel.launch(stream, launch, (2.5f32, &x, &y, out, n)) }
    };
    let safe = |out: &mut DeviceBuffer<f32>| kernels.saxpy(stream, launch, 2.5, &x, &y, out, n);

    // The first launch also checks the argument types.
    direct(&mut out)?;
    safe(&mut out)?;
    direct(&mut out)?;
    let direct_calls = driver_calls(|| direct(&mut out))?;
    let paired = Paired::measure(bench.pairs, &mut || burst(CALLS, || direct(&mut out)), &raw)?;
    let difference = paired.difference().median;
    let first = row("noop/launch5", &paired, direct_calls, 1)?.at_most("diff_ns", difference, 40.0);

    safe(&mut out)?;
    let safe_calls = driver_calls(|| safe(&mut out))?;
    let paired = Paired::measure(bench.pairs, &mut || burst(CALLS, || safe(&mut out)), &raw)?;
    let difference = paired.difference().median;
    let second =
        row("noop/launch5/safe", &paired, safe_calls, 1)?.at_most("diff_ns", difference, 40.0);
    Ok(vec![first, second])
}

#[kernel]
fn saxpy(a: f32, x: &[f32], y: &[f32], out: &mut [f32]) {
    assert!(x.len() == out.len() && y.len() == out.len());
    each(out, |i, out| *out = a * x[i] + y[i]);
}

/// A launch of a kernel in Rust, beside one of the same kernel by `kernels!`.
fn launch_rust(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = Gpu::noop()?;
    let module = Module::from_ptx(&gpu.context, PTX)?;
    // SAFETY: on this driver no kernel runs, so none leaves its arguments.
    let kernels = unsafe { Saxpy::from_module(&module) }?;
    let stream = &gpu.stream;
    let x = DeviceBuffer::<f32>::zeroed(stream, N)?;
    let y = DeviceBuffer::<f32>::zeroed(stream, N)?;
    let (mut out, twin) = (x.try_clone(stream)?, RefCell::new(x.try_clone(stream)?));
    let (shape, n) = (LaunchConfig::cover(N, 256), N as u64);
    let mut rust = || saxpy::launch(stream, 2.5, &x, &y, &mut out);
    rust()?;
    let calls = driver_calls(&mut rust)?;
    let other = || kernels.saxpy(stream, shape, 2.5, &x, &y, &mut *twin.borrow_mut(), n);
    let paired =
        Paired::measure(bench.pairs, &mut || burst(CALLS, &mut rust), &|| burst(CALLS, other))?;
    let difference = paired.difference().median;
    Ok(vec![row("noop/launch_rust", &paired, calls, 1)?.at_most("diff_ns", difference, 40.0)])
}

/// A call of an operator by a framework: see `launch/lend_three_views`.
fn lend_three_views(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = Gpu::noop()?;
    let module = Module::from_ptx(&gpu.context, PTX)?;
    // SAFETY: on this driver no kernel runs, so none leaves its arguments.
    let kernels = unsafe { Saxpy::from_module(&module) }?;
    let stream = gpu.context.stream()?;
    // Any addresses that do not overlap do: nothing uses the memory.
    let arrays = [1_u64 << 20, 1 << 21, 1 << 22];
    let (launch, n) = (LaunchConfig::cover(N, 256), N as u64);
    let launcher =
        Launcher::new(gpu.driver, kernels.saxpy_kernel(), &stream, launch.grid.x, launch.block.x)?;
    // SAFETY: kernel and stream are alive; the kernel has these parameters.
    let raw = || burst(CALLS, || unsafe { launcher.saxpy(2.5, arrays, n) });
    let mut shape = [N as i64];
    let [x, y, out] = tensors(arrays, 0, &mut shape);
    let lent = stream.as_raw();
    let lend = || {
        // SAFETY: the stream is live, and nothing captures it or uses the memory.
        unsafe {
            gpu.context.lend(lent, |lent| {
                let x = lent.view::<f32>(TensorRef::new(&x, true))?;
                let y = lent.view::<f32>(TensorRef::new(&y, true))?;
                let out = lent.view_mut::<f32>(TensorRef::new(&out, false))?;
                kernels.saxpy(lent, launch, 2.5, x, y, out, n)
            })
        }
    };
    lend()?;
    let calls = driver_calls(lend)?;
    let paired = Paired::measure(bench.pairs, &mut || burst(CALLS, lend), &raw)?;
    let difference = paired.difference().median;
    // Besides the launch: whether the stream is captured, and its number.
    Ok(vec![row("noop/lend_three_views", &paired, calls, 3)?.at_most("diff_ns", difference, 120.0)])
}

fn alloc_free(bench: &Bench) -> Result<Vec<Row>, Stop> {
    let gpu = Gpu::noop()?;
    let pool = Pool::new(gpu.device)?;
    let (allocate, free) = (pool.allocator(&gpu.stream, 4096)?, pool.freer(&gpu.stream)?);
    let raw = || burst(CALLS, || free(allocate()?));
    let ours = || DeviceBuffer::<MaybeUninit<u8>>::uninit(&gpu.stream, 4096).map(drop);
    let calls = driver_calls(ours)?;
    let paired = Paired::measure(bench.pairs, &mut || burst(CALLS, ours), &raw)?;
    Ok(vec![row("noop/alloc_free", &paired, calls, 2)?])
}
