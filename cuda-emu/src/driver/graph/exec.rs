//! Executable graphs: instantiate, update, launch.

use core::ffi::{c_char, c_uint, c_ulonglong};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphInstantiateResult, CUgraphNode, CUgraphNodeType, CUresult,
    CUstream, cuuint64_t,
};

use super::Step;
use super::run::{AUTO_FREE, Mismatch, find_list};
use crate::driver::call::{Answer, functions, process, put, put_if_wanted};
use crate::driver::objects::{handle, number};
use crate::driver::process::{Process, State};
use crate::driver::stream::work::Work;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: kernels cannot launch graphs here.
const DEVICE_LAUNCH: u64 = 4;

const UPDATED: CUgraphExecUpdateResult = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS;

/// Updates an executable graph, and lets go of what only the old one used.
fn update(exec: u64, graph: u64) -> Answer<Result<(), Mismatch>> {
    let process = process()?;
    let updated = process.lock().update(exec, graph);
    process.kick();
    updated
}

fn check_flags(flags: u64) -> Answer {
    match flags {
        16.. => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        // No host code could free the memory of graphs that the device launches.
        _ if flags & DEVICE_LAUNCH != 0 && flags & AUTO_FREE != 0 => {
            Err(CUresult::CUDA_ERROR_INVALID_VALUE)
        }
        _ if flags & DEVICE_LAUNCH != 0 => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
        _ => Ok(()),
    }
}

/// Makes an executable graph.
///
/// # Safety
/// `exec` is null or valid for the write.
unsafe fn instantiate(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Answer {
    if exec.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    check_flags(flags)?;
    let made = process()?.lock().instantiate(number(graph), flags).map_err(|(code, ..)| code)?;
    // SAFETY: not null, and the caller's promise.
    unsafe { put(exec, handle(made)) }
}

fn launch(process: &Process, exec: CUgraphExec, stream: CUstream) -> Answer {
    let mut state = process.lock();
    let stream = state.stream(stream)?;
    if let Some((capture, tail)) = state.objects.streams.get(stream)?.capture.clone() {
        // A launch inside a capture becomes a part of the captured graph.
        let graph = state.capturing(capture)?;
        let steps = state.objects.execs.get(number(exec))?.steps.clone();
        let whole = |step: &&Step| {
            matches!(step.work, Work::Map(_) | Work::Unmap(_) | Work::Conditional(_))
        };
        if steps.iter().any(|step| whole(&step)) {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let mut nodes: Vec<u64> = Vec::with_capacity(steps.len());
        for step in &*steps {
            let mut before: Vec<u64> = step.before.iter().map(|&other| nodes[other]).collect();
            if before.is_empty() {
                before.clone_from(&tail);
            }
            before.sort_unstable();
            before.dedup();
            let work = if step.enabled { step.work.clone() } else { Work::Nothing };
            let node = state.add_node(graph, work, &before)?;
            let new = state.objects.nodes.get_mut(node)?;
            if step.kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
                (new.kind, new.subject) = (step.kind, step.subject);
            }
            new.function = step.function;
            nodes.push(node);
        }
        let tail = if nodes.is_empty() { tail } else { nodes };
        state.objects.streams.get_mut(stream)?.capture = Some((capture, tail));
        return Ok(());
    }
    state.implicit_in_capture(stream)?;
    state.launch_graph(number(exec), stream)?;
    process.kick();
    Ok(())
}

/// Returns the step of a node that can be switched off.
fn switched(state: &State, exec: CUgraphExec, node: CUgraphNode) -> Answer<&Step> {
    use CUgraphNodeType as T;
    let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
    let steps = &state.objects.execs.get(number(exec))?.steps;
    let (steps, at) = find_list(steps, number(node)).ok_or(invalid)?;
    match steps[at].kind {
        T::CU_GRAPH_NODE_TYPE_KERNEL
        | T::CU_GRAPH_NODE_TYPE_MEMCPY
        | T::CU_GRAPH_NODE_TYPE_MEMSET => Ok(&steps[at]),
        _ => Err(invalid),
    }
}

functions! {
    Device fn cuGraphInstantiate(
        exec: *mut CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, log: *mut c_char,
        size: usize
    ) {
        put_if_wanted(node, core::ptr::null_mut());
        if size > 0 {
            put_if_wanted(log, 0);
        }
        instantiate(exec, graph, 0)
    }
    Device fn cuGraphInstantiate_v2(
        exec: *mut CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, log: *mut c_char,
        size: usize
    ) {
        put_if_wanted(node, core::ptr::null_mut());
        if size > 0 {
            put_if_wanted(log, 0);
        }
        instantiate(exec, graph, 0)
    }
    Device fn cuGraphInstantiateWithFlags(
        exec: *mut CUgraphExec, graph: CUgraph, flags: c_ulonglong
    ) { instantiate(exec, graph, flags) }
    Device fn cuGraphInstantiateWithParams(
        exec: *mut CUgraphExec, graph: CUgraph, params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS
    ) {
        if params.is_null() || exec.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let made = match check_flags((*params).flags) {
            Ok(()) => process()?.lock().instantiate(number(graph), (*params).flags),
            Err(code) => Err((code, CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR, 0)),
        };
        let (result, at) = match made {
            Ok(_) => (CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS, 0),
            Err((_, why, at)) => (why, at),
        };
        ((*params).hErrNode_out, (*params).result_out) = (handle(at), result);
        put(exec, handle(made.map_err(|(code, ..)| code)?))
    }
    Device fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) {
        launch(process()?, exec, stream)
    }
    Device fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) {
        let mut state = process()?.lock();
        state.stream(stream)?;
        state.objects.execs.get(number(exec)).map(drop)
    }
    Device fn cuGraphExecDestroy(exec: CUgraphExec) {
        // Running work goes on and keeps the objects that it uses; user objects are released after it.
        let process = process()?;
        let mut state = process.lock();
        for (user, count) in state.objects.execs.remove(number(exec))?.users {
            state.release_user(user, count);
        }
        process.kick();
        Ok(())
    }
    Device fn cuGraphExecGetFlags(exec: CUgraphExec, flags: *mut cuuint64_t) {
        put(flags, process()?.lock().objects.execs.get(number(exec))?.flags)
    }
    Device fn cuGraphExecGetId(exec: CUgraphExec, id: *mut c_uint) {
        put(id, process()?.lock().objects.execs.get(number(exec))?.id as c_uint)
    }
    Device fn cuGraphExecUpdate(
        exec: CUgraphExec, graph: CUgraph, node: *mut CUgraphNode,
        result: *mut CUgraphExecUpdateResult
    ) {
        let updated = update(number(exec), number(graph))?;
        let (why, at) = updated.err().unwrap_or((UPDATED, 0));
        put_if_wanted(node, handle(at));
        put_if_wanted(result, why);
        if updated.is_ok() { Ok(()) } else { Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
    }
    Device fn cuGraphExecUpdate_v2(
        exec: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo
    ) {
        let updated = update(number(exec), number(graph))?;
        let (result, at) = updated.err().unwrap_or((UPDATED, 0));
        put_if_wanted(info, CUgraphExecUpdateResultInfo {
            result,
            errorNode: handle(at),
            errorFromNode: core::ptr::null_mut(),
        });
        if updated.is_ok() { Ok(()) } else { Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
    }
    Device fn cuGraphNodeSetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: c_uint) {
        let mut state = process()?.lock();
        let kind = switched(&state, exec, node)?.kind;
        state.set_step(number(exec), number(node), kind, |step| step.enabled = enabled != 0)
    }
    Device fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        put(enabled, c_uint::from(switched(&process()?.lock(), exec, node)?.enabled))
    }
}
