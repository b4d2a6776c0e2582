//! Descriptions of the driver's result codes, in a static table: printing an error never calls the driver that has just
//! failed.

use core::fmt;

use crate::{CUresult, nvrtcResult};

impl CUresult {
    /// Returns what the code means, in a short phrase; `None` for a code that is newer than these
    /// bindings.
    #[must_use]
    pub const fn description(self) -> Option<&'static str> {
        Some(match self {
            Self::CUDA_SUCCESS => "no error",
            Self::CUDA_ERROR_INVALID_VALUE => "an argument is out of range",
            Self::CUDA_ERROR_OUT_OF_MEMORY => "not enough memory",
            Self::CUDA_ERROR_NOT_INITIALIZED => "the driver was not initialised with cuInit",
            Self::CUDA_ERROR_DEINITIALIZED => "the driver is shutting down",
            Self::CUDA_ERROR_PROFILER_DISABLED => "another profiler is attached",
            Self::CUDA_ERROR_PROFILER_NOT_INITIALIZED => "the profiler was not initialised",
            Self::CUDA_ERROR_PROFILER_ALREADY_STARTED => "the profiler is running already",
            Self::CUDA_ERROR_PROFILER_ALREADY_STOPPED => "the profiler is stopped already",
            Self::CUDA_ERROR_STUB_LIBRARY => {
                "the loaded library is the toolkit's stub, not a driver"
            }
            Self::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER => "the call needs a newer driver",
            Self::CUDA_ERROR_DEVICE_UNAVAILABLE => "the device is busy or may not be used",
            Self::CUDA_ERROR_MULTICAST_RESOURCE_FULL => "the fabric has no room for multicast",
            Self::CUDA_ERROR_NO_DEVICE => "no device was found",
            Self::CUDA_ERROR_INVALID_DEVICE => "no device has this number",
            Self::CUDA_ERROR_DEVICE_NOT_LICENSED => "the device lacks a licence",
            Self::CUDA_ERROR_INVALID_IMAGE => "the kernel image is malformed",
            Self::CUDA_ERROR_INVALID_CONTEXT => "no context is current, or it is not a valid one",
            Self::CUDA_ERROR_CONTEXT_ALREADY_CURRENT => "the context is current already",
            Self::CUDA_ERROR_MAP_FAILED => "a resource could not be mapped",
            Self::CUDA_ERROR_UNMAP_FAILED => "a resource could not be unmapped",
            Self::CUDA_ERROR_ARRAY_IS_MAPPED => "the array is mapped and cannot be destroyed",
            Self::CUDA_ERROR_ALREADY_MAPPED => "the resource is mapped already",
            Self::CUDA_ERROR_NO_BINARY_FOR_GPU => "the image has no code for this device",
            Self::CUDA_ERROR_ALREADY_ACQUIRED => "the resource is acquired already",
            Self::CUDA_ERROR_NOT_MAPPED => "the resource is not mapped",
            Self::CUDA_ERROR_NOT_MAPPED_AS_ARRAY => "the resource is not mapped as an array",
            Self::CUDA_ERROR_NOT_MAPPED_AS_POINTER => "the resource is not mapped as a pointer",
            Self::CUDA_ERROR_ECC_UNCORRECTABLE => "device memory had an error beyond repair",
            Self::CUDA_ERROR_UNSUPPORTED_LIMIT => "the device does not have this limit",
            Self::CUDA_ERROR_CONTEXT_ALREADY_IN_USE => "another thread is using the context",
            Self::CUDA_ERROR_PEER_ACCESS_UNSUPPORTED => "these devices cannot reach each other",
            Self::CUDA_ERROR_INVALID_PTX => "the PTX does not compile",
            Self::CUDA_ERROR_INVALID_GRAPHICS_CONTEXT => "the graphics context is not valid",
            Self::CUDA_ERROR_NVLINK_UNCORRECTABLE => "NVLink had an error beyond repair",
            Self::CUDA_ERROR_JIT_COMPILER_NOT_FOUND => "the driver's PTX compiler is not installed",
            Self::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => {
                "the PTX is of a newer version than the driver compiles"
            }
            Self::CUDA_ERROR_JIT_COMPILATION_DISABLED => "compiling PTX is switched off",
            Self::CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY => "the device lacks this affinity",
            Self::CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC => {
                "the code waits for child kernels on the device, which is no longer possible"
            }
            Self::CUDA_ERROR_CONTAINED => "a hardware fault hit this process and no other",
            Self::CUDA_ERROR_INSUFFICIENT_LOADER_VERSION => {
                "the loader is too old for an image compiled with these features"
            }
            Self::CUDA_ERROR_INVALID_SOURCE => "the image is in no known format",
            Self::CUDA_ERROR_FILE_NOT_FOUND => "the file was not found",
            Self::CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND => {
                "a shared library lacks a symbol that is needed"
            }
            Self::CUDA_ERROR_SHARED_OBJECT_INIT_FAILED => "a shared library failed to start",
            Self::CUDA_ERROR_OPERATING_SYSTEM => "a call to the operating system failed",
            Self::CUDA_ERROR_INVALID_HANDLE => "a handle is not valid here",
            Self::CUDA_ERROR_ILLEGAL_STATE => "an object is in the wrong state for this call",
            Self::CUDA_ERROR_LOSSY_QUERY => "the result would lose information",
            Self::CUDA_ERROR_NOT_FOUND => "nothing has this name",
            Self::CUDA_ERROR_NOT_READY => "work is still running",
            Self::CUDA_ERROR_ILLEGAL_ADDRESS => "a kernel used an address that it may not use",
            Self::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES => {
                "the launch needs more registers or memory than a block can have"
            }
            Self::CUDA_ERROR_LAUNCH_TIMEOUT => "a kernel ran longer than the system allows",
            Self::CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING => {
                "the kernel uses textures in another way than it was compiled for"
            }
            Self::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED => "peer access is on already",
            Self::CUDA_ERROR_PEER_ACCESS_NOT_ENABLED => "peer access is not on",
            Self::CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE => "the primary context is in use already",
            Self::CUDA_ERROR_CONTEXT_IS_DESTROYED => "the context was destroyed",
            Self::CUDA_ERROR_ASSERT => "an assertion in a kernel failed",
            Self::CUDA_ERROR_TOO_MANY_PEERS => "no more peers can be given access",
            Self::CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED => "the memory is registered already",
            Self::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED => "the memory is not registered",
            Self::CUDA_ERROR_HARDWARE_STACK_ERROR => "a kernel broke its call stack",
            Self::CUDA_ERROR_ILLEGAL_INSTRUCTION => "a kernel executed an illegal instruction",
            Self::CUDA_ERROR_MISALIGNED_ADDRESS => "a kernel used an address that is not aligned",
            Self::CUDA_ERROR_INVALID_ADDRESS_SPACE => {
                "a kernel used an address outside the space that the instruction works on"
            }
            Self::CUDA_ERROR_INVALID_PC => "a kernel jumped to an invalid address",
            Self::CUDA_ERROR_LAUNCH_FAILED => "a kernel failed while running",
            Self::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE => {
                "a cooperative launch has more blocks than fit on the device at once"
            }
            Self::CUDA_ERROR_TENSOR_MEMORY_LEAK => "a kernel ended without freeing tensor memory",
            Self::CUDA_ERROR_NOT_PERMITTED => "the operation is not permitted",
            Self::CUDA_ERROR_NOT_SUPPORTED => "the operation is not supported here",
            Self::CUDA_ERROR_SYSTEM_NOT_READY => "the system is not ready for CUDA yet",
            Self::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH => {
                "the display driver and the CUDA driver are of different versions"
            }
            Self::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE => {
                "the compatibility driver does not support this device"
            }
            Self::CUDA_ERROR_MPS_CONNECTION_FAILED => "the MPS server cannot be reached",
            Self::CUDA_ERROR_MPS_RPC_FAILURE => "a call to the MPS server failed",
            Self::CUDA_ERROR_MPS_SERVER_NOT_READY => "the MPS server takes no clients now",
            Self::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED => "the MPS server has all its clients",
            Self::CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED => "the device has all its connections",
            Self::CUDA_ERROR_MPS_CLIENT_TERMINATED => "the MPS server ended this client",
            Self::CUDA_ERROR_CDP_NOT_SUPPORTED => "kernels cannot launch kernels here",
            Self::CUDA_ERROR_CDP_VERSION_MISMATCH => {
                "two versions of launching kernels from kernels do not mix"
            }
            Self::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED => {
                "the call is not allowed while a stream is being captured"
            }
            Self::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED => "an earlier error ended the capture",
            Self::CUDA_ERROR_STREAM_CAPTURE_MERGE => "the call would join two captures",
            Self::CUDA_ERROR_STREAM_CAPTURE_UNMATCHED => "the stream did not begin this capture",
            Self::CUDA_ERROR_STREAM_CAPTURE_UNJOINED => {
                "the capture has a stream that was not joined to its first one"
            }
            Self::CUDA_ERROR_STREAM_CAPTURE_ISOLATION => {
                "captured work would depend on work outside the capture"
            }
            Self::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT => {
                "the legacy stream would have to wait for a capture"
            }
            Self::CUDA_ERROR_CAPTURED_EVENT => "the event was last recorded in a capture",
            Self::CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD => "another thread began the capture",
            Self::CUDA_ERROR_TIMEOUT => "the time for waiting is over",
            Self::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE => {
                "the executable graph cannot become the new graph"
            }
            Self::CUDA_ERROR_EXTERNAL_DEVICE => "a device outside CUDA reported an error",
            Self::CUDA_ERROR_INVALID_CLUSTER_SIZE => "the cluster size does not fit this kernel",
            Self::CUDA_ERROR_FUNCTION_NOT_LOADED => "the function is not loaded yet",
            Self::CUDA_ERROR_INVALID_RESOURCE_TYPE => "a resource is of the wrong type",
            Self::CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION => {
                "resources do not make up a valid configuration"
            }
            Self::CUDA_ERROR_KEY_ROTATION => "keys of confidential computing are being changed",
            Self::CUDA_ERROR_STREAM_DETACHED => "the stream's context was detached from it",
            Self::CUDA_ERROR_GRAPH_RECAPTURE_FAILURE => "capturing into the graph again failed",
            Self::CUDA_ERROR_FABRIC_NOT_READY => "the fabric is not ready",
            Self::CUDA_ERROR_UNKNOWN => "the driver does not know the cause",
            _ => return None,
        })
    }
}

impl fmt::Display for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name(), self.description()) {
            (Some(name), Some(description)) => write!(f, "{name} ({}): {description}", self.0),
            (Some(name), None) => write!(f, "{name} ({})", self.0),
            (None, _) => write!(f, "CUDA error {}", self.0),
        }
    }
}

impl fmt::Display for nvrtcResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "NVRTC error {}", self.0),
        }
    }
}
