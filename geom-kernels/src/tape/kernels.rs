//! The kernels of operations with gradients.

use cuda_safe::{Error, Kernel, Result};

use crate::GeometryKernels;
use crate::geometry::{Group, Source};

/// They are loaded when one of their group is first asked for.
#[derive(Debug, Default)]
pub(crate) struct Kernels {
    mesh_points: Group<4>,
    mesh_rays: Group<2>,
    mesh_evaluate: Group<3>,
    mesh_normals: Group<2>,
    isosurface: Group<4>,
    /// Of f32 and of f64.
    reduce: [Group<13>; 2],
    /// For each type of values that can be interpolated.
    volume: [Group<17>; 6],
}

/// Of `tape_mesh_points.cu`.
pub(super) struct MeshPoints<'a> {
    pub(super) keep_answers: &'a Kernel,
    pub(super) closest_points: &'a Kernel,
    pub(super) distances: &'a Kernel,
    pub(super) signed_distances: &'a Kernel,
}

/// Of `tape_reduce.cu`.
pub(super) struct Reduce<'a> {
    pub(super) sum: &'a Kernel,
    pub(super) dot: &'a Kernel,
    pub(super) squares: &'a Kernel,
    pub(super) sum_adjoint: &'a Kernel,
    pub(super) dot_adjoint: &'a Kernel,
    pub(super) squares_adjoint: &'a Kernel,
    pub(super) sizes: &'a Kernel,
    pub(super) sizes_adjoint: &'a Kernel,
    pub(super) root: &'a Kernel,
    pub(super) norm_adjoint: &'a Kernel,
    pub(super) greatest: &'a Kernel,
    pub(super) first_greatest: &'a Kernel,
    pub(super) greatest_adjoint: &'a Kernel,
}

impl Kernels {
    pub(super) fn mesh_points(&self, geometry: &GeometryKernels) -> Result<MeshPoints<'_>> {
        let names = || {
            [
                "tape_keep_answers",
                "tape_closest_points_adjoint",
                "tape_distances_adjoint",
                "tape_signed_distances_adjoint",
            ]
            .map(String::from)
        };
        let kernels = self.mesh_points.get(geometry, Source::TapeMeshPoints, names)?;
        let [keep_answers, closest_points, distances, signed_distances] = kernels;
        Ok(MeshPoints { keep_answers, closest_points, distances, signed_distances })
    }

    /// What keeps the faces of hits, and their adjoint.
    pub(super) fn mesh_rays(&self, geometry: &GeometryKernels) -> Result<&[Kernel; 2]> {
        let names = || ["tape_keep_hits", "tape_hits_adjoint"].map(String::from);
        self.mesh_rays.get(geometry, Source::TapeMeshRays, names)
    }

    /// The adjoints of positions, normals and attributes.
    pub(super) fn mesh_evaluate(&self, geometry: &GeometryKernels) -> Result<&[Kernel; 3]> {
        let names =
            || ["positions", "normals", "attributes"].map(|name| format!("tape_{name}_adjoint"));
        self.mesh_evaluate.get(geometry, Source::TapeMeshEvaluate, names)
    }

    /// What leaves the sums of normals, and the adjoint.
    pub(super) fn mesh_normals(&self, geometry: &GeometryKernels) -> Result<&[Kernel; 2]> {
        let names = || ["tape_vertex_normals", "tape_vertex_normals_adjoint"].map(String::from);
        self.mesh_normals.get(geometry, Source::TapeMeshNormals, names)
    }

    /// Adjoints of the vertices in dense fields and in blocks, and of blocks of f32 and of f64.
    pub(super) fn isosurface(&self, geometry: &GeometryKernels) -> Result<&[Kernel; 4]> {
        let names = || {
            [
                "tape_isosurface_dense",
                "tape_isosurface_blocks",
                "tape_fill_blocks_f32",
                "tape_fill_blocks_f64",
            ]
            .map(String::from)
        };
        self.isosurface.get(geometry, Source::TapeIsosurface, names)
    }

    /// Sums, of products, squares and sizes; norms; and their adjoints.
    pub(super) fn reduce(&self, geometry: &GeometryKernels, wide: bool) -> Result<Reduce<'_>> {
        let [narrow_group, wide_group] = &self.reduce;
        let (group, end) = if wide { (wide_group, "f64") } else { (narrow_group, "f32") };
        let names = || {
            [
                "sum",
                "dot",
                "squares",
                "sum_adjoint",
                "dot_adjoint",
                "squares_adjoint",
                "sizes",
                "sizes_adjoint",
                "root",
                "norm_adjoint",
                "greatest",
                "first_greatest",
                "greatest_adjoint",
            ]
            .map(|name| format!("tape_{name}_{end}"))
        };
        let [
            sum,
            dot,
            squares,
            sum_adjoint,
            dot_adjoint,
            squares_adjoint,
            sizes,
            sizes_adjoint,
            root,
            norm_adjoint,
            greatest,
            first_greatest,
            greatest_adjoint,
        ] = group.get(geometry, Source::TapeReduce, names)?;
        Ok(Reduce {
            sum,
            dot,
            squares,
            sum_adjoint,
            dot_adjoint,
            squares_adjoint,
            sizes,
            sizes_adjoint,
            root,
            norm_adjoint,
            greatest,
            first_greatest,
            greatest_adjoint,
        })
    }

    /// Kernels for values of this number among the types, whose names end so: see `Way::number`; the last one
    /// looks up the gradients of voxels.
    pub(super) fn volume(
        &self,
        geometry: &GeometryKernels,
        number: usize,
        suffix: &str,
    ) -> Result<&[Kernel; 17]> {
        let sources = [
            Source::TapeVolumeF32,
            Source::TapeVolumeF64,
            Source::TapeVolumeVec3F,
            Source::TapeVolumeVec3D,
            Source::TapeVolumeVec4F,
            Source::TapeVolumeVec4D,
        ];
        let missing = || Error::invalid("no kernels for gradients of such values");
        let group = self.volume.get(number).ok_or_else(missing)?;
        let source = *sources.get(number).ok_or_else(missing)?;
        let names = || {
            std::array::from_fn(|i| {
                let how = if i / 8 == 0 { "trilinear" } else { "tricubic" };
                let of = ["points", "voxels", "index", "on_index"][i / 2 % 4];
                let position = if i % 2 == 0 { "f32" } else { "f64" };
                match i {
                    16 => format!("tape_voxel_gradients_{suffix}"),
                    _ => format!("tape_{how}_{of}_{suffix}_{position}"),
                }
            })
        };
        group.get(geometry, source, names)
    }
}
