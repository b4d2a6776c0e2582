//! Vectors and matrices of `f32`, for kernels and for the code around them.
//!
//! They are written in the language of kernels, so they have the same bits on all targets, with `a * b + c` as one
//! operation. Memory of `Vec3` is memory of `[f32; 3]`, and that of `Vec4` is memory of CUDA's `float4`. Other libraries'
//! vectors convert through arrays.
//!
//! ```
//! use gpu_phases::kernel;
//! use gpu_phases::vector::{Mat3, Vec3};
//!
//! #[kernel]
//! fn turn(by: Mat3, x: &[Vec3], out: &mut [Vec3]) {
//!     assert!(x.len() == out.len());
//!     each(out, |i, out| *out = (by * x[i]).normalize());
//! }
//!
//! let quarter = Mat3::from_cols(Vec3::new(0.0, 1.0, 0.0), Vec3::new(-1.0, 0.0, 0.0), Vec3::new(0.0, 0.0, 1.0));
//! let mut out = [Vec3::ZERO; 2];
//! turn::cpu(quarter, &[Vec3::new(2.0, 0.0, 0.0), Vec3::ZERO], &mut out)?;
//! assert_eq!(out.map(Vec3::to_array), [[0.0, 1.0, 0.0], [0.0; 3]]);
//! # Ok::<(), gpu_phases::kernel::CpuError>(())
//! ```

use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use bytemuck::{Pod, Zeroable};

use crate::{Device, device};

macro_rules! vector {
    (
        $doc:literal $name:ident $n:literal $(align($align:literal))?
        { $($field:ident $doc_field:literal),+ } $first:ident $($rest:ident)+
    ) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Default, Device)]
        #[repr(C $(, align($align))?)]
        pub struct $name {
            $(#[doc = $doc_field] pub $field: f32,)+
        }

        // SAFETY: floats without padding.
        unsafe impl Zeroable for $name {}
        // SAFETY: floats without padding, and all bytes are floats.
        unsafe impl Pod for $name {}

        #[device(contract)]
        impl $name {
            /// The vector of zeros.
            pub const ZERO: Self = Self { $($field: 0.0),+ };

            /// Returns the vector of these coordinates.
            #[must_use]
            pub fn new($($field: f32),+) -> Self {
                Self { $($field: $field),+ }
            }

            /// Returns the vector whose coordinates are all the same.
            #[must_use]
            pub fn splat(value: f32) -> Self {
                Self { $($field: value),+ }
            }

            /// Returns the coordinates.
            #[must_use]
            pub fn to_array(self) -> [f32; $n] {
                [$(self.$field),+]
            }

            /// Returns the scalar product.
            #[must_use]
            pub fn dot(self, other: Self) -> f32 {
                self.$first * other.$first $(+ self.$rest * other.$rest)+
            }

            /// Returns the square of the length.
            #[must_use]
            pub fn length_squared(self) -> f32 {
                self.dot(self)
            }

            /// Returns the length.
            #[must_use]
            pub fn length(self) -> f32 {
                self.dot(self).sqrt()
            }

            /// Returns the distance of two points.
            #[must_use]
            pub fn distance(self, other: Self) -> f32 {
                (self - other).length()
            }

            /// Returns the vector of length 1 in this direction, or zero if the length is 0.
            #[must_use]
            pub fn normalize(self) -> Self {
                let length = self.length();
                if length > 0.0 { self * (1.0 / length) } else { Self { $($field: 0.0),+ } }
            }

            /// Returns the product of each pair of coordinates.
            #[must_use]
            pub fn times(self, other: Self) -> Self {
                Self { $($field: self.$field * other.$field),+ }
            }

            /// Returns `self + direction * by`.
            #[must_use]
            pub fn along(self, direction: Self, by: f32) -> Self {
                Self { $($field: self.$field + direction.$field * by),+ }
            }

            /// Returns the point at `t` on the way to another one: this one at 0, the other one at 1.
            #[must_use]
            pub fn lerp(self, other: Self, t: f32) -> Self {
                Self { $($field: self.$field + (other.$field - self.$field) * t),+ }
            }

            /// Returns the lesser of each pair of coordinates.
            #[must_use]
            pub fn min(self, other: Self) -> Self {
                Self { $($field: self.$field.min(other.$field)),+ }
            }

            /// Returns the greater of each pair of coordinates.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self { $($field: self.$field.max(other.$field)),+ }
            }

            /// Returns the absolute value of each coordinate.
            #[must_use]
            pub fn abs(self) -> Self {
                Self { $($field: self.$field.abs()),+ }
            }

            /// Returns each coordinate rounded down.
            #[must_use]
            pub fn floor(self) -> Self {
                Self { $($field: self.$field.floor()),+ }
            }
        }

        vector!(@pair $name Add add AddAssign add_assign + { $($field),+ });
        vector!(@pair $name Sub sub SubAssign sub_assign - { $($field),+ });
        vector!(@scale $name Mul mul MulAssign mul_assign * { $($field),+ });
        vector!(@scale $name Div div DivAssign div_assign / { $($field),+ });

        #[device]
        impl Neg for $name {
            type Output = Self;

            fn neg(self) -> Self {
                Self { $($field: -self.$field),+ }
            }
        }

        impl From<[f32; $n]> for $name {
            fn from([$($field),+]: [f32; $n]) -> Self {
                Self { $($field),+ }
            }
        }

        impl From<$name> for [f32; $n] {
            fn from(vector: $name) -> Self {
                vector.to_array()
            }
        }
    };
    (@pair $name:ident $trait:ident $f:ident $assign:ident $fa:ident $op:tt { $($field:ident),+ }) => {
        #[device]
        impl $trait for $name {
            type Output = Self;

            fn $f(self, other: Self) -> Self {
                Self { $($field: self.$field $op other.$field),+ }
            }
        }

        #[device]
        impl $assign for $name {
            fn $fa(&mut self, other: Self) {
                $(self.$field = self.$field $op other.$field;)+
            }
        }
    };
    (@scale $name:ident $trait:ident $f:ident $assign:ident $fa:ident $op:tt { $($field:ident),+ }) => {
        #[device]
        impl $trait<f32> for $name {
            type Output = Self;

            fn $f(self, by: f32) -> Self {
                Self { $($field: self.$field $op by),+ }
            }
        }

        #[device]
        impl $assign<f32> for $name {
            fn $fa(&mut self, by: f32) {
                $(self.$field = self.$field $op by;)+
            }
        }
    };
}

vector! {
    "A point or a direction in the plane." Vec2 2
    { x "The first coordinate.", y "The second coordinate." } x y
}
vector! {
    "A point, a direction or a colour." Vec3 3
    { x "The first coordinate.", y "The second coordinate.", z "The third coordinate." } x y z
}
vector! {
    "A point with one more number, or a colour with its opacity. It is aligned to 16 bytes, so a device loads it at once."
    Vec4 4 align(16)
    {
        x "The first coordinate.", y "The second coordinate.", z "The third coordinate.",
        w "The fourth coordinate."
    } x y z w
}

#[device(contract, slot = 1)]
impl Vec2 {
    /// Returns the vector of these coordinates.
    #[must_use]
    pub fn from_array(a: [f32; 2]) -> Self {
        Self { x: a[0], y: a[1] }
    }

    /// Returns the area of the parallelogram of the vectors, positive if they turn to the left.
    #[must_use]
    pub fn cross(self, other: Self) -> f32 {
        self.x * other.y - self.y * other.x
    }
}

#[device(contract, slot = 1)]
impl Vec3 {
    /// Returns the vector of these coordinates.
    #[must_use]
    pub fn from_array(a: [f32; 3]) -> Self {
        Self { x: a[0], y: a[1], z: a[2] }
    }

    /// Returns the vector product.
    #[must_use]
    pub fn cross(self, other: Self) -> Self {
        Self {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    /// Returns the vector of these coordinates and a fourth one.
    #[must_use]
    pub fn extend(self, w: f32) -> Vec4 {
        Vec4 { x: self.x, y: self.y, z: self.z, w }
    }

    /// Returns the direction mirrored at a plane with this unit normal.
    #[must_use]
    pub fn reflect(self, normal: Self) -> Self {
        self.along(normal, -2.0 * self.dot(normal))
    }
}

#[device(slot = 1)]
impl Vec4 {
    /// Returns the vector of these coordinates.
    #[must_use]
    pub fn from_array(a: [f32; 4]) -> Self {
        Self { x: a[0], y: a[1], z: a[2], w: a[3] }
    }

    /// Returns the first three coordinates.
    #[must_use]
    pub fn xyz(self) -> Vec3 {
        Vec3 { x: self.x, y: self.y, z: self.z }
    }
}

macro_rules! matrix {
    ($doc:literal $name:ident $vector:ident { $($column:ident $doc_column:literal $field:ident),+ }) => {
        #[doc = $doc]
        #[derive(Debug, Clone, Copy, PartialEq, Default, Device)]
        #[repr(C)]
        pub struct $name {
            $(#[doc = $doc_column] pub $column: $vector,)+
        }

        // SAFETY: floats without padding.
        unsafe impl Zeroable for $name {}
        // SAFETY: floats without padding, and all bytes are floats.
        unsafe impl Pod for $name {}

        #[device(contract)]
        impl $name {
            /// Returns the matrix of these columns.
            #[must_use]
            pub fn from_cols($($column: $vector),+) -> Self {
                Self { $($column: $column),+ }
            }

            /// Returns the diagonal matrix of these numbers.
            #[must_use]
            pub fn from_diagonal(diagonal: $vector) -> Self {
                let mut m = Self { $($column: $vector::splat(0.0)),+ };
                $(m.$column.$field = diagonal.$field;)+
                m
            }

            /// Returns the product of a column and a row.
            #[must_use]
            pub fn outer(column: $vector, row: $vector) -> Self {
                Self { $($column: column * row.$field),+ }
            }

            /// Returns the product of a row and the matrix: that of its transpose and a column.
            #[must_use]
            pub fn transpose_mul(self, row: $vector) -> $vector {
                $vector { $($field: self.$column.dot(row)),+ }
            }

            /// Returns the sum of the numbers on the diagonal.
            #[must_use]
            pub fn trace(self) -> f32 {
                0.0 $(+ self.$column.$field)+
            }
        }

        vector!(@pair $name Add add AddAssign add_assign + { $($column),+ });
        vector!(@pair $name Sub sub SubAssign sub_assign - { $($column),+ });
        vector!(@scale $name Mul mul MulAssign mul_assign * { $($column),+ });

        #[device]
        impl Neg for $name {
            type Output = Self;

            fn neg(self) -> Self {
                Self { $($column: -self.$column),+ }
            }
        }
    };
}

matrix! {
    "A matrix of two columns." Mat2 Vec2
    { x_axis "The first column." x, y_axis "The second column." y }
}
matrix! {
    "A matrix of three columns." Mat3 Vec3
    { x_axis "The first column." x, y_axis "The second column." y, z_axis "The third column." z }
}

#[device(contract, slot = 1)]
impl Mat2 {
    /// Returns the matrix with rows and columns exchanged.
    #[must_use]
    pub fn transpose(self) -> Self {
        Self {
            x_axis: Vec2 { x: self.x_axis.x, y: self.y_axis.x },
            y_axis: Vec2 { x: self.x_axis.y, y: self.y_axis.y },
        }
    }

    /// Returns the determinant.
    #[must_use]
    pub fn determinant(self) -> f32 {
        self.x_axis.cross(self.y_axis)
    }

    /// Returns the inverse; infinite or NaN if the determinant is 0.
    #[must_use]
    pub fn inverse(self) -> Self {
        let by = 1.0 / self.determinant();
        Self {
            x_axis: Vec2 { x: self.y_axis.y * by, y: -self.x_axis.y * by },
            y_axis: Vec2 { x: -self.y_axis.x * by, y: self.x_axis.x * by },
        }
    }
}

#[device(contract, slot = 1)]
impl Mat3 {
    /// Returns the matrix with rows and columns exchanged.
    #[must_use]
    pub fn transpose(self) -> Self {
        let (a, b, c) = (self.x_axis, self.y_axis, self.z_axis);
        Self {
            x_axis: Vec3 { x: a.x, y: b.x, z: c.x },
            y_axis: Vec3 { x: a.y, y: b.y, z: c.y },
            z_axis: Vec3 { x: a.z, y: b.z, z: c.z },
        }
    }

    /// Returns the determinant.
    #[must_use]
    pub fn determinant(self) -> f32 {
        self.x_axis.dot(self.y_axis.cross(self.z_axis))
    }

    /// Returns the inverse; infinite or NaN if the determinant is 0.
    #[must_use]
    pub fn inverse(self) -> Self {
        let (a, b, c) = (self.x_axis, self.y_axis, self.z_axis);
        let by = 1.0 / self.determinant();
        let rows =
            Self { x_axis: b.cross(c) * by, y_axis: c.cross(a) * by, z_axis: a.cross(b) * by };
        rows.transpose()
    }
}

macro_rules! products {
    ($($name:ident $vector:ident { $first:ident $first_field:ident $(, $column:ident $field:ident)+ })+) => {$(
        #[device(contract)]
        impl Mul<$vector> for $name {
            type Output = $vector;

            fn mul(self, v: $vector) -> $vector {
                (self.$first * v.$first_field)$(.along(self.$column, v.$field))+
            }
        }

        #[device]
        impl Mul for $name {
            type Output = Self;

            fn mul(self, other: Self) -> Self {
                Self { $first: self * other.$first $(, $column: self * other.$column)+ }
            }
        }
    )+};
}

products! {
    Mat2 Vec2 { x_axis x, y_axis y }
    Mat3 Vec3 { x_axis x, y_axis y, z_axis z }
}
