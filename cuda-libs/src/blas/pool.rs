//! Handles and workspaces that wait for the next call.

use std::mem::MaybeUninit;
use std::sync::{Arc, MutexGuard, PoisonError};

use cuda_safe::sys::CUstream;
use cuda_safe::{Context, DeviceBuffer, RecordingId, Stream};
use cuda_sys::cublas::{Cublas, cublasHandle_t, cublasStatus_t};

use super::Inner;
use super::call::failed as failed_to;
use super::call::{Needs, Pointers, Status};
use crate::error::{Error, Result};
use crate::load::CublasLibrary;
use crate::park::{Owner, Park, owner};

/// How many workspaces of graphs are kept for further calls of their recordings, or as many as one recording has streams. A
/// graph keeps its own in any case.
const RECORDED: usize = 4;

/// What waits for the next call.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "each call takes one of each and puts it back: pointers move")]
pub(super) struct Pool {
    owner: Owner,
    handles: Vec<Box<Handle>>,
    spaces: Vec<Box<Space>>,
    /// The number of workspaces in use by calls, of those that are not a graph's.
    leased: usize,
    calls: u64,
}

/// A handle of cuBLAS, with what it was set to.
#[derive(Debug)]
pub(crate) struct Handle {
    raw: cublasHandle_t,
    stream: Option<u64>,
    space: Option<(u64, usize)>,
    pointers: Option<Pointers>,
    /// Whether a graph may use memory of the handle.
    recorded: bool,
}

// SAFETY: cuBLAS allows the use of a handle by any thread, one at a time.
unsafe impl Send for Handle {}

/// A workspace, and the stream whose calls use it.
#[derive(Debug)]
struct Space {
    stream: u64,
    recording: Option<RecordingId>,
    last: u64,
    buffer: DeviceBuffer<MaybeUninit<u8>>,
}

/// A handle and a workspace in use by one call. Dropping it returns both.
pub(super) struct Lease<'a> {
    inner: &'a Inner,
    handle: Option<Box<Handle>>,
    space: Option<Box<Space>>,
    /// Whether the stream records.
    recorded: bool,
    /// Whether it counts among the leased workspaces.
    counted: bool,
}

static HANDLES: Park<Box<Handle>> = Park::new();

impl Handle {
    pub(super) fn raw(&self) -> cublasHandle_t {
        self.raw
    }

    /// Forgets what the handle was set to, after a call that failed: the next one sets all.
    #[cold]
    pub(super) fn forget(&mut self) {
        (self.stream, self.space, self.pointers) = (None, None, None);
    }

    /// Creates a handle.
    fn create(library: CublasLibrary, context: &Context) -> Result<Box<Self>> {
        let functions = library.as_sys();
        let mut raw = std::ptr::null_mut();
        let created = context.with_current(|| {
            // SAFETY: `raw` is valid for the write.
            Ok(unsafe { functions.cublasCreate_v2(&raw mut raw) })
        })?;
        match created {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => {
                let new = Self { raw, stream: None, space: None, pointers: None, recorded: false };
                Ok(Box::new(new))
            }
            Ok(status) => Err(failed_to(context, "cublasCreate", status)),
            Err(missing) => Err(library.lacks("cublasCreate", missing.name)),
        }
    }

    /// Sets the stream, the workspace and the kind of pointers, if they are others than before.
    ///
    /// # Safety
    /// The handle is alive and in no other use. The stream is of its context; the workspace lives until the handle's
    /// work has run.
    #[inline]
    pub(super) unsafe fn bind(
        &mut self,
        functions: &Cublas,
        id: u64,
        stream: CUstream,
        space: Option<(u64, usize)>,
        pointers: Pointers,
    ) -> Status {
        const DONE: cublasStatus_t = cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        if self.stream != Some(id) {
            // The stream takes the workspace away.
            (self.stream, self.space) = (None, None);
            // SAFETY: the caller's promise.
            let status = unsafe { functions.cublasSetStream_v2(self.raw, stream) }?;
            if status != DONE {
                return Ok(status);
            }
            self.stream = Some(id);
        }
        let wanted = space.unwrap_or((0, 0));
        if self.space != Some(wanted) {
            self.space = None;
            let (address, bytes) = wanted;
            // SAFETY: the caller's promise.
            let status =
                unsafe { functions.cublasSetWorkspace_v2(self.raw, address as *mut _, bytes) }?;
            if status != DONE {
                return Ok(status);
            }
            self.space = Some(wanted);
        }
        if self.pointers != Some(pointers) {
            self.pointers = None;
            // SAFETY: the caller's promise.
            let status = unsafe { functions.cublasSetPointerMode_v2(self.raw, pointers.mode()) }?;
            if status != DONE {
                return Ok(status);
            }
            self.pointers = Some(pointers);
        }
        Ok(DONE)
    }
}

impl Pool {
    /// Creates a pool with one handle: a parked one of the context, or a new one.
    pub(super) fn new(library: CublasLibrary, context: &Context) -> Result<Self> {
        let (owner, mut handles) = (owner(context, library.as_sys()), Vec::new());
        while let Some((handle, _)) = HANDLES.take(owner, |_| true) {
            handles.push(handle);
        }
        if handles.is_empty() {
            handles.push(Handle::create(library, context)?);
        }
        Ok(Self { owner, handles, spaces: Vec::new(), leased: 0, calls: 0 })
    }

    pub(super) fn workspace_bytes(&self) -> usize {
        let of_streams = self.spaces.iter().filter(|space| space.recording.is_none());
        of_streams.map(|space| space.buffer.size_bytes()).sum()
    }

    /// Takes the stream's handle if it waits, or another one.
    #[inline]
    fn handle(&mut self, stream: u64) -> Option<Box<Handle>> {
        let same = self.handles.iter().rposition(|handle| handle.stream == Some(stream));
        match same {
            Some(at) => Some(self.handles.swap_remove(at)),
            None => self.handles.pop(),
        }
    }

    /// Takes the stream's workspace, or, if there are `most` already, the one that was not used for the longest time.
    #[inline]
    fn space(
        &mut self,
        stream: u64,
        recording: Option<RecordingId>,
        most: usize,
    ) -> Option<Box<Space>> {
        let own = |space: &Space| space.stream == stream && space.recording == recording;
        let known = self.spaces.iter().position(|space| own(space));
        let at = known.or_else(|| {
            let idle = || self.spaces.iter().enumerate().filter(|(_, one)| one.recording.is_none());
            let full = recording.is_none() && idle().count() + self.leased >= most;
            let oldest = idle().filter(|_| full).min_by_key(|(_, space)| space.last);
            oldest.map(|(at, _)| at)
        });
        let mut space = self.spaces.swap_remove(at?);
        space.stream = stream;
        Some(space)
    }
}

impl Inner {
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Pool> {
        // Nothing panics while the lock is held.
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the size of a workspace.
    #[inline]
    pub(crate) fn workspace(&self) -> usize {
        self.config.workspace_bytes.unwrap_or(0)
    }

    #[inline]
    fn most(&self) -> usize {
        self.config.workspaces.unwrap_or(super::WORKSPACES)
    }

    /// Takes a handle and a workspace for a call on this stream.
    #[inline]
    pub(super) fn lease(&self, stream: &Stream, needs: Needs) -> Result<Lease<'_>> {
        let (id, recording) = (stream.id(), stream.recording_id());
        let bytes = if needs.workspace { self.workspace() } else { 0 };
        let mut pool = self.lock();
        pool.calls += 1;
        let handle = if needs.handle { pool.handle(id) } else { None };
        let space = if bytes == 0 { None } else { pool.space(id, recording, self.most()) };
        let counted = recording.is_none() && bytes > 0;
        if counted {
            pool.leased += 1;
        }
        drop(pool);
        // Returns what it has, whatever fails.
        let recorded = recording.is_some();
        let mut lease = Lease { inner: self, handle, space, recorded, counted };
        if needs.handle && lease.handle.is_none() {
            lease.handle = Some(Handle::create(self.library, &self.context)?);
        }
        if let Some(handle) = &mut lease.handle {
            handle.recorded |= lease.recorded;
        }
        if bytes > 0 && lease.space.is_none() {
            // Memory of a graph lives outside of it, so that the graph can run many times.
            let home = if recording.is_some() { &self.helper } else { stream };
            let buffer = DeviceBuffer::uninit(home, bytes)?;
            lease.space = Some(Box::new(Space { stream: id, recording, last: 0, buffer }));
        }
        Ok(lease)
    }
}

impl Lease<'_> {
    /// Returns the handle and the workspace.
    #[inline]
    pub(super) fn parts(
        &mut self,
    ) -> (Option<&mut Handle>, Option<&DeviceBuffer<MaybeUninit<u8>>>) {
        (self.handle.as_deref_mut(), self.space.as_ref().map(|space| &space.buffer))
    }
}

impl Drop for Lease<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut dropped = None;
        let mut pool = self.inner.lock();
        if self.counted {
            pool.leased = pool.leased.saturating_sub(1);
        }
        pool.handles.extend(self.handle.take());
        if let Some(mut space) = self.space.take() {
            space.last = pool.calls;
            let recorded = space.recording.is_some();
            let most = if recorded { RECORDED } else { self.inner.most() };
            let alike = |other: &Space| other.recording.is_some() == recorded;
            if pool.spaces.len() >= most
                && pool.spaces.iter().filter(|other| alike(other)).count() >= most
            {
                // Of other graphs the oldest goes, of streams the one that was too many.
                let others = pool.spaces.iter_mut().filter(|other| {
                    recorded && other.recording.is_some() && other.recording != space.recording
                });
                match others.min_by_key(|other| other.last) {
                    Some(oldest) => dropped = Some(std::mem::replace(oldest, space)),
                    None if recorded => pool.spaces.push(space),
                    None => dropped = Some(space),
                }
            } else {
                pool.spaces.push(space);
            }
        }
        // Freed without the lock.
        drop(pool);
        drop(dropped);
    }
}

impl Drop for Inner {
    /// Parks the handles: cuBLAS waits for the device when it destroys one. Those of a context that is gone, or without a
    /// name, stay allocated: the driver frees their device memory with the context.
    fn drop(&mut self) {
        let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
        for handle in std::mem::take(&mut pool.handles) {
            let is_recorded = handle.recorded;
            HANDLES.put(pool.owner, handle, is_recorded);
        }
    }
}

/// Destroys the handles of the last clone.
pub(super) fn close(inner: Arc<Inner>) -> Result<()> {
    let inner = Arc::try_unwrap(inner).map_err(|inner| {
        let others = Arc::strong_count(&inner).saturating_sub(1);
        Error::invalid("close", "blas", format!("is used by {others} other clones"))
    })?;
    if inner.context.is_recording() {
        return Err(Error::invalid("close", "blas", "belongs to a context that records"));
    }
    inner.context.synchronize()?;
    let (library, context, owner) = (inner.library, inner.context.clone(), inner.lock().owner);
    drop(inner);
    let functions = library.as_sys();
    HANDLES.destroy_excess(&context, owner, 0, |handle| {
        let destroyed = context.with_current(|| {
            // SAFETY: the handle is alive, no other thread has it, and its work is done. Its stream may be gone, so it gets
            // the legacy stream.
            Ok(unsafe {
                let _ = functions.cublasSetStream_v2(handle.raw, std::ptr::null_mut());
                functions.cublasDestroy_v2(handle.raw)
            })
        })?;
        match destroyed {
            Ok(cublasStatus_t::CUBLAS_STATUS_SUCCESS) => Ok(()),
            Ok(status) => Err(failed_to(&context, "cublasDestroy", status)),
            Err(missing) => Err(library.lacks("close", missing.name)),
        }
    })
}
