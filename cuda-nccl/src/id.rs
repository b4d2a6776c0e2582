//! Identifiers of communicators.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Weak};

use crate::error::{Error, Result};
use crate::life::clique::Clique;
use crate::raw::{NCCL_UNIQUE_ID_BYTES, Nccl, ncclResult_t, ncclUniqueId};
use crate::sync::Lock;

/// Identifies one communicator that ranks of several processes make: 128 bytes.
///
/// One rank creates it, and the program sends its bytes to the others, by whatever means it has. Each identifier makes one
/// communicator. Keep it secret: a process that has it can join.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId {
    bytes: [u8; NCCL_UNIQUE_ID_BYTES],
}

impl UniqueId {
    /// Creates an identifier with the NCCL that [`Nccl::load`] finds. A thread of NCCL in this process listens for the
    /// ranks from now on.
    ///
    /// # Errors
    /// As [`Nccl::load`], or NCCL's error.
    pub fn new() -> Result<Self> {
        Self::of(Nccl::load()?)
    }

    /// Creates an identifier with this library.
    ///
    /// # Errors
    /// NCCL's error.
    #[doc(alias = "ncclGetUniqueId")]
    pub fn of(library: &'static Nccl) -> Result<Self> {
        let mut id = ncclUniqueId { internal: [0; NCCL_UNIQUE_ID_BYTES] };
        // SAFETY: `id` is valid for the write.
        let code = unsafe { library.ncclGetUniqueId(&raw mut id) }?;
        if code != ncclResult_t::ncclSuccess {
            let detail = String::new();
            return Err(Error::Nccl { call: "ncclGetUniqueId", code, rank: 0, detail });
        }
        Ok(Self { bytes: id.internal })
    }

    /// Returns an identifier of these bytes, which another process has sent.
    #[must_use]
    pub fn from_bytes(bytes: [u8; NCCL_UNIQUE_ID_BYTES]) -> Self {
        Self { bytes }
    }

    /// Returns the bytes, to be sent to the other ranks.
    #[must_use]
    pub fn to_bytes(self) -> [u8; NCCL_UNIQUE_ID_BYTES] {
        self.bytes
    }

    pub(crate) fn raw(self) -> ncclUniqueId {
        ncclUniqueId { internal: self.bytes }
    }

    /// Notes that a rank of this process uses the identifier, and returns the clique of all that do.
    ///
    /// # Errors
    /// The rank has used it before.
    pub(crate) fn claim(self, rank: usize) -> Result<Arc<Clique>> {
        /// The newest identifiers, enough to find a mistake.
        const KEPT: usize = 1024;
        static USED: Lock<VecDeque<(UniqueId, usize, Weak<Clique>)>> = Lock::new(VecDeque::new());
        let mut used = USED.lock()?;
        if used.iter().any(|(id, of, _)| *id == self && *of == rank) {
            return Err(Error::invalid(format!(
                "the identifier has made a communicator of rank {rank} in this process before: each makes one, so create \
                 a new one and send it to all ranks"
            )));
        }
        let clique =
            used.iter().find_map(|(id, _, clique)| clique.upgrade().filter(|_| *id == self));
        let clique = clique.unwrap_or_else(Clique::of_some);
        clique.come();
        if used.len() == KEPT {
            used.pop_front();
        }
        used.push_back((self, rank, Arc::downgrade(&clique)));
        Ok(clique)
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The identifier is a secret: with it, others could join.
        f.debug_struct("UniqueId").finish_non_exhaustive()
    }
}
