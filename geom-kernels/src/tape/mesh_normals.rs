//! The normals of vertices, with gradients.

use cuda_safe::{DeviceBuffer, Kernel, LaunchConfig, Result, WriteView};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

use super::value;

use crate::lengths::{cover, same_length};
use crate::mesh::{Surface, Topology};
use crate::part::kept_scratch;

/// Numbers that an adjoint adds for each face.
const ADDS: usize = 9;

impl Topology {
    /// [`vertex_normals`](Self::vertex_normals), recorded: gradients with respect to the points, through the
    /// unit normals of faces and through their angles. A face without area adds nothing and has gradient 0, and
    /// so has a normal that is 0 because they cancel.
    ///
    /// (The normals that a [mesh](crate::mesh::Mesh::vertex_normals) keeps are made when it is built and
    /// refitted, without a tape.)
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
        let [forward, adjoint] = self.geometry().tape_kernels().mesh_normals(self.geometry())?;
        let mut custom = t.custom();
        let known_points = custom.reads(points, Primal::Entry)?;
        let faces = custom.keeps(surface.faces())?;
        let out = custom.overwrites(&normals)?;
        custom.run_with(|stream, through| {
            // Where they outlive the graph, if one is captured: passes back may be another one.
            let home = points.allocation().home_stream().clone();
            let n = if through { points.len() } else { 0 };
            // SAFETY: they are filled below.
            let mut sums = unsafe { kept_scratch::<[f64; 4]>(stream, &home, n)? };
            if through && corners != 0 && n != 0 {
                stream.graph_lock([normals.allocation()]).run(|| {
                    normals.reborrow().cast_mut::<f32>()?.fill(stream, 0.0)?;
                    // Also in a graph: which vertices have faces may change.
                    sums.as_slice_mut().cast_mut::<f64>()?.fill(stream, 0.0)?;
                    let sorted = self.sorted_corners(stream, surface)?;
                    let (keys, places) = (sorted.keys(), sorted.indices());
                    let args = (surface, keys, places, normals.reborrow(), &mut sums);
                    // SAFETY: reads as many keys and places as there are corners; of the faces, points that
                    // there are; and writes to the keys that are less than there are points, each by one
                    // thread.
                    unsafe { forward.launch(stream, cover(corners), args) }
                })?;
            } else {
                self.vertex_normals(stream, surface, normals)?;
            }
            let (kernel, count) = (adjoint.clone(), surface.faces().len());
            Ok(NormalsOp { kernel, points: known_points, faces, out, sums, count })
        })
    }
}

struct NormalsOp {
    kernel: Kernel,
    points: Handle<[f32; 3]>,
    faces: Handle<[u32; 3]>,
    out: Handle<[f32; 3]>,
    /// For each vertex the sum of normals, and that of angles.
    sums: DeviceBuffer<[f64; 4]>,
    /// Of faces.
    count: usize,
}

impl CustomOp for NormalsOp {
    fn name(&self) -> &str {
        "vertex normals"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let surface = Surface::new(value(pass, self.points)?, value(pass, self.faces)?)?;
        let g = pass.gradient(self.out)?;
        if self.count == 0 || g.is_null() {
            return Ok(());
        }
        let args = (surface, &self.sums, g, pass.gradient(self.points)?, pass.frame());
        // SAFETY: a thread for each face, which reads sums and gradients of its vertices, if there are such, and
        // adds to theirs.
        unsafe { self.kernel.launch(pass.stream(), LaunchConfig::cover(self.count, 128), args) }
    }

    fn log(&self) -> Option<usize> {
        Some(self.count.saturating_mul(ADDS))
    }
}
