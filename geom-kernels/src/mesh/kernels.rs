//! The kernels of meshes.

use cuda_safe::{Kernel, Result};

use crate::geometry::{Geometry, Group, Source};

/// Declares [`Kernels`]: for each group its source, and its kernels, whose names begin with `mesh_`.
macro_rules! groups {
    ($($group:ident: $Group:ident of $source:ident [$($kernel:ident),+ $(,)?];)+) => {
        /// They are loaded when one of their group is first asked for.
        #[derive(Debug)]
        pub(super) struct Kernels {
            geometry: Geometry,
            $($group: Group<{ [$(stringify!($kernel)),+].len() }>,)+
        }

        impl Kernels {
            pub(super) fn new(geometry: &Geometry) -> Self {
                Self { geometry: geometry.clone(), $($group: Group::default(),)+ }
            }

            $(pub(super) fn $group(&self) -> Result<$Group<'_>> {
                let names = || [$(concat!("mesh_", stringify!($kernel))),+].map(String::from);
                let [$($kernel),+] = self.$group.get(&self.geometry, Source::$source, names)?;
                Ok($Group { $($kernel),+ })
            })+
        }

        $(
            /// Kernels of one source.
            pub(super) struct $Group<'a> {
                $(pub(super) $kernel: &'a Kernel,)+
            }
        )+
    };
}

groups! {
    closest: Closest of MeshClosest [point_keys, closest, within];
    signed: Signed of MeshSigned [signed_by_normal, signed_by_parity, sides];
    winding: WindingNumbers of MeshWinding [winding_numbers, signed_by_winding];
    rays: Rays of MeshRays [nearest_hits, any_hits, count_hits, list_hits];
    evaluate: Evaluate of MeshEvaluate [positions, normals, attributes];
    overlap: Overlaps of MeshOverlap [
        count_faces_in_boxes,
        list_faces_in_boxes,
        count_boxes_in_boxes,
        list_boxes_in_boxes,
        count_faces_in_balls,
        list_faces_in_balls,
        count_boxes_in_balls,
        list_boxes_in_balls,
    ];
}
