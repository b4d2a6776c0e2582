//! Buffers of this crate as tensors for other code.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_sys::{CU_STREAM_LEGACY, CU_STREAM_PER_THREAD, CUresult, CUstream, CUstreamCaptureStatus};

use super::abi::{
    DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION,
    DLPACK_MINOR_VERSION, DLPackVersion, DLTensor,
};
use super::element::TensorElement;
use super::tensor::Raw;
use crate::caller::forked;
use crate::consume::ConsumeError;
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::memory::{Allocation, DeviceBuffer};
use crate::quiet::quietly;

/// The stream of the code that takes a tensor: it waits for the work that writes the tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consumer {
    /// No stream waits: the consumer orders its work by other means (−1).
    NoWait,
    /// The legacy stream of the buffer's context (1).
    Legacy,
    /// The per-thread stream of the calling thread (2).
    PerThread,
    /// A stream; from [`Consumer::from_raw`].
    #[non_exhaustive]
    Handle(CUstream),
}

impl Consumer {
    /// Returns what the argument `stream` of the array API's `__dlpack__` means: −1 for no wait, 1, 2, or a handle.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for 0, which is ambiguous, and for other numbers below −1.
    ///
    /// # Safety
    /// A number greater than 2 is the handle of a stream, of any context of the driver, that is live while the
    /// consumer is used.
    pub unsafe fn from_raw(stream: i64) -> Result<Self> {
        match stream {
            -1 => Ok(Self::NoWait),
            1 => Ok(Self::Legacy),
            2 => Ok(Self::PerThread),
            3.. => Ok(Self::Handle(std::ptr::without_provenance_mut(stream as usize))),
            _ => Err(Error::invalid(format!(
                "{stream} names no stream of a consumer: -1 is none, 1 the legacy stream, 2 the per-thread stream"
            ))),
        }
    }
}

/// What the deleter of an exported tensor frees.
struct Exported<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    memory: Arc<Allocation>,
}

impl<M> Exported<M> {
    /// Leaks it, for the deleter to free, and returns the managed tensor, which points to the rest. `parts` returns the
    /// tensor's pointer to what the deleter frees, and the tensor itself.
    fn leak(self, parts: impl FnOnce(&mut M) -> (&mut *mut c_void, &mut DLTensor)) -> *mut M {
        let exported = Box::into_raw(Box::new(self));
        // SAFETY: leaked just now, so it is live and nothing else refers to it.
        let Self { managed, shape, strides, .. } = unsafe { &mut *exported };
        let (context, tensor) = parts(managed);
        *context = exported.cast();
        tensor.shape = shape.as_mut_ptr();
        tensor.strides = strides.as_mut_ptr();
        // SAFETY: as above.
        unsafe { &raw mut (*exported).managed }
    }
}

/// The parts of a tensor to be exported: the tensor without extents and strides, these, and its memory.
type Parts = (DLTensor, Vec<i64>, Vec<i64>, Arc<Allocation>);

impl<T: TensorElement> DeviceBuffer<T> {
    /// Gives the buffer to other code, as a managed tensor of DLPack 1 with this shape, in numbers: the elements of
    /// arrays are the last dimension. The consumer's stream waits for the work that uses the buffer.
    ///
    /// The consumer frees the buffer by the tensor's deleter, which any thread may call at any time, and which does not
    /// wait: the memory is used again when all work that the buffer's context has enqueued by then is done
    /// (`cuCtxRecordEvent`). On drivers before 12.5, and while a graph is captured in the context,
    /// [`Context::free_deferred`](crate::Context::free_deferred) frees it.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, Result, dlpack::{Consumer, abi::DLManagedTensorVersioned}};
    /// # fn export(points: DeviceBuffer<[f32; 3]>) -> Result<*mut DLManagedTensorVersioned> {
    /// let n = points.len();
    /// Ok(points.into_dlpack(&[n, 3], Consumer::Legacy)?)
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error holds the buffer and names the reason: the shape has another number of elements, another handle to the
    /// memory exists (graphs are handles too), the buffer was made in a capture, the consumer's stream is captured, or
    /// what the driver returned.
    pub fn into_dlpack(
        self,
        shape: &[usize],
        consumer: Consumer,
    ) -> Result<*mut DLManagedTensorVersioned, ConsumeError<Self>> {
        let (tensor, shape, strides, memory) = self.export(shape, consumer)?;
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: DLPACK_MAJOR_VERSION, minor: DLPACK_MINOR_VERSION },
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags: 0,
            dl_tensor: tensor,
        };
        let exported = Exported { managed, shape, strides, memory };
        Ok(exported.leak(|tensor| (&mut tensor.manager_ctx, &mut tensor.dl_tensor)))
    }

    /// As [`into_dlpack`](Self::into_dlpack), with the ABI before DLPack 1.0, for consumers that know no other.
    ///
    /// # Errors
    /// As [`into_dlpack`](Self::into_dlpack).
    pub fn into_dlpack_unversioned(
        self,
        shape: &[usize],
        consumer: Consumer,
    ) -> Result<*mut DLManagedTensor, ConsumeError<Self>> {
        let (dl_tensor, shape, strides, memory) = self.export(shape, consumer)?;
        let managed = DLManagedTensor {
            dl_tensor,
            manager_ctx: std::ptr::null_mut(),
            deleter: Some(delete_unversioned),
        };
        let exported = Exported { managed, shape, strides, memory };
        Ok(exported.leak(|tensor| (&mut tensor.manager_ctx, &mut tensor.dl_tensor)))
    }

    /// Makes the consumer's stream wait, and takes the buffer apart.
    fn export(mut self, shape: &[usize], consumer: Consumer) -> Result<Parts, ConsumeError<Self>> {
        let prepared = layout(shape, self.len(), T::COMPONENTS).and_then(|layout| {
            self.home_stream().inner().state().usable()?;
            self.is_only_handle()?;
            let inner = self.home_stream().inner();
            inner.not_capturing("DeviceBuffer::into_dlpack")?;
            await_uses(self.allocation(), &inner.context, consumer)?;
            Ok(layout)
        });
        let (shape, strides) = match prepared {
            Ok(layout) => layout,
            Err(error) => return Err(ConsumeError::new(self, error)),
        };
        let ordinal = self.home_stream().context().device().ordinal();
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(self.device_ptr() as usize),
            device: DLDevice {
                device_type: DLDeviceType::CUDA,
                device_id: i32::try_from(ordinal).unwrap_or(i32::MAX),
            },
            ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
            dtype: T::SCALAR,
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        Ok((tensor, shape, strides, self.into_allocation()))
    }
}

/// Returns extents and compact strides.
fn layout(shape: &[usize], len: usize, components: usize) -> Result<(Vec<i64>, Vec<i64>)> {
    let wrong = || {
        Error::invalid(format!(
            "a buffer of {len} elements of {components} numbers is no tensor of the shape {shape:?}"
        ))
    };
    if shape.len() > 64 {
        return Err(Error::invalid(format!("a tensor can't have {} dimensions", shape.len())));
    }
    let product = shape.iter().try_fold(1_usize, |all, extent| all.checked_mul(*extent));
    if product.is_none() || product != len.checked_mul(components) {
        return Err(wrong());
    }
    let mut strides = vec![0_i64; shape.len()];
    let mut next = 1_i64;
    for (stride, extent) in strides.iter_mut().zip(shape).rev() {
        *stride = next;
        let extent = i64::try_from(*extent).map_err(|_| wrong())?;
        next = next.checked_mul(extent.max(1)).ok_or_else(wrong)?;
    }
    let extents = shape.iter().map(|&extent| i64::try_from(extent).map_err(|_| wrong()));
    Ok((extents.collect::<Result<_>>()?, strides))
}

/// Makes the consumer's stream wait for all uses of the memory.
fn await_uses(allocation: &Allocation, context: &ContextInner, consumer: Consumer) -> Result<()> {
    let stream = match consumer {
        Consumer::NoWait => return allocation.pass_gates(),
        Consumer::Legacy => CU_STREAM_LEGACY,
        Consumer::PerThread => CU_STREAM_PER_THREAD,
        Consumer::Handle(stream) => stream,
    };
    let wait = || {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, says the maker of the consumer, or one of the current context's.
        let asked = unsafe { context.sys().cuStreamIsCapturing(stream, &raw mut status) };
        if asked == Ok(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
            || status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE
        {
            return Err(Error::invalid(
                "the consumer's stream is being captured: a wait for work outside would invalidate the capture",
            ));
        }
        context.answer("cuStreamIsCapturing", asked)?;
        // SAFETY: as above, and nothing captures it.
        unsafe { allocation.let_wait(stream) }
    };
    match consumer {
        Consumer::Legacy | Consumer::PerThread => context.with_current(wait),
        _ => wait(),
    }
}

/// The deleter of a versioned tensor.
unsafe extern "C" fn delete_versioned(tensor: *mut DLManagedTensorVersioned) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: the consumer calls the deleter once, with the tensor that `into_dlpack` has returned.
    let exported = unsafe { (*tensor).manager_ctx.cast::<Exported<DLManagedTensorVersioned>>() };
    // SAFETY: leaked by `into_dlpack`.
    let exported = unsafe { Box::from_raw(exported) };
    delete(exported.memory);
}

/// The deleter of an unversioned tensor.
unsafe extern "C" fn delete_unversioned(tensor: *mut DLManagedTensor) {
    if tensor.is_null() {
        return;
    }
    // SAFETY: as in `delete_versioned`.
    let exported = unsafe { (*tensor).manager_ctx.cast::<Exported<DLManagedTensor>>() };
    // SAFETY: as there.
    let exported = unsafe { Box::from_raw(exported) };
    delete(exported.memory);
}

/// Frees the memory of a tensor whose structure is freed.
fn delete(memory: Arc<Allocation>) {
    if forked() {
        std::mem::forget(memory);
        return;
    }
    // Unwinding into the consumer would be undefined behaviour.
    // A framework's tensor orders its work and the free itself.
    quietly(|| memory.free_after_consumer(|owner| owner.is::<Raw>()));
}
