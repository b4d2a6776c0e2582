//! The host's time for a launch above the bare call through the table of functions. This is the only test of its
//! program: nothing runs beside it.

use std::error::Error;
use std::ffi::c_void;
use std::hint::black_box;
use std::time::{Duration, Instant};

use cuda_safe::sys::noop;
use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module};
use test_support::cost::{cheap, least, reference_burst, slowness};

const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u64 y, .param .u64 out, .param .u64 n)
{ ret; }
";

/// A launch takes some 20 ns above the bare call; the limit of `bench` is 40 ns, on a quiet machine. This one finds a
/// system call or a few allocations in the path of a launch. A slower core has a higher one.
const MOST_NANOSECONDS: f64 = 60.0;

/// How long the measurement, which takes some 20 ms, is repeated while it is above the limit.
const PATIENCE: Duration = Duration::from_secs(20);

const BURSTS: usize = 401;
const LAUNCHES: u32 = 500;

#[test]
fn a_launch_costs_little_more_than_the_bare_call() -> Result<(), Box<dyn Error>> {
    let sys = noop::driver();
    let context = Driver::from_sys(sys)?.device(0)?.context()?;
    let stream = context.stream()?;
    let saxpy = Module::from_ptx(&context, PTX)?.kernel("saxpy")?;
    let x = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let y = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&stream, 1000)?;
    let bare = sys.fns().cuLaunchKernel.ok_or("the no-op driver has no cuLaunchKernel")?;
    let (function, queue) = (saxpy.as_raw(), stream.as_raw());
    let addresses = [x.device_ptr(), y.device_ptr(), out.device_ptr()];

    let bare_burst = || {
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
            // SAFETY: the handles are live and there is one pointer for each parameter.
            let code = unsafe { bare(function, 8, 1, 1, 128, 1, 1, 0, queue, arguments, none) };
            black_box(code);
        }
        begin.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES)
    };
    let mut safe_burst = || -> cuda_safe::Result<f64> {
        let begin = Instant::now();
        for _ in 0..LAUNCHES {
            let (a, n) = (black_box(2.0f32), black_box(1000u64));
            let shape = black_box(LaunchConfig::new(8, 128));
            // SAFETY: the no-op driver runs no kernel.
            unsafe { saxpy.launch(&stream, shape, (a, &x, &y, &mut out, n)) }?;
        }
        Ok(begin.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES))
    };

    let mut measure = || -> cuda_safe::Result<f64> {
        let mut laps = [const { Vec::new() }; 3];
        for _ in 0..BURSTS {
            let burst = [bare_burst(), safe_burst()?, reference_burst()];
            for (laps, lap) in laps.iter_mut().zip(burst) {
                laps.push(lap);
            }
        }
        let [mut bare, mut safe, mut reference] = laps;
        let (bare, safe, slowness) = (cheap(&mut bare), cheap(&mut safe), slowness(&mut reference));
        println!(
            "a launch of 5 arguments: the bare call {bare:.1} ns, safe {safe:.1} ns; the core is {slowness:.2} times \
             slower ({:.1} ns)",
            cheap(&mut reference)
        );
        Ok((safe - bare) / slowness)
    };
    // The time of a build without optimisation says nothing.
    let patience = if cfg!(debug_assertions) { Duration::ZERO } else { PATIENCE };
    let above = least(MOST_NANOSECONDS, patience, &mut measure)?;
    assert!(
        cfg!(debug_assertions) || above <= MOST_NANOSECONDS,
        "{above:.1} ns above the bare call in the best measurement of {PATIENCE:?}: the limit is {MOST_NANOSECONDS} ns"
    );
    Ok(())
}
