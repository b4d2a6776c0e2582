//! What a kernel computes before its loop: conditions, and the shape of its outputs.

use std::fmt::Debug;
use std::hint::black_box;
use std::panic;

use crate::__private::refuse;
use crate::blocks::{Block, Threads};
use crate::cpu::hook::Mark;
use crate::kernel::{CpuError, Extent};
use crate::raw::{Atomic, AtomicElement};

/// Stands for a slice before the loop, where only its length is known.
#[derive(Debug, Clone, Copy)]
pub struct Len(usize);

impl Len {
    /// Stands for a slice of this length.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self(len)
    }

    /// Returns the number of elements.
    #[must_use]
    pub fn len(self) -> usize {
        self.0
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// An argument on the CPU, as the code before the loop gets it.
pub trait HostView {
    /// What the code gets.
    type View;

    /// Returns it.
    fn view(&self) -> Self::View;
}

impl<T> HostView for &[T] {
    type View = Len;

    fn view(&self) -> Len {
        Len(self.len())
    }
}

impl<T> HostView for &mut [T] {
    type View = Len;

    fn view(&self) -> Len {
        Len(self.len())
    }
}

impl<T: AtomicElement> HostView for &Atomic<[T]> {
    type View = Len;

    fn view(&self) -> Len {
        Len(self.len())
    }
}

impl<T: crate::device::Device> HostView for T {
    type View = T;

    fn view(&self) -> T {
        *self
    }
}

/// The shape of an output.
pub trait OutputShape {
    /// Returns the number of dimensions and the size.
    fn shape(self) -> (u32, [usize; 3]);
}

impl OutputShape for Len {
    fn shape(self) -> (u32, [usize; 3]) {
        (1, [self.0, 1, 1])
    }
}

/// The shape of an image or a volume.
#[derive(Debug)]
pub struct Shape<const N: usize>(Len, [usize; N]);

impl<const N: usize> Shape<N> {
    /// Takes the slice and its shape.
    #[must_use]
    pub fn new(len: Len, size: [usize; N]) -> Self {
        Self(len, size)
    }
}

impl<const N: usize> OutputShape for Shape<N> {
    fn shape(self) -> (u32, [usize; 3]) {
        let Self(Len(len), size) = self;
        let count = size.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
        if count != Some(len) {
            refuse(format!("the output's shape is {size:?}, but it has {len} elements"));
        }
        let mut shape = [1; 3];
        shape.iter_mut().zip(size).for_each(|(to, from)| *to = from);
        (u32::try_from(N).unwrap_or(3), shape)
    }
}

macro_rules! shapes {
    ($($name:ident $at:tt),+) => {
        impl<$($name: OutputShape),+> OutputShape for ($($name,)+) {
            fn shape(self) -> (u32, [usize; 3]) {
                let shapes = [$(self.$at.shape()),+];
                if let Some(at) = shapes.iter().position(|shape| *shape != shapes[0]) {
                    let (first, other) = (shapes[0].1, shapes[at].1);
                    refuse(format!("the outputs have different shapes: {first:?}, but {other:?} of number {}", at + 1));
                }
                shapes[0]
            }
        }
    };
}
shapes!(A 0);
shapes!(A 0, B 1);
shapes!(A 0, B 1, C 2);
shapes!(A 0, B 1, C 2, D 3);
shapes!(A 0, B 1, C 2, D 3, E 4);
shapes!(A 0, B 1, C 2, D 3, E 4, F 5);
shapes!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
shapes!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);

/// Returns the extent of outputs. Refuses the launch if they have different shapes.
pub fn extent_of(outputs: impl OutputShape) -> Extent {
    let (dimensions, size) = outputs.shape();
    Extent { dimensions, size: size.map(|n| n as u64), threads: 0, shared: 0 }
}

/// The parts of outputs on the host, by the functions that make them in a kernel.
pub mod parts {
    use super::{Len, refuse};
    use crate::blocks::{check_chunks, check_tiles, check_warps};

    /// Parts, as their number.
    pub trait PartsShape {
        /// Returns the number of blocks. `threads`: those of a block.
        fn blocks(&self, threads: usize) -> usize;

        /// Returns the tiles in a row, of a matrix in tiles.
        fn across(&self) -> Option<usize> {
            None
        }
    }

    fn or_refuse<T>(checked: Result<T, String>) -> T {
        checked.unwrap_or_else(|message| refuse(message))
    }

    impl PartsShape for Len {
        fn blocks(&self, _: usize) -> usize {
            self.0
        }
    }

    /// A number of blocks.
    #[derive(Debug)]
    pub struct Blocks(usize);

    impl PartsShape for Blocks {
        fn blocks(&self, _: usize) -> usize {
            self.0
        }
    }

    /// The tiles along each side of a matrix.
    #[derive(Debug)]
    pub struct Tiled([usize; 2]);

    impl PartsShape for Tiled {
        fn blocks(&self, _: usize) -> usize {
            self.0[0] * self.0[1]
        }

        fn across(&self) -> Option<usize> {
            Some(self.0[1])
        }
    }

    /// Stands for the function of this name.
    #[must_use]
    pub fn chunks(out: Len, size: usize) -> Blocks {
        Blocks(or_refuse(check_chunks(out.0, size, false)))
    }

    /// Stands for the function of this name.
    #[must_use]
    pub fn tiles<const H: usize, const W: usize>(out: Len, size: [usize; 2]) -> Tiled {
        Tiled(or_refuse(check_tiles(out.0, size, [H, W])))
    }

    /// Stands for the function of this name.
    #[must_use]
    pub fn grid(count: usize) -> Blocks {
        Blocks(count)
    }

    /// Stands for the function of this name.
    #[must_use]
    pub fn rows(out: Len, columns: usize) -> Len {
        Len(or_refuse(check_chunks(out.0, columns, true)))
    }

    /// Elements, or rows, for warps.
    #[derive(Debug)]
    pub struct Warps(Len, usize);

    /// Stands for the function of this name.
    #[must_use]
    pub fn warps(of: Len, count: usize) -> Warps {
        Warps(of, count)
    }

    impl PartsShape for Warps {
        fn blocks(&self, threads: usize) -> usize {
            or_refuse(check_warps(self.1, threads));
            self.0.0.div_ceil(self.1)
        }
    }

    macro_rules! tuples {
        ($($name:ident $at:tt),+) => {
            impl<$($name: PartsShape),+> PartsShape for ($($name,)+) {
                fn blocks(&self, threads: usize) -> usize {
                    let counts = [$(self.$at.blocks(threads)),+];
                    if let Some(at) = counts.iter().position(|count| *count != counts[0]) {
                        let (first, other, number) = (counts[0], counts[at], at + 1);
                        refuse(format!("the outputs have {first} parts, but {other} of number {number}"));
                    }
                    counts[0]
                }

                fn across(&self) -> Option<usize> {
                    None$(.or(self.$at.across()))+
                }
            }
        };
    }
    tuples!(A 0);
    tuples!(A 0, B 1);
    tuples!(A 0, B 1, C 2);
    tuples!(A 0, B 1, C 2, D 3);
    tuples!(A 0, B 1, C 2, D 3, E 4);
    tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
}

/// Returns the extent of a kernel over blocks.
pub fn blocks_of<const N: usize, const M: usize>(
    _: Threads<N, M>,
    parts: impl parts::PartsShape,
) -> Extent {
    let threads = Block::<N, M>::THREADS;
    let count = parts.blocks(threads);
    if count as u64 > MOST_BLOCKS {
        refuse(format!("{count} blocks, and a launch has at most {MOST_BLOCKS}"));
    }
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    let count = count as u64;
    // With the shape of the tiles no block divides to find its own.
    let (dimensions, size) = match parts.across() {
        Some(across @ 1..) if count / across as u64 <= MOST_DOWN => {
            (2, [across as u64, count / across as u64, 1])
        }
        _ => (1, [count, 1, 1]),
    };
    Extent { dimensions, size, threads, shared: 0 }
}

/// The most shared memory that a block can have, of all devices.
const MOST_SHARED: usize = 227 * 1024;

/// Returns the extent of a kernel whose blocks have shared arrays of these lengths, of elements of these sizes.
#[must_use]
pub fn with_shared(extent: Extent, arrays: &[(usize, usize)]) -> Extent {
    // Each begins at a multiple of 16 bytes.
    let bytes = arrays.iter().fold(0usize, |sum, (len, size)| {
        sum.saturating_add(len.saturating_mul(*size)).saturating_add(15) / 16 * 16
    });
    match u32::try_from(bytes) {
        Ok(shared) if bytes <= MOST_SHARED => Extent { shared, ..extent },
        _ => {
            refuse(format!("{bytes} bytes of shared arrays, and a block has at most {MOST_SHARED}"))
        }
    }
}

/// Checks in the compiler that a multiprocessor has the threads of so many blocks.
pub fn fit<const N: usize, const M: usize, const BLOCKS: usize>(_: Threads<N, M>, _: [(); BLOCKS]) {
    const {
        assert!(
            Block::<N, M>::THREADS * BLOCKS <= 2048,
            "a multiprocessor has 2,048 threads: lower `min_blocks`, or give the blocks fewer threads"
        );
    }
}

/// Returns the type of a block in C++.
#[must_use]
pub fn block_name<const N: usize, const M: usize>(_: Threads<N, M>) -> String {
    format!("block<{N}, {M}>")
}

/// Returns the columns of a block's threads; 0 if they have one dimension.
#[must_use]
pub fn columns<const N: usize, const M: usize>(_: Threads<N, M>) -> usize {
    M
}

/// The most blocks of a launch in x.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

/// The most blocks in the second dimension of a grid.
const MOST_DOWN: u64 = (1 << 16) - 1;

/// The extent that the body of a kernel returns after its loop, which nothing uses.
pub const NO_EXTENT: Extent = Extent { dimensions: 0, size: [0; 3], threads: 0, shared: 0 };

/// Refuses the launch unless the length of a slice is the one that a device takes for it.
#[inline]
pub fn same_length(len: usize, known: usize) {
    if len != known {
        refuse(format!("a slice has {len} elements, and a condition says {known}"));
    }
}

/// Returns the text of a value of a condition.
pub fn shown(value: &impl Debug) -> String {
    format!("{value:?}")
}

/// Refuses the launch: a condition is false.
#[cold]
pub fn condition_failed(condition: &str, values: &[(&str, String)]) -> ! {
    let values: Vec<String> =
        values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let given =
        if values.is_empty() { String::new() } else { format!(", but {}", values.join(", ")) };
    refuse(format!("it needs {condition}{given}"));
}

/// Returns what the host evaluates and a device does not. It changes no variable, which the two would have in common.
#[inline(always)]
pub fn unchanging<T>(value: impl Fn() -> T) -> T {
    value()
}

/// Returns whether `add_one`, which a crate has compiled, checks overflows.
pub fn overflow_checks(add_one: fn(u8) -> u8) -> bool {
    if cfg!(panic = "unwind") {
        crate::cpu::hook::install();
        let _quiet = Mark::inside(true);
        panic::catch_unwind(|| black_box(add_one(black_box(u8::MAX)))).is_err()
    } else {
        // The crates of a program that aborts cannot be asked.
        cfg!(debug_assertions)
    }
}

/// Panics with the message of a kernel that was called as a function.
///
/// # Panics
/// Always.
#[cold]
#[track_caller]
#[allow(
    clippy::panic,
    reason = "a function without a result can fail in no other way, as an index does"
)]
pub fn bare_failed(error: &CpuError) -> ! {
    panic!("{error}")
}
