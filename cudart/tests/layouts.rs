//! Structs and numbers that are passed to the driver as they are: they are the same under both names.

use core::mem::offset_of;

use cuda_sys as driver;
use cudart::bindings::{runtime, runtime_12};

/// Compares structs, and members of them.
macro_rules! same {
    ($($ours:ident as $theirs:ident { $($member:ident as $other:ident),* })*) => {
        $(
            const _: () = assert!(size_of::<runtime::$ours>() == size_of::<driver::$theirs>());
            const _: () = assert!(align_of::<runtime::$ours>() == align_of::<driver::$theirs>());
            $(const _: () =
                assert!(offset_of!(runtime::$ours, $member) == offset_of!(driver::$theirs, $other));)*
        )*
    };
}

same! {
    cudaMemLocation as CUmemLocation { type_ as type_ }
    cudaMemPoolProps as CUmemPoolProps {
        allocType as allocType, handleTypes as handleTypes, location as location, maxSize as maxSize, usage as usage
    }
    cudaMemAccessDesc as CUmemAccessDesc { location as location, flags as flags }
    cudaMemAllocNodeParams as CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
        poolProps as poolProps, accessDescs as accessDescs, bytesize as bytesize, dptr as dptr
    }
    cudaGraphEdgeData as CUgraphEdgeData { from_port as from_port, to_port as to_port, type_ as type_ }
    cudaGraphInstantiateParams as CUDA_GRAPH_INSTANTIATE_PARAMS {
        flags as flags, uploadStream as hUploadStream, errNode_out as hErrNode_out, result_out as result_out
    }
    cudaGraphExecUpdateResultInfo as CUgraphExecUpdateResultInfo {
        result as result, errorNode as errorNode, errorFromNode as errorFromNode
    }
    cudaGraphNodeParams as CUgraphNodeParams { type_ as type_, __bindgen_anon_1 as __bindgen_anon_1 }
    cudaHostNodeParams as CUDA_HOST_NODE_PARAMS_v1 { fn_ as fn_, userData as userData }
    cudaLaunchAttribute as CUlaunchAttribute { id as id, val as value }
    cudaLaunchAttributeValue as CUlaunchAttributeValue {}
    cudaMemcpyAttributes as CUmemcpyAttributes {
        srcAccessOrder as srcAccessOrder, srcLocHint as srcLocHint, dstLocHint as dstLocHint, flags as flags
    }
    cudaMemPoolPtrExportData as CUmemPoolPtrExportData {}
    cudaIpcMemHandle_t as CUipcMemHandle {}
    cudaIpcEventHandle_t as CUipcEventHandle {}
    cudaResourceViewDesc as CUDA_RESOURCE_VIEW_DESC {
        format as format, width as width, firstMipmapLevel as firstMipmapLevel, lastLayer as lastLayer
    }
}

/// Compares numbers of enums.
macro_rules! equal {
    ($($ours:ident [$($name:ident)*] as $theirs:ident [$($other:ident)*];)*) => {
        $($(const _: () = assert!(runtime::$ours::$name.0 == driver::$theirs::$other.0);)*)*
    };
}

equal! {
cudaDeviceAttr [cudaDevAttrMaxThreadsPerBlock cudaDevAttrClockRate cudaDevAttrCooperativeLaunch
            cudaDevAttrHostNumaMultinodeIpcSupported]
as CUdevice_attribute [CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK CU_DEVICE_ATTRIBUTE_CLOCK_RATE
            CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED];
cudaFuncAttribute [cudaFuncAttributeMaxDynamicSharedMemorySize cudaFuncAttributePreferredSharedMemoryCarveout
            cudaFuncAttributeNonPortableClusterSizeAllowed]
as CUfunction_attribute [CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED];
    cudaLimit [cudaLimitStackSize cudaLimitPrintfFifoSize cudaLimitMallocHeapSize]
        as CUlimit [CU_LIMIT_STACK_SIZE CU_LIMIT_PRINTF_FIFO_SIZE CU_LIMIT_MALLOC_HEAP_SIZE];
    cudaMemPoolAttr [cudaMemPoolAttrReleaseThreshold cudaMemPoolAttrUsedMemHigh]
        as CUmemPool_attribute [CU_MEMPOOL_ATTR_RELEASE_THRESHOLD CU_MEMPOOL_ATTR_USED_MEM_HIGH];
    cudaMemoryAdvise [cudaMemAdviseSetReadMostly cudaMemAdviseUnsetAccessedBy]
        as CUmem_advise [CU_MEM_ADVISE_SET_READ_MOSTLY CU_MEM_ADVISE_UNSET_ACCESSED_BY];
cudaGraphNodeType [cudaGraphNodeTypeKernel cudaGraphNodeTypeMemcpy cudaGraphNodeTypeMemset cudaGraphNodeTypeMemAlloc
            cudaGraphNodeTypeConditional]
as CUgraphNodeType [CU_GRAPH_NODE_TYPE_KERNEL CU_GRAPH_NODE_TYPE_MEMCPY CU_GRAPH_NODE_TYPE_MEMSET
            CU_GRAPH_NODE_TYPE_MEM_ALLOC CU_GRAPH_NODE_TYPE_CONDITIONAL];
    cudaStreamCaptureMode [cudaStreamCaptureModeGlobal cudaStreamCaptureModeRelaxed]
        as CUstreamCaptureMode [CU_STREAM_CAPTURE_MODE_GLOBAL CU_STREAM_CAPTURE_MODE_RELAXED];
cudaResourceType [cudaResourceTypeArray cudaResourceTypeMipmappedArray cudaResourceTypeLinear cudaResourceTypePitch2D]
as CUresourcetype [CU_RESOURCE_TYPE_ARRAY CU_RESOURCE_TYPE_MIPMAPPED_ARRAY CU_RESOURCE_TYPE_LINEAR
            CU_RESOURCE_TYPE_PITCH2D];
    cudaTextureAddressMode [cudaAddressModeWrap cudaAddressModeClamp cudaAddressModeMirror cudaAddressModeBorder]
as CUaddress_mode [CU_TR_ADDRESS_MODE_WRAP CU_TR_ADDRESS_MODE_CLAMP CU_TR_ADDRESS_MODE_MIRROR
            CU_TR_ADDRESS_MODE_BORDER];
    cudaTextureFilterMode [cudaFilterModePoint cudaFilterModeLinear]
        as CUfilter_mode [CU_TR_FILTER_MODE_POINT CU_TR_FILTER_MODE_LINEAR];
cudaError [cudaErrorInvalidValue cudaErrorMemoryAllocation cudaErrorInitializationError cudaErrorNoDevice
            cudaErrorInvalidDevice cudaErrorNoKernelImageForDevice cudaErrorInvalidResourceHandle
            cudaErrorSymbolNotFound cudaErrorNotReady cudaErrorIllegalAddress cudaErrorAssert cudaErrorNotPermitted
            cudaErrorNotSupported cudaErrorStreamCaptureUnsupported cudaErrorUnknown]
as CUresult [CUDA_ERROR_INVALID_VALUE CUDA_ERROR_OUT_OF_MEMORY CUDA_ERROR_NOT_INITIALIZED CUDA_ERROR_NO_DEVICE
            CUDA_ERROR_INVALID_DEVICE CUDA_ERROR_NO_BINARY_FOR_GPU CUDA_ERROR_INVALID_HANDLE CUDA_ERROR_NOT_FOUND
            CUDA_ERROR_NOT_READY CUDA_ERROR_ILLEGAL_ADDRESS CUDA_ERROR_ASSERT CUDA_ERROR_NOT_PERMITTED
            CUDA_ERROR_NOT_SUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED CUDA_ERROR_UNKNOWN];
}

/// The driver's codes have the same numbers in the runtime, which has names for all but a few.
#[test]
fn codes_of_the_driver_are_codes_of_the_runtime() {
    let known = |code: u32| runtime::cudaError::ALL.iter().any(|(known, _)| known.0 == code);
    let lacking = driver::CUresult::ALL.iter().filter(|code| !known(code.0));
    let names: Vec<_> = lacking.filter_map(|code| code.name()).collect();
    let expected = [
        "CUDA_ERROR_MULTICAST_RESOURCE_FULL",
        "CUDA_ERROR_CONTEXT_ALREADY_CURRENT",
        "CUDA_ERROR_KEY_ROTATION",
    ];
    assert_eq!(names, expected);
}

/// CUDA 13 has dropped members of the properties, and both ends of the rest are where the header has them.
#[test]
fn properties_have_both_layouts() {
    assert!(offset_of!(runtime_12::cudaDeviceProp, clockRate) > 0);
    assert!(size_of::<runtime_12::cudaDeviceProp>() != size_of::<runtime::cudaDeviceProp>());
}
