//! Launches with attributes: clusters, priorities, and kernels that start before the last is done.

use cuda_safe::{DeviceBuffer, ErrorKind, Event, LaunchConfig};

use super::MS;
use test_harness::programs::{BASIC, CLUSTERS};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "clusters",
        device(shared_memory_of_a_neighbour),
        device(compiled_in),
        device(occupancy),
        device(blocks_of_clusters_that_meet),
        device(where_there_are_none),
        device(priority),
        device(programmatic),
    ]
}

/// What the blocks of a launch in clusters of `blocks` read from their neighbours.
fn neighbours(count: u32, blocks: u32) -> Vec<u32> {
    (0..count).map(|block| 1000 + block / blocks * blocks + (block + 1) % blocks).collect()
}

fn shared_memory_of_a_neighbour(device: &TestDevice) -> TestResult {
    if !device.context().device().cluster_launch()? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&CLUSTERS, "neighbour")?);
    for blocks in [1, 2, 4, 8] {
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 64)?;
        let launch = LaunchConfig::new(64, 32).cluster(blocks).priority(0);
        // SAFETY: neighbour(unsigned*) writes a word for each block.
        unsafe { device.launch(&kernel, &stream, launch, (&mut out,)) }?;
        first_difference(&out.to_vec(&stream)?, &neighbours(64, blocks))?;
    }
    Ok(())
}

fn compiled_in(device: &TestDevice) -> TestResult {
    if !device.context().device().cluster_launch()? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&CLUSTERS, "in_fours")?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 12)?;
    for launch in [LaunchConfig::new(12, 32), LaunchConfig::new(12, 32).cluster(4)] {
        // SAFETY: in_fours(unsigned*) writes a word for each block.
        unsafe { device.launch(&kernel, &stream, launch, (&mut out,)) }?;
        first_difference(&out.to_vec(&stream)?, &neighbours(12, 4))?;
    }
    for (launch, part) in [
        (LaunchConfig::new(10, 32), "grid x: 10 blocks are no multiple of the cluster's 4"),
        (LaunchConfig::new(12, 32).cluster(2), "compiled for clusters of (4, 1, 1)"),
    ] {
        // SAFETY: refused.
        let Err(error) = (unsafe { kernel.launch(&stream, launch, (&mut out,)) }) else {
            return Err(Failure::new(format!("launched: {launch}")));
        };
        ensure!(error.to_string().contains(part) && error.call().is_none(), "{error}");
    }
    Ok(())
}

fn occupancy(device: &TestDevice) -> TestResult {
    if !device.context().device().cluster_launch()? {
        return Ok(());
    }
    let kernel = device.kernel(&CLUSTERS, "neighbour")?;
    let launch = |blocks: u32| LaunchConfig::new(64, 256).cluster(blocks);
    let (few, many) =
        (kernel.max_active_clusters(&launch(8))?, kernel.max_active_clusters(&launch(2))?);
    ensure!(few >= 1 && many > few, "{few} clusters of 8, {many} of 2");
    ensure!(kernel.max_potential_cluster_size(&LaunchConfig::new(64, 256))? >= 8);
    Ok(())
}

fn blocks_of_clusters_that_meet(device: &TestDevice) -> TestResult {
    if !device.context().device().cluster_launch()? {
        return Ok(());
    }
    let (stream, kernel) = (device.stream()?, device.kernel(&CLUSTERS, "neighbour")?);
    let clusters =
        kernel.max_active_clusters(&LaunchConfig::new(2, 32).cluster(2).cooperative())?;
    let most = u32::try_from(clusters)? * 2;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, most as usize)?;
    for _ in 0..2 {
        let launch = LaunchConfig::new(most, 32).cluster(2).cooperative();
        // SAFETY: neighbour(unsigned*) writes a word for each block.
        unsafe { device.launch(&kernel, &stream, launch, (&mut out,)) }?;
        first_difference(&out.to_vec(&stream)?, &neighbours(most, 2))?;
        let launch = LaunchConfig::new(most + 2, 32).cluster(2).cooperative();
        // SAFETY: refused.
        let refused = unsafe { kernel.launch(&stream, launch, (&mut out,)) };
        let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
        ensure!(matches!(kind, Err(ErrorKind::Limit { .. })), "{refused:?}");
    }
    Ok(())
}

/// A device without clusters says so, and is not asked for any.
fn where_there_are_none(device: &TestDevice) -> TestResult {
    let (stream, nothing) = (device.stream()?, device.kernel(&BASIC, "nothing")?);
    // SAFETY: `nothing` takes no arguments and does nothing.
    let launched = unsafe { nothing.launch(&stream, LaunchConfig::new(4, 32).cluster(2), ()) };
    if device.context().device().cluster_launch()? {
        return Ok(launched?);
    }
    let Err(error) = launched else {
        return Err(Failure::new("launched in clusters"));
    };
    ensure!(error.to_string().contains("the device has no clusters"), "{error}");
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)) && error.call().is_none(), "{error}");
    stream.synchronize()?;
    Ok(())
}

fn priority(device: &TestDevice) -> TestResult {
    let (stream, fill) = (device.stream()?, device.kernel(&BASIC, "fill")?);
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
    let (least, greatest) = device.context().device().stream_priorities()?;
    for (value, priority) in (1_u32..).zip(greatest..=least) {
        let launch = LaunchConfig::cover(100, 32).priority(priority);
        // SAFETY: `fill` takes (unsigned*, unsigned long long, unsigned) and writes that many.
        unsafe { device.launch(&fill, &stream, launch, (&mut out, 100_u64, value)) }?;
        ensure_eq!(out.to_vec(&stream)?, [value; 100]);
    }
    Ok(())
}

/// Each kernel starts early and waits for the one before it: what they write is as if none did.
fn programmatic(device: &TestDevice) -> TestResult {
    let (stream, other) = (device.stream()?, device.stream()?);
    let (major, _) = device.context().device().compute_capability()?;
    if major < 9 {
        let nothing = device.kernel(&BASIC, "nothing")?;
        // SAFETY: refused.
        let refused =
            unsafe { nothing.launch(&stream, LaunchConfig::new(1, 1).programmatic(), ()) };
        let text = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(text.contains("no programmatic dependent launches"), "{text}");
        return Ok(());
    }
    if !device.runs_machine_code() {
        // The software device has no such instructions.
        return Ok(());
    }
    const N: usize = 10_000;
    let (late, follow) = (device.kernel(&CLUSTERS, "late")?, device.kernel(&CLUSTERS, "follow")?);
    let mut a = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut b = DeviceBuffer::<u32>::zeroed(&stream, N)?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&other, N)?;
    // SAFETY: both kernels wait for the earlier one before they touch memory.
    let launch = unsafe { LaunchConfig::cover(N, 128).programmatic() };
    let n = N as u64;
    for round in 0..20_u32 {
        // SAFETY: both kernels touch `n` words of each of their buffers.
        unsafe {
            device.launch(&late, &stream, launch, (&mut a, n, 10 * round, MS))?;
            device.launch(&follow, &stream, launch, (&a, &mut b, n))?;
            device.launch(&late, &stream, launch, (&mut a, n, 0_u32, MS / 10))?;
        }
        // An event covers the kernel and what it has waited for; so does a use on another stream.
        let event = Event::new(device.context())?;
        event.record(&stream)?;
        seen.copy_from(&other, &b)?;
        first_difference(&seen.to_vec(&other)?, &[10 * round + 1; N])?;
        event.synchronize()?;
        first_difference(&a.to_vec(&stream)?, &[0; N])?;
    }
    Ok(())
}
