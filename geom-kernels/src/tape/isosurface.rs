//! Surfaces in fields, with gradients.

use cuda_safe::{DeviceBuffer, Error, Kernel, LaunchConfig, Result};
use tape::{Adjoint, CustomOp, Handle, Primal, Recorder};

use super::{value, volume::Kept};
use crate::isosurface::{
    BlockField, Counts, DenseField, Field, Found, IndexToWorld, MOST_LAUNCHED, MarchingCubes,
    Output, Parts, RawIndexMap, TriangleBuffers, VolumeField, is_wide,
};
use crate::part::scratch;
use crate::volume::Volume;

/// Threads in a block of adjoints.
const BLOCK: u32 = 256;

/// Corners of a word.
const WORD: usize = 32;

/// How often the adjoint adds for each vertex.
const ADDS: usize = 2;

impl MarchingCubes {
    /// [`extract`](Self::extract), recorded: gradients of vertices with respect to the field's
    /// [numbers](DenseField::values). Waits for the surface's size.
    ///
    /// A vertex moves along its edge. Which edges have one, and the faces, have no gradient; neither have `iso`
    /// and the map. Where the field is nearly equal at both ends of an edge, gradients are as large as the
    /// vertex moves fast.
    ///
    /// # Errors
    /// As [`extract`](Self::extract).
    pub fn record_extract<F: Field>(
        &self,
        t: &mut Recorder<'_>,
        field: &F,
        iso: f32,
    ) -> Result<TriangleBuffers> {
        let stream = t.stream();
        let mut counts = DeviceBuffer::<Counts>::zeroed(stream, 1)?;
        self.count(stream, field, iso, &mut counts)?;
        let found = counts.to_vec(stream)?.first().copied().unwrap_or_default();
        let [vertices, faces] = found.sizes()?;
        // SAFETY: all of it is written: as many were counted. (If somebody else writes to the field in between,
        // what is not written is not used by what is.)
        let (mut vertices, mut faces) = unsafe {
            (scratch::<[f32; 3]>(stream, vertices)?, scratch::<[u32; 3]>(stream, faces)?)
        };
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        self.record_extract_into(t, field, iso, output)?;
        Ok(TriangleBuffers { vertices, faces, normals: None, counts: found })
    }

    /// [`extract_into`](Self::extract_into), recorded: see [`record_extract`](Self::record_extract). Nothing is
    /// waited for, and it can be recorded in a graph. Room that no vertex needed keeps its gradient.
    ///
    /// # Errors
    /// As [`extract_into`](Self::extract_into); an output with normals, which have no gradient: those of the
    /// mesh have, by [`Topology::record_vertex_normals`](crate::mesh::Topology::record_vertex_normals).
    pub fn record_extract_into<F: Field>(
        &self,
        t: &mut Recorder<'_>,
        field: &F,
        iso: f32,
        mut output: Output<'_>,
    ) -> Result<()> {
        output.check()?;
        if output.has_normals() {
            return Err(Error::invalid("normals of marching cubes have no gradient").with_hint(
                "those of the mesh that comes out have: `Topology::record_vertex_normals`",
            ));
        }
        let [dense, blocks, ..] = self.geometry().tape_kernels().isosurface(self.geometry())?;
        let mut custom = t.custom();
        let (kind, values, kernel) = match field.parts() {
            Parts::Dense(field) => (Kind::Dense(field.dims(), field.map()), field.values(), dense),
            Parts::Blocks(field) => {
                let kind = Kind::Blocks {
                    stride: field.stride as usize,
                    origins: custom.keeps(field.origins)?,
                    neighbors: custom.keeps(field.neighbors)?,
                    map: field.map,
                };
                (kind, field.values, blocks)
            }
        };
        let values = custom.reads(values, Primal::Entry)?;
        // What there was too much room for stays, and so does its gradient.
        let vertices = custom.updates(&output.vertices, Primal::None)?;
        custom.writes(output.faces.as_slice())?;
        custom.writes(output.counts.as_slice())?;
        let [capacity, _] = output.capacities();
        let (map, words) = (field.map(), field.words());
        let home = output.vertices.allocation().home_stream().clone();
        custom.run_with(|stream, through| {
            // Where it outlives the graph, if one is captured: passes back may be another one.
            let home = if through { &home } else { stream };
            let search = self.search_into(stream, home, field, iso, &mut output)?;
            let found = search.map(crate::isosurface::Search::into_found);
            let kernel = kernel.clone();
            Ok(ExtractOp { kernel, kind, map, iso, values, vertices, capacity, words, found })
        })
    }
}

impl VolumeField {
    /// [`update`](Self::update), recorded: gradients of the field's [numbers](Self::values) with respect to the
    /// [variables](Volume::variables) of the volume. Numbers that tiles and the background give have none. The
    /// volume has the nodes that it had when the field was made.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn record_update(&mut self, t: &mut Recorder<'_>, volume: &Volume) -> Result<()> {
        let [.., of_f32, of_f64] =
            volume.geometry().tape_kernels().isosurface(volume.geometry())?;
        let wide = is_wide(volume)?;
        let (kernel, blocks) = (if wide { of_f64 } else { of_f32 }.clone(), self.blocks());
        let mut custom = t.custom();
        let out = custom.overwrites(self.values())?;
        let origins = custom.keeps(&self.origins)?;
        let raw = volume.raw_at(0);
        if wide {
            let variables = custom.reads(volume.variables::<f64>()?, Primal::Entry)?;
            let op = UpdateOp { kernel, raw, variables, origins, out, blocks };
            custom.run(op, |stream| self.update(stream, volume))
        } else {
            let variables = custom.reads(volume.variables::<f32>()?, Primal::Entry)?;
            let op = UpdateOp { kernel, raw, variables, origins, out, blocks };
            custom.run(op, |stream| self.update(stream, volume))
        }
    }
}

/// A field but for its numbers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Dense([usize; 3], IndexToWorld),
    Blocks {
        stride: usize,
        origins: Handle<[i32; 3]>,
        neighbors: Handle<[u32; 27]>,
        map: IndexToWorld,
    },
}

struct ExtractOp {
    kernel: Kernel,
    kind: Kind,
    map: RawIndexMap,
    iso: f32,
    values: Handle<f32>,
    vertices: Handle<[f32; 3]>,
    /// How many vertices there was room for.
    capacity: u32,
    /// Of corners, 32 each.
    words: usize,
    /// None of a field without cells.
    found: Option<Found>,
}

impl CustomOp for ExtractOp {
    fn name(&self) -> &str {
        "marching cubes"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let (values, g) = (value(pass, self.values)?, pass.gradient(self.vertices)?);
        let Some(found) = self.found.as_ref().filter(|_| !g.is_null() && self.capacity != 0) else {
            return Ok(());
        };
        let ([edges, tiles], of_values) = (found.parts(), pass.gradient(self.values)?);
        let launch = LaunchConfig::cover(self.words.saturating_mul(WORD), BLOCK);
        let (map, iso, capacity, frame) = (self.map, self.iso, self.capacity, pass.frame());
        // SAFETY (of both): a thread for each corner of the field's words, which reads what the forward has left
        // of its word, values of the field, and the gradients of vertices below the capacity, which it clears;
        // adds to those of values.
        match self.kind {
            Kind::Dense(dims, to_world) => {
                let field = DenseField::new(values, dims, to_world)?;
                let args = (field, map, iso, edges, tiles, g, capacity, of_values, frame);
                // SAFETY: see above.
                unsafe { self.kernel.launch(pass.stream(), launch, args) }
            }
            Kind::Blocks { stride, origins, neighbors, map: to_world } => {
                let (origins, neighbors) = (value(pass, origins)?, value(pass, neighbors)?);
                let field = BlockField::new(values, stride, origins, neighbors, to_world)?;
                let args = (field, map, iso, edges, tiles, g, capacity, of_values, frame);
                // SAFETY: see above.
                unsafe { self.kernel.launch(pass.stream(), launch, args) }
            }
        }
    }

    fn log(&self) -> Option<usize> {
        // A corner has three edges.
        let vertices = self.words.saturating_mul(3 * WORD).min(self.capacity as usize);
        Some(vertices.saturating_mul(ADDS))
    }
}

struct UpdateOp<T> {
    kernel: Kernel,
    raw: crate::volume::RawVolume,
    variables: Handle<T>,
    origins: Handle<[i32; 3]>,
    out: Handle<f32>,
    blocks: usize,
}

impl<T: tape::Differentiable + bytemuck::Pod> CustomOp for UpdateOp<T> {
    fn name(&self) -> &str {
        "blocks of a volume"
    }

    fn backward(&mut self, pass: &mut Adjoint<'_>) -> Result<()> {
        let volume = Kept { memory: pass.value(self.variables)?, raw: self.raw };
        let (g, of_grid) = (pass.gradient(self.out)?, pass.gradient(self.variables)?);
        if g.is_null() || of_grid.is_null() || self.blocks == 0 {
            return Ok(());
        }
        let launch = LaunchConfig::new(self.blocks.min(MOST_LAUNCHED) as u32, 128);
        let args =
            (&volume, pass.value(self.origins)?, self.blocks as u32, g, of_grid, pass.frame());
        // SAFETY: reads the origins and 512 gradients of each block, and adds to those of values that the volume's
        // memory has.
        unsafe { self.kernel.launch(pass.stream(), launch, args) }
    }

    fn log(&self) -> Option<usize> {
        Some(0)
    }
}
