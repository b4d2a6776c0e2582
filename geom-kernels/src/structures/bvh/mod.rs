//! Hierarchies of boxes on the CPU: [`bvh`](crate::bvh) describes which items a query finds.
//!
//! The tree is another one than the device's: nodes have eight children, and leaves eight items, that are tested
//! together. Results do not depend on the tree, except for the order of items.

mod ascending;
mod batch;
mod build;
mod nearest;
mod query;

use cuda_safe::{Error, Result};

pub use ascending::Ascending;
pub use batch::BvhQueries;
pub use nearest::{FirstItem, NearestItem};
pub use query::{Along, Overlaps, Within};

use crate::Aabb;
use crate::bvh::{BvhReport, MAX_BOXES};
use crate::structures::lanes::LANES;

/// Coordinates have at most this magnitude.
const MOST: f32 = (1u64 << 60) as f32;

/// The index of no item.
const NO_INDEX: u32 = u32::MAX;

/// Eight boxes, axis by axis: of the children of a node, or of the items of a leaf. Absent ones are empty.
#[derive(Debug, Clone, Copy)]
struct Block {
    lower: [[f32; LANES]; 3],
    upper: [[f32; LANES]; 3],
    /// The blocks of the children, or the items.
    ids: [u32; LANES],
    is_leaf: bool,
}

impl Block {
    const EMPTY: Self = Self {
        lower: [[f32::INFINITY; LANES]; 3],
        upper: [[f32::NEG_INFINITY; LANES]; 3],
        ids: [NO_INDEX; LANES],
        is_leaf: true,
    };

    fn set(&mut self, lane: usize, of: &Aabb<f32>) {
        for axis in 0..3 {
            self.lower[axis][lane] = of.lower[axis];
            self.upper[axis][lane] = of.upper[axis];
        }
    }

    fn get(&self, lane: usize) -> Aabb<f32> {
        Aabb { lower: self.lower.map(|of| of[lane]), upper: self.upper.map(|of| of[lane]) }
    }

    /// Returns the box of all.
    fn union(&self) -> Aabb<f32> {
        (0..LANES).fold(Aabb::<f32>::EMPTY, |all, lane| unite(&all, &self.get(lane)))
    }
}

fn unite(a: &Aabb<f32>, b: &Aabb<f32>) -> Aabb<f32> {
    Aabb {
        lower: std::array::from_fn(|axis| a.lower[axis].min(b.lower[axis])),
        upper: std::array::from_fn(|axis| a.upper[axis].max(b.upper[axis])),
    }
}

/// Whether a box can be an item: it is not empty, and finite.
fn is_item(b: &Aabb<f32>) -> bool {
    (0..3).all(|axis| {
        -MOST <= b.lower[axis] && b.lower[axis] <= b.upper[axis] && b.upper[axis] <= MOST
    })
}

/// A hierarchy of boxes, in memory of the host.
///
/// ```
/// use geom_kernels::Aabb;
/// use geom_kernels::structures::Bvh;
///
/// let unit = |x| Aabb { lower: [x, 0.0f32, 0.0], upper: [x + 1.0, 1.0, 1.0] };
/// let bvh = Bvh::build(&[unit(0.0), unit(1.0), unit(5.0)])?;
/// assert_eq!(bvh.overlaps(&unit(4.5)).collect::<Vec<_>>(), [2]);
///
/// // The nearest box. For other items, the closure returns the squared distance of an item.
/// let nearest = bvh.nearest([7.0, 0.5, 0.5], 10.0, |_, _| 0.0);
/// assert_eq!(nearest.map(|found| (found.item, found.distance_squared)), Some((2, 1.0)));
/// # Ok::<(), cuda_safe::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Bvh {
    /// The root is the first, and children come after their parents. Empty without items.
    blocks: Vec<Block>,
    bounds: Option<Aabb<f32>>,
    length: usize,
    skipped: usize,
    depth: usize,
}

impl Bvh {
    /// Builds a hierarchy of these boxes, on all cores. Boxes that are empty or not finite are skipped.
    ///
    /// # Errors
    /// More than [`MAX_BOXES`].
    pub fn build(boxes: &[Aabb<f32>]) -> Result<Self> {
        let mut bvh = Self::default();
        bvh.rebuild(boxes)?;
        Ok(bvh)
    }

    /// Rebuilds the hierarchy from these boxes.
    ///
    /// # Errors
    /// As [`build`](Self::build), which leaves the hierarchy unchanged.
    pub fn rebuild(&mut self, boxes: &[Aabb<f32>]) -> Result<()> {
        if boxes.len() > MAX_BOXES {
            let n = boxes.len();
            return Err(Error::invalid(format!("{n} boxes; at most 2^28 - 1 are possible")));
        }
        let items: Vec<u32> =
            (0..).zip(boxes).filter(|(_, of)| is_item(of)).map(|(item, _)| item).collect();
        self.length = boxes.len();
        self.skipped = boxes.len() - items.len();
        (self.blocks, self.depth) = build::build(boxes, items);
        self.bounds = self.blocks.first().map(Block::union);
        Ok(())
    }

    /// Gives the items new boxes: the structure stays, and all boxes in it are updated. Queries take longer the more
    /// items have moved relative to each other.
    ///
    /// Items that the build skipped stay skipped. A box that is now empty or not finite is not found.
    ///
    /// # Errors
    /// Another number of boxes than it was built from.
    pub fn refit(&mut self, boxes: &[Aabb<f32>]) -> Result<()> {
        if boxes.len() != self.length {
            let (n, length) = (boxes.len(), self.length);
            return Err(Error::invalid(format!("{n} boxes for a hierarchy of {length}")));
        }
        let mut unions = vec![Aabb::<f32>::EMPTY; self.blocks.len()];
        for (at, block) in self.blocks.iter_mut().enumerate().rev() {
            for lane in 0..LANES {
                let id = block.ids[lane] as usize;
                let of = match block.is_leaf {
                    true => boxes.get(id).filter(|of| is_item(of)),
                    false => unions.get(id),
                };
                block.set(lane, of.unwrap_or(&Aabb::<f32>::EMPTY));
            }
            if let Some(union) = unions.get_mut(at) {
                *union = block.union();
            }
        }
        self.bounds = unions.first().copied().filter(is_item);
        Ok(())
    }

    /// Returns the report of the last build.
    #[must_use]
    pub fn report(&self) -> BvhReport {
        BvhReport {
            items: self.length - self.skipped,
            skipped: self.skipped,
            nodes: self.blocks.len().max(1),
            depth: self.depth,
            bounds: self.bounds,
        }
    }

    /// Returns the number of boxes that it was built from, including skipped ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns whether it was built from no boxes, or was not built.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }
}
