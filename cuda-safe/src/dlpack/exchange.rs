//! The exchange table of a framework: its tensors, current stream and allocator, by plain C functions.

use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;

use cuda_sys::CUstream;

use super::abi::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensorVersioned, DLPACK_MAJOR_VERSION,
    DLPackExchangeAPI, DLPackExchangeAPIHeader, DLTensor,
};
use super::tensor::{Raw, Tensor, TensorRef};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::memory::{Allocator, ForeignMemory};

/// The functions by which a framework exchanges tensors without Python's headers: `__dlpack_c_exchange_api__` of its
/// tensor type, of DLPack 1.2 and later.
///
/// Functions that take or return a Python object must be called by a thread that holds the interpreter's lock, and set a
/// Python exception if they fail.
#[derive(Clone, Copy)]
pub struct Exchange {
    api: &'static DLPackExchangeAPI,
}

impl Exchange {
    /// Returns the table behind a pointer: the integer that a framework gives, or the pointer in its capsule
    /// `dlpack_exchange_api`. If its major version is another one, an older table that it refers to is taken.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the pointer is null, or there is no table of version 1.
    ///
    /// # Safety
    /// `api` is null or a table as `dlpack.h` describes it, which lives as long as the process.
    pub unsafe fn from_raw(api: *const DLPackExchangeAPI) -> Result<Self> {
        let mut header = api.cast::<DLPackExchangeAPIHeader>();
        let mut newest = None;
        while !header.is_null() {
            // SAFETY: a header, says the caller, or what another header refers to.
            let DLPackExchangeAPIHeader { version, prev_api } = unsafe { &*header };
            if version.major == DLPACK_MAJOR_VERSION {
                // SAFETY: of this version, the header is that of such a table.
                return Ok(Self { api: unsafe { &*header.cast::<DLPackExchangeAPI>() } });
            }
            newest.get_or_insert(*version);
            header = prev_api.cast_const();
        }
        Err(Error::invalid(match newest {
            None => "the exchange table is null".to_owned(),
            Some(version) => format!(
                "the exchange table has version {}.{} of DLPack, and this crate knows version {DLPACK_MAJOR_VERSION}",
                version.major, version.minor
            ),
        }))
    }

    /// Returns the stream on which the framework enqueues work for the device of `context` now, to be
    /// [lent](Context::lend).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the table has no such function or it fails.
    pub fn current_stream(&self, context: &Context) -> Result<CUstream> {
        let function = there(self.api.current_work_stream, "current_work_stream")?;
        let mut stream = std::ptr::null_mut();
        let device = device_of(context);
        // SAFETY: `stream` is a valid place for a handle.
        let code = unsafe { function(device.device_type, device.device_id, &raw mut stream) };
        succeeded("current_work_stream", code)?;
        Ok(stream.cast())
    }

    /// Returns the tensor of a Python object, which it keeps alive.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the function fails, with a Python exception set; or as
    /// [`Tensor::from_versioned`].
    ///
    /// # Safety
    /// `object` is a Python object of the type that the table belongs to, and this thread holds the interpreter's lock.
    /// For the tensor, as [`Tensor::from_versioned`].
    pub unsafe fn tensor(&self, object: *mut c_void) -> Result<Tensor> {
        let name = "managed_tensor_from_py_object_no_sync";
        let function = there(self.api.managed_tensor_from_py_object_no_sync, name)?;
        let mut tensor = std::ptr::null_mut();
        // SAFETY: the caller's promise, and `tensor` is a valid place for a pointer.
        succeeded(name, unsafe { function(object, &raw mut tensor) })?;
        // SAFETY: the function has returned a managed tensor; for its use the caller's promise.
        unsafe { Tensor::from_versioned(tensor) }
    }

    /// Returns the tensor of a Python object, which the caller keeps alive until its call returns: the fastest way, with
    /// no reference and no allocation. It has no flag for being read-only, so [`LentStream::view_mut`](crate::LentStream::view_mut) does not refuse it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the function fails, with a Python exception set, or the
    /// framework has none: use [`tensor`](Self::tensor) then.
    ///
    /// # Safety
    /// As [`tensor`](Self::tensor); and the object lives, unchanged, while the result is used.
    pub unsafe fn borrow(&self, object: *mut c_void) -> Result<BorrowedTensor> {
        let name = "dltensor_from_py_object_no_sync";
        let function = there(self.api.dltensor_from_py_object_no_sync, name)?;
        let mut tensor = DLTensor {
            data: std::ptr::null_mut(),
            device: DLDevice { device_type: DLDeviceType::CPU, device_id: 0 },
            ndim: 0,
            dtype: DLDataType { code: DLDataType::UINT, bits: 8, lanes: 1 },
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            byte_offset: 0,
        };
        // SAFETY: the caller's promise, and `tensor` is a valid place for a tensor.
        succeeded(name, unsafe { function(object, &raw mut tensor) })?;
        Ok(BorrowedTensor(tensor))
    }

    /// Returns a Python object that owns a tensor, which [`DeviceBuffer::into_dlpack`] has made.
    ///
    /// [`DeviceBuffer::into_dlpack`]: crate::DeviceBuffer::into_dlpack
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the function fails, with a Python exception set; the tensor
    /// is still the caller's then.
    ///
    /// # Safety
    /// `tensor` is a managed tensor that is the caller's to give, and this thread holds the interpreter's lock.
    pub unsafe fn to_object(&self, tensor: *mut DLManagedTensorVersioned) -> Result<*mut c_void> {
        let name = "managed_tensor_to_py_object_no_sync";
        let function = there(self.api.managed_tensor_to_py_object_no_sync, name)?;
        let mut object = std::ptr::null_mut();
        // SAFETY: the caller's promise, and `object` is a valid place for a pointer.
        succeeded(name, unsafe { function(tensor, &raw mut object) })?;
        match object.is_null() {
            true => Err(Error::invalid(format!("{name} of the exchange table returned null"))),
            false => Ok(object),
        }
    }

    /// Returns the framework's allocator, for [`LentStream::set_allocator`](crate::LentStream::set_allocator).
    ///
    /// # Safety
    /// The allocator may be called by this thread in each call for which it is set, and the memory that it returns may
    /// be used at once on the stream of that call. The deleters of its tensors may be called by any thread; they free
    /// memory in the order of the stream that it was allocated for.
    #[must_use]
    pub unsafe fn allocator(&self) -> ExchangeAllocator {
        ExchangeAllocator { api: self.api }
    }
}

impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("version", &self.api.header.version).finish()
    }
}

/// The tensor of an object that the caller keeps alive; from [`Exchange::borrow`].
#[derive(Debug)]
pub struct BorrowedTensor(DLTensor);

impl<'a> From<&'a BorrowedTensor> for TensorRef<'a> {
    fn from(tensor: &'a BorrowedTensor) -> Self {
        // SAFETY: the caller of `borrow` has promised it.
        unsafe { Self::new(&tensor.0, false) }
    }
}

/// The allocator of a framework; from [`Exchange::allocator`].
#[derive(Clone, Copy)]
pub struct ExchangeAllocator {
    api: &'static DLPackExchangeAPI,
}

impl fmt::Debug for ExchangeAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExchangeAllocator").finish_non_exhaustive()
    }
}

/// The alignment that callers of the driver's allocators have: memory of a framework must have it too.
const ALIGNMENT: u64 = 256;

// SAFETY: the memory is that of a live tensor of the framework, of which the caller of `Exchange::allocator` has promised
// that the stream of the call may use it; it is checked below for its device, size and alignment.
unsafe impl Allocator for ExchangeAllocator {
    fn allocate(
        &self,
        context: &Context,
        bytes: usize,
        _stream: CUstream,
    ) -> Result<ForeignMemory> {
        let function = there(self.api.managed_tensor_allocator, "managed_tensor_allocator")?;
        let extent = i64::try_from(bytes)
            .map_err(|_| Error::invalid(format!("{bytes} bytes are more than memory can hold")))?;
        let (mut shape, mut strides) = ([extent], [1_i64]);
        let mut prototype = DLTensor {
            data: std::ptr::null_mut(),
            device: device_of(context),
            ndim: 1,
            dtype: DLDataType { code: DLDataType::UINT, bits: 8, lanes: 1 },
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        let (mut tensor, mut message) = (std::ptr::null_mut(), None::<String>);
        let place: *mut Option<String> = &raw mut message;
        // SAFETY: the prototype and the places live during the call, and `set_error` takes the context that it gets here.
        let code =
            unsafe { function(&raw mut prototype, &raw mut tensor, place.cast(), set_error) };
        let failed = |message: Option<String>| {
            let message =
                message.unwrap_or_else(|| format!("it returned {code} without a message"));
            Error::invalid(format!("the framework's allocator failed for {bytes} bytes: {message}"))
        };
        let Some(tensor) = NonNull::new(tensor).filter(|_| code == 0) else {
            return Err(failed(message));
        };
        // From here on a failure deletes the tensor.
        let raw = Raw::Versioned(tensor);
        let given = raw.tensor();
        let start = (given.data.addr() as u64).checked_add(given.byte_offset);
        let start = start.filter(|start| *start != 0 && start.is_multiple_of(ALIGNMENT));
        let fits = given.device == prototype.device;
        match start.filter(|_| fits) {
            Some(start) => {
                Ok(ForeignMemory { start, token: Box::new(raw) as Box<dyn Any + Send + Sync> })
            }
            None => Err(failed(Some(format!(
                "it returned the address {:?} + {} of {:?}",
                given.data, given.byte_offset, given.device
            )))),
        }
    }
}

/// Takes an allocator's message.
unsafe extern "C" fn set_error(context: *mut c_void, kind: *const c_char, message: *const c_char) {
    let text = |text: *const c_char| {
        if text.is_null() {
            return String::new();
        }
        // SAFETY: not null, so a C string, says the header.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    let place = context.cast::<Option<String>>();
    if !place.is_null() {
        // SAFETY: the place of the caller above, which waits for the allocator.
        unsafe { *place = Some(format!("{}: {}", text(kind), text(message))) };
    }
}

fn device_of(context: &Context) -> DLDevice {
    let device_id = i32::try_from(context.device().ordinal()).unwrap_or(i32::MAX);
    DLDevice { device_type: DLDeviceType::CUDA, device_id }
}

fn there<F>(function: Option<F>, name: &str) -> Result<F> {
    function.ok_or_else(|| Error::invalid(format!("the exchange table has no function {name}")))
}

fn succeeded(name: &str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Error::invalid(format!("{name} of the exchange table returned {code}"))),
    }
}
