//! The kernels of meshes.

use cuda_safe::{Kernel, Result};

use crate::geometry::{Geometry, Group, Source};

/// They are loaded when they are first asked for.
#[derive(Debug)]
pub(super) struct Kernels {
    geometry: Geometry,
    closest: Group<3>,
    signed: Group<3>,
    winding: Group<2>,
    rays: Group<4>,
    evaluate: Group<3>,
    overlap: Group<8>,
}

/// Declares functions that give one kernel of a group.
macro_rules! kernels {
    ($($function:ident = $group:ident[$at:literal] of $source:ident: [$($name:literal),+];)+) => {
        impl Kernels {
            $(pub(super) fn $function(&self) -> Result<&Kernel> {
                let names = || [$($name),+].map(String::from);
                let kernels = self.$group.get(&self.geometry, Source::$source, names)?;
                Ok(&kernels[$at])
            })+
        }
    };
}

kernels! {
    point_keys = closest[0] of MeshClosest: ["mesh_point_keys", "mesh_closest", "mesh_within"];
    closest = closest[1] of MeshClosest: ["mesh_point_keys", "mesh_closest", "mesh_within"];
    within = closest[2] of MeshClosest: ["mesh_point_keys", "mesh_closest", "mesh_within"];
    signed_by_normal = signed[0] of MeshSigned:
        ["mesh_signed_by_normal", "mesh_signed_by_parity", "mesh_sides"];
    signed_by_parity = signed[1] of MeshSigned:
        ["mesh_signed_by_normal", "mesh_signed_by_parity", "mesh_sides"];
    sides = signed[2] of MeshSigned:
        ["mesh_signed_by_normal", "mesh_signed_by_parity", "mesh_sides"];
    winding_numbers = winding[0] of MeshWinding: ["mesh_winding_numbers", "mesh_signed_by_winding"];
    signed_by_winding = winding[1] of MeshWinding: ["mesh_winding_numbers", "mesh_signed_by_winding"];
    nearest_hits = rays[0] of MeshRays:
        ["mesh_nearest_hits", "mesh_any_hits", "mesh_count_hits", "mesh_list_hits"];
    any_hits = rays[1] of MeshRays:
        ["mesh_nearest_hits", "mesh_any_hits", "mesh_count_hits", "mesh_list_hits"];
    count_hits = rays[2] of MeshRays:
        ["mesh_nearest_hits", "mesh_any_hits", "mesh_count_hits", "mesh_list_hits"];
    list_hits = rays[3] of MeshRays:
        ["mesh_nearest_hits", "mesh_any_hits", "mesh_count_hits", "mesh_list_hits"];
    positions = evaluate[0] of MeshEvaluate: ["mesh_positions", "mesh_normals", "mesh_attributes"];
    normals = evaluate[1] of MeshEvaluate: ["mesh_positions", "mesh_normals", "mesh_attributes"];
    attributes = evaluate[2] of MeshEvaluate: ["mesh_positions", "mesh_normals", "mesh_attributes"];
}

impl Kernels {
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            geometry: geometry.clone(),
            closest: Group::default(),
            signed: Group::default(),
            winding: Group::default(),
            rays: Group::default(),
            evaluate: Group::default(),
            overlap: Group::default(),
        }
    }
}

/// What overlaps boxes and balls: for each kind a kernel that counts and one that lists.
macro_rules! overlaps {
    ($($function:ident = $at:literal;)+) => {
        impl Kernels {
            $(pub(super) fn $function(&self) -> Result<[&Kernel; 2]> {
                let kernels = self.overlap()?;
                Ok([&kernels[$at], &kernels[$at + 1]])
            })+
        }
    };
}

overlaps! {
    faces_in_boxes = 0;
    boxes_in_boxes = 2;
    faces_in_balls = 4;
    boxes_in_balls = 6;
}

impl Kernels {
    fn overlap(&self) -> Result<&[Kernel; 8]> {
        let names = || {
            [
                "mesh_count_faces_in_boxes",
                "mesh_list_faces_in_boxes",
                "mesh_count_boxes_in_boxes",
                "mesh_list_boxes_in_boxes",
                "mesh_count_faces_in_balls",
                "mesh_list_faces_in_balls",
                "mesh_count_boxes_in_balls",
                "mesh_list_boxes_in_balls",
            ]
            .map(String::from)
        };
        self.overlap.get(&self.geometry, Source::MeshOverlap, names)
    }
}
