//! The kernels that make and list volumes.

use crate::geometry::kernel_groups;

kernel_groups! {
    "volume_",
    build: Build of VolumeBuild [
        index_keys,
        world_keys,
        order,
        tile_leaves,
        index_leaves,
        world_leaves,
        scan,
        number,
        lowers,
        uppers,
        root,
    ];
    dense: Dense of VolumeDense [judge, dense_leaves, to_dense];
    lists: Lists of VolumeLists [list_leaves, count_voxels, list_voxels];
}
