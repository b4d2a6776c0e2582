//! The parameters of a graph's nodes.

use core::ffi::{c_int, c_void};
use std::sync::Arc;

use cuda_sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUevent, CUgraph, CUgraphExec, CUgraphNode,
    CUgraphNodeType, CUkernelNodeAttrID, CUkernelNodeAttrValue, CUmemorytype, CUresult,
};

use super::run::find_list;
use crate::driver::bridge::{DeviceInfo, KernelWork, Launch};
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::memory::copy_shaped::cuboid;
use crate::driver::module::cluster::{of_launch, of_node, required};
use crate::driver::module::launch::Shape;
use crate::driver::objects::{Settings, handle, number};
use crate::driver::process::{Process, State};
use crate::driver::stream::GREATEST_PRIORITY;
use crate::driver::stream::work::{Copy, Fill, Source, UserData, Work, host};
use crate::driver::texture::corner_of;

/// A kernel's description in another version of its structure: the fields that all versions have, and `more`.
macro_rules! kernel_node {
    ($version:ident from $params:ident $(, $($more:tt)*)?) => {
        $version {
            func: $params.func,
            gridDimX: $params.gridDimX,
            gridDimY: $params.gridDimY,
            gridDimZ: $params.gridDimZ,
            blockDimX: $params.blockDimX,
            blockDimY: $params.blockDimY,
            blockDimZ: $params.blockDimZ,
            sharedMemBytes: $params.sharedMemBytes,
            kernelParams: $params.kernelParams,
            extra: $params.extra,
            $($($more)*)?
        }
    };
}
pub(super) use kernel_node;

/// Returns the newer form of a kernel's description.
///
/// # Safety
/// `params` is null or valid for the read.
pub(in crate::driver) unsafe fn kernel_params(
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> Answer<CUDA_KERNEL_NODE_PARAMS> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let params = unsafe { params.read() };
    Ok(kernel_node!(CUDA_KERNEL_NODE_PARAMS from params, ..CUDA_KERNEL_NODE_PARAMS::default()))
}

/// The attributes of a kernel's node, which stay when its parameters change.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    cooperative: bool,
    priority: Option<i32>,
    /// The clusters that the node was given, not those that its kernel requires.
    cluster: Option<[u32; 3]>,
}

impl Kept {
    /// Returns the attributes of a node's work.
    fn of(state: &State, work: &Work, function: u64) -> Self {
        let Work::Kernel(kernel) = work else { return Self::default() };
        let launch = &kernel.launch;
        let settings = state.objects.functions.get(function).map(|known| known.settings);
        let attributes = kernel.program.attributes(launch.entry);
        let cluster = match required(&attributes, &settings.unwrap_or_default()) {
            Ok(None) => launch.cluster,
            _ => None,
        };
        Self { cooperative: launch.cooperative, priority: Some(kernel.priority), cluster }
    }
}

/// Returns the work of a new kernel node, and the function's handle. The arguments are copied now.
///
/// # Safety
/// The description's arguments are as a launch takes them.
pub(in crate::driver) unsafe fn kernel_work(
    state: &mut State,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Answer<(Work, u64)> {
    // SAFETY: the caller's promise.
    unsafe { changed_work(state, params, Kept::default(), true) }
}

/// Returns the work like [`kernel_work`], with a node's attributes; `node` says whether the node may get clusters later.
///
/// # Safety
/// As [`kernel_work`].
unsafe fn changed_work(
    state: &mut State,
    params: &CUDA_KERNEL_NODE_PARAMS,
    Kept { cooperative, priority, cluster }: Kept,
    node: bool,
) -> Answer<(Work, u64)> {
    let process = process()?;
    let function = if params.func.is_null() { params.kern.cast() } else { params.func };
    let context = match state.objects.functions.get(number(function)) {
        Ok(function) => function.context,
        Err(_) if !params.ctx.is_null() => number(params.ctx),
        Err(_) => state.current()?,
    };
    let shape = Shape::new(
        [params.gridDimX, params.gridDimY, params.gridDimZ],
        [params.blockDimX, params.blockDimY, params.blockDimZ],
        params.sharedMemBytes,
    );
    let shape = Shape { cooperative, priority, cluster, node, ..shape };
    // SAFETY: the caller's promise.
    unsafe { state.kernel(process, function, context, &shape, params.kernelParams, params.extra) }
}

/// # Safety
/// `params` is null or valid for the read.
pub(in crate::driver) unsafe fn copy_work(params: *const CUDA_MEMCPY3D) -> Answer<Work> {
    // SAFETY: the caller's promise.
    let (mut copy, from, to) = unsafe { cuboid(params) }?;
    if !copy.is_empty() {
        crate::driver::memory::copy::check(process()?, &mut copy, from, to)?;
    }
    Ok(Work::Copy(copy))
}

/// # Safety
/// `params` is null or valid for the read.
pub(in crate::driver) unsafe fn fill_work(params: *const CUDA_MEMSET_NODE_PARAMS) -> Answer<Work> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let params = unsafe { params.read() };
    if ![1, 2, 4].contains(&params.elementSize) || params.width == 0 || params.height == 0 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let fill = Fill {
        at: params.dst,
        value: params.value,
        size: params.elementSize as u8,
        width: params.width,
        rows: params.height,
        pitch: params.pitch,
    };
    crate::driver::memory::fill::check(&fill)?;
    Ok(Work::Fill(fill))
}

/// # Safety
/// `params` is null or valid for the read.
pub(in crate::driver) unsafe fn host_work(params: *const CUDA_HOST_NODE_PARAMS) -> Answer<Work> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let params = unsafe { params.read() };
    let function = params.fn_.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    Ok(Work::Host(function, UserData(params.userData)))
}

/// A kernel's arguments as they are returned to the caller: valid as long as the node is not changed.
pub(in crate::driver) struct Told {
    kernel: Arc<KernelWork>,
    /// The addresses of the arguments in it.
    arguments: Vec<usize>,
}

/// Returns the parameters of a kernel node.
pub(in crate::driver) fn told_kernel(
    state: &mut State,
    node: u64,
) -> Answer<CUDA_KERNEL_NODE_PARAMS> {
    let node = state.objects.nodes.get_mut(node)?;
    let Work::Kernel(kernel) = &node.work else {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    let start = kernel.launch.params.as_ptr();
    let layout = kernel.program.params(kernel.launch.entry);
    let place = |&(offset, _): &(usize, usize)| start.wrapping_add(offset).expose_provenance();
    // The parameters are made once, so that earlier pointers to them stay valid.
    let told = node.told.get_or_insert_with(|| {
        let arguments = layout.iter().map(place).collect();
        Arc::new(Told { kernel: kernel.clone(), arguments })
    });
    let Launch { entry, grid, block, shared, .. } = &told.kernel.launch;
    let attributes = told.kernel.program.attributes(*entry);
    let grid = match attributes.cluster.filter(|_| attributes.blocks_are_clusters) {
        // The parameters count clusters.
        Some(size) => core::array::from_fn(|at| grid[at] / size[at].max(1)),
        None => *grid,
    };
    let arguments = match told.arguments.as_slice() {
        [] => core::ptr::null_mut(),
        list => list.as_ptr().cast::<*mut c_void>().cast_mut(),
    };
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func: handle(node.function),
        gridDimX: grid[0],
        gridDimY: grid[1],
        gridDimZ: grid[2],
        blockDimX: block[0],
        blockDimY: block[1],
        blockDimZ: block[2],
        sharedMemBytes: *shared,
        kernelParams: arguments,
        ..CUDA_KERNEL_NODE_PARAMS::default()
    })
}

/// Returns the parameters of a copy's node, or equivalent ones: offsets are part of the addresses.
pub(in crate::driver) fn told_copy(process: &Process, copy: &Copy) -> CUDA_MEMCPY3D {
    let kind = |address: u64| match process.space.find_known(address) {
        Some(region) if !region.kind.on_host() => CUmemorytype::CU_MEMORYTYPE_DEVICE,
        _ => CUmemorytype::CU_MEMORYTYPE_HOST,
    };
    let from = match &copy.from {
        Source::At(address, _) => *address,
        Source::Bytes(bytes) => bytes.as_ptr().expose_provenance() as u64,
    };
    let rows = |(pitch, slice): (usize, usize)| slice.checked_div(pitch).unwrap_or(copy.rows);
    let mut told = CUDA_MEMCPY3D {
        srcMemoryType: kind(from),
        srcHost: host::<c_void>(from).cast_const(),
        srcDevice: from,
        srcPitch: copy.from_pitch.0,
        srcHeight: rows(copy.from_pitch),
        dstMemoryType: kind(copy.to),
        dstHost: host(copy.to),
        dstDevice: copy.to,
        dstPitch: copy.to_pitch.0,
        dstHeight: rows(copy.to_pitch),
        WidthInBytes: copy.width,
        Height: copy.rows,
        Depth: copy.slices,
        ..CUDA_MEMCPY3D::default()
    };
    if let Some((array, at)) = corner_of(process, from) {
        told.srcMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        (told.srcHost, told.srcDevice, told.srcArray) = (core::ptr::null(), 0, handle(array));
        (told.srcXInBytes, told.srcY, told.srcZ) = (at.x, at.y, at.z);
        (told.srcPitch, told.srcHeight) = (0, 0);
    }
    if let Some((array, at)) = corner_of(process, copy.to) {
        told.dstMemoryType = CUmemorytype::CU_MEMORYTYPE_ARRAY;
        (told.dstHost, told.dstDevice, told.dstArray) = (core::ptr::null_mut(), 0, handle(array));
        (told.dstXInBytes, told.dstY, told.dstZ) = (at.x, at.y, at.z);
        (told.dstPitch, told.dstHeight) = (0, 0);
    }
    told
}

/// Returns the parameters of a memset's node.
pub(in crate::driver) fn told_fill(fill: &Fill) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst: fill.at,
        pitch: fill.pitch,
        value: fill.value,
        elementSize: fill.size.into(),
        width: fill.width,
        height: fill.rows,
    }
}

/// Gives a kernel's node the attributes of another.
fn copy_attributes(state: &mut State, process: &Process, to: u64, from: u64) -> Answer {
    let from = state.objects.nodes.get(from)?;
    let Work::Kernel(_) = &from.work else { return Err(CUresult::CUDA_ERROR_INVALID_VALUE) };
    let kept = Kept::of(state, &from.work, from.function);
    let function = state.objects.nodes.get(to)?.function;
    let settings = state.objects.functions.get(function).map(|known| known.settings);
    let Work::Kernel(kernel) = &mut state.objects.nodes.get_mut(to)?.work else {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    };
    let (_, info) = process.device(kernel.device as c_int)?;
    let attributes = kernel.program.attributes(kernel.launch.entry);
    let cluster = of_node(kept.cluster, kernel.launch.grid, &attributes, &settings?, info)?;
    let kernel = Arc::make_mut(kernel);
    kernel.priority = kept.priority.unwrap_or(0);
    (kernel.launch.cooperative, kernel.launch.cluster) = (kept.cooperative, cluster);
    Ok(())
}

/// Returns an attribute of a kernel's node, to be read.
fn attribute(kernel: &KernelWork, which: CUkernelNodeAttrID) -> Answer<CUkernelNodeAttrValue> {
    use CUkernelNodeAttrID as A;
    let mut value = CUkernelNodeAttrValue::default();
    match which {
        A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => value.cooperative = kernel.launch.cooperative.into(),
        A::CU_LAUNCH_ATTRIBUTE_PRIORITY => value.priority = kernel.priority,
        A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            let [x, y, z] = kernel.launch.cluster.unwrap_or([1; 3]);
            (value.clusterDim.x, value.clusterDim.y, value.clusterDim.z) = (x, y, z);
        }
        A::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
        | A::CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
        | A::CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
        | A::CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {}
        _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
    }
    Ok(value)
}

/// Changes an attribute of a kernel's node.
///
/// # Safety
/// The part of the value is set that the attribute says.
unsafe fn set_attribute(
    kernel: &mut KernelWork,
    which: CUkernelNodeAttrID,
    value: &CUkernelNodeAttrValue,
    (settings, info): (&Settings, &DeviceInfo),
) -> Answer {
    use CUkernelNodeAttrID as A;
    attribute(kernel, which)?;
    match which {
        A::CU_LAUNCH_ATTRIBUTE_COOPERATIVE => {
            // SAFETY: the caller's promise.
            kernel.launch.cooperative = unsafe { value.cooperative } != 0;
        }
        A::CU_LAUNCH_ATTRIBUTE_PRIORITY => {
            // SAFETY: the caller's promise.
            kernel.priority = unsafe { value.priority }.clamp(GREATEST_PRIORITY, 0);
        }
        A::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            // SAFETY: the caller's promise.
            let size = unsafe { value.clusterDim };
            let (launch, asked) = (&mut kernel.launch, Some([size.x, size.y, size.z]));
            let attributes = kernel.program.attributes(launch.entry);
            launch.cluster = of_launch(asked, launch.grid, &attributes, settings, info)?;
        }
        // Hints about caches and domains, which this device does not have.
        _ => {}
    }
    Ok(())
}

/// Replaces the work of a node.
pub(in crate::driver) fn set(
    node: CUgraphNode,
    kind: CUgraphNodeType,
    work: Work,
    function: u64,
) -> Answer {
    let mut state = process()?.lock();
    let node = state.objects.nodes.get_mut(number(node))?;
    if node.kind != kind {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    (node.work, node.function, node.told) = (work, function, None);
    Ok(())
}

/// Replaces the work of a node's step in an executable graph.
pub(in crate::driver) fn set_exec(
    exec: CUgraphExec,
    node: CUgraphNode,
    kind: CUgraphNodeType,
    work: Work,
) -> Answer {
    let mut state = process()?.lock();
    state.set_step(number(exec), number(node), kind, |step| step.work = work)
}

/// Returns the event of a node, or a node's new event.
pub(in crate::driver) fn event_of(
    node: CUgraphNode,
    kind: CUgraphNodeType,
    new: Option<CUevent>,
) -> Answer<CUevent> {
    let mut state = process()?.lock();
    if let Some(new) = new {
        state.node_event(number(new))?;
    }
    let node = state.objects.nodes.get_mut(number(node))?;
    if node.kind != kind {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(new) = new {
        node.subject = number(new);
    }
    Ok(handle(node.subject))
}

pub(in crate::driver) fn set_exec_event(
    exec: CUgraphExec,
    node: CUgraphNode,
    kind: CUgraphNodeType,
    event: CUevent,
) -> Answer {
    let mut state = process()?.lock();
    state.node_event(number(event))?;
    state.set_step(number(exec), number(node), kind, |step| step.subject = number(event))
}

pub(in crate::driver) const KERNEL: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
pub(in crate::driver) const MEMCPY: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY;
pub(in crate::driver) const MEMSET: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET;
pub(in crate::driver) const HOST: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST;
pub(in crate::driver) const RECORD: CUgraphNodeType =
    CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD;
pub(in crate::driver) const WAIT: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT;

/// # Safety
/// As [`kernel_work`].
pub(in crate::driver) unsafe fn set_kernel(
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Answer {
    let mut state = process()?.lock();
    let known = state.objects.nodes.get(number(node))?;
    let kept = Kept::of(&state, &known.work, known.function);
    // SAFETY: the caller's promise.
    let (work, function) = unsafe { changed_work(&mut state, params, kept, true) }?;
    drop(state);
    set(node, KERNEL, work, function)
}

/// # Safety
/// As [`kernel_work`].
pub(in crate::driver) unsafe fn set_exec_kernel(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Answer {
    let mut state = process()?.lock();
    let steps = &state.objects.execs.get(number(exec))?.steps;
    let found = find_list(steps, number(node)).map(|(steps, at)| &steps[at]);
    let kept = found.map(|step| Kept::of(&state, &step.work, step.function));
    let kept = kept.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the caller's promise.
    let (work, function) = unsafe { changed_work(&mut state, params, kept, false) }?;
    state.set_step(number(exec), number(node), KERNEL, |step| {
        (step.work, step.function) = (work, function);
    })
}

functions! {
    Device fn cuGraphKernelNodeGetParams(
        node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS_v1
    ) {
        let told = told_kernel(&mut process()?.lock(), number(node))?;
        put(params, kernel_node!(CUDA_KERNEL_NODE_PARAMS_v1 from told))
    }
    Device fn cuGraphKernelNodeGetParams_v2(
        node: CUgraphNode, params: *mut CUDA_KERNEL_NODE_PARAMS
    ) { put(params, told_kernel(&mut process()?.lock(), number(node))?) }
    Device fn cuGraphKernelNodeGetAttribute(
        node: CUgraphNode, which: CUkernelNodeAttrID, value: *mut CUkernelNodeAttrValue
    ) {
        match &process()?.lock().objects.nodes.get(number(node))?.work {
            Work::Kernel(kernel) => put(value, attribute(kernel, which)?),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphKernelNodeSetAttribute(
        node: CUgraphNode, which: CUkernelNodeAttrID, value: *const CUkernelNodeAttrValue
    ) {
        let process = process()?;
        let mut state = process.lock();
        let function = state.objects.nodes.get(number(node))?.function;
        let settings = state.objects.functions.get(function).map(|known| known.settings);
        match &mut state.objects.nodes.get_mut(number(node))?.work {
            Work::Kernel(kernel) if !value.is_null() => {
                let (_, info) = process.device(kernel.device as c_int)?;
                set_attribute(Arc::make_mut(kernel), which, &*value, (&settings?, info))
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) {
        let process = process()?;
        copy_attributes(&mut process.lock(), process, number(to), number(from))
    }
    Device fn cuGraphKernelNodeSetParams(
        node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1
    ) { set_kernel(node, &kernel_params(params)?) }
    Device fn cuGraphKernelNodeSetParams_v2(
        node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        if params.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        set_kernel(node, &*params)
    }
    Device fn cuGraphExecKernelNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS_v1
    ) { set_exec_kernel(exec, node, &kernel_params(params)?) }
    Device fn cuGraphExecKernelNodeSetParams_v2(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        if params.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        set_exec_kernel(exec, node, &*params)
    }
    Device fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: *mut CUDA_MEMCPY3D) {
        let process = process()?;
        match &process.lock().objects.nodes.get(number(node))?.work {
            Work::Copy(copy) => put(params, told_copy(process, copy)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: *const CUDA_MEMCPY3D) {
        set(node, MEMCPY, copy_work(params)?, 0)
    }
    Device fn cuGraphExecMemcpyNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMCPY3D, _context: CUcontext
    ) { set_exec(exec, node, MEMCPY, copy_work(params)?) }
    Device fn cuGraphMemsetNodeGetParams(
        node: CUgraphNode, params: *mut CUDA_MEMSET_NODE_PARAMS
    ) {
        let state = process()?.lock();
        match &state.objects.nodes.get(number(node))?.work {
            Work::Fill(fill) => put(params, told_fill(fill)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphMemsetNodeSetParams(
        node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS
    ) { set(node, MEMSET, fill_work(params)?, 0) }
    Device fn cuGraphExecMemsetNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_MEMSET_NODE_PARAMS,
        _context: CUcontext
    ) { set_exec(exec, node, MEMSET, fill_work(params)?) }
    Device fn cuGraphHostNodeGetParams(node: CUgraphNode, params: *mut CUDA_HOST_NODE_PARAMS) {
        let state = process()?.lock();
        match &state.objects.nodes.get(number(node))?.work {
            Work::Host(function, data) => {
                put(params, CUDA_HOST_NODE_PARAMS { fn_: Some(*function), userData: data.0 })
            }
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphHostNodeSetParams(node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS) {
        set(node, HOST, host_work(params)?, 0)
    }
    Device fn cuGraphExecHostNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: *const CUDA_HOST_NODE_PARAMS
    ) { set_exec(exec, node, HOST, host_work(params)?) }
    Device fn cuGraphExecChildGraphNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, child: CUgraph
    ) { process()?.lock().update_child(number(exec), number(node), number(child)) }
    Device fn cuGraphEventRecordNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, event_of(node, RECORD, None)?)
    }
    Device fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) {
        event_of(node, RECORD, Some(event)).map(drop)
    }
    Device fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: *mut CUevent) {
        put(event, event_of(node, WAIT, None)?)
    }
    Device fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) {
        event_of(node, WAIT, Some(event)).map(drop)
    }
    Device fn cuGraphExecEventRecordNodeSetEvent(
        exec: CUgraphExec, node: CUgraphNode, event: CUevent
    ) { set_exec_event(exec, node, RECORD, event) }
    Device fn cuGraphExecEventWaitNodeSetEvent(
        exec: CUgraphExec, node: CUgraphNode, event: CUevent
    ) { set_exec_event(exec, node, WAIT, event) }
}
