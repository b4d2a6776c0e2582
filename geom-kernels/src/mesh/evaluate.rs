//! What a mesh has at points of its faces.

use cuda_safe::{DeviceSlice, DeviceSliceMut, Error, LaunchConfig, Result, Stream, WriteView};

use super::Mesh;
use super::layout::FacePoint;
use crate::lengths::same_length;

/// Threads in a block.
const BLOCK: u32 = 256;

/// How many points are evaluated at once.
const CHUNK: usize = 1 << 28;

impl Mesh<'_> {
    /// The position of each point of a face, as the mesh's points are now; NaN where there is no such face.
    ///
    /// # Errors
    /// `positions` has another length than `points`; otherwise what the driver answered.
    pub fn positions_at<'a, 'b>(
        &self,
        stream: &Stream,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        positions: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let (points, mut positions) = (points.into(), positions.write_view());
        same_length("positions", positions.len(), points.len())?;
        let kernel = self.kernels.evaluate()?.positions;
        in_parts(points, |part, n, range| {
            let args = (self.view(), part, n, positions.slice_mut(range)?);
            // SAFETY: thread i reads point i and writes position i, if there are as many.
            unsafe { kernel.launch(stream, LaunchConfig::cover(part.len(), BLOCK), args) }
        })
    }

    /// The unit normal of each face, as the mesh's points are now: zero of one without area, NaN where there
    /// is no such face.
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
        let kernel = self.kernels.evaluate()?.normals;
        in_parts(points, |part, n, range| {
            let args = (self.view(), part, n, normals.slice_mut(range)?);
            // SAFETY: thread i reads point i and writes normal i, if there are as many.
            unsafe { kernel.launch(stream, LaunchConfig::cover(part.len(), BLOCK), args) }
        })
    }

    /// What the mesh's points have, such as velocities, colours or texture coordinates, at each point of a
    /// face: (1 - u - v) a + u b + v c, in f64, rounded once. NaN where there is no such face.
    ///
    /// # Errors
    /// `attributes` has another length than the mesh's points, or `out` than `points`; otherwise what the
    /// driver answered.
    pub fn attributes_at<'a, 'b, 'c, const N: usize>(
        &self,
        stream: &Stream,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        attributes: impl Into<DeviceSlice<'b, [f32; N]>>,
        out: impl WriteView<'c, [f32; N]>,
    ) -> Result<()> {
        let (points, attributes): (DeviceSlice<'_, _>, DeviceSlice<'_, _>) =
            (points.into(), attributes.into());
        let mut out: DeviceSliceMut<'_, _> = out.write_view();
        same_length("attributes", out.len(), points.len())?;
        let (there, wanted) = (attributes.len(), self.points().len());
        if there != wanted {
            return Err(Error::invalid(format!("{there} attributes for {wanted} points")));
        }
        let width = u32::try_from(N).map_err(|_| Error::invalid("attributes of 2^32 numbers"))?;
        let kernel = self.kernels.evaluate()?.attributes;
        in_parts(points, |part, n, range| {
            let args = (self.view(), part, n, attributes, width, out.slice_mut(range)?);
            // SAFETY: thread i reads point i, N numbers of each of three vertices, which are below their
            // number, and writes the N numbers of its own, if there are as many points.
            unsafe { kernel.launch(stream, LaunchConfig::cover(part.len(), BLOCK), args) }
        })
    }
}

/// Calls `run` with parts of the points, how many they are, and where they lie.
fn in_parts(
    points: DeviceSlice<'_, FacePoint>,
    mut run: impl FnMut(DeviceSlice<'_, FacePoint>, u32, std::ops::Range<usize>) -> Result<()>,
) -> Result<()> {
    for start in (0..points.len()).step_by(CHUNK) {
        let end = points.len().min(start.saturating_add(CHUNK));
        // Less than 2^32.
        run(points.slice(start..end)?, (end - start) as u32, start..end)?;
    }
    Ok(())
}
