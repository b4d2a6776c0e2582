//! Evaluation of a mesh at points of its faces, with gradients.

use cuda_safe::{DeviceSlice, KernelArg, LaunchConfig, Result, WriteView, kernels};
use tape::{Differentiable, Element, FloatType, Frame, Gradient, Primal, Recorder, Saved};

use super::{Corners, Recorded, share_memory};
use crate::geometry::{Source, of_source};
use crate::lengths::same_length;
use crate::mesh::{FacePoint, Mesh, Surface};

// SAFETY: two f32 behind the index of a face, whose place stays zero in a gradient.
unsafe impl Differentiable for FacePoint {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::F32);
}

kernels! {
    #[name = "tape_{}_adjoint"]
    struct EvaluateAdjoints;
    // SAFETY: thread i reads point and gradient i, if i < n, and adds to the gradients of that point and of the
    // vertices of a face that there is, or of their attributes.
    unsafe in Source::TAPE_MESH_EVALUATE {
        /// # Safety
        /// There are `n` points, and gradients of each; and gradients of all points of the surface.
        unsafe fn positions(
            surface: Surface<'_>,
            points: Saved<'_, FacePoint>,
            n: u64,
            g: Gradient<'_, [f32; 3]>,
            of_points: Gradient<'_, FacePoint>,
            of_vertices: Gradient<'_, [f32; 3]>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `n` points and gradients; and gradients of all points of the surface.
        unsafe fn normals(
            surface: Surface<'_>,
            points: Saved<'_, FacePoint>,
            n: u64,
            g: Gradient<'_, [f32; 3]>,
            of_vertices: Gradient<'_, [f32; 3]>,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `face_count` faces; `n` points, and gradients of each; and of each of the `vertices` vertices,
        /// as of each point in `g`, `width` numbers and gradients.
        unsafe fn attributes(
            faces: Saved<'_, [u32; 3]>,
            face_count: u32,
            vertices: u32,
            points: Saved<'_, FacePoint>,
            n: u64,
            attributes: impl KernelArg,
            width: u32,
            g: impl KernelArg,
            of_points: Gradient<'_, FacePoint>,
            of_attributes: impl KernelArg,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        );
    }
}
of_source!(EvaluateAdjoints, Source::TAPE_MESH_EVALUATE);

impl Mesh<'_> {
    /// Records [`positions_at`](Self::positions_at), with gradients with respect to u and v of the points, and to the
    /// mesh's vertices. They are 0 if the face does not exist.
    ///
    /// The call uses the current vertices, and does not need an up-to-date hierarchy.
    ///
    /// # Errors
    /// As [`positions_at`](Self::positions_at).
    pub fn record_positions_at<'a, 'b>(
        &self,
        t: &mut Recorder<'_>,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        positions: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let (points, mut positions) = (points.into(), positions.write_view());
        same_length("positions", positions.len(), points.len())?;
        let kernels = self.geometry().kernels::<EvaluateAdjoints>()?;
        let (count, shared) = (points.len(), share_memory(&points, &self.points()));
        let mut custom = t.custom();
        let at = custom.reads(points, Primal::Entry)?;
        let mesh = Corners::read(&mut custom, Surface::new(self.points(), self.faces())?)?;
        let out = custom.overwrites(&positions, Primal::None)?;
        let op = Recorded { name: "mesh positions", out, count, adds: adds(count, 3, shared) };
        let op = op.adjoint(move |pass, g| {
            let (launch, surface) = (LaunchConfig::cover(count, BLOCK), mesh.surface(pass)?);
            let (points, n) = (pass.value(at)?, count as u64);
            let of = (pass.gradient(at)?, pass.gradient(mesh.points)?);
            let (stream, shared, frame) = (pass.stream(), u32::from(shared), pass.frame());
            // SAFETY: `count` points and gradients; the others are of all vertices.
            unsafe {
                kernels.positions(stream, launch, surface, points, n, g, of.0, of.1, shared, frame)
            }
        });
        custom.run(op, |stream| self.positions_at(stream, points, positions.reborrow()))
    }

    /// Records [`normals_at`](Self::normals_at), with gradients with respect to the mesh's vertices. They are 0 for a
    /// face that has no area or does not exist; gradients with respect to u and v are 0 everywhere.
    ///
    /// # Errors
    /// As [`normals_at`](Self::normals_at).
    pub fn record_normals_at<'a, 'b>(
        &self,
        t: &mut Recorder<'_>,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        normals: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let (points, mut normals) = (points.into(), normals.write_view());
        same_length("normals", normals.len(), points.len())?;
        let kernels = self.geometry().kernels::<EvaluateAdjoints>()?;
        let count = points.len();
        let mut custom = t.custom();
        let at = custom.reads(points, Primal::Entry)?;
        let mesh = Corners::read(&mut custom, Surface::new(self.points(), self.faces())?)?;
        let out = custom.overwrites(&normals, Primal::None)?;
        let op = Recorded { name: "mesh normals", out, count, adds: adds(count, 3, false) };
        let op = op.adjoint(move |pass, g| {
            let (launch, surface) = (LaunchConfig::cover(count, BLOCK), mesh.surface(pass)?);
            let (points, n) = (pass.value(at)?, count as u64);
            let (of_vertices, frame) = (pass.gradient(mesh.points)?, pass.frame());
            // SAFETY: `count` points and gradients; the others are of all vertices.
            unsafe {
                kernels.normals(pass.stream(), launch, surface, points, n, g, of_vertices, frame)
            }
        });
        custom.run(op, |stream| self.normals_at(stream, points, normals.reborrow()))
    }

    /// Records [`attributes_at`](Self::attributes_at), with gradients with respect to u and v of the points, and to
    /// the attributes. They are 0 if the face does not exist. Positions of vertices do not matter.
    ///
    /// # Errors
    /// As [`attributes_at`](Self::attributes_at).
    pub fn record_attributes_at<'a, 'b, 'c, const N: usize>(
        &self,
        t: &mut Recorder<'_>,
        points: impl Into<DeviceSlice<'a, FacePoint>>,
        attributes: impl Into<DeviceSlice<'b, [f32; N]>>,
        out: impl WriteView<'c, [f32; N]>,
    ) -> Result<()>
    where
        [f32; N]: Differentiable,
    {
        let (points, attributes): (DeviceSlice<'_, _>, DeviceSlice<'_, [f32; N]>) =
            (points.into(), attributes.into());
        let mut written = out.write_view();
        same_length("attributes", written.len(), points.len())?;
        let kernels = self.geometry().kernels::<EvaluateAdjoints>()?;
        let (count, shared) = (points.len(), share_memory(&points, &attributes));
        let mut custom = t.custom();
        let at = custom.reads(points, Primal::Entry)?;
        let faces = custom.reads_inactive(self.faces(), Primal::Entry)?;
        let known = custom.reads(attributes, Primal::Entry)?;
        let out = custom.overwrites(&written, Primal::None)?;
        // The forward has checked that both fit in 32 bits.
        let (vertices, width) = (attributes.len() as u32, N as u32);
        let op = Recorded { name: "mesh attributes", out, count, adds: adds(count, N, shared) };
        let op = op.adjoint(move |pass, g| {
            let (faces, launch) = (pass.value(faces)?, LaunchConfig::cover(count, BLOCK));
            let (face_count, n) = (faces.len() as u32, count as u64);
            let (points, attributes) = (pass.value(at)?, pass.value(known)?);
            let of = (pass.gradient(at)?, pass.gradient(known)?);
            let (stream, shared, frame) = (pass.stream(), u32::from(shared), pass.frame());
            // SAFETY: `count` points, and gradients of the N numbers of each; all vertices had N attributes.
            unsafe {
                kernels.attributes(
                    stream, launch, faces, face_count, vertices, points, n, attributes, width, g,
                    of.0, of.1, shared, frame,
                )
            }
        });
        let forward =
            |stream: &_| self.attributes_at(stream, points, attributes, written.reborrow());
        custom.run(op, forward)
    }
}

/// Threads in a block of adjoints.
const BLOCK: u32 = 128;

/// Returns the most additions of the adjoint for `count` points: `to_corner` times to each corner of a face, and to
/// the points themselves, if their gradients are `shared` with others.
fn adds(count: usize, to_corner: usize, shared: bool) -> usize {
    let own = if shared { 2 } else { 0 };
    count.saturating_mul(to_corner.saturating_mul(3).saturating_add(own))
}
