//! What a mesh has at points of its faces, with gradients.

use cuda_safe::{DeviceSlice, Kernel, LaunchConfig, Result, WriteView};
use tape::{
    Adjoint, CustomBuilder, CustomOp, Differentiable, Element, FloatType, Handle, Primal, Recorder,
};

use super::{share_memory, value};
use crate::lengths::same_length;
use crate::mesh::{FacePoint, Mesh, Surface};

/// Threads in a block of adjoints.
const BLOCK: u32 = 128;

// SAFETY: two f32 behind the index of a face, whose place stays zero in a gradient.
unsafe impl Differentiable for FacePoint {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::F32);
}

impl Mesh<'_> {
    /// [`positions_at`](Self::positions_at), recorded: gradients with respect to u and v of the points, and to
    /// the mesh's vertices. Where there is no such face they are 0.
    ///
    /// Vertices are as they are now: a hierarchy that does not follow them yet is no matter.
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
        let [kernel, ..] = self.geometry().tape_kernels().mesh_evaluate(self.geometry())?;
        let mut custom = t.custom();
        let shared = share_memory(&points, &self.points());
        let asked = Asked::declare(self, points, shared, &mut custom)?;
        let vertices = custom.reads(self.points(), Primal::Entry)?;
        let out = custom.overwrites(&positions)?;
        let op = PositionsOp { kernel: kernel.clone(), asked, vertices, out };
        custom.run(op, |stream| self.positions_at(stream, points, positions.reborrow()))
    }

    /// [`normals_at`](Self::normals_at), recorded: gradients with respect to the mesh's vertices. Of a face
    /// without area, and where there is no such face, they are 0; by u and v they are 0 everywhere.
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
        let [_, kernel, _] = self.geometry().tape_kernels().mesh_evaluate(self.geometry())?;
        let mut custom = t.custom();
        let asked = Asked::declare(self, points, false, &mut custom)?;
        let vertices = custom.reads(self.points(), Primal::Entry)?;
        let out = custom.overwrites(&normals)?;
        let op = NormalsOp { kernel: kernel.clone(), asked, vertices, out };
        custom.run(op, |stream| self.normals_at(stream, points, normals.reborrow()))
    }

    /// [`attributes_at`](Self::attributes_at), recorded: gradients with respect to u and v of the points, and to
    /// the attributes. Where there is no such face they are 0. Where vertices lie does not come into it.
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
        let mut out = out.write_view();
        same_length("attributes", out.len(), points.len())?;
        let [.., kernel] = self.geometry().tape_kernels().mesh_evaluate(self.geometry())?;
        let mut custom = t.custom();
        let shared = share_memory(&points, &attributes);
        let op = AttributesOp {
            kernel: kernel.clone(),
            asked: Asked::declare(self, points, shared, &mut custom)?,
            attributes: custom.reads(attributes, Primal::Entry)?,
            out: custom.overwrites(&out)?,
            vertices: attributes.len(),
        };
        custom.run(op, |stream| self.attributes_at(stream, points, attributes, out.reborrow()))
    }
}

/// Points of faces, and the faces as they then were.
struct Asked {
    points: Handle<FacePoint>,
    faces: Handle<[u32; 3]>,
    count: usize,
    /// Whether the points lie in memory that others add to as well.
    shared: bool,
}

impl Asked {
    fn declare(
        mesh: &Mesh<'_>,
        points: DeviceSlice<'_, FacePoint>,
        shared: bool,
        custom: &mut CustomBuilder<'_>,
    ) -> Result<Self> {
        Ok(Self {
            points: custom.reads(points, Primal::Entry)?,
            faces: custom.keeps(mesh.faces())?,
            count: points.len(),
            shared,
        })
    }

    /// How often the adjoint adds, if to the corners of a face so often each.
    fn adds(&self, to_corner: usize) -> usize {
        let own = if self.shared { 2 } else { 0 };
        self.count.saturating_mul(to_corner.saturating_mul(3).saturating_add(own))
    }

    fn launch(&self) -> LaunchConfig {
        LaunchConfig::cover(self.count, BLOCK)
    }
}

struct PositionsOp {
    kernel: Kernel,
    asked: Asked,
    vertices: Handle<[f32; 3]>,
    out: Handle<[f32; 3]>,
}

impl CustomOp for PositionsOp {
    fn name(&self) -> &str {
        "mesh positions"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let asked = &self.asked;
        let surface = Surface::new(value(pass, self.vertices)?, value(pass, asked.faces)?)?;
        let (points, g) = (pass.value(asked.points)?, pass.gradient(self.out)?);
        if asked.count == 0 || g.is_null() {
            return Ok(());
        }
        let of = (pass.gradient(asked.points)?, pass.gradient(self.vertices)?);
        let (n, shared) = (asked.count as u64, u32::from(asked.shared));
        let args = (surface, points, n, g, of.0, of.1, shared, pass.frame());
        // SAFETY: thread i reads point and gradient i, of which there are n, and adds to the gradients of that
        // point and of the vertices of a face that there is.
        unsafe { self.kernel.launch(pass.stream(), asked.launch(), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.asked.adds(3))
    }
}

struct NormalsOp {
    kernel: Kernel,
    asked: Asked,
    vertices: Handle<[f32; 3]>,
    out: Handle<[f32; 3]>,
}

impl CustomOp for NormalsOp {
    fn name(&self) -> &str {
        "mesh normals"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let asked = &self.asked;
        let surface = Surface::new(value(pass, self.vertices)?, value(pass, asked.faces)?)?;
        let (points, g) = (pass.value(asked.points)?, pass.gradient(self.out)?);
        if asked.count == 0 || g.is_null() {
            return Ok(());
        }
        let of_vertices = pass.gradient(self.vertices)?;
        let args = (surface, points, asked.count as u64, g, of_vertices, pass.frame());
        // SAFETY: thread i reads point and gradient i, of which there are n, and adds to the gradients of the
        // vertices of a face that there is.
        unsafe { self.kernel.launch(pass.stream(), asked.launch(), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.asked.adds(3))
    }
}

struct AttributesOp<const N: usize> {
    kernel: Kernel,
    asked: Asked,
    attributes: Handle<[f32; N]>,
    out: Handle<[f32; N]>,
    /// How many vertices have attributes.
    vertices: usize,
}

impl<const N: usize> CustomOp for AttributesOp<N>
where
    [f32; N]: Differentiable,
{
    fn name(&self) -> &str {
        "mesh attributes"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let asked = &self.asked;
        let (faces, attributes) = (pass.value(asked.faces)?, pass.value(self.attributes)?);
        let (points, g) = (pass.value(asked.points)?, pass.gradient(self.out)?);
        if asked.count == 0 || g.is_null() {
            return Ok(());
        }
        let of = (pass.gradient(asked.points)?, pass.gradient(self.attributes)?);
        // They were numbers of 32 bits in the forward.
        let counts = (faces.len() as u32, self.vertices as u32, N as u32);
        let (n, shared) = (asked.count as u64, u32::from(asked.shared));
        let args = (
            faces,
            counts.0,
            counts.1,
            points,
            n,
            attributes,
            counts.2,
            g,
            of.0,
            of.1,
            shared,
            pass.frame(),
        );
        // SAFETY: thread i reads point i and the gradients of its numbers, of which n points have as many as
        // `counts.2`, and adds to the gradients of that point and of attributes that there are.
        unsafe { self.kernel.launch(pass.stream(), asked.launch(), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.asked.adds(N))
    }
}
