//! Builds: the frame of a grid without bounds, keys, and the order of points. `geom/hash_grid/build.cuh`.

use bytemuck::Zeroable;
use rayon::prelude::*;

use super::HashGrid;
use super::cells::{HASHED_X_BITS, NO_POINT, mixed, point_key, wrapped};
use crate::hash_grid::frame::{X_SPLIT, bounded};
use crate::hash_grid::layout::{DENSE, HASHED, Header, ROWS};
use crate::hash_grid::memory::Capacity;
use crate::structures::exact::{Exact, floor_to_long};
use crate::structures::lanes::LANES;

/// Points that one task of a build takes at least.
const AT_ONCE: usize = 4096;

/// 2^-49: the part of an extent that is more than the rounding of cells in f64.
const MARGIN_F64: f64 = 1.776_356_839_400_250_5e-15;

/// Points and their groups.
#[derive(Clone, Copy)]
pub(super) struct Source<'a, T> {
    pub(super) points: &'a [[T; 3]],
    /// Empty if all have group 0.
    pub(super) groups: &'a [u32],
}

impl<T: Exact> Source<'_, T> {
    fn group(&self, i: usize) -> u32 {
        self.groups.get(i).copied().unwrap_or(0)
    }
}

impl<T: Exact> HashGrid<T> {
    /// Builds the grid. There are at most as many points as the capacity, and as many groups or none.
    pub(super) fn build_from(&mut self, source: Source<'_, T>, radius: T) {
        let capacity = Capacity::new(&self.options, self.capacity);
        self.header = match self.options.bounds {
            Some(bounds) => bounded(&self.options, bounds, radius, capacity.cells()),
            None => choose_frame(source, radius, (capacity.cells(), self.options.groups)),
        };
        self.wide = wide_frame(&self.header, source.points.len());
        let (header, wide) = (self.header, self.wide);
        let order = match wide {
            Some(wide) => self.count_cells(source, wide.no_key, |point, group| {
                point_key(&wide, point.map(T::wide), group)
            }),
            None if header.mode == DENSE => {
                self.count_cells(source, header.no_key, |point, group| {
                    point_key(&header, point, group)
                })
            }
            None => self.sort_rows(source, capacity.slots()),
        };
        self.keep(source, &order);
        self.length = source.points.len() as u32;
        self.header.left_out = self.length - self.header.points;
    }

    /// Writes the table of cells; returns the indices of points in cell order.
    fn count_cells(
        &mut self,
        source: Source<'_, T>,
        no_key: u64,
        key: impl Fn([T; 3], u32) -> u64 + Sync,
    ) -> Vec<u32> {
        self.keys.clear();
        self.table.clear();
        let n = source.points.len();
        let mut keys = vec![0u32; n];
        let points = source.points.par_iter().enumerate();
        // The keys of cells have 31 bits.
        keys.par_iter_mut()
            .zip(points)
            .with_min_len(AT_ONCE)
            .for_each(|(out, (i, point))| *out = key(*point, source.group(i)) as u32);
        // The last cell is that of points that are left out. Each start is first the number of the cell's points, then
        // its end, and falls to its beginning as points are placed, from the last one.
        let starts = &mut self.starts;
        starts.clear();
        starts.resize(no_key as usize + 1, 0);
        for key in &keys {
            if let Some(count) = starts.get_mut(*key as usize) {
                *count += 1;
            }
        }
        let mut end = 0;
        for start in starts.iter_mut() {
            end += *start;
            *start = end;
        }
        let mut order = vec![0u32; n];
        for (i, key) in keys.iter().enumerate().rev() {
            if let Some(start) = starts.get_mut(*key as usize) {
                *start -= 1;
                if let Some(place) = order.get_mut(*start as usize) {
                    *place = i as u32;
                }
            }
        }
        self.header.points = starts.last().copied().unwrap_or(0);
        order
    }

    /// Sorts by keys, and writes the table of rows; returns the indices of points in cell order.
    fn sort_rows(&mut self, source: Source<'_, T>, slots: usize) -> Vec<u32> {
        self.starts.clear();
        let header = &self.header;
        let points = source.points.par_iter().enumerate().with_min_len(AT_ONCE);
        let key =
            |(i, point): (usize, &[T; 3])| (point_key(header, *point, source.group(i)), i as u32);
        let mut pairs: Vec<(u64, u32)> = points.map(key).collect();
        pairs.par_sort_unstable();
        let (keys, order): (Vec<u64>, Vec<u32>) = pairs.into_iter().unzip();
        let points = keys.partition_point(|key| *key < header.no_key);
        self.table.clear();
        self.table.resize(slots, NO_POINT);
        let (bits, mask) = (header.bits[0], slots.wrapping_sub(1));
        let mut last = None;
        for (key, slot) in keys.iter().take(points).zip(0..) {
            let name = key >> bits;
            if last.replace(name) == Some(name) {
                continue;
            }
            let mut place = mixed(name) as usize & mask;
            // There are twice as many places as points.
            while self.table.get(place).is_some_and(|start| *start != NO_POINT) {
                place = (place + 1) & mask;
            }
            if let Some(start) = self.table.get_mut(place) {
                *start = slot;
            }
        }
        self.header.points = points as u32;
        self.keys = keys;
        order
    }

    /// Copies the points and their groups in cell order.
    fn keep(&mut self, source: Source<'_, T>, order: &[u32]) {
        let (header, n) = (&self.header, order.len());
        for axis in &mut self.coordinates {
            axis.clear();
            axis.resize(n + LANES, T::NAN);
        }
        let [x, y, z] = &mut self.coordinates;
        let slots = order.par_iter().enumerate().with_min_len(AT_ONCE);
        slots.zip(x).zip(y).zip(z).for_each(|((((slot, i), x), y), z)| {
            if slot < header.points as usize
                && let Some(point) = source.points.get(*i as usize)
            {
                [*x, *y, *z] = wrapped(header, *point);
            }
        });
        self.groups.clear();
        if header.groups > 1 {
            self.groups.extend(order.iter().map(|i| source.group(*i as usize)));
        }
        self.indices.clear();
        self.indices.extend_from_slice(order);
    }
}

/// The most cells of a table for each point, if the device's grid has none.
const CELLS_OF_POINT: u64 = 8;

/// Returns a frame with a table of the cells that keys name, in f64 as keys are, if there are not too many: on the CPU a
/// table is faster than hashed rows, and has the same order of points.
fn wide_frame<T: Exact>(header: &Header<T>, points: usize) -> Option<Header<f64>> {
    let most = (points as u64).saturating_mul(CELLS_OF_POINT).min(1 << 30);
    let cells = header.row_cells.iter().try_fold(u64::from(header.groups), |all, cells| {
        all.checked_mul(*cells as u64).filter(|all| *all <= most)
    });
    let cells = cells.filter(|_| header.mode == ROWS)?;
    let mut wide = Header::<f64>::zeroed();
    for axis in 0..3 {
        let inverse = header.row_inverse[axis];
        let size = if inverse > 0.0 { 1.0 / inverse } else { 0.0 };
        wide.origin[axis] = header.row_origin[axis];
        wide.inverse[axis] = inverse;
        wide.size[axis] = size;
        wide.cells[axis] = header.row_cells[axis] as u32;
        wide.margin[axis] = (header.row_cells[axis] + 1) as f64 * size * MARGIN_F64;
    }
    wide.cells_of_group = wide.cells.iter().product();
    (wide.groups, wide.mode, wide.no_key) = (header.groups, DENSE, cells);
    Some(wide)
}

fn bits_for(count: i64) -> u32 {
    if count <= 1 { 0 } else { 64 - (count - 1).leading_zeros() }
}

/// Returns the number of cells of this size in an extent; large numbers are only compared.
fn cells_in(extent: f64, size: f64) -> f64 {
    if 0.0 < extent { (extent / size).floor() + 1.0 } else { 1.0 }
}

/// Returns the frame of a grid without bounds, with a table of at most `cells` cells.
fn choose_frame<T: Exact>(
    source: Source<'_, T>,
    radius: T,
    (most, groups): (u32, u32),
) -> Header<T> {
    let mut header = Header::<T>::zeroed();
    let bounds = bounds_of(source, groups);
    let low = bounds.map_or([0.0; 3], |[low, _]| low);
    // The extent is rounded down, so that it is finite.
    let extent = bounds
        .map_or([0.0; 3], |[low, high]| std::array::from_fn(|axis| high[axis].sub_down(low[axis])));
    let widest = extent.into_iter().fold(0.0, f64::max);
    let mut size = radius.wide();
    if size <= 0.0 {
        size = widest * 9.536_743_164_062_5e-7; // 2^-20
    }
    let mut sizes = [size / f64::from(X_SPLIT), size, size];
    let dense =
        (0..3).fold(f64::from(groups), |all, axis| all * cells_in(extent[axis], sizes[axis]));
    let is_dense = dense <= f64::from(most);
    if !is_dense {
        // The size has a minimum, so that cells can be numbered; points that are closer share one.
        size = Exact::max(size, widest * 8.881_784_197_001_252e-16); // 2^-50
        sizes = [size; 3];
    }
    let mut key_bits = bits_for(groups.into());
    for axis in 0..3 {
        let (extent, size) = (extent[axis], sizes[axis]);
        let cells = Exact::min(cells_in(extent, size), 4_503_599_627_370_496.0);
        header.row_origin[axis] = low[axis];
        header.row_inverse[axis] = if 0.0 < extent { 1.0 / size } else { 0.0 };
        header.row_cells[axis] = floor_to_long(cells);
        header.bits[axis] = bits_for(header.row_cells[axis]);
        key_bits += header.bits[axis];
        header.origin[axis] = T::narrow(low[axis]);
        header.inverse[axis] = T::narrow(header.row_inverse[axis]);
        header.size[axis] = T::narrow(size);
        // The rounding of a cell's edges is at most half of this: 2^-20 and 2^-49.
        let unit = if size_of::<T>() == 4 { 9.536_743_164_062_5e-7 } else { MARGIN_F64 };
        header.margin[axis] = T::narrow((extent + size) * unit);
        header.cells[axis] = if is_dense { header.row_cells[axis] as u32 } else { 1 };
    }
    header.radius = radius;
    header.groups = groups;
    header.cells_of_group = header.cells.iter().product();
    (header.mode, header.no_key) = if is_dense {
        (DENSE, u64::from(header.cells_of_group) * u64::from(groups))
    } else if key_bits <= 63 {
        (ROWS, 1 << key_bits)
    } else {
        header.bits[0] = HASHED_X_BITS;
        (HASHED, 1 << 63)
    };
    header
}

/// Returns the least and greatest coordinates of the points in a group; `None` without points.
fn bounds_of<T: Exact>(source: Source<'_, T>, groups: u32) -> Option<[[f64; 3]; 2]> {
    let bounds = |i: usize, point: &[T; 3]| {
        let is_in = source.group(i) < groups && point.iter().all(|x| x.is_finite());
        is_in.then(|| [point.map(T::wide); 2])
    };
    let unite = |a: Option<[[f64; 3]; 2]>, b: Option<[[f64; 3]; 2]>| match (a, b) {
        (Some([low, high]), Some([other_low, other_high])) => Some([
            std::array::from_fn(|axis| f64::min(low[axis], other_low[axis])),
            std::array::from_fn(|axis| f64::max(high[axis], other_high[axis])),
        ]),
        (a, b) => a.or(b),
    };
    let points = source.points.par_iter().enumerate().with_min_len(AT_ONCE);
    points.map(|(i, point)| bounds(i, point)).reduce(|| None, unite)
}
