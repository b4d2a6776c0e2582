//! The way of a ray through a volume, from cell to cell, as in `geom/volume/hdda.cuh`.

use super::super::interpolate::View;
use super::super::map::{Map, To};
use super::super::read::Read;
use super::super::tree::{Region, leaf_place};
use crate::Ray;
use crate::structures::volume::exact::Float;
use crate::structures::volume::exact::{fma, max, min};
use crate::volume::RawMap;

/// The part of index space in which rays are followed: within this of the origin along each axis.
const REACH: i32 = 1 << 30;

/// A ray in index space that can meet something.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexRay {
    origin: [f64; 3],
    direction: [f64; 3],
    /// The reciprocals 1 / direction; 0 for an axis that the ray does not move along.
    inverse: [f64; 3],
    t_min: f64,
    pub(super) t_max: f64,
}

impl IndexRay {
    /// Returns a ray of the world in index space, with the same t. `None` if it can meet nothing.
    #[inline(always)]
    pub(super) fn new(map: &RawMap, ray: &Ray) -> Option<Self> {
        let origin = Map(To::Index, map).number(ray.origin.map(f64::from));
        let direction = Map(To::IndexDirection, map).number(ray.direction.map(f64::from));
        let (t_min, t_max) = (f64::from(ray.t_min), f64::from(ray.t_max));
        let inverse = direction.map(|d| Some(1.0 / d).filter(|i| i.is_finite()).unwrap_or(0.0));
        let finite = origin.iter().chain(&direction).all(|x| x.is_finite());
        let is_ordered = t_min <= t_max;
        if !finite || !is_ordered || inverse == [0.0; 3] {
            return None;
        }
        let mut ray = Self { origin, direction, inverse, t_min: 0.0, t_max: 0.0 };
        // The range of t in f32.
        let (t_min, t_max) = (max(t_min, 0.0), min(t_max, f64::from(f32::MAX)));
        let reach = f64::from(REACH);
        (ray.t_min, ray.t_max) = ray.within([-reach; 3], [reach; 3], (t_min, t_max));
        (ray.t_min <= ray.t_max).then_some(ray)
    }

    /// Narrows an interval of t to where the ray is in a box.
    #[inline(always)]
    fn within(&self, low: [f64; 3], high: [f64; 3], (enter, leave): (f64, f64)) -> (f64, f64) {
        let (mut enter, mut leave) = (enter, leave);
        for axis in 0..3 {
            let (o, i) = (self.origin[axis], self.inverse[axis]);
            let (low, high) = (low[axis], high[axis]);
            if i == 0.0 {
                if o < low || high < o {
                    leave = -1.0;
                }
                continue;
            }
            let (a, b) = ((low - o) * i, (high - o) * i);
            enter = max(enter, min(a, b));
            leave = min(leave, max(a, b));
        }
        (enter, leave)
    }

    #[inline(always)]
    pub(super) fn at(&self, t: f64) -> [f64; 3] {
        let ([dx, dy, dz], [x, y, z]) = (self.direction, self.origin);
        [fma(t, dx, x), fma(t, dy, y), fma(t, dz, z)]
    }

    /// Returns the position of the ray in a cell at t: in [0, 1]^3.
    #[inline(always)]
    pub(super) fn in_cell(&self, cell: [i32; 3], t: f64) -> [f64; 3] {
        let (p, mut place) = (self.at(t), [0.0; 3]);
        for axis in 0..3 {
            place[axis] = min(max(p[axis] - f64::from(cell[axis]), 0.0), 1.0);
        }
        place
    }
}

/// A cell's corners, and where they are stored.
pub(super) struct CellCorners<'a, T> {
    view: View<'a, T>,
    /// The least corner.
    voxel: [i32; 3],
    lower: Region,
    leaf: Region,
    /// The values; x is the slowest index.
    pub(super) corners: [T; 8],
    /// Whether a corner is in a leaf; otherwise the size of the smallest region of a corner.
    stored: bool,
    bits: u32,
}

impl<'a, T: Read> CellCorners<'a, T> {
    #[inline(always)]
    pub(super) fn new(view: View<'a, T>, voxel: [i32; 3]) -> Self {
        let lower = view.tree.lower(view.bytes, voxel);
        let leaf = view.tree.leaf(view.bytes, lower, voxel);
        Self { view, voxel, lower, leaf, corners: [T::zeroed(); 8], stored: false, bits: 0 }
    }

    #[inline(always)]
    fn move_to(&mut self, to: [i32; 3]) {
        let View { bytes, tree, .. } = self.view;
        let [x, y, z] = self.voxel;
        let changed = (to[0] ^ x) | (to[1] ^ y) | (to[2] ^ z);
        self.voxel = to;
        if changed >> 7 != 0 {
            self.lower = tree.lower(bytes, to);
        }
        if changed >> 3 != 0 {
            self.leaf = tree.leaf(bytes, self.lower, to);
        }
    }

    /// Returns whether nothing is stored here, and the root has no tile.
    fn is_beyond(&self) -> bool {
        self.leaf.found.value == self.view.tree.background
    }

    #[inline(always)]
    pub(super) fn fetch(&mut self) {
        let View { bytes, tree, .. } = self.view;
        // `two` has a bit for each axis along which corners lie in two leaves (4 for x, 2 for y, 1 for z), `far` for
        // two lower nodes.
        let (two, far) = (self.beyond(7), self.beyond(127));
        (self.stored, self.bits) = (self.leaf.found.node != 0, self.leaf.bits);
        if two == 0 {
            self.corners = T::cell(bytes, self.leaf.found, leaf_place(self.voxel));
            return;
        }
        self.take(self.leaf, two, 0);
        // The loop visits all subsets of those axes.
        let mut side = two.wrapping_neg() & two;
        while side != 0 {
            let at = self.corner(side);
            let lower = if side & far != 0 { tree.lower(bytes, at) } else { self.lower };
            let there = tree.leaf(bytes, lower, at);
            self.take(there, two, side);
            self.stored |= there.found.node != 0;
            self.bits = self.bits.min(there.bits);
            side = side.wrapping_sub(two) & two;
        }
    }

    #[inline(always)]
    fn take(&mut self, from: Region, two: u32, side: u32) {
        for i in 0..8 {
            if i & two == side {
                let place = leaf_place(self.corner(i));
                self.corners[i as usize & 7] = T::read(self.view.bytes, from.found, place);
            }
        }
    }

    /// Returns the size of the region in which cells have the same corners as this one; 0 if it is alone.
    pub(super) fn like_bits(&self) -> u32 {
        if self.stored { 0 } else { self.bits }
    }

    #[inline(always)]
    fn beyond(&self, last: i32) -> u32 {
        self.voxel.iter().fold(0, |bits, c| bits << 1 | u32::from(c & last == last))
    }

    #[inline(always)]
    fn corner(&self, i: u32) -> [i32; 3] {
        let [x, y, z] = self.voxel;
        [x + (i >> 2) as i32, y + (i >> 1 & 1) as i32, z + (i & 1) as i32]
    }
}

/// Returns the next t at which the ray comes within two voxels of a tile of the root, so that rounding does not matter;
/// its end, if there is none.
fn next_tile<T>(view: View<'_, T>, ray: &IndexRay, t: f64) -> f64 {
    view.tree.roots.iter().fold(ray.t_max, |next, root| {
        let tile = [42, 21, 0].map(|shift| f64::from(((root.key >> shift) as i32) << 12));
        let low = tile.map(|x| x - 2.0);
        let (enter, leave) = ray.within(low, tile.map(|x| x + 4097.0), (t, next));
        if enter <= leave { enter } else { next }
    })
}

/// One axis of a step: the cells that are traversed together, from the first plane to the last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    first: i32,
    last: i32,
}

impl Axis {
    /// Returns the cells of the region of 2^bits voxels per side with the least corner of cell c; only c, if its
    /// greatest corner is in the next region.
    #[inline(always)]
    pub(super) fn new(c: i32, bits: u32) -> Self {
        let size = 1 << bits;
        let at_side = c & (size - 1) == size - 1;
        let first = if at_side { c } else { c & -size };
        Self { first, last: if at_side { c + 1 } else { first + size - 1 } }
    }

    /// Returns the t at which the ray leaves the cells.
    #[inline(always)]
    fn leave(self, origin: f64, inverse: f64) -> f64 {
        if inverse == 0.0 {
            return f64::INFINITY;
        }
        let plane = if inverse < 0.0 { self.first } else { self.last };
        (f64::from(plane) - origin) * inverse
    }

    /// Returns the cell of coordinate p.
    #[inline(always)]
    pub(super) fn at(self, p: f64) -> i32 {
        p.floor_to_int().max(self.first).min(self.last - 1)
    }

    /// Returns the cell after these; or, if the ray leaves along another axis at p, the cell of p.
    #[inline(always)]
    fn next(self, c: i32, p: f64, inverse: f64, leaves: bool) -> i32 {
        let back = inverse < 0.0;
        if leaves {
            return if back { self.first - 1 } else { self.last };
        }
        forward(c, self.at(p), inverse)
    }
}

/// Returns cell `to`, but not before cell c on the ray.
#[inline(always)]
fn forward(c: i32, to: i32, inverse: f64) -> i32 {
    match inverse {
        0.0 => c,
        inverse if inverse < 0.0 => to.min(c),
        _ => to.max(c),
    }
}

/// Returns the cell of coordinate p within reach.
#[inline(always)]
fn reached(p: f64) -> i32 {
    p.floor_to_int().clamp(-REACH, REACH - 1)
}

/// What is done along a ray, in the order of t. Each t0 is the t1 before. The walk ends when a function returns true.
pub(super) trait Visit<T> {
    /// The ray passes through a region of one value.
    fn constant(&mut self, value: T, t0: f64, t1: f64) -> bool;
    /// The ray passes through a cell, whose corners have x as the slowest index. This may be the first of several cells
    /// with the same corners, adjacent along axes along which these do not differ.
    fn cell(&mut self, cell: [i32; 3], corners: &[T; 8], t0: f64, t1: f64) -> bool;
}

/// Traverses the volume along the ray.
#[inline(always)]
pub(super) fn walk<T: Read + PartialEq>(
    view: View<'_, T>,
    ray: &IndexRay,
    visit: &mut impl Visit<T>,
) {
    let mut t = ray.t_min;
    let mut c = ray.at(t).map(reached);
    let mut cell = CellCorners::new(view, c);
    loop {
        if cell.is_beyond() {
            // The step covers all of the background up to the next tile.
            let next = next_tile(view, ray, t);
            if t < next {
                if visit.constant(view.background(), t, next) || next >= ray.t_max {
                    return;
                }
                t = next;
                let p = ray.at(t);
                c = std::array::from_fn(|axis| {
                    forward(c[axis], reached(p[axis]), ray.inverse[axis])
                });
                cell.move_to(c);
            }
        }
        cell.fetch();
        let skips = !cell.stored;
        let bits = cell.like_bits();

        // A single cell is a region of one voxel, at the side along each axis.
        let (axes, mut leave) = (c.map(|c| Axis::new(c, bits)), [0.0; 3]);
        for axis in 0..3 {
            leave[axis] = axes[axis].leave(ray.origin[axis], ray.inverse[axis]);
        }
        let first = min(min(leave[0], leave[1]), leave[2]);
        let t1 = min(max(first, t), ray.t_max);
        let corners = &cell.corners;
        let is_constant = skips && corners.iter().all(|value| *value == corners[0]);
        let ends = if is_constant {
            visit.constant(corners[0], t, t1)
        } else {
            visit.cell(c, corners, t, t1)
        };
        if ends || t1 >= ray.t_max {
            return;
        }
        // The axis along which the ray leaves.
        let by = leave.iter().position(|leave| *leave == first).unwrap_or(2);
        if skips {
            let p = ray.at(t1);
            for axis in 0..3 {
                c[axis] = axes[axis].next(c[axis], p[axis], ray.inverse[axis], axis == by);
            }
        } else {
            c[by] = axes[by].next(c[by], 0.0, ray.inverse[by], true);
        }
        cell.move_to(c);
        t = t1;
    }
}
