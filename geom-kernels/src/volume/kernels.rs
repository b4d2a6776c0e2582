//! The kernels for all types of values, which do no arithmetic with them.

use cuda_safe::kernels;

use super::samples::Part;
use super::value::{Bool, Index, Mask, OnIndex, Rgba8, VolumeValue};
use super::view::{VolumeView, VolumeViewMut};
use crate::geometry::{Source, of_source};
use crate::real::Real;

/// Declares the kernels. Types of the same layout share one.
macro_rules! for_values {
    ([$($value:tt = $lies:literal),+ $(,)?], [$($index:tt = $index_lies:literal),+]) => {
        kernels! {
            #[name = "volume_{}_{T}"]
            pub(super) struct Lookup;
            // SAFETY: thread i reads voxel i and writes value i, if i < n. Of a volume it reads what its view
            // gives.
            unsafe in Source::VOLUME_LOOKUP {
                safe fn lookup<T: VolumeValue in [$($value = $lies,)+ $($index = $index_lies,)+]>(
                    volume: VolumeView<'_, T>, voxels: &[[i32; 3]], n: u32, values: &mut [T],
                ) where n <= voxels.len(), n <= values.len();
            }
        }

        kernels! {
            #[name = "volume_{}_{T}"]
            pub(super) struct Store;
            // SAFETY: thread i reads voxel and value i, if i < n, and writes the value to a voxel in a leaf of the
            // volume by relaxed stores, which don't race with each other; whole warps add to the count by atomic
            // operations.
            unsafe in Source::VOLUME_STORE {
                safe fn store<T: VolumeValue in [$($value = $lies,)+]>(
                    volume: VolumeViewMut<'_, T>, voxels: &[[i32; 3]], n: u32, values: &[T], refused: &mut [u64],
                ) where n <= voxels.len(), n <= values.len(), 1 <= refused.len(), block.x % 32 == 0;
            }
        }

        kernels! {
            #[name = "volume_{}_{T}_{P}"]
            pub(super) struct Nearest;
            // SAFETY: thread i reads position i of the samples, if there are more, and writes value i. Of a volume it
            // reads what its view gives.
            unsafe in Source::VOLUME_NEAREST {
                /// # Safety
                /// There are as many values as samples, of which the positions are of `P`.
                unsafe fn nearest<
                    T: VolumeValue in [$($value = $lies,)+ $($index = $index_lies,)+],
                    P: Real in [f32 = "f32", f64 = "f64"],
                >(volume: VolumeView<'_, T>, samples: Part<'_>, values: &mut [T]);
            }
        }
    };
}

for_values! {
    [
        f32 = "u32", i32 = "u32", u32 = "u32", Rgba8 = "u32", f64 = "i64", i64 = "i64", i16 = "i16", u8 = "u8",
        [f32; 3] = "vec3f", [f64; 3] = "vec3d", [f32; 4] = "vec4f", [f64; 4] = "vec4d", Bool = "bool",
        Mask = "mask",
    ],
    [Index = "index", OnIndex = "on_index"]
}
of_source!(Lookup, Source::VOLUME_LOOKUP);
of_source!(Store, Source::VOLUME_STORE);
of_source!(Nearest, Source::VOLUME_NEAREST);

kernels! {
    #[name = "volume_{}_{T}"]
    pub(super) struct Active;
    // SAFETY: as for `Lookup`; the flags are bytes.
    unsafe in Source::VOLUME_ACTIVE {
        /// # Safety
        /// The volume's values have the layout of `T`.
        unsafe fn active<T: VolumeValue in [
            u32 = "u32", i64 = "i64", i16 = "i16", u8 = "u8", [f32; 3] = "vec3f", [f64; 3] = "vec3d",
            [f32; 4] = "vec4f", [f64; 4] = "vec4d", Bool = "bool", Mask = "mask", Index = "index",
            OnIndex = "on_index",
        ]>(volume: VolumeView<'_, T>, voxels: &[[i32; 3]], n: u32, active: &mut [u8])
            where n <= voxels.len(), n <= active.len();
    }
}
of_source!(Active, Source::VOLUME_ACTIVE);
