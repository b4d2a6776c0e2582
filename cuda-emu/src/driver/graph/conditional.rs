//! Conditional nodes: graphs inside a node that run if, while, or as a value says that kernels set.

use core::ffi::c_uint;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cuda_sys::{
    CU_GRAPH_COND_ASSIGN_DEFAULT, CUDA_CONDITIONAL_NODE_PARAMS, CUcontext, CUgraph,
    CUgraphConditionalHandle, CUgraphConditionalNodeType, CUgraphNodeType, CUresult,
};

use super::Step;
use crate::driver::call::{Answer, functions, process, put};
use crate::driver::objects::number;
use crate::driver::process::State;
use crate::driver::stream::work::Work;

/// A value that kernels set and a conditional node reads.
#[derive(Debug, Clone, Copy)]
pub(in crate::driver) struct Condition {
    pub(in crate::driver) handle: u64,
    /// The value at the beginning of each launch; `None` if it is not set then.
    pub(in crate::driver) default: Option<u32>,
}

/// The values of an executable graph's conditions.
#[derive(Debug, Default)]
pub(in crate::driver) struct Conditions(Mutex<HashMap<u64, Option<u32>>>);

impl Conditions {
    pub(in crate::driver) fn new(conditions: &[Condition]) -> Self {
        let values = Self::default();
        values.reset(conditions);
        values
    }

    /// Sets the values at the beginning of each launch.
    pub(in crate::driver) fn reset(&self, conditions: &[Condition]) {
        let values = conditions.iter().map(|condition| (condition.handle, condition.default));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = values.collect();
    }

    /// Sets a condition for a kernel; returns `false` if there is no such condition.
    pub(in crate::driver) fn set(&self, handle: u64, value: u32) -> bool {
        let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        values.get_mut(&handle).map(|place| *place = Some(value)).is_some()
    }

    fn get(&self, handle: u64) -> Option<u32> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&handle)?
    }
}

/// A conditional node in an executable graph.
#[derive(Clone)]
pub(in crate::driver) struct Choice {
    pub(in crate::driver) handle: u64,
    pub(in crate::driver) kind: CUgraphConditionalNodeType,
    pub(in crate::driver) bodies: Vec<Vec<Step>>,
}

impl Choice {
    const WHILE: CUgraphConditionalNodeType = CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE;

    fn body(&self, value: u32) -> Option<&[Step]> {
        let index = match self.kind {
            CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF => usize::from(value == 0),
            Self::WHILE if value == 0 => return None,
            Self::WHILE => 0,
            _ => usize::try_from(value).ok()?,
        };
        self.bodies.get(index).map(Vec::as_slice)
    }
}

impl State {
    /// Runs a ready conditional node: it is done, or it waits for the body that is enqueued for it.
    ///
    /// # Errors
    /// If the condition has no value, or the time is over.
    pub(in crate::driver) fn choose(
        &mut self,
        number: u64,
        limit: Option<Duration>,
    ) -> Result<(), (CUresult, String)> {
        let Some(turn) = self.engine.turn(number) else { return Ok(()) };
        let Work::Conditional(choice) = &turn.work else { return Ok(()) };
        let Some(value) = turn.scope.as_ref().and_then(|scope| scope.get(choice.handle)) else {
            let report = "a conditional node reads a condition that has no default value and that \
                          no kernel of this launch has set";
            return Err((CUresult::CUDA_ERROR_LAUNCH_FAILED, report.to_owned()));
        };
        let Some(body) = choice.body(value) else {
            self.complete(number);
            return Ok(());
        };
        let again = choice.kind == Choice::WHILE;
        if let Some(limit) = limit
            && again
            && turn.since.is_some_and(|since| since.elapsed() > limit)
        {
            let report = format!("a WHILE node still repeats its body after {limit:?}");
            return Err((CUresult::CUDA_ERROR_LAUNCH_TIMEOUT, report));
        }
        let last = self.insert_steps(body, turn.context, turn.stream, &[], turn.scope.as_ref());
        self.engine.put_behind(number, &last, again);
        Ok(())
    }

    /// Adds a conditional node with empty bodies, and returns its number and the address of the bodies' handles.
    fn add_conditional(
        &mut self,
        graph: u64,
        params: &CUDA_CONDITIONAL_NODE_PARAMS,
        before: &[u64],
    ) -> Answer<(u64, *mut CUgraph)> {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let sizes = match params.type_ {
            CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_IF => 1..=2,
            Choice::WHILE => 1..=1,
            CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_SWITCH => 1..=1 << 16,
            _ => return Err(invalid),
        };
        if !sizes.contains(&params.size) || !self.has_condition(graph, params.handle)? {
            return Err(invalid);
        }
        let used = |(_, node): (u64, &super::Node)| {
            node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL
                && node.subject == params.handle
                && node.original == 0
        };
        // A condition belongs to one node.
        if self.objects.nodes.iter().any(used) {
            return Err(invalid);
        }
        let kind = CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
        let number = self.add_special(graph, kind, params.handle, before)?;
        let mut bodies = Vec::new();
        for _ in 0..params.size {
            let body = self.new_graph();
            let made = self.objects.graphs.get_mut(body)?;
            (made.owned, made.body, made.parent) = (true, true, graph);
            bodies.push(body);
        }
        let node = self.objects.nodes.get_mut(number)?;
        node.branch = params.type_.0;
        node.bodies = bodies.into();
        // The header says that the driver owns the array; programs do not write it.
        Ok((number, node.bodies.as_ptr().cast::<CUgraph>().cast_mut()))
    }

    /// Returns whether a condition belongs to this graph, or to a graph in which this one is a body.
    fn has_condition(&self, graph: u64, handle: u64) -> Answer<bool> {
        let known = self.objects.graphs.get(graph)?;
        Ok(known.conditions.iter().any(|condition| condition.handle == handle)
            || known.parent != 0 && self.has_condition(known.parent, handle)?)
    }

    /// Adds the conditions and the user objects of a graph and of those inside it.
    pub(in crate::driver) fn all_conditions(
        &self,
        graph: u64,
        found: &mut Vec<Condition>,
        users: &mut Vec<(u64, u32)>,
    ) -> Answer {
        let known = self.objects.graphs.get(graph)?;
        found.extend(&known.conditions);
        users.extend(&known.users);
        for &node in &known.nodes {
            let node = self.objects.nodes.get(node)?;
            if node.kind == CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
                self.all_conditions(node.subject, found, users)?;
            }
            for &body in &*node.bodies {
                self.all_conditions(body, found, users)?;
            }
        }
        Ok(())
    }
}

/// Adds a conditional node as its parameters describe it, and writes its bodies to them.
///
/// # Safety
/// `params` is valid for the read and the write.
pub(in crate::driver) unsafe fn add_described(
    graph: u64,
    before: &[u64],
    params: *mut CUDA_CONDITIONAL_NODE_PARAMS,
) -> Answer<u64> {
    // SAFETY: the caller's promise.
    let known = unsafe { params.read() };
    let (node, bodies) = process()?.lock().add_conditional(graph, &known, before)?;
    // SAFETY: the caller's promise.
    unsafe { (*params).phGraph_out = bodies };
    Ok(node)
}

functions! {
    Device fn cuGraphConditionalHandleCreate(
        condition: *mut CUgraphConditionalHandle, graph: CUgraph, context: CUcontext,
        default: c_uint, flags: c_uint
    ) {
        if flags & !CU_GRAPH_COND_ASSIGN_DEFAULT != 0 || condition.is_null() {
            return Err(CUresult::CUDA_ERROR_INVALID_VALUE);
        }
        let mut state = process()?.lock();
        if context.is_null() {
            state.current()?;
        } else {
            state.objects.contexts.get(number(context))?;
        }
        let default = (flags != 0).then_some(default);
        let handle = state.objects.fresh_id() | 0xc0d << 32;
        let graph = state.objects.graphs.get_mut(number(graph))?;
        graph.conditions.push(Condition { handle, default });
        put(condition, handle)
    }
}
