//! SIMD video instructions: `vadd2` to `vset4` ("SIMD Video Instructions"), with the operands'
//! default selectors.

use super::compare::{EQ, GE, GT, LE, LT, NE};

/// `vaddN`
pub(crate) const ADD: u8 = 0;
/// `vsubN`
pub(crate) const SUB: u8 = 1;
/// `vavrgN`: halves are rounded up, of a negative sum too.
pub(crate) const AVRG: u8 = 2;
/// `vabsdiffN`
pub(crate) const ABSDIFF: u8 = 3;
/// `vminN`
pub(crate) const MIN: u8 = 4;
/// `vmaxN`
pub(crate) const MAX: u8 = 5;
/// `vsetN.eq`; the other comparisons follow in the order of [`compare`](super::compare).
pub(crate) const SET: u8 = 6;

/// The operation of a video instruction, apart from its sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Video {
    /// [`ADD`] to [`MAX`], or [`SET`] plus a comparison from [`EQ`] to [`GE`].
    pub(crate) op: u8,
    /// Elements: 2 or 4.
    pub(crate) lanes: u8,
    /// Whether the destination's type is signed (for `.sat` and `.add`).
    pub(crate) d_signed: bool,
    /// Whether the first source's is.
    pub(crate) a_signed: bool,
    /// Whether the second's is.
    pub(crate) b_signed: bool,
    /// Results are clamped to the destination's type.
    pub(crate) sat: bool,
    /// `.add`: the masked results are added to `c`; otherwise they replace its elements.
    pub(crate) add: bool,
    /// A bit for each element that is written.
    pub(crate) mask: u8,
}

impl Video {
    /// Returns the result for one thread.
    #[inline(always)]
    pub(crate) fn apply(self, a: u32, b: u32, c: u32) -> u32 {
        let width = 32 / u32::from(self.lanes);
        let ones = u32::MAX >> (32 - width);
        let mut d = c;
        for i in 0..u32::from(self.lanes) {
            if self.mask >> i & 1 == 0 {
                continue;
            }
            let x = extend(a >> (width * i), width, self.a_signed);
            let y = extend(b >> (width * i), width, self.b_signed);
            let result = self.element(x, y, width);
            if self.add {
                d = d.wrapping_add(result.cast_unsigned());
            } else {
                let at = width * i;
                d = d & !(ones << at) | (result.cast_unsigned() & ones) << at;
            }
        }
        d
    }

    /// One element; 18 bits hold any of them.
    #[inline(always)]
    fn element(self, x: i32, y: i32, width: u32) -> i32 {
        let value = match self.op {
            ADD => x + y,
            SUB => x - y,
            AVRG => {
                let sum = x + y;
                (sum + i32::from(sum >= 0)) >> 1
            }
            ABSDIFF => (x - y).abs(),
            MIN => x.min(y),
            MAX => x.max(y),
            set => {
                return i32::from(match set - SET {
                    EQ => x == y,
                    NE => x != y,
                    LT => x < y,
                    LE => x <= y,
                    GT => x > y,
                    _ => x >= y,
                });
            }
        };
        let (least, greatest) = if self.d_signed {
            (-1 << (width - 1), (1 << (width - 1)) - 1)
        } else {
            (0, (1 << width) - 1)
        };
        if self.sat { value.clamp(least, greatest) } else { value }
    }
}

const _: () = assert!(EQ == 0 && NE == 1 && LT == 2 && LE == 3 && GT == 4 && GE == 5);

/// Returns the low `width` bits, sign- or zero-extended.
#[inline(always)]
fn extend(a: u32, width: u32, signed: bool) -> i32 {
    let top = a << (32 - width);
    if signed { top.cast_signed() >> (32 - width) } else { (top >> (32 - width)).cast_signed() }
}
