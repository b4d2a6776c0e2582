//! The launches in a graph that can be changed.

use std::ffi::c_void;
use std::ops::Range;
use std::sync::Arc;

use cuda_sys::{CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraphExec};

use super::driver::RawNode;
use super::recording::Contents;
use super::uses::{Key, Uses};
use crate::context::ContextInner;
use crate::error::{Error, Result};
use crate::launch::LaunchConfig;
use crate::memory::{Access, Allocation, Used};
use crate::quiet::Kept;

/// A launch in a graph; see [`Stream::last_node`](crate::Stream::last_node).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GraphNode {
    pub(super) recording: u64,
    pub(super) index: usize,
}

/// A launch in a graph.
#[derive(Clone)]
pub(crate) struct KernelNode {
    /// Null until the launch was enqueued.
    pub(super) node: RawNode,
    /// The resources that it uses, counted.
    pub(super) keys: Vec<Key>,
    /// The place of that among the uses of the graph.
    pub(super) order: u64,
    /// Keeps the kernel's code.
    module: Kept,
    /// The launch, whose attributes a change has to keep.
    shape: LaunchConfig,
}

impl KernelNode {
    pub(super) fn new(launch: &LaunchConfig, module: Kept) -> Self {
        let node = RawNode::NULL;
        Self { node, keys: Vec::new(), order: 0, module, shape: *launch }
    }
}

/// The change of one node of an executable graph.
pub(super) struct Update {
    pub(super) exec: CUgraphExec,
    /// The node before the launch, and from the launch on the new one.
    pub(super) node: KernelNode,
    /// Whether nodes of the graph may run beside it.
    pub(super) has_branches: bool,
    /// Whether the graph spans several contexts.
    pub(super) spans: bool,
    /// The resources that the launch uses.
    uses: Vec<(Arc<Allocation>, Range<usize>, Access)>,
    pub(super) done: bool,
    /// The node's earlier resources, to be dropped without a lock held.
    pub(super) gone: Vec<Arc<Allocation>>,
}

impl Update {
    pub(super) fn new(exec: CUgraphExec, node: KernelNode, contents: &Contents) -> Self {
        let Contents { has_branches, spans, .. } = *contents;
        Self { exec, node, has_branches, spans, uses: Vec::new(), done: false, gone: Vec::new() }
    }

    /// Fails for a launch that the node can't become.
    pub(super) fn check(&self, launch: &LaunchConfig) -> Result<()> {
        if self.done {
            return Err(Error::invalid("a node for a launch can only be changed by one launch"));
        }
        if self.node.shape.with_extents_of(launch) != *launch {
            return Err(Error::invalid(format!(
                "a node keeps its attributes, which are those of: {}",
                self.node.shape
            )));
        }
        Ok(())
    }

    pub(super) fn begin_use(&mut self, others: &Uses, used: Used<'_>) -> Result<()> {
        if used.0.is_of_graph() {
            return Err(Error::invalid("a node can't be changed to use memory of a graph"));
        }
        if self.has_branches && others.conflict(&used, &self.node.keys) {
            return Err(Error::invalid(
                "another node of this graph, which has branches, uses this memory: it is not known \
                 whether the two are ordered",
            )
            .with_hint(
                "in a graph with branches a node can only be given memory that it or no node uses; \
                 record it anew with `GraphExec::recapture`",
            ));
        }
        let (allocation, range, access) = used;
        self.uses.push((allocation.clone(), range, access));
        Ok(())
    }

    /// Makes a launch the parameters of the node.
    ///
    /// # Safety
    /// As [`issue`](crate::launch::issue), but for the stream.
    pub(super) unsafe fn launch(
        &mut self,
        context: &ContextInner,
        function: CUfunction,
        launch: &LaunchConfig,
        module: Kept,
        pointers: &mut [*mut c_void],
    ) -> Result<()> {
        let (grid, block) = (launch.grid, launch.block);
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: function,
            gridDimX: grid.x,
            gridDimY: grid.y,
            gridDimZ: grid.z,
            blockDimX: block.x,
            blockDimY: block.y,
            blockDimZ: block.z,
            sharedMemBytes: launch.dynamic_shared_bytes,
            kernelParams: pointers.as_mut_ptr(),
            extra: std::ptr::null_mut(),
            kern: std::ptr::null_mut(),
            ctx: std::ptr::null_mut(),
        };
        let node = self.node.node.raw();
        // The driver takes the kernel's context from what is current (measured: it crashes where
        // there is none).
        context.with_current(|| {
            // SAFETY: graph and node are live, the node is one of the graph's, and the driver copies
            // the parameters and what they point to before it returns; the rest is the caller's
            // promise.
            unsafe {
                call!(
                    context,
                    cuGraphExecKernelNodeSetParams_v2(self.exec, node, &raw const params)
                )
            }
        })?;
        self.done = true;
        self.node.module = module;
        self.node.shape = *launch;
        Ok(())
    }

    /// Counts what the node uses now instead of what it used.
    pub(super) fn apply(&mut self, uses: &mut Uses) {
        if !self.done {
            return;
        }
        let old = std::mem::take(&mut self.node.keys);
        for (allocation, range, access) in self.uses.drain(..) {
            allocation.note_captured();
            let key = uses.add_at(self.node.order, &(&allocation, range, access));
            self.node.keys.push(key);
            // The last handle of what is in use here is never this one: the count holds it.
            drop(allocation);
        }
        self.gone.extend(old.iter().filter_map(|key| uses.remove(key)));
    }
}
