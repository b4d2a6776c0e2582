//! Kernels: what they need, how many fit, and launches whose blocks wait for each other.

use cuda_safe::{DeviceBuffer, ErrorKind, LaunchConfig, Module, launch};

use test_harness::programs::{BASIC, LIMITS};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "kernels",
        device(attributes),
        device(occupancy),
        device(shared_memory_beyond_48_kib),
        device(load),
        device(every_thread_runs_once),
        device(the_launch_macro),
        device(blocks_that_meet),
        device(too_many_blocks_to_meet),
    ]
}

fn attributes(device: &TestDevice) -> TestResult {
    let (major, minor) = device.context().device().compute_capability()?;
    let statically = device.kernel(&LIMITS, "statically")?.attributes()?;
    ensure_eq!(statically.static_shared, 8192);
    ensure_eq!(statically.binary_version, 10 * major + minor);
    ensure!(statically.ptx_version > 0);
    ensure!(statically.max_threads_per_block >= 256);
    ensure!(statically.registers > 0);
    let reverse = device.kernel(&LIMITS, "reverse")?.attributes()?;
    ensure_eq!(reverse.static_shared, 0);
    ensure_eq!(device.kernel(&LIMITS, "narrow")?.attributes()?.max_threads_per_block, 256);
    Ok(())
}

fn occupancy(device: &TestDevice) -> TestResult {
    let kernel = device.kernel(&LIMITS, "reverse")?;
    let few = kernel.max_active_blocks(1024, 0)?;
    let many = kernel.max_active_blocks(64, 0)?;
    ensure!(few >= 1 && many > few, "{few} blocks of 1024 threads, {many} of 64");
    ensure!(kernel.max_active_blocks(64, 40 << 10)? < many, "shared memory is scarce");
    let (block, grid) = kernel.max_potential_block_size(0)?;
    ensure!((32..=1024).contains(&block) && block.is_multiple_of(32), "{block}");
    let fits = kernel.max_active_blocks(block, 0)?;
    let multiprocessors = device.context().device().multiprocessor_count()?;
    ensure_eq!(u64::from(grid), u64::from(fits) * u64::from(multiprocessors));
    Ok(())
}

/// `reverse` on this much dynamic shared memory.
fn reverse(device: &TestDevice, kernel: &cuda_safe::Kernel, bytes: u32) -> TestResult {
    let stream = device.stream()?;
    let words = device.rng(60).words(bytes as usize / 4);
    let mut buffer = DeviceBuffer::from_slice(&stream, &words)?;
    let launch = LaunchConfig::new(1, 256).dynamic_shared_bytes(bytes);
    // SAFETY: reverse(unsigned*, unsigned) touches that many words, and as many of shared memory.
    unsafe { device.launch(kernel, &stream, launch, (&mut buffer, bytes / 4)) }?;
    let wanted: Vec<u32> = words.into_iter().rev().collect();
    first_difference(&buffer.to_vec(&stream)?, &wanted)
}

fn shared_memory_beyond_48_kib(device: &TestDevice) -> TestResult {
    // A module of its own: what is set here is set for all who use the kernel.
    let module = Module::load(device.context(), &device.image(&LIMITS)?)?;
    let kernel = module.kernel("reverse")?;
    ensure_eq!(kernel.attributes()?.max_dynamic_shared, 48 << 10);
    reverse(device, &kernel, 48 << 10)?;
    let most = device.context().device().max_shared_memory_per_block_optin()?;
    let most = u32::try_from(most)?;
    match reverse(device, &kernel, most) {
        Err(refused) => ensure!(refused.to_string().contains("set_max_dynamic"), "{refused}"),
        Ok(()) => return Err(Failure::new("not allowed yet")),
    }
    kernel.set_max_dynamic_shared(most)?;
    ensure_eq!(kernel.attributes()?.max_dynamic_shared, most);
    reverse(device, &kernel, most)?;
    let refused = kernel.set_max_dynamic_shared(most + 1);
    match refused.as_ref().map_err(cuda_safe::Error::kind) {
        Err(ErrorKind::Limit { value, limit, .. }) => {
            ensure_eq!((*value, *limit), (u64::from(most) + 1, u64::from(most)));
            Ok(())
        }
        _ => Err(Failure::new(format!("more than the device has: {refused:?}"))),
    }
}

fn load(device: &TestDevice) -> TestResult {
    let module = Module::load(device.context(), &device.image(&BASIC)?)?;
    for name in module.kernel_names() {
        let kernel = module.kernel(&name)?;
        kernel.load()?;
        kernel.load()?;
    }
    Ok(())
}

fn every_thread_runs_once(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&LIMITS, "shape")?;
    let shapes = [
        LaunchConfig::new(1, 1),
        LaunchConfig::new(7, 33),
        LaunchConfig::new((3, 5), (8, 4)),
        LaunchConfig::new((2, 3, 4), (4, 3, 2)),
        LaunchConfig::new([1, 65_535], 1),
        LaunchConfig::new((1, 1, 65_535), 1),
        LaunchConfig::new(70_000, (1, 1, 64)),
        LaunchConfig::cover(100_000, 1024),
    ];
    for launch in shapes {
        let threads = launch.threads();
        // Some more, which no thread may touch.
        let len = usize::try_from(threads)? + 100;
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, len)?;
        // SAFETY: shape(unsigned*, unsigned long long) adds to words below the number.
        unsafe { device.launch(&kernel, &stream, launch, (&mut out, len as u64)) }?;
        let mut wanted = vec![1; len];
        wanted[len - 100..].fill(0);
        first_difference(&out.to_vec(&stream)?, &wanted)?;
    }
    Ok(())
}

fn the_launch_macro(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let (module, n) = (device.module(&BASIC)?, 100_u64);
    let (fill, copy) = (module.kernel("fill")?, module.kernel("copy")?);
    let mut x = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let mut y = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    // SAFETY: `fill` writes n words, `copy` copies n; there are that many.
    unsafe {
        device.count(launch!(fill<<<1, 128, 0, stream>>>(&mut x, n, 3_u32)))?;
        device.count(launch!(copy<<<(2, 1), 64, 0, stream>>>(&x, &mut y, n)))?;
        device
            .count(launch!((module.kernel("add")?)<<<4, (32, 1), 0, stream>>>(&mut y, n, 4_u32)))?;
    }
    ensure_eq!(x.to_vec(&stream)?, [3; 100]);
    ensure_eq!(y.to_vec(&stream)?, [7; 100]);
    Ok(())
}

fn blocks_that_meet(device: &TestDevice) -> TestResult {
    const ROUNDS: u32 = 20;
    let stream = device.stream()?;
    let kernel = device.kernel(&LIMITS, "meet")?;
    let multiprocessors = device.context().device().multiprocessor_count()?;
    let most = kernel.max_active_blocks(64, 0)? * multiprocessors;
    for blocks in [1, 2, multiprocessors, most] {
        let mut data = DeviceBuffer::<u32>::zeroed(&stream, blocks as usize)?;
        let mut wrong = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let mut arrived = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
        let launch = LaunchConfig::new(blocks, 64).cooperative();
        let arguments = (&mut data, &mut wrong, &mut arrived, ROUNDS);
        // SAFETY: meet(unsigned*, unsigned*, unsigned*, unsigned) touches a word for each block,
        // and one each of the others; the launch is cooperative, as it needs.
        unsafe { device.launch(&kernel, &stream, launch, arguments) }?;
        ensure_eq!(arrived.to_vec(&stream)?, [2 * ROUNDS * blocks]);
        ensure_eq!(wrong.to_vec(&stream)?, [0], "{blocks} blocks");
    }
    Ok(())
}

fn too_many_blocks_to_meet(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    let kernel = device.kernel(&LIMITS, "meet")?;
    let multiprocessors = device.context().device().multiprocessor_count()?;
    let most = kernel.max_active_blocks(64, 0)? * multiprocessors;
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, most as usize + 1)?;
    let mut wrong = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    let mut arrived = DeviceBuffer::<u32>::zeroed(&stream, 1)?;
    // Twice: the second answer is the one that was kept.
    for _ in 0..2 {
        let launch = LaunchConfig::new(most + 1, 64).cooperative();
        let arguments = (&mut words, &mut wrong, &mut arrived, 1_u32);
        // SAFETY: as in `blocks_that_meet`.
        let refused = unsafe { device.launch(&kernel, &stream, launch, arguments) };
        match refused.as_ref().map_err(cuda_safe::Error::kind) {
            Err(ErrorKind::Limit { value, limit, .. }) => {
                ensure_eq!((*value, *limit), (u64::from(most) + 1, u64::from(most)));
            }
            _ => return Err(Failure::new(format!("{} blocks: {refused:?}", most + 1))),
        }
    }
    ensure_eq!(arrived.to_vec(&stream)?, [0], "nothing ran");
    Ok(())
}
