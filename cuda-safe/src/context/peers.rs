//! The contexts to whose memory a context has access.

use std::sync::{Arc, Weak};

use super::ContextInner;
use crate::error::Result;
use crate::sync::Lock;

/// The contexts whose memory a context's kernels may use.
#[derive(Default)]
pub(crate) struct Peers {
    // Weak, so that no context keeps another open; and so that an address names one context only,
    // as long as it is listed.
    enabled: Lock<Vec<Weak<ContextInner>>>,
}

impl Peers {
    pub(crate) fn contains(&self, other: &Arc<ContextInner>) -> Result<bool> {
        let enabled = self.enabled.lock()?;
        Ok(enabled.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(other))))
    }

    pub(crate) fn insert(&self, other: &Arc<ContextInner>) -> Result<()> {
        let mut enabled = self.enabled.lock()?;
        enabled.retain(|known| known.strong_count() > 0);
        enabled.push(Arc::downgrade(other));
        Ok(())
    }
}
