//! The runs of points, in cell order, that can hold a neighbour, in grids with a table:
//! `geom/hash_grid/dense_runs.cuh`.
//!
//! The device rounds bounds of distances outwards. Here most of them are rounded to nearest and widened by more than
//! their errors, which is faster. A run may then have more points, which their distances exclude, but the order stays:
//! a wider run begins and ends at other cells of the same sequence. Only if it covers all cells of a periodic axis would
//! it begin elsewhere, so that case is decided exactly.

use crate::hash_grid::layout::Header;
use crate::structures::exact::Exact;

fn wrap_cell(c: i32, cells: i32) -> i32 {
    if c < 0 {
        c + cells
    } else if c >= cells {
        c - cells
    } else {
        c
    }
}

/// Returns the image of the box that a cell is in.
fn image_of(c: i32, cells: i32) -> i32 {
    if c < 0 { -1 } else { i32::from(c >= cells) }
}

/// Returns a distance that is greater by more than the errors of a few operations with numbers of the grid's extent, a
/// large part of whose `margin` remains, and with itself.
#[inline(always)]
fn widened<T: Exact>(distance: T, margin: T) -> T {
    distance * T::WIDER + margin
}

/// The cells in reach along one axis.
#[derive(Debug, Clone, Copy)]
struct Span<T> {
    /// Bounds of the coordinate of the query relative to the grid's origin.
    low: T,
    high: T,
    inverse: T,
    margin: T,
    cells: i32,
    /// In a periodic direction they may exceed the box, by less than its extent.
    first: i32,
    last: i32,
    repeats: bool,
    /// Whether the direction is periodic and all cells are in reach.
    whole: bool,
}

impl<T: Exact> Span<T> {
    #[inline(always)]
    fn new(header: &Header<T>, axis: usize, x: T, reach: T) -> Self {
        let (origin, margin) = (header.origin[axis], header.margin[axis]);
        let mut span = Self {
            low: x - origin,
            high: x - origin,
            inverse: header.inverse[axis],
            margin,
            cells: header.cells[axis] as i32,
            first: 0,
            last: 0,
            repeats: header.periodic & (1 << axis) != 0,
            whole: false,
        };
        if header.periodic == 0 {
            (span.first, span.last, _) = span.within(reach);
            return span;
        }
        (span.low, span.high) = (x.sub_down(origin), x.sub_up(origin));
        if span.repeats {
            // Images are a period apart only up to rounding, so their cells are rounded outwards.
            span.low = span.low.sub_down(margin);
            span.high = span.high.add_up(margin);
        }
        (span.first, span.last, span.whole) = span.exactly_within(reach);
        if span.whole {
            // Each cell is visited once, whichever image is near, so no cell is known to be far.
            (span.low, span.high) = (-T::INFINITY, T::INFINITY);
        }
        span
    }

    #[inline(always)]
    fn cell(&self, at: T) -> i32 {
        (at * self.inverse).floor_to_int()
    }

    /// Returns the first and last cell that may be within `distance`, and whether these are all cells of a periodic
    /// axis.
    #[inline(always)]
    fn within(&self, distance: T) -> (i32, i32, bool) {
        let distance = widened(distance, self.margin);
        self.between(self.cell(self.low - distance), self.cell(self.high + distance))
    }

    /// The same as the device does it.
    fn exactly_within(&self, distance: T) -> (i32, i32, bool) {
        let (low, high) = (self.low.sub_down(distance), self.high.add_up(distance));
        self.between(self.cell(low), self.cell(high))
    }

    #[inline(always)]
    fn between(&self, begin: i32, end: i32) -> (i32, i32, bool) {
        let cells = self.cells;
        if !self.repeats {
            return (begin.clamp(0, cells - 1), end.clamp(0, cells - 1), false);
        }
        // A periodic axis has at most 2^28 cells.
        let whole = begin < -cells || end >= 2 * cells || end - begin >= cells;
        if whole { (0, cells - 1, true) } else { (begin, end, false) }
    }
}

/// A lower bound of the distance between the query and cells, along one axis.
#[derive(Debug, Clone, Copy)]
struct Gap<T> {
    size: T,
    below: T,
    above: T,
}

impl<T: Exact> Gap<T> {
    #[inline(always)]
    fn new(header: &Header<T>, axis: usize, span: &Span<T>) -> Self {
        let (margin, size) = (header.margin[axis], header.size[axis]);
        let (mut low, mut high) = (span.low, span.high);
        if !span.repeats {
            // A cell at the border also holds points beyond it, so it is unbounded on that side.
            let extent = T::of_int(span.cells) * size;
            low = if extent < low { extent } else { low };
            high = if high < T::ZERO { T::ZERO } else { high };
        }
        Self { size, below: low - margin - size, above: high + margin }
    }

    /// Returns a lower bound of the squared distance to points of cell `c`. Half of the margin covers the roundings,
    /// and the factor those at points far outside of the grid.
    #[inline(always)]
    fn squared(&self, c: i32) -> T {
        let at = T::of_int(c) * self.size;
        let (below, above) = (self.below - at, at - self.above);
        // A NaN is no bound.
        let mut gap = if below > T::ZERO { below } else { T::ZERO };
        gap = if above > gap { above } else { gap };
        gap = gap * T::NARROWED;
        gap * gap
    }
}

/// Returns the device's bound of the squared distance to points of cell `c` along an axis, in a grid that is periodic
/// in some direction.
fn exact_gap<T: Exact>(header: &Header<T>, axis: usize, span: &Span<T>, c: i32) -> T {
    let (margin, size, at) = (header.margin[axis], header.size[axis], T::of_int(c));
    let (mut low, mut high) = (span.low, span.high);
    if !span.repeats {
        low = low.min(T::of_int(span.cells).mul_down(size));
        high = high.max(T::ZERO);
    }
    let below = low.sub_down(margin).sub_down(size).sub_down(at.mul_up(size));
    let above = at.mul_down(size).sub_down(high.add_up(margin));
    let gap = below.max(above).max(T::ZERO);
    gap.mul_down(gap)
}

/// The runs of one query.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseRuns<T> {
    x: Span<T>,
    y: Span<T>,
    z: Span<T>,
    gap_y: Gap<T>,
    gap_z: Gap<T>,
    reach: T,
    reach_squared: T,
    /// Whether squares of distances neither overflow nor underflow; else no row is skipped or shortened.
    has_squares: bool,
    squared_z: T,
    cy: i32,
    cz: i32,
    /// The first cell of the group, and of the plane of rows.
    base: usize,
    plane: usize,
    images: [i32; 3],
    /// The part of a row beyond the end of the box.
    rest: Option<(u32, u32)>,
    rest_image: i32,
    whole_row: bool,
}

impl<T: Exact> DenseRuns<T> {
    /// `p` is finite and in the box, `reach` is not negative, and the grid has the group.
    #[inline(always)]
    pub(super) fn new(header: &Header<T>, p: [T; 3], reach: T, group: u32) -> Self {
        let [x, y, z] = std::array::from_fn(|axis| Span::new(header, axis, p[axis], reach));
        let reach_squared = reach * reach;
        Self {
            x,
            y,
            z,
            gap_y: Gap::new(header, 1, &y),
            gap_z: Gap::new(header, 2, &z),
            reach,
            reach_squared: reach_squared * T::WIDER,
            has_squares: reach_squared > T::LEAST_SQUARE && reach_squared < T::GREATEST_SQUARE,
            squared_z: T::ZERO,
            cy: y.last + 1,
            cz: z.first - 1,
            base: group as usize * header.cells_of_group as usize,
            plane: 0,
            images: [0; 3],
            rest: None,
            rest_image: 0,
            whole_row: false,
        }
    }

    /// Returns the slots of the next run, which are not none.
    #[inline(always)]
    pub(super) fn next(&mut self, header: &Header<T>, starts: &[u32]) -> Option<(u32, u32)> {
        if let Some(rest) = self.rest.take() {
            self.images[0] = self.rest_image;
            if rest.0 < rest.1 {
                return Some(rest);
            }
        }
        loop {
            if self.cy > self.y.last {
                if self.cz >= self.z.last {
                    return None;
                }
                self.cz += 1;
                self.cy = self.y.first;
                self.squared_z = self.gap_z.squared(self.cz);
                self.images[2] = image_of(self.cz, self.z.cells);
                let z = wrap_cell(self.cz, self.z.cells) as usize;
                self.plane = self.base + z * self.y.cells as usize * self.x.cells as usize;
            }
            let cy = self.cy;
            self.cy += 1;
            let gap = (self.squared_z + self.gap_y.squared(cy)) * T::NARROWED;
            if self.has_squares && self.reach_squared < gap {
                continue;
            }
            let half =
                if self.has_squares { (self.reach_squared - gap).sqrt() } else { self.reach };
            self.images[1] = image_of(cy, self.y.cells);
            let row = wrap_cell(cy, self.y.cells) as usize * self.x.cells as usize;
            let run = self.run(header, starts, self.plane + row, (cy, half))?;
            if run.0 < run.1 {
                return Some(run);
            }
            if let Some(rest) = self.rest.take() {
                self.images[0] = self.rest_image;
                if rest.0 < rest.1 {
                    return Some(rest);
                }
            }
        }
    }

    /// Whether the image of the box that a run lies in is the same for all of its points, and known.
    pub(super) fn images_known(&self) -> bool {
        !self.x.whole && !self.y.whole && !self.z.whole && !self.whole_row
    }

    /// Returns the image of the box in which the points of the last run are near.
    pub(super) fn images(&self) -> [i32; 3] {
        self.images
    }

    /// Returns the cells of a row within `half` in x. `None` does not occur: the cells are the grid's.
    #[inline(always)]
    fn run(
        &mut self,
        header: &Header<T>,
        starts: &[u32],
        row: usize,
        (cy, half): (i32, T),
    ) -> Option<(u32, u32)> {
        let (mut first, mut last, whole) = self.x.within(half);
        self.whole_row = whole;
        if whole && !self.x.whole {
            (first, last, self.whole_row) = self.exact_row(header, cy);
        }
        self.images[0] = 0;
        let start = |cell: i32| starts.get(row + cell as usize).copied();
        if self.x.repeats && !self.whole_row {
            let cells = self.x.cells;
            self.images[0] = image_of(first, cells);
            let last_image = image_of(last, cells);
            (first, last) = (wrap_cell(first, cells), wrap_cell(last, cells));
            if self.images[0] != last_image {
                self.rest = Some((start(0)?, start(last + 1)?));
                self.rest_image = last_image;
                last = cells - 1;
            }
        }
        Some((start(first)?, start(last + 1)?))
    }

    /// Returns the cells of a row as the device finds them; none if they are out of reach.
    #[cold]
    fn exact_row(&self, header: &Header<T>, cy: i32) -> (i32, i32, bool) {
        let reach_squared = self.reach.mul_up(self.reach);
        let gap_z = exact_gap(header, 2, &self.z, self.cz);
        let gap = gap_z.add_down(exact_gap(header, 1, &self.y, cy));
        if reach_squared < gap {
            return (0, -1, true);
        }
        self.x.exactly_within(reach_squared.sub_up(gap).sqrt_up())
    }
}
