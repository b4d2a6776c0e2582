//! `ldmatrix`, `stmatrix` and `movmatrix`: blocks of 8 rows of 8 elements of 16 bits.
//!
//! Row `r` of matrix `m` of an `ldmatrix` or `stmatrix` is at the address that lane `8m + r` gives.

use super::LANES;

/// A matrix in memory: eight rows of 16 bytes.
pub(crate) type Rows = [[u8; 16]; 8];

/// Returns the register of each lane that `ldmatrix` loads: two elements of row `lane / 4`, with `trans`
/// of column `lane / 4`.
#[must_use]
pub(crate) fn ldmatrix(rows: &Rows, trans: bool) -> [u32; LANES] {
    std::array::from_fn(|lane| {
        let pair = [0, 1].map(|j| {
            let (major, minor) = (lane / 4, lane % 4 * 2 + j);
            let (row, column) = if trans { (minor, major) } else { (major, minor) };
            u32::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]))
        });
        pair[0] | pair[1] << 16
    })
}

/// Returns the rows that `stmatrix` stores: the inverse of [`ldmatrix`].
#[must_use]
pub(crate) fn stmatrix(registers: &[u32; LANES], trans: bool) -> Rows {
    let mut rows = [[0; 16]; 8];
    for (lane, register) in registers.iter().enumerate() {
        for j in 0..2 {
            let (major, minor) = (lane / 4, lane % 4 * 2 + j);
            let (row, column) = if trans { (minor, major) } else { (major, minor) };
            let bytes = ((register >> (16 * j)) as u16).to_le_bytes();
            rows[row][2 * column..2 * column + 2].copy_from_slice(&bytes);
        }
    }
    rows
}

/// `movmatrix.trans`: the registers of the transposed matrix.
#[must_use]
pub(crate) fn movmatrix(registers: &[u32; LANES]) -> [u32; LANES] {
    ldmatrix(&stmatrix(registers, false), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a matrix whose element at (row, column) is 256 * row + column.
    fn numbered() -> Rows {
        std::array::from_fn(|row| {
            let mut bytes = [0; 16];
            for column in 0..8u8 {
                bytes[2 * usize::from(column)] = column;
                bytes[2 * usize::from(column) + 1] = row as u8;
            }
            bytes
        })
    }

    #[test]
    fn a_lane_gets_two_elements_of_its_row_or_column() {
        let plain = ldmatrix(&numbered(), false);
        // Lane 13: row 3, columns 2 and 3.
        assert_eq!(plain[13], 0x0303_0302);
        let transposed = ldmatrix(&numbered(), true);
        assert_eq!(transposed[13], 0x0303_0203);
    }

    #[test]
    fn stmatrix_undoes_ldmatrix() {
        for trans in [false, true] {
            assert_eq!(stmatrix(&ldmatrix(&numbered(), trans), trans), numbered());
        }
    }

    #[test]
    fn movmatrix_twice_is_nothing_and_once_the_transpose() {
        let registers = ldmatrix(&numbered(), false);
        assert_eq!(movmatrix(&registers), ldmatrix(&numbered(), true));
        assert_eq!(movmatrix(&movmatrix(&registers)), registers);
    }
}
