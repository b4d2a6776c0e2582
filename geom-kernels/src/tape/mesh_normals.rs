//! The normals of vertices, with gradients.

use cuda_safe::{KernelArg, LaunchConfig, Result, WriteView, kernels};
use tape::{Frame, Gradient, Primal, Recorder};

use super::{Corners, Recorded};
use crate::geometry::{Source, of_source};
use crate::lengths::{cover, same_length};
use crate::mesh::{Surface, Topology};
use crate::part::kept_scratch;

/// Numbers that an adjoint adds for each face.
const ADDS: usize = 9;

kernels! {
    #[name = "tape_{}"]
    struct VertexNormals;
    // SAFETY: both read, of the faces, points that there are. `vertex_normals` writes to the keys that are less
    // than there are points, each by one thread. `vertex_normals_adjoint` has a thread for each face, which reads
    // sums and gradients of its vertices, if there are such, and adds to theirs.
    unsafe in Source::TAPE_MESH_NORMALS {
        /// # Safety
        /// There are as many `vertices` (the keys, sorted) and `places` as the surface has corners, and normals and
        /// sums of all its points.
        unsafe fn vertex_normals(
            surface: Surface<'_>,
            vertices: &[u32],
            places: &[u32],
            normals: &mut [[f32; 3]],
            sums: &mut [[f64; 4]],
        );
        /// # Safety
        /// There are sums and gradients of all points of the surface.
        unsafe fn vertex_normals_adjoint(
            surface: Surface<'_>,
            sums: &[[f64; 4]],
            g: Gradient<'_, [f32; 3]>,
            of_vertices: Gradient<'_, [f32; 3]>,
            frame: impl KernelArg<Abi = Frame>,
        );
    }
}
of_source!(VertexNormals, Source::TAPE_MESH_NORMALS);

impl Topology {
    /// Records [`vertex_normals`](Self::vertex_normals), with gradients with respect to the points, through the unit
    /// normals of faces and through their angles. A face without area adds nothing and has gradient 0. A normal of 0,
    /// whose terms cancel, has gradient 0.
    ///
    /// (The normals of a [mesh](crate::mesh::Mesh::vertex_normals) are computed when it is built and refitted,
    /// without a tape.)
    ///
    /// # Errors
    /// As [`vertex_normals`](Self::vertex_normals).
    pub fn record_vertex_normals<'b>(
        &self,
        t: &mut Recorder<'_>,
        surface: Surface<'_>,
        normals: impl WriteView<'b, [f32; 3]>,
    ) -> Result<()> {
        let mut normals = normals.write_view();
        let (points, corners) = (surface.points(), surface.corners());
        same_length("normals", normals.len(), points.len())?;
        let kernels = self.geometry().kernels::<VertexNormals>()?;
        let mut custom = t.custom();
        let mesh = Corners::read(&mut custom, surface)?;
        let out = custom.overwrites(&normals, Primal::None)?;
        custom.run_with(|stream, through| {
            // The memory outlives a graph that is captured: the pass may be in another one.
            let home = points.allocation().home_stream().clone();
            let n = if through { points.len() } else { 0 };
            // SAFETY: they are filled below: for each vertex the sum of normals, and the sum of angles.
            let mut sums = unsafe { kept_scratch::<[f64; 4]>(stream, &home, n)? };
            if through && corners != 0 && n != 0 {
                stream.graph_lock([normals.allocation()]).run(|| {
                    normals.reborrow().cast_mut::<f32>()?.fill(stream, 0.0)?;
                    // The sums are cleared in a graph, too, because the set of vertices with faces may change.
                    sums.as_slice_mut().cast_mut::<f64>()?.fill(stream, 0.0)?;
                    let sorted = self.sorted_corners(stream, surface)?;
                    let (keys, places) = (sorted.keys(), sorted.indices());
                    let (launch, normals) = (cover(corners), normals.reborrow());
                    // SAFETY: as many keys and places as there are corners, sorted; and normals and sums of all
                    // points.
                    unsafe {
                        kernels.vertex_normals(
                            stream, launch, surface, keys, places, normals, &mut sums,
                        )
                    }
                })?;
            } else {
                self.vertex_normals(stream, surface, normals)?;
            }
            let count = surface.faces().len();
            let op =
                Recorded { name: "vertex normals", out, count, adds: count.saturating_mul(ADDS) };
            Ok(op.adjoint(move |pass, g| {
                let (launch, surface) = (LaunchConfig::cover(count, 128), mesh.surface(pass)?);
                let (of, stream, frame) =
                    (pass.gradient(mesh.points)?, pass.stream(), pass.frame());
                // SAFETY: sums of all points were kept, and the gradients are of all.
                unsafe {
                    kernels.vertex_normals_adjoint(stream, launch, surface, &sums, g, of, frame)
                }
            }))
        })
    }
}
