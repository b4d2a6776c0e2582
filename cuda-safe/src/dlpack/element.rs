//! The element types of tensors.

use std::fmt;

use bytemuck::Pod;

use super::abi::DLDataType;

/// A type of which the elements of a tensor can be: a number, or an array of numbers for the last dimension.
///
/// Complex numbers are arrays of two floats, and booleans are `u8`: a byte of other code may hold any value, which a
/// `bool` may not.
pub trait TensorElement: Pod + Scalars {}

impl<T: Pod + Scalars> TensorElement for T {}

/// What a type consists of.
pub trait Scalars: private::Sealed {
    /// The type of its numbers, for tensors that are made of it.
    #[doc(hidden)]
    const SCALAR: DLDataType;
    /// How many there are.
    #[doc(hidden)]
    const COMPONENTS: usize;
}

mod private {
    pub trait Sealed {}
}

/// A number, of which arrays may consist.
pub trait TensorNumber: Scalars {}

macro_rules! numbers {
    ($($(#[$when:meta])* $number:ty: $code:ident;)+) => {$(
        $(#[$when])*
        impl private::Sealed for $number {}
        $(#[$when])*
        impl TensorNumber for $number {}
        $(#[$when])*
        impl Scalars for $number {
            const SCALAR: DLDataType = DLDataType {
                code: DLDataType::$code,
                bits: size_of::<$number>() as u8 * 8,
                lanes: 1,
            };
            const COMPONENTS: usize = 1;
        }
    )+};
}

numbers! {
    i8: INT;
    i16: INT;
    i32: INT;
    i64: INT;
    u8: UINT;
    u16: UINT;
    u32: UINT;
    u64: UINT;
    f32: FLOAT;
    f64: FLOAT;
    #[cfg(feature = "half")]
    half::f16: FLOAT;
    #[cfg(feature = "half")]
    half::bf16: BFLOAT;
}

impl<T: TensorNumber, const N: usize> private::Sealed for [T; N] {}

impl<T: TensorNumber, const N: usize> Scalars for [T; N] {
    const SCALAR: DLDataType = T::SCALAR;
    const COMPONENTS: usize = N;
}

/// How the elements of a tensor are elements of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// One for each.
    Each,
    /// One for each run of so many, which is the last dimension.
    LastDimension(usize),
}

/// Returns how elements of type `given` are elements of `T`; `None` if they are not.
pub(super) fn fit<T: Scalars>(given: DLDataType) -> Option<Fit> {
    let DLDataType { code, bits, .. } = T::SCALAR;
    if given.lanes != 1 {
        return None;
    }
    let complex = code == DLDataType::FLOAT
        && T::COMPONENTS == 2
        && given.code == DLDataType::COMPLEX
        && u16::from(given.bits) == 2 * u16::from(bits);
    let boolean =
        (code, bits) == (DLDataType::UINT, 8) && (given.code, given.bits) == (DLDataType::BOOL, 8);
    let same = (given.code, given.bits) == (code, bits) || boolean;
    match T::COMPONENTS {
        _ if complex => Some(Fit::Each),
        _ if !same => None,
        1 => Some(Fit::Each),
        components => Some(Fit::LastDimension(components)),
    }
}

/// A type as errors name it.
impl fmt::Display for DLDataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            Self::INT => "int",
            Self::UINT => "uint",
            Self::FLOAT => "float",
            3 => "handle",
            Self::BFLOAT => "bfloat",
            Self::COMPLEX => "complex",
            Self::BOOL => "bool",
            7..=14 => "float8 of code ",
            15 | 16 => "float6 of code ",
            17 => "float4 of code ",
            _ => "code ",
        };
        f.write_str(name)?;
        match self.code {
            7.. => write!(f, "{}", self.code)?,
            _ => write!(f, "{}", self.bits)?,
        }
        match self.lanes {
            1 => Ok(()),
            lanes => write!(f, " with {lanes} lanes"),
        }
    }
}
