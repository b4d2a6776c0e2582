//! What recording a launch, and enqueuing its adjoint, cost the host.

use std::time::Instant;

use cuda_safe::sys::noop;
use cuda_safe::{DeviceBuffer, Driver, LaunchConfig, Module};
use tape::{Element, Op, OpSpec, Param, Primal, Seeds, Tape};

use crate::harness::{Case, TestResult, ensure};

pub(super) fn cases() -> Vec<Case> {
    vec![Case::host("tape::cost::of_a_step", step)]
}

/// A step of particles, and its adjoint. Nothing runs on this driver.
const PTX: &str = "
.version 8.0
.target sm_75
.address_size 64
.visible .entry step(.param .u64 x, .param .u64 v, .param .u64 x1, .param .u64 v1, .param .u32 n) { ret; }
.visible .entry step_adjoint(.param .u64 x, .param .u64 v, .param .u64 x1, .param .u64 v1, .param .u32 n,
    .param .u64 gx, .param .u64 gv, .param .u64 gx1, .param .u64 gv1, .param .align 8 .b8 frame[128]) { ret; }
";

/// A launch costs 3 to 5 µs; with these, recorded launches and adjoints stay within 1.3 times that. The
/// limit is for a machine that does other things too.
const MOST_NANOSECONDS: f64 = 1000.0;

const STEPS: usize = 64;
const BURSTS: usize = 101;

fn op(module: &Module) -> cuda_safe::Result<Op> {
    let of = |name| {
        Param::buffer(name, Element::vector(tape::FloatType::F32, 3)).len("n").covers_all().active()
    };
    let spec = OpSpec::new("step")
        .param(of("x").reads(Primal::None))
        .param(of("v").reads(Primal::Entry))
        .param(of("x1").overwrites())
        .param(of("v1").overwrites())
        .param(Param::value("n"));
    // SAFETY: nothing runs on this driver.
    unsafe { spec.register(module) }
}

fn step() -> TestResult {
    let context = Driver::from_sys(noop::driver())?.device(0)?.context()?;
    let stream = context.stream()?;
    let module = Module::from_ptx(&context, PTX)?;
    let (op, kernel) = (op(&module)?, module.kernel("step")?);
    const N: usize = 10_000;
    let mut x = Vec::new();
    for _ in 0..=STEPS {
        let buffer = || DeviceBuffer::<[f32; 3]>::zeroed(&stream, N);
        x.push((buffer()?, buffer()?));
    }
    let seed = DeviceBuffer::<[f32; 3]>::zeroed(&stream, N)?;
    let launch = LaunchConfig::cover(N, 256);
    let mut tape = Tape::new(&stream)?;
    let (mut plain, mut recorded, mut planned, mut again) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BURSTS {
        let mut begin = Instant::now();
        let mut lap = |laps: &mut Vec<f64>| {
            laps.push(begin.elapsed().as_secs_f64() * 1e9 / STEPS as f64);
            begin = Instant::now();
        };
        for i in 0..STEPS {
            let (before, after) = x.split_at_mut(i + 1);
            if let (Some((x, v)), Some((x1, v1))) = (before.last(), after.first_mut()) {
                // SAFETY: nothing runs on this driver.
                unsafe { kernel.launch(&stream, launch, (x, v, x1, v1, N as u32)) }?;
            }
        }
        lap(&mut plain);
        tape.record_again(&stream, |t| {
            let Some((x0, v0)) = x.first() else { return Ok(()) };
            t.watch(x0)?;
            t.watch(v0)?;
            for i in 0..STEPS {
                let (before, after) = x.split_at_mut(i + 1);
                if let (Some((x, v)), Some((x1, v1))) = (before.last(), after.first_mut()) {
                    t.launch(&op, launch, (x, v, x1, v1, N as u32))?;
                }
            }
            Ok(())
        })?;
        lap(&mut recorded);
        let Some((last, _)) = x.last() else { return Ok(()) };
        let seeds = Seeds::new().with(last, &seed)?;
        tape.backward_with(&stream, &seeds)?;
        lap(&mut planned);
        tape.backward_with(&stream, &seeds)?;
        lap(&mut again);
    }
    let [plain, recorded, planned, again] = [plain, recorded, planned, again].map(|mut laps| {
        laps.sort_by(f64::total_cmp);
        // What it takes while nothing else runs on this core.
        laps[laps.len() / 10]
    });
    println!(
        "a launch {plain:.0} ns, recorded {recorded:.0}; its adjoint {planned:.0}, {again:.0} in a second pass"
    );
    // Each step has nine more parameters than a plain launch in the two passes.
    let above = recorded.max(planned) - plain;
    ensure!(cfg!(debug_assertions) || above <= MOST_NANOSECONDS, "{above:.0} ns above a launch");
    Ok(())
}
