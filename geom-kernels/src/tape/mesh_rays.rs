//! Hits of rays, with gradients.

use cuda_safe::{DeviceSlice, KernelArg, LaunchConfig, Result, WriteView, kernels};
use tape::{Differentiable, Element, FloatType, Frame, Gradient, Primal, Recorder, Saved};

use super::{Corners, Recorded, share_memory};
use crate::Ray;
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, same_length};
use crate::mesh::{Mesh, RayHit, Surface};
use crate::part::kept_scratch;

kernels! {
    #[name = "tape_{}"]
    struct Hits;
    // SAFETY: thread i of `keep_hits` reads hit i and writes its face, if i < n; i has 64 bits.
    unsafe in Source::TAPE_MESH_RAYS {
        safe fn keep_hits(hits: &[RayHit], n: u64, faces: &mut [u32])
            where n <= hits.len(), n <= faces.len();
        /// Thread i reads ray, face and gradient i, and adds to the gradients of that ray and of the vertices of a
        /// face that there is.
        ///
        /// # Safety
        /// There are `n` of each. Gradients are of these rays and of the surface's points.
        unsafe fn hits_adjoint(
            surface: Surface<'_>,
            rays: Saved<'_, Ray>,
            faces: &[u32],
            n: u64,
            g: Gradient<'_, RayHit>,
            of_rays: Gradient<'_, Ray>,
            of_vertices: Gradient<'_, [f32; 3]>,
            shared: u32,
            frame: impl KernelArg<Abi = Frame>,
        ) where n <= faces.len();
    }
}
of_source!(Hits, Source::TAPE_MESH_RAYS);

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
    /// Records [`closest_hits`](Self::closest_hits), with gradients of t, u and v with respect to the rays' origins
    /// and directions and to the mesh's vertices. They are 0 if nothing is hit; `t_min` and `t_max` have none.
    ///
    /// Gradients are those within a face: changes of visibility at an edge that moves are not included.
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
        let kernels = self.geometry().kernels::<Hits>()?;
        let mut custom = t.custom();
        let known_rays = custom.reads(rays, Primal::Entry)?;
        let mesh = Corners::read(&mut custom, Surface::new(self.points(), self.faces())?)?;
        let out = custom.overwrites(&hits, Primal::None)?;
        let shared = share_memory(&rays, &self.points());
        custom.run_with(|stream, through| {
            self.closest_hits(stream, rays, hits.reborrow())?;
            let count = if through { rays.len() } else { 0 };
            // The memory outlives a graph that is captured: the pass may be in another one.
            let home = rays.allocation().home_stream().clone();
            // SAFETY: the kernel writes all of them.
            let mut found = unsafe { kept_scratch::<u32>(stream, &home, count)? };
            let n = count as u64;
            if n > 0 {
                kernels.keep_hits(stream, cover(count), hits.as_slice(), n, &mut found)?;
            }
            let adds = count.saturating_mul(if shared { 9 + 6 } else { 9 });
            let op = Recorded { name: "mesh nearest hits", out, count, adds };
            Ok(op.adjoint(move |pass, g| {
                let (launch, surface) = (LaunchConfig::cover(count, 128), mesh.surface(pass)?);
                let rays = pass.value(known_rays)?;
                let of = (pass.gradient(known_rays)?, pass.gradient(mesh.points)?);
                let (stream, shared, frame) = (pass.stream(), u32::from(shared), pass.frame());
                // SAFETY: there are as many rays and gradients as faces were kept.
                unsafe {
                    kernels.hits_adjoint(
                        stream, launch, surface, rays, &found, n, g, of.0, of.1, shared, frame,
                    )
                }
            }))
        })
    }
}
