//! Checks of lengths, and launches for them.

use std::ops::Range;

use cuda_safe::{Error, LaunchConfig, Result};

/// The default block size of kernels.
pub(crate) const BLOCK: u32 = 256;

/// The most blocks of kernels with grid-stride loops: more than any device holds at once.
const MOST_BLOCKS: usize = 1056;

/// The most elements of one launch of [`in_parts`].
pub(crate) const MOST_IN_PART: usize = 1 << 28;

/// Fails unless an output has `wanted` elements.
pub(crate) fn same_length(what: &str, length: usize, wanted: usize) -> Result<()> {
    if length == wanted {
        return Ok(());
    }
    Err(Error::invalid(format!("room for {length} {what}, and {wanted} are written")))
}

/// Fails unless an array has `wanted` elements.
pub(crate) fn has_length(what: &str, length: usize, wanted: usize) -> Result<()> {
    if length == wanted {
        return Ok(());
    }
    Err(Error::invalid(format!("{what} has {length} elements, not {wanted}")))
}

/// Returns a launch with one thread for each of `n`, and at least one block.
pub(crate) fn cover(n: usize) -> LaunchConfig {
    LaunchConfig::cover(n.max(1), BLOCK)
}

/// Returns a launch of `count` blocks of `threads` threads, which launches nothing for 0 blocks.
pub(crate) fn blocks(count: usize, threads: u32) -> LaunchConfig {
    LaunchConfig::cover(count.saturating_mul(threads as usize), threads)
}

/// Returns a launch for kernels whose blocks each add to the same words at their end: at least one block, and not
/// many.
pub(crate) fn cover_many(n: usize) -> LaunchConfig {
    let blocks = n.div_ceil(4 * BLOCK as usize).clamp(1, MOST_BLOCKS);
    LaunchConfig::new(blocks as u32, BLOCK)
}

/// Calls `run` with ranges that cover `len` elements, their lengths, and launches with one thread per element and
/// `block` threads per block.
pub(crate) fn in_parts(
    len: usize,
    block: u32,
    run: impl FnMut(Range<usize>, u32, LaunchConfig) -> Result<()>,
) -> Result<()> {
    in_parts_of(len, MOST_IN_PART, block, run)
}

/// Works like [`in_parts`], with ranges of at most `most` elements, which must be less than 2^32 and not 0.
pub(crate) fn in_parts_of(
    len: usize,
    most: usize,
    block: u32,
    mut run: impl FnMut(Range<usize>, u32, LaunchConfig) -> Result<()>,
) -> Result<()> {
    (0..len).step_by(most).try_for_each(|start| {
        let end = len.min(start.saturating_add(most));
        let n = end - start;
        run(start..end, n as u32, LaunchConfig::cover(n, block))
    })
}
