//! A stand-in for a framework, by raw calls of the driver: a stream, tensors, captures and graphs.

use std::ffi::c_void;
use std::sync::Arc;

use cuda_safe::dlpack::abi::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLPackVersion,
    DLTensor,
};
use cuda_safe::dlpack::{Consumer, Tensor};
use cuda_safe::sys::{
    CU_STREAM_LEGACY, CUgraph, CUgraphExec, CUresult, CUstream, CUstream_flags,
    CUstreamCaptureMode, MissingSymbol,
};
use cuda_safe::{Allocator, Context, ForeignMemory, LentStream, Result};
use test_harness::{Failure, TestResult, ensure_eq};

fn success(call: &str, answer: Result<CUresult, MissingSymbol>) -> TestResult {
    ensure_eq!(answer?, CUresult::CUDA_SUCCESS, "{call}");
    Ok(())
}

/// A framework with a stream, which is destroyed with it unless it is the legacy stream.
pub(crate) struct Framework(Arc<Inner>);

struct Inner {
    context: Context,
    stream: CUstream,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// A graph of a framework.
pub(crate) struct Graph {
    framework: Arc<Inner>,
    graph: CUgraph,
    exec: CUgraphExec,
}

impl Inner {
    fn sys(&self) -> &'static cuda_safe::sys::Driver {
        self.context.driver().as_sys()
    }

    fn bound(&self, call: impl FnOnce() -> TestResult) -> TestResult {
        // SAFETY: the context is live.
        success("cuCtxPushCurrent", unsafe {
            self.sys().cuCtxPushCurrent_v2(self.context.as_raw())
        })?;
        let result = call();
        let mut popped = std::ptr::null_mut();
        // SAFETY: pops what was pushed.
        success("cuCtxPopCurrent", unsafe { self.sys().cuCtxPopCurrent_v2(&raw mut popped) })?;
        result
    }
}

impl Framework {
    pub(crate) fn new(context: Context, legacy: bool) -> std::result::Result<Self, Failure> {
        let mut inner = Inner { context, stream: CU_STREAM_LEGACY };
        if !legacy {
            let (mut stream, sys) = (std::ptr::null_mut(), inner.sys());
            let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
            inner.bound(|| {
                // SAFETY: `stream` is a valid place for a handle.
                let made = unsafe { sys.cuStreamCreate(&raw mut stream, flags) };
                success("cuStreamCreate", made)
            })?;
            inner.stream = stream;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Lends the framework's stream for a call.
    pub(crate) fn lend<R>(&self, call: impl FnOnce(&LentStream) -> Result<R>) -> Result<R> {
        // SAFETY: the stream lives until the call returns, and its captures begin and end outside of calls.
        unsafe { self.0.context.lend(self.0.stream, call) }
    }

    /// Lends the stream while it is captured, and returns the framework's graph.
    pub(crate) fn capture(
        &self,
        call: impl FnOnce(&LentStream) -> Result<()>,
    ) -> std::result::Result<Graph, Failure> {
        let (sys, stream) = (self.0.sys(), self.0.stream);
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream is live.
        success("cuStreamBeginCapture", unsafe { sys.cuStreamBeginCapture_v2(stream, mode) })?;
        let recorded = self.lend(call);
        let (mut graph, mut exec) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: as above, and `graph` is a valid place for a handle.
        success("cuStreamEndCapture", unsafe { sys.cuStreamEndCapture(stream, &raw mut graph) })?;
        self.0.bound(|| {
            // SAFETY: the graph is live, and `exec` is a valid place for a handle.
            let made = unsafe { sys.cuGraphInstantiateWithFlags(&raw mut exec, graph, 0) };
            success("cuGraphInstantiate", made)
        })?;
        let made = Graph { framework: self.0.clone(), graph, exec };
        recorded?;
        Ok(made)
    }

    /// Returns a tensor of the framework, which is written.
    pub(crate) fn tensor(&self, values: &[u32]) -> std::result::Result<Tensor, Failure> {
        self.tensor_with(values, || ())
    }

    /// Returns a tensor whose deleter runs `deleted` before it frees the memory, on any thread. `deleted` must not panic:
    /// C code does not.
    pub(crate) fn tensor_with(
        &self,
        values: &[u32],
        deleted: impl FnOnce() + Send + 'static,
    ) -> std::result::Result<Tensor, Failure> {
        let (sys, stream, bytes) = (self.0.sys(), self.0.stream, size_of_val(values));
        let memory = Memory::new(&self.0, bytes)?;
        let start = memory.start;
        self.0.bound(|| {
            // SAFETY: both sides have that many bytes, and the source is read before the stream was waited for.
            unsafe {
                let copied = sys.cuMemcpyHtoDAsync_v2(start, values.as_ptr().cast(), bytes, stream);
                success("cuMemcpyHtoDAsync", copied)?;
                success("cuStreamSynchronize", sys.cuStreamSynchronize(stream))
            }
        })?;
        let owner = Owner {
            deleted: Box::new(deleted),
            _memory: memory,
            shape: [values.len() as i64],
            strides: [1],
        };
        let owner = Box::into_raw(Box::new(owner));
        // SAFETY: made just now.
        let (shape, strides) =
            unsafe { ((*owner).shape.as_mut_ptr(), (*owner).strides.as_mut_ptr()) };
        let tensor = DLTensor {
            data: std::ptr::with_exposed_provenance_mut(start as usize),
            device: DLDevice { device_type: DLDeviceType::CUDA, device_id: 0 },
            ndim: 1,
            dtype: DLDataType { code: DLDataType::UINT, bits: 32, lanes: 1 },
            shape,
            strides,
            byte_offset: 0,
        };
        let managed = DLManagedTensorVersioned {
            version: DLPackVersion { major: 1, minor: 3 },
            manager_ctx: owner.cast::<c_void>(),
            deleter: Some(delete),
            flags: 0,
            dl_tensor: tensor,
        };
        self.import(Box::into_raw(Box::new(managed)))
    }

    /// Returns the framework's stream, as the consumer of a tensor.
    pub(crate) fn consumer(&self) -> Result<Consumer> {
        // SAFETY: the stream is live while the attack exports to it.
        unsafe { Consumer::from_raw(self.0.stream.addr() as i64) }
    }

    /// Takes an exported tensor, as a tensor that this framework uses on its stream.
    pub(crate) fn import(
        &self,
        tensor: *mut DLManagedTensorVersioned,
    ) -> std::result::Result<Tensor, Failure> {
        // SAFETY: a managed tensor that nobody else deletes; the attacks are programs of one thread, which use its
        // memory by views of the result alone.
        Ok(unsafe { Tensor::from_versioned(tensor) }?)
    }
}

impl Framework {
    /// Takes an exported tensor of the ABI before DLPack 1.0.
    pub(crate) fn import_unversioned(
        &self,
        tensor: *mut DLManagedTensor,
    ) -> std::result::Result<Tensor, Failure> {
        // SAFETY: as in `import`.
        Ok(unsafe { Tensor::from_unversioned(tensor) }?)
    }

    /// Returns the framework's allocator, which runs `called` before each allocation.
    pub(crate) fn allocator(&self, called: impl Fn() + 'static) -> impl Allocator + 'static {
        FromFramework { framework: self.0.clone(), called: Box::new(called) }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.stream != CU_STREAM_LEGACY {
            // SAFETY: this owns the stream.
            let _ = unsafe { self.sys().cuStreamDestroy_v2(self.stream) };
        }
    }
}

impl Graph {
    pub(crate) fn launch(&self) -> TestResult {
        let (sys, stream) = (self.framework.sys(), self.framework.stream);
        // SAFETY: both are live.
        self.framework
            .bound(|| success("cuGraphLaunch", unsafe { sys.cuGraphLaunch(self.exec, stream) }))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let sys = self.framework.sys();
        // SAFETY: this owns both.
        let _ = unsafe { (sys.cuGraphExecDestroy(self.exec), sys.cuGraphDestroy(self.graph)) };
    }
}

/// Memory of a framework, freed in its stream's order.
struct Memory {
    framework: Arc<Inner>,
    start: u64,
}

impl Memory {
    fn new(framework: &Arc<Inner>, bytes: usize) -> std::result::Result<Self, Failure> {
        let mut start = 0;
        framework.bound(|| {
            // SAFETY: `start` is a valid place for an address, and the stream is live.
            success("cuMemAllocAsync", unsafe {
                framework.sys().cuMemAllocAsync(&raw mut start, bytes, framework.stream)
            })
        })?;
        Ok(Self { framework: framework.clone(), start })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let framework = &self.framework;
        let _ = framework.bound(|| {
            // SAFETY: this owns the memory.
            success("cuMemFreeAsync", unsafe {
                framework.sys().cuMemFreeAsync(self.start, framework.stream)
            })
        });
    }
}

struct FromFramework {
    framework: Arc<Inner>,
    called: Box<dyn Fn()>,
}

// SAFETY: memory of the driver's pool in the order of the stream that is lent, aligned by the driver; the token frees it.
unsafe impl Allocator for FromFramework {
    fn allocate(&self, _: &Context, bytes: usize, _: CUstream) -> Result<ForeignMemory> {
        (self.called)();
        let memory = Memory::new(&self.framework, bytes)
            .map_err(|failed| cuda_safe::Error::invalid(failed.to_string()))?;
        Ok(ForeignMemory { start: memory.start, token: Box::new(memory) })
    }
}

/// What a tensor of the framework owns.
struct Owner {
    deleted: Box<dyn FnOnce() + Send>,
    _memory: Memory,
    shape: [i64; 1],
    strides: [i64; 1],
}

unsafe extern "C" fn delete(tensor: *mut DLManagedTensorVersioned) {
    // SAFETY: made by `tensor_with`, and deleted once.
    let tensor = unsafe { Box::from_raw(tensor) };
    // SAFETY: as above.
    let owner = unsafe { Box::from_raw(tensor.manager_ctx.cast::<Owner>()) };
    (owner.deleted)();
}
