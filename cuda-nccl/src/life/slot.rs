//! Where NCCL stores a new communicator.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::raw::{ncclComm, ncclComm_t};

/// Memory for the handle of a communicator that is being made. NCCL's own thread stores it when the work is done,
/// perhaps long after the call has returned. So it does not lie on the stack, and is freed only when that thread is
/// known to be done; else it is leaked, a few bytes.
#[derive(Debug)]
pub(crate) struct Slot(ManuallyDrop<Box<AtomicPtr<ncclComm>>>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self(ManuallyDrop::new(Box::default()))
    }

    /// Returns the pointer that NCCL is given, to memory that lives until [`finish`](Self::finish).
    pub(crate) fn pointer(&self) -> *mut ncclComm_t {
        self.0.as_ptr()
    }

    /// Returns the communicator, if NCCL has stored it.
    pub(crate) fn get(&self) -> ncclComm_t {
        self.0.load(Ordering::Acquire)
    }

    /// Returns the stored communicator, and frees the memory. Call it when NCCL has done its work.
    pub(crate) fn finish(self) -> ncclComm_t {
        let comm = self.get();
        drop(ManuallyDrop::into_inner(self.0));
        comm
    }
}
