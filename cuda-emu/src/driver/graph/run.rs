//! Executable graphs: launches, and changes of their work.

use std::sync::Arc;

use cuda_sys::{CUgraphExecUpdateResult, CUgraphInstantiateResult, CUgraphNodeType, CUresult};

use super::conditional::Conditions;
use super::{GraphExec, Step};
use crate::driver::call::{Answer, process};
use crate::driver::process::State;
use crate::driver::stream::work::{Begin, Work};

/// `CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH`
pub(in crate::driver) const AUTO_FREE: u64 = 1;

/// Why an executable graph cannot be updated, and because of which node.
pub(in crate::driver) type Mismatch = (CUgraphExecUpdateResult, u64);

/// Why there can be no executable graph, and because of which node.
pub(in crate::driver) type Unfit = (CUresult, CUgraphInstantiateResult, u64);

impl State {
    /// Makes an executable graph.
    pub(in crate::driver) fn instantiate(&mut self, graph: u64, flags: u64) -> Result<u64, Unfit> {
        let wrong =
            |code| (code, CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, 0);
        let (mut conditions, mut users) = (Vec::new(), Vec::new());
        self.all_conditions(graph, &mut conditions, &mut users).map_err(wrong)?;
        // Memory has one address, so that one executable graph has it.
        if self.has_memory(graph).map_err(wrong)?
            && self.objects.execs.iter().any(|(_, exec)| exec.graph == graph)
        {
            let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR;
            return Err((CUresult::CUDA_ERROR_NOT_SUPPORTED, why, 0));
        }
        let mut steps = Vec::new();
        self.flatten(graph, &[], &mut steps).map_err(wrong)?;
        let process = process().map_err(wrong)?;
        for step in &steps {
            if let Work::Copy(copy) = &step.work {
                self.copy_is_possible(process, copy).map_err(wrong)?;
            }
        }
        if let Some(node) = without_cluster(&steps) {
            let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_ERROR;
            return Err((CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE, why, node));
        }
        if let Some(node) = unfit_in_body(&steps, false) {
            let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
            return Err((CUresult::CUDA_ERROR_NOT_SUPPORTED, why, node));
        }
        if conditions.iter().any(|condition| !reads(&steps, condition.handle)) {
            let why = CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
            return Err((CUresult::CUDA_ERROR_INVALID_VALUE, why, 0));
        }
        let id = self.objects.fresh_id();
        let values = Arc::new(Conditions::new(&conditions));
        let (steps, conditions) = (steps.into(), conditions.into());
        for &(user, count) in &users {
            self.retain_user(user, count);
        }
        let new = GraphExec { id, flags, graph, steps, last: 0, conditions, values, users };
        Ok(self.objects.execs.insert(new))
    }

    /// Enqueues all of a graph after a stream's work.
    pub(in crate::driver) fn launch_graph(&mut self, exec: u64, stream: u64) -> Answer {
        let known = self.objects.execs.get(exec)?;
        let (steps, last, auto_free) = (known.steps.clone(), known.last, known.flags & AUTO_FREE);
        let (conditions, values) = (known.conditions.clone(), known.values.clone());
        let context = self.objects.streams.get(stream)?.context;
        let mut before = self.before(stream)?;
        before.push(last);
        let left = self.launch_memory(&steps, auto_free != 0)?;
        let scope = (!conditions.is_empty()).then_some(values);
        let begin = Work::Begin(Arc::new(Begin { conditions, left }));
        let begin = self.engine.insert(context, stream, begin, &before, scope.as_ref());
        let mut ends = self.insert_steps(&steps, context, stream, &[begin], scope.as_ref());
        ends.push(begin);
        let end = self.engine.insert(context, stream, Work::Nothing, &ends, None);
        self.objects.streams.get_mut(stream)?.tail = end;
        self.objects.execs.get_mut(exec)?.last = end;
        Ok(())
    }

    /// Enqueues steps after other work. Returns the numbers of the steps that no other step follows.
    pub(in crate::driver) fn insert_steps(
        &mut self,
        steps: &[Step],
        context: u64,
        stream: u64,
        begin: &[u64],
        scope: Option<&Arc<Conditions>>,
    ) -> Vec<u64> {
        let mut numbers = Vec::with_capacity(steps.len());
        let mut last = vec![true; steps.len()];
        let mut behind = Vec::new();
        for step in steps {
            behind.clear();
            for &other in &step.before {
                behind.push(numbers[other]);
                last[other] = false;
            }
            if behind.is_empty() {
                behind.extend(begin);
            }
            let work = match step.kind {
                _ if !step.enabled => Work::Nothing,
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_EVENT_RECORD => Work::Record(step.subject),
                CUgraphNodeType::CU_GRAPH_NODE_TYPE_WAIT_EVENT => {
                    let event = self.objects.events.get(step.subject);
                    behind.push(event.map_or(0, |event| event.record));
                    Work::Nothing
                }
                _ => step.work.clone(),
            };
            let records = matches!(work, Work::Record(_));
            let number = self.engine.insert(context, stream, work, &behind, scope);
            if records && let Ok(event) = self.objects.events.get_mut(step.subject) {
                (event.record, event.time) = (number, None);
            }
            numbers.push(number);
        }
        numbers.into_iter().zip(last).filter_map(|(number, last)| last.then_some(number)).collect()
    }

    /// Replaces the work of the steps by that of a graph of the same shape. Fails with why not, and
    /// the node.
    pub(in crate::driver) fn update(
        &mut self,
        exec: u64,
        graph: u64,
    ) -> Answer<Result<(), Mismatch>> {
        let mut steps = Vec::new();
        self.flatten(graph, &[], &mut steps)?;
        let (mut conditions, mut users) = (Vec::new(), Vec::new());
        self.all_conditions(graph, &mut conditions, &mut users)?;
        let exec = self.objects.execs.get_mut(exec)?;
        if let Err(why) = compare(&exec.steps, &steps) {
            return Ok(Err(why));
        }
        if let Some(node) = without_cluster(&steps) {
            let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
            return Ok(Err((why, node)));
        }
        // Conditions of the two graphs correspond by the order of their creation; their default values may change.
        if exec.conditions.len() != conditions.len() {
            let why = CUgraphExecUpdateResult::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
            return Ok(Err((why, 0)));
        }
        exec.conditions = conditions.into();
        replace(Arc::make_mut(&mut exec.steps), steps);
        let before = std::mem::replace(&mut exec.users, users.clone());
        for (user, count) in users {
            self.retain_user(user, count);
        }
        for (user, count) in before {
            self.release_user(user, count);
        }
        Ok(Ok(()))
    }

    /// Replaces the graph inside a child graph's node.
    pub(in crate::driver) fn update_child(&mut self, exec: u64, node: u64, child: u64) -> Answer {
        let steps = self.objects.execs.get(exec)?.steps.clone();
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let (mut conditions, mut users) = (Vec::new(), Vec::new());
        self.all_conditions(child, &mut conditions, &mut users)?;
        if !conditions.is_empty() {
            return Err(CUresult::CUDA_ERROR_NOT_SUPPORTED);
        }
        let (inside, at) = find_list(&steps, node).ok_or(invalid)?;
        let step = &inside[at];
        if step.kind != CUgraphNodeType::CU_GRAPH_NODE_TYPE_GRAPH {
            return Err(invalid);
        }
        // The child lies between where it begins and the node's own step.
        let first = *step.before.first().ok_or(invalid)?;
        let mut new = inside[..=first].to_vec();
        self.flatten(child, &[first], &mut new)?;
        if new.len() != at || compare(&inside[..at], &new).is_err() {
            return Err(invalid);
        }
        if without_cluster(&new).is_some() {
            return Err(CUresult::CUDA_ERROR_INVALID_CLUSTER_SIZE);
        }
        let known = self.objects.execs.get_mut(exec)?;
        // Those of the old child stay as long as the graph.
        known.users.extend(&users);
        let steps = Arc::make_mut(&mut known.steps);
        let (inside, _) = find_list_mut(steps, node).ok_or(invalid)?;
        for (old, new) in inside[first + 1..at].iter_mut().zip(new.drain(first + 1..)) {
            put_step(old, new);
        }
        for (user, count) in users {
            self.retain_user(user, count);
        }
        Ok(())
    }

    /// Changes the step that a node has become.
    pub(in crate::driver) fn set_step(
        &mut self,
        exec: u64,
        node: u64,
        kind: CUgraphNodeType,
        change: impl FnOnce(&mut Step),
    ) -> Answer {
        let invalid = CUresult::CUDA_ERROR_INVALID_VALUE;
        let exec = self.objects.execs.get_mut(exec)?;
        let (steps, at) = find_list(&exec.steps, node).ok_or(invalid)?;
        if steps[at].kind != kind {
            return Err(invalid);
        }
        let found = find_list_mut(Arc::make_mut(&mut exec.steps), node);
        let (steps, at) = found.ok_or(invalid)?;
        change(&mut steps[at]);
        Ok(())
    }
}

/// Returns the first node whose kernel needs clusters that the node has not got.
fn without_cluster(steps: &[Step]) -> Option<u64> {
    steps.iter().find_map(|step| match &step.work {
        Work::Kernel(kernel) if kernel.launch.cluster.is_none() => {
            let attributes = kernel.program.attributes(kernel.launch.entry);
            attributes.explicit_cluster.then_some(step.node)
        }
        Work::Conditional(choice) => choice.bodies.iter().find_map(|body| without_cluster(body)),
        _ => None,
    })
}

/// Returns the list of steps with a node's step (the graph's or a body's), and the step's place in it.
pub(in crate::driver) fn find_list(steps: &[Step], node: u64) -> Option<(&[Step], usize)> {
    if let Some(at) = steps.iter().position(|step| step.node == node) {
        return Some((steps, at));
    }
    steps.iter().find_map(|step| match &step.work {
        Work::Conditional(choice) => choice.bodies.iter().find_map(|body| find_list(body, node)),
        _ => None,
    })
}

/// As [`find_list`], to change it. Running work keeps the old list.
fn find_list_mut(steps: &mut [Step], node: u64) -> Option<(&mut [Step], usize)> {
    if let Some(at) = steps.iter().position(|step| step.node == node) {
        return Some((steps, at));
    }
    steps.iter_mut().find_map(|step| match &mut step.work {
        Work::Conditional(choice)
            if choice.bodies.iter().any(|body| find_list(body, node).is_some()) =>
        {
            Arc::make_mut(choice).bodies.iter_mut().find_map(|body| find_list_mut(body, node))
        }
        _ => None,
    })
}

/// Compares the shapes of two lists of steps.
fn compare(old: &[Step], new: &[Step]) -> Result<(), Mismatch> {
    use CUgraphExecUpdateResult as Why;
    if old.len() != new.len() {
        return Err((Why::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0));
    }
    for (old, new) in old.iter().zip(new) {
        let changed = |why| Err((why, new.node));
        if old.before != new.before {
            return changed(Why::CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
        }
        if old.kind != new.kind {
            return changed(Why::CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
        }
        match (&old.work, &new.work) {
            (Work::Kernel(old), Work::Kernel(new)) if old.device != new.device => {
                return changed(Why::CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE);
            }
            (Work::Map(old), Work::Map(new)) | (Work::Unmap(old), Work::Unmap(new))
                if old.start() != new.start() =>
            {
                return changed(Why::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
            }
            (Work::Conditional(old), Work::Conditional(new)) => {
                if old.kind != new.kind || old.bodies.len() != new.bodies.len() {
                    return changed(Why::CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
                }
                for (old, new) in old.bodies.iter().zip(&new.bodies) {
                    compare(old, new)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Replaces what steps do; the handles of the first graph's nodes go on naming them.
fn replace(old: &mut [Step], new: Vec<Step>) {
    for (old, new) in old.iter_mut().zip(new) {
        put_step(old, new);
    }
}

fn put_step(old: &mut Step, mut new: Step) {
    if let (Work::Conditional(old), Work::Conditional(new)) = (&old.work, &mut new.work) {
        // The names in the bodies stay.
        let mut kept = old.as_ref().clone();
        kept.handle = new.handle;
        let bodies = Arc::make_mut(new).bodies.drain(..);
        for (old, new) in kept.bodies.iter_mut().zip(bodies) {
            replace(old, new);
        }
        *new = Arc::new(kept);
    }
    (new.node, new.enabled) = (old.node, old.enabled);
    *old = new;
}

/// Returns the first node that may not be in a conditional node's body.
fn unfit_in_body(steps: &[Step], body: bool) -> Option<u64> {
    use CUgraphNodeType as T;
    let fit = [
        T::CU_GRAPH_NODE_TYPE_KERNEL,
        T::CU_GRAPH_NODE_TYPE_MEMCPY,
        T::CU_GRAPH_NODE_TYPE_MEMSET,
        T::CU_GRAPH_NODE_TYPE_GRAPH,
        T::CU_GRAPH_NODE_TYPE_EMPTY,
        T::CU_GRAPH_NODE_TYPE_CONDITIONAL,
    ];
    steps.iter().find_map(|step| match &step.work {
        _ if body && !fit.contains(&step.kind) => Some(step.node),
        Work::Conditional(choice) => {
            choice.bodies.iter().find_map(|body| unfit_in_body(body, true))
        }
        _ => None,
    })
}

/// Returns whether a conditional node reads this condition.
fn reads(steps: &[Step], handle: u64) -> bool {
    steps.iter().any(|step| match &step.work {
        Work::Conditional(choice) => {
            choice.handle == handle || choice.bodies.iter().any(|body| reads(body, handle))
        }
        _ => false,
    })
}
