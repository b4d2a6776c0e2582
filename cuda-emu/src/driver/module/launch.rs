//! Launching kernels.

use core::ffi::{c_uint, c_void};
use std::sync::Arc;

use cuda_sys::{CUfunction, CUlaunchAttributeID, CUlaunchConfig, CUresult, CUstream};

use super::cluster::{active, of_launch, of_node};
use super::function::{max_dynamic, max_threads, resident};
use crate::driver::bridge::{KernelWork, Launch, new_heap};
use crate::driver::call::{Answer, functions, process};
use crate::driver::objects::number;
use crate::driver::process::{Process, State};
use crate::driver::stream::GREATEST_PRIORITY;
use crate::driver::stream::event::record;
use crate::driver::stream::work::Work;

/// The parameters of a launch besides the function.
#[derive(Debug, Clone, Copy)]
pub(in crate::driver) struct Shape {
    pub(in crate::driver) grid: [u32; 3],
    pub(in crate::driver) block: [u32; 3],
    pub(in crate::driver) shared: u32,
    pub(in crate::driver) cooperative: bool,
    /// The launch's priority; by default it is the stream's.
    pub(in crate::driver) priority: Option<i32>,
    /// The clusters that it asks for.
    pub(in crate::driver) cluster: Option<[u32; 3]>,
    /// Whether it is a graph's node, which may get its clusters later.
    pub(in crate::driver) node: bool,
}

impl Shape {
    /// Returns a launch without attributes.
    pub(in crate::driver) fn new(grid: [u32; 3], block: [u32; 3], shared: u32) -> Self {
        Self { grid, block, shared, cooperative: false, priority: None, cluster: None, node: false }
    }
}

/// Returns the bytes of a kernel's parameters.
///
/// # Safety
/// `arguments` is null or has a pointer to each parameter; `extra` is null or a list of a buffer
/// and its size, as the driver takes it.
pub(in crate::driver) unsafe fn parameters(
    layout: &[(usize, usize)],
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer<Vec<u8>> {
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let bytes = layout.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
    let mut packed = vec![0_u8; bytes];
    if !arguments.is_null() {
        if !extra.is_null() {
            return Err(invalid);
        }
        for (index, &(offset, size)) in layout.iter().enumerate() {
            // SAFETY: the caller's promise.
            let argument = unsafe { arguments.add(index).read() };
            if argument.is_null() {
                return Err(invalid);
            }
            let place = packed.get_mut(offset..offset + size).ok_or(invalid)?;
            // SAFETY: the argument is valid for the read of the parameter's size.
            place.copy_from_slice(unsafe { core::slice::from_raw_parts(argument.cast(), size) });
        }
        return Ok(packed);
    }
    if extra.is_null() {
        return if bytes == 0 { Ok(packed) } else { Err(invalid) };
    }
    let (mut buffer, mut size) = (core::ptr::null::<u8>(), 0);
    let mut at = extra;
    loop {
        // SAFETY: the list ends with a null, which is not passed over.
        let key = unsafe { at.read() };
        match key.addr() {
            0 => break,
            // SAFETY: each key but the end is followed by a value.
            1 => buffer = unsafe { at.add(1).read() }.cast_const().cast(),
            2 => {
                // SAFETY: as above; the size's value points to it.
                let place = unsafe { at.add(1).read() }.cast::<usize>();
                if place.is_null() {
                    return Err(invalid);
                }
                // SAFETY: not null, and the caller's promise.
                size = unsafe { place.read() };
            }
            _ => return Err(invalid),
        }
        // SAFETY: the next key follows a key's value.
        at = unsafe { at.add(2) };
    }
    // A null buffer is right only for no parameters. The driver takes a size of zero for none.
    if buffer.is_null() && size > 0 || size == 0 && bytes > 0 {
        return Err(invalid);
    }
    // The driver accepts less than the parameters need; the rest is undefined there, and zeros here.
    let Some(given) = packed.get_mut(..size) else {
        return Err(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    };
    if size > 0 {
        // SAFETY: the buffer has `size` bytes.
        given.copy_from_slice(unsafe { core::slice::from_raw_parts(buffer, size) });
    }
    Ok(packed)
}

impl State {
    /// Checks a launch in a context and makes a piece of work of it.
    ///
    /// # Safety
    /// As [`parameters`].
    pub(in crate::driver) unsafe fn kernel(
        &mut self,
        process: &Process,
        function: CUfunction,
        context: u64,
        shape: &Shape,
        arguments: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) -> Answer<(Work, u64)> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let found = self.function_in(process, number(function), context)?;
        let function = self.objects.functions.get(found)?;
        if function.context != context {
            return Err(CUresult::CUDA_ERROR_INVALID_HANDLE);
        }
        let (program, entry, settings) =
            (function.program.clone(), function.entry, function.settings);
        let device = self.objects.contexts.get(context)?.device;
        let (_, info) = process.device(device as i32)?;
        let attributes = program.attributes(entry);
        let Shape { mut grid, block, shared, cooperative, priority, cluster, node } = *shape;
        if let (true, Some(size)) = (attributes.blocks_are_clusters, attributes.cluster) {
            // The launch counts clusters.
            grid = core::array::from_fn(|at| grid[at].saturating_mul(size[at]));
        }
        let priority = priority.unwrap_or(0).clamp(GREATEST_PRIORITY, 0);
        let threads = block.iter().map(|&size| u64::from(size)).product::<u64>();
        let bounds = [info.max_threads, info.max_threads, 64];
        if grid.contains(&0)
            || block.contains(&0)
            || grid[1] > 65_535
            || grid[2] > 65_535
            || grid[0] > i32::MAX.cast_unsigned()
            || block.iter().zip(bounds).any(|(&size, bound)| size > bound)
            || threads > u64::from(max_threads(&attributes, info))
            || shared > max_dynamic(&attributes, &settings, info)
        {
            return Err(invalid);
        }
        let decide = if node { of_node } else { of_launch };
        let cluster = decide(cluster, grid, &attributes, &settings, info)?;
        if cooperative {
            let blocks = grid.iter().map(|&size| u64::from(size)).product::<u64>();
            let each = resident(&attributes, &settings, info, threads as u32, shared as usize);
            let most = match cluster.map(|size| size.iter().product()) {
                None | Some(1) => u64::from(each) * u64::from(info.multiprocessors),
                Some(size) => u64::from(active(info, each, size)) * u64::from(size),
            };
            if blocks > most {
                return Err(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        // SAFETY: the caller's promise.
        let params = unsafe { parameters(program.params(entry), arguments, extra) }?;
        let known = self.objects.contexts.get_mut(context)?;
        let heap = match &known.heap {
            Some(heap) => heap.clone(),
            None => known.heap.insert(new_heap(known.limits.heap, device)).clone(),
        };
        let stack = u32::try_from(known.limits.stack).unwrap_or(u32::MAX);
        let launch = Launch { entry, grid, block, shared, params, cooperative, cluster };
        let work = KernelWork { program, launch, device, context, stack, heap, priority };
        Ok((Work::Kernel(Arc::new(work)), found))
    }
}

/// # Safety
/// As [`parameters`].
unsafe fn launch(
    function: CUfunction,
    shape: &Shape,
    stream: CUstream,
    arguments: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Answer {
    let process = process()?;
    let mut state = process.lock();
    let stream = state.stream(stream)?;
    let known = state.objects.streams.get(stream)?;
    let (context, priority) = (known.context, shape.priority.or(Some(known.priority)));
    let shape = Shape { priority, ..*shape };
    // SAFETY: the caller's promise.
    let (work, function) =
        unsafe { state.kernel(process, function, context, &shape, arguments, extra) }?;
    state.submit(stream, work, function)?;
    process.kick();
    Ok(())
}

/// Reads the attributes of an extended launch. Events to be recorded at its end come back.
///
/// # Safety
/// The list has as many attributes as it says.
pub(super) unsafe fn attributes(
    config: &CUlaunchConfig,
    shape: &mut Shape,
) -> Answer<Vec<cuda_sys::CUevent>> {
    use CUlaunchAttributeID as A;
    let mut events = Vec::new();
    if config.numAttrs > 0 && config.attrs.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for index in 0..config.numAttrs as usize {
        // SAFETY: the caller's promise.
        let attribute = unsafe { &*config.attrs.add(index) };
        // SAFETY: the id says which part of the union is set.
        unsafe {
            match attribute.id {
                A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
                    shape.cooperative = attribute.value.cooperative != 0;
                }
                A::CU_LAUNCH_ATTRIBUTE_PRIORITY => shape.priority = Some(attribute.value.priority),
                A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                    let size = attribute.value.clusterDim;
                    shape.cluster = Some([size.x, size.y, size.z]);
                }
                A::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT => {
                    events.push(attribute.value.programmaticEvent.event);
                }
                A::CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => {
                    events.push(attribute.value.launchCompletionEvent.event);
                }
                A::CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => {
                    return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
                }
                // Attributes that allow the device to begin earlier or run faster are ignored.
                id if id.0 <= A::CU_LAUNCH_ATTRIBUTE_SHARED_MEMORY_MODE.0 => {}
                _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
            }
        }
    }
    Ok(events)
}

functions! {
    Device fn cuLaunchKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        arguments: *mut *mut c_void, extra: *mut *mut c_void
    ) {
        let shape = Shape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        launch(function, &shape, stream, arguments, extra)
    }
    Device fn cuLaunchCooperativeKernel(
        function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint,
        block_y: c_uint, block_z: c_uint, shared: c_uint, stream: CUstream,
        arguments: *mut *mut c_void
    ) {
        let shape = Shape::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared);
        let shape = Shape { cooperative: true, ..shape };
        launch(function, &shape, stream, arguments, core::ptr::null_mut())
    }
    Device fn cuLaunchKernelEx(
        config: *const CUlaunchConfig, function: CUfunction, arguments: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        if config.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let config = &*config;
        let mut shape = Shape::new(
            [config.gridDimX, config.gridDimY, config.gridDimZ],
            [config.blockDimX, config.blockDimY, config.blockDimZ],
            config.sharedMemBytes,
        );
        let events = attributes(config, &mut shape)?;
        launch(function, &shape, config.hStream, arguments, extra)?;
        for event in events {
            record(event, config.hStream, 0)?;
        }
        Ok(())
    }
}
