//! Patches: the neighbouring elements that each thread of a block has of a tile, or of a part.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::Element;
use super::parts::{Part, Tile};
use super::shared::{Shared, SharedLine};
use super::target::{Target, called_by_kernels, sealed};
use crate::raw::{TakenPatches, Window};

impl<T, const H: usize, const W: usize> Tile<'_, T, H, W> {
    /// Splits the tile into patches of `R` x `C` elements: the thread at `[i, j]` has that at `[i * R, j * C]`, if as many
    /// threads as patches are in a row.
    ///
    /// The index is `[row, column]` of the patch's first element in the tile.
    #[inline(always)]
    pub fn patches<const R: usize, const C: usize>(&mut self) -> Patches<'_, T, H, W, R, C> {
        const { assert!(R > 0 && C > 0, "a patch has at least one element") }
        Patches(self.again())
    }

    called_by_kernels! {
        phases_patches = patches<const R, const C>() -> Patches<'_, T, H, W, R, C>;
    }
}

/// The patches of a tile; see [`Tile::patches`].
pub struct Patches<'a, T, const H: usize, const W: usize, const R: usize, const C: usize>(
    Window<'a, T>,
);

impl<T, const H: usize, const W: usize, const R: usize, const C: usize> fmt::Debug
    for Patches<'_, T, H, W, R, C>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Patches")
    }
}

impl<T, const H: usize, const W: usize, const R: usize, const C: usize> sealed::Sealed
    for Patches<'_, T, H, W, R, C>
{
}

impl<'a, T: Element, const H: usize, const W: usize, const R: usize, const C: usize> Target
    for Patches<'a, T, H, W, R, C>
{
    type Index = [usize; 2];
    type Item = Patch<'a, T, R, C>;
    type Shape = ();
    type Items =
        std::iter::Map<TakenPatches<'a, T>, fn(Option<Window<'a, T>>) -> Option<Self::Item>>;

    #[inline(always)]
    fn shape(&self) {}

    #[inline(always)]
    fn index((): (), position: usize) -> [usize; 2] {
        let across = W.div_ceil(C);
        [position / across * R, position % across * C]
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        self.0.patches([H, W], [R, C]).map(|window| window.and_then(Patch::of))
    }
}

/// `R` x `C` elements of a tile, as an array that the thread has in registers.
///
/// At the end of the phase's item they are written back. Where a patch reaches beyond the tile or the matrix, the array has
/// copies of the patch's first element, which are not written.
pub struct Patch<'a, T: Element, const R: usize, const C: usize> {
    window: Window<'a, T>,
    values: [[T; C]; R],
}

impl<'a, T: Element, const R: usize, const C: usize> Patch<'a, T, R, C> {
    #[inline(always)]
    fn of(mut window: Window<'a, T>) -> Option<Self> {
        let first = *window.again().rows().next()?.first()?;
        let mut values = [[first; C]; R];
        for (to, from) in values.iter_mut().zip(window.again().rows()) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        Some(Self { window, values })
    }
}

impl<T: Element, const R: usize, const C: usize> Deref for Patch<'_, T, R, C> {
    type Target = [[T; C]; R];

    #[inline(always)]
    fn deref(&self) -> &[[T; C]; R] {
        &self.values
    }
}

impl<T: Element, const R: usize, const C: usize> DerefMut for Patch<'_, T, R, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [[T; C]; R] {
        &mut self.values
    }
}

impl<T: Element, const R: usize, const C: usize> Drop for Patch<'_, T, R, C> {
    #[inline(always)]
    fn drop(&mut self) {
        for (to, from) in self.window.again().rows().zip(&self.values) {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}

impl<T: Element, const R: usize, const C: usize> fmt::Debug for Patch<'_, T, R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Patch")
    }
}

impl<T> Part<'_, T> {
    /// Splits the part into patches of `K` neighbours: thread `t` has that at `t * K`, and those of a block's threads further
    /// on. The last patch may reach beyond the part.
    ///
    /// The index is that of the patch's first element in the part.
    #[inline(always)]
    pub fn patches<const K: usize>(&mut self) -> LinePatches<'_, T, K> {
        line(self.elements)
    }

    called_by_kernels! {
        phases_patches = patches<const K>() -> LinePatches<'_, T, K>;
    }
}

impl<A: SharedLine> Shared<A> {
    /// As [`Part::patches`].
    #[inline(always)]
    pub fn patches<const K: usize>(&mut self) -> LinePatches<'_, A::Element, K> {
        line(self.0.elements())
    }
}

#[inline(always)]
fn line<T, const K: usize>(elements: &mut [T]) -> LinePatches<'_, T, K> {
    const { assert!(K > 0, "a patch has at least one element") }
    LinePatches(elements)
}

/// The patches of a part; see [`Part::patches`].
pub struct LinePatches<'a, T, const K: usize>(&'a mut [T]);

impl<T, const K: usize> fmt::Debug for LinePatches<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinePatches")
    }
}

impl<T, const K: usize> sealed::Sealed for LinePatches<'_, T, K> {}

impl<'a, T: Element, const K: usize> Target for LinePatches<'a, T, K> {
    type Index = usize;
    type Item = LinePatch<'a, T, K>;
    type Shape = ();
    type Items =
        std::iter::Map<std::slice::ChunksMut<'a, T>, fn(&'a mut [T]) -> Option<Self::Item>>;

    #[inline(always)]
    fn shape(&self) {}

    #[inline(always)]
    fn index((): (), position: usize) -> usize {
        position * K
    }

    #[inline(always)]
    fn items(self) -> Self::Items {
        self.0.chunks_mut(K).map(LinePatch::of)
    }
}

/// `K` neighbours of a part, as an array that the thread has in registers.
///
/// At the end of the phase's item they are written back. Where a patch reaches beyond the part, the array has copies of the
/// patch's first element, which are not written.
pub struct LinePatch<'a, T: Element, const K: usize> {
    elements: &'a mut [T],
    values: [T; K],
}

impl<'a, T: Element, const K: usize> LinePatch<'a, T, K> {
    #[inline(always)]
    fn of(elements: &'a mut [T]) -> Option<Self> {
        let mut values = [*elements.first()?; K];
        for (to, from) in values.iter_mut().zip(elements.iter()) {
            *to = *from;
        }
        Some(Self { elements, values })
    }
}

impl<T: Element, const K: usize> Deref for LinePatch<'_, T, K> {
    type Target = [T; K];

    #[inline(always)]
    fn deref(&self) -> &[T; K] {
        &self.values
    }
}

impl<T: Element, const K: usize> DerefMut for LinePatch<'_, T, K> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T; K] {
        &mut self.values
    }
}

impl<T: Element, const K: usize> Drop for LinePatch<'_, T, K> {
    #[inline(always)]
    fn drop(&mut self) {
        for (to, from) in self.elements.iter_mut().zip(&self.values) {
            *to = *from;
        }
    }
}

impl<T: Element, const K: usize> fmt::Debug for LinePatch<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinePatch")
    }
}
