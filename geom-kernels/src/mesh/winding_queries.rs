//! Winding numbers of points: device/geom/mesh/winding.cuh.

use cuda_safe::{Error, Result, Stream, WriteView};

use super::Mesh;
use super::points::PointQueries;
use crate::lengths::same_length;

impl Mesh<'_> {
    /// How often the mesh winds around each point: 1 inside of a closed mesh whose faces are oriented
    /// outwards, 0 outside. Of an open mesh, or one with holes, overlaps or stray faces it is something
    /// between, and a point with more than a half is rather inside: Jacobson, Kavan, Sorkine-Hornung, Robust
    /// Inside-Outside Segmentation using Generalized Winding Numbers, 2013. Limits of the queries do not
    /// matter; of a point that is not finite, or beyond 2^60, it is 0.
    ///
    /// What is farther away than `beta` times its radius is replaced by a series of second order: Barill,
    /// Dickson, Schmidt, Levin, Jacobson, Fast Winding Numbers for Soups and Clouds, 2018. With a `beta` of
    /// 2, which is a good choice, the error is below 1e-2, and below 1e-3 on average; it goes down with the
    /// third power of `beta`, and time up with the square. With `f32::INFINITY` all faces are added up one by
    /// one. Unlike other queries' answers, the number depends on how the hierarchy was built, within its
    /// error; it is the same on every run and every device.
    ///
    /// # Errors
    /// The mesh was made without [`MeshOptions::winding`](super::MeshOptions::winding); `beta` is less than 1
    /// or not a number; `numbers` has another length than there are points; otherwise what the driver
    /// answered.
    pub fn winding_numbers<'b>(
        &self,
        stream: &Stream,
        queries: &PointQueries<'_>,
        beta: f32,
        numbers: impl WriteView<'b, f32>,
    ) -> Result<()> {
        let mut numbers = numbers.write_view();
        same_length("winding numbers", numbers.len(), queries.len())?;
        self.has_moments()?;
        if beta.is_nan() || beta < 1.0 {
            return Err(Error::invalid(format!("a beta of {beta}; it is at least 1")));
        }
        let kernel = self.kernels.winding()?.winding_numbers;
        self.in_parts(stream, queries, |part, range| {
            let out = numbers.slice_mut(range)?;
            // SAFETY: each query writes the answer of its own index.
            unsafe { kernel.launch(stream, part.launch(), (self.view(), part, beta, out)) }
        })
    }

    pub(super) fn has_moments(&self) -> Result<()> {
        match self.winding {
            Some(_) => Ok(()),
            None => Err(Error::invalid("a mesh without winding numbers: MeshOptions::winding")),
        }
    }
}
