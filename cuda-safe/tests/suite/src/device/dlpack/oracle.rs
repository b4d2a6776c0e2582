//! Round trips with the crate `dlpark`, whose ABI comes from `dlpack.h` by bindgen: an oracle of layout and ownership.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cuda_safe::dlpack::abi as ours;
use cuda_safe::dlpack::{Consumer, Tensor};
use cuda_safe::{DeviceBuffer, Pool};
use dlpark::ffi as theirs;
use dlpark::metadata::Fixed;
use dlpark::{DlpackFlags, legacy, versioned};

use super::super::checks::{is_invalid, no_drop_errors};
use super::super::framework::{Framework, RawTensor};
use test_harness::{Case, Failure, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(super) fn cases() -> Vec<Case> {
    cases!["dlpack::oracle", device(layouts), device(exported), device(imported), device(refused),]
}

/// Both sides of the ABI have the same structures.
fn layouts(_: &TestDevice) -> TestResult {
    macro_rules! same {
        ($($name:ident { $($field:ident),* })*) => {$(
            ensure_eq!(
                (size_of::<ours::$name>(), align_of::<ours::$name>()),
                (size_of::<theirs::$name>(), align_of::<theirs::$name>()),
                stringify!($name)
            );
            $(ensure_eq!(
                std::mem::offset_of!(ours::$name, $field),
                std::mem::offset_of!(theirs::$name, $field),
                concat!(stringify!($name), "::", stringify!($field))
            );)*
        )*};
    }
    same! {
        DLPackVersion { major, minor }
        DLDevice { device_type, device_id }
        DLDataType { code, bits, lanes }
        DLTensor { data, device, ndim, dtype, shape, strides, byte_offset }
        DLManagedTensor { dl_tensor, manager_ctx, deleter }
        DLManagedTensorVersioned { version, manager_ctx, deleter, flags, dl_tensor }
        DLPackExchangeAPIHeader { version, prev_api }
        DLPackExchangeAPI {
            header, managed_tensor_allocator, managed_tensor_from_py_object_no_sync,
            managed_tensor_to_py_object_no_sync, dltensor_from_py_object_no_sync, current_work_stream
        }
    }
    let version = theirs::DLPackVersion::CURRENT;
    ensure_eq!(
        (ours::DLPACK_MAJOR_VERSION, ours::DLPACK_MINOR_VERSION),
        (version.major, version.minor)
    );
    ensure_eq!(ours::DLPACK_FLAG_BITMASK_READ_ONLY, DlpackFlags::READ_ONLY.bits());
    Ok(())
}

/// What the oracle says of an exported tensor of `rows` times 3 floats.
fn judge(tensor: &dlpark::TensorRef<'_>, rows: usize, start: u64) -> TestResult {
    ensure_eq!(tensor.shape(), &[rows as i64, 3][..]);
    ensure_eq!(tensor.strides(), Some(&[3, 1][..]));
    ensure!(tensor.is_compact()?, "the strides are compact");
    ensure_eq!(tensor.num_bytes(), rows * 12);
    ensure_eq!(tensor.byte_offset(), 0);
    ensure_eq!(tensor.data_ptr().addr() as u64, start);
    ensure_eq!(tensor.device(), theirs::DLDevice::cuda(0));
    let dtype = tensor.dtype();
    ensure_eq!((dtype.code, dtype.bits, dtype.lanes), (theirs::DLDataTypeCode::FLOAT, 32, 1));
    Ok(())
}

/// The oracle validates our tensors, passes them on, and deletes them on another thread.
fn exported(device: &TestDevice) -> TestResult {
    let context = device.context();
    let (stream, framework) = (device.stream()?, Framework::new(context)?);
    let pool = Pool::new(context)?;
    for rows in [0_usize, 1, 33, 1000] {
        let values: Vec<[f32; 3]> = (0..rows).map(|i| [i as f32, 0.5, -1.0]).collect();
        let buffer = || DeviceBuffer::from_slice_in(&pool, &stream, &values);
        let (new, old) = (buffer()?, buffer()?);
        let (new_start, old_start) = (new.device_ptr(), old.device_ptr());

        // SAFETY: the framework keeps its stream.
        let consumer = unsafe { Consumer::from_raw(framework.stream().addr() as i64) }?;
        let raw = new.into_dlpack(&[rows, 3], consumer)?;
        // SAFETY: a managed tensor of DLPack 1, which is given away; the layouts are compared above.
        let tensor = unsafe { versioned::Dlpack::from_raw(raw.cast()) }?;
        ensure_eq!(tensor.version(), theirs::DLPackVersion { major: 1, minor: 3 });
        ensure_eq!(tensor.flags(), DlpackFlags::empty());
        judge(&tensor.validate_export()?, rows, new_start)?;
        // SAFETY: the oracle gives it back.
        let back = unsafe { Tensor::from_versioned(tensor.into_raw().cast()) }?;
        // SAFETY: the framework keeps its stream until the call returns, and the export has waited for the writer.
        let seen = unsafe {
            context.lend(framework.stream(), |lent| lent.view::<[f32; 3]>(&back)?.to_vec(lent))
        };
        drop(back);
        ensure_eq!(seen?, values);

        let raw = old.into_dlpack_unversioned(&[rows, 3], Consumer::NoWait)?;
        // SAFETY: as above, of the ABI before DLPack 1.
        let tensor = unsafe { legacy::Dlpack::from_raw(raw.cast()) }?;
        judge(&tensor.validate_export()?, rows, old_start)?;
        let joined = thread::spawn(move || drop(tensor)).join();
        joined.map_err(|_| Failure::new("the deleter has panicked"))?;
    }
    context.synchronize()?;
    context.free_deferred()?;
    ensure_eq!(pool.used_bytes()?, 0, "all is deleted");
    pool.close()?;
    no_drop_errors(context)
}

/// What a tensor of the oracle owns.
struct Owner {
    memory: RawTensor,
    deleted: Arc<AtomicUsize>,
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.deleted.fetch_add(1, Ordering::SeqCst);
    }
}

/// Returns a tensor of 2 × `len / 2` words that the oracle has made, and the count of its deletions.
fn made<M: dlpark::ManagedTensorBase>(
    memory: RawTensor,
    len: usize,
    device: theirs::DLDevice,
) -> Result<(dlpark::Managed<M>, Arc<AtomicUsize>), Failure> {
    let deleted = Arc::<AtomicUsize>::default();
    let owner = Box::new(Owner { memory, deleted: deleted.clone() });
    let start = owner.memory.start();
    let half = len as i64 / 2;
    let mut made = Fixed::new([2, half], [half, 1]).initialize_as::<M>(owner)?;
    // The base lies before the data.
    made.set_data(std::ptr::with_exposed_provenance_mut(start as usize - 256))
        .set_byte_offset(256)
        .set_dtype(theirs::DLDataType { code: theirs::DLDataTypeCode::UINT, bits: 32, lanes: 1 })
        .set_device(device);
    // SAFETY: the owner keeps the memory, of which the tensor says the truth.
    Ok((unsafe { made.finish() }, deleted))
}

const CUDA: theirs::DLDevice = theirs::DLDevice::cuda(0);

/// Tensors of the oracle are viewed, kept, and deleted once.
fn imported(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    for len in [2_usize, 64, 1000] {
        let values: Vec<u32> = (0..len as u32).collect();
        for (old, keeps) in [(false, false), (false, true), (true, false), (true, true)] {
            let memory = framework.tensor(&values)?;
            let (tensor, deleted) = if old {
                let (made, deleted) = made::<theirs::DLManagedTensor>(memory, len, CUDA)?;
                // SAFETY: a managed tensor, whose memory is used in the order of the framework's stream.
                (unsafe { Tensor::from_unversioned(made.into_raw().cast()) }?, deleted)
            } else {
                let (made, deleted) = made::<theirs::DLManagedTensorVersioned>(memory, len, CUDA)?;
                // SAFETY: as above.
                (unsafe { Tensor::from_versioned(made.into_raw().cast()) }?, deleted)
            };
            ensure_eq!(tensor.shape()?, vec![2, len / 2]);
            // SAFETY: the framework keeps the stream until the call returns.
            let seen = unsafe {
                context.lend(framework.stream(), |lent| {
                    if keeps {
                        return tensor.into_buffer::<u32>(lent)?.to_vec(lent);
                    }
                    lent.view_mut::<u32>(&tensor)?.fill(lent, 7)?;
                    let seen = lent.view::<u32>(&tensor).map(drop);
                    assert!(seen.is_err(), "the tensor is written in this call");
                    assert_eq!(deleted.load(Ordering::SeqCst), 0);
                    drop(tensor);
                    Ok(values.clone())
                })
            }?;
            ensure_eq!(seen, values);
            ensure_eq!(deleted.load(Ordering::SeqCst), 1, "old {old}, kept {keeps}");
        }
    }
    no_drop_errors(context)
}

/// Tensors of the oracle that may not be written, or are memory of the host: refused, and deleted once.
fn refused(device: &TestDevice) -> TestResult {
    let context = device.context();
    let framework = Framework::new(context)?;
    for (place, read_only) in [(theirs::DLDevice::CPU, false), (CUDA, true)] {
        let memory = framework.tensor(&[1; 8])?;
        let (mut made, deleted) = made::<theirs::DLManagedTensorVersioned>(memory, 8, place)?;
        if read_only {
            // SAFETY: it forbids more than before.
            *unsafe { made.flags_mut() } = DlpackFlags::READ_ONLY;
        }
        // SAFETY: as in `imported`.
        let tensor = unsafe { Tensor::from_versioned(made.into_raw().cast()) }?;
        ensure_eq!(tensor.is_read_only(), read_only);
        // SAFETY: as there.
        let outcome = unsafe {
            context.lend(framework.stream(), |lent| lent.view_mut::<u32>(&tensor).map(drop))
        };
        is_invalid(outcome, if read_only { "read-only" } else { "memory of the host" })?;
        ensure_eq!(deleted.load(Ordering::SeqCst), 0);
        drop(tensor);
        ensure_eq!(deleted.load(Ordering::SeqCst), 1);
    }
    no_drop_errors(context)
}
