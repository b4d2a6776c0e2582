//! A stand-in for a framework such as PyTorch: a stream, tensors, captures and graphs of its own, by raw calls of the
//! driver.

use std::cell::Cell;
use std::sync::Arc;

use cuda_safe::Context;
use cuda_safe::sys::{
    CU_STREAM_LEGACY, CUcontext, CUdeviceptr, CUgraph, CUgraphExec, CUresult, CUstream,
    CUstream_flags, CUstreamCaptureMode, CUstreamCaptureStatus, Driver as Sys, MissingSymbol,
};

use test_harness::{Failure, TestResult, ensure_eq, note_failure};

/// The driver's answer to a call of the framework.
pub(crate) fn success(call: &str, answer: Result<CUresult, MissingSymbol>) -> TestResult {
    ensure_eq!(answer?, CUresult::CUDA_SUCCESS, "{call}");
    Ok(())
}

/// The context that a framework works in, with its stream.
#[derive(Clone)]
pub(crate) struct Framework(Arc<Inner>);

struct Inner {
    sys: &'static Sys,
    context: CUcontext,
    stream: CUstream,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// Runs `call` with a context current, as frameworks do.
fn bound<R>(
    sys: &Sys,
    context: CUcontext,
    call: impl FnOnce() -> Result<R, Failure>,
) -> Result<R, Failure> {
    // SAFETY: the context is live while the test runs.
    success("cuCtxPushCurrent", unsafe { sys.cuCtxPushCurrent_v2(context) })?;
    let result = call();
    let pop = || {
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what was pushed.
        success("cuCtxPopCurrent", unsafe { sys.cuCtxPopCurrent_v2(&raw mut popped) })
    };
    if let Err(failed) = pop() {
        // Another library's context must not stay current on the thread.
        let _ = pop();
        return Err(failed);
    }
    result
}

impl Framework {
    /// A framework that runs on a stream which does not wait for the legacy stream.
    pub(crate) fn new(context: &Context) -> Result<Self, Failure> {
        Self::with_flags(context, CUstream_flags::CU_STREAM_NON_BLOCKING)
    }

    pub(crate) fn with_flags(context: &Context, flags: CUstream_flags) -> Result<Self, Failure> {
        let (sys, context) = (context.driver().as_sys(), context.as_raw());
        let mut inner = Inner { sys, context, stream: CU_STREAM_LEGACY };
        bound(sys, context, || {
            let mut stream = std::ptr::null_mut();
            // SAFETY: `stream` is a valid place for a handle.
            let made = unsafe { sys.cuStreamCreate(&raw mut stream, flags.0) };
            success("cuStreamCreate", made)?;
            // Destroyed with `inner`, also if popping the context fails.
            inner.stream = stream;
            Ok(())
        })?;
        Ok(Self(Arc::new(inner)))
    }

    /// A framework that runs on the legacy stream.
    pub(crate) fn legacy(context: &Context) -> Self {
        let (sys, context) = (context.driver().as_sys(), context.as_raw());
        Self(Arc::new(Inner { sys, context, stream: CU_STREAM_LEGACY }))
    }

    pub(crate) fn stream(&self) -> CUstream {
        self.0.stream
    }

    pub(crate) fn sys(&self) -> &'static Sys {
        self.0.sys
    }

    pub(crate) fn bound<R>(&self, call: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
        bound(self.0.sys, self.0.context, call)
    }

    /// A tensor in the order of the stream.
    pub(crate) fn tensor(&self, values: &[u32]) -> Result<RawTensor, Failure> {
        let tensor = self.allocate(values.len())?;
        tensor.write(values)?;
        Ok(tensor)
    }

    /// A tensor that nothing is written to, without a wait.
    pub(crate) fn allocate(&self, len: usize) -> Result<RawTensor, Failure> {
        let (mut tensor, bytes) = (None, (len * size_of::<u32>()).max(4));
        self.bound(|| {
            let mut start = 0;
            // SAFETY: `start` is a valid place for an address.
            let made = unsafe { self.0.sys.cuMemAllocAsync(&raw mut start, bytes, self.0.stream) };
            success("cuMemAllocAsync", made)?;
            // Freed with it, also if popping the context fails.
            tensor = Some(RawTensor { framework: self.clone(), start, len });
            Ok(())
        })?;
        tensor.ok_or_else(|| Failure::new("no memory was allocated"))
    }

    pub(crate) fn synchronize(&self) -> TestResult {
        self.bound(|| {
            // SAFETY: the stream is live.
            success("cuStreamSynchronize", unsafe { self.0.sys.cuStreamSynchronize(self.0.stream) })
        })
    }

    pub(crate) fn begin_capture(&self, mode: CUstreamCaptureMode) -> TestResult {
        // SAFETY: the stream is live.
        let begun = unsafe { self.0.sys.cuStreamBeginCapture_v2(self.0.stream, mode) };
        success("cuStreamBeginCapture", begun)
    }

    /// Whether the stream is captured, and the capture is in order.
    pub(crate) fn captures(&self) -> Result<bool, Failure> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: the stream is live, and `status` is a valid place.
        let asked = unsafe { self.0.sys.cuStreamIsCapturing(self.0.stream, &raw mut status) };
        success("cuStreamIsCapturing", asked)?;
        Ok(status == CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE)
    }

    pub(crate) fn end_capture(&self) -> Result<RawGraph, Failure> {
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is live, and `graph` is a valid place for a handle.
        let ended = unsafe { self.0.sys.cuStreamEndCapture(self.0.stream, &raw mut graph) };
        if let Err(failed) = success("cuStreamEndCapture", ended) {
            // A stream that goes on capturing could free nothing.
            // SAFETY: as above.
            let _ = unsafe { self.0.sys.cuStreamEndCapture(self.0.stream, &raw mut graph) };
            drop(RawGraph { framework: self.clone(), graph, exec: std::ptr::null_mut() });
            return Err(failed);
        }
        let mut made = RawGraph { framework: self.clone(), graph, exec: std::ptr::null_mut() };
        self.bound(|| {
            let place = &raw mut made.exec;
            // SAFETY: the graph is live, and `exec` is a valid place for a handle.
            let exec = unsafe { self.0.sys.cuGraphInstantiateWithFlags(place, graph, 0) };
            success("cuGraphInstantiateWithFlags", exec)
        })?;
        Ok(made)
    }

    /// Ends a capture that is invalidated, as the driver must say.
    pub(crate) fn end_invalidated(&self) -> TestResult {
        let mut graph = std::ptr::null_mut();
        let mut end = || {
            // SAFETY: the stream is live, and `graph` is a valid place for a handle.
            unsafe { self.0.sys.cuStreamEndCapture(self.0.stream, &raw mut graph) }
        };
        let ended = end()?;
        if ended != CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED {
            // Another failure: the stream captures still.
            let _ = end();
        }
        ensure_eq!(ended, CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cuStreamEndCapture");
        Ok(())
    }

    /// Captures what `record` does; the capture ends whatever comes of it.
    pub(crate) fn capture(&self, record: impl FnOnce() -> TestResult) -> Result<RawGraph, Failure> {
        self.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL)?;
        let recorded = record();
        let graph = self.end_capture();
        recorded?;
        graph
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.stream != CU_STREAM_LEGACY {
            // SAFETY: this owns the stream, and it is destroyed once.
            note_failure(success("cuStreamDestroy", unsafe {
                self.sys.cuStreamDestroy_v2(self.stream)
            }));
        }
    }
}

/// A tensor of a framework, freed in its stream's order.
pub(crate) struct RawTensor {
    framework: Framework,
    start: CUdeviceptr,
    len: usize,
}

impl RawTensor {
    pub(crate) fn start(&self) -> CUdeviceptr {
        self.start
    }

    /// Writes the elements, in the order of the framework's stream.
    pub(crate) fn write(&self, values: &[u32]) -> TestResult {
        let Framework(inner) = &self.framework;
        if values.is_empty() {
            return Ok(());
        }
        self.framework.bound(|| {
            let (from, bytes) = (values.as_ptr().cast(), size_of_val(values));
            // SAFETY: both sides have that many bytes, and pageable memory is read before the call returns.
            let copied =
                unsafe { inner.sys.cuMemcpyHtoDAsync_v2(self.start, from, bytes, inner.stream) };
            success("cuMemcpyHtoDAsync", copied)?;
            // The software device reads it later.
            // SAFETY: the stream is live.
            success("cuStreamSynchronize", unsafe { inner.sys.cuStreamSynchronize(inner.stream) })
        })
    }

    /// Fills it, in the order of the framework's stream, without a wait.
    pub(crate) fn fill(&self, value: u32) -> TestResult {
        let Framework(inner) = &self.framework;
        self.framework.bound(|| {
            // SAFETY: the tensor has that many elements.
            let filled =
                unsafe { inner.sys.cuMemsetD32Async(self.start, value, self.len, inner.stream) };
            success("cuMemsetD32Async", filled)
        })
    }

    /// The elements, after waiting for the framework's stream.
    pub(crate) fn read(&self) -> Result<Vec<u32>, Failure> {
        let Framework(inner) = &self.framework;
        let mut values = vec![0; self.len];
        if self.len > 0 {
            self.framework.bound(|| {
                let (to, bytes) = (values.as_mut_ptr().cast(), self.len * size_of::<u32>());
                // SAFETY: both sides have that many bytes, and the stream is waited for below.
                let copied =
                    unsafe { inner.sys.cuMemcpyDtoHAsync_v2(to, self.start, bytes, inner.stream) };
                success("cuMemcpyDtoHAsync", copied)?;
                // SAFETY: the stream is live.
                let waited = unsafe { inner.sys.cuStreamSynchronize(inner.stream) };
                success("cuStreamSynchronize", waited)
            })?;
        }
        Ok(values)
    }
}

impl Drop for RawTensor {
    fn drop(&mut self) {
        let Framework(inner) = &self.framework;
        let freed = Cell::new(false);
        let free = || {
            self.framework.bound(|| {
                freed.set(true);
                // SAFETY: this owns the memory, and frees it once.
                success("cuMemFreeAsync", unsafe {
                    inner.sys.cuMemFreeAsync(self.start, inner.stream)
                })
            })
        };
        note_failure(free());
        if !freed.get() {
            // The context could not be made current: nothing may be left.
            note_failure(free());
        }
    }
}

/// A graph that a framework has captured.
pub(crate) struct RawGraph {
    framework: Framework,
    graph: CUgraph,
    exec: CUgraphExec,
}

impl RawGraph {
    pub(crate) fn launch(&self) -> TestResult {
        let Framework(inner) = &self.framework;
        self.framework.bound(|| {
            // SAFETY: graph and stream are live.
            success("cuGraphLaunch", unsafe { inner.sys.cuGraphLaunch(self.exec, inner.stream) })
        })
    }
}

impl Drop for RawGraph {
    fn drop(&mut self) {
        let sys = self.framework.0.sys;
        if !self.exec.is_null() {
            // SAFETY: this owns it.
            note_failure(success("cuGraphExecDestroy", unsafe {
                sys.cuGraphExecDestroy(self.exec)
            }));
        }
        if !self.graph.is_null() {
            // SAFETY: this owns it.
            note_failure(success("cuGraphDestroy", unsafe { sys.cuGraphDestroy(self.graph) }));
        }
    }
}
