//! Tensors that are refused, before the driver is asked.

use std::sync::atomic::Ordering;

use cuda_safe::dlpack::abi::{
    DLDataType, DLDeviceType, DLPACK_FLAG_BITMASK_READ_ONLY, DLPackVersion,
};
use cuda_safe::dlpack::{Consumer, Tensor, TensorRef};
use cuda_safe::{DeviceBuffer, Result};

use super::super::checks::is_invalid;
use super::super::framework::Framework;
use super::{F32, Made, U32};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "dlpack",
        device(versions),
        device(tensors_that_are_refused),
        device(read_only),
        device(overlaps),
        device(exports_that_are_refused),
    ]
}

fn versions(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&[0; 4])?;
    for (major, minor) in [(0, 8), (2, 0), (u32::MAX, 3)] {
        let made = Made::new(x.start(), U32, &[4])
            .with(|made| made.version = DLPackVersion { major, minor });
        let deleted = made.deleted.clone();
        is_invalid(made.take(), "version")?;
        ensure_eq!(deleted.load(Ordering::SeqCst), 1, "the deleter is called nevertheless");
    }
    // A newer minor version has the same layout.
    let newer = Made::new(x.start(), U32, &[4]).with(|made| made.version.minor = 99).take()?;
    ensure_eq!(newer.shape()?, vec![4]);
    // SAFETY: refused before they are used.
    unsafe {
        is_invalid(Tensor::from_versioned(std::ptr::null_mut()), "null")?;
        is_invalid(Tensor::from_unversioned(std::ptr::null_mut()), "null")?;
    }
    // A tensor without a deleter.
    let raw = Made::new(x.start(), U32, &[4]).versioned();
    // SAFETY: a tensor made above; its deleter is put back.
    unsafe {
        let deleter = (*raw).deleter.take();
        drop(Tensor::from_versioned(raw)?);
        (*raw).deleter = deleter;
        drop(Tensor::from_versioned(raw)?);
    }
    Ok(())
}

fn tensors_that_are_refused(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&[0; 64])?;
    let start = x.start();
    let of = |code, bits, lanes| Made::new(start, DLDataType { code, bits, lanes }, &[4]);
    let with = |change: fn(&mut Made)| Made::new(start, U32, &[4]).with(change);
    let cases: Vec<(Made, &str)> = vec![
        (with(|made| made.tensor.device.device_type = DLDeviceType::CPU), "memory of the host"),
        (with(|made| made.tensor.device.device_type = DLDeviceType(10)), "type 10"),
        (with(|made| made.tensor.device.device_id = 7), "device 7"),
        (with(|made| made.tensor.device.device_id = -1), "device -1"),
        (of(DLDataType::UINT, 64, 1), "uint64"),
        (of(DLDataType::INT, 32, 1), "int32"),
        (of(DLDataType::UINT, 32, 4), "4 lanes"),
        (of(DLDataType::UINT, 32, 0), "0 lanes"),
        (of(DLDataType::BOOL, 8, 1), "bool8"),
        (of(200, 32, 1), "code 200"),
        (with(|made| made.tensor.ndim = -1), "-1 dimensions"),
        (with(|made| made.tensor.ndim = 65), "65 dimensions"),
        (Made::new(start, U32, &[-1]), "negative: -1"),
        (Made::new(start, U32, &[4]).strided(&[-1]), "negative"),
        (Made::new(start, U32, &[4]).strided(&[2]), "strides are [2]"),
        (Made::new(start, U32, &[i64::MAX, i64::MAX]), "larger than memory"),
        (Made::new(start, U32, &[i64::MAX]), "larger than memory"),
        (Made::new(start, U32, &[2, 2]).strided(&[i64::MAX, i64::MAX]), "memory"),
        (Made::new(0, U32, &[4]), "is null"),
        (with(|made| made.tensor.byte_offset = u64::MAX), "larger than memory"),
        (with(|made| made.tensor.byte_offset = 2), "not aligned"),
    ];
    for (made, part) in cases {
        let deleted = made.deleted.clone();
        let tensor = made.take()?;
        // SAFETY: the framework keeps stream and tensors until the call returns.
        let outcome: [Result<()>; 3] = unsafe {
            device.context().lend(framework.stream(), |lent| {
                Ok([
                    lent.view::<u32>(&tensor).map(drop),
                    lent.view_mut::<u32>(&tensor).map(drop),
                    tensor
                        .into_buffer::<u32>(lent)
                        .map(drop)
                        .map_err(|refused| refused.into_parts().1),
                ])
            })
        }?;
        for outcome in outcome {
            is_invalid(outcome, part)?;
        }
        ensure_eq!(deleted.load(Ordering::SeqCst), 1, "{part}");
    }
    // Shapes that do not fit arrays, and a shape that is missing.
    let wide = Made::new(start, F32, &[4, 4]).take()?;
    let scalar = Made::new(start, F32, &[]).take()?;
    let mut broken = Made::new(start, F32, &[4]).leaked();
    broken.shape = std::ptr::null_mut();
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let outcomes = unsafe {
        device.context().lend(framework.stream(), |lent| {
            Ok([
                (lent.view::<[f32; 3]>(&wide).map(drop), "must be 3"),
                (lent.view::<[f32; 3]>(&scalar).map(drop), "must be 3"),
                (lent.view::<f32>(TensorRef::new(&broken, false)).map(drop), "is null"),
            ])
        })
    }?;
    for (outcome, part) in outcomes {
        is_invalid(outcome, part)?;
    }
    // The context is as before.
    DeviceBuffer::<u32>::zeroed(&device.stream()?, 10)?;
    Ok(())
}

fn read_only(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&[3; 4])?;
    let made =
        Made::new(x.start(), U32, &[4]).with(|made| made.flags = DLPACK_FLAG_BITMASK_READ_ONLY);
    let tensor = made.take()?;
    ensure!(tensor.is_read_only());
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let (values, refused, kept) = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let refused = lent.view_mut::<u32>(&tensor).map(drop);
            let values = lent.view::<u32>(&tensor)?.to_vec(lent)?;
            let kept =
                tensor.into_buffer::<u32>(lent).map(drop).map_err(|refused| refused.into_parts().1);
            Ok((values, refused, kept))
        })
    }?;
    ensure_eq!(values, [3; 4]);
    is_invalid(refused, "read-only")?;
    is_invalid(kept, "read-only")
}

fn overlaps(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&[3; 64])?;
    let first = Made::new(x.start(), U32, &[32]).take()?;
    let second = Made::new(x.start() + 31 * 4, U32, &[2]).take()?;
    let spread = Made::new(x.start() + 40 * 4, U32, &[3]).strided(&[8]).take()?;
    let between = Made::new(x.start() + 41 * 4, U32, &[2]).take()?;
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let outcomes = unsafe {
        device.context().lend(framework.stream(), |lent| {
            let _first = lent.view_mut::<u32>(&first)?;
            let _spread = lent.view_strided::<u32>(&spread)?;
            Ok([
                lent.view::<u32>(&first).map(drop),
                lent.view::<u32>(&second).map(drop),
                lent.view_mut::<u32>(&second).map(drop),
                lent.view_mut::<u32>(&between).map(drop),
                second.into_buffer::<u32>(lent).map(drop).map_err(|refused| refused.into_parts().1),
            ])
        })
    }?;
    outcomes.into_iter().try_for_each(|outcome| is_invalid(outcome, "overlaps"))
}

fn exports_that_are_refused(device: &TestDevice) -> TestResult {
    let stream = device.stream()?;
    for stream in [0, -2, i64::MIN] {
        // SAFETY: refused.
        is_invalid(unsafe { Consumer::from_raw(stream) }, "names no stream")?;
    }
    let buffer = DeviceBuffer::from_slice(&stream, &[[1.0_f32, 2.0, 3.0]; 4])?;
    let mut buffer = Some(buffer);
    for shape in [&[4][..], &[3, 4, 2], &[], &[usize::MAX, 3], &[1 << 63, 2], &[12; 70]] {
        if let Some(whole) = buffer.take() {
            match whole.into_dlpack(shape, Consumer::NoWait) {
                Ok(_) => ensure!(false, "{shape:?} was taken"),
                Err(refused) => {
                    let (whole, error) = refused.into_parts();
                    ensure!(error.code().is_none(), "{shape:?}: {error}");
                    buffer = Some(whole);
                }
            }
        }
    }
    let Some(whole) = buffer else { return Ok(()) };
    let held = whole.allocation().clone();
    let refused = whole.into_dlpack(&[4, 3], Consumer::NoWait).map(drop);
    ensure!(refused.is_err_and(|refused| refused.to_string().contains("still in use")));
    drop(held);
    let graph = device.context().capture((), |stream, ()| {
        let buffer = DeviceBuffer::<f32>::zeroed(stream, 4)?;
        let refused = buffer.into_dlpack(&[4], Consumer::NoWait).map(drop);
        assert!(refused.is_err());
        Ok(())
    })?;
    drop(graph);
    Ok(())
}
