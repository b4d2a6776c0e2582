//! Hits of rays, with gradients.

use cuda_safe::{DeviceBuffer, DeviceSlice, Kernel, LaunchConfig, Result, WriteView};
use tape::{Adjoint, CustomOp, Differentiable, Element, FloatType, Handle, Primal, Recorder};

use super::{share_memory, value};
use crate::Ray;
use crate::lengths::same_length;
use crate::mesh::{Mesh, RayHit, Surface};
use crate::part::kept_scratch;

// SAFETY: eight f32.
unsafe impl Differentiable for Ray {
    type Gradient = Self;
    const ELEMENT: Element = Element::vector(FloatType::F32, 8);
}

// SAFETY: f32 but for the face and the side, whose places stay zero in a gradient.
unsafe impl Differentiable for RayHit {
    type Gradient = Self;
    const ELEMENT: Element = Element::structure(size_of::<Self>(), FloatType::F32);
}

impl Mesh<'_> {
    /// [`closest_hits`](Self::closest_hits), recorded: gradients of t, u and v with respect to the rays' origins
    /// and directions and to the mesh's vertices. Where nothing is hit they are 0; `t_min` and `t_max` have
    /// none.
    ///
    /// They are those within a face: what becomes visible behind an edge that moves has no part in them.
    ///
    /// # Errors
    /// As [`closest_hits`](Self::closest_hits); the mesh's points were changed since its hierarchy was made.
    pub fn record_closest_hits<'a, 'b>(
        &self,
        t: &mut Recorder<'_>,
        rays: impl Into<DeviceSlice<'a, Ray>>,
        hits: impl WriteView<'b, RayHit>,
    ) -> Result<()> {
        let (rays, mut hits) = (rays.into(), hits.write_view());
        same_length("answers", hits.len(), rays.len())?;
        self.check_current(t.stream())?;
        let [keep, adjoint] = self.geometry().tape_kernels().mesh_rays(self.geometry())?;
        let mut custom = t.custom();
        let known_rays = custom.reads(rays, Primal::Entry)?;
        let points = custom.reads(self.points(), Primal::Entry)?;
        let faces = custom.keeps(self.faces())?;
        let out = custom.overwrites(&hits)?;
        let shared = share_memory(&rays, &self.points());
        custom.run_with(|stream, through| {
            self.closest_hits(stream, rays, hits.reborrow())?;
            let n = if through { rays.len() } else { 0 };
            // Where it outlives the graph, if one is captured: passes back may be another one.
            let home = rays.allocation().home_stream().clone();
            // SAFETY: the kernel writes all of them.
            let mut found = unsafe { kept_scratch::<u32>(stream, &home, n)? };
            if n > 0 {
                let args = (hits.as_slice(), n as u64, &mut found);
                // SAFETY: thread i reads hit i and writes its face.
                unsafe { keep.launch(stream, LaunchConfig::cover(n, 256), args) }?;
            }
            let kernel = adjoint.clone();
            Ok(HitsOp { kernel, rays: known_rays, points, faces, out, found, shared })
        })
    }
}

struct HitsOp {
    kernel: Kernel,
    rays: Handle<Ray>,
    points: Handle<[f32; 3]>,
    faces: Handle<[u32; 3]>,
    out: Handle<RayHit>,
    /// The face of each hit.
    found: DeviceBuffer<u32>,
    /// Whether the rays lie in the memory of the mesh's points.
    shared: bool,
}

impl CustomOp for HitsOp {
    fn name(&self) -> &str {
        "mesh nearest hits"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let surface = Surface::new(value(pass, self.points)?, value(pass, self.faces)?)?;
        let (rays, g) = (pass.value(self.rays)?, pass.gradient(self.out)?);
        let n = self.found.len();
        if n == 0 || g.is_null() {
            return Ok(());
        }
        let of = (pass.gradient(self.rays)?, pass.gradient(self.points)?);
        let shared = u32::from(self.shared);
        let args = (surface, rays, &self.found, n as u64, g, of.0, of.1, shared, pass.frame());
        // SAFETY: thread i reads ray, face and gradient i, of which there are n, and adds to the gradients of
        // that ray and of the vertices of a face that there is.
        unsafe { self.kernel.launch(pass.stream(), LaunchConfig::cover(n, 128), args) }
    }

    fn log(&self) -> Option<usize> {
        let adds = if self.shared { 9 + 6 } else { 9 };
        Some(self.found.len().saturating_mul(adds))
    }
}
