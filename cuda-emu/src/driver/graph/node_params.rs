//! Nodes of every kind through one structure: adding, changing and querying them.

use cuda_sys::{
    CUDA_CHILD_GRAPH_NODE_PARAMS, CUDA_CONDITIONAL_NODE_PARAMS, CUDA_EVENT_RECORD_NODE_PARAMS,
    CUDA_EVENT_RECORD_NODE_PARAMS_st__bindgen_ty_1, CUDA_EVENT_WAIT_NODE_PARAMS,
    CUDA_HOST_NODE_PARAMS, CUDA_HOST_NODE_PARAMS_v2, CUDA_KERNEL_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS_v3, CUDA_MEM_FREE_NODE_PARAMS, CUDA_MEMCPY_NODE_PARAMS,
    CUDA_MEMSET_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS_v2, CUgraph, CUgraphChildGraphNodeOwnership,
    CUgraphConditionalNodeType, CUgraphEdgeData, CUgraphExec, CUgraphNode, CUgraphNodeParams,
    CUgraphNodeType, CUresult,
};

use super::list;
use super::params::{
    HOST, KERNEL, MEMCPY, MEMSET, RECORD, WAIT, copy_work, event_of, fill_work, host_work,
    kernel_node, kernel_work, set, set_exec, set_exec_event, set_exec_kernel, set_kernel,
    told_copy, told_fill, told_kernel,
};
use super::{conditional, memory};
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::{handle, number};
use crate::driver::stream::work::Work;

const CHILD: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
const EMPTY: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
const ALLOCATE: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC;
const FREE: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE;
const CONDITIONAL: CUgraphNodeType = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;

fn kernel_of(params: &CUDA_KERNEL_NODE_PARAMS_v3) -> CUDA_KERNEL_NODE_PARAMS {
    kernel_node!(CUDA_KERNEL_NODE_PARAMS from params, kern: params.kern, ctx: params.ctx)
}

fn fill_of(params: &CUDA_MEMSET_NODE_PARAMS_v2) -> CUDA_MEMSET_NODE_PARAMS {
    CUDA_MEMSET_NODE_PARAMS {
        dst: params.dst,
        pitch: params.pitch,
        value: params.value,
        elementSize: params.elementSize,
        width: params.width,
        height: params.height,
    }
}

fn host_of(params: &CUDA_HOST_NODE_PARAMS_v2) -> CUDA_HOST_NODE_PARAMS {
    CUDA_HOST_NODE_PARAMS { fn_: params.fn_, userData: params.userData }
}

/// Adds a node as its parameters describe it.
///
/// # Safety
/// `node` and `params` are null or valid, `before` for the read of `count` handles; what the
/// parameters point to is as their kind takes it.
unsafe fn add(
    node: *mut CUgraphNode,
    graph: CUgraph,
    before: *const CUgraphNode,
    count: usize,
    params: *mut CUgraphNodeParams,
) -> Answer {
    if node.is_null() || params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    let graph = number(graph);
    // SAFETY: the caller's promise; the type says which part of the union is set.
    unsafe {
        let before = list(before, count)?;
        let parts = &raw mut (*params).__bindgen_anon_1;
        let plain = |work| process()?.lock().add_node(graph, work, &before);
        let new = match (*params).type_ {
            KERNEL => {
                let mut state = process()?.lock();
                let (work, function) = kernel_work(&mut state, &kernel_of(&(*parts).kernel))?;
                let new = state.add_node(graph, work, &before)?;
                state.objects.nodes.get_mut(new)?.function = function;
                new
            }
            MEMCPY => plain(copy_work(&raw const (*parts).memcpy.copyParams)?)?,
            MEMSET => plain(fill_work(&fill_of(&(*parts).memset))?)?,
            HOST => plain(host_work(&host_of(&(*parts).host))?)?,
            EMPTY => plain(Work::Nothing)?,
            CHILD => {
                let CUDA_CHILD_GRAPH_NODE_PARAMS { graph: child, ownership } = (*parts).graph;
                let moved = match ownership {
                    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE => false,
                    CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE => true,
                    _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
                };
                process()?.lock().add_child(graph, number(child), moved, &before)?
            }
            RECORD => {
                let event = number((*parts).eventRecord.event);
                process()?.lock().add_event_node(graph, event, true, &before)?
            }
            WAIT => {
                let event = number((*parts).eventWait.event);
                process()?.lock().add_event_node(graph, event, false, &before)?
            }
            ALLOCATE => {
                // The two versions of the structure are the same.
                memory::add_described(graph, &before, (&raw mut (*parts).alloc).cast())?
            }
            FREE => process()?.lock().add_free(graph, (*parts).free.dptr, &before)?,
            CONDITIONAL => {
                conditional::add_described(graph, &before, &raw mut (*parts).conditional)?
            }
            _ => return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        };
        put(node, handle(new))
    }
}

/// Replaces the work of a node.
///
/// # Safety
/// As [`add`].
unsafe fn change(node: CUgraphNode, params: *mut CUgraphNodeParams) -> Answer {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; the type says which part of the union is set.
    unsafe {
        let parts = &raw mut (*params).__bindgen_anon_1;
        match (*params).type_ {
            KERNEL => set_kernel(node, &kernel_of(&(*parts).kernel)),
            MEMCPY => set(node, MEMCPY, copy_work(&raw const (*parts).memcpy.copyParams)?, 0),
            MEMSET => set(node, MEMSET, fill_work(&fill_of(&(*parts).memset))?, 0),
            HOST => set(node, HOST, host_work(&host_of(&(*parts).host))?, 0),
            RECORD => event_of(node, RECORD, Some((*parts).eventRecord.event)).map(drop),
            WAIT => event_of(node, WAIT, Some((*parts).eventWait.event)).map(drop),
            _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    }
}

/// Replaces the work of a node's step in an executable graph.
///
/// # Safety
/// As [`add`].
unsafe fn change_exec(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: *mut CUgraphNodeParams,
) -> Answer {
    if params.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; the type says which part of the union is set.
    unsafe {
        let parts = &raw mut (*params).__bindgen_anon_1;
        match (*params).type_ {
            KERNEL => set_exec_kernel(exec, node, &kernel_of(&(*parts).kernel)),
            MEMCPY => {
                set_exec(exec, node, MEMCPY, copy_work(&raw const (*parts).memcpy.copyParams)?)
            }
            MEMSET => set_exec(exec, node, MEMSET, fill_work(&fill_of(&(*parts).memset))?),
            HOST => set_exec(exec, node, HOST, host_work(&host_of(&(*parts).host))?),
            CHILD => {
                let child = number((*parts).graph.graph);
                process()?.lock().update_child(number(exec), number(node), child)
            }
            RECORD => set_exec_event(exec, node, RECORD, (*parts).eventRecord.event),
            WAIT => set_exec_event(exec, node, WAIT, (*parts).eventWait.event),
            _ => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        }
    }
}

/// Returns the parameters of a node.
fn told(node: u64) -> Answer<CUgraphNodeParams> {
    let process = process()?;
    let mut state = process.lock();
    let kind = state.objects.nodes.get(node)?.kind;
    let mut params = CUgraphNodeParams { type_: kind, ..CUgraphNodeParams::default() };
    let parts = &mut params.__bindgen_anon_1;
    if params.type_ == KERNEL {
        let told = told_kernel(&mut state, node)?;
        parts.kernel =
            kernel_node!(CUDA_KERNEL_NODE_PARAMS_v3 from told, kern: told.kern, ctx: told.ctx);
        return Ok(params);
    }
    let known = state.objects.nodes.get(node)?;
    match (&known.work, params.type_) {
        (Work::Copy(copy), _) => {
            parts.memcpy = CUDA_MEMCPY_NODE_PARAMS {
                copyParams: told_copy(process, copy),
                ..CUDA_MEMCPY_NODE_PARAMS::default()
            };
        }
        (Work::Fill(fill), _) => {
            let CUDA_MEMSET_NODE_PARAMS { dst, pitch, value, elementSize, width, height } =
                told_fill(fill);
            let ctx = core::ptr::null_mut();
            parts.memset =
                CUDA_MEMSET_NODE_PARAMS_v2 { dst, pitch, value, elementSize, width, height, ctx };
        }
        (Work::Host(function, data), _) => {
            parts.host = CUDA_HOST_NODE_PARAMS_v2 {
                fn_: Some(*function),
                userData: data.0,
                ..CUDA_HOST_NODE_PARAMS_v2::default()
            };
        }
        (Work::Map(memory), _) => {
            let told = memory::describe(memory);
            parts.alloc.poolProps = told.poolProps;
            (parts.alloc.bytesize, parts.alloc.dptr) = (told.bytesize, told.dptr);
        }
        (Work::Unmap(memory), _) => parts.free = CUDA_MEM_FREE_NODE_PARAMS { dptr: memory.start() },
        (_, CHILD) => {
            let ownership = CUgraphChildGraphNodeOwnership::CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
            parts.graph = CUDA_CHILD_GRAPH_NODE_PARAMS { graph: handle(known.subject), ownership };
        }
        (_, RECORD) => {
            parts.eventRecord = CUDA_EVENT_RECORD_NODE_PARAMS {
                event: handle(known.subject),
                __bindgen_anon_1: CUDA_EVENT_RECORD_NODE_PARAMS_st__bindgen_ty_1::default(),
            };
        }
        (_, WAIT) => {
            parts.eventWait = CUDA_EVENT_WAIT_NODE_PARAMS { event: handle(known.subject) };
        }
        (_, CONDITIONAL) => {
            parts.conditional = CUDA_CONDITIONAL_NODE_PARAMS {
                handle: known.subject,
                type_: CUgraphConditionalNodeType(known.branch),
                size: known.bodies.len() as u32,
                phGraph_out: known.bodies.as_ptr().cast::<CUgraph>().cast_mut(),
                ctx: core::ptr::null_mut(),
            };
        }
        _ => {}
    }
    Ok(params)
}

functions! {
    Device fn cuGraphAddNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *mut CUgraphNodeParams
    ) { add(node, graph, before, count, params) }
    Device fn cuGraphAddNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode,
        _data: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams
    ) { add(node, graph, before, count, params) }
    Device fn cuGraphAddNode_v3(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode,
        _data: *const CUgraphEdgeData, count: usize, params: *mut CUgraphNodeParams
    ) { add(node, graph, before, count, params) }
    Device fn cuGraphNodeSetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) {
        change(node, params)
    }
    Device fn cuGraphNodeSetParams_v2(node: CUgraphNode, params: *mut CUgraphNodeParams) {
        change(node, params)
    }
    Device fn cuGraphNodeGetParams(node: CUgraphNode, params: *mut CUgraphNodeParams) {
        put(params, told(number(node))?)
    }
    Device fn cuGraphExecNodeSetParams(
        exec: CUgraphExec, node: CUgraphNode, params: *mut CUgraphNodeParams
    ) { change_exec(exec, node, params) }
}
