//! What devices say of themselves. Attributes that the driver does not know are errors of its.

use std::collections::HashSet;

use cuda_safe::sys::{CUdevice_attribute, CUresult};
use cuda_safe::{Device, ErrorKind};

use super::error_of;
use test_harness::{Case, Failure, Open, TestDevice, TestResult, cases, ensure, ensure_eq};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        "fault::devices",
        fault(names_and_numbers),
        fault(every_attribute),
        fault(every_typed_attribute),
        process(one_that_is_not_there),
        process(all_hidden).variables(&[("CUDA_VISIBLE_DEVICES", "")]),
    ]
}

fn names_and_numbers(device: &TestDevice) -> TestResult {
    let driver = device.context().driver();
    ensure!(driver.version()? >= 12_000);
    ensure_eq!(device.reopen()?, driver);
    ensure!(driver.device_count() > 0);
    let mut uuids = HashSet::new();
    for (ordinal, gpu) in driver.devices().enumerate() {
        ensure_eq!(gpu.ordinal(), ordinal);
        ensure_eq!(gpu.driver(), driver);
        ensure!(!gpu.name()?.is_empty());
        let uuid = gpu.uuid()?;
        ensure!(uuids.insert(uuid), "{uuid} twice");
        ensure_eq!(uuid.to_string().len(), 36);
        ensure!(uuid.0 != [0; 16]);
        ensure!(gpu.pci_bus_id()?.contains(':'));
        ensure!(gpu.total_memory()? > 1 << 28);
        let (major, minor) = gpu.compute_capability()?;
        ensure!((7..20).contains(&major) && minor < 10, "{major}.{minor}");
        ensure!(gpu.arch()?.is_real());
        ensure_eq!(gpu.warp_size()?, 32);
        ensure!(gpu.max_threads_per_block()? >= 1024);
        ensure!(gpu.multiprocessor_count()? > 0);
        ensure!(gpu.unified_addressing()?);
    }
    Ok(())
}

/// Each is a number, or an error of this one call.
fn every_attribute(device: &TestDevice) -> TestResult {
    let gpu = device.context().device();
    let (mut known, mut unknown) = (0, Vec::new());
    for number in 1..CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX.0 {
        match gpu.raw_attribute(CUdevice_attribute(number)) {
            Ok(_) => known += 1,
            Err(error) => {
                ensure!(error.code().is_some(), "{number}: {error}");
                ensure!(!error.is_fatal());
                unknown.push(number);
            }
        }
    }
    eprintln!("{known} attributes are known to this driver; not {unknown:?}");
    // A driver of 12.0 has 120 of them.
    ensure!(known >= 110, "{known}");
    Ok(())
}

/// What the driver tells as a number makes sense as the type that the method gives it.
fn every_typed_attribute(device: &TestDevice) -> TestResult {
    let gpu = device.context().device();
    macro_rules! methods {
        ($($name:ident)+) => { [$((stringify!($name), gpu.$name().map(drop))),+] };
    }
    #[rustfmt::skip]
    let answers = methods![
        max_threads_per_block max_block_dim_x max_block_dim_y max_block_dim_z max_grid_dim_x
        max_grid_dim_y max_grid_dim_z warp_size max_registers_per_block clock_rate
        gpu_overlap multiprocessor_count kernel_exec_timeout integrated compute_mode
        concurrent_kernels async_engine_count tcc_driver max_threads_per_multiprocessor
        compute_capability_major compute_capability_minor stream_priorities_supported
        max_registers_per_multiprocessor single_to_double_precision_perf_ratio
        compute_preemption_supported cooperative_launch cooperative_multi_device_launch
        max_blocks_per_multiprocessor cluster_launch unified_function_pointers mps_enabled
        can_use_stream_mem_ops_v1 can_use_64_bit_stream_mem_ops_v1
        can_use_stream_wait_value_nor_v1 can_use_64_bit_stream_mem_ops
        can_use_stream_wait_value_nor can_flush_remote_writes atomic_reduction_supported
        locality_domain_count locality_domain_multiprocessor_count
        max_shared_memory_per_block max_shared_memory_per_block_optin
        max_oversized_shared_memory_per_block max_shared_memory_per_multiprocessor
        reserved_shared_memory_per_block total_constant_memory max_pitch can_map_host_memory
        ecc_enabled memory_clock_rate global_memory_bus_width l2_cache_size
        max_persisting_l2_cache_size max_access_policy_window_size global_l1_cache_supported
        local_l1_cache_supported unified_addressing managed_memory concurrent_managed_access
        direct_managed_mem_access_from_host pageable_memory_access
        pageable_memory_access_uses_host_page_tables host_native_atomic_supported
        only_partial_host_native_atomic_supported host_register_supported
        read_only_host_register_supported can_use_host_pointer_for_registered_mem
        virtual_memory_management_supported memory_pools_supported
        generic_compression_supported mem_sync_domain_count tensor_map_access_supported
        tensor_map_large_tensor_min_size mem_decompress_algorithm_mask
        mem_decompress_maximum_length numa_config numa_id host_numa_id
        host_numa_virtual_memory_management_supported host_numa_memory_pools_supported
        host_numa_multinode_ipc_supported host_virtual_memory_management_supported
        host_memory_pools_supported pci_domain_id pci_bus_number pci_device_id
        gpu_pci_device_id gpu_pci_subsystem_id multi_gpu_board multi_gpu_board_group_id
        multicast_supported mempool_supported_handle_types
        handle_type_posix_file_descriptor_supported handle_type_win32_handle_supported
        handle_type_win32_kmt_handle_supported handle_type_fabric_supported
        ipc_event_supported dma_buf_supported dma_buf_mmap_supported
        host_alloc_dma_buf_supported gpu_direct_rdma_supported
        gpu_direct_rdma_flush_writes_options gpu_direct_rdma_writes_ordering
        gpu_direct_rdma_with_cuda_vmm_supported
        gpu_direct_rdma_with_localized_memory_supported logical_endpoint_unicast_supported
        logical_endpoint_multicast_supported logical_endpoint_counted_ops_supported
        logical_endpoint_unicast_access_on_owner_device_supported
        logical_endpoint_supported_handle_types timeline_semaphore_interop_supported
        d3d12_cig_supported d3d12_cig_streams_supported vulkan_cig_supported
        vulkan_cig_streams_supported texture_alignment texture_pitch_alignment
        surface_alignment sparse_cuda_array_supported deferred_mapping_cuda_array_supported
        can_tex2d_gather maximum_texture1d_width maximum_texture2d_width
        maximum_texture2d_height maximum_texture3d_width maximum_texture3d_height
        maximum_texture3d_depth maximum_texture2d_layered_width
        maximum_texture2d_layered_height maximum_texture2d_layered_layers
        maximum_texture1d_layered_width maximum_texture1d_layered_layers
        maximum_texture2d_gather_width maximum_texture2d_gather_height
        maximum_texture3d_width_alternate maximum_texture3d_height_alternate
        maximum_texture3d_depth_alternate maximum_texturecubemap_width
        maximum_texturecubemap_layered_width maximum_texturecubemap_layered_layers
        maximum_surface1d_width maximum_surface2d_width maximum_surface2d_height
        maximum_surface3d_width maximum_surface3d_height maximum_surface3d_depth
        maximum_surface1d_layered_width maximum_surface1d_layered_layers
        maximum_surface2d_layered_width maximum_surface2d_layered_height
        maximum_surface2d_layered_layers maximum_surfacecubemap_width
        maximum_surfacecubemap_layered_width maximum_surfacecubemap_layered_layers
        maximum_texture1d_linear_width maximum_texture2d_linear_width
        maximum_texture2d_linear_height maximum_texture2d_linear_pitch
        maximum_texture2d_mipmapped_width maximum_texture2d_mipmapped_height
        maximum_texture1d_mipmapped_width
    ];
    ensure_eq!(answers.len(), Device::attributes().count(), "the list is complete");
    for (name, attribute) in Device::attributes() {
        let answer = answers.iter().find(|(method, _)| *method == name);
        let Some((_, answer)) = answer else {
            return Err(Failure::new(format!("{name} is not in the list")));
        };
        match (gpu.raw_attribute(attribute), answer) {
            (Ok(_), Ok(())) | (Err(_), Err(_)) => {}
            (Ok(number), Err(error)) => {
                return Err(Failure::new(format!("{name} is {number}: {error}")));
            }
            (Err(error), Ok(())) => return Err(Failure::new(format!("{name}: {error}"))),
        }
    }
    Ok(())
}

fn one_that_is_not_there(open: Open) -> TestResult {
    let driver = open()?;
    for ordinal in [driver.device_count(), usize::MAX] {
        let error = error_of("no such device", driver.device(ordinal))?;
        ensure!(matches!(error.kind(), ErrorKind::Invalid(_)), "{error}");
        ensure!(error.hint().is_some_and(|hint| hint.contains("CUDA_VISIBLE_DEVICES")));
    }
    Ok(())
}

fn all_hidden(open: Open) -> TestResult {
    for _ in 0..2 {
        let error = error_of("no device is visible", open())?;
        ensure_eq!(error.code(), Some(CUresult::CUDA_ERROR_NO_DEVICE), "{error}");
        ensure_eq!(error.call(), Some("cuInit"));
        ensure!(error.hint().is_some_and(|hint| hint.contains("CUDA_VISIBLE_DEVICES")), "{error}");
    }
    Ok(())
}
