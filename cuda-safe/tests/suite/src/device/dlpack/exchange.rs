//! The exchange table, with functions of the test in place of a framework's.

use std::cell::RefCell;
use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cuda_safe::dlpack::abi::{
    DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPackExchangeAPI, DLPackExchangeAPIHeader,
    DLPackSetError, DLPackVersion, DLTensor,
};
use cuda_safe::dlpack::{Exchange, TensorRef};
use cuda_safe::{DeviceBuffer, Result};

use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::{Framework, RawTensor};
use super::export::Given;
use super::{Made, U32};
use test_harness::programs::Basic;
use test_harness::{
    Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq, first_difference,
};

pub(super) fn cases() -> Vec<Case> {
    cases![
        "dlpack",
        device(exchange),
        device(exchange_tables_that_are_refused),
        device(allocators),
        device(allocators_that_fail),
        device(allocators_under_a_capture).serial(),
    ]
}

/// An object of the stand-in's interpreter.
struct Object {
    memory: RawTensor,
    shape: [i64; 1],
    strides: [i64; 1],
}

/// What the stand-in's functions work with: a framework has globals for that.
#[derive(Default)]
struct Globals {
    framework: Option<Framework>,
    allocated: usize,
    deleted: Arc<AtomicUsize>,
    /// How the allocator fails.
    fails: Option<Fails>,
}

#[derive(Clone, Copy, PartialEq)]
enum Fails {
    WithMessage,
    WithNull,
    Misaligned,
    OnAnotherDevice,
}

thread_local! {
    static GLOBALS: RefCell<Globals> = RefCell::default();
}

unsafe extern "C" fn current_work_stream(
    kind: DLDeviceType,
    device: i32,
    stream: *mut *mut c_void,
) -> c_int {
    let current = GLOBALS.with_borrow(|globals| globals.framework.as_ref().map(Framework::stream));
    match current {
        Some(current) if kind == DLDeviceType::CUDA && device == 0 => {
            // SAFETY: the caller's place.
            unsafe { *stream = current.cast() };
            0
        }
        _ => -1,
    }
}

unsafe extern "C" fn borrow(object: *mut c_void, tensor: *mut DLTensor) -> c_int {
    if object.is_null() {
        return -1;
    }
    // SAFETY: an object of the test, which outlives the call.
    let object = unsafe { &mut *object.cast::<Object>() };
    let mut made = Made::new(object.memory.start(), U32, &[object.shape[0]]).tensor;
    (made.shape, made.strides) = (object.shape.as_mut_ptr(), object.strides.as_mut_ptr());
    // SAFETY: the caller's place.
    unsafe { *tensor = made };
    0
}

unsafe extern "C" fn managed(
    object: *mut c_void,
    tensor: *mut *mut DLManagedTensorVersioned,
) -> c_int {
    // SAFETY: an object of the test, which outlives its tensors.
    let object = unsafe { &*object.cast::<Object>() };
    let made = Made::new(object.memory.start(), U32, &[object.shape[0]]);
    // SAFETY: the caller's place.
    unsafe { *tensor = made.versioned() };
    0
}

unsafe extern "C" fn to_object(
    tensor: *mut DLManagedTensorVersioned,
    object: *mut *mut c_void,
) -> c_int {
    // The stand-in's objects are the tensors themselves.
    // SAFETY: the caller's place.
    unsafe { *object = tensor.cast() };
    0
}

unsafe extern "C" fn allocate(
    prototype: *mut DLTensor,
    out: *mut *mut DLManagedTensorVersioned,
    error: *mut c_void,
    set_error: DLPackSetError,
) -> c_int {
    // SAFETY: the caller's prototype, of one dimension of bytes.
    let bytes = unsafe { *(*prototype).shape } as usize;
    let made = GLOBALS.with_borrow_mut(|globals| {
        let framework = globals.framework.clone();
        let framework = framework.ok_or_else(|| Failure::new("no framework runs"))?;
        if globals.fails == Some(Fails::WithMessage) {
            return Err(Failure::new("no memory today"));
        }
        let memory = framework.tensor(&vec![0xdead_beef; bytes.div_ceil(4) + 64])?;
        globals.allocated += 1;
        let start = memory.start() + if globals.fails == Some(Fails::Misaligned) { 4 } else { 0 };
        let mut made = Made::new(start, U32, &[bytes as i64]);
        if globals.fails == Some(Fails::OnAnotherDevice) {
            made.tensor.device = DLDevice { device_type: DLDeviceType::CPU, device_id: 0 };
        }
        (made.deleted, made.memory) = (globals.deleted.clone(), Some(memory));
        Ok((made, globals.fails))
    });
    match made {
        Ok((_, Some(Fails::WithNull))) => 0,
        Ok((made, _)) => {
            // SAFETY: the caller's place.
            unsafe { *out = made.versioned() };
            0
        }
        Err(failed) => {
            let text = CString::new(failed.to_string()).unwrap_or_default();
            // SAFETY: the caller's function, with its context.
            unsafe { set_error(error, c"MemoryError".as_ptr(), text.as_ptr()) };
            -1
        }
    }
}

const VERSION: DLPackVersion = DLPackVersion { major: 1, minor: 3 };

/// The table of the stand-in, for the life of the process as the header says.
fn table(change: impl FnOnce(&mut DLPackExchangeAPI)) -> *const DLPackExchangeAPI {
    let mut table = DLPackExchangeAPI {
        header: DLPackExchangeAPIHeader { version: VERSION, prev_api: std::ptr::null_mut() },
        managed_tensor_allocator: Some(allocate),
        managed_tensor_from_py_object_no_sync: Some(managed),
        managed_tensor_to_py_object_no_sync: Some(to_object),
        dltensor_from_py_object_no_sync: Some(borrow),
        current_work_stream: Some(current_work_stream),
    };
    change(&mut table);
    Box::leak(Box::new(table))
}

/// Lets the stand-in run on a stream until the result is dropped.
struct Running;

fn run_on(framework: &Framework) -> Running {
    GLOBALS.set(Globals { framework: Some(framework.clone()), ..Globals::default() });
    Running
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(GLOBALS.take());
    }
}

fn exchange(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    for framework in [Framework::new(context)?, Framework::legacy(context)] {
        let _running = run_on(&framework);
        // SAFETY: the table of the stand-in.
        let exchange = unsafe { Exchange::from_raw(table(|_| ())) }?;
        let object = |value: u32| {
            let memory = framework.tensor(&[value; 100])?;
            Ok::<_, Failure>(Object { memory, shape: [100], strides: [1] })
        };
        let (mut x, mut y) = (object(1)?, object(2)?);
        ensure_eq!(exchange.current_stream(context)?, framework.stream());
        // SAFETY: objects of the stand-in, which live until the calls return.
        let made = unsafe {
            let from = exchange.borrow((&raw mut x).cast())?;
            let to = exchange.tensor((&raw mut y).cast())?;
            for tensor in [TensorRef::from(&from), TensorRef::from(&to)] {
                ensure_eq!((tensor.shape()?, tensor.data_type()), (vec![100], U32));
                ensure_eq!(tensor.device().device_type, DLDeviceType::CUDA);
            }
            context.lend(exchange.current_stream(context)?, |lent| {
                let (from, mut to) = (lent.view::<u32>(&from)?, lent.view_mut::<u32>(&to)?);
                device.count(basic.copy(lent, (1, 64), from, &mut to, 100))?;
                device.count(basic.add(lent, (1, 64), &mut to, 100, 41))?;
                let result = DeviceBuffer::from_slice(lent, &[5_u32; 6])?;
                let tensor = result.into_dlpack(&[2, 3], cuda_safe::dlpack::Consumer::NoWait)?;
                let given = Given(tensor);
                assert_eq!(exchange.to_object(given.0)?, tensor.cast());
                Ok(given)
            })
        }?;
        first_difference(&y.memory.read()?, &[42; 100])?;
        drop(made.take()?);
        // SAFETY: the function refuses null.
        is_invalid(unsafe { exchange.borrow(std::ptr::null_mut()) }, "returned -1")?;
    }
    no_drop_errors(context)
}

fn exchange_tables_that_are_refused(device: &TestDevice) -> TestResult {
    let context = device.context();
    // SAFETY: tables of the stand-in.
    unsafe {
        is_invalid(Exchange::from_raw(std::ptr::null()), "is null")?;
        let newer = |prev: *const DLPackExchangeAPI| {
            table(|table| {
                table.header.version.major = 2;
                table.header.prev_api = prev.cast_mut().cast();
            })
        };
        is_invalid(Exchange::from_raw(newer(std::ptr::null())), "version 2.3")?;
        let older = Exchange::from_raw(newer(newer(table(|_| ()))))?;
        ensure!(older.current_stream(context).is_err(), "no framework runs");
        let empty = Exchange::from_raw(table(|table| {
            table.managed_tensor_allocator = None;
            table.managed_tensor_from_py_object_no_sync = None;
            table.managed_tensor_to_py_object_no_sync = None;
            table.dltensor_from_py_object_no_sync = None;
            table.current_work_stream = None;
        }))?;
        let null = std::ptr::null_mut();
        is_invalid(empty.current_stream(context), "no function current_work_stream")?;
        is_invalid(empty.borrow(null), "no function")?;
        is_invalid(empty.tensor(null), "no function")?;
        is_invalid(empty.to_object(null.cast()), "no function")?;
        let framework = Framework::new(context)?;
        let refused: Result<()> = context.lend(framework.stream(), |lent| {
            lent.set_allocator(empty.allocator());
            DeviceBuffer::<u32>::zeroed(lent, 10).map(drop)
        });
        is_invalid(refused, "no function managed_tensor_allocator")
    }
}

/// Scratch memory and results from the framework's allocator, for the call in which it is set.
fn allocators(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    for framework in [Framework::new(context)?, Framework::legacy(context)] {
        let _running = run_on(&framework);
        let deleted = GLOBALS.with_borrow(|globals| globals.deleted.clone());
        // SAFETY: the table of the stand-in.
        let exchange = unsafe { Exchange::from_raw(table(|_| ())) }?;
        // SAFETY: the framework keeps the stream until the call returns, and the stand-in's allocator is stream-ordered.
        let kept = unsafe {
            context.lend(framework.stream(), |lent| {
                lent.set_allocator(exchange.allocator());
                let mut scratch = DeviceBuffer::<u32>::zeroed(lent, 1000)?;
                device.count(basic.add(lent, (2, 64), &mut scratch, 1000, 3))?;
                assert!(DeviceBuffer::<u32>::zeroed(lent, 0)?.is_empty());
                let kept = scratch.try_clone(lent)?;
                drop(scratch);
                Ok(kept)
            })
        }?;
        ensure_eq!(GLOBALS.with_borrow(|globals| globals.allocated), 2);
        ensure_eq!(deleted.load(Ordering::SeqCst), 1);
        let stream = device.stream()?;
        first_difference(&kept.to_vec(&stream)?, &[3; 1000])?;
        // SAFETY: as above; the next call has the crate's own pool again.
        unsafe {
            context.lend(framework.stream(), |lent| {
                drop(kept);
                DeviceBuffer::<u32>::zeroed(lent, 10).map(drop)
            })
        }?;
        ensure_eq!(GLOBALS.with_borrow(|globals| globals.allocated), 2);
        ensure_eq!(deleted.load(Ordering::SeqCst), 2);
    }
    no_drop_errors(context)
}

fn allocators_that_fail(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    let _running = run_on(&framework);
    // SAFETY: the table of the stand-in.
    let exchange = unsafe { Exchange::from_raw(table(|_| ())) }?;
    for (fails, part) in [
        (Fails::WithMessage, "no memory today"),
        (Fails::WithNull, "without a message"),
        (Fails::Misaligned, "returned the address"),
        (Fails::OnAnotherDevice, "returned the address"),
    ] {
        GLOBALS.with_borrow_mut(|globals| globals.fails = Some(fails));
        // SAFETY: as in `allocators`.
        let refused = unsafe {
            context.lend(framework.stream(), |lent| {
                lent.set_allocator(exchange.allocator());
                DeviceBuffer::<u32>::zeroed(lent, 1000).map(drop)
            })
        };
        is_invalid(refused, part)?;
    }
    let allocated =
        GLOBALS.with_borrow(|globals| (globals.allocated, globals.deleted.load(Ordering::SeqCst)));
    // The tensor that was not returned is freed by the stand-in itself.
    ensure_eq!(allocated, (3, 2));
    no_drop_errors(context)
}

/// Under a capture, memory of the framework may be written, and may outlive the call.
fn allocators_under_a_capture(device: &TestDevice) -> TestResult {
    let (context, basic) = (device.context(), Basic::of(device)?);
    let framework = Framework::new(context)?;
    let _running = run_on(&framework);
    // SAFETY: the table of the stand-in.
    let exchange = unsafe { Exchange::from_raw(table(|_| ())) }?;
    let y = framework.tensor(&[0; 1000])?;
    // The stand-in has no pool for graphs: memory is there before.
    let pool = framework.tensor(&[0; 2000])?;
    let made = Made::new(pool.start(), U32, &[1000]).take()?;
    let out = Made::new(y.start(), U32, &[1000]).leaked();
    let (mut kept, mut refused) = (None, None);
    let graph = framework.capture(|| {
        // SAFETY: as in `allocators`.
        let recorded: Result<()> = unsafe {
            context.lend(framework.stream(), |lent| {
                let mut y = lent.view_mut::<u32>(TensorRef::new(&out, false))?;
                let mut scratch = made.into_buffer::<u32>(lent)?;
                device.count(basic.fill(lent, (1, 64), &mut scratch, 1000, 6))?;
                y.copy_from(lent, &scratch)?;
                refused = Some(scratch.to_vec(lent).map(drop));
                kept = Some(scratch);
                Ok(())
            })
        };
        Ok(recorded?)
    })?;
    is_invalid(refused.unwrap_or(Ok(())), "can't be recorded")?;
    for _ in 0..2 {
        y.fill(0)?;
        graph.launch()?;
        first_difference(&y.read()?, &[6; 1000])?;
    }
    if let Some(mut kept) = kept {
        ensure!(kept.fill(&device.stream()?, 1).is_err());
        ensure!(kept.to_vec(&device.stream()?).is_err());
    }
    let _ = exchange;
    no_drop_errors(context)
}
