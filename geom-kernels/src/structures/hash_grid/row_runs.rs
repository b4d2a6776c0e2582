//! The runs of points, in cell order, that can hold a neighbour, in grids with keys: `geom/hash_grid/row_runs.cuh`.

use super::HashGrid;
use super::cells::{NO_POINT, Row, mixed, row_cell, row_name, row_of};
use crate::hash_grid::layout::ROWS;
use crate::structures::exact::Exact;

/// The runs of one query.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowRuns {
    first: [i64; 3],
    last: [i64; 3],
    /// The next row, and the row of the last run.
    row: Row,
    current: Row,
    /// Whether all points are tested, because there are more rows than points.
    all: bool,
    done: bool,
}

impl RowRuns {
    #[inline(never)]
    pub(super) fn new<T: Exact>(grid: &HashGrid<T>, p: [T; 3], reach: T, group: u32) -> Self {
        let (header, reach) = (&grid.header, reach.wide());
        let (mut first, mut last, mut rows) = ([0; 3], [0; 3], 1.0);
        for axis in 0..3 {
            let (x, origin) = (p[axis].wide(), header.row_origin[axis]);
            first[axis] = row_cell(header, axis, x.sub_down(origin).sub_down(reach));
            last[axis] = row_cell(header, axis, x.sub_up(origin).add_up(reach));
            let shift = if axis == 0 { header.bits[0] } else { 0 };
            rows *= ((last[axis] >> shift) - (first[axis] >> shift) + 1) as f64;
        }
        let row = Row { piece: first[0] >> header.bits[0], y: first[1], z: first[2], group };
        let all = f64::from(header.points) < rows;
        Self { first, last, row, current: row, all, done: false }
    }

    /// Returns the slots of the next run, which are not none.
    #[inline(never)]
    pub(super) fn next<T: Exact>(&mut self, grid: &HashGrid<T>) -> Option<(u32, u32)> {
        if self.all {
            let done = std::mem::replace(&mut self.done, true);
            return (!done).then_some((0, grid.header.points));
        }
        while !self.done {
            self.current = self.row;
            self.advance(grid.header.bits[0]);
            let run = self.run(grid, self.current);
            if run.is_some() {
                return run;
            }
        }
        None
    }

    /// Whether a slot of a run belongs to its row, and not only to a row of equal hash; and, if all points are tested,
    /// to the group.
    pub(super) fn owns<T: Exact>(&self, grid: &HashGrid<T>, slot: usize) -> bool {
        let group = grid.groups.get(slot).copied();
        if self.all {
            return group.is_none_or(|group| group == self.row.group);
        }
        grid.header.mode == ROWS
            || row_of(&grid.header, grid.position(slot), group.unwrap_or(0)) == self.current
    }

    /// Advances to the next row: by pieces of x, then y, then z.
    fn advance(&mut self, x_bits: u32) {
        self.row.piece += 1;
        if self.row.piece <= self.last[0] >> x_bits {
            return;
        }
        self.row.piece = self.first[0] >> x_bits;
        self.row.y += 1;
        if self.row.y <= self.last[1] {
            return;
        }
        self.row.y = self.first[1];
        self.row.z += 1;
        self.done = self.row.z > self.last[2];
    }

    fn run<T: Exact>(&self, grid: &HashGrid<T>, row: Row) -> Option<(u32, u32)> {
        let (bits, name) = (grid.header.bits[0], row_name(&grid.header, row));
        let start = find_row(grid, name)?;
        let (offset, most) = (row.piece << bits, (1i64 << bits) - 1);
        let low = (self.first[0] - offset).clamp(0, most) as u64;
        let high = (self.last[0] - offset).clamp(0, most) as u64;
        // Keys are sorted, and those of points that are left out are greater than all others.
        let keys = grid.keys.get(start..grid.header.points as usize)?;
        let begin = lower_bound(keys, name << bits | low);
        let end = begin + lower_bound(keys.get(begin..)?, (name << bits | high) + 1);
        (begin < end).then_some(((start + begin) as u32, (start + end) as u32))
    }
}

/// Returns the first slot of a row.
fn find_row<T: Exact>(grid: &HashGrid<T>, name: u64) -> Option<usize> {
    let mask = grid.table.len().wrapping_sub(1);
    let mut place = mixed(name) as usize & mask;
    // The search ends, because the table is never full.
    loop {
        let start = *grid.table.get(place)?;
        if start == NO_POINT {
            return None;
        }
        if *grid.keys.get(start as usize)? >> grid.header.bits[0] == name {
            return Some(start as usize);
        }
        place = (place + 1) & mask;
    }
}

/// Returns how many keys are less. The search doubles its steps, because rows are mostly short.
fn lower_bound(keys: &[u64], key: u64) -> usize {
    let (mut begin, mut step) = (0, 1);
    while keys.get(begin + step - 1).is_some_and(|at| *at < key) {
        begin += step;
        step *= 2;
    }
    let rest = keys.get(begin..keys.len().min(begin + step)).unwrap_or(&[]);
    begin + rest.partition_point(|at| *at < key)
}
