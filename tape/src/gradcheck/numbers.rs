//! The numbers of a launch: where they lie, and their values as `f64`.

use crate::element::{Element, FloatType};
use crate::spec::Effect;

/// The memory of a parameter's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// A copy of the check, by its index.
    Memory(usize),
    /// The bytes of a parameter, by its index.
    Value(usize),
}

/// Numbers of one parameter: inputs or outputs.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// The parameter's index and name, with the offset of the pointer in it.
    pub(super) param: usize,
    pub(super) name: String,
    pub(super) home: Home,
    /// The bytes in `home`, relative to its start.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) element: Element,
    /// The kernel's effect on the numbers. A value is only read.
    pub(super) effect: Effect,
    /// The offset of the argument's first element; element indices start there.
    pub(super) base: usize,
    /// The period of the numbers in bytes, and their offsets in each period.
    stride: usize,
    words: Vec<(usize, FloatType)>,
    /// The index of the first number among all inputs or all outputs, and how many there are.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// An argument whose numbers are listed.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) param: usize,
    pub(super) name: String,
    pub(super) home: Home,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) element: Element,
    pub(super) effect: Effect,
}

impl Field {
    /// Returns the numbers of a pointer; `None` if the specification does not give their offsets.
    pub(super) fn of_memory(listed: &Listed, base: usize, first: usize) -> Option<Self> {
        let Listed { element, start, end, .. } = *listed;
        let real = element.real?;
        let size = real.size();
        let (stride, words) = match element.mixed {
            false => (size, vec![(0, real)]),
            true if element.numbers == 0 => return None,
            true => {
                let known = (0..64).filter(|at| element.numbers >> at & 1 == 1);
                (element.size, known.map(|at| (at * size, real)).collect())
            }
        };
        let count = end.saturating_sub(start) / stride.max(1) * words.len();
        Some(Self::new(listed, base, first, stride, words, count))
    }

    /// Returns the numbers in a parameter that is passed by value.
    pub(super) fn of_value(listed: &Listed, words: Vec<(usize, FloatType)>, first: usize) -> Self {
        let (stride, count) = (listed.element.size, words.len());
        Self::new(listed, listed.start, first, stride, words, count)
    }

    fn new(
        listed: &Listed,
        base: usize,
        first: usize,
        stride: usize,
        words: Vec<(usize, FloatType)>,
        count: usize,
    ) -> Self {
        let Listed { param, ref name, home, start, end, element, effect } = *listed;
        let name = name.clone();
        Self { param, name, home, start, end, element, effect, base, stride, words, first, count }
    }

    /// Returns the indices of its numbers among all inputs or all outputs.
    pub(super) fn range(&self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }

    /// Returns the offset of a number in `home`, in bytes, and its type.
    pub(super) fn at(&self, number: usize) -> (usize, FloatType) {
        let words = self.words.len().max(1);
        let (offset, real) = self.words.get(number % words).copied().unwrap_or((0, FloatType::F32));
        (self.start + number / words * self.stride + offset, real)
    }

    /// Returns the element of a number, and the number's offset in it.
    pub(super) fn element_of(&self, number: usize) -> (usize, usize) {
        let (at, _) = self.at(number);
        let size = self.element.size.max(1);
        (at.saturating_sub(self.base) / size, at.saturating_sub(self.base) % size)
    }

    /// Returns whether an element consists of more than one number.
    pub(super) fn has_members(&self) -> bool {
        self.element.mixed && self.words.len() > 1
            || self.words.first().is_some_and(|(_, real)| real.size() < self.element.size)
    }

    /// Returns the largest relative rounding error of its numbers.
    pub(super) fn rounding(&self) -> f64 {
        self.words.iter().map(|(_, real)| rounding(*real)).fold(0.0, f64::max)
    }

    /// Returns the type of the numbers, if they are contiguous and of one type.
    pub(super) fn dense(&self) -> Option<FloatType> {
        match self.words.as_slice() {
            [(0, real)] if real.size() == self.stride => Some(*real),
            _ => None,
        }
    }

    /// Reads the numbers from the bytes of `home`.
    pub(super) fn read(&self, image: &[u8], into: &mut [f64]) {
        for (number, value) in into.iter_mut().enumerate() {
            let (at, real) = self.at(number);
            *value = read(image, at, real);
        }
    }

    /// Reads gradients, which have the layout of the numbers.
    pub(super) fn read_gradient(&self, image: &[u8], into: &mut [f64]) {
        for (number, value) in into.iter_mut().enumerate() {
            let (at, real) = self.gradient_at(number);
            *value = read(image, at, real);
        }
    }

    /// Writes gradients into the bytes of the field's gradient.
    pub(super) fn write_gradient(&self, from: &[f64], image: &mut [u8]) {
        for (number, value) in from.iter().enumerate() {
            let (at, real) = self.gradient_at(number);
            write(image, at, real, *value);
        }
    }

    pub(super) fn gradient_bytes(&self) -> usize {
        (self.end - self.start) * self.element.real.map_or(1, FloatType::widening)
    }

    fn gradient_at(&self, number: usize) -> (usize, FloatType) {
        let (at, real) = self.at(number);
        ((at - self.start) * real.widening(), real.gradient())
    }
}

/// Returns the largest relative rounding error of the type.
pub(super) fn rounding(real: FloatType) -> f64 {
    match real {
        FloatType::F64 => f64::EPSILON / 2.0,
        FloatType::F32 => f64::from(f32::EPSILON) / 2.0,
        FloatType::F16 => 1.0 / 2048.0,
        FloatType::Bf16 => 1.0 / 256.0,
    }
}

/// Returns the number at an offset; NaN if the offset is out of range.
pub(super) fn read(image: &[u8], at: usize, real: FloatType) -> f64 {
    let Some(bytes) = image.get(at..at + real.size()) else { return f64::NAN };
    match real {
        FloatType::F64 => bytes.try_into().map_or(f64::NAN, f64::from_ne_bytes),
        FloatType::F32 => {
            bytes.try_into().map_or(f64::NAN, |bytes| f64::from(f32::from_ne_bytes(bytes)))
        }
        #[cfg(feature = "half")]
        FloatType::F16 => bytes
            .try_into()
            .map_or(f64::NAN, |bytes| half::f16::from_bits(u16::from_ne_bytes(bytes)).to_f64()),
        #[cfg(feature = "half")]
        FloatType::Bf16 => bytes
            .try_into()
            .map_or(f64::NAN, |bytes| half::bf16::from_bits(u16::from_ne_bytes(bytes)).to_f64()),
        #[cfg(not(feature = "half"))]
        FloatType::F16 | FloatType::Bf16 => f64::NAN,
    }
}

/// Writes a number at an offset, rounded to the type.
pub(super) fn write(image: &mut [u8], at: usize, real: FloatType, value: f64) {
    let Some(bytes) = image.get_mut(at..at + real.size()) else { return };
    match real {
        FloatType::F64 => bytes.copy_from_slice(&value.to_ne_bytes()),
        FloatType::F32 => bytes.copy_from_slice(&(value as f32).to_ne_bytes()),
        #[cfg(feature = "half")]
        FloatType::F16 => {
            bytes.copy_from_slice(&half::f16::from_f64(value).to_bits().to_ne_bytes());
        }
        #[cfg(feature = "half")]
        FloatType::Bf16 => {
            bytes.copy_from_slice(&half::bf16::from_f64(value).to_bits().to_ne_bytes());
        }
        #[cfg(not(feature = "half"))]
        FloatType::F16 | FloatType::Bf16 => {}
    }
}

/// A SplitMix64 random number generator: the same seed gives the same numbers everywhere.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to 1.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns 1 or -1.
    pub(super) fn sign(&mut self) -> f64 {
        if self.bits() >> 63 == 0 { 1.0 } else { -1.0 }
    }
}

/// Returns the largest power of two that is not greater than `value`; 1 if there is none.
pub(super) fn power_of_two(value: f64) -> f64 {
    let found = f64::from_bits(value.to_bits() & 0x7ff0_0000_0000_0000);
    if found.is_normal() { found } else { 1.0 }
}

/// Returns the numbers with all zero except those with the indices `some`.
pub(super) fn only(all: &[f64], some: impl IntoIterator<Item = usize>) -> Vec<f64> {
    let mut only = vec![0.0; all.len()];
    for at in some {
        if let (Some(to), Some(from)) = (only.get_mut(at), all.get(at)) {
            *to = *from;
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(element: Element, start: usize, end: usize) -> Listed {
        Listed {
            param: 0,
            name: "x".to_owned(),
            home: Home::Memory(0),
            start,
            end,
            element,
            effect: Effect::Reads,
        }
    }

    #[test]
    fn numbers_of_structures_are_found() {
        let element = Element::structure(16, FloatType::F32).numbers_at(&[0, 8, 12]);
        let field = Field::of_memory(&listed(element, 4, 36), 4, 7).expect("it was said");
        assert_eq!((field.count, field.range()), (6, 7..13));
        assert_eq!(field.at(0), (4, FloatType::F32));
        assert_eq!(field.at(4), (28, FloatType::F32));
        assert_eq!(field.element_of(5), (1, 12));
        assert!(field.has_members() && field.dense().is_none());
        let unknown = Element::structure(16, FloatType::F32);
        assert!(Field::of_memory(&listed(unknown, 0, 32), 0, 0).is_none());
        let vector = Element::vector(FloatType::F64, 3);
        let field = Field::of_memory(&listed(vector, 32, 56), 8, 0).expect("all are numbers");
        assert_eq!((field.count, field.element_of(1)), (3, (1, 8)));
        assert_eq!(field.dense(), Some(FloatType::F64));
    }

    #[test]
    fn numbers_lie_within_their_elements() {
        for wrong in [&[2][..], &[16], &[0, 13], &[usize::MAX]] {
            assert!(Element::structure(16, FloatType::F32).numbers_at(wrong).misplaced);
        }
        assert!(Element::structure(300, FloatType::F32).numbers_at(&[256]).misplaced);
        assert!(Element::bytes(4).numbers_at(&[0]).misplaced);
        assert!(!Element::structure(16, FloatType::F64).numbers_at(&[0, 8]).misplaced);
    }

    #[test]
    fn values_are_rounded_to_their_type() {
        let mut image = [0; 16];
        for (real, value, rounded) in [
            (FloatType::F64, 0.1, 0.1),
            (FloatType::F32, 0.1, f64::from(0.1f32)),
            #[cfg(feature = "half")]
            (FloatType::F16, 0.1, 0.099_975_585_937_5),
            #[cfg(feature = "half")]
            (FloatType::Bf16, 0.1, 0.100_097_656_25),
        ] {
            write(&mut image, 8, real, value);
            assert_eq!(read(&image, 8, real), rounded, "{real:?}");
            assert!((value - rounded).abs() <= rounding(real) * value);
        }
        assert!(read(&image, 14, FloatType::F32).is_nan());
        write(&mut image, 14, FloatType::F32, 1.0);
        assert_eq!(power_of_two(5.0), 4.0);
        assert_eq!(power_of_two(-0.3), 0.25);
        assert_eq!(power_of_two(0.0), 1.0);
        assert_eq!(power_of_two(f64::INFINITY), 1.0);
    }
}
