//! Peer access: copies between two devices, and kernels of one device that use memory of the other.
//!
//! Order is kept as between streams of one context: an event is made in the context of the stream
//! that records it, and a stream of another context of the same driver may wait for it.

mod devices;
mod recorded;

pub use devices::Devices;

use std::sync::Arc;

use cuda_sys::CUresult;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::graph::Capture;
use crate::memory::{
    Access, Allocation, DeviceSlice, DeviceSliceMut, Enqueue, Enqueuing, same_length,
};
use crate::stream::Stream;

impl Context {
    /// Returns whether kernels of this context's device can use memory of `other`'s device. A device is no
    /// peer of its own.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the contexts belong to different
    /// drivers; otherwise the error that the driver returns.
    #[doc(alias = "cuDeviceCanAccessPeer")]
    pub fn can_access_peer(&self, other: &Self) -> Result<bool> {
        let (user, owner) = (self.inner(), other.inner());
        user.state.usable()?;
        user.state.same_driver(owner.state)?;
        let mut can = 0;
        let (from, to) = (user.state.raw, owner.state.raw);
        // SAFETY: `can` is a valid place for an int.
        unsafe { call!(user, cuDeviceCanAccessPeer(&raw mut can, from, to)) }?;
        Ok(can != 0)
    }

    /// Lets kernels of this context use memory of `other`, what exists and what is allocated later:
    /// launches here may then be given its buffers. One direction; enabling twice is no error, and with itself
    /// it does nothing.
    ///
    /// This applies to memory that this crate allocates. For memory from
    /// [`DeviceBuffer::from_raw`](crate::DeviceBuffer::from_raw) only the owner knows which devices may use it, so it
    /// is not shared unless the owner has done so.
    ///
    /// Memory that a graph uses or has used, also if the graph is gone, and memory that a tape keeps is not
    /// shared with kernels either: it is an error to use it on a stream of another context, outside of graphs. Copy it into
    /// other memory by [`DeviceSliceMut::copy_from_peer`]. In a graph of both contexts ([`Context::capture_on`]) kernels
    /// may use it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the devices can't; otherwise the error that the
    /// driver returns.
    #[doc(alias = "cuCtxEnablePeerAccess")]
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn enable_peer_access(&self, other: &Self) -> Result<()> {
        let (user, owner) = (self.inner(), other.inner());
        user.state.usable()?;
        owner.state.usable()?;
        if Arc::ptr_eq(user, owner) {
            return Ok(());
        }
        if !self.can_access_peer(other)? {
            let (from, to) = (user.state.ordinal, owner.state.ordinal);
            return Err(Error::invalid(format!(
                "device {from} can't access memory of device {to}"
            ))
            .with_hint("DeviceSliceMut::copy_from_peer copies between any two devices"));
        }
        if user.peers.contains(owner)? {
            return Ok(());
        }
        user.with_current(|| {
            // SAFETY: both contexts are live, and the user's is current.
            match unsafe { user.state.sys.cuCtxEnablePeerAccess(owner.raw, 0) } {
                // Other code in the process has enabled it: access belongs to the driver's contexts.
                Ok(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) => Ok(()),
                answer => user.answer("cuCtxEnablePeerAccess", answer),
            }
        })?;
        // Memory of pools is not part of that.
        owner.pool.share_with(owner, user.state.raw)?;
        user.peers.insert(owner)
    }
}

impl<T: Copy + 'static> DeviceSliceMut<'_, T> {
    /// Copies from memory of another device, in `stream`'s order; `stream` may be one of either
    /// context. The copy waits for uses that conflict with it, on both devices, and later uses wait
    /// for the copy. Peer access need not be enabled; enabled in both directions ([`Devices`](crate::Devices)) it makes the
    /// copy direct.
    ///
    /// On a stream that records, the copy becomes a node of the graph, which keeps the memory of both devices. Without
    /// peer access in both directions the node copies through pinned memory of the host, which has the size of the copy and
    /// lives as long as the graph.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the lengths differ, or the stream
    /// belongs to neither context; on a stream that records also for memory that was allocated in the capture or that the
    /// host sees, and in the body of a conditional node; otherwise the error that the driver returns.
    #[doc(alias = "cuMemcpyPeerAsync")]
    pub fn copy_from_peer<'b>(
        &mut self,
        stream: &Stream,
        source: impl Into<DeviceSlice<'b, T>>,
    ) -> Result<()> {
        let source = source.into();
        let (to, from) = (self.allocation(), source.allocation());
        let (to_context, from_context) =
            (&to.home_stream().inner().context, &from.home_stream().inner().context);
        if Arc::ptr_eq(to_context, from_context) {
            return self.copy_from(stream, source);
        }
        same_length("copy", self.len(), source.len())?;
        let inner = stream.inner();
        if let Some(capture) = &inner.capture {
            // Before all else: the recording may have ended.
            drop(capture.enter(inner)?);
        }
        inner.usable_here()?;
        inner.state().same_driver(to_context.state)?;
        inner.state().same_driver(from_context.state)?;
        if ![to_context, from_context].into_iter().any(|known| Arc::ptr_eq(known, &inner.context)) {
            return Err(Error::invalid("the stream belongs to neither of the two contexts"));
        }
        let bytes = self.size_bytes();
        let uses =
            [(from, source.byte_range(), Access::Read), (to, self.byte_range(), Access::Write)];
        if let Some(capture) = Capture::of(inner) {
            return recorded::copy(stream, &capture, uses);
        }
        if bytes == 0 {
            return Ok(());
        }
        // Between memory that the host sees and a device's, the driver copies on streams of that
        // device alone, unless it is a peer (measured). Elsewhere memory of the stream's device is in
        // between.
        let of_stream = |context| Arc::ptr_eq(context, &inner.context);
        let far = match (to.is_visible(), from.is_visible()) {
            (true, false) => !of_stream(from_context),
            (false, true) => !of_stream(to_context),
            _ => false,
        };
        if far {
            let between = Allocation::new(stream, bytes)?;
            let mut between = DeviceSliceMut::new(&between, 0, self.len());
            between.copy_from_peer(stream, source)?;
            return self.copy_from_peer(stream, between.as_slice());
        }
        let mut enqueuing = Enqueuing::on(stream)?;
        if [from, to].into_iter().any(|memory| memory.is_captured()) {
            enqueuing.take_graph_locks([&from_context.graph_lock, &to_context.graph_lock])?;
        }
        enqueuing.between_contexts();
        let copy = || {
            let (target, source, sys) = (self.device_ptr(), source.device_ptr(), inner.state().sys);
            if to.is_visible() || from.is_visible() {
                // SAFETY: both ranges lie in allocations that the caller holds, by addresses that
                // the driver knows, so it finds out itself where they are.
                let result = unsafe { sys.cuMemcpyAsync(target, source, bytes, inner.raw) };
                return inner.answer("cuMemcpyAsync", result);
            }
            let (to, from) = (to_context.raw, from_context.raw);
            // SAFETY: both ranges lie in allocations of these contexts, which the caller holds.
            unsafe { call!(inner, cuMemcpyPeerAsync(target, to, source, from, bytes, inner.raw)) }
        };
        // Recorded even if the call failed: part of it may have been enqueued.
        let enqueued = enqueuing.run(&uses, None, |_| Ok(inner.context.with_current(copy)))?;
        enqueued.recorded.and(enqueued.output)
    }
}
