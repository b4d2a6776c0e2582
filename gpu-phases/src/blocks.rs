//! Blocks of threads: phases, arrays that a block shares, and values of each thread.
//!
//! A kernel that ends with [`blocks`] runs one block of threads for each *part* of its output. Code of the closure stands at
//! *block level*: all threads of a block run it with the same values. [`Block::each`] is a *phase*: it hands out the
//! items of a [`Target`], one thread each, and the next phase sees what this one wrote. There is no barrier to forget.
//!
//! rustc refuses races: the closure of a phase is `Fn + Sync`, so its items are all that it can write, and they are
//! disjoint.

mod carry;
mod collective;
mod launch;
mod numbers;
mod parts;
mod patches;
mod shared;
mod splits;
mod target;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use crate::cpu::raise;
use crate::fault::FaultKind;
pub use crate::raw::Lane;
#[doc(hidden)]
pub use crate::raw::{Taken, TakenLanes, TakenPatches, Window, Windows};
pub(crate) use carry::{LARGEST, Left, Order};
pub use launch::blocks;
#[doc(hidden)]
pub use launch::blocks_in_order;
pub(crate) use launch::failed_thread;
pub use numbers::{Element, Summed};
pub use parts::{
    Chunks, Grid, Part, Parts, Rows, Slot, Tile, Tiles, WarpElements, WarpRows, Warps, chunks,
    grid, rows, tiles, warps,
};
pub(crate) use parts::{check_chunks, check_tiles, check_warps};
pub use patches::{LinePatch, LinePatches, Patch, Patches};
pub use shared::{PerThread, Shared, SharedArray, SharedLine};
pub use splits::{Cells, Pairs, RowItems};
pub use target::{Dim, Dims, Target};
#[doc(hidden)]
pub use target::{Line, Slices};

thread_local! {
    /// The thread of a block whose item runs. It is reported if the item unwinds.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// The threads of a block: `Threads::<256>`, or `Threads::<16, 16>`, whose threads have an index `[row, column]`.
///
/// From 1 to 1,024. Functions of warps need a multiple of 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Threads<const N: usize, const M: usize = 0>;

/// A block of `N` threads, or of `N` rows of `M` threads.
///
/// Only code at block level has it: it is not `Sync`, so closures of phases cannot use it.
pub struct Block<const N: usize, const M: usize = 0> {
    index: usize,
    count: usize,
    alone: PhantomData<*mut ()>,
}

impl<const N: usize, const M: usize> fmt::Debug for Block<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").field("index", &self.index).finish_non_exhaustive()
    }
}

impl<const N: usize, const M: usize> Block<N, M> {
    /// The number of threads.
    pub const THREADS: usize = if M == 0 { N } else { N * M };

    const VALID: () =
        assert!(Self::THREADS >= 1 && Self::THREADS <= 1024, "a block has from 1 to 1,024 threads");
    /// The number of warps.
    const WARPS: usize = {
        assert!(
            Self::THREADS.is_multiple_of(32),
            "functions of warps and of the values of a block need a multiple of 32 threads"
        );
        Self::THREADS / 32
    };

    /// Returns the index of the block.
    #[inline(always)]
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of blocks.
    #[inline(always)]
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the number of threads.
    #[inline(always)]
    #[must_use]
    pub fn threads(&self) -> usize {
        Self::THREADS
    }

    /// Returns an array that the threads share: `block.shared([0.0f32; 256])` or `block.shared([[0.0f32; 16]; 16])`.
    ///
    /// In a kernel it is the value of a `let` that is a statement of its closure, not of a loop or a branch.
    #[inline(always)]
    pub fn shared<A: SharedArray>(&mut self, array: A) -> Shared<A> {
        Shared::new(array)
    }

    /// Returns an array of `len` elements that the threads share: `block.shared_slice::<f32>(2 * n, 0.0)`.
    ///
    /// In a kernel it is the value of a `let` that is a statement of its closure. The length is known before the launch: its
    /// names are those of parameters and of what stands before `blocks`. If the arrays of a block have more than 227 KiB
    /// together, the launch is refused; devices may have less, and then it is an error.
    #[inline(always)]
    pub fn shared_slice<T: Element>(&mut self, len: usize, value: T) -> Shared<Vec<T>> {
        Shared::of_length(len, value)
    }

    /// Returns a value for each thread, in a register.
    #[inline(always)]
    pub fn per_thread<T: crate::device::Device>(&mut self, value: T) -> PerThread<T, N, M>
    where
        Dims<M>: Dim,
    {
        PerThread::new(value)
    }

    /// A phase: calls `f` for each item of the target with its index. Thread `t` has the items at `t`, `t + N`, ….
    ///
    /// Items of a tuple of targets are tuples, up to the length of the shortest; the index is that of the first target.
    #[inline(always)]
    pub fn each<G, F>(&mut self, target: G, f: F)
    where
        G: Target,
        F: Fn(G::Index, G::Item) + Sync,
    {
        let mut at = Position::<N, M>(0);
        target.visit(
            #[inline(always)]
            |position, index, item| {
                at.0 = position;
                f(index, item);
            },
        );
        std::mem::forget(at);
    }

    /// A phase without items: calls `f` for each of `0..count`. Thread `t` has `t`, `t + N`, ….
    #[inline(always)]
    pub fn run<F: Fn(usize) + Sync>(&mut self, count: usize, f: F) {
        let mut at = Position::<N, M>(0);
        while at.0 < count {
            f(at.0);
            at.0 += 1;
        }
        std::mem::forget(at);
    }

    /// A phase of one thread: calls `f`, and returns its value to all.
    #[inline(always)]
    pub fn one<T: crate::device::Device, F: Fn() -> T + Sync>(&mut self, f: F) -> T {
        f()
    }

    /// A phase that copies `source[start + i]` to item `i` of the target, or `fill` where the source has no such element.
    ///
    /// If the items are arrays of threads, `&mut block.per_thread([0.0f32; K])`, thread `t` has the `K` elements from
    /// `source[start + t * K]` on.
    #[inline(always)]
    pub fn load<'t, T, G>(&mut self, target: G, source: &[T], start: isize, fill: T)
    where
        T: Element,
        G: Line<'t, T>,
    {
        target.copy(source, start, fill);
    }

    /// A phase that copies a window of a matrix, which `source` has row by row: item `[i, j]` of the target becomes the
    /// element at `[row + i, column + j]`, or `fill` outside of the matrix. A fault if `source` is shorter than the matrix.
    #[inline(always)]
    #[track_caller]
    pub fn load_matrix<'t, T, G>(
        &mut self,
        target: G,
        source: &[T],
        [rows, columns]: [usize; 2],
        [row, column]: [isize; 2],
        fill: T,
    ) where
        T: Element,
        G: Target<Index = [usize; 2]> + Slices<'t, T>,
    {
        let len = source.len();
        if columns != 0 && rows > len / columns {
            let caller = Location::caller();
            let needed = rows.wrapping_mul(columns) as u64;
            raise::fault(FaultKind::Index, caller.line(), needed, len as u64, caller);
        }
        for (i, items) in target.slices().enumerate() {
            let from = row.checked_add_unsigned(i).and_then(|row| usize::try_from(row).ok());
            let from = from.filter(|row| *row < rows).map(|row| row * columns);
            let from = from.and_then(|start| source.get(start..start + columns));
            copy_from(items, from.unwrap_or_default(), column, fill);
        }
    }
}

/// Copies `source[start + i]` to item `i`, or `fill` where the source has no such element.
#[inline(always)]
pub(crate) fn copy_from<T: Copy>(items: &mut [T], source: &[T], start: isize, fill: T) {
    // Most of the copies are whole, and their length is often a constant.
    let inside =
        usize::try_from(start).ok().and_then(|start| source.get(start..)?.get(..items.len()));
    match inside {
        Some(inside) => items.copy_from_slice(inside),
        None => copy_partly(items, source, start, fill),
    }
}

#[cold]
fn copy_partly<T: Copy>(items: &mut [T], source: &[T], start: isize, fill: T) {
    let before = if start < 0 { start.unsigned_abs() } else { 0 };
    let source = source.get(usize::try_from(start).unwrap_or(0)..).unwrap_or_default();
    let (outside, items) = items.split_at_mut(before.min(items.len()));
    let (inside, beyond) = items.split_at_mut(source.len().min(items.len()));
    outside.fill(fill);
    inside.copy_from_slice(&source[..inside.len()]);
    beyond.fill(fill);
}

/// The position of the item that runs: its thread is reported if it unwinds.
struct Position<const N: usize, const M: usize>(usize);

impl<const N: usize, const M: usize> Drop for Position<N, M> {
    #[inline(always)]
    fn drop(&mut self) {
        THREAD.set(self.0 % Block::<N, M>::THREADS);
    }
}
