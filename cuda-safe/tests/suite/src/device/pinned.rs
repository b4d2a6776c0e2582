//! Pinned host memory and the transfers that own it.

use cuda_safe::vector::Float4;
use cuda_safe::{DeviceBuffer, ErrorKind, PinnedBuffer};

use super::gate::Gate;
use super::{MS, SIZES};
use test_harness::programs::Delay;
use test_harness::{
    Case, TestDevice, TestResult, cases, ensure, ensure_eq, ensure_refused, first_difference,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "pinned",
        device(both_ways),
        device(is_a_slice),
        device(transfers_do_not_wait),
        device(a_transfer_may_be_dropped).serial(),
        device(memory_is_used_again).serial(),
        device(lengths_must_agree),
    ]
}

fn both_ways(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let mut rng = device.rng(30);
    for n in SIZES {
        let words = rng.words(n);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, n)?;
        let pinned = PinnedBuffer::from_slice(context, &words)?;
        let sent = buffer.as_slice_mut().upload_pinned(&stream, pinned)?;
        let target = PinnedBuffer::<u32>::zeroed(context, n)?;
        let received = buffer.as_slice().download_pinned(&stream, target)?;
        first_difference(&received.wait()?, &words)?;
        first_difference(&sent.wait()?, &words)?;
    }
    Ok(())
}

fn is_a_slice(device: &TestDevice) -> TestResult {
    let mut pinned = PinnedBuffer::<Float4>::zeroed(device.context(), 100)?;
    ensure!(pinned.as_ptr().is_aligned());
    ensure_eq!(*pinned, [Float4::default(); 100]);
    pinned[99] = Float4::new(1.0, 2.0, 3.0, 4.0);
    ensure_eq!(pinned.iter().filter(|v| v.w != 0.0).count(), 1);
    // Memory that is used again is zero again.
    drop(pinned);
    ensure_eq!(*PinnedBuffer::<Float4>::zeroed(device.context(), 100)?, [Float4::default(); 100]);
    Ok(())
}

fn transfers_do_not_wait(device: &TestDevice) -> TestResult {
    let (stream, delay) = (device.stream()?, Delay::of(device)?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let target = PinnedBuffer::<u32>::zeroed(device.context(), 1000)?;
    let gate = Gate::close(&stream)?;
    device.count(delay.delayed_fill(&stream, (1, 128), &mut buffer, 1000, 5, MS))?;
    let transfer = buffer.as_slice().download_pinned(&stream, target)?;
    ensure!(!transfer.is_done()?, "the stream is held back");
    gate.open();
    let got = transfer.wait()?;
    first_difference(&got, &[5; 1000])
}

fn a_transfer_may_be_dropped(device: &TestDevice) -> TestResult {
    let (context, stream, delay) = (device.context(), device.stream()?, Delay::of(device)?);
    context.free_deferred()?;
    let words = device.rng(31).words(100_000);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, words.len())?;
    device.count(delay.delay(&stream, (1, 1), 20 * MS))?;
    let pinned = PinnedBuffer::from_slice(context, &words)?;
    drop(buffer.as_slice_mut().upload_pinned(&stream, pinned)?);
    ensure_eq!(context.stats().deferred_frees, 1);
    // A new buffer of that size is other memory: the copy still reads the old.
    let mut other = PinnedBuffer::<u32>::zeroed(context, words.len())?;
    other.fill(0xdddd_dddd);
    first_difference(&buffer.to_vec(&stream)?, &words)?;
    drop(other);
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

fn memory_is_used_again(device: &TestDevice) -> TestResult {
    let context = device.context();
    context.free_deferred()?;
    let first = PinnedBuffer::<u32>::zeroed(context, 5000)?;
    let address = first.as_ptr();
    drop(first);
    ensure_eq!(context.stats().deferred_frees, 1);
    // As large, and a little smaller; one that is much smaller would waste it.
    let small = PinnedBuffer::<u32>::zeroed(context, 100)?;
    ensure!(small.as_ptr() != address);
    for elements in [5000, 4000] {
        let next = PinnedBuffer::<u32>::zeroed(context, elements)?;
        ensure_eq!(next.as_ptr(), address);
        ensure_eq!(next.len(), elements);
        ensure_eq!(context.stats().deferred_frees, 0);
    }
    drop(small);
    context.free_deferred()?;
    ensure_eq!(context.stats().deferred_frees, 0);
    Ok(())
}

fn lengths_must_agree(device: &TestDevice) -> TestResult {
    let (context, stream) = (device.context(), device.stream()?);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&stream, 10)?;
    let pinned = PinnedBuffer::<u32>::zeroed(context, 11)?;
    let refused = buffer.as_slice_mut().upload_pinned(&stream, pinned).map(drop);
    let kind = refused.as_ref().map_err(cuda_safe::Error::kind);
    ensure!(matches!(kind, Err(ErrorKind::Invalid(_))), "{refused:?}");
    let pinned = PinnedBuffer::<u32>::zeroed(context, 9)?;
    ensure_refused(buffer.as_slice().download_pinned(&stream, pinned))?;
    Ok(())
}
