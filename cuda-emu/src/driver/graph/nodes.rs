//! Building graphs by hand: nodes, edges, and questions about them.

use core::ffi::{c_char, c_uint};

use cuda_sys::{
    CUDA_HOST_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS_v1, CUDA_MEMCPY3D,
    CUDA_MEMSET_NODE_PARAMS, CUcontext, CUevent, CUgraph, CUgraphEdgeData, CUgraphNode,
    CUgraphNodeType, CUresult,
};

use super::list;
use super::params::{copy_work, fill_work, host_work, kernel_params, kernel_work};
use crate::driver::call::{Answer, functions, process, put, put_if_wanted, text};
use crate::driver::objects::{handle, number};
use crate::driver::process::State;
use crate::driver::stream::work::Work;

/// Adds a node that does a piece of work.
///
/// # Safety
/// `node` is null or valid for the write, `before` for the read of `count` handles.
unsafe fn add(
    node: *mut CUgraphNode,
    graph: CUgraph,
    before: *const CUgraphNode,
    count: usize,
    make: impl FnOnce(&mut State) -> Answer<(Work, u64)>,
) -> Answer {
    if node.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let before = unsafe { list(before, count) }?;
    let mut state = process()?.lock();
    let (work, function) = make(&mut state)?;
    let new = state.add_node(number(graph), work, &before)?;
    state.objects.nodes.get_mut(new)?.function = function;
    // SAFETY: not null, and the caller's promise.
    unsafe { put(node, handle(new)) }
}

/// Adds a node of a special kind.
///
/// # Safety
/// As [`add`].
unsafe fn add_special(
    node: *mut CUgraphNode,
    before: *const CUgraphNode,
    count: usize,
    make: impl FnOnce(&mut State, &[u64]) -> Answer<u64>,
) -> Answer {
    if node.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let before = unsafe { list(before, count) }?;
    let mut state = process()?.lock();
    let new = make(&mut state, &before)?;
    // SAFETY: not null, and the caller's promise.
    unsafe { put(node, handle(new)) }
}

/// Fills a caller's array with handles, and stores how many there are.
///
/// # Safety
/// `count` is valid, and `places` null or valid for `count` handles.
unsafe fn tell(places: *mut CUgraphNode, count: *mut usize, nodes: &[u64]) -> Answer {
    if count.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; no more is written than there is room for.
    unsafe {
        if !places.is_null() {
            let room = count.read();
            for (index, &node) in nodes.iter().take(room).enumerate() {
                places.add(index).write(handle(node));
            }
            for index in nodes.len()..room {
                places.add(index).write(core::ptr::null_mut());
            }
        }
        count.write(nodes.len());
    }
    Ok(())
}

/// Nodes that depend on a node.
fn dependents(state: &State, node: u64) -> Answer<Vec<u64>> {
    let graph = state.objects.nodes.get(node)?.graph;
    let mut found = Vec::new();
    for &other in &state.objects.graphs.get(graph)?.nodes {
        if state.objects.nodes.get(other)?.before.contains(&node) {
            found.push(other);
        }
    }
    Ok(found)
}

/// # Safety
/// `from` and `to` are valid for the read of `count` handles.
unsafe fn connect(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
    add: bool,
) -> Answer {
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (list(from, count)?, list(to, count)?) };
    let mut state = process()?.lock();
    if !add && state.has_memory(number(graph))? {
        return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
    }
    for (from, to) in from.into_iter().zip(to) {
        let of = |node| state.objects.nodes.get(node).map(|node| node.graph);
        if of(from)? != number(graph) || of(to)? != number(graph) || from == to {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let cycle = add && state.ancestors(&[from]).contains(&to);
        let before = &mut state.objects.nodes.get_mut(to)?.before;
        if cycle || before.contains(&from) == add {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        if add {
            before.push(from);
        } else {
            before.retain(|&other| other != from);
        }
    }
    Ok(())
}

/// # Safety
/// As [`tell`], for both arrays.
unsafe fn edges(
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> Answer {
    let state = process()?.lock();
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    for &node in &state.objects.graphs.get(number(graph))?.nodes {
        for &before in &state.objects.nodes.get(node)?.before {
            starts.push(before);
            ends.push(node);
        }
    }
    if count.is_null() || from.is_null() != to.is_null() {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller's promise; the second gets the room that the first had.
    unsafe {
        let mut room = count.read();
        tell(from, &raw mut room, &starts)?;
        tell(to, count, &ends)
    }
}

/// # Safety
/// As [`tell`].
unsafe fn tell_before(node: CUgraphNode, places: *mut CUgraphNode, count: *mut usize) -> Answer {
    let state = process()?.lock();
    let before = &state.objects.nodes.get(number(node))?.before;
    // SAFETY: the caller's promise.
    unsafe { tell(places, count, before) }
}

/// # Safety
/// As [`tell`].
unsafe fn tell_dependents(
    node: CUgraphNode,
    places: *mut CUgraphNode,
    count: *mut usize,
) -> Answer {
    let state = process()?.lock();
    // SAFETY: the caller's promise.
    unsafe { tell(places, count, &dependents(&state, number(node))?) }
}

/// Returns how a kind of node is called.
fn kind_name(kind: CUgraphNodeType) -> &'static str {
    match kind {
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL => "KERNEL",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY => "MEMCPY",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET => "MEMSET",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST => "HOST",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => "GRAPH",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY => "EMPTY",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT => "WAIT_EVENT",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD => "EVENT_RECORD",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC => "MEM_ALLOC",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE => "MEM_FREE",
        CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL => "CONDITIONAL",
        _ => "BATCH_MEM_OP",
    }
}

/// Draws a graph in the language of Graphviz: a cluster with its nodes, those inside them, and
/// their edges.
fn draw(state: &State, graph: u64, dot: &mut String) -> Answer {
    let known = state.objects.graphs.get(graph)?;
    let id = known.id;
    dot.push_str(&format!("subgraph cluster_{id} {{\nlabel=\"graph_{id}\";\n"));
    for &node in &known.nodes {
        let known = state.objects.nodes.get(node)?;
        let name = state.objects.functions.get(known.function);
        // The names of kernels are identifiers.
        let name = name.map(|of| format!("\\n{}", of.name.to_string_lossy())).unwrap_or_default();
        let kind = kind_name(known.kind);
        dot.push_str(&format!("\"node_{node}\" [shape=box, label=\"{kind}{name}\"];\n"));
        if known.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
            draw(state, known.subject, dot)?;
        }
        for &body in &*known.bodies {
            draw(state, body, dot)?;
        }
        for before in &known.before {
            dot.push_str(&format!("\"node_{before}\" -> \"node_{node}\";\n"));
        }
    }
    dot.push_str("}\n");
    Ok(())
}

functions! {
    Device fn cuGraphCreate(graph: *mut CUgraph, flags: c_uint) {
        if flags != 0 || graph.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(graph, handle(process()?.lock().new_graph()))
    }
    Device fn cuGraphDestroy(graph: CUgraph) {
        let process = process()?;
        let mut state = process.lock();
        if state.objects.graphs.get(number(graph))?.owned {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        state.remove_graph(number(graph));
        process.kick();
        Ok(())
    }
    Device fn cuGraphClone(clone: *mut CUgraph, graph: CUgraph) {
        if clone.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        put(clone, handle(process()?.lock().clone_graph(number(graph))?))
    }
    Device fn cuGraphGetId(graph: CUgraph, id: *mut c_uint) {
        put(id, process()?.lock().objects.graphs.get(number(graph))?.id as c_uint)
    }
    Device fn cuGraphAddEmptyNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize
    ) { add(node, graph, before, count, |_| Ok((Work::Nothing, 0))) }
    Device fn cuGraphAddKernelNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS_v1
    ) {
        let params = kernel_params(params)?;
        add(node, graph, before, count, |state| kernel_work(state, &params))
    }
    Device fn cuGraphAddKernelNode_v2(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_KERNEL_NODE_PARAMS
    ) {
        if params.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        add(node, graph, before, count, |state| kernel_work(state, &*params))
    }
    Device fn cuGraphAddMemcpyNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_MEMCPY3D, _context: CUcontext
    ) {
        let work = copy_work(params)?;
        add(node, graph, before, count, |_| Ok((work, 0)))
    }
    Device fn cuGraphAddMemsetNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_MEMSET_NODE_PARAMS, _context: CUcontext
    ) {
        let work = fill_work(params)?;
        add(node, graph, before, count, |_| Ok((work, 0)))
    }
    Device fn cuGraphAddHostNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        params: *const CUDA_HOST_NODE_PARAMS
    ) {
        let work = host_work(params)?;
        add(node, graph, before, count, |_| Ok((work, 0)))
    }
    Device fn cuGraphAddChildGraphNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        child: CUgraph
    ) {
        add_special(node, before, count, |state, before| {
            state.add_child(number(graph), number(child), false, before)
        })
    }
    Device fn cuGraphAddEventRecordNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        event: CUevent
    ) {
        add_special(node, before, count, |state, before| {
            state.add_event_node(number(graph), number(event), true, before)
        })
    }
    Device fn cuGraphAddEventWaitNode(
        node: *mut CUgraphNode, graph: CUgraph, before: *const CUgraphNode, count: usize,
        event: CUevent
    ) {
        add_special(node, before, count, |state, before| {
            state.add_event_node(number(graph), number(event), false, before)
        })
    }
    Device fn cuGraphAddDependencies(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize
    ) { connect(graph, from, to, count, true) }
    Device fn cuGraphAddDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        _data: *const CUgraphEdgeData, count: usize
    ) { connect(graph, from, to, count, true) }
    Device fn cuGraphRemoveDependencies(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize
    ) { connect(graph, from, to, count, false) }
    Device fn cuGraphRemoveDependencies_v2(
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        _data: *const CUgraphEdgeData, count: usize
    ) { connect(graph, from, to, count, false) }
    Device fn cuGraphDestroyNode(node: CUgraphNode) {
        let process = process()?;
        let mut state = process.lock();
        let node = number(node);
        let graph = state.objects.nodes.get(node)?.graph;
        if state.has_memory(graph)? {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        for other in dependents(&state, node)? {
            state.objects.nodes.get_mut(other)?.before.retain(|&before| before != node);
        }
        let gone = state.objects.nodes.remove(node)?;
        state.remove_inside(&gone);
        state.objects.graphs.get_mut(gone.graph)?.nodes.retain(|&other| other != node);
        // The user objects of graphs inside are released.
        process.kick();
        Ok(())
    }
    Device fn cuGraphGetNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        let state = process()?.lock();
        tell(nodes, count, &state.objects.graphs.get(number(graph))?.nodes)
    }
    Device fn cuGraphGetRootNodes(graph: CUgraph, nodes: *mut CUgraphNode, count: *mut usize) {
        let state = process()?.lock();
        let all = &state.objects.graphs.get(number(graph))?.nodes;
        let is_root = |node: &&u64| {
            state.objects.nodes.get(**node).is_ok_and(|node| node.before.is_empty())
        };
        let roots: Vec<u64> = all.iter().filter(is_root).copied().collect();
        tell(nodes, count, &roots)
    }
    Device fn cuGraphGetEdges(
        graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize
    ) { edges(graph, from, to, count) }
    Device fn cuGraphGetEdges_v2(
        graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, data: *mut CUgraphEdgeData,
        count: *mut usize
    ) {
        // No edge has data: zeros, as many as there is room for.
        if !data.is_null() && !count.is_null() {
            data.write_bytes(0, count.read());
        }
        edges(graph, from, to, count)
    }
    Device fn cuGraphNodeGetDependencies(
        node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize
    ) { tell_before(node, nodes, count) }
    Device fn cuGraphNodeGetDependencies_v2(
        node: CUgraphNode, nodes: *mut CUgraphNode, data: *mut CUgraphEdgeData, count: *mut usize
    ) {
        if !data.is_null() && !count.is_null() {
            data.write_bytes(0, count.read());
        }
        tell_before(node, nodes, count)
    }
    Device fn cuGraphNodeGetDependentNodes(
        node: CUgraphNode, nodes: *mut CUgraphNode, count: *mut usize
    ) { tell_dependents(node, nodes, count) }
    Device fn cuGraphNodeGetDependentNodes_v2(
        node: CUgraphNode, nodes: *mut CUgraphNode, data: *mut CUgraphEdgeData, count: *mut usize
    ) {
        if !data.is_null() && !count.is_null() {
            data.write_bytes(0, count.read());
        }
        tell_dependents(node, nodes, count)
    }
    Device fn cuGraphNodeGetType(node: CUgraphNode, kind: *mut CUgraphNodeType) {
        put(kind, process()?.lock().objects.nodes.get(number(node))?.kind)
    }
    Device fn cuGraphNodeGetContainingGraph(node: CUgraphNode, graph: *mut CUgraph) {
        put(graph, handle(process()?.lock().objects.nodes.get(number(node))?.graph))
    }
    Device fn cuGraphNodeFindInClone(
        node: *mut CUgraphNode, original: CUgraphNode, clone: CUgraph
    ) {
        let state = process()?.lock();
        let nodes = &state.objects.graphs.get(number(clone))?.nodes;
        let made_of = |node: &&u64| {
            state.objects.nodes.get(**node).is_ok_and(|node| node.original == number(original))
        };
        let found = nodes.iter().find(made_of).copied();
        put_if_wanted(node, handle(found.unwrap_or(0)));
        found.map(drop).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)
    }
    Device fn cuGraphChildGraphNodeGetGraph(node: CUgraphNode, graph: *mut CUgraph) {
        let state = process()?.lock();
        let node = state.objects.nodes.get(number(node))?;
        match node.kind {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH => put(graph, handle(node.subject)),
            _ => Err(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
    Device fn cuGraphDebugDotPrint(graph: CUgraph, path: *const c_char, _flags: c_uint) {
        let path = text(path)?;
        let state = process()?.lock();
        let mut dot = String::from("digraph dot {\n");
        draw(&state, number(graph), &mut dot)?;
        dot.push_str("}\n");
        std::fs::write(path, dot).map_err(|_| CUresult::CUDA_ERROR_OPERATING_SYSTEM)
    }
}
