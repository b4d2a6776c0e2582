//! Points in a stream's order, and work that others enqueue through raw handles.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cuda_sys::CUstream;

use super::{Stream, outside_capture};
use crate::error::Result;
use crate::launch::KernelArgs;
use crate::memory::{Enqueue, Enqueuing};

/// A point in a stream's order: all that was enqueued on the stream before it, also through its raw
/// handle. It costs nothing until a wait for it: no event is recorded before.
#[derive(Clone)]
pub struct Mark {
    stream: Stream,
    sequence: u64,
}

impl Mark {
    /// Returns the stream.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Returns the number of the enqueue on its stream, as in
    /// [`LaunchRecord::index`](crate::LaunchRecord::index).
    #[must_use]
    pub fn index(&self) -> u64 {
        self.sequence
    }

    /// Makes the host wait until all before the mark is done; what was enqueued after it may be
    /// waited for too. Returns at once if the host has seen that much done.
    ///
    /// # Errors
    /// The error of whatever work failed.
    pub fn synchronize(&self) -> Result<()> {
        self.stream.inner().state().usable()?;
        self.stream.inner().finish(self.sequence)?;
        self.stream.inner().context.check_fault()
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark")
            .field("stream", &self.stream.id())
            .field("sequence", &self.sequence)
            .finish()
    }
}

impl Stream {
    /// Returns a mark behind all work that is enqueued so far, also through the raw handle.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) on a stream that records.
    pub fn mark(&self) -> Result<Mark> {
        let inner = self.inner();
        inner.usable_here()?;
        inner.not_capturing("a mark")?;
        Ok(Mark { stream: self.clone(), sequence: inner.number() })
    }

    /// Makes work enqueued on this stream from now on wait for all before the mark. Costs nothing if
    /// it does already, or if the host has seen that much done.
    ///
    /// # Errors
    /// The error that the driver returns.
    pub fn wait_mark(&self, mark: &Mark) -> Result<()> {
        let inner = self.inner();
        inner.usable_here()?;
        inner.state().same_driver(mark.stream.inner().state())?;
        if inner.capture.is_some() {
            return Err(outside_capture("a mark"));
        }
        inner.wait_for(mark.stream.inner(), mark.sequence)
    }

    /// Enqueues work by other means than this crate's, such as a library that takes the raw stream:
    /// ordered behind what used the memory in `uses` before, and waited for by what uses it later.
    ///
    /// `uses` is a tuple as for [`Kernel::launch`](crate::Kernel::launch): `&x` for memory that the
    /// work reads, `&mut y` for memory that it may write. On a stream that records, the work becomes
    /// part of the graph, which keeps the memory.
    ///
    /// ```no_run
    /// # use cuda_safe::{DeviceBuffer, Result, Stream, sys};
    /// # unsafe fn gemm(stream: sys::CUstream, a: u64, b: u64, c: u64) -> i32 { 0 }
    /// # fn run(stream: &Stream, a: &DeviceBuffer<f32>, b: &DeviceBuffer<f32>, c: &mut DeviceBuffer<f32>) -> Result<()> {
    /// let (pa, pb, pc) = (a.device_ptr(), b.device_ptr(), c.device_ptr());
    /// // SAFETY: `gemm` enqueues on the stream alone, reads a and b and writes c, within bounds.
    /// let status = unsafe { stream.enqueue((a, b, &mut *c), |raw| gemm(raw, pa, pb, pc)) }?;
    /// assert_eq!(status, 0);
    /// // A function of the driver that this crate does not wrap; the table is fetched before.
    /// let (sys, bytes) = (stream.context().driver().as_sys(), c.size_bytes());
    /// // SAFETY: it writes c alone, all of it, on the stream.
    /// let code = unsafe { stream.enqueue((c,), |raw| sys.cuMemsetD8Async(pc, 0, bytes, raw)) }??;
    /// assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If a use can't be ordered; `call` is then not made. The caller must check what the
    /// work itself returns.
    ///
    /// # Safety
    /// `call` must not call this crate, some of whose locks are held: it would deadlock. It enqueues work only on the
    /// stream that it is given, and that work uses device memory of this crate only as `uses` says. All other resources
    /// of the work live until it has run; on a stream that records, as long as the graph.
    pub unsafe fn enqueue<A: KernelArgs, R>(
        &self,
        uses: A,
        call: impl FnOnce(CUstream) -> R,
    ) -> Result<R> {
        let mut enqueuing = Enqueuing::of_no_launch(self)?;
        uses.check_unborrowed()?;
        let raw = self.inner().raw;
        // Recorded whatever becomes of the call: part of the work may have been enqueued.
        let called = |_: &mut _| Ok(catch_unwind(AssertUnwindSafe(|| call(raw))));
        let enqueued = enqueuing.run(&uses, None, called)?;
        enqueued.recorded?;
        drop(enqueuing);
        enqueued.output.or_else(|panic| resume_unwind(panic))
    }
}
