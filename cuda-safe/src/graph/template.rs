//! The source of a graph.

use std::sync::Arc;

use cuda_sys::CUgraph;

use super::driver;
use super::node::KernelNode;
use super::recording::{Capture, Contents};
use crate::context::{ContextInner, Counted, Deferred};
use crate::error::{Error, Result};
use crate::quiet::Token;

/// A graph that was recorded, and what it needs: the driver's graph, the memory that it uses, and
/// what else must live as long.
pub(super) struct Template {
    pub(super) context: Arc<ContextInner>,
    pub(super) graph: CUgraph,
    pub(super) contents: Contents,
    /// Names the recording that its nodes were named in.
    pub(super) number: u64,
    /// As what the context counts it.
    counted: Counted,
}

impl Template {
    pub(super) fn empty(context: &Arc<ContextInner>) -> Self {
        context.census.add(Counted::Graph);
        Self {
            context: context.clone(),
            graph: std::ptr::null_mut(),
            contents: Contents::default(),
            number: 0,
            counted: Counted::Graph,
        }
    }

    /// Fails for a stream of another context.
    pub(super) fn of_context(&self, context: &Arc<ContextInner>) -> Result<()> {
        if Arc::ptr_eq(&self.context, context) {
            return Ok(());
        }
        Err(Error::invalid("the graph belongs to another context than the stream"))
    }

    /// Returns the same as a second shape of a graph, which is counted already.
    pub(super) fn into_second_shape(mut self) -> Self {
        self.context.census.add(Counted::Shape);
        self.context.census.remove(self.counted);
        self.counted = Counted::Shape;
        self
    }

    /// Returns whether an executable graph of this shape can be changed to the other in place: whether the driver, if it
    /// finds the shapes equal, pairs each named node with the one of the same name. In one row it pairs by place; what it
    /// does with branches it doesn't say.
    pub(super) fn pairs_with(&self, other: &Self) -> Result<bool> {
        let (mine, others) = (&self.contents, &other.contents);
        if mine.spans || others.spans {
            // The driver changes it, and crashes at the next launch (driver 580, two H100s).
            return Ok(false);
        }
        if mine.nodes.is_empty() && others.nodes.is_empty() {
            return Ok(true);
        }
        let same =
            mine.nodes.len() == others.nodes.len() && !mine.has_branches && !others.has_branches;
        Ok(same && self.places()? == other.places()?)
    }

    /// Adds to an error of the driver what it can't do with graphs that allocate memory, if this one does.
    pub(super) fn explain<R>(&self, result: Result<R>) -> Result<R> {
        result.map_err(|error| match error.code() {
            Some(_) if self.contents.allocates && !error.is_fatal() => error.with_hint(
                "the graph allocates the buffers that its closure makes, and drivers restrict such graphs: \
                 they can't be cloned or be part of another graph; make the buffers before the capture, in \
                 its state",
            ),
            _ => error,
        })
    }

    /// Returns where the named nodes stand among all nodes.
    fn places(&self) -> Result<Vec<Option<usize>>> {
        let all = driver::nodes(&self.context, self.graph)?;
        let place = |named: &KernelNode| all.iter().position(|node| *node == named.node);
        Ok(self.contents.nodes.iter().map(place).collect())
    }

    /// Takes what a recording has noted, if it is in order.
    pub(super) fn take(&mut self, capture: &Capture) -> Result<()> {
        let mut contents = capture.empty()?;
        let failure = contents.failures.first();
        contents.failures.report(&self.context);
        if let Some(error) = failure {
            return Err(error);
        }
        if contents.memory > 0 {
            return Err(Error::invalid(format!(
                "{} buffers made while recording are still alive when it ends",
                contents.memory
            ))
            .with_hint(
                "drop them in the closure, or make them before and put them into the state",
            ));
        }
        self.contents = contents;
        self.number = capture.number;
        Ok(())
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        self.context.census.remove(self.counted);
        self.context.keep_drop_result(driver::destroy_graph(&self.context, self.graph));
        if !self.contents.spans {
            return;
        }
        self.contents.kept.clear();
        let resources = std::mem::take(&mut self.contents.resources);
        if !resources.is_empty() {
            // A launch, which is work of this context, may still need it. Waiting for the contexts that it belongs to,
            // which is what its own drop relies on, is no wait for such a launch.
            self.context.deferred.put(Deferred::Token(Token::new(Box::new(resources))));
        }
    }
}
