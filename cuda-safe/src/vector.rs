//! CUDA's built-in vector types, with the layout that they have in device code.
//!
//! A kernel's `float4` is 16-aligned, so that a thread moves it by one instruction; `[f32; 4]` is
//! 4-aligned and does not do as a kernel argument or as an element of a `float4*`. These types
//! do: they have the size and the alignment of CUDA's, and the fields `x`, `y`, `z`, `w`.
//!
//! | element | CUDA | 1 | 2 | 3 | 4 |
//! |---|---|---|---|---|---|
//! | `i8`, `u8` | `char`, `uchar` | 1 / 1 | 2 / 2 | 3 / 1 | 4 / 4 |
//! | `i16`, `u16` | `short`, `ushort` | 2 / 2 | 4 / 4 | 6 / 2 | 8 / 8 |
//! | `i32`, `u32`, `f32` | `int`, `uint`, `float` | 4 / 4 | 8 / 8 | 12 / 4 | 16 / 16 |
//! | `i64`, `u64`, `f64` | `longlong`, `ulonglong`, `double` | 8 / 8 | 16 / 16 | 24 / 8 | 32 / 16 |
//!
//! Each cell is the size and the alignment in bytes. Three of a kind are packed like an array:
//! a `float3*` has no padding, and no wide loads.
//!
//! CUDA 13 has two types of four 8-byte elements: `double4_16a`, which is what plain `double4`
//! always was, and the 32-aligned `double4_32a`. [`Double4`], [`LongLong4`] and [`ULongLong4`]
//! are the 16-aligned ones.
//!
//! C++'s `long` has 8 bytes on Linux and 4 on Windows, in device code as on the host, so
//! [`Long4`] and its siblings are other names for the types that have its layout.
//!
//! ```
//! use cuda_safe::vector::Float4;
//!
//! let v = Float4::new(1.0, 2.0, 3.0, 4.0);
//! assert_eq!(v.w, 4.0);
//! assert_eq!(<[f32; 4]>::from(v), [1.0, 2.0, 3.0, 4.0]);
//! ```

use bytemuck::{Pod, Zeroable};

use crate::launch::DeviceRepr;

/// CUDA's rule: three elements are aligned like one, the others to their size, 16 at most.
const fn alignment(element: usize, count: usize) -> usize {
    let size = element * count;
    match count {
        3 => element,
        _ if size < 16 => size,
        _ => 16,
    }
}

/// Defines vector types. `derive` lists what these elements can do and floats cannot.
macro_rules! vectors {
    (derive $more:tt;
     $($name:ident($($field:ident),+):
       $element:ty, $cuda:literal, $count:literal, align $align:literal;)+) => {$(
        #[doc = concat!(
            "CUDA's `", $cuda, "`: ", stringify!($count), " × `", stringify!($element),
            "`, aligned to ", stringify!($align), " bytes."
        )]
        #[doc(alias = $cuda)]
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        #[derive $more]
        #[repr(C, align($align))]
        pub struct $name {
            $(
                #[doc = concat!("The component `", stringify!($field), "`.")]
                pub $field: $element,
            )+
        }

        impl $name {
            /// Creates a vector of these components.
            #[must_use]
            pub const fn new($($field: $element),+) -> Self {
                Self { $($field),+ }
            }
        }

        impl From<[$element; $count]> for $name {
            fn from([$($field),+]: [$element; $count]) -> Self {
                Self { $($field),+ }
            }
        }

        impl From<$name> for [$element; $count] {
            fn from(vector: $name) -> Self {
                [$(vector.$field),+]
            }
        }

        const _: () = {
            assert!(size_of::<$name>() == $count * size_of::<$element>());
            assert!(align_of::<$name>() == alignment(size_of::<$element>(), $count));
        };

        // SAFETY: all fields are numbers, for which all zeros is a value.
        unsafe impl Zeroable for $name {}

        // SAFETY: repr(C) over numbers, for which every bit pattern is a value; the assertion
        // above shows that the fields fill the type, so there is no padding.
        unsafe impl Pod for $name {}

        // SAFETY: size and alignment are those of CUDA's type, shown by the assertions above, and
        // the components follow each other in the same order.
        unsafe impl DeviceRepr for $name {}
    )+};
}

vectors! { derive(Eq, Hash);
    Char1(x): i8, "char1", 1, align 1;
    Char2(x, y): i8, "char2", 2, align 2;
    Char3(x, y, z): i8, "char3", 3, align 1;
    Char4(x, y, z, w): i8, "char4", 4, align 4;
    UChar1(x): u8, "uchar1", 1, align 1;
    UChar2(x, y): u8, "uchar2", 2, align 2;
    UChar3(x, y, z): u8, "uchar3", 3, align 1;
    UChar4(x, y, z, w): u8, "uchar4", 4, align 4;
    Short1(x): i16, "short1", 1, align 2;
    Short2(x, y): i16, "short2", 2, align 4;
    Short3(x, y, z): i16, "short3", 3, align 2;
    Short4(x, y, z, w): i16, "short4", 4, align 8;
    UShort1(x): u16, "ushort1", 1, align 2;
    UShort2(x, y): u16, "ushort2", 2, align 4;
    UShort3(x, y, z): u16, "ushort3", 3, align 2;
    UShort4(x, y, z, w): u16, "ushort4", 4, align 8;
    Int1(x): i32, "int1", 1, align 4;
    Int2(x, y): i32, "int2", 2, align 8;
    Int3(x, y, z): i32, "int3", 3, align 4;
    Int4(x, y, z, w): i32, "int4", 4, align 16;
    UInt1(x): u32, "uint1", 1, align 4;
    UInt2(x, y): u32, "uint2", 2, align 8;
    UInt3(x, y, z): u32, "uint3", 3, align 4;
    UInt4(x, y, z, w): u32, "uint4", 4, align 16;
    LongLong1(x): i64, "longlong1", 1, align 8;
    LongLong2(x, y): i64, "longlong2", 2, align 16;
    LongLong3(x, y, z): i64, "longlong3", 3, align 8;
    LongLong4(x, y, z, w): i64, "longlong4", 4, align 16;
    ULongLong1(x): u64, "ulonglong1", 1, align 8;
    ULongLong2(x, y): u64, "ulonglong2", 2, align 16;
    ULongLong3(x, y, z): u64, "ulonglong3", 3, align 8;
    ULongLong4(x, y, z, w): u64, "ulonglong4", 4, align 16;
}

vectors! { derive();
    Float1(x): f32, "float1", 1, align 4;
    Float2(x, y): f32, "float2", 2, align 8;
    Float3(x, y, z): f32, "float3", 3, align 4;
    Float4(x, y, z, w): f32, "float4", 4, align 16;
    Double1(x): f64, "double1", 1, align 8;
    Double2(x, y): f64, "double2", 2, align 16;
    Double3(x, y, z): f64, "double3", 3, align 8;
    Double4(x, y, z, w): f64, "double4", 4, align 16;
}

/// Names the vectors of C++'s `long` after those of the same size on each system.
macro_rules! long_vectors {
    ($($name:ident, $cuda:literal: $long:ident, on Windows $int:ident;)+) => {$(
        #[doc = concat!("CUDA's `", $cuda, "`, whose elements have 8 bytes; on Windows, 4.")]
        #[doc(alias = $cuda)]
        #[cfg(not(windows))]
        pub type $name = $long;

        #[doc = concat!("CUDA's `", $cuda, "`, whose elements have 4 bytes; except on Windows, 8.")]
        #[doc(alias = $cuda)]
        #[cfg(windows)]
        pub type $name = $int;
    )+};
}

long_vectors! {
    Long1, "long1": LongLong1, on Windows Int1;
    Long2, "long2": LongLong2, on Windows Int2;
    Long3, "long3": LongLong3, on Windows Int3;
    Long4, "long4": LongLong4, on Windows Int4;
    ULong1, "ulong1": ULongLong1, on Windows UInt1;
    ULong2, "ulong2": ULongLong2, on Windows UInt2;
    ULong3, "ulong3": ULongLong3, on Windows UInt3;
    ULong4, "ulong4": ULongLong4, on Windows UInt4;
}

#[cfg(test)]
mod tests {
    use std::ffi::c_long;
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn components_lie_in_the_order_x_y_z_w() {
        let bytes: [u8; 4] = bytemuck::cast(UChar4::new(1, 2, 3, 4));
        assert_eq!(bytes, [1, 2, 3, 4]);
        assert_eq!(<[f32; 3]>::from(Float3 { x: 1.0, y: 2.0, z: 3.0 }), [1.0, 2.0, 3.0]);
        assert_eq!(Double2::from([1.0, 2.0]), Double2 { x: 1.0, y: 2.0 });
    }

    #[test]
    fn a_slice_of_floats_is_not_taken_for_float4_unless_aligned() {
        let floats = [Float4::default(); 2];
        let floats: &[f32] = bytemuck::cast_slice(&floats);
        assert_eq!(bytemuck::try_cast_slice::<f32, Float4>(floats).map(<[_]>::len), Ok(2));
        assert!(bytemuck::try_cast_slice::<f32, Float4>(&floats[1..5]).is_err());
        // float3 has the alignment of its element.
        assert_eq!(bytemuck::try_cast_slice::<f32, Float3>(&floats[1..7]).map(<[_]>::len), Ok(2));
    }

    #[test]
    fn members_of_structs_fall_where_cuda_puts_them() {
        // struct { char a; float3 b; char c; float4 d; double4 e; }: 0, 4, 16, 32, 48; 80 in all.
        #[repr(C)]
        struct Mixed {
            a: i8,
            b: Float3,
            c: i8,
            d: Float4,
            e: Double4,
        }
        assert_eq!(
            [
                offset_of!(Mixed, a),
                offset_of!(Mixed, b),
                offset_of!(Mixed, c),
                offset_of!(Mixed, d),
                offset_of!(Mixed, e),
            ],
            [0, 4, 16, 32, 48]
        );
        assert_eq!((size_of::<Mixed>(), align_of::<Mixed>()), (80, 16));
    }

    #[test]
    fn vectors_of_long_have_the_size_of_cs_long() {
        assert_eq!(size_of::<Long1>(), size_of::<c_long>());
        assert_eq!(align_of::<Long2>(), 2 * size_of::<c_long>());
        assert_eq!(size_of::<ULong3>(), 3 * size_of::<c_long>());
        assert_eq!(align_of::<Long4>(), 16);
    }
}
