//! Work that others enqueue through a stream's raw handle.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use cuda_sys::CUstream;

use super::KernelArgs;
use crate::error::Result;
use crate::memory::{DirectEnqueuing, Enqueue, Enqueuing};
use crate::stream::Stream;

impl Stream {
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
    #[inline]
    pub unsafe fn enqueue<A: KernelArgs, R>(
        &self,
        uses: A,
        call: impl FnOnce(CUstream) -> R,
    ) -> Result<R> {
        let queue = self.inner();
        let called = if queue.capture.is_some() {
            around(Enqueuing::of_no_launch(self)?, &uses, call)
        } else {
            if !queue.plain {
                queue.usable_here()?;
            }
            around(DirectEnqueuing::on(self, &mut None)?, &uses, call)
        };
        called?.or_else(|panic| resume_unwind(panic))
    }
}

/// Makes the call, and returns what it returns, or its panic, after the locks of the enqueue are released.
#[inline]
fn around<'a, A: KernelArgs, R>(
    mut enqueuing: impl Enqueue<'a>,
    uses: &A,
    call: impl FnOnce(CUstream) -> R,
) -> Result<std::thread::Result<R>> {
    uses.check_unborrowed()?;
    let raw = enqueuing.stream().inner().raw;
    // Recorded whatever becomes of the call: part of the work may have been enqueued.
    let called = |_: &mut _| Ok(catch_unwind(AssertUnwindSafe(|| call(raw))));
    let enqueued = enqueuing.run(uses, None, called)?;
    enqueued.recorded?;
    Ok(enqueued.output)
}
