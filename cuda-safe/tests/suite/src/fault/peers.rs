//! Two devices: copies between them, kernels of one that use memory of the other, and their order.
//! Where there is one device only, there is nothing to test.

use cuda_safe::{Context, DeviceBuffer, Error, ErrorKind, Stream, UnifiedBuffer};

use super::error_of;
use crate::device::MS;
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, Failure, Open, TestResult, count_launches, ensure, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    [
        Case::process("fault::peers::copies_both_ways", copies_both_ways),
        Case::process("fault::peers::copies_wait_for_writers", copies_wait_for_writers),
        Case::process("fault::peers::writers_wait_for_copies", writers_wait_for_copies),
        Case::process("fault::peers::dropped_while_copied", dropped_while_copied),
        Case::process("fault::peers::kernels_use_memory_of_peers", kernels_use_memory_of_peers),
        Case::process("fault::peers::what_is_refused", what_is_refused),
        Case::process("fault::peers::memory_of_graphs", memory_of_graphs),
        Case::process("fault::peers::opened_again", opened_again),
    ]
    .map(|case| case.variables(&[("CUDA_EMU_DEVICES", "2")]))
    .to_vec()
}

/// A device, two streams of it and the kernels.
struct Side {
    context: Context,
    stream: Stream,
    other: Stream,
    basic: Basic,
    delay: Delay,
}

impl Side {
    fn new(context: Context) -> Result<Self, Failure> {
        let (stream, other) = (context.stream()?, context.stream()?);
        let (basic, delay) = (Basic::load(&context)?, Delay::load(&context)?);
        Ok(Self { context, stream, other, basic, delay })
    }

    fn buffer(&self, value: u32, len: usize) -> Result<DeviceBuffer<u32>, Failure> {
        let buffer = DeviceBuffer::from_slice(&self.stream, &vec![value; len])?;
        self.stream.synchronize()?;
        Ok(buffer)
    }
}

fn count(launched: cuda_safe::Result<()>) -> cuda_safe::Result<()> {
    count_launches(1);
    launched
}

/// Runs `test` for both directions; not at all with a single device.
fn both_directions(open: Open, test: fn(&Side, &Side) -> TestResult) -> TestResult {
    let driver = open()?;
    if driver.device_count() < 2 {
        eprintln!("one device: nothing is tested");
        return Ok(());
    }
    let first = Side::new(driver.device(0)?.context()?)?;
    let second = Side::new(driver.device(1)?.context()?)?;
    test(&first, &second)?;
    test(&second, &first)?;
    for side in [first, second] {
        side.context.synchronize()?;
        let errors = side.context.take_drop_errors();
        ensure!(errors.is_empty(), "{errors:?}");
    }
    Ok(())
}

const N: usize = 10_000;

fn copies_both_ways(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        for n in [0, 1, 33, 1 << 20] {
            let words: Vec<u32> = (7..7 + n as u32).collect();
            let source = DeviceBuffer::from_slice(&far.stream, &words)?;
            // On a stream of either side, at home or not.
            for stream in [&near.stream, &near.other, &far.stream, &far.other] {
                let mut target = DeviceBuffer::<u32>::zeroed(&near.stream, n)?;
                target.as_slice_mut().copy_from_peer(stream, &source)?;
                first_difference(&target.to_vec(&near.stream)?, &words)?;
            }
        }
        // Parts, and memory that the host sees.
        let source = far.buffer(5, 100)?;
        let mut target = near.buffer(1, 100)?;
        target.slice_mut(10..20)?.copy_from_peer(&near.stream, source.slice(50..60)?)?;
        let mut expected = vec![1; 100];
        expected[10..20].fill(5);
        first_difference(&target.to_vec(&near.other)?, &expected)?;
        let managed = UnifiedBuffer::<u32>::managed(&near.stream, 100)?;
        for mut seen in [UnifiedBuffer::<u32>::pinned(&near.stream, 100)?, managed] {
            for stream in [&near.stream, &far.stream] {
                seen.host_mut()?.fill(2);
                seen.as_slice_mut().copy_from_peer(stream, &source)?;
                first_difference(&seen.host()?, &[5; 100])?;
                let mut back = far.buffer(3, 100)?;
                back.as_slice_mut().copy_from_peer(stream, &seen)?;
                first_difference(&back.to_vec(&far.stream)?, &[5; 100])?;
            }
            target.as_slice_mut().copy_from_peer(&near.stream, &seen)?;
            first_difference(&target.to_vec(&near.stream)?, &[5; 100])?;
        }
        Ok(())
    })
}

fn copies_wait_for_writers(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        // The source is written by a slow kernel, at home or on another stream of its device.
        for writer in [&far.stream, &far.other] {
            for stream in [&near.stream, &near.other, &far.stream] {
                let (mut source, mut target) = (far.buffer(1, N)?, near.buffer(0, N)?);
                let n = N as u64;
                count(far.delay.delayed_fill(writer, (1, 256), &mut source, n, 2, 20 * MS))?;
                target.as_slice_mut().copy_from_peer(stream, &source)?;
                first_difference(&target.to_vec(&near.stream)?, &[2; N])?;
            }
        }
        // So is the target: the copy comes last.
        for stream in [&near.stream, &far.stream] {
            let (source, mut target) = (far.buffer(3, N)?, near.buffer(0, N)?);
            let n = N as u64;
            count(near.delay.delayed_fill(&near.other, (1, 256), &mut target, n, 2, 20 * MS))?;
            target.as_slice_mut().copy_from_peer(stream, &source)?;
            first_difference(&target.to_vec(&near.other)?, &[3; N])?;
        }
        Ok(())
    })
}

fn writers_wait_for_copies(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        let (mut source, mut target) = (far.buffer(4, N)?, near.buffer(0, N)?);
        // A copy that has to wait; meanwhile both sides are written.
        count(near.delay.delay(&near.other, (1, 1), 30 * MS))?;
        target.as_slice_mut().copy_from_peer(&near.other, &source)?;
        count(far.basic.fill(&far.stream, (8, 256), &mut source, N as u64, 9))?;
        first_difference(&target.to_vec(&near.stream)?, &[4; N])?;
        first_difference(&source.to_vec(&far.stream)?, &[9; N])?;

        count(near.delay.delay(&near.other, (1, 1), 30 * MS))?;
        target.as_slice_mut().copy_from_peer(&near.other, &source)?;
        count(near.basic.fill(&near.stream, (8, 256), &mut target, N as u64, 6))?;
        first_difference(&target.to_vec(&near.other)?, &[6; N])
    })
}

/// The source is freed behind the copy, on the other device: its memory is soon another buffer's.
fn dropped_while_copied(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        for _ in 0..3 {
            let (source, mut target) = (far.buffer(4, N)?, near.buffer(0, N)?);
            count(near.delay.delay(&near.stream, (1, 1), 30 * MS))?;
            target.as_slice_mut().copy_from_peer(&near.stream, &source)?;
            drop(source);
            let mut next = DeviceBuffer::<u32>::zeroed(&far.stream, N)?;
            count(far.basic.fill(&far.stream, (8, 256), &mut next, N as u64, 9))?;
            first_difference(&target.to_vec(&near.stream)?, &[4; N])?;
        }
        Ok(())
    })
}

fn said_invalid(what: &str, result: cuda_safe::Result<()>) -> Result<Error, Failure> {
    let error = error_of(what, result)?;
    ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{what}: {error}");
    Ok(error)
}

fn kernels_use_memory_of_peers(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        let (mut source, mut target) = (far.buffer(1, N)?, near.buffer(0, N)?);
        let copied = near.basic.copy(&near.stream, (8, 256), &source, &mut target, N as u64);
        let error = said_invalid("not enabled", copied)?;
        ensure!(error.hint().is_some_and(|hint| hint.contains("enable_peer_access")), "{error}");
        said_invalid("not enabled", source.fill(&near.stream, 3))?;
        if !near.context.can_access_peer(&far.context)? {
            let refused = near.context.enable_peer_access(&far.context);
            return said_invalid("these devices can't", refused).map(drop);
        }
        for _ in 0..2 {
            near.context.enable_peer_access(&far.context)?;
        }
        near.context.enable_peer_access(&near.context)?;
        // Memory from before and from after enabling, written slowly by the one and by the other.
        let mut later = far.buffer(0, N)?;
        for (round, source) in (10..).zip([&mut source, &mut later]) {
            let n = N as u64;
            count(far.delay.delayed_fill(&far.stream, (1, 256), &mut *source, n, round, 20 * MS))?;
            count(near.basic.copy(&near.stream, (8, 256), &*source, &mut target, n))?;
            first_difference(&target.to_vec(&near.stream)?, &vec![round; N])?;
            let round = round + 10;
            count(near.delay.delayed_fill(&near.other, (1, 256), &mut *source, n, round, 20 * MS))?;
            first_difference(&source.to_vec(&far.stream)?, &vec![round; N])?;
            count(near.delay.delayed_copy(
                &near.stream,
                (1, 256),
                &*source,
                &mut target,
                n,
                20 * MS,
            ))?;
            count(far.basic.fill(&far.other, (8, 256), &mut *source, n, 99))?;
            first_difference(&target.to_vec(&near.stream)?, &vec![round; N])?;
        }
        // Dropped while a kernel of the other device reads it.
        let n = N as u64;
        count(near.delay.delayed_copy(&near.stream, (1, 256), &later, &mut target, n, 20 * MS))?;
        drop(later);
        let mut next = DeviceBuffer::<u32>::zeroed(&far.stream, N)?;
        count(far.basic.fill(&far.stream, (8, 256), &mut next, n, 5))?;
        first_difference(&target.to_vec(&near.stream)?, &[99; N])
    })
}

fn what_is_refused(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        let (source, mut target) = (far.buffer(1, 10)?, near.buffer(0, 9)?);
        let copied = target.as_slice_mut().copy_from_peer(&near.stream, &source);
        said_invalid("lengths", copied)?;
        ensure!(!near.context.can_access_peer(&near.context)?);
        // Within one device it is an ordinary copy, on a stream of that device.
        let (one, mut two) = (near.buffer(6, 10)?, near.buffer(0, 10)?);
        said_invalid("neither's", two.as_slice_mut().copy_from_peer(&far.stream, &one))?;
        two.as_slice_mut().copy_from_peer(&near.stream, &one)?;
        first_difference(&two.to_vec(&near.stream)?, &[6; 10])
    })
}

/// Memory of a graph is used inside its capture alone: not by a copy to another device, in the capture or after
/// it, and the capture and both streams go on.
fn memory_of_graphs(open: Open) -> TestResult {
    both_directions(open, |near, far| {
        near.context.enable_peer_access(&far.context)?;
        far.context.enable_peer_access(&near.context)?;
        let mut target = far.buffer(5, N)?;
        let (mut refused, mut leaked) = (Vec::new(), None);
        let made = near.context.capture((), |stream, ()| {
            let x = DeviceBuffer::<u32>::zeroed(stream, N)?;
            let mut as_target = DeviceBuffer::<u32>::zeroed(stream, N)?;
            for on in [&far.stream, &near.stream, stream] {
                refused.push(target.as_slice_mut().copy_from_peer(on, &x));
                refused.push(as_target.as_slice_mut().copy_from_peer(on, &target));
            }
            // A kernel of the peer reads it where it lies; and a fill, which is a write.
            refused.push(far.basic.copy(&far.stream, (8, 128), &x, &mut target, N as u64));
            refused.push(as_target.fill(&far.stream, 1));
            refused.push(x.to_vec(&near.stream).map(drop));
            Ok(())
        });
        made.map(drop)?;
        let captured = near.context.capture((), |stream, ()| {
            leaked = Some(DeviceBuffer::<u32>::zeroed(stream, N)?);
            Ok(())
        });
        let captured = captured.map(drop);
        ensure!(captured.is_err(), "a buffer of the graph is alive");
        let Some(mut leaked) = leaked else {
            return Err(Failure::new("nothing was leaked".to_owned()));
        };
        for on in [&far.stream, &near.stream] {
            refused.push(leaked.as_slice_mut().copy_from_peer(on, &target));
            refused.push(target.as_slice_mut().copy_from_peer(on, &leaked));
            // SAFETY: nothing is enqueued.
            refused.push(unsafe { on.enqueue((&leaked,), |_| ()) });
        }
        let count = refused.len();
        ensure!(count == 15, "{count} attempts");
        for (index, result) in refused.into_iter().enumerate() {
            said_invalid(&format!("attempt {index}"), result)?;
        }
        drop(leaked);
        for stream in [&near.stream, &far.stream] {
            stream.synchronize()?;
        }
        first_difference(&target.to_vec(&far.stream)?, &[5; N])
    })
}

/// Access goes with the context that was given it.
fn opened_again(open: Open) -> TestResult {
    let driver = open()?;
    if driver.device_count() < 2 {
        return Ok(());
    }
    let near = Side::new(driver.device(0)?.context()?)?;
    let mut target = near.buffer(0, N)?;
    for round in 1..4 {
        let context = driver.device(1)?.context()?;
        if !near.context.can_access_peer(&context)? {
            return Ok(());
        }
        let stream = context.stream()?;
        let source = DeviceBuffer::from_slice(&stream, &[round; N])?;
        let n = N as u64;
        let copied = near.basic.copy(&near.stream, (8, 256), &source, &mut target, n);
        said_invalid("not enabled", copied)?;
        near.context.enable_peer_access(&context)?;
        count(near.basic.copy(&near.stream, (8, 256), &source, &mut target, n))?;
        first_difference(&target.to_vec(&near.stream)?, &[round; N])?;
        drop((source, stream));
        context.close()?;
    }
    Ok(())
}
