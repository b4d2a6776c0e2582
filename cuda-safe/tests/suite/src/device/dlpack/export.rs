//! Buffers that are given to a framework.

use std::thread;

use cuda_safe::DeviceBuffer;
use cuda_safe::dlpack::abi::{DLDataType, DLDeviceType, DLManagedTensorVersioned};
use cuda_safe::dlpack::{Consumer, Tensor};
use cuda_safe::sys::CUstreamCaptureMode;

use super::super::MS;
use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::{Framework, success};
use test_harness::programs::Delay;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "dlpack",
        device(round_trips),
        device(consumers_wait),
        device(deleted_behind_the_consumers_work).serial(),
        device(deleted_while_captures_run).serial(),
        device(consumers_that_capture).serial(),
        device(exported_from_a_call),
        device(a_tensor_passed_on),
    ]
}

/// An exported tensor, which its consumer deletes.
pub(crate) struct Given(pub(crate) *mut DLManagedTensorVersioned);

// SAFETY: deleters may be called by any thread.
unsafe impl Send for Given {}

impl Given {
    fn start(&self) -> u64 {
        // SAFETY: the tensor is live.
        unsafe { (*self.0).dl_tensor.data.addr() as u64 }
    }

    /// The tensor, as this crate takes it.
    pub(super) fn take(self) -> cuda_safe::Result<Tensor> {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: a managed tensor, whose memory the tests use in the order of the stream that they lend.
        unsafe { Tensor::from_versioned(this.0) }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        // SAFETY: the tensor is live, and deleted once.
        unsafe {
            if let Some(deleter) = (*self.0).deleter {
                deleter(self.0);
            }
        }
    }
}

fn round_trips(device: &TestDevice) -> TestResult {
    let context = device.context();
    let (stream, framework) = (device.stream()?, Framework::new(context)?);
    for rows in [0_usize, 1, 33, 1000] {
        let values: Vec<[f32; 3]> = (0..rows).map(|i| [i as f32, 0.5, -1.0]).collect();
        let buffer = DeviceBuffer::from_slice(&stream, &values)?;
        // SAFETY: the framework keeps the stream.
        let consumer = unsafe { Consumer::from_raw(framework.stream().addr() as i64) }?;
        let given = Given(buffer.into_dlpack(&[rows, 3], consumer)?);
        // SAFETY: a live tensor.
        let view = unsafe { (*given.0).dl_tensor };
        ensure_eq!(
            (view.ndim, view.device.device_type, view.device.device_id),
            (2, DLDeviceType::CUDA, 0)
        );
        ensure_eq!(view.dtype, DLDataType { code: DLDataType::FLOAT, bits: 32, lanes: 1 });
        // SAFETY: as above, arrays of two.
        let (shape, strides) = unsafe {
            (std::slice::from_raw_parts(view.shape, 2), std::slice::from_raw_parts(view.strides, 2))
        };
        ensure_eq!((shape, strides), (&[rows as i64, 3][..], &[3, 1][..]));
        ensure_eq!(view.data.is_null(), rows == 0);
        let tensor = given.take()?;
        // SAFETY: as above.
        let back = unsafe {
            context.lend(framework.stream(), |lent| lent.view::<[f32; 3]>(&tensor)?.to_vec(lent))
        }?;
        ensure_eq!(back, values);
        drop(tensor);
        let buffer = DeviceBuffer::from_slice(&stream, &values)?;
        let raw = buffer.into_dlpack_unversioned(&[rows * 3], Consumer::Legacy)?;
        // SAFETY: a managed tensor.
        let tensor = unsafe { Tensor::from_unversioned(raw) }?;
        ensure_eq!(tensor.shape()?, vec![rows * 3]);
    }
    no_drop_errors(context)
}

/// The consumer's stream waits for the work that writes the buffer, on every stream.
fn consumers_wait(device: &TestDevice) -> TestResult {
    let (context, delay) = (device.context(), Delay::of(device)?);
    let framework = Framework::new(context)?;
    let legacy = Framework::legacy(context);
    for consumer in [&framework, &legacy] {
        let (home, other) = (device.stream()?, device.stream()?);
        let mut buffer = DeviceBuffer::<u32>::zeroed(&home, 1000)?;
        device.count(delay.delayed_fill(&other, (1, 64), &mut buffer, 1000, 6, 20 * MS))?;
        // SAFETY: the stream is live.
        let to = unsafe { Consumer::from_raw(consumer.stream().addr() as i64) }?;
        let given = Given(buffer.into_dlpack(&[1000], to)?);
        let start = given.start();
        let copy = consumer.tensor(&[0; 1000])?;
        consumer.bound(|| {
            // SAFETY: both have 1000 words; the consumer's stream waits for the writer.
            let copied = unsafe {
                consumer.sys().cuMemcpyDtoDAsync_v2(copy.start(), start, 4000, consumer.stream())
            };
            success("cuMemcpyDtoDAsync", copied)
        })?;
        first_difference(&copy.read()?, &[6; 1000])?;
        drop(given);
    }
    no_drop_errors(context)
}

/// What the consumer has enqueued on streams that nobody here knows is done before the memory is used again.
fn deleted_behind_the_consumers_work(device: &TestDevice) -> TestResult {
    let (context, delay) = (device.context(), Delay::of(device)?);
    let framework = Framework::new(context)?;
    let stream = device.stream()?;
    for other_thread in [false, true] {
        let buffer = DeviceBuffer::from_slice(&stream, &[3_u32; 1000])?;
        // SAFETY: the stream is live.
        let consumer = unsafe { Consumer::from_raw(framework.stream().addr() as i64) }?;
        let given = Given(buffer.into_dlpack(&[1000], consumer)?);
        let start = given.start();
        let copy = framework.tensor(&[0; 1000])?;
        // The consumer reads it slowly, on its stream.
        let (basic_sys, bytes) = (framework.sys(), 4000);
        // SAFETY: the framework keeps its stream.
        unsafe {
            context
                .lend(framework.stream(), |lent| device.count(delay.delay(lent, (1, 1), 50 * MS)))
        }?;
        framework.bound(|| {
            // SAFETY: both have 1000 words.
            let copied = unsafe {
                basic_sys.cuMemcpyDtoDAsync_v2(copy.start(), start, bytes, framework.stream())
            };
            success("cuMemcpyDtoDAsync", copied)
        })?;
        match other_thread {
            false => drop(given),
            true => {
                let joined = thread::spawn(move || drop(given)).join();
                joined.map_err(|_| Failure::new("the deleter has panicked"))?;
            }
        }
        // Memory that is allocated now is not that which is still read.
        let mut others = Vec::new();
        for _ in 0..4 {
            let mut other = DeviceBuffer::<u32>::zeroed(&stream, 1000)?;
            other.fill(&stream, 77)?;
            others.push(other);
        }
        first_difference(&copy.read()?, &[3; 1000])?;
        stream.synchronize()?;
    }
    no_drop_errors(context)
}

/// While a graph is captured, the free is deferred, since an event of the context would spoil the capture.
fn deleted_while_captures_run(device: &TestDevice) -> TestResult {
    let context = device.context();
    let stream = device.stream()?;
    context.free_deferred()?;
    let export = || {
        let buffer = DeviceBuffer::from_slice(&stream, &[3_u32; 1000])?;
        Ok::<_, Failure>(Given(buffer.into_dlpack(&[1000], Consumer::NoWait)?))
    };
    let given = export()?;
    let graph = context.capture((), |_, ()| {
        drop(given);
        Ok(())
    })?;
    drop(graph);
    ensure_eq!(context.stats().deferred_frees, 1);
    context.free_deferred()?;
    // A capture of the framework, in which a call was made.
    let framework = Framework::new(context)?;
    let given = export()?;
    framework.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    // SAFETY: the framework keeps its stream.
    let lent = unsafe { context.lend(framework.stream(), |_| Ok(())) };
    drop(given);
    let captures = framework.captures();
    let graph = framework.end_capture();
    lent?;
    ensure!(captures?, "the capture goes on");
    drop(graph?);
    ensure_eq!(context.stats().deferred_frees, 1);
    // SAFETY: as above.
    unsafe { context.lend(framework.stream(), |_| Ok(())) }?;
    context.free_deferred()?;
    drop(export()?);
    ensure_eq!(context.stats().deferred_frees, 0);
    no_drop_errors(context)
}

fn consumers_that_capture(device: &TestDevice) -> TestResult {
    let framework = Framework::new(device.context())?;
    let stream = device.stream()?;
    let buffer = DeviceBuffer::from_slice(&stream, &[3_u32; 1000])?;
    // SAFETY: the stream is live.
    let consumer = unsafe { Consumer::from_raw(framework.stream().addr() as i64) }?;
    framework.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED)?;
    let refused = buffer.into_dlpack(&[1000], consumer).map(Given);
    let captures = framework.captures();
    let graph = framework.end_capture();
    ensure!(captures?, "the capture goes on");
    drop(graph?);
    is_invalid(refused.map_err(|refused| refused.into_parts().1), "being captured")
}

/// A result that was made on the framework's stream.
fn exported_from_a_call(device: &TestDevice) -> TestResult {
    let context = device.context();
    for framework in [Framework::new(context)?, Framework::legacy(context)] {
        // SAFETY: the framework keeps the stream until the call returns.
        let given = unsafe {
            context.lend(framework.stream(), |lent| {
                let buffer = DeviceBuffer::from_slice(lent, &[4_u32; 100])?;
                let consumer = Consumer::from_raw(framework.stream().addr() as i64)?;
                Ok(Given(buffer.into_dlpack(&[10, 10], consumer)?))
            })
        }?;
        let tensor = given.take()?;
        // SAFETY: as above.
        let values = unsafe {
            context.lend(framework.stream(), |lent| lent.view::<u32>(&tensor)?.to_vec(lent))
        }?;
        ensure_eq!(values, vec![4; 100]);
        // The deleter runs after the stream is gone.
        drop(framework);
        drop(tensor);
    }
    no_drop_errors(context)
}

/// A framework's tensor that was kept goes back to it: its own deleter runs.
fn a_tensor_passed_on(device: &TestDevice) -> TestResult {
    use std::sync::atomic::Ordering;

    let context = device.context();
    let framework = Framework::new(context)?;
    let x = framework.tensor(&[1; 100])?;
    let made = super::Made::new(x.start(), super::U32, &[100]).with(|made| made.memory = Some(x));
    let (deleted, tensor) = (made.deleted.clone(), made.take()?);
    // SAFETY: the framework keeps the stream until the call returns.
    let given = unsafe {
        context.lend(framework.stream(), |lent| {
            let mut buffer = tensor.into_buffer::<u32>(lent)?;
            buffer.fill(lent, 9)?;
            Ok(Given(buffer.into_dlpack(&[100], Consumer::NoWait)?))
        })
    }?;
    ensure_eq!(deleted.load(Ordering::SeqCst), 0);
    drop(given);
    ensure_eq!(deleted.load(Ordering::SeqCst), 1);
    no_drop_errors(context)
}
