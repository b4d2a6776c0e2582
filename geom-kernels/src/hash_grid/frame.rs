//! The cells of a grid with bounds. The host chooses them, so that it knows how many bits a key has.

use bytemuck::Zeroable;

use super::GridOptions;
use super::layout::{DENSE, Header};
use crate::real::Real;

/// Cells are this many times shorter in x than the radius. A query reads a run of cells along x, so short cells make
/// the run end nearer to the sphere, at the cost of a larger table. Measured: bench/NOTES.md.
pub(crate) const X_SPLIT: u32 = 6;

/// The most cells in one direction: their numbers, and those of the next period, fit in an `int`.
const MOST_CELLS: f64 = 268_435_456.0;

/// The part of a box's extent by which rounding may move a point outside its cell: 8 units in the last place, twice.
/// See `Gap::squared` in device/geom/hash_grid/dense_runs.cuh.
fn margin<T: Real>() -> f64 {
    8.0 * if size_of::<T>() == size_of::<f32>() { f32::EPSILON.into() } else { f64::EPSILON }
}

/// Returns the frame for `radius` with at most `capacity` cells in all.
pub(crate) fn bounded<T: Real>(
    options: &GridOptions<T>,
    [lower, upper]: [[T; 3]; 2],
    radius: T,
    capacity: u32,
) -> Header<T> {
    let extent: [f64; 3] = std::array::from_fn(|axis| {
        // The difference of two finite numbers may be infinite, so it is clamped.
        (upper[axis].wide() - lower[axis].wide()).clamp(0.0, f64::MAX)
    });
    let most = f64::from(capacity) / f64::from(options.groups);
    let (cells, size) = choose_cells(extent, options.periodic, radius.wide(), most);

    let mut header = Header::<T>::zeroed();
    for axis in 0..3 {
        let size = size[axis];
        let inverse = if size > 0.0 { 1.0 / size } else { 0.0 };
        header.row_origin[axis] = lower[axis].wide();
        header.origin[axis] = lower[axis];
        header.inverse[axis] = T::narrow(inverse);
        header.size[axis] = T::narrow(size);
        header.margin[axis] = T::narrow((extent[axis] + size) * margin::<T>());
        header.cells[axis] = cells[axis] as u32;
        if options.periodic[axis] {
            header.period[axis] = T::narrow(extent[axis]);
            header.inverse_period[axis] = T::narrow(1.0 / extent[axis]);
            header.periodic |= 1 << axis;
        }
    }
    header.cells_of_group = header.cells.iter().product();
    header.groups = options.groups;
    header.no_key = u64::from(header.cells_of_group) * u64::from(options.groups);
    header.mode = DENSE;
    header.radius = radius;
    header
}

/// Returns the number of cells in each direction and their size: the radius's, or larger if there would be too many.
///
/// Cells are at least as large as the radius in y and z: then three rows of cells hold all neighbours. In periodic
/// directions a whole number of them fills the extent.
fn choose_cells(
    extent: [f64; 3],
    periodic: [bool; 3],
    radius: f64,
    most: f64,
) -> ([f64; 3], [f64; 3]) {
    // Subnormal sizes could not grow by a fraction of themselves.
    let least = f64::MIN_POSITIVE;
    let mut size = [radius / f64::from(X_SPLIT), radius, radius].map(|size| size.max(least));
    loop {
        let mut fitted = size;
        let cells: [f64; 3] = std::array::from_fn(|axis| {
            let fit = extent[axis] / size[axis];
            let fit = if periodic[axis] { fit.floor() } else { fit.ceil() };
            // The quotient is NaN where both are 0: then there is one cell.
            let cells = if fit > 1.0 { fit.min(MOST_CELLS) } else { 1.0 };
            if periodic[axis] || cells == MOST_CELLS {
                fitted[axis] = extent[axis] / cells;
            }
            cells
        });
        let all: f64 = cells.iter().product();
        if all <= most.max(1.0) {
            // A size must be finite to compute with; one cell may have any size.
            let finite = |axis: usize| fitted[axis].min(extent[axis].max(f64::MIN_POSITIVE) * 2.0);
            return (cells, std::array::from_fn(finite));
        }
        // Sizes grow by the excess of cells, in the directions with several cells.
        let several = cells.iter().filter(|cells| **cells > 1.0).count();
        let grow = (all / most.max(1.0)).powf(1.0 / several as f64).max(1.02);
        for axis in 0..3 {
            // The effective size grows: a size of 0 would not.
            size[axis] = size[axis].max(extent[axis] / MOST_CELLS) * grow;
        }
    }
}

/// Returns the number of bits of numbers below `count`.
pub(crate) fn bits_below(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_of_the_radius_or_as_many_as_there_may_be() {
        let (cells, size) = choose_cells([1.0; 3], [false; 3], 0.15, 1e6);
        assert_eq!((cells, size), ([40.0, 7.0, 7.0], [0.15 / 6.0, 0.15, 0.15]));
        let (cells, size) = choose_cells([1.0; 3], [true; 3], 0.15, 1e6);
        assert_eq!((cells, size), ([40.0, 6.0, 6.0], [1.0 / 40.0, 1.0 / 6.0, 1.0 / 6.0]));
        for (extent, radius, most) in [
            ([1.0, 1.0, 1.0], 1e-6, 1000.0),
            ([1.0, 1.0, 1.0], 0.0, 1024.0),
            ([0.0, 0.0, 0.0], 0.0, 1024.0),
            ([1e30, 1e-30, 5.0], 1e-9, 4096.0),
            ([f64::MAX, f64::MAX, f64::MAX], 1e-300, 2e9),
            ([1.0, 0.0, 0.0], 1e-7, 5000.0),
            ([1.0, 1.0, 1.0], f64::INFINITY, 1.0),
            ([5e-324; 3], 0.0, 1024.0),
            ([1.0, 1e-320, 1.0], 0.0, 1024.0),
            ([6e-321; 3], 5e-324, 1024.0),
            ([1.0, 1.0, 1.0], 0.01, 0.5),
        ] {
            for periodic in [[false; 3], [true; 3], [true, false, false]] {
                let (cells, size) = choose_cells(extent, periodic, radius, most);
                let all: f64 = cells.iter().product();
                assert!(all >= 1.0 && all <= most.max(1.0), "{extent:?} {radius}: {cells:?}");
                for axis in 0..3 {
                    assert!(cells[axis] >= 1.0 && cells[axis].fract() == 0.0);
                    // The cells fill the extent, up to rounding.
                    assert!(size[axis] * cells[axis] >= extent[axis] * (1.0 - 1e-12));
                    assert!(size[axis].is_finite() || extent[axis] > 1e300);
                }
            }
        }
        // The number of cells is not much less than the limit.
        let all: f64 = choose_cells([1.0; 3], [false; 3], 1e-6, 1e6).0.iter().product();
        assert!(all > 5e5, "{all}");
    }

    #[test]
    fn numbers_below_a_count() {
        assert_eq!([1, 2, 3, 256, 257].map(bits_below), [0, 1, 2, 8, 9]);
        assert_eq!(bits_below(0), 0);
    }
}
