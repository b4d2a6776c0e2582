//! Kernels with `cooperative_groups.h`: the barrier of a grid, tiles of several warps, groups inside a warp.

use cuda_safe::sys::CUresult;
use cuda_safe::{DeviceBuffer, ErrorKind, Kernel, LaunchConfig, Module};
use nvrtc::{Arch, Nvrtc};

use test_harness::programs::Program;
use test_harness::{
    Case, Failure, Rng, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "groups",
        device(a_grid_describes_itself),
        device(a_grid_meets),
        device(a_grid_meets_in_a_graph),
        device(conjugate_gradients),
        device(tiles),
        device(tiles_in_memory_of_the_block),
        device(inside_a_warp),
    ]
}

/// Cases that lose the device.
pub(crate) fn faults() -> Vec<Case> {
    cases!["fault::groups", fault(a_grid_that_cannot_meet),]
}

/// Not among the programs that every compiler compiles: it needs the headers of CUDA 13.
const GROUPS: Program = Program {
    name: "groups.cu",
    source: include_str!("../../kernels/groups.cu"),
    expressions: &[],
};

/// Returns whether CUDA's headers lie around a compiler that they suit; prints the reason if not.
fn headers(device: &TestDevice) -> Result<bool, Failure> {
    let nvrtc = Nvrtc::find_for_driver(device.context().driver().version()?)?;
    let there =
        nvrtc.include_paths().iter().any(|path| path.join("cooperative_groups.h").is_file());
    let newer = nvrtc.version()?.major >= 13;
    if !there || !newer {
        println!("not run: no cooperative_groups.h for NVRTC {}", nvrtc.version()?);
    }
    Ok(there && newer)
}

/// Four words that `describe_grid` says of each thread.
fn a_grid_describes_itself(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "describe_grid")?);
    for (grid, block) in [((1, 1, 1), (1, 1, 1)), ((2, 1, 1), (64, 1, 1)), ((3, 2, 2), (5, 3, 2))] {
        let launch = LaunchConfig::new(grid, block);
        let (blocks, threads) = (launch.grid.count() as u32, launch.block.count() as u32);
        let all = blocks * threads;
        for (launch, valid) in [
            (launch, 0),
            (launch.cooperative(), 1),
            // By attributes of the launch.
            (launch.priority(0), 0),
            (launch.cooperative().priority(0), 1),
        ] {
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, 4 * all as usize)?;
            // SAFETY: describe_grid(unsigned*) writes four words for each thread of the grid.
            unsafe { device.launch(&kernel, &stream, launch, (&mut out,)) }?;
            let mut got = out.to_vec(&stream)?;
            if valid == 0 && device.tier() == "gpu" {
                // On an H200 (driver 580) it was 1 in a launch of one block that is not cooperative.
                got.iter_mut().step_by(4).for_each(|word| *word = 0);
            }
            let wanted: Vec<_> = (0..all).flat_map(|rank| [valid, all, rank, blocks]).collect();
            first_difference(&got, &wanted)?;
        }
    }
    Ok(())
}

/// `rounds` on the host.
fn rounds_of(mut values: Vec<u32>, rounds: u32) -> Vec<u32> {
    for _ in 0..rounds {
        let next = (0..values.len()).map(|i| {
            let right = values[(i + 1) % values.len()];
            values[i].wrapping_mul(3).wrapping_add(right)
        });
        values = next.collect();
    }
    values
}

fn a_grid_meets(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "rounds")?);
    let mut rng = device.rng(71);
    for (grid, block) in [
        ((1, 1, 1), (32, 1, 1)),
        ((2, 1, 1), (96, 1, 1)),
        ((33, 1, 1), (64, 1, 1)),
        ((3, 11, 1), (8, 4, 2)),
    ] {
        let launch = LaunchConfig::new(grid, block).cooperative();
        for (n, rounds) in [(1, 2), (1000, 9)] {
            let values = rng.words(n);
            let mut now = DeviceBuffer::from_slice(&stream, &values)?;
            let mut next = DeviceBuffer::<u32>::zeroed(&stream, n)?;
            let arguments = (&mut now, &mut next, n as u64, rounds);
            // SAFETY: rounds(unsigned*, unsigned*, unsigned long long, unsigned) touches n words of both, in a
            // cooperative launch.
            unsafe { device.launch(&kernel, &stream, launch, arguments) }?;
            let last = if rounds % 2 == 0 { now } else { next };
            first_difference(&last.to_vec(&stream)?, &rounds_of(values, rounds))?;
        }
    }
    Ok(())
}

/// Each launch of the graph has a workspace of its own.
fn a_grid_meets_in_a_graph(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    const N: usize = 300;
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "rounds")?);
    let values = device.rng(72).words(N);
    let state =
        (DeviceBuffer::from_slice(&stream, &values)?, DeviceBuffer::<u32>::zeroed(&stream, N)?);
    let mut graph = device.context().capture(state, move |stream, (now, next)| {
        let launch = LaunchConfig::new(5, 64).cooperative();
        // SAFETY: as in `meets`.
        unsafe { device.launch(&kernel, stream, launch, (&mut *now, &mut *next, N as u64, 4_u32)) }
    })?;
    for _ in 0..3 {
        graph.launch(&stream)?;
    }
    first_difference(&graph.state().0.to_vec(&stream)?, &rounds_of(values, 12))
}

/// Solves the tridiagonal system of the kernel by elimination.
fn solution(b: &[f64]) -> Vec<f64> {
    let (mut above, mut right) = (vec![0.0; b.len()], vec![0.0; b.len()]);
    for i in 0..b.len() {
        let (before, value) = if i == 0 { (0.0, 0.0) } else { (above[i - 1], right[i - 1]) };
        let pivot = 2.5 + before;
        above[i] = -1.0 / pivot;
        right[i] = (b[i] + value) / pivot;
    }
    for i in (0..b.len().saturating_sub(1)).rev() {
        right[i] -= above[i] * right[i + 1];
    }
    right
}

fn conjugate_gradients(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "conjugate_gradients")?);
    let mut rng = device.rng(73);
    for (blocks, n) in [(1, 1), (2, 100), (33, 700)] {
        let b: Vec<f64> = rng.floats(n).into_iter().map(f64::from).collect();
        let wanted = solution(&b);
        // The oracle itself solves the system.
        let at = |i: usize, by: usize| wanted.get(i.wrapping_add(by)).copied().unwrap_or(0.0);
        for (i, b) in b.iter().enumerate() {
            let left = if i == 0 { 0.0 } else { wanted[i - 1] };
            ensure!((2.5 * wanted[i] - left - at(i, 1) - b).abs() < 1e-12, "{i}");
        }
        let b = DeviceBuffer::from_slice(&stream, &b)?;
        let vector = || DeviceBuffer::<f64>::zeroed(&stream, n);
        let (mut x, mut r, mut p, mut q) = (vector()?, vector()?, vector()?, vector()?);
        let mut partial = DeviceBuffer::<f64>::zeroed(&stream, blocks as usize)?;
        let mut steps = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let (x, steps_out) = (&mut x, &mut steps);
        let arguments = (
            &b,
            &mut *x,
            &mut r,
            &mut p,
            &mut q,
            &mut partial,
            n as u64,
            1e-12_f64,
            200_u32,
            &mut *steps_out,
        );
        let launch = LaunchConfig::new(blocks, 64).cooperative();
        // SAFETY: conjugate_gradients touches n elements of the first five buffers, one of `partial` for each block,
        // and one of `steps`, in a cooperative launch.
        unsafe { device.launch(&kernel, &stream, launch, arguments) }?;
        let (got, steps) = (x.to_vec(&stream)?, steps.to_vec(&stream)?[0]);
        for (i, (got, wanted)) in got.iter().zip(&wanted).enumerate() {
            ensure!((got - wanted).abs() < 1e-10, "{n} by {blocks}, x[{i}]: {got} of {wanted}");
        }
        // The condition number is 9: each step halves the error, or does better.
        ensure!((1..=60).contains(&steps), "{steps} steps");
    }
    Ok(())
}

/// The values that `tile` gives each thread of tiles of `size` threads.
fn tile_of(values: &[i32], sources: &[u32], size: usize, per_block: usize) -> Vec<i32> {
    let sum = |values: &[i32]| values.iter().fold(0, |sum: i32, v| sum.wrapping_add(*v));
    let mut out = Vec::with_capacity(11 * values.len());
    for (tile, values) in values.chunks(size).enumerate() {
        for (rank, value) in values.iter().enumerate() {
            out.extend([
                rank as i32,
                (tile % (per_block / size)) as i32,
                values[sources[tile] as usize % size],
                i32::from(values.iter().any(|v| *v > 90)),
                i32::from(values.iter().all(|v| *v > -90)),
                sum(values),
                values.iter().copied().min().unwrap_or(0),
                values.iter().fold(0, |all, v| all ^ v),
                sum(&values[..=rank]),
                sum(&values[..rank]),
                values[(rank + 1) % size],
            ]);
            debug_assert_eq!(values[rank], *value);
        }
    }
    out
}

/// Values of which some tiles have none that `any` finds, and some none that `all` misses.
fn tile_values(rng: &mut Rng, count: usize) -> Vec<i32> {
    let mut bound = 50;
    let value = |at: usize| {
        if at.is_multiple_of(16) {
            bound = [80, 91, 200][rng.below(3)];
        }
        rng.below(2 * bound) as i32 - bound as i32
    };
    (0..count).map(value).collect()
}

fn tiles_by(device: &TestDevice, kernel: impl Fn(&str) -> Result<Kernel, Failure>) -> TestResult {
    const BLOCKS: usize = 3;
    let (stream, mut rng) = (device.stream()?, device.rng(74));
    for (name, size, per_block) in [
        ("tiles_16", 16, 96),
        ("tiles_32", 32, 96),
        ("tiles_64", 64, 64),
        ("tiles_64", 64, 1024),
        ("tiles_128", 128, 384),
        ("tiles_256", 256, 512),
        ("tiles_512", 512, 1024),
        ("nested", 64, 512),
    ] {
        let kernel = kernel(name)?;
        let count = BLOCKS * per_block;
        let (values, sources) = (tile_values(&mut rng, count), rng.words(count / size));
        let device_values = DeviceBuffer::from_slice(&stream, &values)?;
        let device_sources = DeviceBuffer::from_slice(&stream, &sources)?;
        let mut out = DeviceBuffer::<i32>::zeroed(&stream, 11 * count)?;
        let arguments = (&device_values, &device_sources, &mut out);
        let launch = LaunchConfig::new(BLOCKS as u32, per_block as u32);
        // SAFETY: each thread reads a value, and a source for its tile, and writes 11 values; the sizes of blocks are
        // multiples of those of tiles.
        unsafe { device.launch(&kernel, &stream, launch, arguments) }?;
        let wanted = tile_of(&values, &sources, size, per_block);
        first_difference(&out.to_vec(&stream)?, &wanted)
            .map_err(|error| Failure::new(format!("{name} of {per_block}: {error}")))?;
    }
    Ok(())
}

/// From compute capability 8.0 on the header keeps the state of large tiles in shared memory of the system.
fn tiles(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    tiles_by(device, |name| device.kernel(&GROUPS, name))
}

/// For older ones it keeps the state in `block_tile_memory`.
fn tiles_in_memory_of_the_block(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let driver = device.context().driver().version()?;
    let image = GROUPS.to_nvrtc().compile_for_driver(Arch::compute(7, 5), driver)?;
    let module = Module::load(device.context(), &image)?;
    tiles_by(device, |name| Ok(module.kernel(name)?))?;
    ensure_eq!(module.kernel("tiles_64")?.attributes()?.ptx_version, 75);
    Ok(())
}

fn inside_a_warp(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "inside_a_warp")?);
    let values = tile_values(&mut device.rng(75), 4 * 96);
    let mut wanted = Vec::new();
    for warp in values.chunks(32) {
        for (lane, value) in warp.iter().enumerate() {
            let sign = |v: &i32| (*v < 0) == (*value < 0);
            let label = |v: &i32| v & 3 == value & 3;
            let mask = |all: u32, (at, v): (usize, &i32)| all | u32::from(v & 7 == value & 7) << at;
            wanted.extend([
                warp[..lane].iter().filter(|v| sign(v)).count() as i32,
                warp.iter().filter(|v| sign(v)).sum(),
                warp.iter().filter(|v| label(v)).count() as i32,
                warp.iter().copied().find(label).unwrap_or(0),
                warp.iter().enumerate().fold(0, mask).cast_signed(),
            ]);
        }
    }
    let device_values = DeviceBuffer::from_slice(&stream, &values)?;
    let mut out = DeviceBuffer::<i32>::zeroed(&stream, 5 * values.len())?;
    let mut odd = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    // SAFETY: inside_a_warp(const int*, int*, unsigned*) reads a value and writes five for each thread, and one word.
    unsafe { device.launch(&kernel, &stream, (4, 96), (&device_values, &mut out, &mut odd)) }?;
    first_difference(&out.to_vec(&stream)?, &wanted)?;
    ensure_eq!(odd.to_vec(&stream)?[0] as usize, values.iter().filter(|v| *v & 1 == 1).count());
    Ok(())
}

/// In an ordinary launch the header's barrier is a trap, and no hang.
fn a_grid_that_cannot_meet(device: &TestDevice) -> TestResult {
    if !headers(device)? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&GROUPS, "sync_grid")?);
    // SAFETY: sync_grid() touches no memory of the program, and ends the device's work.
    unsafe { device.launch(&kernel, &stream, (2, 64), ()) }?;
    let Err(error) = stream.synchronize() else {
        return Err(Failure::new("blocks of an ordinary launch have met"));
    };
    ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_LAUNCH_FAILED), "{error}");
    ensure!(error.is_fatal() && !matches!(error.kind(), ErrorKind::Limit { .. }), "{error}");
    ensure!(error.to_string().contains("sync_grid"), "{error}");
    Ok(())
}
