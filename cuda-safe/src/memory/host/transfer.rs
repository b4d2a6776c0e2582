//! Transfers that own their pinned buffer until they are done.

use std::fmt;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use bytemuck::{AnyBitPattern, NoUninit};

use super::pinned::PinnedBuffer;
use super::reactor::Registration;
use crate::consume::ConsumeError;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::memory::{Access, DeviceSlice, DeviceSliceMut, copy, enqueue};
use crate::stream::Stream;
use crate::trace::event;

/// A copy between pinned host memory and the device that may still be running. The pinned buffer
/// is inside, out of the host's reach; [`Transfer::wait`], or awaiting it, gives it back.
///
/// Dropping it does not wait: the copy goes on, and the pinned memory lies in the context's deferred-free list.
///
/// Copying and computing at the same time, with two pinned buffers in turn:
/// ```no_run
/// # use cuda_safe::{Context, DeviceBuffer, PinnedBuffer, Result, Stream, Transfer};
/// # fn fill(part: usize, buffer: &mut [f32]) {}
/// # fn compute(stream: &Stream, data: &mut DeviceBuffer<f32>) -> Result<()> { Ok(()) }
/// # fn run(context: &Context, parts: usize, len: usize) -> Result<()> {
/// let streams = [context.stream()?, context.stream()?];
/// let mut data = [
///     DeviceBuffer::<f32>::zeroed(&streams[0], len)?,
///     DeviceBuffer::<f32>::zeroed(&streams[1], len)?,
/// ];
/// let mut free = vec![PinnedBuffer::zeroed(context, len)?, PinnedBuffer::zeroed(context, len)?];
/// let mut running: [Option<Transfer<f32>>; 2] = [None, None];
/// for part in 0..parts {
///     let side = part % 2;
///     let mut host = match running[side].take() {
///         Some(transfer) => transfer.wait()?, // the upload of two parts ago, done long since
///         None => free.remove(0),
///     };
///     fill(part, &mut host);
///     running[side] = Some(data[side].upload_pinned(&streams[side], host)?);
///     compute(&streams[side], &mut data[side])?;
/// }
/// # Ok(()) }
/// ```
///
/// It is also a future, for whatever executor: an error of the device wakes it as the end of the
/// copy does. One thread of this crate's asks the driver for all that are awaited; it begins with
/// the first and sleeps while there are none.
/// ```no_run
/// # use cuda_safe::{DeviceBuffer, PinnedBuffer, Result, Stream};
/// async fn there_and_back(
///     stream: &Stream,
///     data: &mut DeviceBuffer<f32>,
///     host: PinnedBuffer<f32>,
/// ) -> Result<PinnedBuffer<f32>> {
///     let host = data.upload_pinned(stream, host)?.await?;
///     data.download_pinned(stream, host)?.await
/// }
/// ```
#[must_use = "`wait` or `await` gives the pinned buffer back"]
pub struct Transfer<T: Copy + 'static> {
    /// Where this is registered while it is awaited. Before `done`: it goes first.
    registration: Option<Registration>,
    /// `None` once it was given back, closed, or lost to an error.
    buffer: Option<PinnedBuffer<T>>,
    done: Event,
}

// `Unpin` is sound: nothing in the struct is pinned, and the buffer's elements are elsewhere.
impl<T: Copy + 'static> Unpin for Transfer<T> {}

impl<T: Copy + 'static> Transfer<T> {
    /// Enqueues the copy and an event behind it. Whatever fails after the copy may have begun, the
    /// buffer is not seen by the host again.
    fn start(
        stream: &Stream,
        buffer: PinnedBuffer<T>,
        copy: impl FnOnce(&PinnedBuffer<T>) -> Result<()>,
    ) -> Result<Self> {
        stream.inner().state().same_driver(buffer.context().state)?;
        stream.inner().not_capturing("a transfer")?;
        let done = Event::new(&stream.context())?;
        let transfer = Self { registration: None, buffer: Some(buffer), done };
        if let Some(buffer) = &transfer.buffer {
            copy(buffer)?;
        }
        transfer.done.record(stream)?;
        Ok(transfer)
    }

    /// Waits until the copy is done and gives the buffer back.
    ///
    /// # Errors
    /// The error of the copy or of earlier work on its stream; the buffer is then lost.
    pub fn wait(mut self) -> Result<PinnedBuffer<T>> {
        self.done.synchronize()?;
        self.take()
    }

    /// Returns whether the copy is done, so that [`Transfer::wait`] won't block.
    ///
    /// # Errors
    /// The error of the copy or of earlier work on its stream.
    pub fn is_done(&self) -> Result<bool> {
        self.done.is_done()
    }

    /// Waits until the copy is done and frees the pinned memory now, which **waits for the
    /// device**; [`Transfer::wait`] keeps the memory for the next transfer.
    ///
    /// # Errors
    /// The error holds the transfer and the error of the copy, of earlier work on its stream, or of
    /// freeing.
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        self.end().map_err(|error| ConsumeError::new(self, error))
    }

    fn end(&mut self) -> Result<()> {
        self.done.synchronize()?;
        self.registration = None;
        if let Some(buffer) = self.buffer.take() {
            buffer.close().map_err(|refused| {
                let (buffer, error) = refused.into_parts();
                self.buffer = Some(buffer);
                error
            })?;
        }
        self.done.destroy()
    }

    /// Gives the buffer up to the deferred-free list, as the copy may still be running.
    fn lose(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            buffer.abandon(self.done.context());
        }
    }

    fn take(&mut self) -> Result<PinnedBuffer<T>> {
        self.buffer.take().ok_or_else(|| {
            Error::invalid("the transfer is over: its buffer was given back, or lost to an error")
        })
    }
}

impl<T: Copy + 'static> Future for Transfer<T> {
    type Output = Result<PinnedBuffer<T>>;

    /// Returns `Ready` when the copy is done, or with the error of the copy or of earlier work on its stream; the
    /// buffer is then lost. Another poll after that returns an error.
    fn poll(mut self: Pin<&mut Self>, context: &mut TaskContext<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if this.buffer.is_none() {
            return Poll::Ready(this.take());
        }
        match this.done.is_done() {
            Ok(false) => {}
            Ok(true) => {
                this.registration = None;
                return Poll::Ready(this.take());
            }
            Err(error) => {
                this.registration = None;
                this.lose();
                return Poll::Ready(Err(error));
            }
        }
        let waker = context.waker();
        if !this.registration.as_ref().is_some_and(|known| known.replace(waker)) {
            let (state, event) = (this.done.context().state, this.done.as_raw());
            // SAFETY: the event is alive as long as `done`, which goes after the registration.
            this.registration = Some(unsafe { Registration::new(state, event, waker) });
        }
        Poll::Pending
    }
}

impl<T: Copy + 'static> Drop for Transfer<T> {
    fn drop(&mut self) {
        self.lose();
    }
}

impl<T: Copy + 'static> fmt::Debug for Transfer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer").field("buffer", &self.buffer).finish_non_exhaustive()
    }
}

impl<T: Copy + 'static> DeviceSliceMut<'_, T> {
    /// Copies `source` to the device, in `stream`'s order, without waiting. `source` comes back
    /// from [`Transfer::wait`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn upload_pinned(&mut self, stream: &Stream, source: PinnedBuffer<T>) -> Result<Transfer<T>>
    where
        T: NoUninit,
    {
        check_length(self.len(), source.len())?;
        let view = self.as_slice();
        Transfer::start(stream, source, |source| {
            if view.size_bytes() == 0 {
                return Ok(());
            }
            event!(TRACE, bytes = view.size_bytes(), stream = stream.id(), "pinned upload");
            let uses = [(view.allocation(), view.byte_range(), Access::Write)];
            enqueue(stream, uses, |inner| {
                let from = source.start().as_ptr().cast_const().cast();
                // SAFETY: the pinned memory stays in the transfer until the copy is done, or goes to the
                // deferred-free list, which frees it only after waiting; the view lies in a live
                // allocation.
                unsafe {
                    copy::enqueue_to_device(inner, view.device_ptr(), from, view.size_bytes())
                }
            })
        })
    }
}

impl<T: Copy + 'static> DeviceSlice<'_, T> {
    /// Copies to `target`, in `stream`'s order, without waiting. `target` comes back, written,
    /// from [`Transfer::wait`].
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuMemcpyDtoHAsync")]
    pub fn download_pinned(&self, stream: &Stream, target: PinnedBuffer<T>) -> Result<Transfer<T>>
    where
        T: AnyBitPattern,
    {
        check_length(self.len(), target.len())?;
        Transfer::start(stream, target, |target| {
            if self.size_bytes() == 0 {
                return Ok(());
            }
            event!(TRACE, bytes = self.size_bytes(), stream = stream.id(), "pinned download");
            let uses = [(self.allocation(), self.byte_range(), Access::Read)];
            enqueue(stream, uses, |inner| {
                let to = target.start().as_ptr().cast();
                // SAFETY: as in `upload_pinned`; the host does not read the pinned memory until `wait`.
                unsafe { copy::enqueue_to_host(inner, to, self.device_ptr(), self.size_bytes()) }
            })
        })
    }
}

fn check_length(device: usize, host: usize) -> Result<()> {
    if device == host {
        return Ok(());
    }
    Err(Error::invalid(format!("transfer: {device} elements on the device and {host} pinned")))
}
