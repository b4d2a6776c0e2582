//! Copies between memory and an array, or between two arrays, of bytes that go on in the next row at the end of one: the
//! functions that CUDA calls deprecated, and that older programs use.

use core::ffi::c_void;

use cuda_sys::Driver;

use crate::array::row;
use crate::bindings::runtime::{
    cudaArray_const_t, cudaArray_t, cudaError, cudaMemcpyKind, cudaStream_t,
};
use crate::call::{CudaResult, ready};
use crate::copy::{Plane, When, now, plane};

/// The rows of an array from a place on, or memory that has none.
#[derive(Clone, Copy)]
struct Rows {
    array: cudaArray_const_t,
    memory: *const c_void,
    /// The bytes of a row; `None` for memory.
    width: Option<usize>,
    /// The next byte, from the beginning of the array or the memory.
    at: usize,
}

impl Rows {
    fn memory(memory: *const c_void) -> Self {
        Self { array: core::ptr::null(), memory, width: None, at: 0 }
    }

    /// Takes `count` bytes of an array from byte `x` of row `y` on.
    fn array(array: cudaArray_const_t, x: usize, y: usize, count: usize) -> CudaResult<Self> {
        let (width, rows) = row(array)?;
        let at = y.checked_mul(width).and_then(|start| start.checked_add(x));
        let end = at.and_then(|at| at.checked_add(count));
        let bytes = width.checked_mul(rows);
        match (at, end, bytes) {
            (Some(at), Some(end), Some(bytes)) if x < width && end <= bytes => {
                Ok(Self { array, memory: core::ptr::null(), width: Some(width), at })
            }
            _ => Err(cudaError::cudaErrorInvalidValue),
        }
    }

    /// The bytes up to the end of the row.
    fn left(self) -> usize {
        self.width.map_or(usize::MAX, |width| width - self.at % width)
    }

    /// Whether rows of `width` bytes from here on are rows of this, too.
    fn begins(self, width: usize) -> bool {
        self.width.is_none_or(|own| own == width && self.at.is_multiple_of(width))
    }

    /// The rectangle that begins here, with rows of so many bytes.
    fn plane(self, width: usize) -> Plane {
        match self.width {
            Some(own) => Plane::array(self.array, self.at % own, self.at / own),
            None => Plane::memory(self.memory.wrapping_byte_add(self.at), width),
        }
    }
}

/// Returns the rectangles of a copy: the bytes of a row, and the rows.
fn pieces(mut sides: [Rows; 2], mut count: usize) -> impl Iterator<Item = ([Rows; 2], [usize; 2])> {
    core::iter::from_fn(move || {
        if count == 0 {
            return None;
        }
        let width = sides.iter().find_map(|side| side.width).unwrap_or(count);
        let whole = sides.iter().all(|side| side.begins(width)) && count >= width;
        let size = match whole {
            true => [width, count / width],
            false => [sides.iter().map(|side| side.left()).fold(count, usize::min), 1],
        };
        let piece = (sides, size);
        let bytes = size[0] * size[1];
        sides.iter_mut().for_each(|side| side.at += bytes);
        count -= bytes;
        Some(piece)
    })
}

/// Copies bytes from the second to the first.
///
/// # Safety
/// The memory is valid for the copy.
unsafe fn copy(
    driver: &Driver,
    sides: [Rows; 2],
    count: usize,
    kind: cudaMemcpyKind,
    when: When,
) -> CudaResult {
    for (piece, size) in pieces(sides, count) {
        // SAFETY: the caller's promise: the pieces lie in what is copied.
        unsafe { plane(driver, piece.map(|side| side.plane(size[0])), size, kind, when) }?;
    }
    Ok(())
}

crate::functions! {
    fn cudaMemcpyToArray, cudaMemcpyToArray_ptds [sync how] (
        to: cudaArray_t, x: usize, y: usize, from: *const c_void, count: usize, kind: cudaMemcpyKind,
    ) {
        let sides = [Rows::array(to, x, y, count)?, Rows::memory(from)];
        now(how, |driver, when| copy(driver, sides, count, kind, when))
    }
    fn cudaMemcpyToArrayAsync, cudaMemcpyToArrayAsync_ptsz [stream] (
        to: cudaArray_t, x: usize, y: usize, from: *const c_void, count: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t,
    ) {
        let sides = [Rows::array(to, x, y, count)?, Rows::memory(from)];
        copy(ready()?, sides, count, kind, When::In(stream.cast()))
    }
    fn cudaMemcpyFromArray, cudaMemcpyFromArray_ptds [sync how] (
        to: *mut c_void, from: cudaArray_const_t, x: usize, y: usize, count: usize, kind: cudaMemcpyKind,
    ) {
        let sides = [Rows::memory(to), Rows::array(from, x, y, count)?];
        now(how, |driver, when| copy(driver, sides, count, kind, when))
    }
    fn cudaMemcpyFromArrayAsync, cudaMemcpyFromArrayAsync_ptsz [stream] (
        to: *mut c_void, from: cudaArray_const_t, x: usize, y: usize, count: usize, kind: cudaMemcpyKind,
        stream: cudaStream_t,
    ) {
        let sides = [Rows::memory(to), Rows::array(from, x, y, count)?];
        copy(ready()?, sides, count, kind, When::In(stream.cast()))
    }
    fn cudaMemcpyArrayToArray, cudaMemcpyArrayToArray_ptds [sync how] (
        to: cudaArray_t, to_x: usize, to_y: usize, from: cudaArray_const_t, x: usize, y: usize, count: usize,
        kind: cudaMemcpyKind,
    ) {
        let sides = [Rows::array(to, to_x, to_y, count)?, Rows::array(from, x, y, count)?];
        now(how, |driver, when| copy(driver, sides, count, kind, when))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(width: Option<usize>, at: usize) -> Rows {
        Rows { array: core::ptr::null(), memory: core::ptr::null(), width, at }
    }

    /// All bytes are copied once, in order, and no rectangle leaves its row.
    #[test]
    fn pieces_cover_what_is_copied() {
        let widths = [None, Some(1), Some(7), Some(8)];
        for (to, from) in widths.iter().flat_map(|to| widths.map(|from| (*to, from))) {
            for (first, second, count) in (0..20).flat_map(|i| [(i, 0, 31), (3, i, 64), (i, i, i)])
            {
                let mut moved = Vec::new();
                for (piece, [width, rows]) in pieces([side(to, first), side(from, second)], count) {
                    for row in 0..rows {
                        for side in piece {
                            let at = side.at + row * width;
                            assert!(side.width.is_none_or(|own| at % own + width <= own));
                        }
                        let [one, two] = piece.map(|side| side.at + row * width);
                        moved.extend((0..width).map(|i| (one + i, two + i)));
                    }
                }
                let wanted: Vec<_> = (0..count).map(|i| (first + i, second + i)).collect();
                assert_eq!(moved, wanted, "{to:?} {from:?} {first} {second} {count}");
            }
        }
    }
}
