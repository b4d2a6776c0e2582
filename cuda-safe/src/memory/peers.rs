//! Memory that streams of other contexts use.

use std::sync::Arc;

use super::{Access, Allocation};
use crate::context::ContextInner;
use crate::error::{Error, Result};

impl Allocation {
    /// Fails unless work of `user`, another context than the memory's own, may use the memory.
    #[cold]
    pub(crate) fn reachable_from(&self, user: &ContextInner) -> Result<()> {
        let owner = &self.home_stream().inner().context;
        if !user.peers.contains(owner)? {
            let refused = Error::invalid(
                "the buffer belongs to another context than the stream it is used on",
            );
            if std::ptr::eq(user.state.sys, owner.state.sys)
                && user.state.ordinal != owner.state.ordinal
            {
                return Err(refused.with_hint(
                    "copy it with DeviceSliceMut::copy_from_peer, or let the stream's context use \
                     memory of the other device by Context::enable_peer_access",
                ));
            }
            return Err(refused);
        }
        if self.is_borrowed() {
            return Err(Error::invalid(
                "memory that this crate did not allocate is used in its own context only",
            ));
        }
        self.pool_is_reachable_from(user)?;
        owner.state.usable()
    }

    /// Returns whether streams of other contexts have used the memory lately: waiting for its own device
    /// then does not do.
    pub(super) fn is_used_elsewhere(&self) -> bool {
        let home = &self.home_stream().inner().context;
        // What is not known is taken for one.
        self.newest_uses(Access::Write).map_or(true, |uses| {
            uses.iter().any(|(stream, _)| !Arc::ptr_eq(&stream.inner().context, home))
        })
    }
}
