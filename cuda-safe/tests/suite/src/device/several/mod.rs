//! Several devices of one process: opening them, copies between them, graphs of them. Where there is one device only,
//! there is nothing to test.

mod graphs;
mod misuse;
mod order;

use cuda_safe::{Context, DeviceBuffer, Devices, Stream};

use super::MS;
use super::checks::is_invalid;
use test_harness::programs::{Basic, Delay};
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, count_launches, ensure, ensure_eq,
    first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    let cases = cases![
        "several",
        several(opened),
        several(copies_of_every_size),
        several(copies_of_graphs_memory),
    ];
    [cases, graphs::cases(), order::cases(), misuse::cases()].concat()
}

/// Sizes of copies: around a warp, and a large one. It is smaller under seeds, which change the order of work only.
fn sizes(device: &TestDevice) -> [usize; 6] {
    [0, 1, 31, 32, 33, if device.is_seeded() { 1 << 12 } else { 1 << 20 }]
}

/// A device: two streams of it and the kernels.
struct Side {
    context: Context,
    stream: Stream,
    other: Stream,
    basic: Basic,
    delay: Delay,
}

impl Side {
    fn buffer(&self, values: &[u32]) -> cuda_safe::Result<DeviceBuffer<u32>> {
        DeviceBuffer::from_slice(&self.stream, values)
    }

    fn zeroed(&self, len: usize) -> cuda_safe::Result<DeviceBuffer<u32>> {
        DeviceBuffer::zeroed(&self.stream, len)
    }

    fn holds(&self, buffer: &DeviceBuffer<u32>, wanted: &[u32]) -> TestResult {
        first_difference(&buffer.to_vec(&self.stream)?, wanted)
    }
}

fn count(launched: cuda_safe::Result<()>) -> cuda_safe::Result<()> {
    count_launches(u64::from(launched.is_ok()));
    launched
}

/// All devices, each without access to the others' memory; none if there is one only.
fn apart(device: &TestDevice) -> Result<Vec<Side>, Failure> {
    let contexts = device.all_contexts()?;
    if contexts.len() < 2 {
        println!("one device: nothing is tested");
        return Ok(Vec::new());
    }
    let side = |context: Context| {
        let (stream, other) = (context.stream()?, context.stream()?);
        let (basic, delay) = (Basic::load(&context)?, Delay::load(&context)?);
        Ok(Side { context, stream, other, basic, delay })
    };
    contexts.into_iter().map(side).collect()
}

fn open(device: &TestDevice) -> cuda_safe::Result<Devices> {
    let driver = device.context().driver();
    // They are closed with the device also if opening them fails.
    device.all_contexts()?;
    Devices::of(driver, &(0..driver.device_count()).collect::<Vec<_>>())
}

/// All devices, with access to each other's memory where the hardware can; none if there is one only.
fn joined(device: &TestDevice) -> Result<Vec<Side>, Failure> {
    open(device)?;
    apart(device)
}

/// The same numbers in each run, different for each seed.
fn words(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b9)).collect()
}

fn opened(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    let n = driver.device_count();
    is_invalid(Devices::of(driver, &[]), "0 devices")?;
    is_invalid(Devices::of(driver, &[0, 0]), "device 0 is named twice")?;
    is_invalid(Devices::of(driver, &[0, n]), &format!("there is no device {n}"))?;
    let one = Devices::of(driver, &[0])?;
    ensure!(one.len() == 1 && one[0] == *device.context() && one.can_access(0, 0));
    is_invalid(one.link(0, 0), "device 0 has no link to itself")?;
    let devices = open(device)?;
    ensure_eq!(devices.len(), n);
    ensure_eq!(devices.iter().count(), n);
    for (index, context) in (&devices).into_iter().enumerate() {
        ensure_eq!(context.device().ordinal(), index);
        ensure!(devices[index] == *context && devices.contexts()[index] == *context);
    }
    for from in 0..n {
        for to in 0..n {
            let can = devices.can_access(from, to);
            if from == to {
                ensure!(can);
                is_invalid(devices.link(from, to), "no link to itself")?;
                continue;
            }
            ensure_eq!(can, devices[from].can_access_peer(&devices[to])?, "{from} to {to}");
            let link = devices.link(from, to)?;
            ensure_eq!(link.access, can, "{from} to {to}: {link:?}");
            ensure!(link.performance_rank >= 0, "{from} to {to}: {link:?}");
        }
        ensure!(!devices.can_access(from, n) && !devices.can_access(n, from));
        is_invalid(devices.link(from, n), &format!("no device at index {n} of {n}"))?;
    }
    let streams = devices.streams()?;
    ensure_eq!(streams.len(), n);
    // Kernels of each use memory of each that they can access.
    for (from, stream) in streams.iter().enumerate() {
        let basic = Basic::load(&devices[from])?;
        for (to, owner) in
            streams.iter().enumerate().filter(|(to, _)| devices.can_access(from, *to))
        {
            let mut buffer = DeviceBuffer::<u32>::zeroed(owner, 1000)?;
            count(basic.iota(stream, (4, 256), &mut buffer, 1000, to as u32))?;
            let wanted: Vec<u32> = (to as u32..to as u32 + 1000).collect();
            first_difference(&buffer.to_vec(owner)?, &wanted)?;
        }
    }
    // In another order, which is that of the indices.
    if n > 1 {
        let turned = Devices::of(driver, &[n - 1, 0])?;
        ensure_eq!(turned[0].device().ordinal(), n - 1);
        ensure_eq!(turned.streams()?[1].context(), devices[0]);
        ensure_eq!(format!("{turned:?}").contains(&format!("[{}, 0]", n - 1)), true);
    }
    devices.synchronize()?;
    Ok(())
}

/// Each pair of devices, both ways, outside of graphs and in one, with peer access and without, on streams of either.
fn copies_of_every_size(device: &TestDevice) -> TestResult {
    for with_access in [false, true] {
        let sides = if with_access { joined(device)? } else { apart(device)? };
        for (from, near) in sides.iter().enumerate() {
            // The next device, both ways, so that all are used.
            let far = &sides[(from + 1) % sides.len()];
            for n in sizes(device) {
                for (near, far) in [(near, far), (far, near)] {
                    copies_of(near, far, n)?;
                }
            }
        }
    }
    Ok(())
}

/// Copies from `far` to `near`.
fn copies_of(near: &Side, far: &Side, n: usize) -> TestResult {
    for (seed, stream) in (1..).zip([&near.stream, &far.stream]) {
        let wanted = words(seed, n);
        let source = far.buffer(&wanted)?;
        let mut target = near.zeroed(n)?;
        target.as_slice_mut().copy_from_peer(stream, &source)?;
        near.holds(&target, &wanted)?;
    }
    for (seed, by) in (3..).zip([near, far]) {
        let state = (far.buffer(&words(seed, n))?, near.zeroed(n)?);
        let mut graph = by.context.capture(state, |stream, (source, target)| {
            target.as_slice_mut().copy_from_peer(stream, &*source)
        })?;
        graph.launch(&by.stream)?;
        near.holds(&graph.state().1, &words(seed, n))?;
        // Other values, and launched from another stream.
        let next = words(seed + 10, n);
        graph.state_mut().0.upload(&far.other, &next)?;
        graph.launch(&by.other)?;
        near.holds(&graph.state().1, &next)?;
    }
    Ok(())
}

/// Memory of graphs is copied between devices outside of them, whichever side a graph uses, on streams of either.
fn copies_of_graphs_memory(device: &TestDevice) -> TestResult {
    let sides = joined(device)?;
    let [near, far, ..] = &sides[..] else { return Ok(()) };
    const N: usize = 1000;
    let shape = (4, 256);
    let mut of_near = near.context.capture(near.zeroed(N)?, |stream, x| {
        count(near.basic.add(stream, shape, x, N as u64, 1))
    })?;
    let mut of_far = far.context.capture(far.zeroed(N)?, |stream, y| {
        count(far.basic.add(stream, shape, y, N as u64, 10))
    })?;
    let mut expected = 0;
    for round in 0..4 {
        count(of_near.launch(&near.stream))?;
        expected += 1;
        let stream = [&near.stream, &far.stream][round % 2];
        of_far.state_mut().as_slice_mut().copy_from_peer(stream, of_near.state())?;
        count(of_far.launch(&far.other))?;
        expected += 10;
        let stream = [&far.other, &near.other][round % 2];
        of_near.state_mut().as_slice_mut().copy_from_peer(stream, of_far.state())?;
    }
    near.holds(of_near.state(), &[expected; N])?;
    far.holds(of_far.state(), &[expected; N])?;
    // A kernel of another device can't have it: it would take locks one after the other.
    let used = near.basic.add(&near.stream, shape, of_far.state_mut(), N as u64, 1);
    is_invalid(used, "can only be used by streams of its own context")
}
