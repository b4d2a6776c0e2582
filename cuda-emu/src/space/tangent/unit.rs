//! Units: the contents of a register or memory for each 16 bits of a value.
//!
//! A number's tangent stands at its first 16 bits. Those that follow hold a mark with their index and the number's
//! size, so that a number which is moved in pieces is known again. One that is put together from pieces of others, or
//! of which an integer instruction has made other bits, is not taken for a number. Bits that an integer instruction has
//! made from a number hold the index of that instruction ([`Origins`](super::lost::Origins)). Numbers whose tangent is
//! zero hold zeros: they are constants.

/// Tangent of 16 bits: an f64's bits, or a mark, which is a NaN that no instruction of the host makes.
pub(crate) type Unit = u64;

/// The units of the widest register: 128 bits.
pub(crate) const WIDEST: usize = 8;

/// Marks the second and later 16 bits of a number.
const REST: u64 = 0xfffc << 48;
/// Marks bits that an integer instruction has made; the low bits are the instruction's index.
const LOST: u64 = 0xfffd << 48;
/// The part of a mark that says which it is.
const MARK: u64 = 0xffff << 48;
/// The unknown tangent of a result, after it was noted that it is lost.
const UNKNOWN: u64 = 0x7ff8 << 48;

/// The contents of the units of a number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Number {
    /// The number's tangent: zero of a constant, NaN if it is unknown.
    Tangent(f64),
    /// Bits that the integer instruction of this index has made.
    Lost(u32),
    /// Pieces of numbers that are no number together.
    Torn,
}

/// Returns the mark of bits that an instruction has made.
pub(crate) fn lost(origin: u32) -> Unit {
    LOST | u64::from(origin)
}

/// Returns the instruction that has made the bits, if one has.
pub(crate) fn origin(unit: Unit) -> Option<u32> {
    (unit & MARK == LOST).then_some(unit as u32)
}

/// Returns the mark of a later unit of a number, by the number's units and its index, from 1.
fn rest(len: usize, index: usize) -> Unit {
    REST + ((len as u64) << 8) + index as u64
}

/// Returns whether it is one of the later units of a number.
fn is_rest(unit: Unit) -> bool {
    unit & MARK == REST
}

/// Writes a number's tangent over all of its units.
pub(crate) fn write(units: &mut [Unit], tangent: f64) {
    let first = match tangent {
        0.0 => 0,
        _ if tangent.is_nan() => UNKNOWN,
        _ => tangent.to_bits(),
    };
    let len = units.len();
    for (at, unit) in units.iter_mut().enumerate() {
        *unit = match at {
            0 => first,
            _ if first == 0 => 0,
            _ => rest(len, at),
        };
    }
}

/// Reads the tangent of a number that has these units.
pub(crate) fn read(units: &[Unit]) -> Number {
    if units.iter().all(|&unit| unit == 0) {
        return Number::Tangent(0.0);
    }
    if let Some(origin) = units.iter().find_map(|&unit| origin(unit)) {
        return Number::Lost(origin);
    }
    // A bf16 above 16 constant bits is the `float` of its value.
    if let [0, upper] = *units
        && !is_rest(upper)
    {
        return Number::Tangent(f64::from_bits(upper));
    }
    match units.split_first() {
        Some((&first, others)) if first != 0 && !is_rest(first) => {
            let mut others = others.iter().zip(1..);
            let whole = others.all(|(&unit, at)| unit == rest(units.len(), at));
            if whole { Number::Tangent(f64::from_bits(first)) } else { Number::Torn }
        }
        _ => Number::Torn,
    }
}

/// A run of units that belong together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    /// The first unit, and how many.
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// The tangent, if the run is a whole number of 16, 32 or 64 bits.
    pub(crate) number: Option<f64>,
}

/// Returns the runs of units that are not zero: whole numbers, and each other unit by itself.
pub(crate) fn runs(units: &[Unit]) -> impl Iterator<Item = Run> {
    let mut start = 0;
    std::iter::from_fn(move || {
        while *units.get(start)? == 0 {
            start += 1;
        }
        let first = units[start];
        let mut run = Run { start, len: 1, number: None };
        if origin(first).is_none() && !is_rest(first) {
            let is_whole = |len: &usize| {
                let number = units.get(start..start + len);
                let piece = *len == 1 && units.get(start + 1).is_some_and(|&next| is_rest(next));
                !piece && number.is_some_and(|number| matches!(read(number), Number::Tangent(_)))
            };
            // The longest match: for 16 bits the first unit alone would match.
            if let Some(len) = [4, 2, 1].into_iter().find(is_whole) {
                run = Run { start, len, number: Some(f64::from_bits(first)) };
            }
        }
        start += run.len;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use super::{Number, Run, lost, read, runs, write};

    #[test]
    fn numbers_are_read_as_they_were_written() {
        for tangent in [0.0, -0.0, 1.0, -2.5, f64::MIN_POSITIVE, 1e300, f64::INFINITY] {
            for len in [1, 2, 4] {
                let mut units = [7; 4];
                write(&mut units[..len], tangent);
                assert_eq!(read(&units[..len]), Number::Tangent(tangent), "{tangent}, {len}");
            }
        }
        let mut units = [0; 2];
        write(&mut units[1..], 1.5);
        assert_eq!(read(&units), Number::Tangent(1.5), "a bf16 as a float");
        write(&mut units, f64::NAN);
        assert!(matches!(read(&units), Number::Tangent(tangent) if tangent.is_nan()));
    }

    #[test]
    fn pieces_are_no_numbers() {
        let mut double = [0; 4];
        write(&mut double, 3.0);
        assert_eq!(read(&double[..2]), Number::Torn);
        assert_eq!(read(&double[2..]), Number::Torn);
        assert_eq!(read(&double[1..2]), Number::Torn);
        assert_eq!(read(&[double[0], double[1], 0, 0]), Number::Torn);
        assert_eq!(read(&[0, double[1]]), Number::Torn);
        assert_eq!(read(&[double[0], lost(7)]), Number::Lost(7));
        assert_eq!(read(&[0, lost(7)]), Number::Lost(7));
        let mut single = [0; 2];
        write(&mut single, 3.0);
        let found: Vec<Run> = runs(&[0, double[2], single[0], single[1], 0, lost(2)]).collect();
        let alone = |start| Run { start, len: 1, number: None };
        let number = Run { start: 2, len: 2, number: Some(3.0) };
        assert_eq!(found, [alone(1), number, alone(5)]);
    }
}
