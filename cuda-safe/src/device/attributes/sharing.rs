//! Attributes of a device: where it sits, and what it shares with other devices, other processes
//! and graphics.

use cuda_sys::CUdevice_attribute;

use super::{EndpointHandleTypes, HandleTypes, PciId, RdmaFlushes, RdmaOrdering, attributes};
use crate::device::Device;

attributes! {
    /// The PCI domain. See [`Device::pci_bus_id`] for the whole address.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID")]
    pci_domain_id: u32 = CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID;

    /// The number of the PCI bus. See [`Device::pci_bus_id`] for the whole address.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_BUS_ID")]
    pci_bus_number: u32 = CU_DEVICE_ATTRIBUTE_PCI_BUS_ID;

    /// The device's number on its PCI bus; what kind it is, [`Device::gpu_pci_device_id`] says.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID")]
    pci_device_id: u32 = CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID;

    /// What the GPU is: its PCI device and vendor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID")]
    gpu_pci_device_id: PciId = CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID;

    /// What the board is: its PCI subsystem and that one's vendor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID")]
    gpu_pci_subsystem_id: PciId = CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID;

    /// Whether the board has several GPUs.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD")]
    multi_gpu_board: bool = CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD;

    /// A number that the GPUs of one board have in common.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID")]
    multi_gpu_board_group_id: u32 = CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID;

    /// Whether the switch between devices can multicast writes and reduce reads.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED")]
    multicast_supported: bool = CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED;

    /// The handles by which a memory pool can be shared with other processes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES")]
    mempool_supported_handle_types: HandleTypes =
        CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;

    /// Whether memory can be exported as a file descriptor.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED")]
    handle_type_posix_file_descriptor_supported: bool =
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;

    /// Whether memory can be exported as a Windows NT handle.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED")]
    handle_type_win32_handle_supported: bool =
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED;

    /// Whether memory can be exported as a Windows KMT handle.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED")]
    handle_type_win32_kmt_handle_supported: bool =
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED;

    /// Whether memory can be exported as a fabric handle, for other machines of a system.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED")]
    handle_type_fabric_supported: bool = CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED;

    /// Whether events can be shared with other processes.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED")]
    ipc_event_supported: bool = CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED;

    /// Whether device memory can be shared as a Linux dma-buf.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED")]
    dma_buf_supported: bool = CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED;

    /// Whether the host can map such a dma-buf into its own addresses.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED")]
    dma_buf_mmap_supported: bool = CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED;

    /// Whether pinned host memory can be shared as a Linux dma-buf.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED")]
    host_alloc_dma_buf_supported: bool = CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED;

    /// Whether other PCI devices can reach the device's memory (GPUDirect RDMA).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED")]
    gpu_direct_rdma_supported: bool = CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED;

    /// How writes of other PCI devices can be flushed.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS")]
    gpu_direct_rdma_flush_writes_options: RdmaFlushes =
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;

    /// Who sees writes of other PCI devices in order without a flush.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING")]
    gpu_direct_rdma_writes_ordering: RdmaOrdering =
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;

    /// Whether memory mapped to reserved addresses can be made reachable for other PCI devices.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED")]
    gpu_direct_rdma_with_cuda_vmm_supported: bool =
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED;

    /// Whether memory of one locality domain can be reached by other PCI devices over the usual
    /// link.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED")]
    gpu_direct_rdma_with_localized_memory_supported: bool =
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_LOCALIZED_MEMORY_SUPPORTED;

    /// Whether logical endpoints for one device can be made.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED")]
    logical_endpoint_unicast_supported: bool =
        CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED;

    /// Whether logical endpoints for several devices can be made.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_MULTICAST_SUPPORTED")]
    logical_endpoint_multicast_supported: bool =
        CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_MULTICAST_SUPPORTED;

    /// Whether operations through logical endpoints can be counted.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED")]
    logical_endpoint_counted_ops_supported: bool =
        CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED;

    /// Whether a device can use a logical endpoint of its own memory.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED")]
    logical_endpoint_unicast_access_on_owner_device_supported: bool =
        CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED;

    /// The handles by which a logical endpoint can be shared.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES")]
    logical_endpoint_supported_handle_types: EndpointHandleTypes =
        CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_SUPPORTED_HANDLE_TYPES;

    /// Whether timeline semaphores of graphics APIs can be imported.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED")]
    timeline_semaphore_interop_supported: bool =
        CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED;

    /// Whether a context can run inside a Direct3D 12 queue (CUDA in graphics).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED")]
    d3d12_cig_supported: bool = CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED;

    /// Whether single streams can run inside a Direct3D 12 queue.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_D3D12_CIG_STREAMS_SUPPORTED")]
    d3d12_cig_streams_supported: bool = CU_DEVICE_ATTRIBUTE_D3D12_CIG_STREAMS_SUPPORTED;

    /// Whether a context can run inside a Vulkan queue (CUDA in graphics).
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED")]
    vulkan_cig_supported: bool = CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED;

    /// Whether single streams can run inside a Vulkan queue.
    #[doc(alias = "CU_DEVICE_ATTRIBUTE_VULKAN_CIG_STREAMS_SUPPORTED")]
    vulkan_cig_streams_supported: bool = CU_DEVICE_ATTRIBUTE_VULKAN_CIG_STREAMS_SUPPORTED;
}
