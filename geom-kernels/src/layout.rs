//! What host and device both declare. Each layout is stated in three places: the device header asserts
//! it (`geom/layout.cuh`), [`layout!`] asserts it of the Rust type, and a test compiles what is listed
//! here against the headers. So neither side can change alone.

use bytemuck::{Pod, Zeroable};
use cuda_safe::DeviceRepr;

use crate::hash_grid::layout::{FrameRequest, Header, RawHashGrid, RawPoints, RawQueries};
use crate::hash_grid::{GridPoint32, GridPoint64};

/// A box along the axes, closed: its faces belong to it. `geom::aabb<T>` of `geom/math/box.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(C)]
pub struct Aabb<T> {
    /// The least coordinates.
    pub lower: [T; 3],
    /// The greatest coordinates. The box is empty if one is less than its `lower`.
    pub upper: [T; 3],
}

/// For one type of coordinates.
macro_rules! of {
    ($float:ty) => {
        impl Aabb<$float> {
            /// The empty box that grows to anything: from infinity to minus infinity.
            pub const EMPTY: Self =
                Self { lower: [<$float>::INFINITY; 3], upper: [<$float>::NEG_INFINITY; 3] };
        }
        // SAFETY: six numbers of which zero is one.
        unsafe impl Zeroable for Aabb<$float> {}
        // SAFETY: repr(C), six numbers without padding, of which any bits are one.
        unsafe impl Pod for Aabb<$float> {}
        // SAFETY: repr(C); LAYOUTS has it as geom::aabb.
        unsafe impl DeviceRepr for Aabb<$float> {}
    };
}
of!(f32);
of!(f64);

/// How a structure lies in memory, in bytes.
#[doc(hidden)]
#[derive(Debug)]
pub struct Layout {
    /// In C++.
    pub name: &'static str,
    /// The header that declares it.
    pub header: &'static str,
    pub size: usize,
    pub align: usize,
    /// Names and offsets.
    pub fields: &'static [(&'static str, usize)],
}

/// The [`Layout`] of a Rust type, which has it or does not compile:
/// `layout!(Aabb<f32>, "geom::aabb<float>", "geom/math/box.cuh", 24, 4, { lower: 0, upper: 12 })`.
macro_rules! layout {
    ($rust:ty, $name:literal, $header:literal, $size:literal, $align:literal,
     { $($field:ident: $offset:literal),* $(,)? }) => {{
        const _: () = {
            assert!(size_of::<$rust>() == $size, concat!("the size of ", $name));
            assert!(align_of::<$rust>() == $align, concat!("the alignment of ", $name));
            $(assert!(
                std::mem::offset_of!($rust, $field) == $offset,
                concat!("where ", $name, "::", stringify!($field), " lies"),
            );)*
        };
        Layout {
            name: $name,
            header: $header,
            size: $size,
            align: $align,
            fields: &[$((stringify!($field), $offset)),*],
        }
    }};
}

const LAYOUTS: &[Layout] = &[
    layout!(Aabb<f32>, "geom::aabb<float>", "geom/math/box.cuh", 24, 4, { lower: 0, upper: 12 }),
    layout!(Aabb<f64>, "geom::aabb<double>", "geom/math/box.cuh", 48, 8, { lower: 0, upper: 24 }),
    layout!([f32; 2], "geom::vec2<float>", "geom/math/vec.cuh", 8, 4, {}),
    layout!([f32; 3], "geom::vec3<float>", "geom/math/vec.cuh", 12, 4, {}),
    layout!([f32; 4], "geom::vec4<float>", "geom/math/vec.cuh", 16, 4, {}),
    layout!([f64; 3], "geom::vec3<double>", "geom/math/vec.cuh", 24, 8, {}),
    layout!([i32; 3], "geom::vec3<int>", "geom/math/vec.cuh", 12, 4, {}),
    layout!(Header<f32>, "geom::GridHeader<float>", "geom/hash_grid/types.cuh", 208, 8, { row_origin: 0, row_inverse: 24, row_cells: 48, no_key: 72, origin: 80, inverse: 92, size: 104, margin: 116, period: 128, inverse_period: 140, radius: 152, cells: 156, cells_of_group: 168, groups: 172, mode: 176, periodic: 180, points: 184, left_out: 188, bits: 192 }),
    layout!(RawHashGrid, "geom::HashGrid<float>", "geom/hash_grid/types.cuh", 56, 8, { header: 0, points: 8, groups: 16, starts: 24, keys: 32, table: 40, table_mask: 48, length: 52 }),
    layout!(RawPoints, "geom::grid::Points<float>", "geom/hash_grid/build.cuh", 40, 8, { data: 0, stride: 8, component: 16, groups: 24, length: 32, unused: 36 }),
    layout!(RawQueries<f32>, "geom::grid::Queries<float>", "geom/hash_grid/batch.cuh", 64, 8, { ordered: 0, data: 8, stride: 16, component: 24, radii: 32, groups: 40, radius: 48, length: 52, groups_in_order: 56 }),
    layout!(Header<f64>, "geom::GridHeader<double>", "geom/hash_grid/types.cuh", 280, 8, { row_origin: 0, row_inverse: 24, row_cells: 48, no_key: 72, origin: 80, inverse: 104, size: 128, margin: 152, period: 176, inverse_period: 200, radius: 224, cells: 232, cells_of_group: 244, groups: 248, mode: 252, periodic: 256, points: 260, left_out: 264, bits: 268 }),
    layout!(RawHashGrid, "geom::HashGrid<double>", "geom/hash_grid/types.cuh", 56, 8, { header: 0, points: 8, groups: 16, starts: 24, keys: 32, table: 40, table_mask: 48, length: 52 }),
    layout!(RawPoints, "geom::grid::Points<double>", "geom/hash_grid/build.cuh", 40, 8, { data: 0, stride: 8, component: 16, groups: 24, length: 32, unused: 36 }),
    layout!(RawQueries<f64>, "geom::grid::Queries<double>", "geom/hash_grid/batch.cuh", 64, 8, { ordered: 0, data: 8, stride: 16, component: 24, radii: 32, groups: 40, radius: 48, length: 56, groups_in_order: 60 }),
    layout!(GridPoint32, "geom::GridPoint<float>", "geom/hash_grid/types.cuh", 16, 16, { index: 12 }),
    layout!(GridPoint64, "geom::GridPoint<double>", "geom/hash_grid/types.cuh", 32, 16, { index: 24, unused: 28 }),
    layout!(FrameRequest, "geom::grid::FrameRequest", "geom/hash_grid/build.cuh", 16, 4, { cells_capacity: 0, groups: 4, x_split: 8, unused: 12 }),
];

/// Every structure that kernels and the host share. For this project's tests.
#[doc(hidden)]
#[must_use]
pub fn layouts() -> &'static [Layout] {
    LAYOUTS
}
