//! Values of voxels as Rust types.

use std::fmt::Debug;

use bytemuck::Zeroable;

use crate::ValueType;
use crate::bytes::{Fields, FieldsMut};

/// A voxel's value, of whatever type the grid has.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Of a grid of [`ValueType::F32`].
    F32(f32),
    /// Of a grid of [`ValueType::F64`].
    F64(f64),
    /// Of a grid of [`ValueType::I16`].
    I16(i16),
    /// Of a grid of [`ValueType::I32`].
    I32(i32),
    /// Of a grid of [`ValueType::I64`].
    I64(i64),
    /// Of a grid of [`ValueType::Vec3F`].
    Vec3F([f32; 3]),
    /// Of a grid of [`ValueType::Vec3D`].
    Vec3D([f64; 3]),
    /// Of a grid of [`ValueType::Mask`]: whether the voxel is active.
    Mask(bool),
    /// Of a grid of [`ValueType::U32`].
    U32(u32),
    /// Of a grid of [`ValueType::Bool`].
    Bool(bool),
    /// Of a grid of [`ValueType::Rgba8`].
    Rgba8([u8; 4]),
    /// Of a grid of [`ValueType::Vec4F`].
    Vec4F([f32; 4]),
    /// Of a grid of [`ValueType::Vec4D`].
    Vec4D([f64; 4]),
    /// Of a grid of [`ValueType::Index`] or [`ValueType::OnIndex`].
    Index(u64),
    /// Of a grid of [`ValueType::U8`].
    U8(u8),
}

mod sealed {
    pub trait Sealed {}
    /// The storage of values. Users do not need it.
    pub trait Storage: Sealed + Copy {
        fn load(bytes: &[u8], at: usize) -> Self;
        fn store(self, bytes: &mut [u8], at: usize);
        /// Returns the value at `n` in a leaf's values, which begin at `at`.
        fn load_in_leaf(bytes: &[u8], at: usize, n: usize) -> Self;
        fn store_in_leaf(self, bytes: &mut [u8], at: usize, n: usize);
        fn into_value(self, value_type: crate::ValueType) -> crate::Value;
        fn distance(self, other: Self) -> f64;
    }
}
pub(crate) use sealed::Storage;

/// A Rust type of voxels' values.
///
/// Masks have `bool`s, whether a voxel is active, and indices are `u64`.
pub trait VoxelValue: Storage + PartialEq + Debug + Send + Sync + 'static {
    /// The types of grids that have such values.
    const TYPES: &'static [ValueType];
    /// The type's name in Rust.
    const NAME: &'static str;
    /// Nothing, black, false.
    const ZERO: Self;
}

macro_rules! elements {
    ($($rust:ty, $variant:ident, $zero:expr, $name:literal, $distance:expr;)*) => {$(
        impl sealed::Sealed for $rust {}
        impl VoxelValue for $rust {
            const TYPES: &'static [ValueType] = &[ValueType::$variant];
            const NAME: &'static str = $name;
            const ZERO: Self = $zero;
        }
        impl Storage for $rust {
            fn load(bytes: &[u8], at: usize) -> Self {
                let mut value = Self::zeroed();
                let from = at.checked_add(size_of::<Self>()).and_then(|end| bytes.get(at..end));
                if let Some(from) = from {
                    bytemuck::bytes_of_mut(&mut value).copy_from_slice(from);
                }
                value
            }
            fn store(self, bytes: &mut [u8], at: usize) {
                bytes.put(at, bytemuck::bytes_of(&self));
            }
            fn load_in_leaf(bytes: &[u8], at: usize, n: usize) -> Self {
                Self::load(bytes, at + n * size_of::<Self>())
            }
            fn store_in_leaf(self, bytes: &mut [u8], at: usize, n: usize) {
                self.store(bytes, at + n * size_of::<Self>());
            }
            fn into_value(self, _: ValueType) -> Value {
                Value::$variant(self)
            }
            fn distance(self, other: Self) -> f64 {
                let distance: fn(Self, Self) -> f64 = $distance;
                distance(self, other)
            }
        }
    )*};
}

/// Returns the greatest distance along an axis. It is infinite if one of the values is NaN, and not if both are.
fn farthest<T: Copy + Into<f64>, const N: usize>(a: [T; N], b: [T; N]) -> f64 {
    a.iter().zip(&b).map(|(a, b)| far((*a).into(), (*b).into())).fold(0.0, f64::max)
}

fn far(a: f64, b: f64) -> f64 {
    match (a - b).abs() {
        distance if distance.is_nan() && (a == b || a.is_nan() && b.is_nan()) => 0.0,
        distance if distance.is_nan() => f64::INFINITY,
        distance => distance,
    }
}

elements! {
    f32, F32, 0.0, "f32", |a, b| far(a.into(), b.into());
    f64, F64, 0.0, "f64", far;
    i16, I16, 0, "i16", |a, b| a.abs_diff(b).into();
    i32, I32, 0, "i32", |a, b| a.abs_diff(b).into();
    i64, I64, 0, "i64", |a, b| a.abs_diff(b) as f64;
    [f32; 3], Vec3F, [0.0; 3], "[f32; 3]", farthest;
    [f64; 3], Vec3D, [0.0; 3], "[f64; 3]", farthest;
    u32, U32, 0, "u32", |a, b| a.abs_diff(b).into();
    [u8; 4], Rgba8, [0; 4], "[u8; 4]", farthest;
    [f32; 4], Vec4F, [0.0; 4], "[f32; 4]", farthest;
    [f64; 4], Vec4D, [0.0; 4], "[f64; 4]", farthest;
    u8, U8, 0, "u8", |a, b| a.abs_diff(b).into();
}

impl sealed::Sealed for bool {}
impl VoxelValue for bool {
    const TYPES: &'static [ValueType] = &[ValueType::Bool, ValueType::Mask];
    const NAME: &'static str = "bool";
    const ZERO: Self = false;
}
impl Storage for bool {
    fn load(bytes: &[u8], at: usize) -> Self {
        bytes.u8(at) != 0
    }
    fn store(self, bytes: &mut [u8], at: usize) {
        bytes.put(at, &[u8::from(self)]);
    }
    fn load_in_leaf(bytes: &[u8], at: usize, n: usize) -> Self {
        bytes.bit(at, n)
    }
    fn store_in_leaf(self, bytes: &mut [u8], at: usize, n: usize) {
        let at = at + n / 8;
        let bit = 1 << (n % 8);
        let byte = bytes.u8(at);
        bytes.put(at, &[if self { byte | bit } else { byte & !bit }]);
    }
    fn into_value(self, value_type: ValueType) -> Value {
        match value_type {
            ValueType::Mask => Value::Mask(self),
            _ => Value::Bool(self),
        }
    }
    fn distance(self, other: Self) -> f64 {
        f64::from(u8::from(self != other))
    }
}

impl sealed::Sealed for u64 {}
impl VoxelValue for u64 {
    const TYPES: &'static [ValueType] = &[ValueType::Index, ValueType::OnIndex];
    const NAME: &'static str = "u64";
    const ZERO: Self = 0;
}
impl Storage for u64 {
    fn load(bytes: &[u8], at: usize) -> Self {
        bytes.u64(at)
    }
    fn store(self, bytes: &mut [u8], at: usize) {
        bytes.put_u64(at, self);
    }
    /// In a leaf of [`ValueType::Index`]: those of `OnIndex` need the mask, see `tree.rs`.
    fn load_in_leaf(bytes: &[u8], at: usize, n: usize) -> Self {
        bytes.u64(at).wrapping_add(n as u64)
    }
    fn store_in_leaf(self, _: &mut [u8], _: usize, _: usize) {}
    fn into_value(self, _: ValueType) -> Value {
        Value::Index(self)
    }
    fn distance(self, other: Self) -> f64 {
        self.abs_diff(other) as f64
    }
}

/// Calls a generic function with the Rust type of a type's values.
macro_rules! with_element {
    ($value_type:expr, $T:ident => $call:expr) => {
        match $value_type {
            $crate::ValueType::F32 => {
                type $T = f32;
                $call
            }
            $crate::ValueType::F64 => {
                type $T = f64;
                $call
            }
            $crate::ValueType::I16 => {
                type $T = i16;
                $call
            }
            $crate::ValueType::I32 => {
                type $T = i32;
                $call
            }
            $crate::ValueType::I64 => {
                type $T = i64;
                $call
            }
            $crate::ValueType::Vec3F => {
                type $T = [f32; 3];
                $call
            }
            $crate::ValueType::Vec3D => {
                type $T = [f64; 3];
                $call
            }
            $crate::ValueType::Mask | $crate::ValueType::Bool => {
                type $T = bool;
                $call
            }
            $crate::ValueType::U32 => {
                type $T = u32;
                $call
            }
            $crate::ValueType::Rgba8 => {
                type $T = [u8; 4];
                $call
            }
            $crate::ValueType::Vec4F => {
                type $T = [f32; 4];
                $call
            }
            $crate::ValueType::Vec4D => {
                type $T = [f64; 4];
                $call
            }
            $crate::ValueType::Index | $crate::ValueType::OnIndex => {
                type $T = u64;
                $call
            }
            $crate::ValueType::U8 => {
                type $T = u8;
                $call
            }
        }
    };
}
pub(crate) use with_element;
