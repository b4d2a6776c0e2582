//! Parts of outputs: what each block of a kernel gets.

use std::ops::Index;
use std::{fmt, iter};

use super::Element;
use super::target::{IntoItems, Target, sealed, slices, target};
use crate::cpu::each::{Output, sealed as outputs};
use crate::raw::{Lane, Taken, TakenLanes, Window, Windows};

/// What [`blocks`](super::blocks) runs over: a block for each part.
#[diagnostic::on_unimplemented(
    message = "`blocks` does not run over `{Self}`",
    note = "give it `out: &mut [T]` (an element each), `chunks(out, n)`, `tiles::<H, W>(out, [rows, columns])`, \
            `warps(out, n)`, `grid(n)`, or a tuple of them"
)]
pub trait Parts: Sized {
    /// What the closure gets.
    type Part;
    #[doc(hidden)]
    type Output: Output<Index = usize, Item = Self::Part>;

    #[doc(hidden)]
    fn output(self, threads: usize) -> Result<Self::Output, String>;
}

/// Implements `Output` for what is split at blocks.
macro_rules! output {
    ([$($generics:tt)*] $name:ty, $part:ty, $items:ty, |$this:ident| $count:expr, $iterator:expr, |$at:ident| $split:expr) => {
        impl<'a, T: Send + 'a, $($generics)*> outputs::Sealed for $name {}

        impl<'a, T: Send + 'a, $($generics)*> Output for $name {
            type Index = usize;
            type Item = $part;
            type Items = $items;

            fn shape(&self) -> Result<[usize; 3], String> {
                let $this = self;
                Ok([$count, 1, 1])
            }

            fn split_at(self, $at: usize) -> (Self, Self) {
                let $this = self;
                $split
            }

            #[inline(always)]
            fn items(self) -> Self::Items {
                let $this = self;
                $iterator
            }
        }
    };
}

/// One element of an output, which one thread of the block writes.
pub struct Slot<'a, T>(&'a mut T);

impl<T> Slot<'_, T> {
    /// Writes the element.
    #[inline(always)]
    pub fn set(self, value: T) {
        *self.0 = value;
    }
}

impl<T> fmt::Debug for Slot<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct Slots<'a, T>(&'a mut [T]);

output!([] Slots<'a, T>, Slot<'a, T>, iter::Map<std::slice::IterMut<'a, T>, fn(&'a mut T) -> Slot<'a, T>>,
    |this| this.0.len(), this.0.iter_mut().map(Slot),
    |at| { let (a, b) = this.0.split_at_mut(at); (Slots(a), Slots(b)) });

impl<'a, T: Send> Parts for &'a mut [T] {
    type Part = Slot<'a, T>;
    type Output = Slots<'a, T>;

    fn output(self, _: usize) -> Result<Self::Output, String> {
        Ok(Slots(self))
    }
}

/// Neighbouring elements of an output, or a part of an array that a block shares.
///
/// Block-level code and closures read it by index; phases write its items.
pub struct Part<'a, T> {
    pub(super) elements: &'a mut [T],
    pub(super) start: usize,
}

impl<T> Part<'_, T> {
    /// Returns the number of elements.
    #[inline(always)]
    #[must_use]
    pub fn len(&self) -> usize {
        self.elements.len()
    }

    /// Returns whether there are none.
    #[inline(always)]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the index of the first element in the whole.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> usize {
        self.start
    }
}

impl<T> Index<usize> for Part<'_, T> {
    type Output = T;

    #[inline(always)]
    #[track_caller]
    fn index(&self, index: usize) -> &T {
        &self.elements[index]
    }
}

impl<T> fmt::Debug for Part<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").field("len", &self.elements.len()).finish_non_exhaustive()
    }
}

target!([] [] Part<'t, T>, [usize, &'t mut T], IntoItems<'t, T>, |at| at, |this| this.elements.iter_mut().map(Some));
target!(['a] [] &'t mut Part<'a, T>, [usize, &'t mut T], IntoItems<'t, T>, |at| at, |this| this.elements.iter_mut().map(Some));
slices!([] [] Part<'t, T>, |this| iter::once(this.elements));
slices!(['a] [] &'t mut Part<'a, T>, |this| iter::once(&mut this.elements[..]));

/// An output in chunks; see [`chunks`].
pub struct Chunks<'a, T> {
    elements: &'a mut [T],
    size: usize,
    start: usize,
}

impl<T> fmt::Debug for Chunks<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Gives each block the next `size` elements of the slice, the last one what is left.
#[must_use]
pub fn chunks<T>(elements: &mut [T], size: usize) -> Chunks<'_, T> {
    Chunks { elements, size, start: 0 }
}

/// Rows of an output, for [`warps`].
#[derive(Debug)]
pub struct Rows<'a, T>(&'a mut [T], usize);

#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct ChunkItems<'a, T> {
    chunks: std::slice::ChunksMut<'a, T>,
    size: usize,
    start: usize,
}

impl<'a, T> Iterator for ChunkItems<'a, T> {
    type Item = Part<'a, T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Part<'a, T>> {
        let elements = self.chunks.next()?;
        let start = self.start;
        self.start += self.size;
        Some(Part { elements, start })
    }
}

output!([] Chunks<'a, T>, Part<'a, T>, ChunkItems<'a, T>,
|this| this.elements.len().div_ceil(this.size),
ChunkItems { chunks: this.elements.chunks_mut(this.size), size: this.size, start: this.start },
|at| {
    let Chunks { elements, size, start } = this;
    let middle = (at * size).min(elements.len());
    let (a, b) = elements.split_at_mut(middle);
    (Chunks { elements: a, size, start }, Chunks { elements: b, size, start: start + middle })
});

impl<'a, T: Send> Parts for Chunks<'a, T> {
    type Part = Part<'a, T>;
    type Output = Self;

    fn output(self, _: usize) -> Result<Self, String> {
        check_chunks(self.elements.len(), self.size, false)?;
        Ok(self)
    }
}

/// Checks the size of chunks. Returns the number of blocks.
pub(crate) fn check_chunks(len: usize, size: usize, whole: bool) -> Result<usize, String> {
    if size == 0 {
        return Err("chunks of 0 elements".to_owned());
    }
    if whole && !len.is_multiple_of(size) {
        return Err(format!("rows of {size} elements, but the output has {len} elements"));
    }
    Ok(len.div_ceil(size))
}

/// A tile of an output: up to `H` rows of `W` elements, fewer at the edges.
pub struct Tile<'a, T, const H: usize, const W: usize>(Window<'a, T>);

impl<T, const H: usize, const W: usize> Tile<'_, T, H, W> {
    /// Returns `[row, column]` of the tile's first element in the whole.
    #[inline(always)]
    #[must_use]
    pub fn origin(&self) -> [usize; 2] {
        self.0.origin()
    }

    #[inline(always)]
    pub(super) fn again(&mut self) -> Window<'_, T> {
        self.0.again()
    }
}

impl<T, const H: usize, const W: usize> fmt::Debug for Tile<'_, T, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tile").field("origin", &self.origin()).finish_non_exhaustive()
    }
}

/// A matrix of rows, one after the other, in tiles; see [`tiles`].
#[derive(Debug)]
pub struct Tiles<'a, T, const H: usize, const W: usize> {
    elements: &'a mut [T],
    size: [usize; 2],
}

/// Gives each block a tile of `H` x `W` elements of a matrix, which the slice has row by row. Tiles at the edges are smaller.
///
/// The slice must have `rows * columns` elements, or the launch is refused. Blocks go along the rows.
#[must_use]
pub fn tiles<const H: usize, const W: usize, T>(
    elements: &mut [T],
    size: [usize; 2],
) -> Tiles<'_, T, H, W> {
    Tiles { elements, size }
}

/// The most positions of a tile: devices count them in 32 bits.
const MOST_CELLS: usize = 1 << 30;

/// Checks the shape of a matrix in tiles. Returns the number of tiles along each side.
pub(crate) fn check_tiles(
    len: usize,
    [rows, columns]: [usize; 2],
    [height, width]: [usize; 2],
) -> Result<[usize; 2], String> {
    if height == 0 || width == 0 {
        return Err("tiles without elements".to_owned());
    }
    if height.saturating_mul(width) > MOST_CELLS {
        return Err(format!(
            "tiles of {height} x {width} elements, at most {MOST_CELLS} are possible"
        ));
    }
    if rows.checked_mul(columns) != Some(len) {
        return Err(format!("a matrix of {rows} x {columns}, but the output has {len} elements"));
    }
    Ok([rows.div_ceil(height), columns.div_ceil(width)])
}

#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct TileItems<'a, T, const H: usize, const W: usize>(Windows<'a, T>);

impl<'a, T, const H: usize, const W: usize> Iterator for TileItems<'a, T, H, W> {
    type Item = Tile<'a, T, H, W>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(Tile)
    }
}

output!([const H: usize, const W: usize] TileItems<'a, T, H, W>, Tile<'a, T, H, W>, Self, |this| this.0.len(), this,
    |at| { let (a, b) = this.0.split_at(at); (TileItems(a), TileItems(b)) });

impl<'a, T: Send, const H: usize, const W: usize> Parts for Tiles<'a, T, H, W> {
    type Part = Tile<'a, T, H, W>;
    type Output = TileItems<'a, T, H, W>;

    fn output(self, _: usize) -> Result<Self::Output, String> {
        check_tiles(self.elements.len(), self.size, [H, W])?;
        Ok(TileItems(Windows::new(self.elements, self.size[1], [H, W])))
    }
}

target!([] [const H: usize, const W: usize] Tile<'t, T, H, W>, [[usize; 2], &'t mut T], Taken<'t, T>,
    |at| [at / W, at % W], |this| Taken::new(this.0, [H, W]), rows of W);
target!(['a] [const H: usize, const W: usize] &'t mut Tile<'a, T, H, W>, [[usize; 2], &'t mut T], Taken<'t, T>,
    |at| [at / W, at % W], |this| Taken::new(this.0.again(), [H, W]), rows of W);
slices!([] [const H: usize, const W: usize] Tile<'t, T, H, W>, |this| this.0.rows());
slices!(['a] [const H: usize, const W: usize] &'t mut Tile<'a, T, H, W>, |this| this.0.again().rows());

/// Blocks without a part of an output; see [`grid`].
#[derive(Debug, Clone, Copy)]
pub struct Grid(usize);

/// Runs `count` blocks, which write only to `&Atomic<[T]>`.
#[must_use]
pub fn grid(count: usize) -> Grid {
    Grid(count)
}

impl outputs::Sealed for Grid {}

impl Output for Grid {
    type Index = usize;
    type Item = ();
    type Items = iter::RepeatN<()>;

    fn shape(&self) -> Result<[usize; 3], String> {
        Ok([self.0, 1, 1])
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        (Self(at), Self(self.0 - at))
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        iter::repeat_n((), self.0)
    }
}

impl Parts for Grid {
    type Part = ();
    type Output = Self;

    fn output(self, _: usize) -> Result<Self, String> {
        Ok(self)
    }
}

/// Views a slice as rows of `columns` elements, for `warps(rows(out, columns), n)`.
///
/// The slice must have whole rows, or the launch is refused.
#[must_use]
pub fn rows<T>(elements: &mut [T], columns: usize) -> Rows<'_, T> {
    Rows(elements, columns)
}

/// An output of which each warp of a block has one element, or one row; see [`warps`].
#[derive(Debug)]
pub struct Warps<P> {
    of: P,
    count: usize,
}

/// Gives each warp of a block, of which there are `count`, the next element of a slice, or of [`rows`].
///
/// A block must have `32 * count` threads, or the launch is refused. The item of a slice belongs to the first lane of its
/// warp. Of a row each lane has the elements at its number, 32 more, and so on, as a [`Lane`].
#[must_use]
pub fn warps<P>(of: P, count: usize) -> Warps<P> {
    Warps { of, count }
}

/// Checks the number of warps against that of threads.
pub(crate) fn check_warps(count: usize, threads: usize) -> Result<(), String> {
    if count.checked_mul(32) == Some(threads) && count > 0 {
        return Ok(());
    }
    Err(format!("{count} warps of 32 threads, but a block has {threads} threads"))
}

impl<'a, T: Send> Parts for Warps<&'a mut [T]> {
    type Part = WarpElements<'a, T>;
    type Output = WarpChunks<'a, T>;

    fn output(self, threads: usize) -> Result<Self::Output, String> {
        check_warps(self.count, threads)?;
        Ok(WarpChunks(Chunks { elements: self.of, size: self.count, start: 0 }))
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct WarpChunks<'a, T>(Chunks<'a, T>);

/// An element of an output for each warp of a block.
#[derive(Debug)]
pub struct WarpElements<'a, T>(Part<'a, T>);

impl<T> WarpElements<'_, T> {
    /// Returns the index of the first warp's element in the whole.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> usize {
        self.0.start
    }
}

output!([] WarpChunks<'a, T>, WarpElements<'a, T>, iter::Map<ChunkItems<'a, T>, fn(Part<'a, T>) -> WarpElements<'a, T>>,
    |this| this.0.elements.len().div_ceil(this.0.size),
    this.0.items().map(WarpElements),
    |at| { let (a, b) = this.0.split_at(at); (WarpChunks(a), WarpChunks(b)) });

/// The items of warps' elements: each at the position of its warp's first lane.
#[doc(hidden)]
#[derive(Debug)]
pub struct FirstLanes<'a, T> {
    elements: std::slice::IterMut<'a, T>,
    lane: usize,
}

impl<'a, T> Iterator for FirstLanes<'a, T> {
    type Item = Option<&'a mut T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Option<&'a mut T>> {
        let first = self.lane == 0;
        self.lane = (self.lane + 1) % 32;
        if first { self.elements.next().map(Some) } else { Some(None) }
    }
}

target!([] [] WarpElements<'t, T>, [usize, &'t mut T], FirstLanes<'t, T>, |at| at,
    |this| FirstLanes { elements: this.0.elements.iter_mut(), lane: 0 });
target!(['a] [] &'t mut WarpElements<'a, T>, [usize, &'t mut T], FirstLanes<'t, T>, |at| at,
    |this| FirstLanes { elements: this.0.elements.iter_mut(), lane: 0 });

impl<'a, T: Send> Parts for Warps<Rows<'a, T>> {
    type Part = WarpRows<'a, T>;
    type Output = RowWindows<'a, T>;

    fn output(self, threads: usize) -> Result<Self::Output, String> {
        let Rows(elements, columns) = self.of;
        check_warps(self.count, threads)?;
        check_chunks(elements.len(), columns, true)?;
        Ok(RowWindows(Windows::new(elements, columns, [self.count, columns])))
    }
}

#[doc(hidden)]
#[derive(Debug)]
pub struct RowWindows<'a, T>(Windows<'a, T>);

/// A row of an output for each warp of a block.
#[derive(Debug)]
pub struct WarpRows<'a, T>(Window<'a, T>);

impl<T> WarpRows<'_, T> {
    /// Returns the index of the first warp's row in the whole.
    #[inline(always)]
    #[must_use]
    pub fn start(&self) -> usize {
        self.0.origin()[0]
    }
}

#[doc(hidden)]
#[allow(missing_debug_implementations, reason = "an iterator")]
pub struct RowParts<'a, T>(Windows<'a, T>);

impl<'a, T> Iterator for RowParts<'a, T> {
    type Item = WarpRows<'a, T>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(WarpRows)
    }
}

output!([] RowWindows<'a, T>, WarpRows<'a, T>, RowParts<'a, T>, |this| this.0.len(), RowParts(this.0),
    |at| { let (a, b) = this.0.split_at(at); (RowWindows(a), RowWindows(b)) });

target!([] [] WarpRows<'t, T>, [usize, Lane<'t, T>], TakenLanes<'t, T>, |at| at, |this| TakenLanes::new(this.0));
target!(['a] [] &'t mut WarpRows<'a, T>, [usize, Lane<'t, T>], TakenLanes<'t, T>, |at| at,
    |this| TakenLanes::new(this.0.again()));

macro_rules! parts {
    ($($name:ident $at:tt),+) => {
        impl<$($name: Parts),+> Parts for ($($name,)+) {
            type Part = ($($name::Part,)+);
            type Output = ($($name::Output,)+);

            fn output(self, threads: usize) -> Result<Self::Output, String> {
                Ok(($(self.$at.output(threads)?,)+))
            }
        }
    };
}

parts!(A 0);
parts!(A 0, B 1);
parts!(A 0, B 1, C 2);
parts!(A 0, B 1, C 2, D 3);
parts!(A 0, B 1, C 2, D 3, E 4);
parts!(A 0, B 1, C 2, D 3, E 4, F 5);
