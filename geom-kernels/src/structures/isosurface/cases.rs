//! The surface in a cell, for each of the 256 combinations of corners inside: the table of `geom/isosurface/cases.cuh`.

const HEADER: &str = include_str!("../../../device/geom/isosurface/cases.cuh");

/// The header's table, whose numbers are the only ones in it that begin with `0x`.
const TABLE: [u64; 256] = {
    let text = HEADER.as_bytes();
    let mut table = [0; 256];
    let (mut at, mut n) = (0, 0);
    while at + 18 <= text.len() {
        if text[at] == b'0' && text[at + 1] == b'x' {
            let (mut digit, mut value) = (2, 0);
            while digit < 18 {
                let letter = text[at + digit];
                let of_letter = match letter {
                    b'0'..=b'9' => letter - b'0',
                    b'a'..=b'f' => letter - b'a' + 10,
                    _ => panic!("a number of the table has 16 hexadecimal digits"),
                };
                value = value << 4 | of_letter as u64;
                digit += 1;
            }
            table[n] = value;
            n += 1;
            at += 18;
        } else {
            at += 1;
        }
    }
    assert!(n == 256, "the table has 256 cases");
    table
};

/// The triangles of a cell.
#[derive(Debug, Clone, Copy)]
pub(super) struct Triangles(u64);

impl Triangles {
    /// Returns the triangles of the cell whose corner 4 dx + 2 dy + dz is inside if that bit of `bits` is set.
    #[inline(always)]
    pub(super) fn of(bits: u8) -> Self {
        Self(TABLE[bits as usize])
    }

    /// Returns how many there are.
    #[inline(always)]
    pub(super) fn count(self) -> u64 {
        self.0 >> 60
    }

    /// Returns the edges of a triangle's corners, counter-clockwise seen from outside.
    #[inline(always)]
    pub(super) fn edges(self, triangle: u64) -> [u32; 3] {
        [0, 1, 2].map(|corner| (self.0 >> (4 * (3 * triangle + corner))) as u32 & 15)
    }
}

/// Returns the lower corner of an edge, which owns it. Edge 4 a + k runs along axis a, from the k-th of the corners whose
/// coordinate on that axis is 0.
#[inline(always)]
pub(super) fn lower_corner(edge: u32) -> u32 {
    let k = edge & 3;
    match edge >> 2 {
        0 => k,
        1 => (k & 2) << 1 | (k & 1),
        _ => k << 1,
    }
}
