//! Integer arithmetic of 8 to 64 bits ("Integer Arithmetic Instructions", "Extended-Precision
//! Integer Arithmetic Instructions", "Shift").

use super::Bits;

/// An integer type of PTX. Sources and results are bits, whatever the sign.
pub(crate) trait Int: Copy + 'static {
    /// The register.
    type Bits: Bits;
    /// Bits of a value.
    const WIDTH: u32;
    /// Whether the type is signed.
    const SIGNED: bool;
    /// The greatest value.
    const MAX: u64;
    /// The least value, sign-extended.
    const MIN: i64;

    /// Returns the value, sign- or zero-extended to 64 bits.
    fn extend(a: Self::Bits) -> u64;

    /// `add`
    fn add(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `add.sat`
    fn add_sat(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `sub`
    fn sub(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `sub.sat`
    fn sub_sat(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `mul.lo`
    fn mul_lo(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `mul.hi`
    fn mul_hi(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `mad.hi.sat`: the sum saturates.
    fn mad_hi_sat(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits {
        Self::add_sat(Self::mul_hi(a, b), c)
    }
    /// `mad.lo`
    #[inline(always)]
    fn mad_lo(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits {
        Self::add(Self::mul_lo(a, b), c)
    }
    /// `mad.hi`
    #[inline(always)]
    fn mad_hi(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits {
        Self::add(Self::mul_hi(a, b), c)
    }
    /// `div`. A zero divisor gives all ones (the manual leaves it open; the H200 gives that) and the
    /// least value divided by -1 is itself.
    fn div(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `rem`, of the dividend's sign. A zero divisor gives all ones, as for [`Int::div`].
    fn rem(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `abs`; the least value stays.
    fn abs(a: Self::Bits) -> Self::Bits;
    /// `neg`
    fn neg(a: Self::Bits) -> Self::Bits;
    /// `min`
    fn min(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `max`
    fn max(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `min.relu`: never negative.
    #[inline(always)]
    fn min_relu(a: Self::Bits, b: Self::Bits) -> Self::Bits {
        Self::max(Self::min(a, b), Self::Bits::narrow(0))
    }
    /// `max.relu`: never negative.
    #[inline(always)]
    fn max_relu(a: Self::Bits, b: Self::Bits) -> Self::Bits {
        Self::max(Self::max(a, b), Self::Bits::narrow(0))
    }
    /// `sad`: `c + |a - b|`
    fn sad(a: Self::Bits, b: Self::Bits, c: Self::Bits) -> Self::Bits;

    /// `a == b`
    fn eq(a: Self::Bits, b: Self::Bits) -> bool;
    /// `a < b`
    fn lt(a: Self::Bits, b: Self::Bits) -> bool;
    /// `a <= b`
    fn le(a: Self::Bits, b: Self::Bits) -> bool;

    /// `and`
    fn and(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `or`
    fn or(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `xor`
    fn xor(a: Self::Bits, b: Self::Bits) -> Self::Bits;
    /// `not`
    fn not(a: Self::Bits) -> Self::Bits;
    /// `cnot`: 1 for zero, else 0.
    #[inline(always)]
    fn cnot(a: Self::Bits) -> Self::Bits {
        Self::Bits::narrow(u64::from(a.widen() == 0))
    }
    /// `shl`; a count past the width gives 0.
    fn shl(a: Self::Bits, n: u32) -> Self::Bits;
    /// `shr`; a count past the width gives 0, of a signed type the sign.
    fn shr(a: Self::Bits, n: u32) -> Self::Bits;

    /// `add.cc`, `addc`: the sum with a carry in, and the carry out.
    fn add_carry(a: Self::Bits, b: Self::Bits, carry: bool) -> (Self::Bits, bool);
    /// `mad.lo.cc`, `madc.lo`: the carry is the addition's.
    #[inline(always)]
    fn mad_lo_carry(
        a: Self::Bits,
        b: Self::Bits,
        c: Self::Bits,
        carry: bool,
    ) -> (Self::Bits, bool) {
        Self::add_carry(Self::mul_lo(a, b), c, carry)
    }
    /// `mad.hi.cc`, `madc.hi`: the carry is the addition's.
    #[inline(always)]
    fn mad_hi_carry(
        a: Self::Bits,
        b: Self::Bits,
        c: Self::Bits,
        carry: bool,
    ) -> (Self::Bits, bool) {
        Self::add_carry(Self::mul_hi(a, b), c, carry)
    }

    /// `bfe`: `length` bits from `position`; past the top the extracted sign or 0. Of 32-bit types
    /// both count modulo 256; of 64-bit types the H200 takes them whole.
    fn bfe(a: Self::Bits, position: u32, length: u32) -> Self::Bits;
    /// `bfind`: the position of the highest bit that differs from the sign; `u32::MAX` if none.
    fn bfind(a: Self::Bits) -> u32;
    /// `bfind.shiftamt`: how far to shift that bit to the top; `u32::MAX` if none.
    #[inline(always)]
    fn bfind_shift(a: Self::Bits) -> u32 {
        let position = Self::bfind(a);
        if position == u32::MAX { position } else { Self::WIDTH - 1 - position }
    }
    /// `popc`
    fn popc(a: Self::Bits) -> u32;
    /// `clz`
    fn clz(a: Self::Bits) -> u32;
    /// `brev`
    fn brev(a: Self::Bits) -> Self::Bits;
    /// `bfi`: `length` bits of `a` into `b` at `position`, which count as for [`Int::bfe`].
    fn bfi(a: Self::Bits, b: Self::Bits, position: u32, length: u32) -> Self::Bits;
}

/// The types whose product has another type: `mul.wide`, `mad.wide`.
pub(crate) trait Wide: Int {
    /// The type of the product.
    type Product: Int;
    /// `mul.wide`
    fn mul_wide(a: Self::Bits, b: Self::Bits) -> <Self::Product as Int>::Bits;
    /// `mad.wide`
    #[inline(always)]
    fn mad_wide(
        a: Self::Bits,
        b: Self::Bits,
        c: <Self::Product as Int>::Bits,
    ) -> <Self::Product as Int>::Bits {
        Self::Product::add(Self::mul_wide(a, b), c)
    }
}

/// Defines a marker: its name, the Rust type of its values, of its bits, of twice the width, and
/// of the unsigned absolute difference.
macro_rules! int {
    ($(#[$doc:meta])* $name:ident, $value:ident, $bits:ident, $double:ident, $signed:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub(crate) enum $name {}

        impl $name {
            /// Position and length of a bit field as the instruction takes them.
            #[inline(always)]
            fn field(position: u32, length: u32) -> (u32, u32) {
                if $bits::BITS == 64 { (position, length) } else { (position & 255, length & 255) }
            }
        }

        #[allow(
            clippy::cast_lossless, clippy::unnecessary_cast, trivial_numeric_casts,
            reason = "bits and values of one type are the same bits"
        )]
        impl Int for $name {
            type Bits = $bits;
            const WIDTH: u32 = $bits::BITS;
            const SIGNED: bool = $signed;
            const MAX: u64 = $value::MAX as u64;
            const MIN: i64 = $value::MIN as i64;

            #[inline(always)]
            fn extend(a: $bits) -> u64 {
                a as $value as i128 as u64
            }
            #[inline(always)]
            fn add(a: $bits, b: $bits) -> $bits {
                a.wrapping_add(b)
            }
            #[inline(always)]
            fn add_sat(a: $bits, b: $bits) -> $bits {
                (a as $value).saturating_add(b as $value) as $bits
            }
            #[inline(always)]
            fn sub(a: $bits, b: $bits) -> $bits {
                a.wrapping_sub(b)
            }
            #[inline(always)]
            fn sub_sat(a: $bits, b: $bits) -> $bits {
                (a as $value).saturating_sub(b as $value) as $bits
            }
            #[inline(always)]
            fn mul_lo(a: $bits, b: $bits) -> $bits {
                a.wrapping_mul(b)
            }
            #[inline(always)]
            fn mul_hi(a: $bits, b: $bits) -> $bits {
                (((a as $value as $double) * (b as $value as $double)) >> $bits::BITS) as $bits
            }
            #[inline(always)]
            fn div(a: $bits, b: $bits) -> $bits {
                // The divisor is replaced rather than branched around.
                let quotient = (a as $value).wrapping_div(if b == 0 { 1 } else { b as $value });
                if b == 0 { $bits::MAX } else { quotient as $bits }
            }
            #[inline(always)]
            fn rem(a: $bits, b: $bits) -> $bits {
                let remainder = (a as $value).wrapping_rem(if b == 0 { 1 } else { b as $value });
                if b == 0 { $bits::MAX } else { remainder as $bits }
            }
            #[inline(always)]
            fn abs(a: $bits) -> $bits {
                if $signed && (a as $value) < (0 as $value) { a.wrapping_neg() } else { a }
            }
            #[inline(always)]
            fn neg(a: $bits) -> $bits {
                a.wrapping_neg()
            }
            #[inline(always)]
            fn min(a: $bits, b: $bits) -> $bits {
                (a as $value).min(b as $value) as $bits
            }
            #[inline(always)]
            fn max(a: $bits, b: $bits) -> $bits {
                (a as $value).max(b as $value) as $bits
            }
            #[inline(always)]
            fn sad(a: $bits, b: $bits, c: $bits) -> $bits {
                c.wrapping_add((a as $value).abs_diff(b as $value) as $bits)
            }
            #[inline(always)]
            fn eq(a: $bits, b: $bits) -> bool {
                a == b
            }
            #[inline(always)]
            fn lt(a: $bits, b: $bits) -> bool {
                (a as $value) < (b as $value)
            }
            #[inline(always)]
            fn le(a: $bits, b: $bits) -> bool {
                (a as $value) <= (b as $value)
            }
            #[inline(always)]
            fn and(a: $bits, b: $bits) -> $bits {
                a & b
            }
            #[inline(always)]
            fn or(a: $bits, b: $bits) -> $bits {
                a | b
            }
            #[inline(always)]
            fn xor(a: $bits, b: $bits) -> $bits {
                a ^ b
            }
            #[inline(always)]
            fn not(a: $bits) -> $bits {
                !a
            }
            #[inline(always)]
            fn shl(a: $bits, n: u32) -> $bits {
                if n >= $bits::BITS { 0 } else { a << (n & ($bits::BITS - 1)) }
            }
            #[inline(always)]
            fn shr(a: $bits, n: u32) -> $bits {
                if $signed {
                    ((a as $value) >> n.min($bits::BITS - 1)) as $bits
                } else if n >= $bits::BITS {
                    0
                } else {
                    a >> (n & ($bits::BITS - 1))
                }
            }
            #[inline(always)]
            fn add_carry(a: $bits, b: $bits, carry: bool) -> ($bits, bool) {
                let (sum, first) = a.overflowing_add(b);
                let (sum, second) = sum.overflowing_add(carry as $bits);
                (sum, first | second)
            }
            #[inline(always)]
            fn bfe(a: $bits, position: u32, length: u32) -> $bits {
                let (position, length) = Self::field(position, length);
                let shifted = Self::shr(a, position);
                let spare = $bits::BITS.saturating_sub(length).min($bits::BITS - 1);
                let field = (((shifted << spare) as $value) >> spare) as $bits;
                if length == 0 { 0 } else { field }
            }
            #[inline(always)]
            fn bfind(a: $bits) -> u32 {
                let a = if $signed { a ^ Self::shr(a, $bits::BITS - 1) } else { a };
                ($bits::BITS - 1).wrapping_sub(a.leading_zeros())
            }
            #[inline(always)]
            fn popc(a: $bits) -> u32 {
                a.count_ones()
            }
            #[inline(always)]
            fn clz(a: $bits) -> u32 {
                a.leading_zeros()
            }
            #[inline(always)]
            fn brev(a: $bits) -> $bits {
                a.reverse_bits()
            }
            #[inline(always)]
            fn bfi(a: $bits, b: $bits, position: u32, length: u32) -> $bits {
                let (position, length) = Self::field(position, length);
                let ones =
                    if length >= $bits::BITS { $bits::MAX } else { (1 << length) - (1 as $bits) };
                let mask = if position >= $bits::BITS { 0 } else { ones << position };
                let field = if position >= $bits::BITS { 0 } else { a << position };
                (b & !mask) | (field & mask)
            }
        }
    };
}

int!(/** `.u8`: conversions, comparisons in video instructions. */ U8, u8, u8, u16, false);
int!(/** `.s8` */ S8, i8, u8, i16, true);
int!(/** `.u16`, `.b16` */ U16, u16, u16, u32, false);
int!(/** `.s16` */ S16, i16, u16, i32, true);
int!(/** `.u32`, `.b32` */ U32, u32, u32, u64, false);
int!(/** `.s32` */ S32, i32, u32, i64, true);
int!(/** `.u64`, `.b64` */ U64, u64, u64, u128, false);
int!(/** `.s64` */ S64, i64, u64, i128, true);

macro_rules! wide {
    ($($name:ident $product:ident $narrow:ident $double:ident $bits:ident)*) => {$(
        impl Wide for $name {
            type Product = $product;
            #[inline(always)]
            #[allow(
                clippy::cast_lossless, clippy::unnecessary_cast, trivial_numeric_casts,
                reason = "bits and values of one type are the same bits"
            )]
            fn mul_wide(
                a: <Self as Int>::Bits,
                b: <Self as Int>::Bits,
            ) -> <$product as Int>::Bits {
                ((a as $narrow as $double) * (b as $narrow as $double)) as $bits
            }
        }
    )*};
}
wide! {
    U16 U32 u16 u32 u32
    S16 S32 i16 i32 u32
    U32 U64 u32 u64 u64
    S32 S64 i32 i64 u64
}

/// Returns the 48-bit product of the low 24 bits, signed or not.
#[inline(always)]
fn product24<const SIGNED: bool>(a: u32, b: u32) -> u64 {
    if SIGNED {
        let extend = |x: u32| i64::from((x << 8).cast_signed() >> 8);
        (extend(a) * extend(b)).cast_unsigned()
    } else {
        u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)
    }
}

/// `mul24.lo`: the low 32 bits of the product.
#[inline(always)]
pub(crate) fn mul24_lo<const SIGNED: bool>(a: u32, b: u32) -> u32 {
    product24::<SIGNED>(a, b) as u32
}

/// `mul24.hi`: bits 16 to 47 of the product.
#[inline(always)]
pub(crate) fn mul24_hi<const SIGNED: bool>(a: u32, b: u32) -> u32 {
    (product24::<SIGNED>(a, b) >> 16) as u32
}

/// `mad24.lo`
#[inline(always)]
pub(crate) fn mad24_lo<const SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    mul24_lo::<SIGNED>(a, b).wrapping_add(c)
}

/// `mad24.hi`
#[inline(always)]
pub(crate) fn mad24_hi<const SIGNED: bool>(a: u32, b: u32, c: u32) -> u32 {
    mul24_hi::<SIGNED>(a, b).wrapping_add(c)
}

/// `mad24.hi.sat.s32`
#[inline(always)]
pub(crate) fn mad24_hi_sat(a: u32, b: u32, c: u32) -> u32 {
    S32::add_sat(mul24_hi::<true>(a, b), c)
}
