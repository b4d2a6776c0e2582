//! The types of values, the classes of grids, and the format's versions.

use std::fmt;

use crate::error::{Error, Result};
use crate::layout::{self, NodeLayout};

macro_rules! value_types {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $name:literal;)*) => {
        /// The types of values that this crate supports. The numbers are the format's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum ValueType {
            $($(#[$doc])* $variant = $code,)*
        }

        impl ValueType {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the type with a number.
            ///
            /// # Errors
            /// [`Error::UnsupportedType`], with the type's name if the format has one: half floats,
            /// quantized floats, indices with a mask, points, small vectors.
            pub fn from_code(code: u32) -> Result<Self> {
                match code {
                    $($code => Ok(Self::$variant),)*
                    _ => Err(Error::UnsupportedType { code, name: unsupported_name(code) }),
                }
            }

            /// Returns the name that NanoVDB has for it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

value_types! {
    /// `f32`.
    F32 = 1, "float";
    /// `f64`.
    F64 = 2, "double";
    /// `i16`.
    I16 = 3, "int16";
    /// `i32`.
    I32 = 4, "int32";
    /// `i64`.
    I64 = 5, "int64";
    /// `[f32; 3]`.
    Vec3F = 6, "Vec3f";
    /// `[f64; 3]`.
    Vec3D = 7, "Vec3d";
    /// No values: voxels are active or not.
    Mask = 8, "Mask";
    /// `u32`.
    U32 = 10, "uint32";
    /// `bool`, a bit for each voxel.
    Bool = 11, "bool";
    /// `[u8; 4]`: red, green, blue, opacity.
    Rgba8 = 12, "RGBA8";
    /// `[f32; 4]`.
    Vec4F = 17, "Vec4f";
    /// `[f64; 4]`.
    Vec4D = 18, "Vec4d";
    /// The values are elsewhere: all voxels of leaves have an index, 0 is the background's.
    Index = 19, "Index";
    /// The values are elsewhere: active voxels have an index, 0 is the background's.
    OnIndex = 20, "OnIndex";
    /// `u8`.
    U8 = 26, "uint8";
}

fn unsupported_name(code: u32) -> &'static str {
    match code {
        9 => "Half",
        13 => "Float4",
        14 => "Float8",
        15 => "Float16",
        16 => "FloatN",
        21 => "IndexMask",
        22 => "OnIndexMask",
        23 => "PointIndex",
        24 => "Vec3u8",
        25 => "Vec3u16",
        _ => "unknown",
    }
}

impl ValueType {
    /// Its number.
    #[must_use]
    pub fn code(self) -> u32 {
        self as u32
    }

    /// Returns where things lie in nodes with such values.
    #[must_use]
    pub fn layout(self) -> &'static NodeLayout {
        layout::of(self)
    }

    /// Returns whether values are indices into an array outside.
    #[must_use]
    pub fn is_index(self) -> bool {
        matches!(self, Self::Index | Self::OnIndex)
    }

    /// Returns whether version 32.3 of the format has it, or only 32.6 and later do.
    #[must_use]
    pub fn is_in_version_3(self) -> bool {
        self.code() <= Self::Vec4D.code()
    }

    /// Returns whether nodes have minima, maxima, averages and deviations.
    pub(crate) fn has_statistics(self) -> bool {
        !self.is_index() && !matches!(self, Self::Mask | Self::Bool)
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The purpose of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct GridClass(pub u32);

impl GridClass {
    /// Anything.
    pub const UNKNOWN: Self = Self(0);
    /// Distances from a surface in a narrow band, negative inside.
    pub const LEVEL_SET: Self = Self(1);
    /// Densities.
    pub const FOG_VOLUME: Self = Self(2);
    /// Velocities on the faces of cells.
    pub const STAGGERED: Self = Self(3);
    /// Indices of points.
    pub const POINT_INDEX: Self = Self(4);
    /// Points.
    pub const POINT_DATA: Self = Self(5);
    /// Active voxels without values.
    pub const TOPOLOGY: Self = Self(6);
    /// Coloured cubes.
    pub const VOXEL_VOLUME: Self = Self(7);
    /// Indices into an array.
    pub const INDEX_GRID: Self = Self(8);
    /// Indices into an array of tensors.
    pub const TENSOR_GRID: Self = Self(9);
    /// The first number that is none of these.
    pub(crate) const END: u32 = 10;

    /// Returns the class's number.
    #[must_use]
    pub fn code(self) -> u32 {
        self.0
    }
}

impl fmt::Display for GridClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0 => "unknown",
            1 => "level set",
            2 => "fog volume",
            3 => "staggered",
            4 => "point index",
            5 => "point data",
            6 => "topology",
            7 => "voxel volume",
            8 => "index grid",
            9 => "tensor grid",
            n => return write!(f, "class {n}"),
        };
        f.write_str(name)
    }
}

/// A version of the format. The major number counts changes of the ABI; all of 32 have one layout
/// of nodes, but leaves of indices, which are others since 32.6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(u32);

impl Version {
    /// The version that [`Format::Compatible`](crate::Format) writes.
    pub const COMPATIBLE: Self = Self::new(32, 3, 3);
    /// The version that [`Format::Current`](crate::Format) writes.
    pub const CURRENT: Self = Self::new(32, 8, 0);
    /// Since this version leaves of indices have their present form, and blind data has its values' size.
    pub(crate) const INDEX: Self = Self::new(32, 6, 0);
    /// The last one with a checksum of nodes, not of blocks.
    pub(crate) const NODE_CHECKSUM: Self = Self::new(32, 6, 0);

    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        Self(major << 21 | minor << 10 | patch)
    }

    /// As it is stored: 11, 11 and 10 bits.
    #[must_use]
    pub const fn from_code(code: u32) -> Self {
        Self(code)
    }

    /// As it is stored.
    #[must_use]
    pub const fn code(self) -> u32 {
        self.0
    }

    /// Returns the number of the ABI.
    #[must_use]
    pub const fn major(self) -> u32 {
        self.0 >> 21
    }

    /// Returns the number of the interface.
    #[must_use]
    pub const fn minor(self) -> u32 {
        self.0 >> 10 & 0x7ff
    }

    /// Returns the number of the correction.
    #[must_use]
    pub const fn patch(self) -> u32 {
        self.0 & 0x3ff
    }

    /// Returns whether this crate reads it.
    #[must_use]
    pub const fn is_supported(self) -> bool {
        self.major() == 32
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.patch())
    }
}
