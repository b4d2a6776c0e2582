//! The kernels of meshes.

use crate::geometry::kernel_groups;

kernel_groups! {
    "mesh_",
    closest: Closest of MeshClosest [point_keys, closest, within];
    signed: Signed of MeshSigned [signed_by_normal, signed_by_parity, sides];
    winding: WindingNumbers of MeshWinding [winding_numbers, signed_by_winding];
    rays: Rays of MeshRays [nearest_hits, any_hits, count_hits, list_hits];
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
