//! Generated kernels over blocks: the CPU and the device compute the same bits, in each order of its blocks and warps, or
//! report the same fault.
//!
//! `PHASES_ONLY` names the one kernel to run, whose C++ is printed, and `PHASES_PROCESSES` the number of processes. With
//! `TEST_DEEP` 100,000 programs are run, in batches that are compiled one after the other; `PHASES_BATCHES` sets how many
//! batches, of 500 programs.

use std::fmt::Display;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use cuda_emu::{Checks, Config};
use cuda_safe::{Context, DeviceBuffer, Driver, Stream};
use gpu_phases::device::Device;
use gpu_phases::kernel::CpuError;

/// A plan, and which check fails: in one block, and at one position of its threads.
#[derive(Clone, Copy)]
struct Planted<'a> {
    plan: &'a Input<u32>,
    site: u32,
    at_block: usize,
    at: usize,
}

/// Whether a check has failed, on all targets alike; else what differs.
type Ended = Result<bool, String>;

/// A kernel, with its programs.
struct Drawn {
    name: &'static str,
    /// Runs a program on the CPU, and on the device in each of these orders.
    run: fn(&Bench, Planted<'_>, &[u64]) -> Ended,
    /// Returns its C++.
    source: fn() -> String,
    programs: &'static [Planned],
}

/// A program of a kernel.
struct Planned {
    /// The numbers of statements in the order in which they run, and their arguments.
    plan: &'static [u32],
    /// The checks that can be made to fail.
    sites: &'static [u32],
    /// Those of [`generated::CONSTRUCTS`] that it runs.
    constructs: &'static [&'static str],
}

/// A device, and what programs read.
struct Bench {
    context: Context,
    stream: Stream,
    x: Input<i32>,
    y: Input<u32>,
    f: Input<f32>,
}

struct Input<T> {
    host: Vec<T>,
    device: DeviceBuffer<T>,
}

impl<T: Device + bytemuck::Pod> Input<T> {
    fn new(stream: &Stream, host: Vec<T>) -> Self {
        let device = DeviceBuffer::from_slice(stream, &host).unwrap();
        Self { host, device }
    }
}

/// Returns whether the tests run on the software device: they do unless `PHASES_DRIVER` is `system`.
fn is_emulated() -> bool {
    std::env::var("PHASES_DRIVER").as_deref() != Ok("system")
}

impl Bench {
    fn new() -> Self {
        let driver = if is_emulated() {
            let checks = Checks { race: true, init: true, ..Checks::default() };
            Config::from_env().check(checks).install();
            Driver::from_sys(cuda_emu::driver())
        } else {
            Driver::load()
        };
        let context = driver.unwrap().device(0).unwrap().context().unwrap();
        let stream = context.stream().unwrap();
        let y: Vec<u32> = (0..300u32).map(|i| i.wrapping_mul(2_654_435_761) >> 5).collect();
        let x = y.iter().map(|y| (*y % 2000) as i32 - 1000).collect();
        let f = y.iter().map(|y| (*y % 977) as f32 * 0.37 - 100.0).collect();
        let (x, f) = (Input::new(&stream, x), Input::new(&stream, f));
        Self { context, y: Input::new(&stream, y), x, f, stream }
    }

    /// Lets the device run blocks and warps in an order.
    fn order(&self, seed: u64) -> Result<(), String> {
        self.context.synchronize().map_err(text)?;
        if is_emulated() && !cuda_emu::reseed(Some(seed)) {
            return Err("the device is not idle".to_owned());
        }
        Ok(())
    }

    /// Compares how a program has ended on the device with how it did on the CPU.
    fn ended(&self, cpu: &Result<(), CpuError>) -> Result<(), String> {
        let waited = self.stream.synchronize();
        let fault = self.context.take_fault();
        if is_emulated()
            && let Some(found) = cuda_emu::findings().first()
        {
            return Err(found.to_string());
        }
        match (cpu, waited, fault) {
            (Ok(()), Ok(()), None) => Ok(()),
            (Err(cpu), Err(_), Some(fault)) if cpu.to_string() == fault.to_string() => Ok(()),
            (cpu, device, fault) => {
                Err(format!("the CPU ends with {cpu:?}, and the device with {device:?}: {fault:?}"))
            }
        }
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// An output on both targets.
struct Output<T> {
    start: Vec<T>,
    host: Vec<T>,
    device: Option<DeviceBuffer<T>>,
}

impl<T: Device + bytemuck::Pod + std::fmt::Debug> Output<T> {
    fn new(start: Vec<T>) -> Self {
        Self { host: start.clone(), start, device: None }
    }

    /// Returns memory of the device that is as the host's was at first.
    fn device(&mut self, stream: &Stream) -> Result<&mut DeviceBuffer<T>, String> {
        Ok(self.device.insert(DeviceBuffer::from_slice(stream, &self.start).map_err(text)?))
    }

    fn compare(&self, stream: &Stream, name: &str) -> Result<(), String> {
        let device = self.device.as_ref().ok_or("nothing was launched")?;
        let device = device.to_vec(stream).map_err(text)?;
        for (at, (a, b)) in self.host.iter().zip(&device).enumerate() {
            // NaNs may have different payloads.
            let nan = format!("{a:?}") == "NaN" && format!("{b:?}") == "NaN";
            if !nan && bytemuck::bytes_of(a) != bytemuck::bytes_of(b) {
                return Err(format!("{name}[{at}]: CPU {a:?}, device {b:?}"));
            }
        }
        Ok(())
    }
}

macro_rules! run {
    ($kernel:ident, $bench:ident, $planted:ident, $orders:ident $(, $out:ident: $ty:ident = $len:expr)*) => {{
        let (stream, Planted { plan, site, at_block, at }) = (&$bench.stream, $planted);
        $(let mut $out = Output::new(start::<$ty>($len));)*
        let mut bins = Output::new(vec![0u32; 64]);
        let (x, y, f) = (&$bench.x, &$bench.y, &$bench.f);
        let cpu = $kernel::cpu(
            &plan.host, site, at_block, at, &x.host, &y.host, &f.host, $(&mut $out.host,)* Atomic::from_mut(&mut bins.host),
        );
        for order in $orders {
            $bench.order(*order)?;
            $kernel::launch(
                stream, &plan.device, site, at_block, at, &x.device, &y.device, &f.device, $($out.device(stream)?,)*
                bins.device(stream)?,
            ).map_err(text)?;
            $bench.ended(&cpu).map_err(|error| format!("order {order}: {error}"))?;
            if cpu.is_ok() {
                $($out.compare(stream, stringify!($out)).map_err(|error| format!("order {order}: {error}"))?;)*
                bins.compare(stream, "bins").map_err(|error| format!("order {order}: {error}"))?;
            }
        }
        Ok(cpu.is_err())
    }};
}

/// Numbers that an output has before.
trait Start {
    fn at(i: usize) -> Self;
}

macro_rules! starts {
    ($($name:ident)*) => {$(
        impl Start for $name {
            fn at(i: usize) -> Self {
                (i * 37 % 101) as Self
            }
        }
    )*};
}

starts!(u8 u32 i32 u64 f32);

fn start<T: Start>(len: usize) -> Vec<T> {
    (0..len).map(T::at).collect()
}

#[allow(
    unused,
    clippy::all,
    clippy::pedantic,
    overflowing_literals,
    unused_comparisons,
    arithmetic_overflow,
    unconditional_panic,
    reason = "the programs are random"
)]
mod generated {
    use gpu_phases::{Atomic, Block, Part, PerThread, Shared, device, kernel};

    use super::*;

    include!(concat!(env!("OUT_DIR"), "/blocks.rs"));
}

/// The programs whose shares are tested: fewer are of too few kernels.
const ENOUGH: usize = 400;

#[test]
fn each_construct_is_in_a_tenth_of_the_programs() {
    let programs: Vec<&Planned> =
        generated::DRAWN.iter().flat_map(|drawn| drawn.programs).collect();
    for construct in generated::CONSTRUCTS {
        let count =
            programs.iter().filter(|program| program.constructs.contains(construct)).count();
        println!("{construct}: {count} of {} programs", programs.len());
        assert!(count * 10 >= programs.len() || programs.len() < ENOUGH, "{construct}: {count}");
    }
}

/// The processes that share the work.
fn processes() -> usize {
    std::env::var("PHASES_PROCESSES").map_or(2, |count| count.parse().unwrap())
}

#[test]
fn drawn_programs_over_blocks_have_equal_bits() {
    let children: Vec<_> = (0..processes())
        .map(|part| {
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "child", "--ignored", "--nocapture"]);
            // Traces of the faults take much longer than the programs.
            child.env("PHASES_PART", part.to_string()).env("RUST_BACKTRACE", "0");
            child.env("CUDA_EMU_TIMEOUT_MS", "60000");
            child.stdout(Stdio::piped()).stderr(Stdio::piped());
            child.spawn().unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        print!("{text}");
        assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
    }
    if test_support::sample::deep() {
        batches();
    }
}

#[test]
#[ignore = "run by `drawn_programs_over_blocks_have_equal_bits`"]
fn child() {
    let part: usize = std::env::var("PHASES_PART").map_or(0, |part| part.parse().unwrap());
    let only = std::env::var("PHASES_ONLY").ok();
    let bench = Bench::new();
    let mut counts = Counts::default();
    for (at, drawn) in generated::DRAWN.iter().enumerate() {
        // Every second kernel has plans.
        if (at + at / processes()) % processes() != part {
            continue;
        }
        if only.as_deref().is_some_and(|only| only != drawn.name) {
            continue;
        }
        if only.is_some() {
            println!("{}", (drawn.source)());
        }
        let began = Instant::now();
        for (which, program) in drawn.programs.iter().enumerate() {
            let ran = std::panic::AssertUnwindSafe(|| all(&bench, drawn, program, &mut counts));
            let ended = std::panic::catch_unwind(ran).unwrap_or_else(|panic| {
                Err(format!("panic: {:?}", panic.downcast_ref::<String>()))
            });
            if let Err(error) = ended {
                counts.failed += 1;
                println!("FAILED {}, program {which}: {error}", drawn.name);
                let _ = bench.context.take_fault();
                let _ = cuda_emu::findings();
            }
            if which == 0 {
                counts.first += began.elapsed();
            }
        }
        counts.all += began.elapsed();
    }
    println!("{counts:?}");
    assert_eq!(counts.failed, 0);
    // A check may stand where no thread comes. Of the few of a process that may be most.
    assert!(counts.faults * 3 >= counts.sites || counts.sites < 100, "{counts:?}");
}

/// What was run.
#[derive(Debug, Default)]
struct Counts {
    programs: usize,
    failed: usize,
    sites: usize,
    faults: usize,
    /// The time of first programs, with that of the compiler.
    first: Duration,
    all: Duration,
}

fn all(bench: &Bench, drawn: &Drawn, program: &Planned, counts: &mut Counts) -> Result<(), String> {
    let orders: &[u64] = if is_emulated() { &[1, 2, 3, 4, 5, 6] } else { &[1] };
    let plan = Input::new(&bench.stream, program.plan.to_vec());
    let mut planted = Planted { plan: &plan, site: 0, at_block: 0, at: 0 };
    counts.programs += 1;
    if (drawn.run)(bench, planted, orders)? {
        return Err("a check has failed".to_owned());
    }
    for site in program.sites {
        planted = Planted { site: *site, at_block: 1, at: *site as usize * 7 % 30, ..planted };
        counts.sites += 1;
        let ended = (drawn.run)(bench, planted, &orders[..1]);
        counts.faults += usize::from(ended.map_err(|error| format!("site {site}: {error}"))?);
    }
    Ok(())
}

/// The programs of a batch, and how many batches there are.
const BATCH: u64 = 500;
const BATCHES: u64 = 200;

fn batches() {
    let count = std::env::var("PHASES_BATCHES").map_or(BATCHES, |count| count.parse().unwrap());
    for seed in 2..2 + count {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut batch = Command::new(cargo);
        batch.args(["test", "-p", "phases-tests", "--test", "drawn"]);
        batch.args((!cfg!(debug_assertions)).then_some("--release"));
        batch.args(["--", "--nocapture", "drawn_programs_over_blocks_have_equal_bits"]);
        batch.env("PHASES_BLOCKS", BATCH.to_string()).env("PHASES_SEED", seed.to_string());
        let output = batch.env_remove(test_support::sample::DEEP_VARIABLE).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {text}{errors}");
        println!("seed {seed}: {text}");
    }
}
