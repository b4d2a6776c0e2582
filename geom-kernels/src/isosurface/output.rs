//! The output: meshes in device memory, and their sizes.

use std::sync::Arc;

use bytemuck::{Pod, Zeroable};
use cuda_safe::{
    Access, Allocation, DeviceBuffer, DeviceRepr, DeviceSliceMut, Error, KernelArg, Result, Stream,
    WriteView,
    arg::{ArgType, UseVisitor},
};

use super::layout::RawOutput;
use crate::GeometryKernels;
use crate::mesh::{Mesh, MeshOptions, TriangleMesh};

/// The number of vertices and faces of a surface, including those without room. `geom::isosurface::Counts` of
/// `geom/isosurface/types.cuh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Counts {
    /// All vertices.
    pub vertices: u64,
    /// All faces.
    pub faces: u64,
    /// A combination of [`VERTICES_LEFT_OUT`](Self::VERTICES_LEFT_OUT), [`FACES_LEFT_OUT`](Self::FACES_LEFT_OUT) and
    /// [`NOT_FINITE`](Self::NOT_FINITE).
    pub status: u64,
}

impl Counts {
    /// There was no room for all vertices.
    pub const VERTICES_LEFT_OUT: u64 = 1;
    /// There was no room for all faces.
    pub const FACES_LEFT_OUT: u64 = 2;
    /// Some value of the field is not finite.
    pub const NOT_FINITE: u64 = 4;

    /// Returns whether there was room for all vertices and faces.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.status & (Self::VERTICES_LEFT_OUT | Self::FACES_LEFT_OUT) == 0
    }

    /// Returns whether some value of the field is not finite, so that there may be holes.
    #[must_use]
    pub fn not_finite(&self) -> bool {
        self.status & Self::NOT_FINITE != 0
    }

    /// Returns the lengths of buffers for all vertices and faces; fails if they can't all be indexed.
    pub(crate) fn sizes(&self) -> Result<[usize; 2]> {
        let Self { vertices, faces, .. } = *self;
        if vertices.max(faces) > u64::from(u32::MAX) {
            let message = format!("a surface of {vertices} vertices and {faces} faces");
            return Err(Error::invalid(message));
        }
        Ok([vertices as usize, faces as usize])
    }
}

// SAFETY: repr(C); LAYOUTS in src/layout/generated.rs has it as geom::isosurface::Counts.
unsafe impl DeviceRepr for Counts {}

/// A surface in device memory that is just large enough.
#[derive(Debug)]
#[non_exhaustive]
pub struct TriangleBuffers {
    /// Positions.
    pub vertices: DeviceBuffer<[f32; 3]>,
    /// The indices of three vertices for each face, counter-clockwise seen from greater values.
    pub faces: DeviceBuffer<[u32; 3]>,
    /// The unit normal of each vertex, if they were asked for.
    pub normals: Option<DeviceBuffer<[f32; 3]>>,
    /// The counts; [`Counts::not_finite`] returns `true` if there may be holes.
    pub counts: Counts,
}

impl TriangleBuffers {
    /// Returns the surface in host memory, without normals. Waits.
    ///
    /// # Errors
    /// A stream that records; otherwise if the driver returns an error.
    pub fn download(&self, stream: &Stream) -> Result<TriangleMesh> {
        let points = self.vertices.to_vec(stream)?;
        Ok(TriangleMesh { points, faces: self.faces.to_vec(stream)? })
    }

    /// Returns the surface as a mesh for queries, which owns the buffers. Its indices are in range and not checked,
    /// so the host does not wait.
    ///
    /// # Errors
    /// As [`Mesh::build`].
    pub fn into_mesh(
        self,
        stream: &Stream,
        geometry: &GeometryKernels,
        options: MeshOptions,
    ) -> Result<Mesh<'static>> {
        Mesh::build(stream, geometry, self.vertices, self.faces, options.skip_validation())
    }
}

/// The caller's memory for a surface: [`MarchingCubes::extract_into`].
///
/// [`MarchingCubes::extract_into`]: super::MarchingCubes::extract_into
#[derive(Debug)]
pub struct Output<'a> {
    pub(crate) vertices: DeviceSliceMut<'a, [f32; 3]>,
    pub(crate) faces: DeviceSliceMut<'a, [u32; 3]>,
    normals: Option<DeviceSliceMut<'a, [f32; 3]>>,
    pub(crate) counts: DeviceSliceMut<'a, Counts>,
}

impl<'a> Output<'a> {
    /// Creates an output with room for as many vertices and faces as the views have elements, and one element for
    /// their counts.
    #[must_use]
    pub fn new(
        vertices: impl WriteView<'a, [f32; 3]>,
        faces: impl WriteView<'a, [u32; 3]>,
        counts: impl WriteView<'a, Counts>,
    ) -> Self {
        let (vertices, faces) = (vertices.write_view(), faces.write_view());
        Self { vertices, faces, normals: None, counts: counts.write_view() }
    }

    /// Adds memory for the unit normal of each vertex, which points to greater values. It must have as many elements
    /// as `vertices`.
    ///
    /// The normal is the direction of the field's gradient, interpolated linearly between the ends of the vertex's
    /// edge. At the ends the gradient is from central differences, one-sided at the border and beside values that are
    /// not finite. It is zero where the gradient is zero.
    #[must_use]
    pub fn normals(mut self, normals: impl WriteView<'a, [f32; 3]>) -> Self {
        self.normals = Some(normals.write_view());
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        one_count(&self.counts)?;
        let room = self.vertices.len();
        match &self.normals {
            Some(normals) if normals.len() != room => {
                let message = format!("room for {} normals, and {room} vertices", normals.len());
                Err(Error::invalid(message))
            }
            _ => Ok(()),
        }
    }

    /// Returns the capacities in vertices and faces. More than 2^32 - 1 can't be indexed.
    pub(crate) fn capacities(&self) -> [u32; 2] {
        let capacity = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        [capacity(self.vertices.len()), capacity(self.faces.len())]
    }

    pub(crate) fn has_normals(&self) -> bool {
        self.normals.is_some()
    }

    /// Returns the allocations of the output; one may occur more than once.
    pub(super) fn allocations(&self) -> [&Arc<Allocation>; 4] {
        let vertices = self.vertices.allocation();
        let normals = self.normals.as_ref().map_or(vertices, |normals| normals.allocation());
        [vertices, normals, self.faces.allocation(), self.counts.allocation()]
    }
}

/// Checks that there is one element for counts.
pub(super) fn one_count(counts: &DeviceSliceMut<'_, Counts>) -> Result<()> {
    match counts.len() {
        1 => Ok(()),
        n => Err(Error::invalid(format!("counts have {n} elements, not 1"))),
    }
}

/// The output as an argument.
#[derive(Debug)]
pub(super) struct OutputArg<'o, 'a>(pub(super) &'o mut Output<'a>);

// SAFETY: the pointers lead into the views, which are reported as written; kernels stay below the
// capacities, which are not more than the views' lengths.
unsafe impl KernelArg for OutputArg<'_, '_> {
    type Abi = RawOutput;
    const TYPE: ArgType = ArgType::value::<RawOutput>();

    fn abi(&self) -> RawOutput {
        let output = &*self.0;
        let [vertex_capacity, face_capacity] = output.capacities();
        RawOutput {
            vertices: output.vertices.device_ptr(),
            normals: output.normals.as_ref().map_or(0, |normals| normals.device_ptr()),
            faces: output.faces.device_ptr(),
            vertex_capacity,
            face_capacity,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        let output = &*self.0;
        for view in std::iter::once(&output.vertices).chain(&output.normals) {
            visitor.visit(view.allocation(), view.byte_range(), Access::Write)?;
        }
        visitor.visit(output.faces.allocation(), output.faces.byte_range(), Access::Write)
    }
}
