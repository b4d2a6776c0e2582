//! Memory pools that the program chooses.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytemuck::{NoUninit, Zeroable};
use cuda_sys::{
    CUdevice, CUdeviceptr, CUmemAccess_flags, CUmemAccessDesc, CUmemPool_attribute, CUmemoryPool,
    CUstream,
};

use super::allocation::Kind;
use super::pool::{allocate_from, allocate_on, are_there, create, on_device};
use super::{Allocation, DeviceBuffer};
use crate::caller;
use crate::consume::ConsumeError;
use crate::context::{Context, ContextInner, Deferred, Dropped};
use crate::error::{Error, Result};
use crate::quiet::Token;
use crate::stream::Stream;
use crate::sync::Lock;

/// A pool of device memory, from which buffers are allocated in the order of a stream.
///
/// Buffers are made in the context's own pool unless a pool is named, as by [`DeviceBuffer::zeroed_in`]. The device's
/// [default pool](Self::default_of) is shared with all users of `cudaMallocAsync` in the process; a [new](Self::new) one
/// keeps its memory apart. A clone is another handle to the same pool. Dropping the last one does not wait: the driver
/// destroys a pool of this crate when its last buffer is freed.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<PoolInner>,
}

/// The state that the handles to a pool, and its allocations, share.
pub(crate) struct PoolInner {
    context: Arc<ContextInner>,
    raw: CUmemoryPool,
    owner: Owner,
    /// The devices, besides the pool's, whose kernels may use its memory.
    access: Lock<Vec<CUdevice>>,
}

enum Owner {
    /// This crate, which destroys it.
    Ours,
    /// Other code; the token keeps the pool alive.
    Others { _token: Token },
}

// SAFETY: a CUmemoryPool may be used from any thread; everything else is Send and Sync.
unsafe impl Send for PoolInner {}
// SAFETY: as above; the driver locks the pool.
unsafe impl Sync for PoolInner {}

impl Pool {
    /// Returns the default pool of the context's device, which all users of `cuMemAllocAsync` and `cudaMallocAsync` in
    /// the process share unless they have chosen another.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the device has no pools; otherwise the error that the driver
    /// returns.
    #[doc(alias = "cuDeviceGetDefaultMemPool")]
    pub fn default_of(context: &Context) -> Result<Self> {
        let inner = context.inner();
        supported(inner)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a valid place for a handle, and the device comes from the driver.
        unsafe { call!(inner, cuDeviceGetDefaultMemPool(&raw mut raw, inner.state.raw)) }?;
        Ok(Self::over(inner, raw, Owner::Others { _token: Token::none() }))
    }

    /// Creates a pool. It gives unused memory back to the system when it is synchronised, unless
    /// [`set_release_threshold`](Self::set_release_threshold) says otherwise.
    ///
    /// # Errors
    /// As [`default_of`](Self::default_of).
    #[doc(alias = "cuMemPoolCreate")]
    pub fn new(context: &Context) -> Result<Self> {
        let inner = context.inner();
        supported(inner)?;
        Ok(Self::over(inner, create(inner.state)?, Owner::Ours))
    }

    /// Adopts a pool of other code. `token` is dropped with the last handle; it should keep the pool alive.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the handle is null.
    ///
    /// # Safety
    /// `raw` is a pool of device memory of the context's device that stays valid until the token is dropped.
    pub unsafe fn from_raw(
        context: &Context,
        raw: CUmemoryPool,
        token: impl Any + Send + Sync,
    ) -> Result<Self> {
        if raw.is_null() {
            return Err(Error::invalid("the handle of the pool is null"));
        }
        context.inner().state.usable()?;
        Ok(Self::over(context.inner(), raw, Owner::Others { _token: Token::new(Box::new(token)) }))
    }

    fn over(context: &Arc<ContextInner>, raw: CUmemoryPool, owner: Owner) -> Self {
        let (context, access) = (context.clone(), Lock::default());
        Self { inner: Arc::new(PoolInner { context, raw, owner, access }) }
    }

    /// Returns the raw handle. It stays valid while any handle to this pool lives.
    #[must_use]
    pub fn as_raw(&self) -> CUmemoryPool {
        self.inner.raw
    }

    /// Returns the context whose streams allocate from it.
    #[must_use]
    pub fn context(&self) -> Context {
        Context::from_inner(self.inner.context.clone())
    }

    /// Gives unused memory back to the system until at most `keep` bytes are held.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "cuMemPoolTrimTo")]
    pub fn trim(&self, keep: usize) -> Result<()> {
        self.inner.trim(keep)
    }

    /// Returns how many bytes the pool holds, unused ones included.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT")]
    pub fn reserved_bytes(&self) -> Result<u64> {
        self.inner.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
    }

    /// Returns how many bytes of the pool are allocated.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "CU_MEMPOOL_ATTR_USED_MEM_CURRENT")]
    pub fn used_bytes(&self) -> Result<u64> {
        self.inner.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
    }

    /// Returns how many unused bytes the pool keeps when it is synchronised.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    pub fn release_threshold(&self) -> Result<u64> {
        self.inner.get(CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
    }

    /// Sets how many unused bytes the pool keeps when it is synchronised. Of the default pool this concerns all its
    /// users.
    ///
    /// # Errors
    /// The error that the driver returns.
    #[doc(alias = "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD")]
    pub fn set_release_threshold(&self, mut bytes: u64) -> Result<()> {
        let inner = &*self.inner;
        inner.context.state.usable()?;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let value = (&raw mut bytes).cast();
        // SAFETY: the attribute's type is a 64-bit integer, which `value` points to.
        unsafe { call!(inner.context, cuMemPoolSetAttribute(inner.raw, attribute, value)) }
    }

    /// Lets kernels of another context use the pool's buffers, what exists and what is allocated later. The context must
    /// have [enabled peer access](Context::enable_peer_access) to this pool's.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the devices can't; otherwise the error that the driver
    /// returns.
    #[doc(alias = "cuMemPoolSetAccess")]
    pub fn enable_access_from(&self, user: &Context) -> Result<()> {
        let (inner, user) = (&*self.inner, user.inner());
        inner.context.state.usable()?;
        inner.context.state.same_driver(user.state)?;
        let device = user.state.raw;
        if device == inner.context.state.raw {
            return Ok(());
        }
        if !Context::from_inner(user.clone()).can_access_peer(&self.context())? {
            let (from, to) = (user.state.ordinal, inner.context.state.ordinal);
            return Err(Error::invalid(format!(
                "device {from} can't access memory of device {to}"
            )));
        }
        let flags = CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = CUmemAccessDesc { location: on_device(device), flags };
        // SAFETY: the pool is live, and there is one description.
        unsafe { call!(inner.context, cuMemPoolSetAccess(inner.raw, &raw const access, 1)) }?;
        let mut known = inner.access.lock()?;
        if !known.contains(&device) {
            known.push(device);
        }
        Ok(())
    }

    /// Allocates `bytes` bytes in the order of a raw stream, for an allocator that other code calls, such as PyTorch's
    /// `CUDAPluggableAllocator`. The legacy stream (0 or 1) is that of the pool's context. Returns 0 for no bytes.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns.
    ///
    /// # Safety
    /// `stream` is a stream of the pool's context, or 0, 1 or 2.
    pub unsafe fn allocate_raw(&self, bytes: usize, stream: CUstream) -> Result<CUdeviceptr> {
        let inner = &*self.inner;
        inner.context.state.usable()?;
        if bytes == 0 {
            return Ok(0);
        }
        // SAFETY: the pool is live; for the stream the caller's promise.
        unsafe { allocate_on(&inner.context, inner.raw, stream, bytes, || inner.trim(0)) }
    }

    /// Frees what [`allocate_raw`](Self::allocate_raw) has returned, in the order of a raw stream. 0 is freed by doing
    /// nothing.
    ///
    /// # Errors
    /// As [`Context::free_raw`].
    ///
    /// # Safety
    /// `start` is 0 or was returned by `allocate_raw` and is not freed so far; all uses of it are ordered before later
    /// work of the stream. For `stream`, as `allocate_raw`.
    pub unsafe fn free_raw(&self, start: CUdeviceptr, stream: CUstream) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.context().free_raw(start, stream) }
    }

    /// Destroys the pool now and returns the driver's error; a drop keeps it for
    /// [`Context::take_drop_errors`]. A pool of other code is not destroyed, but its token is dropped.
    ///
    /// # Errors
    /// The error holds the pool and names the reason: other handles or buffers of it are alive, or the driver's error.
    #[doc(alias = "cuMemPoolDestroy")]
    pub fn close(mut self) -> Result<(), ConsumeError<Self>> {
        let destroyed = match Arc::get_mut(&mut self.inner) {
            Some(inner) => inner.destroy(),
            None => {
                let others = Arc::strong_count(&self.inner).saturating_sub(1);
                let what = "handles and buffers";
                Err(Error::invalid(format!("the pool is still in use by {others} other {what}")))
            }
        };
        destroyed.map_err(|error| ConsumeError::new(self, error))
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool")
            .field("raw", &self.inner.raw)
            .field("ours", &matches!(self.inner.owner, Owner::Ours))
            .finish_non_exhaustive()
    }
}

impl PoolInner {
    fn trim(&self, keep: usize) -> Result<()> {
        self.context.state.usable()?;
        // SAFETY: the pool is live.
        unsafe { call!(self.context, cuMemPoolTrimTo(self.raw, keep)) }
    }

    fn get(&self, attribute: CUmemPool_attribute) -> Result<u64> {
        self.context.state.usable()?;
        let mut value = 0_u64;
        let place = (&raw mut value).cast();
        // SAFETY: the attributes that are asked for are 64-bit integers, which `value` is a place for.
        unsafe { call!(self.context, cuMemPoolGetAttribute(self.raw, attribute, place)) }?;
        Ok(value)
    }

    fn destroy(&mut self) -> Result<()> {
        if !matches!(self.owner, Owner::Ours) {
            return Ok(());
        }
        self.context.state.usable()?;
        // SAFETY: ours, and no handle of ours is left. Memory that is in use keeps the pool until it is freed.
        unsafe { call!(self.context, cuMemPoolDestroy(self.raw)) }?;
        self.owner = Owner::Others { _token: Token::none() };
        Ok(())
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        let state = self.context.state;
        let ours = matches!(self.owner, Owner::Ours);
        if ours && caller::is_host_function() && state.may_defer() {
            self.context.deferred.put(Deferred::Dropped(Dropped::Pool(self.raw)));
        }
        if state.is_usable() {
            let destroyed = self.destroy();
            self.context.keep_drop_result(destroyed);
        }
    }
}

fn supported(context: &ContextInner) -> Result<()> {
    context.state.usable()?;
    match are_there(context.device)? {
        true => Ok(()),
        false => Err(Error::invalid("the device has no memory pools")),
    }
}

impl Allocation {
    /// Allocates `bytes` from a pool, in the stream's order.
    pub(super) fn new_in(pool: &Pool, stream: &Stream, bytes: usize) -> Result<Arc<Self>> {
        let (inner, pool) = (stream.inner(), &pool.inner);
        inner.usable_here()?;
        if !Arc::ptr_eq(&inner.context, &pool.context) {
            return Err(Error::invalid("the pool belongs to another context than the stream"));
        }
        if bytes == 0 {
            return Ok(Self::with_kind(0, 0, stream, Kind::Empty));
        }
        inner.not_capturing("an allocation from a pool")?;
        let start = allocate_from(pool.raw, inner, bytes, || pool.trim(0))?;
        Ok(Self::with_kind(start, bytes, stream, Kind::OfPool(pool.clone())))
    }

    /// Fails unless kernels of another context may use the memory's pool.
    pub(crate) fn pool_is_reachable_from(&self, user: &ContextInner) -> Result<()> {
        let Kind::OfPool(pool) = self.kind() else { return Ok(()) };
        let known = pool.access.lock()?;
        match user.state.raw == pool.context.state.raw || known.contains(&user.state.raw) {
            true => Ok(()),
            false => Err(Error::invalid(
                "the buffer was allocated from a pool whose memory the stream's context may not use",
            )
            .with_hint("call Pool::enable_access_from")),
        }
    }
}

impl<T: Copy + 'static> DeviceBuffer<T> {
    /// As [`zeroed`](Self::zeroed), from a pool.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the pool belongs to another context, on a stream that
    /// records, or if elements need more than 256 bytes of alignment; [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory), or the error that the driver returns.
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub fn zeroed_in(pool: &Pool, stream: &Stream, len: usize) -> Result<Self>
    where
        T: Zeroable,
    {
        let buffer = Self::allocate_in(pool, stream, len)?;
        super::copy::fill(stream, buffer.allocation(), 0, &[0], buffer.size_bytes())?;
        Ok(buffer)
    }

    /// As [`from_slice`](Self::from_slice), from a pool.
    ///
    /// # Errors
    /// As [`zeroed_in`](Self::zeroed_in).
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub fn from_slice_in(pool: &Pool, stream: &Stream, source: &[T]) -> Result<Self>
    where
        T: NoUninit,
    {
        let mut buffer = Self::allocate_in(pool, stream, source.len())?;
        buffer.upload(stream, source)?;
        Ok(buffer)
    }
}

impl<T: Copy + 'static> DeviceBuffer<std::mem::MaybeUninit<T>> {
    /// As [`uninit`](Self::uninit), from a pool.
    ///
    /// # Errors
    /// As [`zeroed_in`](DeviceBuffer::zeroed_in).
    #[doc(alias = "cuMemAllocFromPoolAsync")]
    pub fn uninit_in(pool: &Pool, stream: &Stream, len: usize) -> Result<Self> {
        Self::allocate_in(pool, stream, len)
    }
}
