//! What drops enqueue, and in which order.

use cuda_safe::{DeviceBuffer, Event, LaunchConfig, Stream};

use test_harness::lab::Lab;
use test_harness::table::Call;
use test_harness::{Case, Failure, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "drops",
        host(waits_for_a_reader_elsewhere),
        host(two_readers_then_a_writer),
        host(many_readers),
        host(adopted_memory),
        host(in_every_order),
        host(host_functions),
    ]
}

fn raw(stream: &Stream) -> u64 {
    stream.as_raw().addr() as u64
}

/// The streams that `waiter` was made to wait for, in order: a wait counts for the stream that the
/// event was recorded on last before it.
fn waits(calls: &[Call], waiter: &Stream) -> Vec<u64> {
    let mut found = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        if call.name == "cuStreamWaitEvent" && call.args[0] == raw(waiter) {
            let recorded = calls[..index]
                .iter()
                .rev()
                .find(|earlier| earlier.name == "cuEventRecord" && earlier.args[0] == call.args[1]);
            found.extend(recorded.map(|record| record.args[1]));
        }
    }
    found
}

fn position(calls: &[Call], name: &str) -> Result<usize, Failure> {
    let found = calls.iter().position(|call| call.name == name);
    found.ok_or_else(|| Failure::new(format!("{name} was not called")))
}

fn waits_for_a_reader_elsewhere() -> TestResult {
    let lab = Lab::new()?;
    let (home, other) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&home, 64)?;
    let address = buffer.device_ptr();
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) }?;
    lab.recorder.take();
    drop(buffer);
    let calls = lab.recorder.take();
    ensure_eq!(waits(&calls, &home), [raw(&other)]);
    let freed = position(&calls, "cuMemFreeAsync")?;
    ensure!(position(&calls, "cuStreamWaitEvent")? < freed, "the wait comes first");
    ensure_eq!(calls[freed].args[..2], [address, raw(&home)]);
    drop((one, home, other));
    lab.close()
}

fn two_readers_then_a_writer() -> TestResult {
    let lab = Lab::new()?;
    let (home, first) = (lab.context.stream()?, lab.context.stream()?);
    let (second, writer) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let launch = LaunchConfig::new(1, 1);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&home, 64)?;
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&first, launch, (0u64, &buffer)) }?;
    // SAFETY: as above.
    unsafe { one.launch(&second, launch, (0u64, &buffer)) }?;
    let mut log = lab.recorder.take();
    ensure_eq!(waits(&log, &first), [raw(&home)]);
    ensure_eq!(waits(&log, &second), [raw(&home)], "not for the other reader");
    // SAFETY: as above.
    unsafe { one.launch(&writer, launch, (0u64, &mut buffer)) }?;
    let calls = lab.recorder.take();
    log.extend_from_slice(&calls);
    let mut waited = waits(&log, &writer);
    waited.sort_unstable();
    let mut wanted = [raw(&home), raw(&first), raw(&second)];
    wanted.sort_unstable();
    ensure_eq!(waited, wanted);
    ensure_eq!(calls.last().map(|call| call.name), Some("cuLaunchKernel"), "after all waits");

    // Who reads now waits for the writer alone: it has waited for the others.
    // SAFETY: as above.
    unsafe { one.launch(&first, launch, (0u64, &buffer)) }?;
    let calls = lab.recorder.take();
    ensure_eq!(waits(&calls, &first), [raw(&writer)]);
    drop((buffer, one, home, first, second, writer));
    lab.close()
}

fn many_readers() -> TestResult {
    let lab = Lab::new()?;
    let home = lab.context.stream()?;
    let one = lab.kernel("one")?;
    let buffer = DeviceBuffer::<u8>::zeroed(&home, 64)?;
    let readers: Vec<Stream> = (0..40).map(|_| lab.context.stream()).collect::<Result<_, _>>()?;
    lab.recorder.take();
    for reader in &readers {
        // SAFETY: nothing runs on this driver.
        unsafe { one.launch(reader, LaunchConfig::new(1, 1), (0u64, &buffer)) }?;
    }
    drop(buffer);
    let calls = lab.recorder.take();
    let mut waited = waits(&calls, &home);
    ensure_eq!(waited.len(), readers.len(), "each reader is waited for once");
    waited.sort_unstable();
    let mut wanted: Vec<u64> = readers.iter().map(raw).collect();
    wanted.sort_unstable();
    ensure_eq!(waited, wanted);
    ensure_eq!(calls.last().map(|call| call.name), Some("cuMemFreeAsync"));
    drop((one, home, readers));
    lab.close()
}

/// Work enqueued through raw handles has no number; memory that comes in is waited for all the same.
fn adopted_memory() -> TestResult {
    let lab = Lab::new()?;
    let (home, other) = (lab.context.stream()?, lab.context.stream()?);
    let one = lab.kernel("one")?;
    let sys = lab.context.driver().as_sys();
    let pool = std::ptr::null_mut();
    let mut address = 0;
    // SAFETY: `address` is a valid place for one, and this driver takes any pool.
    let code = unsafe { sys.cuMemAllocFromPoolAsync(&raw mut address, 64, pool, home.as_raw()) }?;
    ensure_eq!(code, cuda_safe::sys::CUresult::CUDA_SUCCESS);
    // SAFETY: allocated in the order of `home`, and nobody else's.
    let buffer = unsafe { DeviceBuffer::<u8>::from_raw(&home, address, 64, None) }?;
    lab.recorder.take();
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) }?;
    ensure_eq!(waits(&lab.recorder.take(), &other), [raw(&home)]);

    // A token is kept until every use has been waited for.
    let (sender, receiver) = std::sync::mpsc::channel();
    struct Token(std::sync::mpsc::Sender<()>);
    impl Drop for Token {
        fn drop(&mut self) {
            // Nobody has hung up: the receiver is below.
            let _ = self.0.send(());
        }
    }
    let token = Some(Box::new(std::sync::Mutex::new(Token(sender))) as Box<_>);
    // SAFETY: `buffer` keeps the memory allocated, and is not used meanwhile.
    let lent = unsafe { DeviceBuffer::<u8>::from_raw(&home, address, 64, token) }?;
    // SAFETY: nothing runs on this driver.
    unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &lent)) }?;
    lab.recorder.take();
    let allocation = lent.allocation().clone();
    drop(lent);
    ensure!(receiver.try_recv().is_err(), "somebody still holds the allocation");
    drop(allocation);
    ensure_eq!(receiver.try_recv(), Ok(()));
    let calls = lab.recorder.take();
    ensure_eq!(waits(&calls, &home), [raw(&other)]);
    ensure!(calls.iter().all(|call| call.name != "cuMemFreeAsync"), "lent memory is not freed");
    drop((buffer, one, home, other));
    lab.close()
}

/// All orders of dropping what refers to each other: nothing leaks, nothing is freed twice.
fn in_every_order() -> TestResult {
    const THINGS: usize = 5;
    for order in permutations(THINGS) {
        let lab = Lab::new()?;
        let (home, other) = (lab.context.stream()?, lab.context.stream()?);
        let one = lab.kernel("one")?;
        let event = Event::new(&lab.context)?;
        let buffer = DeviceBuffer::from_slice(&home, &[1u8, 2, 3])?;
        // SAFETY: nothing runs on this driver.
        unsafe { one.launch(&other, LaunchConfig::new(1, 1), (0u64, &buffer)) }?;
        event.record(&other)?;
        let (mut home, mut other, mut one) = (Some(home), Some(other), Some(one));
        let (mut event, mut buffer) = (Some(event), Some(buffer));
        for thing in &order {
            match thing {
                0 => drop(home.take()),
                1 => drop(other.take()),
                2 => drop(one.take()),
                3 => drop(event.take()),
                _ => drop(buffer.take()),
            }
        }
        lab.close().map_err(|failure| Failure::new(format!("order {order:?}: {failure}")))?;
    }
    Ok(())
}

fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(count - 1);
    let insert = |rest: &Vec<usize>, at: usize| {
        let mut order = rest.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|rest| (0..count).map(move |at| insert(rest, at))).collect()
}

fn host_functions() -> TestResult {
    let lab = Lab::new()?;
    let stream = lab.context.stream()?;
    let (sender, receiver) = std::sync::mpsc::channel();
    let (calls, ()) = lab.calls(|| {
        stream.host_function(move || {
            // Nobody has hung up: the receiver is below.
            let _ = sender.send(7);
        })
    })?;
    ensure_eq!(calls, ["cuLaunchHostFunc"]);
    ensure_eq!(receiver.recv().ok(), Some(7));
    // A panic stays inside; the stream is as it was. Without the hook nothing is printed.
    stream.host_function(|| std::panic::resume_unwind(Box::new("on purpose")))?;
    stream.synchronize()?;
    drop(stream);
    lab.close()
}
