//! The host's time for recording a launch, and for enqueuing its adjoint. This is the only test of its program:
//! nothing runs beside it.

use std::error::Error;
use std::time::{Duration, Instant};

use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module};
use cuda_sys::noop;
use cuda_tape::{Element, FloatType, Op, OpSpec, Param, Primal, Seeds, Tape};
use test_support::cost::{cheap, least, reference_burst, slowness};

/// A step of particles, and its adjoint. The no-op driver runs neither.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 x, .param .u64 v, .param .u64 x1, .param .u64 v1, .param .u32 n) { ret; }
.visible .entry step_adjoint(.param .u64 x, .param .u64 v, .param .u64 x1, .param .u64 v1, .param .u32 n,
    .param .u64 gx, .param .u64 gv, .param .u64 gx1, .param .u64 gv1, .param .align 8 .b8 frame[128]) { ret; }
";

/// A launch takes the host 3 to 5 µs on a GPU; with this limit, recorded launches and adjoints take at most 1.3 times
/// as long. `bench` measures that. A slower core has a higher limit.
const MOST_NANOSECONDS: f64 = 1000.0;

/// How long the measurement, which takes some 20 ms, is repeated while it is above the limit.
const PATIENCE: Duration = Duration::from_secs(20);

const STEPS: usize = 64;
const BURSTS: usize = 101;
const PARTICLES: usize = 10_000;

fn op(module: &Module) -> cuda_safe::Result<Op> {
    let of = |name| {
        Param::buffer(name, Element::vector(FloatType::F32, 3)).len("n").each_element().active()
    };
    let spec = OpSpec::new("step")
        .param(of("x").reads(Primal::None))
        .param(of("v").reads(Primal::Entry))
        .param(of("x1").overwrites())
        .param(of("v1").overwrites())
        .param(Param::value("n"));
    // SAFETY: the no-op driver runs no kernel.
    unsafe { spec.register(module) }
}

#[test]
fn a_recorded_launch_and_its_adjoint_cost_little_more_than_a_launch() -> Result<(), Box<dyn Error>>
{
    let context = Driver::from_sys(noop::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let module = Module::from_ptx(&context, PTX)?;
    let (op, kernel) = (op(&module)?, module.kernel("step")?);
    let mut states = Vec::new();
    for _ in 0..=STEPS {
        let buffer = || DeviceBuffer::<[f32; 3]>::zeroed(&stream, PARTICLES);
        states.push((buffer()?, buffer()?));
    }
    let seed = DeviceBuffer::<[f32; 3]>::zeroed(&stream, PARTICLES)?;
    let launch = LaunchConfig::cover(PARTICLES, 256);
    let mut tape = Tape::new(&stream)?;

    // One burst: nanoseconds a step of plain launches, of recorded ones, of their adjoints, and of these again.
    let mut burst = || -> Result<[f64; 4], Box<dyn Error>> {
        let mut begin = Instant::now();
        let mut lap = || {
            let time = begin.elapsed().as_secs_f64() * 1e9 / STEPS as f64;
            begin = Instant::now();
            time
        };
        for i in 0..STEPS {
            let (before, after) = states.split_at_mut(i + 1);
            if let (Some((x, v)), Some((x1, v1))) = (before.last(), after.first_mut()) {
                // SAFETY: the no-op driver runs no kernel.
                unsafe { kernel.launch(&stream, launch, (x, v, x1, v1, PARTICLES as u32)) }?;
            }
        }
        let plain = lap();
        tape.record_again(&stream, |tape| {
            let Some((x0, v0)) = states.first() else { return Ok(()) };
            tape.watch(x0)?;
            tape.watch(v0)?;
            for i in 0..STEPS {
                let (before, after) = states.split_at_mut(i + 1);
                if let (Some((x, v)), Some((x1, v1))) = (before.last(), after.first_mut()) {
                    tape.launch(&op, launch, (x, v, x1, v1, PARTICLES as u32))?;
                }
            }
            Ok(())
        })?;
        let recorded = lap();
        let (last, _) = states.last().ok_or("there are no states")?;
        let seeds = Seeds::new().with(last, &seed)?;
        tape.backward_with(&stream, &seeds)?;
        let planned = lap();
        tape.backward_with(&stream, &seeds)?;
        Ok([plain, recorded, planned, lap()])
    };

    let mut measure = || -> Result<f64, Box<dyn Error>> {
        let mut laps = [const { Vec::new() }; 4];
        let mut reference = Vec::new();
        for _ in 0..BURSTS {
            reference.push(reference_burst());
            for (laps, lap) in laps.iter_mut().zip(burst()?) {
                laps.push(lap);
            }
        }
        let [plain, recorded, planned, again] = laps.map(|mut laps| cheap(&mut laps));
        let slowness = slowness(&mut reference);
        println!(
            "a launch {plain:.0} ns, recorded {recorded:.0}; its adjoint {planned:.0}, {again:.0} in a second pass; \
             the core is {slowness:.2} times slower"
        );
        // Each step has nine more parameters than a plain launch in the two passes.
        Ok((recorded.max(planned) - plain) / slowness)
    };
    // The time of a build without optimisation says nothing.
    let patience = if cfg!(debug_assertions) { Duration::ZERO } else { PATIENCE };
    let above = least(MOST_NANOSECONDS, patience, &mut measure)?;
    assert!(
        cfg!(debug_assertions) || above <= MOST_NANOSECONDS,
        "{above:.0} ns above a launch in the best measurement of {PATIENCE:?}: the limit is {MOST_NANOSECONDS} ns"
    );
    Ok(())
}
