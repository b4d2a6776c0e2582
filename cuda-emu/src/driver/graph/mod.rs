//! Graphs: nodes, edges, and the executable graphs that are made of them.

pub(super) mod capture;
pub(super) mod conditional;
pub(super) mod exec;
pub(super) mod memory;
pub(super) mod node_params;
pub(super) mod nodes;
pub(super) mod params;
pub(super) mod run;
pub(super) mod userobject;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use cuda_sys::{CUgraphConditionalNodeType, CUgraphNode, CUgraphNodeType, CUresult};

use super::call::Answer;
use super::objects::number;
use super::process::State;
use super::stream::work::Work;
use conditional::{Choice, Condition, Conditions};
use params::Told;

/// A capture that is under way.
pub(super) struct Capture {
    pub(super) graph: u64,
    /// Whether the graph was made for the capture, and has no owner if that fails.
    pub(super) made: bool,
    pub(super) id: u64,
    pub(super) mode: u32,
    /// The stream that it was begun on.
    pub(super) origin: u64,
    pub(super) thread: u64,
    pub(super) invalid: bool,
    /// The last nodes of streams that were drawn in and destroyed.
    pub(super) lost: Vec<u64>,
}

/// A graph.
#[derive(Default)]
pub(super) struct Graph {
    pub(super) id: u64,
    /// The nodes in the order of their creation.
    pub(super) nodes: Vec<u64>,
    /// Whether it is part of a node, which destroys it.
    pub(super) owned: bool,
    /// Whether it is, or lies in, a conditional body; and its parent graph.
    pub(super) body: bool,
    pub(super) parent: u64,
    /// The conditions that were made for it.
    pub(super) conditions: Vec<Condition>,
    pub(super) users: Vec<(u64, u32)>,
}

/// A node of a graph.
#[derive(Clone)]
pub(super) struct Node {
    pub(super) graph: u64,
    pub(super) kind: CUgraphNodeType,
    pub(super) work: Work,
    pub(super) before: Vec<u64>,
    /// The object of the kind: the kernel's handle, the event, the condition or the child graph.
    pub(super) function: u64,
    pub(super) subject: u64,
    /// The graphs in a conditional node, where their handles stay, and its type.
    pub(super) bodies: Arc<[u64]>,
    pub(super) branch: u32,
    /// A kernel's arguments as last returned to the caller.
    pub(super) told: Option<Arc<Told>>,
    /// The node that this one is a clone of.
    pub(super) original: u64,
}

/// A step of an executable graph, whose dependencies are earlier steps.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) node: u64,
    pub(super) kind: CUgraphNodeType,
    pub(super) work: Work,
    pub(super) subject: u64,
    pub(super) function: u64,
    pub(super) before: Vec<usize>,
    pub(super) enabled: bool,
}

/// An executable graph.
pub(super) struct GraphExec {
    pub(super) id: u64,
    pub(super) flags: u64,
    /// The graph that it was made of.
    pub(super) graph: u64,
    pub(super) steps: Arc<[Step]>,
    /// The last work of the last launch: a launch waits for the one before.
    pub(super) last: u64,
    pub(super) conditions: Arc<[Condition]>,
    pub(super) values: Arc<Conditions>,
    /// References to user objects, as its graph had them.
    pub(super) users: Vec<(u64, u32)>,
}

/// Returns the handles that a caller lists.
///
/// # Safety
/// `nodes` is valid for the read of `count` handles.
pub(super) unsafe fn list(nodes: *const CUgraphNode, count: usize) -> Answer<Vec<u64>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if nodes.is_null() || count > 1 << 24 {
        return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's promise.
    let nodes = unsafe { core::slice::from_raw_parts(nodes, count) };
    Ok(nodes.iter().map(|&node| number(node)).collect())
}

/// Returns the kind of node that a piece of work makes.
fn kind(work: &Work) -> CUgraphNodeType {
    match work {
        Work::Kernel(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_KERNEL,
        Work::Copy(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMCPY,
        Work::Fill(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEMSET,
        Work::Host(..) | Work::Callback(..) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_HOST,
        Work::Map(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_ALLOC,
        Work::Unmap(_) | Work::Free(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_MEM_FREE,
        Work::Conditional(_) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL,
        Work::Wait(..) | Work::Write(..) => CUgraphNodeType::CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
        Work::Nothing | Work::Record(_) | Work::Begin(_) => {
            CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY
        }
    }
}

impl State {
    pub(super) fn new_graph(&mut self) -> u64 {
        let id = self.objects.fresh_id();
        self.objects.graphs.insert(Graph { id, ..Graph::default() })
    }

    /// Adds a node after others of the same graph.
    pub(super) fn add_node(&mut self, graph: u64, work: Work, before: &[u64]) -> Answer<u64> {
        self.objects.graphs.get(graph)?;
        for (index, &node) in before.iter().enumerate() {
            if self.objects.nodes.get(node)?.graph != graph || before[..index].contains(&node) {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
        }
        let node = self.objects.nodes.insert(Node {
            graph,
            kind: kind(&work),
            work,
            before: before.to_vec(),
            function: 0,
            subject: 0,
            bodies: Arc::default(),
            branch: 0,
            told: None,
            original: 0,
        });
        self.objects.graphs.get_mut(graph)?.nodes.push(node);
        Ok(node)
    }

    /// Adds a node of a kind that is about something else than its work.
    pub(super) fn add_special(
        &mut self,
        graph: u64,
        kind: CUgraphNodeType,
        subject: u64,
        before: &[u64],
    ) -> Answer<u64> {
        let number = self.add_node(graph, Work::Nothing, before)?;
        let node = self.objects.nodes.get_mut(number)?;
        (node.kind, node.subject) = (kind, subject);
        Ok(number)
    }

    /// Fails for an event that no node may have: a process that opened it would not see when the node runs.
    pub(super) fn node_event(&self, event: u64) -> Answer {
        match self.objects.events.get(event)?.is_interprocess() {
            true => Err(CUresult::CUDA_ERROR_NOT_SUPPORTED),
            false => Ok(()),
        }
    }

    pub(super) fn add_event_node(
        &mut self,
        graph: u64,
        event: u64,
        record: bool,
        before: &[u64],
    ) -> Answer<u64> {
        self.node_event(event)?;
        let kind = match record {
            true => CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD,
            false => CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT,
        };
        self.add_special(graph, kind, event, before)
    }

    /// Adds a node with a graph inside: a copy of it, or the graph itself.
    pub(super) fn add_child(
        &mut self,
        graph: u64,
        child: u64,
        moved: bool,
        before: &[u64],
    ) -> Answer<u64> {
        let body = self.objects.graphs.get(graph)?.body;
        if moved {
            let known = self.objects.graphs.get(child)?;
            if known.owned || child == graph {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            if body && self.has_memory(child)? {
                return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
            }
            let kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
            let added = self.add_special(graph, kind, child, before)?;
            let known = self.objects.graphs.get_mut(child)?;
            (known.owned, known.body, known.parent) = (true, body, graph);
            return Ok(added);
        }
        let copy = self.clone_graph(child)?;
        let known = self.objects.graphs.get_mut(copy)?;
        (known.owned, known.body, known.parent) = (true, body, graph);
        let kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH;
        let added = self.add_special(graph, kind, copy, before);
        if added.is_err() {
            self.remove_graph(copy);
        }
        added
    }

    /// These nodes and all that lie before them.
    pub(super) fn ancestors(&self, nodes: &[u64]) -> HashSet<u64> {
        let mut seen = HashSet::new();
        let mut left = nodes.to_vec();
        while let Some(node) = left.pop() {
            if seen.insert(node)
                && let Ok(node) = self.objects.nodes.get(node)
            {
                left.extend(&node.before);
            }
        }
        seen
    }

    /// Returns a copy of a graph, whose nodes remember their originals.
    pub(super) fn clone_graph(&mut self, graph: u64) -> Answer<u64> {
        if self.has_memory(graph)? {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let original = self.objects.graphs.get(graph)?;
        let (nodes, users) = (original.nodes.clone(), original.users.clone());
        let (body, conditions) = (original.body, original.conditions.clone());
        let copy = self.new_graph();
        let mut names = HashMap::new();
        for number in nodes {
            let mut node = self.objects.nodes.get(number)?.clone();
            (node.graph, node.original, node.told) = (copy, number, None);
            if node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
                node.subject = self.clone_inside(node.subject, copy)?;
            }
            let bodies: Answer<Vec<u64>> =
                node.bodies.iter().map(|&body| self.clone_inside(body, copy)).collect();
            node.bodies = bodies?.into();
            names.insert(number, self.objects.nodes.insert(node));
            let new = names[&number];
            self.objects.graphs.get_mut(copy)?.nodes.push(new);
        }
        // Edges may lead to nodes that were made later.
        for &new in names.values() {
            for before in &mut self.objects.nodes.get_mut(new)?.before {
                *before = *names.get(before).ok_or(CUresult::CUDA_ERROR_INVALID_VALUE)?;
            }
        }
        for (user, count) in &users {
            self.retain_user(*user, *count);
        }
        let copied = self.objects.graphs.get_mut(copy)?;
        (copied.body, copied.conditions, copied.users) = (body, conditions, users);
        Ok(copy)
    }

    /// Returns a copy of a graph that lies inside another one.
    fn clone_inside(&mut self, graph: u64, parent: u64) -> Answer<u64> {
        let copy = self.clone_graph(graph)?;
        let known = self.objects.graphs.get_mut(copy)?;
        (known.owned, known.parent) = (true, parent);
        Ok(copy)
    }

    /// Removes a graph, its nodes and the graphs inside them.
    pub(super) fn remove_graph(&mut self, graph: u64) {
        let Ok(graph) = self.objects.graphs.remove(graph) else { return };
        for node in graph.nodes {
            if let Ok(node) = self.objects.nodes.remove(node) {
                self.remove_inside(&node);
            }
        }
        for (user, count) in graph.users {
            self.release_user(user, count);
        }
    }

    /// Removes the graphs in a node.
    pub(super) fn remove_inside(&mut self, node: &Node) {
        if node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
            self.remove_graph(node.subject);
        }
        for &body in &*node.bodies {
            self.remove_graph(body);
        }
    }

    /// Returns a graph's nodes in topological order; in the order of their creation, where that is one.
    pub(super) fn sorted(&self, graph: u64) -> Answer<Vec<u64>> {
        let mut left = self.objects.graphs.get(graph)?.nodes.clone();
        let mut placed = HashSet::new();
        let mut order = Vec::with_capacity(left.len());
        while !left.is_empty() {
            let mut rest = Vec::new();
            for node in left.iter().copied() {
                let before = &self.objects.nodes.get(node)?.before;
                if before.iter().all(|other| placed.contains(other)) {
                    placed.insert(node);
                    order.push(node);
                } else {
                    rest.push(node);
                }
            }
            if rest.len() == left.len() {
                return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
            }
            left = rest;
        }
        Ok(order)
    }

    /// Appends the steps of a graph, with child graphs flattened.
    pub(super) fn flatten(&self, graph: u64, entry: &[usize], steps: &mut Vec<Step>) -> Answer {
        let mut places = HashMap::new();
        for number in self.sorted(graph)? {
            let node = self.objects.nodes.get(number)?;
            let mut before: Vec<usize> =
                node.before.iter().filter_map(|other| places.get(other).copied()).collect();
            if before.is_empty() {
                before.extend(entry);
            }
            let mut step = Step {
                node: number,
                kind: node.kind,
                work: node.work.clone(),
                subject: node.subject,
                function: node.function,
                before,
                enabled: true,
            };
            if node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
                // An empty step begins the child; the node's own step comes after all of the child.
                let child = node.subject;
                let begin = steps.len();
                let kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_EMPTY;
                steps.push(Step { node: 0, kind, ..step.clone() });
                self.flatten(child, &[begin], steps)?;
                step.before = (begin..steps.len()).collect();
            }
            if node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL {
                let bodies: Answer<Vec<Vec<Step>>> = (node.bodies.iter())
                    .map(|&body| {
                        let mut steps = Vec::new();
                        self.flatten(body, &[], &mut steps).map(|()| steps)
                    })
                    .collect();
                let kind = CUgraphConditionalNodeType(node.branch);
                let choice = Choice { handle: node.subject, kind, bodies: bodies? };
                step.work = Work::Conditional(Arc::new(choice));
            }
            places.insert(number, steps.len());
            steps.push(step);
        }
        Ok(())
    }
}
