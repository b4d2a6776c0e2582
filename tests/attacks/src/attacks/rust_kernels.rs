//! Attacks on kernels that are Rust functions.

use cuda_safe::kernel::replay::{Keep, Recorder, SavedLaunch};
use cuda_safe::kernel::{Cpu, FaultKind, Memory, Pack, Place, kernel};
use cuda_safe::nvrtc::Arch;
use cuda_safe::{DeviceBuffer, UnifiedBuffer};
use test_harness::{Failure, TestResult, ensure, ensure_eq};

use crate::attack::attacks;
use crate::lab::Lab;

#[kernel]
fn gather(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    each(out, |i, out| *out = x[at[i] as usize]);
}

#[kernel]
fn walk(from: &[u32], steps: usize, x: &[u32], out: &mut [u32]) {
    assert!(from.len() == out.len());
    each(out, |i, out| {
        let mut sum = 0u32;
        for j in 0..steps {
            sum = sum.wrapping_add(x[from[i] as usize + j]);
        }
        *out = sum;
    });
}

/// Reads a slice at all indices beside it, in loops and outside of them, from many threads at once.
///
/// - row: a kernel reads and writes only inside its slices, on a device
/// - row: no wait or download returns `Ok` after a recorded fault
/// - row: a fault has the parts of one thread's check
/// - targets: `Context::take_fault`, `Stream::synchronize`, `DeviceBuffer::to_vec`
fn indices_beside_the_slice(lab: &Lab) -> TestResult {
    let refusal = "out of bounds";
    let (context, stream) = (lab.context()?, lab.stream()?);
    let x = DeviceBuffer::from_slice(&stream, &(0..100).collect::<Vec<u32>>())?;
    let wrong: Vec<u32> =
        (0..1000).map(|i| if i % 3 == 0 { 100 + i * 4_000_000 } else { i % 100 }).collect();
    let at = DeviceBuffer::from_slice(&stream, &wrong)?;
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    for steps in [0, 1, 7] {
        match steps {
            0 => gather::launch(&stream, &at, &x, &mut out)?,
            _ => walk::launch(&stream, &at, steps, &x, &mut out)?,
        }
        lab.refused(stream.synchronize(), refusal)?;
        lab.refused(out.to_vec(&stream), refusal)?;
        lab.refused(lab.stream()?.synchronize(), refusal)?;
        let fault = context.take_fault().ok_or_else(|| Failure::new("there is no fault"))?;
        let element = usize::try_from(fault.element[0]).unwrap_or(usize::MAX);
        let index = wrong.get(element).copied().unwrap_or_default();
        ensure_eq!((fault.kind, fault.len), (FaultKind::Index, 100));
        let first = u64::from(index).max(100);
        ensure_eq!(fault.index, first);
        stream.synchronize()?;
    }
    let right = DeviceBuffer::from_slice(&stream, &[99u32; 1000])?;
    gather::launch(&stream, &right, &x, &mut out)?;
    ensure_eq!(out.to_vec(&stream)?, [99; 1000]);
    Ok(())
}

/// Block-level code that reads what phases wrote: in arguments, by a reference, through closures, as the end of a loop.
#[kernel]
fn shuffle(at: &[u32], x: &[u32], out: &mut [u32]) {
    assert!(at.len() == out.len());
    blocks(Threads::<96>, chunks(out, 96), |block, mut out| {
        let first = out.start();
        let mut now = block.shared([3u32; 96]);
        let mut next = block.shared([0u32; 96]);
        let pick = |i: usize| x[at[first + i] as usize];
        let mut left = now[0];
        while left > 0 {
            block.each((&mut next, &mut out), |i, (next, out)| {
                *next = now[95 - i] + pick(i) % 7 + *out
            });
            let last = &next[95];
            block.run(next[7] as usize % 5, |_| {});
            block.each(&mut out, |i, out| *out += next[(i * 5) % 96] + *last);
            std::mem::swap(&mut now, &mut next);
            block.each(&mut next, |i, n| *n = now[i] / 2);
            left = if now[5] > 1 << 20 { 0 } else { left - 1 };
        }
    });
}

/// Lets block-level code read what phases wrote in every way that there is, whole and with a wrong index in one thread.
///
/// - row: no thread of a block writes what another one accesses between the same barriers
/// - row: a fault of a thread is reported, and its block ends
/// - targets: `Context::take_fault`, `DeviceBuffer::from_slice`, `DeviceBuffer::to_vec`
fn blocks_that_read_what_they_wrote(lab: &Lab) -> TestResult {
    let (context, stream) = (lab.context()?, lab.stream()?);
    let words: Vec<u32> = (0..1000).map(|i| i * 2_654_435 % 1009).collect();
    let x = DeviceBuffer::from_slice(&stream, &words)?;
    for wrong in [None, Some(5), Some(500), Some(999)] {
        let mut at: Vec<u32> = (0..1000).map(|i| i * 17 % 1000).collect();
        if let Some(wrong) = wrong {
            at[wrong] = 1000;
        }
        let mut expected = vec![0; 1000];
        let on_cpu = shuffle::cpu(&at, &words, &mut expected);
        let at = DeviceBuffer::from_slice(&stream, &at)?;
        let mut out = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        shuffle::launch(&stream, &at, &x, &mut out)?;
        let Some(wrong) = wrong else {
            on_cpu?;
            ensure_eq!(out.to_vec(&stream)?, expected);
            continue;
        };
        lab.refused(out.to_vec(&stream), "out of bounds")?;
        let fault = context.take_fault().ok_or_else(|| Failure::new("there is no fault"))?;
        ensure_eq!(fault.block, Some(wrong as u64 / 96));
        ensure_eq!(fault.element, [wrong as u64 % 96, 0, 0]);
        ensure!(on_cpu.is_err_and(|error| error.to_string() == fault.to_string()), "another fault");
    }
    Ok(())
}

#[kernel]
fn numbers(a: u8, b: u64, c: [u16; 3], d: f64, x: &[i8], out: &mut [f64], bits: &mut [u64]) {
    assert!(x.len() == out.len());
    each((out, bits), |i, (out, bits)| {
        let v = x[i];
        let scaled = v as f64 * d - a as f64;
        *out = scaled.max(-0.0).sqrt() / (c[i % 3] as f64 - 7.0);
        *bits = out.to_bits() ^ (b >> (v as u8 & 63)) ^ ((scaled * 1e300) as i32 as u64);
    });
}

/// Passes values of odd sizes, whose results have zeros, infinities and NaNs, and compares the bits with the CPU's.
///
/// - row: the driver is given one pointer for each parameter
/// - row: the C++ computes what rustc's copy computes
/// - targets: `DeviceBuffer::zeroed`
fn values_of_odd_sizes(lab: &Lab) -> TestResult {
    let stream = lab.stream()?;
    let x: Vec<i8> = (0..600u32).map(|i| i as u8 as i8).collect();
    let (mut out, mut bits) = (vec![0.0; 600], vec![0; 600]);
    numbers::cpu(3, u64::MAX / 3, [7, 8, u16::MAX], -0.75, &x, &mut out, &mut bits)?;
    let device = DeviceBuffer::from_slice(&stream, &x)?;
    let mut result = DeviceBuffer::<f64>::zeroed(&stream, 600)?;
    let mut found = DeviceBuffer::<u64>::zeroed(&stream, 600)?;
    let values = [7, 8, u16::MAX];
    numbers::launch(&stream, 3, u64::MAX / 3, values, -0.75, &device, &mut result, &mut found)?;
    ensure_eq!(found.to_vec(&stream)?, bits);
    Ok(())
}

#[kernel]
fn count(x: &[u32], bins: &cuda_safe::kernel::Atomic<[u32]>, out: &mut [u32]) {
    assert!(x.len() == out.len() && bins.len() == 4);
    each(out, |i, out| *out = bins.fetch_add((x[i] & 3) as usize, 1));
}

/// Launches kernels on two streams over one buffer, also recorded, and drops memory at once. All threads count in 4
/// elements.
///
/// - row: launches are ordered and recorded as others
/// - row: all threads change only memory that is atomic
/// - targets: `Context::capture`, `UnifiedBuffer::managed`, `DeviceBuffer::zeroed`
fn two_streams_and_a_graph(lab: &Lab) -> TestResult {
    let (context, one, two) = (lab.context()?, lab.stream()?, lab.stream()?);
    let mut bins = DeviceBuffer::<u32>::zeroed(&one, 4)?;
    let mut out = UnifiedBuffer::<u32>::managed(&one, 1000)?;
    for stream in [&one, &two, &one, &two] {
        let x = DeviceBuffer::from_slice(&one, &(0..1000).collect::<Vec<u32>>())?;
        count::launch(stream, &x, &mut bins, &mut out)?;
    }
    ensure_eq!(bins.to_vec(&one)?, [1000; 4]);
    let x = DeviceBuffer::from_slice(&one, &[5u32; 1000])?;
    let state = (bins, out);
    let mut graph =
        context.capture(state, |stream, (bins, out)| count::launch(stream, &x, bins, out))?;
    graph.launch(&two)?;
    graph.launch(&one)?;
    ensure_eq!(graph.state().0.to_vec(&two)?, [1000, 3000, 1000, 1000]);
    Ok(())
}

/// Launches for the first time from four threads at once, with failing kernels under way, and closes the context.
///
/// - row: a loaded kernel that a launch has found is not unloaded meanwhile
/// - row: the device writes no slot that was freed
/// - targets: `Context::close`
fn closed_with_faults_under_way(lab: &Lab) -> TestResult {
    let driver = cuda_safe::Driver::from_sys(cuda_emu::driver())?;
    for _ in 0..3 {
        let context = driver.device(0)?.context()?;
        let launched = |from: u32| -> cuda_safe::Result<()> {
            let stream = context.stream()?;
            let at = DeviceBuffer::from_slice(&stream, &[from; 300])?;
            let x = DeviceBuffer::from_slice(&stream, &[1u32; 10])?;
            let mut out = DeviceBuffer::<u32>::zeroed(&stream, 300)?;
            gather::launch(&stream, &at, &x, &mut out)
        };
        let ended: Vec<bool> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|k| scope.spawn(move || launched(k * 8))).collect();
            threads.into_iter().map(|thread| matches!(thread.join(), Ok(Ok(())))).collect()
        });
        ensure!(ended.iter().any(|ended| *ended), "no thread has launched");
        // Without a wait: kernels may still fail, which the close may report.
        let _ = context.close();
    }
    let context = lab.context()?;
    // Other work of the attack may have recorded a fault until this wait ends.
    let _ = context.synchronize();
    let _ = context.take_fault();
    Ok(context.synchronize()?)
}

/// Runs saved launches whose files were changed in each byte, cut and extended.
///
/// Runs without a seed, because nothing runs on the device.
///
/// - row: a saved launch, whatever its bytes
/// - targets: `kernel!`
fn saved_launches_of_any_bytes(_: &Lab) -> TestResult {
    let recorder = Recorder::new(Keep::All);
    gather::launch(&recorder, &[2u32, 0, 1], &[7u32, 8, 9], &mut [0u32; 3])?;
    let saved = recorder.take();
    let bytes = saved.first().ok_or_else(|| Failure::new("nothing was kept"))?.to_bytes();
    for at in 0..bytes.len() {
        ensure!(SavedLaunch::from_bytes(&bytes[..at]).is_err(), "{at} bytes are a launch");
        for flip in [1u8, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= flip;
            // Whatever is read, runs or is refused.
            if let Ok(launch) = SavedLaunch::from_bytes(&changed) {
                let _ = launch.run(gather::kernel()).map(|run| launch.compare(&run));
            }
        }
    }
    Ok(())
}

/// Reads packs that were changed in each byte and cut, and launches memory of another place.
///
/// - row: an image of a pack is loaded only for the text
/// - targets: `Pack::open`, `Memory::from_slice`, `Memory::zeroed`
fn packs_and_places(lab: &Lab) -> TestResult {
    let refusal = "memory is on";
    let mut pack = Pack::new();
    pack.add(gather::kernel(), &[Arch::compute(7, 5)])?;
    let bytes = pack.to_bytes();
    ensure!(!pack.has(walk::kernel(), Arch::compute(7, 5)), "an image of another kernel");
    // A damaged image is none, so it would be compiled again.
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("kernels.pack");
    let has = |bytes: &[u8]| -> Result<bool, Failure> {
        std::fs::write(&path, bytes)?;
        Ok(Pack::open(&path).is_ok_and(|pack| pack.has(gather::kernel(), Arch::compute(7, 5))))
    };
    ensure!(has(&bytes)?, "the whole pack has the image");
    for at in (0..bytes.len()).step_by(97).chain([0, bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        ensure!(!has(&changed)?, "byte {at} was changed");
        ensure!(!has(&bytes[..at])?, "{at} bytes have the image");
    }
    let stream = lab.stream()?;
    let (gpu, cpu) = (Place::Gpu(&stream), Place::Cpu);
    let (at, x) = (Memory::from_slice(gpu, &[1u32; 5])?, Memory::from_slice(cpu, &[1u32, 2])?);
    let mut out = Memory::<u32>::zeroed(gpu, 5)?;
    lab.refused(gather::launch(gpu, &at, &x, &mut out), refusal)?;
    lab.refused(gather::launch(cpu, &at, &x, &mut out), refusal)?;
    lab.refused(out.to_vec(cpu), refusal)?;
    let mut host = [0u32; 2];
    gather::launch(Cpu, &[1u32, 0], &[1u32, 2], &mut host)?;
    ensure_eq!(host, [2, 1]);
    Ok(())
}

attacks![
    "rust_kernels",
    refused(indices_beside_the_slice),
    refused(blocks_that_read_what_they_wrote),
    right(values_of_odd_sizes),
    right(two_streams_and_a_graph),
    right(closed_with_faults_under_way),
    right(saved_launches_of_any_bytes).without_seed(),
    refused(packs_and_places),
];
