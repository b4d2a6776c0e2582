//! The cells of points: `geom/hash_grid/cells.cuh`.

use crate::hash_grid::layout::{DENSE, Header, ROWS};
use crate::structures::exact::{Exact, floor_to_long};

/// The index of no point.
pub(super) const NO_POINT: u32 = u32::MAX;

/// The bits of x that are part of a key if rows are hashed.
pub(super) const HASHED_X_BITS: u32 = 20;

#[inline(always)]
fn wrapped_coordinate<T: Exact>(x: T, origin: T, period: T, inverse_period: T) -> T {
    if period == T::ZERO {
        return x;
    }
    let boxes = ((x - origin) * inverse_period).floor();
    let image = x - period * boxes;
    image.max(origin).min(origin + period)
}

/// Returns the image of a point in the box; the point itself along axes that are not periodic.
#[inline(always)]
pub(super) fn wrapped<T: Exact>(header: &Header<T>, p: [T; 3]) -> [T; 3] {
    if header.periodic == 0 {
        return p;
    }
    std::array::from_fn(|axis| {
        wrapped_coordinate(
            p[axis],
            header.origin[axis],
            header.period[axis],
            header.inverse_period[axis],
        )
    })
}

fn dense_cell<T: Exact>(header: &Header<T>, axis: usize, p: T) -> u32 {
    let at = (p - header.origin[axis]) * header.inverse[axis];
    at.floor_to_int().clamp(0, header.cells[axis] as i32 - 1) as u32
}

fn dense_key<T: Exact>(header: &Header<T>, p: [T; 3], group: u32) -> u64 {
    let [x, y, z] = std::array::from_fn(|axis| u64::from(dense_cell(header, axis, p[axis])));
    let [across, rows, _] = header.cells.map(u64::from);
    u64::from(group) * u64::from(header.cells_of_group) + (z * rows + y) * across + x
}

/// Returns the cell along an axis of a coordinate relative to the origin.
pub(super) fn row_cell<T: Exact>(header: &Header<T>, axis: usize, from_origin: f64) -> i64 {
    floor_to_long(from_origin * header.row_inverse[axis]).clamp(0, header.row_cells[axis] - 1)
}

fn row_cell_of<T: Exact>(header: &Header<T>, axis: usize, p: T) -> i64 {
    row_cell(header, axis, p.wide() - header.row_origin[axis])
}

/// The finalizer of MurmurHash3.
pub(super) fn mixed(mut v: u64) -> u64 {
    v = (v ^ (v >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    v = (v ^ (v >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    v ^ (v >> 33)
}

/// A row of cells, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Row {
    pub(super) piece: i64,
    pub(super) y: i64,
    pub(super) z: i64,
    pub(super) group: u32,
}

/// Returns the upper part of the keys of a row's points: its coordinates, or their hash.
pub(super) fn row_name<T: Exact>(header: &Header<T>, row: Row) -> u64 {
    let [piece, y, z] = [row.piece, row.y, row.z].map(|at| at as u64);
    if header.mode == ROWS {
        let name = u64::from(row.group) << header.bits[2] | z;
        return name << header.bits[1] | y;
    }
    let start = piece.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(u64::from(row.group));
    let hash = mixed(start);
    let hash = mixed(hash.wrapping_add(y.wrapping_mul(0xd6e8_feb8_6659_fd93)));
    let hash = mixed(hash.wrapping_add(z.wrapping_mul(0xa076_1d64_78bd_642f)));
    hash >> (1 + HASHED_X_BITS)
}

pub(super) fn row_of<T: Exact>(header: &Header<T>, p: [T; 3], group: u32) -> Row {
    let [x, y, z] = std::array::from_fn(|axis| row_cell_of(header, axis, p[axis]));
    Row { piece: x >> header.bits[0], y, z, group }
}

fn row_key<T: Exact>(header: &Header<T>, p: [T; 3], group: u32) -> u64 {
    let low = row_cell_of(header, 0, p[0]) as u64 & ((1 << header.bits[0]) - 1);
    row_name(header, row_of(header, p, group)) << header.bits[0] | low
}

/// Returns the key of a point; `no_key` if it belongs to no cell.
pub(super) fn point_key<T: Exact>(header: &Header<T>, p: [T; 3], group: u32) -> u64 {
    if group >= header.groups || !p.iter().all(|x| x.is_finite()) {
        header.no_key
    } else if header.mode == DENSE {
        dense_key(header, wrapped(header, p), group)
    } else {
        row_key(header, p, group)
    }
}
