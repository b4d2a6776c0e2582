//! Executable graphs: instantiate, update, launch.

use core::ffi::{c_char, c_uint, c_ulonglong};

use cuda_sys::{
    CUDA_GRAPH_INSTANTIATE_PARAMS, CUgraph, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphInstantiateResult, CUgraphNode, CUgraphNodeType, CUresult,
    CUstream, cuuint64_t,
};

use super::call::{Answer, functions, process, put, put_if_wanted};
use super::graph::{GraphExec, Step};
use super::objects::{handle, number};
use super::process::{Process, State};
use super::work::Work;

/// `CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH`: kernels cannot launch graphs here.
const DEVICE_LAUNCH: u64 = 4;

const UPDATED: CUgraphExecUpdateResult = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_SUCCESS;

/// Makes an executable graph.
///
/// # Safety
/// `exec` is null or valid for the write.
unsafe fn instantiate(exec: *mut CUgraphExec, graph: CUgraph, flags: u64) -> Answer {
    if flags > 15 || exec.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    let mut state = process()?.lock();
    let (mut steps, mut memory) = (Vec::new(), Vec::new());
    state.flatten(number(graph), &[], &mut steps, &mut memory)?;
    let id = state.objects.fresh_id();
    let new = GraphExec { id, flags, steps, last: 0, memory };
    // SAFETY: not null, and the caller's promise.
    unsafe { put(exec, handle(state.objects.execs.insert(new))) }
}

impl State {
    /// Enqueues all of a graph behind a stream's work.
    fn launch_graph(&mut self, exec: u64, stream: u64) -> Answer {
        let known = self.objects.execs.get(exec)?;
        let (steps, last) = (known.steps.clone(), known.last);
        let context = self.objects.streams.get(stream)?.context;
        let mut before = self.before(stream)?;
        before.push(last);
        let begin = self.engine.insert(context, stream, Work::Nothing, before);
        let mut numbers = Vec::with_capacity(steps.len());
        for Step { kind, work, subject, before, enabled, .. } in steps {
            let mut behind: Vec<u64> = before.iter().map(|&step| numbers[step]).collect();
            behind.push(begin);
            let work = match kind {
                _ if !enabled => Work::Nothing,
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD => Work::Record(subject),
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT => {
                    let record = self.objects.events.get(subject).map_or(0, |event| event.record);
                    behind.push(record);
                    Work::Nothing
                }
                // The memory stays with the graph.
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => Work::Nothing,
                _ => work,
            };
            let records = matches!(work, Work::Record(_));
            let number = self.engine.insert(context, stream, work, behind);
            if records && let Ok(event) = self.objects.events.get_mut(subject) {
                (event.record, event.time) = (number, None);
            }
            numbers.push(number);
        }
        numbers.push(begin);
        let end = self.engine.insert(context, stream, Work::Nothing, numbers);
        self.objects.streams.get_mut(stream)?.tail = end;
        self.objects.execs.get_mut(exec)?.last = end;
        Ok(())
    }

    /// Replaces what the steps do by what a graph of the same shape does. Fails with why not, and
    /// the node.
    fn update(
        &mut self,
        exec: u64,
        graph: u64,
    ) -> Answer<Result<(), (CUgraphExecUpdateResult, u64)>> {
        let (mut steps, mut memory) = (Vec::new(), Vec::new());
        self.flatten(graph, &[], &mut steps, &mut memory)?;
        let exec = self.objects.execs.get_mut(exec)?;
        if steps.len() != exec.steps.len() {
            let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
            return Ok(Err((why, 0)));
        }
        for (old, new) in exec.steps.iter().zip(&steps) {
            if old.before != new.before {
                let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
                return Ok(Err((why, new.node)));
            }
            if old.kind != new.kind {
                let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
                return Ok(Err((why, new.node)));
            }
        }
        for (old, new) in exec.steps.iter_mut().zip(steps) {
            // The handles of the first graph's nodes go on naming the steps.
            let (node, enabled) = (old.node, old.enabled);
            *old = Step { node, enabled, ..new };
        }
        exec.memory = memory;
        Ok(Ok(()))
    }

    /// Changes the work of the step that a node has become.
    pub(super) fn set_step(
        &mut self,
        exec: u64,
        node: u64,
        kind: CUgraphNodeType,
        change: impl FnOnce(&mut Step),
    ) -> Answer {
        let steps = &mut self.objects.execs.get_mut(exec)?.steps;
        let step = steps.iter_mut().find(|step| step.node == node && step.kind == kind);
        change(step.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?);
        Ok(())
    }
}

fn launch(process: &Process, exec: CUgraphExec, stream: CUstream) -> Answer {
    let mut state = process.lock();
    let stream = state.stream(stream)?;
    if let Some((capture, tail)) = state.objects.streams.get(stream)?.capture.clone() {
        // A launch inside a capture becomes a part of the captured graph.
        let graph = state.capturing(capture)?;
        let known = state.objects.execs.get(number(exec))?;
        let (steps, memory) = (known.steps.clone(), known.memory.clone());
        let mut nodes: Vec<u64> = Vec::with_capacity(steps.len());
        for step in steps {
            let mut before: Vec<u64> = step.before.iter().map(|&other| nodes[other]).collect();
            if before.is_empty() {
                before.clone_from(&tail);
            }
            before.sort_unstable();
            before.dedup();
            let work = if step.enabled { step.work } else { Work::Nothing };
            let node = state.add_node(graph, work, &before)?;
            let new = state.objects.nodes.get_mut(node)?;
            if step.kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
                (new.kind, new.subject) = (step.kind, step.subject);
            }
            new.function = step.function;
            nodes.push(node);
        }
        state.objects.graphs.get_mut(graph)?.memory.extend(memory);
        let tail = if nodes.is_empty() { tail } else { nodes };
        state.objects.streams.get_mut(stream)?.capture = Some((capture, tail));
        return Ok(());
    }
    state.implicit_in_capture(stream)?;
    state.launch_graph(number(exec), stream)?;
    process.kick();
    Ok(())
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
        if params.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let made = instantiate(exec, graph, (*params).flags);
        (*params).hErrNode_out = core::ptr::null_mut();
        (*params).result_out = match made {
            Ok(()) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
            Err(_) => CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR,
        };
        made
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
        let process = process()?;
        let mut state = process.lock();
        let gone = state.objects.execs.remove(number(exec))?;
        if !gone.memory.is_empty() && state.engine.is_pending(gone.last) {
            // Its memory is in use until then.
            drop(process.wait_for(state, &[gone.last])?);
        }
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
        let updated = process()?.lock().update(number(exec), number(graph))?;
        let (why, at) = updated.err().unwrap_or((UPDATED, 0));
        put_if_wanted(node, handle(at));
        put_if_wanted(result, why);
        if updated.is_ok() { Ok(()) } else { Err(CUresult::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) }
    }
    Device fn cuGraphExecUpdate_v2(
        exec: CUgraphExec, graph: CUgraph, info: *mut CUgraphExecUpdateResultInfo
    ) {
        let updated = process()?.lock().update(number(exec), number(graph))?;
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
        let steps = &mut state.objects.execs.get_mut(number(exec))?.steps;
        let step = steps.iter_mut().find(|step| step.node == number(node));
        let step = step.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
        match step.kind {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL
            | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY
            | CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => step.enabled = enabled != 0,
            _ => return Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
        Ok(())
    }
    Device fn cuGraphNodeGetEnabled(exec: CUgraphExec, node: CUgraphNode, enabled: *mut c_uint) {
        let state = process()?.lock();
        let steps = &state.objects.execs.get(number(exec))?.steps;
        let step = steps.iter().find(|step| step.node == number(node));
        put(enabled, c_uint::from(step.ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?.enabled))
    }
}
