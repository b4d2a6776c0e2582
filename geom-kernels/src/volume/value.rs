//! The types that values of a volume may have.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceRepr;
use nanovdb::ValueType;

use crate::structures::volume::Read;

mod sealed {
    pub trait Sealed {}
}

/// A value of a volume that can be looked up, sampled and stored.
///
/// | type | [`ValueType`] | in kernels |
/// |---|---|---|
/// | `f32`, `f64` | `F32`, `F64` | `float`, `double` |
/// | `i16`, `i32`, `i64`, `u8`, `u32` | `I16`, `I32`, `I64`, `U8`, `U32` | `short`, `int`, `long long`, `unsigned char`, `unsigned` |
/// | `[f32; 3]`, `[f64; 3]`, `[f32; 4]`, `[f64; 4]` | `Vec3F`, `Vec3D`, `Vec4F`, `Vec4D` | `geom::vec3<float>` and the like |
/// | [`Rgba8`] | `Rgba8` | `geom::VolumeRgba` |
/// | [`Bool`], [`Mask`] | `Bool`, `Mask` | `geom::VolumeBool`, `geom::VolumeMask`: one bit |
/// | [`Index`], [`OnIndex`] | `Index`, `OnIndex` | `geom::VolumeIndex`, `geom::VolumeOnIndex`: the number of a voxel |
pub trait VolumeValue:
    Pod + DeviceRepr + std::fmt::Debug + Send + Sync + Read + sealed::Sealed
{
    /// The type of the value in a grid.
    const TYPE: ValueType;

    /// Returns whether one of its numbers differs from the other's by more than this, like `value_differs` of the
    /// kernels (device/geom/volume/build_values.cuh).
    #[doc(hidden)]
    fn differs(&self, other: &Self, tolerance: f64) -> bool;

    /// Returns the value as a number, if it is one real number.
    #[doc(hidden)]
    fn real(&self) -> f64 {
        f64::NAN
    }
}

/// The numbers in values.
trait Number: Copy {
    fn is_apart(self, other: Self, tolerance: f64) -> bool;
    fn wide(self) -> f64 {
        f64::NAN
    }
}

macro_rules! reals {
    ($($real:ty),+) => {$(
        impl Number for $real {
            fn is_apart(self, other: Self, tolerance: f64) -> bool {
                let distance = (f64::from(self) - f64::from(other)).abs();
                // A NaN differs.
                !matches!(distance.partial_cmp(&tolerance), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal))
            }
            fn wide(self) -> f64 {
                self.into()
            }
        }
    )+};
}
reals!(f32, f64);

macro_rules! wholes {
    ($($whole:ty),+) => {$(
        impl Number for $whole {
            fn is_apart(self, other: Self, tolerance: f64) -> bool {
                // The cast rounds down and saturates.
                u64::from(self.abs_diff(other)) > tolerance as u64
            }
        }
    )+};
}
wholes!(u8, i16, i32, u32, i64, u64);

/// Four times 8 bits: red, green, blue, opacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C, align(4))]
pub struct Rgba8(pub [u8; 4]);

/// A bit: 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool(pub u8);

/// Whether a voxel is active, the only information in volumes of this type: 0 or 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Mask(pub u8);

/// The number of a voxel, from 1 on; 0 where nothing is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct Index(pub u64);

/// The number of an active voxel, from 1 on; 0 elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(transparent)]
pub struct OnIndex(pub u64);

// SAFETY: four bytes, which kernels load and store as an `unsigned`, aligned as that is.
unsafe impl DeviceRepr for Rgba8 {}
// SAFETY: transparent, with the layout of the number, which kernels write as `unsigned char`.
unsafe impl DeviceRepr for Bool {}
// SAFETY: as above.
unsafe impl DeviceRepr for Mask {}
// SAFETY: transparent, with the layout of the number, which kernels write as `unsigned long long`.
unsafe impl DeviceRepr for Index {}
// SAFETY: as above.
unsafe impl DeviceRepr for OnIndex {}

macro_rules! values {
    ($($rust:ty: $kind:ident, [$number:ty];)+) => {
        $(
            impl sealed::Sealed for $rust {}
            impl VolumeValue for $rust {
                const TYPE: ValueType = ValueType::$kind;
                fn differs(&self, other: &Self, tolerance: f64) -> bool {
                    let numbers: fn(&Self) -> &[$number] =
                        |value| bytemuck::cast_slice(std::slice::from_ref(value));
                    let mut pairs = numbers(self).iter().zip(numbers(other));
                    pairs.any(|(a, b)| a.is_apart(*b, tolerance))
                }
                fn real(&self) -> f64 {
                    let numbers: &[$number] = bytemuck::cast_slice(std::slice::from_ref(self));
                    match numbers {
                        [number] => number.wide(),
                        _ => f64::NAN,
                    }
                }
            }
        )+
    };
}

values! {
    f32: F32, [f32];
    f64: F64, [f64];
    i16: I16, [i16];
    i32: I32, [i32];
    i64: I64, [i64];
    u8: U8, [u8];
    u32: U32, [u32];
    [f32; 3]: Vec3F, [f32];
    [f64; 3]: Vec3D, [f64];
    [f32; 4]: Vec4F, [f32];
    [f64; 4]: Vec4D, [f64];
    Rgba8: Rgba8, [u8];
    Bool: Bool, [u8];
    Mask: Mask, [u8];
    Index: Index, [u64];
    OnIndex: OnIndex, [u64];
}
