//! Memory from the allocator of a framework.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use cuda_sys::{CUdeviceptr, CUstream};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::quiet::Quiet;
use crate::stream::StreamInner;

/// An allocator of a framework, for [`LentStream::set_allocator`](crate::LentStream::set_allocator).
///
/// # Safety
/// [`allocate`](Self::allocate) returns an address at which `bytes` bytes of memory of the context's device are live
/// until the token is dropped, aligned to 256 bytes, that nothing else uses. Work on the stream may use them at once.
/// The token may be dropped by any thread, when the stream waits for all uses on other streams; work on the stream may
/// be unfinished then.
pub unsafe trait Allocator {
    /// Allocates `bytes` bytes, at least one, in the order of `stream`.
    ///
    /// # Errors
    /// There is no memory, or what else failed.
    fn allocate(&self, context: &Context, bytes: usize, stream: CUstream) -> Result<ForeignMemory>;
}

/// Memory that an [`Allocator`] has returned.
pub struct ForeignMemory {
    /// The address.
    pub start: CUdeviceptr,
    /// Frees the memory when it is dropped.
    pub token: Box<dyn Any + Send + Sync>,
}

impl fmt::Debug for ForeignMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignMemory").field("start", &self.start).finish_non_exhaustive()
    }
}

/// The allocator of a call. The end of the call drops it, and goes on after that.
type Set = Quiet<Box<dyn Allocator>>;

thread_local! {
    /// The allocator of the call that this thread is in.
    static ALLOCATOR: RefCell<Option<Rc<Set>>> = const { RefCell::new(None) };
}

fn replace(allocator: Option<Rc<Set>>) {
    // `before` is dropped where nothing is borrowed.
    let before = ALLOCATOR.try_with(|known| match known.try_borrow_mut() {
        Ok(mut known) => std::mem::replace(&mut *known, allocator),
        Err(_) => None,
    });
    drop(before);
}

/// Makes this the allocator of the call that this thread is in.
pub(crate) fn set_allocator(allocator: impl Allocator + 'static) {
    replace(Some(Rc::new(Set::new(Box::new(allocator)))));
}

/// Forgets the allocator: the call ends.
pub(crate) fn forget_allocator() {
    replace(None);
}

impl StreamInner {
    /// Allocates by the allocator of the call that this stream is lent for, if one is set.
    pub(super) fn lease(&self, bytes: usize) -> Result<Option<ForeignMemory>> {
        if self.plain || !self.is_lent() {
            return Ok(None);
        }
        let allocator = ALLOCATOR.try_with(|known| known.borrow().clone());
        let Ok(Some(set)) = allocator else { return Ok(None) };
        let Some(allocator) = set.get() else { return Ok(None) };
        let context = Context::from_inner(self.context.clone());
        let lease = allocator.allocate(&context, bytes, self.raw)?;
        match lease.start {
            0 => Err(Error::invalid(format!(
                "the framework's allocator returned null for {bytes} bytes"
            ))),
            _ => Ok(Some(lease)),
        }
    }
}
