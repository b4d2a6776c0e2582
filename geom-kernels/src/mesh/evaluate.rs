//! Evaluation of a mesh at points of its faces.

use cuda_safe::{DeviceSlice, Error, Result, Stream, WriteView, kernels};

use super::layout::FacePoint;
use super::{Mesh, MeshView};
use crate::geometry::{Source, of_source};
use crate::lengths::{BLOCK, in_parts, same_length};

kernels! {
    #[name = "mesh_{}"]
    pub(super) struct Evaluate;
    // SAFETY: thread i reads point i and writes what is at index i of the output, if i < n. It reads
    // the memory that the mesh's view reports, and `width` elements of `attributes` for each vertex of the mesh.
    unsafe in Source::MESH_EVALUATE {
        safe fn positions(
            mesh: MeshView<'_>, points: &[FacePoint], n: u32 = points.len(), out: &mut [[f32; 3]],
        ) over n where n <= out.len();
        safe fn normals(
            mesh: MeshView<'_>, points: &[FacePoint], n: u32 = points.len(), out: &mut [[f32; 3]],
        ) over n where n <= out.len();
        /// # Safety
        /// `attributes` has `width` numbers for each point of the mesh.
        unsafe fn attributes(
            mesh: MeshView<'_>, points: &[FacePoint], n: u32 = points.len(), attributes: &[f32], width: u32,
            out: &mut [f32],
        ) over n where n * width <= out.len();
    }
}
of_source!(Evaluate, Source::MESH_EVALUATE);

impl Mesh<'_> {
    /// Computes the position of each point of a face, from the mesh's current points; NaN if the face does not exist.
    ///
    /// # Errors
    /// `positions` has another length than `points`; otherwise if the driver returns an error.
    pub fn positions_at<'a, 'b>(
        &self,
        stream: &Stream,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        positions: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let (points, mut positions) = (points.into(), positions.write_view());
        same_length("positions", positions.len(), points.len())?;
        let kernels = self.geometry().kernels::<Evaluate>()?;
        in_parts(points.len(), BLOCK, |range, _, _| {
            let (part, out) = (points.slice(range.clone())?, positions.slice_mut(range)?);
            kernels.positions(stream, self.view(), part, out)
        })
    }

    /// Computes the unit normal of each face, from the mesh's current points: zero for a face without area, NaN if
    /// the face does not exist.
    ///
    /// # Errors
    /// As [`positions_at`](Self::positions_at).
    pub fn normals_at<'a, 'b>(
        &self,
        stream: &Stream,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        normals: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let (points, mut normals) = (points.into(), normals.write_view());
        same_length("normals", normals.len(), points.len())?;
        let kernels = self.geometry().kernels::<Evaluate>()?;
        in_parts(points.len(), BLOCK, |range, _, _| {
            let (part, out) = (points.slice(range.clone())?, normals.slice_mut(range)?);
            kernels.normals(stream, self.view(), part, out)
        })
    }

    /// Interpolates attributes of the mesh's points, such as velocities, colours or texture coordinates, at each
    /// point of a face: (1 - u - v) a + u b + v c, in f64, rounded once. NaN if the face does not exist.
    ///
    /// # Errors
    /// `attributes` has another length than the mesh's points, or `out` than `points`; otherwise if the
    /// driver returns an error.
    pub fn attributes_at<'a, 'b, 'c, const N: usize>(
        &self,
        stream: &Stream,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        attributes: impl Into<DeviceSlice<'b, [f32; N]>>,
        out: impl WriteView<'c, [f32; N]>,
    ) -> Result<()> {
        let (points, attributes, mut out) = (points.into(), attributes.into(), out.write_view());
        same_length("attributes", out.len(), points.len())?;
        let (there, wanted) = (attributes.len(), self.points().len());
        if there != wanted {
            return Err(Error::invalid(format!("{there} attributes for {wanted} points")));
        }
        let width = u32::try_from(N).map_err(|_| Error::invalid("attributes of 2^32 numbers"))?;
        let (attributes, kernels) =
            (attributes.cast::<f32>()?, self.geometry().kernels::<Evaluate>()?);
        in_parts(points.len(), BLOCK, |range, _, _| {
            let part = points.slice(range.clone())?;
            let out = out.slice_mut(range)?.cast_mut::<f32>()?;
            // SAFETY: there are N numbers for each of the mesh's points, as was just compared.
            unsafe { kernels.attributes(stream, self.view(), part, attributes, width, out) }
        })
    }
}
