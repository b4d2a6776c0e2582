//! The parallel loop over blocks.

use std::marker::PhantomData;
use std::sync::Arc;

use super::carry::Order;
use super::parts::Parts;
use super::target::{Dim, Dims};
use super::{Block, THREAD, Threads};
use crate::cpu::each::{Output, over};
use crate::cpu::raise::Raised;

/// Returns the thread of a block that this thread of the CPU has left by unwinding.
pub(crate) fn failed_thread() -> usize {
    THREAD.get()
}

/// Calls `f` for each part of the output with a block of threads, blocks on all threads of rayon's pool.
///
/// If blocks fail, the first failure of the one with the lowest index is reported.
pub fn blocks<const N: usize, const M: usize, P, F>(_: Threads<N, M>, parts: P, f: F)
where
    Dims<M>: Dim,
    P: Parts,
    F: Fn(&mut Block<N, M>, P::Part) + Sync + Clone,
{
    const { Block::<N, M>::VALID }
    let (output, count) = output_of(parts, Block::<N, M>::THREADS);
    // The library compiles the loop for processors with FMA, too. A closure that is not part of it would not be.
    over(
        output,
        Some(M),
        None,
        #[inline(always)]
        |index, part| {
            THREAD.set(0);
            f(&mut Block { index, count, alone: PhantomData }, part);
        },
    );
}

/// [`blocks`] that begin in their order, and pass on so many values.
pub fn blocks_in_order<const N: usize, const M: usize, P, F>(
    _: Threads<N, M>,
    parts: P,
    carries: usize,
    f: F,
) where
    Dims<M>: Dim,
    P: Parts,
    F: Fn(&mut Block<N, M>, P::Part) + Sync + Clone,
{
    const { Block::<N, M>::VALID }
    let (output, count) = output_of(parts, Block::<N, M>::THREADS);
    let order = Arc::new(Order::new(carries));
    over(
        output,
        Some(M),
        Some(&order),
        #[inline(always)]
        |index, part| {
            THREAD.set(0);
            order.run(
                #[inline(always)]
                || f(&mut Block { index, count, alone: PhantomData }, part),
            );
        },
    );
}

/// Returns the parts, and how many blocks there are.
fn output_of<P: Parts>(parts: P, threads: usize) -> (P::Output, usize) {
    let output = parts.output(threads).and_then(|output| {
        let [count, ..] = output.shape()?;
        Ok((output, count))
    });
    output.unwrap_or_else(|message| Raised::Refused(message).throw())
}
