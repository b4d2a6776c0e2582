//! Integer instructions that move numbers, or change nothing but their sign.

use crate::space::tangent::unit::{self, Run, Unit, WIDEST, runs};

/// The units of a value, or that they are lost.
pub(crate) type Result<T> = std::result::Result<T, Taken>;

/// An integer instruction has made other bits from a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken;

/// Returns the bits of units: all ones from the first on.
fn mask(run: Run) -> u64 {
    (u64::MAX >> (64 - 16 * run.len.min(4))) << (16 * run.start)
}

/// Applies a function of three bits, as `lop3` has it, to values with tangents.
///
/// A run of units goes on unless its bits are changed. Of a whole number, the sign bit may be: cleared, set or
/// inverted. Bits that depend on nothing of a number but its sign are constants.
pub(crate) fn logic(
    lut: u8,
    width: usize,
    values: [u64; 3],
    sources: &[[Unit; WIDEST]; 3],
) -> Result<[Unit; WIDEST]> {
    let mut out = [0; WIDEST];
    for (at, units) in sources.iter().enumerate() {
        // The result's bits if this source's bits are all zeros, or all ones.
        let with = |bits: u64| {
            let mut values = values;
            values[at] = bits;
            lop3(lut, values)
        };
        let (zeros, ones) = (with(0), with(u64::MAX));
        let (kept, inverted) = (ones & !zeros, zeros & !ones);
        for run in runs(&units[..width]) {
            let all = mask(run);
            let top = 1 << (16 * (run.start + run.len) - 1);
            let rest = all & !top;
            if (kept | inverted) & all == 0 {
                continue;
            }
            let moved = &mut out[run.start..run.start + run.len];
            // Parts of two numbers in one unit.
            if moved.iter().any(|&unit| unit != 0) {
                return Err(Taken);
            }
            if kept & all == all {
                moved.copy_from_slice(&units[run.start..run.start + run.len]);
                continue;
            }
            let Some(tangent) = run.number else { return Err(Taken) };
            if (kept | inverted) & rest == 0 {
                continue;
            }
            if kept & rest != rest {
                return Err(Taken);
            }
            let own = if values[at] & top == 0 { 1.0 } else { -1.0 };
            let factor = match (zeros & top != 0, ones & top != 0) {
                (false, false) => own,
                (true, true) => -own,
                _ => -1.0,
            };
            unit::write(moved, tangent * factor);
        }
    }
    Ok(out)
}

/// `lop3`
fn lop3(lut: u8, [a, b, c]: [u64; 3]) -> u64 {
    (0..8).filter(|row| lut >> row & 1 != 0).fold(0, |all, row| {
        let bit = |value: u64, place: u8| if row >> place & 1 != 0 { value } else { !value };
        all | bit(a, 2) & bit(b, 1) & bit(c, 0)
    })
}

/// Shifts a value of `width` units. The sign alone is a constant.
pub(crate) fn shift(
    right: bool,
    width: usize,
    amount: u64,
    source: &[Unit; WIDEST],
) -> Result<[Unit; WIDEST]> {
    let mut out = [0; WIDEST];
    let bits = 16 * width as u64;
    let units = (amount / 16) as usize;
    match runs(&source[..width]).last() {
        None => {}
        _ if amount >= bits => {}
        _ if amount.is_multiple_of(16) && right => {
            out[..width - units].copy_from_slice(&source[units..width]);
        }
        _ if amount.is_multiple_of(16) => {
            out[units..width].copy_from_slice(&source[..width - units]);
        }
        Some(last) if right && amount == bits - 1 && last.number.is_some() => {}
        Some(_) => return Err(Taken),
    }
    Ok(out)
}

/// `prmt` without a mode: units from bytes.
pub(crate) fn permute(selector: u64, sources: [&[Unit; WIDEST]; 2]) -> Result<[Unit; WIDEST]> {
    let [a, b] = sources;
    let all = [a[0], a[1], b[0], b[1]];
    let byte = |at: usize| (selector >> (4 * at) & 15) as usize;
    let mut out = [0; WIDEST];
    for (at, out) in out.iter_mut().enumerate().take(2) {
        let (low, high) = (byte(2 * at), byte(2 * at + 1));
        if low % 2 == 0 && high == low + 1 && high < 8 {
            *out = all[low / 2];
        } else if all[low % 8 / 2] != 0 || all[high % 8 / 2] != 0 {
            return Err(Taken);
        }
    }
    Ok(out)
}

/// `shf`: the upper half of b:a shifted left, or the lower half shifted right, by at most 32.
pub(crate) fn funnel(
    right: bool,
    amount: u64,
    sources: [&[Unit; WIDEST]; 2],
) -> Result<[Unit; WIDEST]> {
    let [a, b] = sources;
    let all = [a[0], a[1], b[0], b[1]];
    let mut out = [0; WIDEST];
    if !amount.is_multiple_of(16) {
        return if all == [0; 4] { Ok(out) } else { Err(Taken) };
    }
    let units = (amount / 16) as usize;
    let from = if right { units } else { 2 - units.min(2) };
    out[..2].copy_from_slice(all.get(from..from + 2).unwrap_or(&[0; 2]));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::{Taken, funnel, logic, permute, shift};
    use crate::space::tangent::unit::{Number, Unit, WIDEST, lost, read, write};

    const AND: u8 = 0xc0;
    const OR: u8 = 0xfc;
    const XOR: u8 = 0x3c;

    fn number(len: usize, tangent: f64) -> [Unit; WIDEST] {
        let mut units = [0; WIDEST];
        write(&mut units[..len], tangent);
        units
    }

    fn of(lut: u8, len: usize, x: u64, constant: u64) -> Result<Number, Taken> {
        let sources = [number(len, 3.0), [0; WIDEST], [0; WIDEST]];
        logic(lut, len, [x, constant, 0], &sources).map(|out| read(&out[..len]))
    }

    #[test]
    fn masks_of_the_sign_are_abs_and_neg() {
        for len in [1, 2, 4] {
            let all = u64::MAX >> (64 - 16 * len);
            let top = 1 << (16 * len - 1);
            for (x, own) in [(5 & all, 1.0), (top | 5, -1.0)] {
                assert_eq!(of(AND, len, x, all & !top), Ok(Number::Tangent(3.0 * own)));
                assert_eq!(of(OR, len, x, top), Ok(Number::Tangent(-3.0 * own)));
                assert_eq!(of(XOR, len, x, top), Ok(Number::Tangent(-3.0)));
                assert_eq!(of(XOR, len, x, 0), Ok(Number::Tangent(3.0)));
                assert_eq!(of(AND, len, x, all), Ok(Number::Tangent(3.0)));
                assert_eq!(of(AND, len, x, top), Ok(Number::Tangent(0.0)));
                assert_eq!(of(AND, len, x, 0), Ok(Number::Tangent(0.0)));
                assert_eq!(of(AND, len, x, all & !1), Err(Taken));
                assert_eq!(of(XOR, len, x, 1), Err(Taken));
                assert_eq!(of(XOR, len, x, all), Err(Taken));
            }
        }
    }

    #[test]
    fn halves_of_a_register_are_apart() {
        let mut pair = [0; WIDEST];
        (pair[0], pair[1]) = (1f64.to_bits(), 2f64.to_bits());
        let zero = [0; WIDEST];
        let both = logic(XOR, 2, [0, 0x8000_8000, 0], &[pair, zero, zero]).expect("two signs");
        assert_eq!([both[0], both[1]].map(f64::from_bits), [-1.0, -2.0]);
        // Two values in one: their bits are apart.
        let (low, high) = (number(1, 5.0), shift(false, 2, 16, &number(1, 7.0)).expect("a move"));
        let joined = logic(OR, 2, [3, 4 << 16, 0], &[low, high, zero]).expect("a move");
        assert_eq!([joined[0], joined[1]].map(f64::from_bits), [5.0, 7.0]);
        assert_eq!(logic(XOR, 2, [3, 4, 0], &[number(2, 1.0), number(2, 1.0), zero]), Err(Taken));
        let made = [lost(3), lost(3), 0, 0, 0, 0, 0, 0];
        assert_eq!(logic(AND, 2, [3, 0, 0], &[made, zero, zero]), Ok(zero));
        assert_eq!(logic(AND, 2, [3, 1, 0], &[made, zero, zero]), Err(Taken));
    }

    #[test]
    fn shifts_and_permutations_move_whole_units() {
        let x = number(4, 3.0);
        let up = shift(false, 4, 32, &x).expect("a move");
        assert_eq!(shift(true, 4, 32, &up).map(|out| out[..2] == x[..2]), Ok(true));
        assert_eq!(shift(true, 4, 63, &x), Ok([0; WIDEST]));
        assert_eq!(shift(true, 4, 64, &x), Ok([0; WIDEST]));
        assert_eq!(shift(true, 4, 23, &x), Err(Taken));
        assert_eq!(shift(false, 4, 1, &[0; WIDEST]), Ok([0; WIDEST]));
        let (a, b) = (number(2, 3.0), number(2, 4.0));
        assert_eq!(permute(0x3210, [&a, &b]), Ok(a));
        assert_eq!(permute(0x7654, [&a, &b]), Ok(b));
        assert_eq!(permute(0x5410, [&a, &b]).map(|out| [out[0], out[1]]), Ok([a[0], b[0]]));
        assert_eq!(permute(0x0123, [&a, &b]), Err(Taken));
        assert_eq!(permute(0x4440, [&[0; WIDEST], &[0; WIDEST]]), Ok([0; WIDEST]));
        assert_eq!(funnel(false, 32, [&a, &b]), Ok(a));
        assert_eq!(funnel(false, 0, [&a, &b]), Ok(b));
        assert_eq!(funnel(true, 32, [&a, &b]), Ok(b));
        assert_eq!(funnel(true, 16, [&a, &b]).map(|out| [out[0], out[1]]), Ok([a[1], b[0]]));
        assert_eq!(funnel(true, 3, [&a, &b]), Err(Taken));
    }
}
