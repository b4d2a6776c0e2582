//! Constant expressions and their values.

use test_support::Rng;

/// An expression, how tightly its operator binds, and its value: 64 bits, signed or not.
#[derive(Debug, Clone)]
pub(super) struct Constant {
    pub(super) text: String,
    binds: u8,
    pub(super) bits: u64,
    unsigned: bool,
}

const PRIMARY: u8 = 12;
const UNARY: u8 = 11;
const CONDITION: u8 = 0;
/// The binary operators and how tightly they bind.
const BINARY: [(&str, u8); 18] = [
    ("*", 10),
    ("/", 10),
    ("%", 10),
    ("+", 9),
    ("-", 9),
    ("<<", 8),
    (">>", 8),
    ("<", 7),
    ("<=", 7),
    (">", 7),
    (">=", 7),
    ("==", 6),
    ("!=", 6),
    ("&", 5),
    ("^", 4),
    ("|", 3),
    ("&&", 2),
    ("||", 1),
];

impl Constant {
    /// An expression of some operators.
    pub(super) fn new(rng: &mut Rng, depth: usize) -> Self {
        if depth == 0 {
            return Self::literal(rng);
        }
        let below = rng.below(depth);
        match rng.below(8) {
            0 => Self::literal(rng),
            1 | 2 => Self::unary(rng, depth - 1),
            3 => {
                let [a, b, c] = [depth - 1, below, below].map(|depth| Self::new(rng, depth));
                let text = format!("{} ? {} : {}", a.within(1), b.text, c.text);
                let Self { bits, unsigned, .. } = if a.bits != 0 { b } else { c };
                Self { text, binds: CONDITION, bits, unsigned }
            }
            _ => {
                let (left, right) =
                    if rng.below(2) == 0 { (depth - 1, below) } else { (below, depth - 1) };
                let a = Self::new(rng, left);
                let b = Self::new(rng, right);
                Self::binary(rng, &a, &b)
            }
        }
    }

    /// The text where operators that bind less than `least` need parentheses.
    fn within(&self, least: u8) -> String {
        if self.binds < least { format!("({})", self.text) } else { self.text.clone() }
    }

    fn literal(rng: &mut Rng) -> Self {
        let small = rng.next() >> (40 + rng.below(24));
        let any = rng.next() >> rng.below(64);
        let (text, bits) = match rng.below(7) {
            0 => (format!("{small}"), small),
            1 => (format!("{any:#x}"), any),
            2 => (format!("0{small:o}"), small),
            3 => (format!("{small:#b}"), small),
            4 => ("WARP_SZ".to_owned(), 32),
            5 => (format!("{small}U"), small),
            _ => (format!("{any}"), any),
        };
        let unsigned = text.ends_with('U') || bits.cast_signed() < 0;
        Self { text, binds: PRIMARY, bits, unsigned }
    }

    fn unary(rng: &mut Rng, depth: usize) -> Self {
        let a = Self::new(rng, depth);
        let (sign, bits, unsigned) = match rng.below(6) {
            0 => ("-", a.bits.wrapping_neg(), a.unsigned),
            1 => ("+", a.bits, a.unsigned),
            2 => ("~", !a.bits, true),
            3 => ("!", u64::from(a.bits == 0), false),
            4 => ("(.s64)", a.bits, false),
            _ => ("(.u64)", a.bits, true),
        };
        Self { text: format!("{sign}{}", a.within(UNARY)), binds: UNARY, bits, unsigned }
    }

    fn binary(rng: &mut Rng, a: &Self, b: &Self) -> Self {
        let (mut op, mut binds) = BINARY[rng.below(BINARY.len())];
        // A quotient that does not exist, or does not fit.
        if matches!(op, "/" | "%") && (b.bits == 0 || b.bits == u64::MAX) {
            (op, binds) = ("+", 9);
        }
        let unsigned = a.unsigned | b.unsigned;
        let (x, y) = (a.bits.cast_signed(), b.bits.cast_signed());
        let less = if unsigned { a.bits < b.bits } else { x < y };
        let equal = a.bits == b.bits;
        let truth = |is: bool| (u64::from(is), false);
        let (bits, unsigned) = match op {
            "*" => (a.bits.wrapping_mul(b.bits), unsigned),
            "/" if unsigned => (a.bits / b.bits, true),
            "/" => ((x / y).cast_unsigned(), false),
            "%" => (a.bits % b.bits, true),
            "+" => (a.bits.wrapping_add(b.bits), unsigned),
            "-" => (a.bits.wrapping_sub(b.bits), unsigned),
            "<<" => (a.bits << (b.bits % 64), a.unsigned),
            ">>" if a.unsigned => (a.bits >> (b.bits % 64), true),
            ">>" => ((x >> (b.bits % 64)).cast_unsigned(), false),
            "<" => truth(less),
            "<=" => truth(less || equal),
            ">" => truth(!less && !equal),
            ">=" => truth(!less),
            "==" => truth(equal),
            "!=" => truth(!equal),
            "&" => (a.bits & b.bits, unsigned),
            "^" => (a.bits ^ b.bits, unsigned),
            "|" => (a.bits | b.bits, unsigned),
            "&&" => truth(a.bits != 0 && b.bits != 0),
            _ => truth(a.bits != 0 || b.bits != 0),
        };
        // `%3` would be an identifier, and `--` is only a sign of a sign here.
        let blank = if matches!(op, "%" | "-" | "+") || rng.below(2) == 0 { " " } else { "" };
        let text = format!("{}{blank}{op}{blank}{}", a.within(binds), b.within(binds + 1));
        Self { text, binds, bits, unsigned }
    }
}
