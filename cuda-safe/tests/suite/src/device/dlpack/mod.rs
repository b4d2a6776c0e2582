//! Tensors of other frameworks, by DLPack.

mod exchange;
mod export;
mod oracle;
mod refused;
mod second_device;

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_safe::dlpack::Tensor;
use cuda_safe::dlpack::abi::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
    DLTensor,
};
use cuda_safe::{DeviceBuffer, Result};

pub(crate) use export::Given;

use super::MS;
use super::checks::{is_invalid, no_drop_errors};
use super::framework::{Framework, RawTensor};
use test_harness::programs::{Basic, Delay};
use test_harness::{Case, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference};

pub(crate) fn cases() -> Vec<Case> {
    let mut cases = cases![
        "dlpack",
        device(views_of_tensors),
        device(rows_of_numbers),
        device(strides),
        device(every_type),
        device(empty_tensors),
        device(kept_tensors),
        device(kept_beyond_the_stream),
        device(dropped_inside_the_call),
    ];
    cases.extend(refused::cases());
    cases.extend(export::cases());
    cases.extend(exchange::cases());
    cases.extend(oracle::cases());
    cases.extend(second_device::cases());
    cases
}

pub(super) const U32: DLDataType = DLDataType { code: DLDataType::UINT, bits: 32, lanes: 1 };
pub(super) const F32: DLDataType = DLDataType { code: DLDataType::FLOAT, bits: 32, lanes: 1 };

/// What a framework knows of a tensor that it has given away.
struct Owner {
    shape: Vec<i64>,
    strides: Vec<i64>,
    deleted: Arc<AtomicUsize>,
    /// Freed with it, in its stream's order.
    memory: Option<RawTensor>,
}

/// A managed tensor of a framework, to be made.
pub(super) struct Made {
    pub(super) tensor: DLTensor,
    pub(super) shape: Vec<i64>,
    pub(super) strides: Option<Vec<i64>>,
    pub(super) flags: u64,
    pub(super) version: DLPackVersion,
    pub(super) deleted: Arc<AtomicUsize>,
    pub(super) memory: Option<RawTensor>,
}

impl Made {
    pub(super) fn new(start: u64, dtype: DLDataType, shape: &[i64]) -> Self {
        let device = DLDevice { device_type: DLDeviceType::CUDA, device_id: 0 };
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(start as usize),
            device,
            ndim: shape.len() as i32,
            dtype,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        Self {
            tensor,
            shape: shape.to_vec(),
            strides: None,
            flags: 0,
            version: DLPackVersion { major: 1, minor: 1 },
            deleted: Arc::default(),
            memory: None,
        }
    }

    pub(super) fn strided(mut self, strides: &[i64]) -> Self {
        self.strides = Some(strides.to_vec());
        self
    }

    pub(super) fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub(super) fn versioned(self) -> *mut DLManagedTensorVersioned {
        unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
            // SAFETY: made below, and deleted once.
            let tensor = unsafe { Box::from_raw(tensor) };
            // SAFETY: as above.
            let owner = unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) };
            owner.deleted.fetch_add(1, Ordering::SeqCst);
            drop(owner.memory);
        }
        let (flags, version) = (self.flags, self.version);
        let (dl_tensor, manager_ctx) = self.parts();
        let deleter = Some(delete as unsafe extern "C" fn(_));
        Box::into_raw(Box::new(DLManagedTensorVersioned {
            version,
            manager_ctx,
            deleter,
            flags,
            dl_tensor,
        }))
    }

    pub(super) fn unversioned(self) -> *mut DLManagedTensor {
        unsafe extern "C" fn delete(tensor: *mut DLManagedTensor) {
            // SAFETY: made below, and deleted once.
            let tensor = unsafe { Box::from_raw(tensor) };
            // SAFETY: as above.
            let owner = unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) };
            owner.deleted.fetch_add(1, Ordering::SeqCst);
        }
        let (dl_tensor, manager_ctx) = self.parts();
        let deleter = Some(delete as unsafe extern "C" fn(_));
        Box::into_raw(Box::new(DLManagedTensor { dl_tensor, manager_ctx, deleter }))
    }

    fn parts(self) -> (DLTensor, *mut c_void) {
        let Self { mut tensor, shape, strides, deleted, memory, .. } = self;
        let has_strides = strides.is_some();
        let strides = strides.unwrap_or_default();
        let owner = Box::into_raw(Box::new(Owner { shape, strides, deleted, memory }));
        // SAFETY: made just now; the vectors' memory does not move.
        unsafe {
            tensor.shape = (*owner).shape.as_mut_ptr();
            if has_strides {
                tensor.strides = (*owner).strides.as_mut_ptr();
            }
        }
        (tensor, owner.cast())
    }

    /// The tensor alone, of which nothing is freed.
    pub(super) fn leaked(self) -> DLTensor {
        self.parts().0
    }

    /// The tensor, as this crate takes it.
    pub(super) fn take(self) -> Result<Tensor> {
        // SAFETY: a managed tensor of a framework whose memory the tests keep, and use in the order of its stream.
        unsafe { Tensor::from_versioned(self.versioned()) }
    }
}

fn views_of_tensors(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    for len in [1, 31, 32, 33, 10_000] {
        let values: Vec<u32> = (0..len as u32).collect();
        let (x, y) = (framework.tensor(&values)?, framework.tensor(&vec![0; len])?);
        let made =
            Made::new(x.start() - 64, U32, &[len as i64]).with(|made| made.tensor.byte_offset = 64);
        let (deleted, x) = (made.deleted.clone(), made.take()?);
        ensure_eq!(x.shape()?, vec![len]);
        // SAFETY: as `take`.
        let out = unsafe {
            Tensor::from_unversioned(Made::new(y.start(), U32, &[1, len as i64]).unversioned())
        }?;
        // SAFETY: the framework keeps stream and tensors until the call returns.
        unsafe {
            context.lend(framework.stream(), |lent| {
                let (x, mut out) = (lent.view::<u32>(&x)?, lent.view_mut::<u32>(&out)?);
                device.count(basic.copy(lent, (2, 64), x, &mut out, len as u64))?;
                device.count(basic.add(lent, (2, 64), &mut out, len as u64, 5))
            })
        }?;
        let expected: Vec<u32> = values.iter().map(|value| value + 5).collect();
        first_difference(&y.read()?, &expected)?;
        ensure_eq!(deleted.load(Ordering::SeqCst), 0);
        drop(x);
        ensure_eq!(deleted.load(Ordering::SeqCst), 1);
    }
    Ok(())
}

fn rows_of_numbers(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let values: Vec<u32> = (0..30).map(|i| (i as f32).to_bits()).collect();
    let x = framework.tensor(&values)?;
    let rows = Made::new(x.start(), F32, &[10, 3]).strided(&[3, 1]).take()?;
    let complex = DLDataType { code: DLDataType::COMPLEX, bits: 64, lanes: 1 };
    let complex = Made::new(x.start(), complex, &[5, 3]).take()?;
    let batch = Made::new(x.start(), F32, &[2, 5, 3]).strided(&[15, 3, 1]).take()?;
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let (rows, complex, batch, numbers) = unsafe {
        device.context().lend(framework.stream(), |lent| {
            Ok((
                lent.view::<[f32; 3]>(&rows)?.to_vec(lent)?,
                lent.view::<[f32; 2]>(&complex)?.to_vec(lent)?,
                lent.view::<[f32; 3]>(&batch)?.to_vec(lent)?,
                lent.view::<f32>(&rows)?.to_vec(lent)?,
            ))
        })
    }?;
    ensure_eq!(rows.len(), 10);
    ensure_eq!(rows[9], [27.0, 28.0, 29.0]);
    ensure_eq!(complex.len(), 15);
    ensure_eq!(complex[14], [28.0, 29.0]);
    ensure_eq!(batch, rows);
    ensure_eq!(numbers.len(), 30);
    Ok(())
}

fn strides(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&(0..64).collect::<Vec<u32>>())?;
    // Four columns of a matrix of 8 × 8, from the third on.
    let columns = Made::new(x.start() + 8, U32, &[8, 4]).strided(&[8, 1]).take()?;
    let transposed = Made::new(x.start(), U32, &[8, 8]).strided(&[1, 8]).take()?;
    // Strides of extents of one say nothing.
    let single = Made::new(x.start(), U32, &[1, 8, 1]).strided(&[-3, 1, 77]).take()?;
    // Rows of four of eight numbers each are elements.
    let quads = Made::new(x.start(), U32, &[4, 4]).strided(&[8, 1]).take()?;
    let mut refused = Vec::new();
    // SAFETY: the framework keeps stream and tensors until the call returns.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            refused.push(lent.view::<u32>(&columns).map(drop));
            refused.push(lent.view::<u32>(&transposed).map(drop));
            refused.push(lent.view_mut::<u32>(&columns).map(drop));
            refused.push(lent.view::<[u32; 4]>(&quads).map(drop));
            let view = lent.view_strided::<u32>(&columns)?;
            assert_eq!((view.shape(), view.strides()), (&[8, 4][..], &[8, 1][..]));
            assert_eq!(view.data().len(), 7 * 8 + 4);
            let data = view.data().to_vec(lent)?;
            assert_eq!(data[3 * 8 + 2], 3 * 8 + 2 + 2);
            let view = lent.view_strided::<[u32; 4]>(&quads)?;
            assert_eq!((view.shape(), view.strides()), (&[4][..], &[2][..]));
            assert_eq!(view.data().to_vec(lent)?[6], [24, 25, 26, 27]);
            assert_eq!(lent.view::<u32>(&single)?.to_vec(lent)?, (0..8).collect::<Vec<u32>>());
            Ok(())
        })
    }?;
    for refused in refused {
        is_invalid(refused, "strides are [")?;
    }
    Ok(())
}

fn every_type(device: &TestDevice) -> TestResult {
    use half::{bf16, f16};
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&(0..64).collect::<Vec<u32>>())?;
    let of = |code, bits| Made::new(x.start(), DLDataType { code, bits, lanes: 1 }, &[8]).take();
    let tensors = [
        of(DLDataType::INT, 8)?,
        of(DLDataType::INT, 16)?,
        of(DLDataType::INT, 32)?,
        of(DLDataType::INT, 64)?,
        of(DLDataType::UINT, 8)?,
        of(DLDataType::UINT, 16)?,
        of(DLDataType::UINT, 32)?,
        of(DLDataType::UINT, 64)?,
        of(DLDataType::FLOAT, 16)?,
        of(DLDataType::BFLOAT, 16)?,
        of(DLDataType::FLOAT, 32)?,
        of(DLDataType::FLOAT, 64)?,
        of(DLDataType::BOOL, 8)?,
        of(DLDataType::COMPLEX, 64)?,
        of(DLDataType::COMPLEX, 128)?,
        of(3, 64)?,
        of(10, 8)?,
    ];
    // SAFETY: the framework keeps stream and tensors until the call returns.
    let taken = unsafe {
        device.context().lend(framework.stream(), |lent| {
            Ok(tensors
                .iter()
                .map(|tensor| {
                    macro_rules! taken {
                        ($($element:ty)+) => {[
                            $(lent.view::<$element>(tensor).is_ok_and(|view| view.len() == 8)),+
                        ]};
                    }
                    let taken =
                        taken![i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 [f32; 2] [f64; 2]];
                    (0..taken.len()).filter(|&place| taken[place]).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>())
        })
    }?;
    for (place, taken) in taken.iter().enumerate() {
        let expected = match place {
            0..12 => vec![place],
            // A boolean is a byte, and a complex number two floats.
            12 => vec![4],
            13 => vec![12],
            14 => vec![13],
            _ => vec![],
        };
        ensure_eq!(*taken, expected, "{place}");
    }
    Ok(())
}

fn empty_tensors(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let x = framework.tensor(&[7])?;
    let nothing = Made::new(0, F32, &[0, 3]).take()?;
    let huge = Made::new(0, F32, &[i64::MAX, 0]).take()?;
    let scalar = Made::new(x.start(), U32, &[]).take()?;
    let kept = Made::new(0, F32, &[0]).take()?;
    // SAFETY: the framework keeps stream and tensors until the call returns.
    unsafe {
        device.context().lend(framework.stream(), |lent| {
            assert!(lent.view::<[f32; 3]>(&nothing)?.is_empty());
            assert!(lent.view_mut::<f32>(&nothing)?.is_empty());
            assert!(lent.view::<f32>(&huge)?.to_vec(lent)?.is_empty());
            assert_eq!(lent.view::<u32>(&scalar)?.to_vec(lent)?, [7]);
            let mut kept = kept.into_buffer::<f32>(lent)?;
            kept.fill(lent, 1.0)?;
            assert!(kept.is_empty());
            Ok(())
        })
    }?;
    Ok(())
}

/// A tensor as a buffer: its deleter runs when the stream waits for all uses.
fn kept_tensors(device: &TestDevice) -> TestResult {
    let (context, delay) = (device.context(), Delay::of(device)?);
    for framework in [Framework::new(context)?, Framework::legacy(context)] {
        let x = framework.tensor(&[1; 1000])?;
        let start = x.start();
        let made = Made::new(start, U32, &[1000]).with(|made| made.memory = Some(x));
        let (deleted, tensor) = (made.deleted.clone(), made.take()?);
        // SAFETY: the framework keeps the stream until the call returns.
        let buffer = unsafe {
            context.lend(framework.stream(), |lent| {
                let mut buffer = tensor.into_buffer::<u32>(lent)?;
                device.count(delay.delayed_fill(lent, (1, 64), &mut buffer, 1000, 4, 20 * MS))?;
                Ok(buffer)
            })
        }?;
        let stream = device.stream()?;
        let mut seen = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
        device.count(delay.delayed_copy(&stream, (1, 64), &buffer, &mut seen, 1000, 20 * MS))?;
        ensure_eq!(deleted.load(Ordering::SeqCst), 0);
        // SAFETY: as above. Dropped in a call, while another stream still reads.
        unsafe {
            context.lend(framework.stream(), |_| {
                drop(buffer);
                Ok(())
            })
        }?;
        ensure_eq!(deleted.load(Ordering::SeqCst), 1);
        // The framework uses the memory again in its stream's order.
        let next = framework.tensor(&[9; 1000])?;
        next.fill(8)?;
        first_difference(&seen.to_vec(&stream)?, &[4; 1000])?;
        first_difference(&next.read()?, &[8; 1000])?;
    }
    no_drop_errors(context)
}

/// Kept, and dropped outside of calls.
fn kept_beyond_the_stream(device: &TestDevice) -> TestResult {
    let (context, delay) = (device.context(), Delay::of(device)?);
    let stream = device.stream()?;
    for legacy in [false, true] {
        let framework = if legacy { Framework::legacy(context) } else { Framework::new(context)? };
        for used in [false, true] {
            let x = framework.tensor(&[3; 100])?;
            let made = Made::new(x.start(), U32, &[100]).with(|made| made.memory = Some(x));
            let (deleted, tensor) = (made.deleted.clone(), made.take()?);
            // SAFETY: the framework keeps the stream until the call returns.
            let buffer = unsafe {
                context.lend(framework.stream(), |lent| Ok(tensor.into_buffer::<u32>(lent)?))
            }?;
            let mut seen = DeviceBuffer::<u32>::zeroed(&stream, 100)?;
            if used {
                device.count(delay.delayed_copy(
                    &stream,
                    (1, 64),
                    &buffer,
                    &mut seen,
                    100,
                    20 * MS,
                ))?;
            }
            std::thread::scope(|scope| scope.spawn(|| drop(buffer)).join().is_ok());
            let at_once = usize::from(legacy || !used);
            ensure_eq!(deleted.load(Ordering::SeqCst), at_once, "legacy {legacy}, used {used}");
            // SAFETY: as above.
            unsafe { context.lend(framework.stream(), |_| Ok(())) }?;
            ensure_eq!(deleted.load(Ordering::SeqCst), 1, "legacy {legacy}, used {used}");
            let next = framework.tensor(&[8; 100])?;
            next.fill(9)?;
            first_difference(&seen.to_vec(&stream)?, &vec![if used { 3 } else { 0 }; 100])?;
        }
    }
    // A stream that is never lent again: a wait for the device frees it.
    let framework = Framework::new(context)?;
    let kept = framework.tensor(&[3; 100])?;
    let made = Made::new(kept.start(), U32, &[100]).with(|made| made.memory = Some(kept));
    let (deleted, tensor) = (made.deleted.clone(), made.take()?);
    // SAFETY: as above.
    let buffer =
        unsafe { context.lend(framework.stream(), |lent| Ok(tensor.into_buffer::<u32>(lent)?)) }?;
    let seen = buffer.to_vec(&stream)?;
    ensure_eq!(seen, vec![3; 100]);
    drop(buffer);
    if deleted.load(Ordering::SeqCst) == 0 {
        context.free_deferred()?;
    }
    ensure_eq!(deleted.load(Ordering::SeqCst), 1);
    no_drop_errors(context)
}

/// A tensor that is dropped in the call while another stream reads it.
fn dropped_inside_the_call(device: &TestDevice) -> TestResult {
    let (context, delay) = (device.context(), Delay::of(device)?);
    let framework = Framework::new(context)?;
    let stream = device.stream()?;
    let mut seen = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
    let x = framework.tensor(&[5; 1000])?;
    let made = Made::new(x.start(), U32, &[1000]).with(|made| made.memory = Some(x));
    let (deleted, tensor) = (made.deleted.clone(), made.take()?);
    let mut refused = Ok(());
    // SAFETY: the framework keeps the stream until the call returns.
    unsafe {
        context.lend(framework.stream(), |lent| {
            let view = lent.view::<u32>(&tensor)?;
            let kept = view.allocation().clone();
            device.count(delay.delayed_copy(&stream, (1, 64), view, &mut seen, 1000, 20 * MS))?;
            drop(tensor);
            refused = kept.view::<u32>(0..400)?.to_vec(lent).map(drop);
            Ok(())
        })
    }?;
    ensure!(deleted.load(Ordering::SeqCst) == 1);
    is_invalid(refused, "has ended")?;
    let next = framework.tensor(&[9; 1000])?;
    next.fill(8)?;
    first_difference(&seen.to_vec(&stream)?, &[5; 1000])
}
