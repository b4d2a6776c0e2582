//! The C structures of DLPack 1.3, with the names of `dlpack.h`.

use std::ffi::{c_char, c_int, c_void};

/// The major version of the ABI that this crate knows.
pub const DLPACK_MAJOR_VERSION: u32 = 1;
/// The minor version of the ABI that this crate knows.
pub const DLPACK_MINOR_VERSION: u32 = 3;

/// The flag of a tensor that must not be written.
pub const DLPACK_FLAG_BITMASK_READ_ONLY: u64 = 1;

/// A version of the ABI. Structures of another major version have another layout.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLPackVersion {
    /// Another number: another layout.
    pub major: u32,
    /// Another number: more values of enumerations.
    pub minor: u32,
}

/// A kind of device.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDeviceType(pub i32);

impl DLDeviceType {
    /// The host.
    pub const CPU: Self = Self(1);
    /// A device of CUDA.
    pub const CUDA: Self = Self(2);
}

/// A device.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDevice {
    /// The kind.
    pub device_type: DLDeviceType,
    /// The number among devices of its kind.
    pub device_id: i32,
}

/// The type of an element.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DLDataType {
    /// The class: one of the constants of this type.
    pub code: u8,
    /// Bits of a lane.
    pub bits: u8,
    /// Lanes of a vector type; 1 for a scalar.
    pub lanes: u16,
}

impl DLDataType {
    /// The code of signed integers.
    pub const INT: u8 = 0;
    /// The code of unsigned integers.
    pub const UINT: u8 = 1;
    /// The code of IEEE floats.
    pub const FLOAT: u8 = 2;
    /// The code of bfloat16.
    pub const BFLOAT: u8 = 4;
    /// The code of complex numbers, of two floats each.
    pub const COMPLEX: u8 = 5;
    /// The code of booleans, of one byte each.
    pub const BOOL: u8 = 6;
}

/// A view of memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DLTensor {
    /// The address; null if there are no elements.
    pub data: *mut c_void,
    /// Where the memory is.
    pub device: DLDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DLDataType,
    /// `ndim` extents.
    pub shape: *mut i64,
    /// `ndim` strides, in elements; null for compact rows before version 1.2.
    pub strides: *mut i64,
    /// Bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// A tensor with its owner, as before version 1.0.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensor {
    /// The view.
    pub dl_tensor: DLTensor,
    /// The owner's data.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor and this structure; null if nothing is to be freed.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

/// A tensor with its owner. The fields before `flags` are the same in every version.
#[repr(C)]
#[derive(Debug)]
pub struct DLManagedTensorVersioned {
    /// The version of the producer.
    pub version: DLPackVersion,
    /// The owner's data.
    pub manager_ctx: *mut c_void,
    /// Frees the tensor and this structure; null if nothing is to be freed.
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    /// [`DLPACK_FLAG_BITMASK_READ_ONLY`] and others.
    pub flags: u64,
    /// The view.
    pub dl_tensor: DLTensor,
}

/// Reports an error of an allocator: its context, the kind and the message.
pub type DLPackSetError = unsafe extern "C" fn(*mut c_void, *const c_char, *const c_char);

/// Allocates a tensor like a prototype, of which type, shape and device are read.
pub type DLPackManagedTensorAllocator = unsafe extern "C" fn(
    *mut DLTensor,
    *mut *mut DLManagedTensorVersioned,
    *mut c_void,
    DLPackSetError,
) -> c_int;

/// Returns the tensor of a Python object, with a reference.
pub type DLPackManagedTensorFromPyObjectNoSync =
    unsafe extern "C" fn(*mut c_void, *mut *mut DLManagedTensorVersioned) -> c_int;

/// Returns a Python object that owns a tensor.
pub type DLPackManagedTensorToPyObjectNoSync =
    unsafe extern "C" fn(*mut DLManagedTensorVersioned, *mut *mut c_void) -> c_int;

/// Fills in the tensor of a Python object, without a reference.
pub type DLPackDLTensorFromPyObjectNoSync =
    unsafe extern "C" fn(*mut c_void, *mut DLTensor) -> c_int;

/// Returns the stream on which a framework enqueues work for a device now.
pub type DLPackCurrentWorkStream =
    unsafe extern "C" fn(DLDeviceType, i32, *mut *mut c_void) -> c_int;

/// The part of an exchange table that is the same in every version.
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPIHeader {
    /// The version of the table.
    pub version: DLPackVersion,
    /// A table of an older version, or null.
    pub prev_api: *mut DLPackExchangeAPIHeader,
}

/// The functions by which a framework exchanges tensors, `__dlpack_c_exchange_api__` of its tensor type.
#[repr(C)]
#[derive(Debug)]
pub struct DLPackExchangeAPI {
    /// Version and older tables.
    pub header: DLPackExchangeAPIHeader,
    /// Allocates a tensor.
    pub managed_tensor_allocator: Option<DLPackManagedTensorAllocator>,
    /// From a Python object, with a reference.
    pub managed_tensor_from_py_object_no_sync: Option<DLPackManagedTensorFromPyObjectNoSync>,
    /// To a Python object.
    pub managed_tensor_to_py_object_no_sync: Option<DLPackManagedTensorToPyObjectNoSync>,
    /// From a Python object, without a reference.
    pub dltensor_from_py_object_no_sync: Option<DLPackDLTensorFromPyObjectNoSync>,
    /// The current stream.
    pub current_work_stream: Option<DLPackCurrentWorkStream>,
}

/// The layout of `dlpack.h` on machines with pointers of 64 bits, which are all that CUDA runs on.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{align_of, offset_of, size_of};

    assert!(size_of::<DLPackVersion>() == 8);
    assert!(size_of::<DLDevice>() == 8);
    assert!(size_of::<DLDataType>() == 4 && align_of::<DLDataType>() == 2);
    assert!(size_of::<DLTensor>() == 48);
    assert!(offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16);
    assert!(offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24);
    assert!(offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40);
    assert!(size_of::<DLManagedTensor>() == 64);
    assert!(offset_of!(DLManagedTensor, manager_ctx) == 48);
    assert!(offset_of!(DLManagedTensor, deleter) == 56);
    assert!(size_of::<DLManagedTensorVersioned>() == 80);
    assert!(offset_of!(DLManagedTensorVersioned, manager_ctx) == 8);
    assert!(offset_of!(DLManagedTensorVersioned, deleter) == 16);
    assert!(offset_of!(DLManagedTensorVersioned, flags) == 24);
    assert!(offset_of!(DLManagedTensorVersioned, dl_tensor) == 32);
    assert!(size_of::<DLPackExchangeAPIHeader>() == 16);
    assert!(size_of::<DLPackExchangeAPI>() == 56);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_allocator) == 16);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_from_py_object_no_sync) == 24);
    assert!(offset_of!(DLPackExchangeAPI, managed_tensor_to_py_object_no_sync) == 32);
    assert!(offset_of!(DLPackExchangeAPI, dltensor_from_py_object_no_sync) == 40);
    assert!(offset_of!(DLPackExchangeAPI, current_work_stream) == 48);
};
