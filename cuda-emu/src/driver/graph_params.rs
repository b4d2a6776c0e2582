//! What the nodes of a graph do, as the caller describes it.

use cuda_sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUdeviceptr, CUevent, CUgraphExec, CUgraphNode,
    CUgraphNodeType, CUresult,
};

use super::call::{Answer, functions, process, put};
use super::copy_shaped::cuboid;
use super::launch::Shape;
use super::objects::{handle, number};
use super::process::State;
use super::work::{Fill, UserData, Work};

/// The newer form of a kernel's description.
///
/// # Safety
/// `params` is null or valid for the read.
pub(super) unsafe fn kernel_params(
    params: *const CUDA_KERNEL_NODE_PARAMS_v1,
) -> Answer<CUDA_KERNEL_NODE_PARAMS> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let params = unsafe { params.read() };
    Ok(CUDA_KERNEL_NODE_PARAMS {
        func: params.func,
        gridDimX: params.gridDimX,
        gridDimY: params.gridDimY,
        gridDimZ: params.gridDimZ,
        blockDimX: params.blockDimX,
        blockDimY: params.blockDimY,
        blockDimZ: params.blockDimZ,
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
        ..CUDA_KERNEL_NODE_PARAMS::default()
    })
}

/// The work of a kernel node, and the function's handle. The arguments are copied now.
///
/// # Safety
/// The description's arguments are as a launch takes them.
pub(super) unsafe fn kernel_work(
    state: &mut State,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Answer<(Work, u64)> {
    let process = process()?;
    let function = if params.func.is_null() { params.kern.cast() } else { params.func };
    let context = match state.objects.functions.get(number(function)) {
        Ok(function) => function.context,
        Err(_) if !params.ctx.is_null() => number(params.ctx),
        Err(_) => state.current()?,
    };
    let shape = Shape {
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared: params.sharedMemBytes,
        cooperative: false,
    };
    // SAFETY: the caller's promise.
    unsafe { state.kernel(process, function, context, &shape, params.kernelParams, params.extra) }
}

/// # Safety
/// `params` is null or valid for the read.
pub(super) unsafe fn copy_work(params: *const CUDA_MEMCPY3D) -> Answer<Work> {
    // SAFETY: the caller's promise.
    let (mut copy, from, to) = unsafe { cuboid(params) }?;
    if !copy.is_empty() {
        super::copy::check(process()?, &mut copy, from, to)?;
    }
    Ok(Work::Copy(copy))
}

/// # Safety
/// `params` is null or valid for the read.
pub(super) unsafe fn fill_work(params: *const CUDA_MEMSET_NODE_PARAMS) -> Answer<Work> {
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
    super::fill::check(&fill)?;
    Ok(Work::Fill(fill))
}

/// # Safety
/// `params` is null or valid for the read.
pub(super) unsafe fn host_work(params: *const CUDA_HOST_NODE_PARAMS) -> Answer<Work> {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let params = unsafe { params.read() };
    let function = params.fn_.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
    Ok(Work::Host(function, UserData(params.userData)))
}

/// Replaces what a node does.
fn set(node: CUgraphNode, kind: CUgraphNodeType, work: Work, function: u64) -> Answer {
    let mut state = process()?.lock();
    let node = state.objects.nodes.get_mut(number(node))?;
    if node.kind != kind {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    (node.work, node.function) = (work, function);
    Ok(())
}

/// Replaces what a node's step in an executable graph does.
fn set_exec(exec: CUgraphExec, node: CUgraphNode, kind: CUgraphNodeType, work: Work) -> Answer {
    let mut state = process()?.lock();
    state.set_step(number(exec), number(node), kind, |step| step.work = work)
}

/// The event of a node, or a node's new event.
fn event_of(node: CUgraphNode, kind: CUgraphNodeType, new: Option<CUevent>) -> Answer<CUevent> {
    let mut state = process()?.lock();
    if let Some(new) = new {
        state.objects.events.get(number(new))?;
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

fn set_exec_event(
    exec: CUgraphExec,
    node: CUgraphNode,
    kind: CUgraphNodeType,
    event: CUevent,
) -> Answer {
    let mut state = process()?.lock();
    state.objects.events.get(number(event))?;
    state.set_step(number(exec), number(node), kind, |step| step.subject = number(event))
}

const KERNEL: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL;
const MEMCPY: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY;
const MEMSET: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET;
const HOST: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST;
const RECORD: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD;
const WAIT: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT;

/// # Safety
/// As [`kernel_work`].
unsafe fn set_kernel(node: CUgraphNode, params: &CUDA_KERNEL_NODE_PARAMS) -> Answer {
    let mut state = process()?.lock();
    // SAFETY: the caller's promise.
    let (work, function) = unsafe { kernel_work(&mut state, params) }?;
    drop(state);
    set(node, KERNEL, work, function)
}

/// # Safety
/// As [`kernel_work`].
unsafe fn set_exec_kernel(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: &CUDA_KERNEL_NODE_PARAMS,
) -> Answer {
    let mut state = process()?.lock();
    // SAFETY: the caller's promise.
    let (work, function) = unsafe { kernel_work(&mut state, params) }?;
    state.set_step(number(exec), number(node), KERNEL, |step| {
        (step.work, step.function) = (work, function);
    })
}

functions! {
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
            Work::Fill(fill) => put(params, CUDA_MEMSET_NODE_PARAMS {
                dst: fill.at,
                pitch: fill.pitch,
                value: fill.value,
                elementSize: fill.size.into(),
                width: fill.width,
                height: fill.rows,
            }),
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
    Device fn cuGraphMemFreeNodeGetParams(node: CUgraphNode, address: *mut CUdeviceptr) {
        let state = process()?.lock();
        let node = state.objects.nodes.get(number(node))?;
        match node.kind {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => put(address, node.subject),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}
