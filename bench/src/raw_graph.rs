//! Graphs by raw driver calls, as a C program would make them.

use std::ffi::c_void;

use cuda_safe::{Context, Stream};
use cuda_sys::{
    CUDA_KERNEL_NODE_PARAMS, CUfunction, CUgraph, CUgraphExec, CUgraphNode, CUstreamCaptureMode,
    DriverFns,
};

use crate::raw::{Arrays, RawError, check, need};
use crate::stop::Stop;

/// Makes a context current on this thread, as a C program has it, until it is dropped.
pub(crate) struct Current(&'static DriverFns);

impl Current {
    pub(crate) fn push(context: &Context) -> Result<Self, Stop> {
        let fns = context.driver().as_sys().fns();
        let push = need(fns.cuCtxPushCurrent_v2, "cuCtxPushCurrent")?;
        // SAFETY: the context is borrowed, and primary: it is kept when handles go.
        check("cuCtxPushCurrent", unsafe { push(context.as_raw()) })?;
        Ok(Self(fns))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        if let Some(pop) = self.0.cuCtxPopCurrent_v2 {
            let mut popped = std::ptr::null_mut();
            // SAFETY: pops what `push` has pushed. A failure would change no figure.
            let _ = unsafe { pop(&raw mut popped) };
        }
    }
}

/// A graph, captured from what a closure enqueues on a stream, and its executable form.
#[derive(Debug)]
pub(crate) struct RawGraph {
    fns: &'static DriverFns,
    graph: CUgraph,
    exec: CUgraphExec,
}

impl RawGraph {
    pub(crate) fn capture(
        context: &Context,
        stream: &Stream,
        record: impl FnOnce() -> Result<(), Stop>,
    ) -> Result<Self, Stop> {
        let _current = Current::push(context)?;
        let fns = context.driver().as_sys().fns();
        let begin = need(fns.cuStreamBeginCapture_v2, "cuStreamBeginCapture")?;
        let end = need(fns.cuStreamEndCapture, "cuStreamEndCapture")?;
        let instantiate = need(fns.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags")?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        let mut this = Self { fns, graph: std::ptr::null_mut(), exec: std::ptr::null_mut() };
        // SAFETY: the stream is borrowed, so it is alive.
        check("cuStreamBeginCapture", unsafe { begin(stream.as_raw(), mode) })?;
        let recorded = record();
        // SAFETY: as above, and `graph` is a valid place for a handle.
        let code = unsafe { end(stream.as_raw(), &raw mut this.graph) };
        recorded?;
        check("cuStreamEndCapture", code)?;
        // SAFETY: the graph is alive, and `exec` is a valid place for a handle.
        let code = unsafe { instantiate(&raw mut this.exec, this.graph, 0) };
        check("cuGraphInstantiateWithFlags", code)?;
        Ok(this)
    }

    /// `cuGraphLaunch`, as a function without lookups.
    pub(crate) fn launcher(
        &self,
        stream: &Stream,
    ) -> Result<impl Fn() -> Result<(), RawError> + use<'_>, Stop> {
        let launch = need(self.fns.cuGraphLaunch, "cuGraphLaunch")?;
        let (exec, stream) = (self.exec, stream.as_raw());
        // SAFETY: the graph is borrowed, and the stream is that of the run, which outlives its rows.
        Ok(move || check("cuGraphLaunch", unsafe { launch(exec, stream) }))
    }

    /// The only node of the graph.
    pub(crate) fn only_node(&self) -> Result<CUgraphNode, Stop> {
        let nodes = need(self.fns.cuGraphGetNodes, "cuGraphGetNodes")?;
        let (mut node, mut count) = (std::ptr::null_mut(), 1);
        // SAFETY: there is room for one handle, and `count` says so.
        check("cuGraphGetNodes", unsafe { nodes(self.graph, &raw mut node, &raw mut count) })?;
        Ok(node)
    }

    /// `cuGraphExecKernelNodeSetParams` for `(float, const T*, const T*, T*, size_t)`.
    ///
    /// # Safety
    /// The node is one of the graph's, and the function has these parameters.
    pub(crate) unsafe fn saxpy_updater(
        &self,
        node: CUgraphNode,
        function: CUfunction,
        (grid, block): (u32, u32),
    ) -> Result<impl Fn(f32, Arrays, u64) -> Result<(), RawError> + use<'_>, Stop> {
        let name = "cuGraphExecKernelNodeSetParams_v2";
        let set = need(self.fns.cuGraphExecKernelNodeSetParams_v2, name)?;
        let exec = self.exec;
        Ok(move |mut a: f32, arrays: Arrays, mut n: u64| {
            let [mut x, mut y, mut out] = arrays;
            let mut parameters: [*mut c_void; 5] = [
                (&raw mut a).cast(),
                (&raw mut x).cast(),
                (&raw mut y).cast(),
                (&raw mut out).cast(),
                (&raw mut n).cast(),
            ];
            let params = CUDA_KERNEL_NODE_PARAMS {
                func: function,
                gridDimX: grid,
                gridDimY: 1,
                gridDimZ: 1,
                blockDimX: block,
                blockDimY: 1,
                blockDimZ: 1,
                sharedMemBytes: 0,
                kernelParams: parameters.as_mut_ptr(),
                extra: std::ptr::null_mut(),
                kern: std::ptr::null_mut(),
                ctx: std::ptr::null_mut(),
            };
            // SAFETY: the caller's promise; the driver copies the parameters before it returns.
            check(name, unsafe { set(exec, node, &raw const params) })
        })
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        // SAFETY: both were made by `capture` and are destroyed only here; a null handle is only
        // returned an error. A failure would change no figure.
        unsafe {
            if let Some(destroy) = self.fns.cuGraphExecDestroy.filter(|_| !self.exec.is_null()) {
                let _ = destroy(self.exec);
            }
            if let Some(destroy) = self.fns.cuGraphDestroy.filter(|_| !self.graph.is_null()) {
                let _ = destroy(self.graph);
            }
        }
    }
}
