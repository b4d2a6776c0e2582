//! Enqueuing work that is not a launch: ordered behind the uses before it, recorded for those to come.

use std::ops::Range;

use super::allocation::Allocation;
use super::uses::Access;
use crate::error::Result;
use crate::stream::{Stream, StreamInner};

/// Enqueues work on `stream` that uses `uses`: ordered behind conflicting uses before, and
/// recorded for those to come.
pub(crate) fn enqueue<const N: usize>(
    stream: &Stream,
    uses: [(&Allocation, Range<usize>, Access); N],
    call: impl FnOnce(&StreamInner) -> Result<()>,
) -> Result<()> {
    let inner = stream.inner();
    inner.state().usable()?;
    for (allocation, range, access) in &uses {
        allocation.begin_use(stream, range.clone(), *access)?;
    }
    let done = call(inner);
    // Recorded even if the call failed: part of it may have been enqueued.
    let sequence = inner.number();
    for (allocation, range, access) in uses {
        allocation.end_use(stream, range, access, sequence);
    }
    done
}
