//! What a call leaves for the next one on its stream: the stream and the allocations of its views.

use std::sync::{Arc, Weak};

use cuda_safe::Allocation;

use crate::device::checks::is_invalid;
use crate::device::framework::Framework;
use test_harness::programs::Basic;
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

use super::counted;

pub(super) fn cases() -> Vec<Case> {
    cases![
        "lent::reused",
        device(a_handle_of_an_earlier_call),
        device(a_weak_handle),
        device(versions_begin_anew),
        device(views_on_another_stream),
        device(more_streams_than_are_kept),
        device(more_views_than_are_kept),
    ]
}

/// Writes `value` to a tensor in a call, and returns a handle to its memory.
fn fill(
    device: &TestDevice,
    framework: &Framework,
    (start, len): (u64, usize),
    value: u32,
) -> cuda_safe::Result<Arc<Allocation>> {
    // SAFETY: the framework keeps the stream and the tensor until the call returns.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            let mut view = lent.slice_from_raw_mut::<u32>(start, len)?;
            view.fill(lent, value)?;
            Ok(view.allocation().clone())
        })
    }
}

/// A handle that outlives its call shows no memory of a later one.
fn a_handle_of_an_earlier_call(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let (first, second) = (framework.tensor(&[1; 100])?, framework.tensor(&[2; 50])?);
    let kept = fill(device, &framework, (first.start(), 100), 3)?;
    let stream = device.stream()?;
    for value in 4..7 {
        let other = fill(device, &framework, (second.start(), 50), value)?;
        ensure!(!Arc::ptr_eq(&kept, &other));
        ensure_eq!((kept.device_ptr(), kept.size_bytes()), (first.start(), 400));
        // SAFETY: any bytes are a u32, and nothing else uses the memory.
        let view = unsafe { kept.view::<u32>(0..400) }?;
        is_invalid(view.to_vec(&stream), "lent for a call of `Context::lend` that has ended")?;
    }
    first_difference(&first.read()?, &vec![3; 100])?;
    first_difference(&second.read()?, &[6; 50])
}

/// Nor does a weak one.
fn a_weak_handle(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let (first, second) = (framework.tensor(&[1; 100])?, framework.tensor(&[2; 50])?);
    let mut weak: Weak<Allocation> = Weak::new();
    // SAFETY: the framework keeps the stream and the tensor until the call returns.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            let view = lent.slice_from_raw::<u32>(first.start(), 100)?;
            weak = Arc::downgrade(view.allocation());
            Ok(())
        })
    }?;
    // Lent for a call that has ended: such memory is not used again, and a weak handle does not bring it back.
    ensure!(weak.upgrade().is_none());
    fill(device, &framework, (second.start(), 50), 3)?;
    first_difference(&second.read()?, &[3; 50])
}

/// Memory that a call lends was written by nothing that the crate knows.
fn versions_begin_anew(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let tensor = framework.tensor(&counted(64))?;
    for _ in 0..3 {
        // SAFETY: the framework keeps the stream and the tensor until the call returns.
        let versions = unsafe {
            device.context().lend(framework.stream(), |lent| {
                let mut view = lent.slice_from_raw_mut::<u32>(tensor.start(), 64)?;
                let before = view.allocation().version(0..256);
                view.slice_mut(3..10)?.fill(lent, 1)?;
                view.fill(lent, 2)?;
                Ok((before, view.allocation().version(0..256)))
            })
        }?;
        ensure_eq!(versions.0, 0);
        ensure!(versions.1 > 0);
    }
    Ok(())
}

/// A view that another stream has used is ordered with it, in its call and in later ones.
fn views_on_another_stream(device: &TestDevice) -> TestResult {
    let basic = Basic::of(device)?;
    let framework = Framework::new(device.context())?;
    let (x, y) = (framework.tensor(&counted(5000))?, framework.tensor(&vec![0; 5000])?);
    let stream = device.stream()?;
    for turn in 0..4 {
        // SAFETY: the framework keeps the stream and the tensors until the call returns.
        unsafe {
            device.context().lend(framework.stream(), |lent| {
                let (first, second) = if turn % 2 == 0 { (&x, &y) } else { (&y, &x) };
                let from = lent.slice_from_raw::<u32>(first.start(), 5000)?;
                let mut to = lent.slice_from_raw_mut::<u32>(second.start(), 5000)?;
                device.count(basic.copy(&stream, (20, 256), from, &mut to, 5000))?;
                device.count(basic.add(lent, (20, 256), &mut to, 5000, 1))
            })
        }?;
    }
    let expected: Vec<u32> = (4..5004).collect();
    first_difference(&x.read()?, &expected)
}

fn more_streams_than_are_kept(device: &TestDevice) -> TestResult {
    let frameworks =
        (0..40).map(|_| Framework::new(device.context())).collect::<Result<Vec<_>, _>>()?;
    for turn in 0..3 {
        for (framework, value) in frameworks.iter().zip(turn..) {
            let tensor = framework.tensor(&[9; 33])?;
            drop(fill(device, framework, (tensor.start(), 33), value)?);
            first_difference(&tensor.read()?, &[value; 33])?;
        }
    }
    Ok(())
}

fn more_views_than_are_kept(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let tensors = (0..40).map(|_| framework.tensor(&[9; 33])).collect::<Result<Vec<_>, _>>()?;
    for turn in 0..3 {
        // SAFETY: the framework keeps the stream and the tensors until the call returns.
        unsafe {
            device.context().lend(framework.stream(), |lent| {
                let mut views = tensors
                    .iter()
                    .map(|tensor| lent.slice_from_raw_mut::<u32>(tensor.start(), 33))
                    .collect::<cuda_safe::Result<Vec<_>>>()?;
                views.iter_mut().zip(turn..).try_for_each(|(view, value)| view.fill(lent, value))
            })
        }?;
        for (tensor, value) in tensors.iter().zip(turn..) {
            first_difference(&tensor.read()?, &[value; 33])?;
        }
    }
    Ok(())
}
