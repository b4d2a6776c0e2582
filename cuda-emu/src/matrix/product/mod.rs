//! `D = A * B + C`.
//!
//! Products of the narrow formats are exact; the manual leaves order and precision of the sum open.
//! It is done as the H200 does it, to the bit ([`Product::aligned`], [`Product::small_sums`]; those of
//! 8-bit floats into f16 were not compared). Integers are exact. f64 is a chain of fused multiply-adds from C in the order of k, on the H200 too.

mod tangents;

use ptx::ir::{Mma, MmaBitOp, Type};

use super::LANES;
use super::layout::{Role, Tile};
use crate::arith::convert::fp8::{e4m3_to_f32, e5m2_to_f32};
use crate::arith::{Bf16, F16, F32, F64, Float, RN, RZ};

/// The most elements that A, B or C has, and the most columns.
const ELEMENTS: usize = 1024;
const COLUMNS: usize = 32;

/// Below all exponents of products of finite numbers but zero.
const LEAST_EXPONENT: i32 = -300;
/// The exponent that zero has in a comparison.
const ZERO_EXPONENT: i32 = -1000;

/// Returns the exponent field of a number, unbiased: it is in [2^e, 2^(e + 1)), a subnormal one of its
/// format has the least.
#[inline(always)]
fn exponent(x: f64, least: i32) -> i32 {
    let biased = (x.to_bits() >> 52 & 0x7ff) as i32;
    // An infinity's exponent does not matter: a plain sum replaces the result.
    if biased == 0 { ZERO_EXPONENT } else { (biased - 1023).clamp(least, 128) }
}

/// Returns the least exponent of a normal number of a type.
fn least_exponent(ty: Type) -> i32 {
    match ty {
        // The 8-bit formats are converted to f16 first.
        Type::F16 | Type::E5m2 | Type::E4m3 => -14,
        _ => -126,
    }
}

/// Returns a power of two of a normal exponent.
#[inline(always)]
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52)
}

/// A product of matrices that is ready to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Product {
    a: Tile,
    b: Tile,
    c: Tile,
    d: Tile,
    a_ty: Type,
    b_ty: Type,
    c_ty: Type,
    d_ty: Type,
    /// Integer sums saturate instead of wrapping.
    saturate: bool,
    /// One-bit products: and rather than xor.
    and: bool,
}

impl Product {
    /// Returns the product of an instruction; `None` for shapes and types that this module lacks (the f16 `mma.m8n8k4`
    /// of Volta, `wmma` below 8 bits) and for operands of the wrong number.
    #[must_use]
    pub(crate) fn new(mma: &Mma) -> Option<Self> {
        let tile = |role, ty| {
            if mma.wmma { Tile::wmma(role, mma.shape, ty) } else { Tile::mma(role, mma.shape, ty) }
        };
        let float =
            |ty| matches!(ty, Type::F16 | Type::Bf16 | Type::E4m3 | Type::E5m2 | Type::Tf32);
        let int = |ty| matches!(ty, Type::S8 | Type::U8 | Type::S4 | Type::U4);
        let (a_ty, b_ty) = (mma.a_ty, mma.b_ty);
        let sums = [mma.c_ty, mma.d_ty];
        let known = match a_ty {
            Type::B1 => b_ty == Type::B1 && sums == [Type::S32; 2] && mma.bit_op.is_some(),
            Type::F64 => b_ty == Type::F64 && sums == [Type::F64; 2],
            _ if float(a_ty) => {
                float(b_ty) && sums.iter().all(|ty| matches!(ty, Type::F16 | Type::F32))
            }
            _ => int(a_ty) && int(b_ty) && sums == [Type::S32; 2],
        };
        let shape = (mma.shape.m, mma.shape.n);
        let sized = match mma.wmma {
            true => matches!(shape, (16, 16) | (32, 8) | (8, 32) | (8, 8)),
            false => matches!(shape, (16 | 8, 8)),
        };
        if !known || !sized || mma.rounding.is_some_and(|r| r != ptx::ir::Rounding::Rn) {
            return None;
        }
        let product = Self {
            a: tile(Role::A, a_ty)?,
            b: tile(Role::B, b_ty)?,
            c: tile(Role::C, mma.c_ty)?,
            d: tile(Role::C, mma.d_ty)?,
            a_ty,
            b_ty,
            c_ty: mma.c_ty,
            d_ty: mma.d_ty,
            saturate: mma.satfinite,
            and: mma.bit_op == Some(MmaBitOp::AndPopc),
        };
        let registers = [product.a, product.b, product.c, product.d].map(|tile| tile.registers);
        let fits = a_ty == Type::B1
            || [product.a, product.b, product.c]
                .iter()
                .all(|tile| tile.rows * tile.columns <= ELEMENTS);
        let given = [mma.a.len(), mma.b.len(), mma.c.len(), mma.d.len()];
        (fits && given == registers).then_some(product)
    }

    /// Computes D. `a`, `b` and `c` give the bits of a register (its number, the lane); `d` takes
    /// the result's.
    pub(crate) fn run(
        &self,
        a: impl Fn(usize, usize) -> u64,
        b: impl Fn(usize, usize) -> u64,
        c: impl Fn(usize, usize) -> u64,
        d: impl FnMut(usize, usize, u64),
    ) {
        match self.a_ty {
            Type::B1 => self.bits(a, b, c, d),
            Type::S8 | Type::U8 | Type::S4 | Type::U4 => {
                let (a, b) = (read(&self.a, a, int(self.a_ty)), read(&self.b, b, int(self.b_ty)));
                let sums = self.sums(&a, &b, |sum, a: i64, b| sum + a * b);
                self.integers(&sums, c, d);
            }
            Type::F64 => {
                let c = read(&self.c, c, f64::from_bits);
                let (a, b) = (read(&self.a, a, f64::from_bits), read(&self.b, b, f64::from_bits));
                let sums = self.sums_from(&c, &a, &b, |sum, a, b| {
                    let bits = [a, b, sum].map(f64::to_bits);
                    f64::from_bits(F64::fma::<RN, false, false>(bits[0], bits[1], bits[2]))
                });
                write(&self.d, &sums, f64::to_bits, d);
            }
            _ => {
                let (a, b) =
                    (read(&self.a, a, float(self.a_ty)), read(&self.b, b, float(self.b_ty)));
                let c = read(&self.c, c, float(self.c_ty));
                let small = self.a.bits == 8;
                let sums = if small {
                    self.small_sums(&a, &b, &c)
                } else {
                    self.aligned(&a, &b, &c, self.c_ty, |_| true)
                };
                let special = |x: &[f64; ELEMENTS]| x.iter().any(|x| !x.is_finite());
                let sums = if special(&a) || special(&b) || special(&c) {
                    let mut plain = self.sums(&a, &b, |sum, a: f64, b| sum + a * b);
                    for ((plain, c), sum) in plain.iter_mut().zip(&c).zip(&sums) {
                        *plain += c;
                        // A plain sum gives infinities and NaN.
                        *plain = if plain.is_finite() { *sum } else { *plain };
                    }
                    plain
                } else {
                    sums
                };
                let half = self.d_ty == Type::F16;
                let bits = |sum| match (half, small) {
                    (true, _) => F16::from_f64::<RN>(sum).into(),
                    (false, true) => F32::from_f64::<RN>(sum).into(),
                    (false, false) => truncated(sum).into(),
                };
                write(&self.d, &sums, bits, d);
            }
        }
    }

    /// Sums of the 8-bit floats as the H200 makes them: as two products of f16 from zero, of the
    /// first and the last two of each four along k, to which C is added last.
    fn small_sums(
        &self,
        a: &[f64; ELEMENTS],
        b: &[f64; ELEMENTS],
        c: &[f64; ELEMENTS],
    ) -> [f64; ELEMENTS] {
        let to_f32 = |sum| F32::to_f64(truncated(sum));
        let zero = [0.0; ELEMENTS];
        let first = self.aligned(a, b, &zero, Type::F32, |k| k % 4 < 2).map(to_f32);
        let mut sums = self.aligned(a, b, &first, Type::F32, |k| k % 4 >= 2).map(to_f32);
        for (sum, c) in sums.iter_mut().zip(c) {
            *sum += c;
        }
        sums
    }

    /// Sums of finite floats as the H200's tensor cores make them: all products of an element and C
    /// are aligned to the greatest exponent among them (of a product the sum of its factors'
    /// exponents), cut off 25 bits below it, and added exactly. The caller rounds, f32 towards zero.
    /// Only the products that `takes` accepts are summed.
    fn aligned(
        &self,
        a: &[f64; ELEMENTS],
        b: &[f64; ELEMENTS],
        c: &[f64; ELEMENTS],
        c_ty: Type,
        takes: impl Fn(usize) -> bool,
    ) -> [f64; ELEMENTS] {
        let (m, n, k) = (self.a.rows, self.b.columns, self.a.columns);
        let exponents = |ty| {
            let least = least_exponent(ty);
            move |x| exponent(x, least)
        };
        let (a_exponents, b_exponents) = (a.map(exponents(self.a_ty)), b.map(exponents(self.b_ty)));
        let c_exponent = exponents(c_ty);
        let mut sums = [0.0; ELEMENTS];
        for row in 0..m {
            let c = &c[row * n..][..n];
            let mut greatest = [ZERO_EXPONENT; COLUMNS];
            for (greatest, c) in greatest.iter_mut().zip(c) {
                *greatest = c_exponent(*c).max(LEAST_EXPONENT);
            }
            for inner in (0..k).filter(|&inner| takes(inner)) {
                let factor = a_exponents[row * k + inner];
                for (greatest, b) in greatest.iter_mut().zip(&b_exponents[inner * n..][..n]) {
                    *greatest = (*greatest).max(factor + b);
                }
            }
            let scales = greatest.map(|exponent| power_of_two(25 - exponent));
            let line = &mut sums[row * n..][..n];
            for ((sum, c), scale) in line.iter_mut().zip(c).zip(&scales) {
                *sum = (c * scale).trunc();
            }
            for inner in (0..k).filter(|&inner| takes(inner)) {
                let factor = a[row * k + inner];
                let terms = b[inner * n..][..n].iter().zip(&scales);
                for (sum, (b, scale)) in line.iter_mut().zip(terms) {
                    *sum += (factor * b * scale).trunc();
                }
            }
            for (sum, exponent) in line.iter_mut().zip(&greatest) {
                *sum *= power_of_two(exponent - 25);
            }
        }
        sums
    }

    /// Returns the sums of products of all elements, in row-major order.
    fn sums<T: Copy + Default>(
        &self,
        a: &[T; ELEMENTS],
        b: &[T; ELEMENTS],
        step: impl Fn(T, T, T) -> T,
    ) -> [T; ELEMENTS] {
        self.sums_from(&[T::default(); ELEMENTS], a, b, step)
    }

    /// Returns the same from given values.
    #[inline]
    fn sums_from<T: Copy + Default>(
        &self,
        from: &[T; ELEMENTS],
        a: &[T; ELEMENTS],
        b: &[T; ELEMENTS],
        step: impl Fn(T, T, T) -> T,
    ) -> [T; ELEMENTS] {
        let (m, n, k) = (self.a.rows, self.b.columns, self.a.columns);
        let mut sums = *from;
        for row in 0..m {
            // A row of D is updated at once, which vectorises.
            let mut line = [T::default(); COLUMNS];
            line[..n].copy_from_slice(&sums[row * n..][..n]);
            for inner in 0..k {
                let factor = a[row * k + inner];
                for (sum, b) in line[..n].iter_mut().zip(&b[inner * n..][..n]) {
                    *sum = step(*sum, factor, *b);
                }
            }
            sums[row * n..][..n].copy_from_slice(&line[..n]);
        }
        sums
    }

    /// Adds C to integer sums and stores them.
    fn integers(
        &self,
        sums: &[i64; ELEMENTS],
        c: impl Fn(usize, usize) -> u64,
        mut d: impl FnMut(usize, usize, u64),
    ) {
        for lane in 0..LANES {
            for register in 0..self.d.registers {
                let (row, column) = self.d.place(lane, register, 0);
                let accumulator = i64::from((c(register, lane) as u32).cast_signed());
                let sum = sums[row * self.d.columns + column] + accumulator;
                let sum =
                    if self.saturate { sum.clamp(i32::MIN.into(), i32::MAX.into()) } else { sum };
                d(register, lane, u64::from(sum as u32));
            }
        }
    }

    /// One-bit products: the bits of a register are 32 neighbours along k, so that a word is what
    /// an element is elsewhere.
    fn bits(
        &self,
        a: impl Fn(usize, usize) -> u64,
        b: impl Fn(usize, usize) -> u64,
        c: impl Fn(usize, usize) -> u64,
        d: impl FnMut(usize, usize, u64),
    ) {
        let words = self.a.columns / 32;
        let mut left = [0u32; ELEMENTS];
        let mut right = [0u32; ELEMENTS];
        for lane in 0..LANES {
            for register in 0..self.a.registers {
                let (row, column) = self.a.place(lane, register, 0);
                left[row * words + column / 32] = a(register, lane) as u32;
            }
            for register in 0..self.b.registers {
                let (row, column) = self.b.place(lane, register, 0);
                right[column * words + row / 32] = b(register, lane) as u32;
            }
        }
        let mut sums = [0i64; ELEMENTS];
        let n = self.d.columns;
        for (index, sum) in sums[..self.d.rows * n].iter_mut().enumerate() {
            let a = &left[index / n * words..][..words];
            let b = &right[index % n * words..][..words];
            let ones = a.iter().zip(b).map(|(a, b)| if self.and { a & b } else { a ^ b });
            *sum = ones.map(|word| i64::from(word.count_ones())).sum();
        }
        self.integers(&sums, c, d);
    }
}

/// Returns a sum rounded to f32 towards zero; what overflows is infinite all the same.
fn truncated(sum: f64) -> u32 {
    let bits = F32::from_f64::<RZ>(sum);
    if sum.abs() >= 2f64.powi(128) { F32::copysign(bits, F32::INFINITY) } else { bits }
}

/// Gathers a matrix in row-major order.
fn read<T: Copy + Default>(
    tile: &Tile,
    register: impl Fn(usize, usize) -> u64,
    value: impl Fn(u64) -> T,
) -> [T; ELEMENTS] {
    let mut elements = [T::default(); ELEMENTS];
    let mask = u64::MAX >> (64 - tile.bits);
    for lane in 0..LANES {
        for number in 0..tile.registers {
            let bits = register(number, lane);
            for element in 0..tile.per_register {
                let (row, column) = tile.place(lane, number, element);
                let shift = element as u32 * tile.bits;
                elements[row * tile.columns + column] = value(bits >> shift & mask);
            }
        }
    }
    elements
}

/// Spreads a matrix over the registers.
fn write<T: Copy>(
    tile: &Tile,
    elements: &[T; ELEMENTS],
    bits: impl Fn(T) -> u64,
    mut register: impl FnMut(usize, usize, u64),
) {
    for lane in 0..LANES {
        for number in 0..tile.registers {
            let word = (0..tile.per_register).fold(0, |word, element| {
                let (row, column) = tile.place(lane, number, element);
                let element_bits = bits(elements[row * tile.columns + column]);
                word | element_bits << (element as u32 * tile.bits)
            });
            register(number, lane, word);
        }
    }
}

/// Returns the value of a float of a narrow format.
fn float(ty: Type) -> impl Fn(u64) -> f64 {
    move |bits| match ty {
        Type::F16 => F16::to_f64(bits as u16),
        Type::Bf16 => Bf16::to_f64(bits as u16),
        // The low 13 bits are ignored.
        Type::Tf32 => F32::to_f64(bits as u32 & !0x1fff),
        Type::E4m3 => e4m3_to_f32(bits as u8).into(),
        Type::E5m2 => e5m2_to_f32(bits as u8).into(),
        _ => F32::to_f64(bits as u32),
    }
}

/// Returns the value of an integer of 8 or 4 bits.
fn int(ty: Type) -> impl Fn(u64) -> i64 {
    move |bits| match ty {
        Type::S8 => i64::from(bits as u8 as i8),
        Type::S4 => i64::from((bits as u8) << 4).wrapping_shl(56) >> 60,
        _ => bits.cast_signed(),
    }
}

#[cfg(test)]
mod tests;
