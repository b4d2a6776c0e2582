//! What a launch costs the host above the bare call through the table.

use std::ffi::c_void;
use std::hint::black_box;
use std::time::Instant;

use cuda_safe::sys::noop;
use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module};

use super::lab::PTX;
use crate::harness::{Case, Failure, TestResult, ensure};

pub(super) fn cases() -> Vec<Case> {
    vec![Case::host("cost::launch", launch)]
}

/// The limit is 40 ns on a quiet machine, which `bench` measures. This one is to notice a lock or
/// an allocation on the way, on a machine that does other things too.
const MOST_NANOSECONDS: f64 = 80.0;

const BURSTS: usize = 401;
const LAUNCHES: u32 = 500;

fn launch() -> TestResult {
    let sys = noop::driver();
    let context = Driver::from_sys(sys)?.device(0)?.context()?;
    let stream = context.stream()?;
    let saxpy = Module::from_ptx(&context, PTX)?.kernel("saxpy")?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let Some(bare) = sys.fns().cuLaunchKernel else {
        return Err(Failure::new("the no-op driver can't launch"));
    };
    let (function, queue) = (saxpy.as_raw(), stream.as_raw());
    let addresses = [x.device_ptr(), y.device_ptr(), out.device_ptr()];

    let raw_burst = || {
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            let (a, n) = (black_box(2.0f32), black_box(1000u64));
            let addresses = black_box(addresses);
            let mut arguments: [*mut c_void; 5] = [
                (&raw const a).cast_mut().cast(),
                (&raw const addresses[0]).cast_mut().cast(),
                (&raw const addresses[1]).cast_mut().cast(),
                (&raw const addresses[2]).cast_mut().cast(),
                (&raw const n).cast_mut().cast(),
            ];
            let arguments = black_box(arguments.as_mut_ptr());
            let none = std::ptr::null_mut();
            // SAFETY: handles are live and there is one pointer for each parameter.
            let code = unsafe { bare(function, 8, 1, 1, 128, 1, 1, 0, queue, arguments, none) };
            black_box(code);
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES)
    };
    let mut raws = Vec::with_capacity(BURSTS);
    let mut above = Vec::with_capacity(BURSTS);
    let mut noise = Vec::with_capacity(BURSTS);
    for _ in 0..BURSTS {
        let before = raw_burst();
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            let (a, n) = (black_box(2.0f32), black_box(1000u64));
            let shape = black_box(LaunchConfig::new(8, 128));
            // SAFETY: nothing runs on this driver.
            unsafe { saxpy.launch(&stream, shape, (a, &x, &y, &mut out, n)) }?;
        }
        let ours = begin.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES);
        let after = raw_burst();
        raws.push(before.min(after));
        above.push(ours - before.midpoint(after));
        noise.push((before - after).abs());
    }
    let (raw, above, noise) = (median(&mut raws), median(&mut above), median(&mut noise));
    println!("launch of 5 arguments: bare {raw:.1} ns, ours {above:.1} ns above (A/A {noise:.2})");
    // Without optimisation it says nothing.
    ensure!(cfg!(debug_assertions) || above <= MOST_NANOSECONDS, "{above:.1} ns above");
    Ok(())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
