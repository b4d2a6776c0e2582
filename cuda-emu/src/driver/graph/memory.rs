//! Memory of graphs: allocation and free nodes. Its address is fixed when the node is made; memory
//! is there from the allocation to the free of each launch.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use cuda_sys::{
    CUDA_MEM_ALLOC_NODE_PARAMS, CUdevice, CUdeviceptr, CUgraph, CUgraphMem_attribute, CUgraphNode,
    CUgraphNodeType, CUmemAccessDesc, CUmemAllocationType, CUmemPoolProps, CUresult, cuuint64_t,
};

use super::{Step, list};
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::memory::ALIGN;
use crate::driver::memory::pool_location::Place;
use crate::driver::objects::{handle, number};
use crate::driver::process::{GraphBytes, Process, State};
use crate::driver::stream::work::{Outcome, Work};
use crate::space::{Kind, Region, Space};

/// The memory of a graph's allocation node. Its address is reserved as long as this lives.
pub(in crate::driver) struct GraphMemory {
    space: Arc<Space>,
    region: Region,
    /// Where it lies, and the bytes that were asked for.
    place: Place,
    bytes: u64,
}

impl GraphMemory {
    pub(in crate::driver) fn start(&self) -> u64 {
        self.region.start
    }

    pub(in crate::driver) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(in crate::driver) fn device(&self) -> u32 {
        self.region.device
    }

    /// Returns whether it is there now.
    fn is_there(&self) -> bool {
        self.space.find(self.region.start).is_some_and(|found| found.id == self.region.id)
    }

    /// Allocates the memory of an allocation node.
    pub(in crate::driver) fn map(&self, process: &Process) -> Outcome {
        if self.space.map(&self.region) {
            let used = process.lock().graph_memory_used(self.region.device);
            if let Some(bytes) = process.graph_bytes.get(self.region.device as usize) {
                bytes.note(used);
            }
            return Outcome::Done;
        }
        self.fault("a graph allocates memory that is not freed yet")
    }

    /// Frees the memory of a free node.
    pub(in crate::driver) fn unmap(&self) -> Outcome {
        if self.space.unmap(&self.region) {
            return Outcome::Done;
        }
        self.fault("memory of a graph is freed that is not allocated")
    }

    /// Frees it if it is there.
    pub(in crate::driver) fn clear(&self) {
        self.space.unmap(&self.region);
    }

    fn fault(&self, what: &str) -> Outcome {
        let report = format!("{what}: {:#x}", self.region.start);
        Outcome::Fault(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS, report)
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        self.space.give_up(&self.region);
    }
}

impl State {
    /// Adds an allocation node, and gives it its address.
    pub(in crate::driver) fn add_allocation(
        &mut self,
        process: &Process,
        graph: u64,
        bytes: u64,
        (place, device): (Place, u32),
        before: &[u64],
    ) -> Answer<(u64, u64)> {
        if self.objects.graphs.get(graph)?.body {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let full = CUresult::CUDA_ERROR_OUT_OF_MEMORY;
        if process.space.used(device).saturating_add(bytes) > process.config.memory {
            return Err(full);
        }
        let space = process.space.clone();
        let region = space.set_aside(bytes, ALIGN, place.memory(), device).map_err(|_| full)?;
        let memory = Arc::new(GraphMemory { space, region, place, bytes });
        self.objects.graph_memory.retain(|_, known| known.strong_count() > 0);
        self.objects.graph_memory.insert(region.start, Arc::downgrade(&memory));
        let node = self.add_node(graph, Work::Map(memory), before)?;
        Ok((node, region.start))
    }

    /// Adds a free node for memory of this graph, or for what another graph has left.
    pub(in crate::driver) fn add_free(
        &mut self,
        graph: u64,
        address: u64,
        before: &[u64],
    ) -> Answer<u64> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let known = self.objects.graphs.get(graph)?;
        if known.body {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        for &node in &known.nodes {
            if let Work::Unmap(memory) = &self.objects.nodes.get(node)?.work
                && memory.start() == address
            {
                return Err(invalid);
            }
        }
        let memory = self.objects.graph_memory.get(&address).and_then(Weak::upgrade);
        self.add_node(graph, Work::Unmap(memory.ok_or(invalid)?), before)
    }

    /// Returns whether a graph has nodes of memory: much cannot be done with it then.
    pub(in crate::driver) fn has_memory(&self, graph: u64) -> Answer<bool> {
        let nodes = &self.objects.graphs.get(graph)?.nodes;
        Ok(nodes.iter().filter_map(|&node| self.objects.nodes.get(node).ok()).any(|node| {
            matches!(node.work, Work::Map(_) | Work::Unmap(_))
                || node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH
                    && self.has_memory(node.subject).unwrap_or(false)
        }))
    }

    /// Notes the memory that a launch allocates and frees, before it is enqueued. Returns the memory that it has to
    /// free at its beginning.
    ///
    /// # Errors
    /// If it would allocate memory that is not freed yet, or free memory that is not allocated.
    pub(in crate::driver) fn launch_memory(
        &mut self,
        steps: &[Step],
        auto_free: bool,
    ) -> Answer<Vec<Arc<GraphMemory>>> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let (mut allocated, mut left) = (Vec::new(), Vec::new());
        let mut freed = Vec::new();
        for step in steps {
            match &step.work {
                Work::Map(memory) => allocated.push(memory),
                Work::Unmap(memory) => freed.push(memory.start()),
                _ => {}
            }
        }
        let outstanding = &mut self.objects.outstanding;
        for memory in &allocated {
            if outstanding.contains_key(&memory.start()) {
                if !auto_free {
                    return Err(invalid);
                }
                left.push(Arc::clone(memory));
            }
        }
        let own = |start: &u64| allocated.iter().any(|memory| memory.start() == *start);
        if freed.iter().any(|start| !own(start) && !outstanding.contains_key(start)) {
            return Err(invalid);
        }
        for memory in &allocated {
            outstanding.insert(memory.start(), Arc::clone(memory));
        }
        for start in &freed {
            outstanding.remove(start);
        }
        Ok(left)
    }
}

/// Returns where an allocation with these properties lies, and the device that counts it.
///
/// # Safety
/// `access` is null or valid for the read of `count` entries.
unsafe fn device_of(
    process: &Process,
    properties: &CUmemPoolProps,
    access: *const CUmemAccessDesc,
    count: usize,
) -> Answer<(Place, u32)> {
    if properties.handleTypes.0 != 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: a reference is valid for the read.
    let place = unsafe { Place::of(&raw const properties.location, properties.allocType) }?;
    // A graph has no memory of the host alone.
    if place.memory() == Kind::Pinned {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if count > 0 && access.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: the caller's promise.
        let other = unsafe {
            let location = &raw const (*access.add(index)).location;
            Place::of(location, CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED)
        }?;
        if other.memory() != Kind::Pool {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        other.counted(process)?;
    }
    Ok((place, place.counted(process)?))
}

/// Adds an allocation node as its parameters describe it, and writes the address to them.
///
/// # Safety
/// `params` is null or valid for the read and the write, and so is the list in it.
pub(in crate::driver) unsafe fn add_described(
    graph: u64,
    before: &[u64],
    params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> Answer<u64> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let process = process()?;
    // SAFETY: not null, and the caller's promise.
    let (bytes, place) = unsafe {
        let params = &*params;
        let (access, count) = (params.accessDescs, params.accessDescCount);
        (params.bytesize, device_of(process, &params.poolProps, access, count)?)
    };
    if bytes == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let mut state = process.lock();
    let (node, address) = state.add_allocation(process, graph, bytes as u64, place, before)?;
    // SAFETY: as above.
    unsafe { (*params).dptr = address };
    Ok(node)
}

/// Returns the parameters of an allocation node.
pub(in crate::driver) fn describe(memory: &GraphMemory) -> CUDA_MEM_ALLOC_NODE_PARAMS {
    CUDA_MEM_ALLOC_NODE_PARAMS {
        poolProps: CUmemPoolProps {
            allocType: memory.place.kind(),
            location: memory.place.location(),
            ..CUmemPoolProps::default()
        },
        accessDescs: core::ptr::null(),
        accessDescCount: 0,
        bytesize: memory.bytes() as usize,
        dptr: memory.start(),
    }
}

functions! {
    Device fn cuGraphAddMemAllocNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *mut CUDA_MEM_ALLOC_NODE_PARAMS
    ) {
        if node.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(node, handle(add_described(number(graph), &list(before, count)?, params)?))
    }
    Device fn cuGraphAddMemFreeNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        address: CUdeviceptr
    ) {
        if node.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let before = list(before, count)?;
        put(node, handle(process()?.lock().add_free(number(graph), address, &before)?))
    }
    Device fn cuGraphMemAllocNodeGetParams(
        node: CUgraphNode, params: *mut CUDA_MEM_ALLOC_NODE_PARAMS
    ) {
        match &process()?.lock().objects.nodes.get(number(node))?.work {
            Work::Map(memory) => put(params, describe(memory)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) {
        match &process()?.lock().objects.nodes.get(number(node))?.work {
            Work::Unmap(memory) => put(address, memory.start()),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Init fn cuDeviceGraphMemTrim(device: CUdevice) {
        let process = process()?;
        let (device, _) = process.device(device)?;
        let used = process.lock().graph_memory_used(device);
        let bytes = graph_bytes(process, device)?;
        bytes.reserved.store(used, Ordering::Relaxed);
        Ok(())
    }
    Init fn cuDeviceGetGraphMemAttribute(
        device: CUdevice, which: CUgraphMem_attribute, value: *mut core::ffi::c_void
    ) {
        use CUgraphMem_attribute as A;
        let process = process()?;
        let (device, _) = process.device(device)?;
        let bytes = graph_bytes(process, device)?;
        let bytes = match which {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT => process.lock().graph_memory_used(device),
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => bytes.used_high.load(Ordering::Relaxed),
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT => bytes.reserved.load(Ordering::Relaxed),
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => bytes.reserved_high.load(Ordering::Relaxed),
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        };
        put(value.cast::<cuuint64_t>(), bytes)
    }
    Init fn cuDeviceSetGraphMemAttribute(
        device: CUdevice, which: CUgraphMem_attribute, value: *mut core::ffi::c_void
    ) {
        use CUgraphMem_attribute as A;
        let process = process()?;
        let (device, _) = process.device(device)?;
        // The high marks can only be reset.
        if value.is_null() || value.cast::<cuuint64_t>().read() != 0 {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let used = process.lock().graph_memory_used(device);
        let bytes = graph_bytes(process, device)?;
        match which {
            A::CU_GRAPH_MEM_ATTR_USED_MEM_HIGH => bytes.used_high.store(used, Ordering::Relaxed),
            A::CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH => {
                let reserved = bytes.reserved.load(Ordering::Relaxed);
                bytes.reserved_high.store(reserved, Ordering::Relaxed);
            }
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
}

fn graph_bytes(process: &Process, device: u32) -> Answer<&GraphBytes> {
    process.graph_bytes.get(device as usize).ok_or(CUresult::CUDA_ERROR_INVALID_DEVICE)
}

impl State {
    /// Bytes of a device's memory that graphs use now.
    fn graph_memory_used(&self, device: u32) -> u64 {
        let all = self.objects.graph_memory.values().filter_map(Weak::upgrade);
        let there = all.filter(|memory| memory.device() == device && memory.is_there());
        there.map(|memory| memory.bytes()).sum()
    }
}
