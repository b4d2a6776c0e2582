//! SIMD video instructions against elements of 64 bits.

use super::random::{CASES, Random};
use crate::arith::video::{ABSDIFF, ADD, AVRG, MAX, MIN, SET, SUB, Video};

#[test]
fn every_form_is_what_its_elements_make() {
    let mut random = Random::new(41);
    for _ in 0..CASES / 8 {
        let [a, b, c] = [0; 3].map(|_: i32| random.int(32) as u32);
        let flag = |random: &mut Random| random.below(2) == 1;
        let lanes = if flag(&mut random) { 2u8 } else { 4 };
        let add = flag(&mut random);
        let video = Video {
            op: random.below(12) as u8,
            lanes,
            d_signed: flag(&mut random),
            a_signed: flag(&mut random),
            b_signed: flag(&mut random),
            sat: !add && flag(&mut random),
            add,
            mask: random.below(1 << lanes) as u8,
        };
        let width = 32 / u32::from(lanes);
        let element = |word: u32, i: u32, signed: bool| {
            let bits = i64::from(word >> (i * width)) & ((1 << width) - 1);
            if signed && bits >> (width - 1) == 1 { bits - (1 << width) } else { bits }
        };
        let (mut merged, mut total) = (u64::from(c), i64::from(c));
        for i in (0..u32::from(lanes)).filter(|i| video.mask >> i & 1 == 1) {
            let (x, y) = (element(a, i, video.a_signed), element(b, i, video.b_signed));
            let result = match video.op {
                ADD => x + y,
                SUB => x - y,
                // Half of the sum, a half rounded away from zero upwards and truncated below.
                AVRG if x + y >= 0 => (x + y + 1).div_euclid(2),
                AVRG => (x + y).div_euclid(2),
                ABSDIFF => (x - y).abs(),
                MIN => x.min(y),
                MAX => x.max(y),
                set => {
                    [x == y, x != y, x < y, x <= y, x > y, x >= y][usize::from(set - SET)].into()
                }
            };
            let (least, greatest) = match video.d_signed {
                true => (-1i64 << (width - 1), (1i64 << (width - 1)) - 1),
                false => (0, (1 << width) - 1),
            };
            let result = if video.sat { result.clamp(least, greatest) } else { result };
            let mask = ((1u64 << width) - 1) << (i * width);
            merged = merged & !mask | (result.cast_unsigned() << (i * width)) & mask;
            total += result;
        }
        let expected = if add { total as u32 } else { merged as u32 };
        assert_eq!(video.apply(a, b, c), expected, "{video:?} {a:x} {b:x} {c:x}");
    }
}
