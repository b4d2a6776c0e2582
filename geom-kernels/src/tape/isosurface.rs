//! Surfaces in fields, with gradients.

use cuda_safe::{DeviceBuffer, Error, KernelArg, Result, kernels};
use tape::{Frame, Gradient, Handle, Primal, Recorder, Saved};

use super::volume::{DifferentiableValue, Kept};
use super::{Recorded, value};
use crate::geometry::{Source, of_source};
use crate::isosurface::{
    BlockField, Counts, DenseField, Field, FieldKind, MOST_LAUNCHED, Map, MarchingCubes, Output,
    Parts, RawBlockField, RawDenseField, RawIndexMap, Search, TriangleBuffers, VolumeField,
    is_wide,
};
use crate::lengths::{blocks, cover};
use crate::part::{Part, scratch};
use crate::volume::Volume;

/// The corners per word.
const WORD: usize = 32;

/// The most additions of the adjoint per vertex.
const ADDS: usize = 2;

kernels! {
    #[name = "tape_{}"]
    struct FieldAdjoints;
    // SAFETY: of `isosurface` a thread for each corner of the field's words reads what the forward has left of
    // its word, values of the field, and the gradients of vertices below the capacity, which it clears; and adds
    // to those of values. `fill_blocks` reads the origins and 512 gradients of each block, and adds to those of
    // values that the volume's memory has.
    unsafe in Source::TAPE_ISOSURFACE {
        /// # Safety
        /// `edges` and `tiles` are what a search for the surface of this field has left, or what another field with
        /// as many words has; there are gradients of `capacity` vertices and of all values of the field.
        #[name = "tape_isosurface_{K}"]
        unsafe fn isosurface<K: FieldKind in [RawDenseField = "dense", RawBlockField = "blocks"]>(
            field: impl KernelArg<Abi = K>,
            map: RawIndexMap,
            iso: f32,
            edges: Part<'_>,
            tiles: Part<'_>,
            g: Gradient<'_, [f32; 3]>,
            capacity: u32,
            of_values: Gradient<'_, f32>,
            frame: impl KernelArg<Abi = Frame>,
        );
        /// # Safety
        /// There are `n` origins, and 512 gradients `g` for each; and gradients of the volume's memory as a whole.
        #[name = "tape_fill_blocks_{T}"]
        unsafe fn fill_blocks<T: DifferentiableValue in [f32 = "f32", f64 = "f64"]>(
            volume: &Kept<'_, T::Number>,
            origins: Saved<'_, [i32; 3]>,
            n: u32,
            g: Gradient<'_, f32>,
            of_grid: Gradient<'_, T::Number>,
            frame: impl KernelArg<Abi = Frame>,
        );
    }
}
of_source!(FieldAdjoints, Source::TAPE_ISOSURFACE);

impl MarchingCubes {
    /// Records [`extract`](Self::extract), with gradients of vertices with respect to the field's
    /// [numbers](DenseField::values). Waits for the surface's size.
    ///
    /// A vertex moves along its edge. The choice of edges with vertices, the faces, `iso` and the map have no gradient.
    /// Where the field is nearly equal at both ends of an edge, gradients are large, because the vertex moves fast.
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
        // SAFETY: all of it is written: as many were counted. (If other code writes to the field in between, written
        // elements do not refer to unwritten ones.)
        let (mut vertices, mut faces) = unsafe {
            (scratch::<[f32; 3]>(stream, vertices)?, scratch::<[u32; 3]>(stream, faces)?)
        };
        let output = Output::new(&mut vertices, &mut faces, &mut counts);
        self.record_extract_into(t, field, iso, output)?;
        Ok(TriangleBuffers { vertices, faces, normals: None, counts: found })
    }

    /// Records [`extract_into`](Self::extract_into): see [`record_extract`](Self::record_extract). The host does not
    /// wait, and the call can be recorded in a graph. Elements beyond the last vertex keep their gradients.
    ///
    /// # Errors
    /// As [`extract_into`](Self::extract_into); an output with normals, which have no gradient.
    /// [`Topology::record_vertex_normals`](crate::mesh::Topology::record_vertex_normals) computes normals of the mesh
    /// that have.
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
        let kernels = self.geometry().kernels::<FieldAdjoints>()?;
        let mut custom = t.custom();
        let (kind, values) = match field.parts() {
            Parts::Dense(field) => (Kind::Dense(field.dims(), field.map()), field.values()),
            Parts::Blocks(field) => {
                let kind = Kind::Blocks {
                    stride: field.stride as usize,
                    origins: custom.reads_inactive(field.origins, Primal::Entry)?,
                    neighbors: custom.reads_inactive(field.neighbors, Primal::Entry)?,
                    map: field.map,
                };
                (kind, field.values)
            }
        };
        let values = custom.reads(values, Primal::Entry)?;
        // Elements beyond the number of vertices keep their values and gradients.
        let vertices = custom.updates(&output.vertices, Primal::None)?;
        custom.overwrites_inactive(output.faces.as_slice(), Primal::None)?;
        custom.overwrites_inactive(output.counts.as_slice(), Primal::None)?;
        let ([capacity, _], map) = (output.capacities(), field.map());
        let corners = field.words().saturating_mul(WORD);
        let home = output.vertices.allocation().home_stream().clone();
        custom.run_with(|stream, through| {
            // The memory outlives a graph that is captured: the pass may be in another one.
            let home = if through { &home } else { stream };
            let search = self.search_into(stream, home, field, iso, &mut output)?;
            // A field without cells has no search.
            let found = search.map(Search::into_found);
            // A corner has three edges.
            let most = field.words().saturating_mul(3 * WORD).min(capacity as usize);
            let op = Recorded {
                name: "marching cubes",
                out: vertices,
                count: capacity as usize,
                adds: most.saturating_mul(ADDS),
            };
            Ok(op.adjoint(move |pass, g| {
                let Some(found) = &found else { return Ok(()) };
                let ([edges, tiles], of_values) = (found.parts(), pass.gradient(values)?);
                let (stream, launch, frame) = (pass.stream(), cover(corners), pass.frame());
                let values = value(pass, values)?;
                match kind {
                    Kind::Dense(dims, to_world) => {
                        let field = DenseField::new(values, dims, to_world)?;
                        // SAFETY: the words that the forward has found in this field; its vertices and values.
                        unsafe {
                            kernels.isosurface(
                                stream, launch, field, map, iso, edges, tiles, g, capacity,
                                of_values, frame,
                            )
                        }
                    }
                    Kind::Blocks { stride, origins, neighbors, map: to_world } => {
                        let (origins, neighbors) = (value(pass, origins)?, value(pass, neighbors)?);
                        let field = BlockField::new(values, stride, origins, neighbors, to_world)?;
                        // SAFETY: as above.
                        unsafe {
                            kernels.isosurface(
                                stream, launch, field, map, iso, edges, tiles, g, capacity,
                                of_values, frame,
                            )
                        }
                    }
                }
            }))
        })
    }
}

impl VolumeField {
    /// Records [`update`](Self::update), with gradients of the field's [values](Self::values) with respect to the
    /// [variables](Volume::variables) of the volume. Values from tiles and the background have none. The volume must
    /// have the nodes that it had when the field was created.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn record_update(&mut self, t: &mut Recorder<'_>, volume: &Volume) -> Result<()> {
        match is_wide(volume)? {
            true => self.record_update_from::<f64>(t, volume),
            false => self.record_update_from::<f32>(t, volume),
        }
    }

    fn record_update_from<T: DifferentiableValue>(
        &mut self,
        t: &mut Recorder<'_>,
        volume: &Volume,
    ) -> Result<()> {
        let kernels = volume.geometry().kernels::<FieldAdjoints>()?;
        let (count, raw) = (self.blocks(), volume.raw_at(0));
        let mut custom = t.custom();
        let out = custom.overwrites(self.values(), Primal::None)?;
        let origins = custom.reads_inactive(&self.origins, Primal::Entry)?;
        let variables = custom.reads(volume.variables::<T>()?, Primal::Entry)?;
        let op = Recorded { name: "blocks of a volume", out, count, adds: 0 };
        let op = op.adjoint(move |pass, g| {
            let volume = Kept { memory: pass.value(variables)?, raw };
            let (origins, of_grid) = (pass.value(origins)?, pass.gradient(variables)?);
            if of_grid.is_null() {
                return Ok(());
            }
            let launch = blocks(count.min(MOST_LAUNCHED), 128);
            let (stream, n, frame) = (pass.stream(), count as u32, pass.frame());
            // SAFETY: origins and values of all blocks, and gradients of the volume's memory.
            unsafe {
                kernels.fill_blocks::<T>(stream, launch, &volume, origins, n, g, of_grid, frame)
            }
        });
        custom.run(op, |stream| self.update(stream, volume))
    }
}

/// The kind of a field, without its values.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Dense([usize; 3], Map),
    Blocks { stride: usize, origins: Handle<[i32; 3]>, neighbors: Handle<[u32; 27]>, map: Map },
}
