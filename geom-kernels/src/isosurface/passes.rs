//! The kernels of a surface, and the memory by which they pass things on: device/geom/isosurface.cuh.

use std::ops::Range;

use cuda_safe::{
    Access, DeviceBuffer, DeviceSliceMut, Error, Kernel, LaunchConfig, Result, Stream,
};

use super::field::Source as Field;
use super::layout::{Edges, Signs, Tile};
use super::output::{Counts, Output, OutputArg};
use crate::geometry::{GeometryKernels, Group, Source};
use crate::part::{Part, kept_scratch};

/// Words of a tile, and threads of a block: `device/geom/isosurface/types.cuh`.
const TILE: usize = 256;

/// Every part of the scratch begins at a multiple of as many bytes.
const ALIGNMENT: usize = 256;

/// The kernels of all kinds of fields, each loaded when it is first needed.
#[derive(Debug)]
pub struct Kernels {
    geometry: GeometryKernels,
    dense: Group<4>,
    blocks: Group<4>,
}

/// Those of one kind of field.
#[derive(Debug, Clone, Copy)]
pub struct Passes<'k> {
    signs: &'k Kernel,
    count: &'k Kernel,
    emit: &'k Kernel,
    emit_normals: &'k Kernel,
}

impl Kernels {
    pub(super) fn new(geometry: &GeometryKernels) -> Self {
        Self { geometry: geometry.clone(), dense: Group::default(), blocks: Group::default() }
    }

    #[cfg(feature = "tape")]
    pub(super) fn geometry(&self) -> &GeometryKernels {
        &self.geometry
    }

    pub(super) fn dense(&self) -> Result<Passes<'_>> {
        self.get(&self.dense, Source::IsosurfaceDense, "dense")
    }

    pub(super) fn blocks(&self) -> Result<Passes<'_>> {
        self.get(&self.blocks, Source::IsosurfaceBlocks, "blocks")
    }

    fn get<'k>(&self, group: &'k Group<4>, source: Source, kind: &str) -> Result<Passes<'k>> {
        let name = |pass| format!("isosurface_{pass}_{kind}");
        let names = || ["signs", "count", "emit", "emit_normals"].map(name);
        let [signs, count, emit, emit_normals] = group.get(&self.geometry, source, names)?;
        Ok(Passes { signs, count, emit, emit_normals })
    }
}

/// Where vertices are: what `count` has left.
#[cfg(feature = "tape")]
#[derive(Debug)]
pub(crate) struct Found {
    scratch: DeviceBuffer<u8>,
    edges: Range<usize>,
    tiles: Range<usize>,
}

#[cfg(feature = "tape")]
impl Found {
    /// Edges and tiles.
    pub(crate) fn parts(&self) -> [Part<'_>; 2] {
        [&self.edges, &self.tiles].map(|range| Part::of(&self.scratch, range.clone(), Access::Read))
    }
}

/// One search for a surface, with its scratch.
#[derive(Debug)]
pub(crate) struct Search<'a, F> {
    field: &'a F,
    iso: f32,
    passes: Passes<'a>,
    scratch: DeviceBuffer<u8>,
    signs: Range<usize>,
    edges: Range<usize>,
    tiles: Range<usize>,
    state: Range<usize>,
    launch: LaunchConfig,
}

impl<'a, F: Field> Search<'a, F> {
    /// Of a field with cells. Its scratch is made on `home`, and the search is enqueued on `stream`.
    pub(super) fn new(
        stream: &Stream,
        home: &Stream,
        kernels: &'a Kernels,
        field: &'a F,
        iso: f32,
    ) -> Result<Self> {
        let passes = field.passes(kernels)?;
        let words = field.words();
        let tiles = words.div_ceil(TILE);
        let launch = u32::try_from(tiles).map(|tiles| LaunchConfig::new(tiles, TILE as u32));
        let launch = launch.map_err(|_| Error::invalid("a field of too many words"))?;
        let mut end = 0;
        let mut part = |bytes: usize| {
            let begin = end;
            end = (begin + bytes).next_multiple_of(ALIGNMENT);
            begin..begin + bytes
        };
        let signs = part(words * size_of::<Signs>());
        let edges = part(words * size_of::<Edges>());
        let tiles_at = part(tiles * size_of::<Tile>());
        // The words of two chains: see `count` in device/geom/isosurface/count.cuh.
        let state = part(2 * (1 + 2 * tiles) * size_of::<u64>());
        // SAFETY: the passes read of it only what those before have written, or what is filled here.
        let mut scratch = unsafe { kept_scratch::<u8>(stream, home, end)? };
        if !F::CONSISTENT {
            // Faces may name edges of a tile that has none.
            scratch.slice_mut(edges.clone())?.fill(stream, 0)?;
        }
        Ok(Self { field, iso, passes, scratch, signs, edges, tiles: tiles_at, state, launch })
    }

    fn read(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.scratch, range.clone(), Access::Read)
    }

    fn write(&self, range: &Range<usize>) -> Part<'_> {
        Part::of(&self.scratch, range.clone(), Access::Write)
    }

    /// What the adjoint needs of it.
    #[cfg(feature = "tape")]
    pub(crate) fn into_found(self) -> Found {
        Found { scratch: self.scratch, edges: self.edges, tiles: self.tiles }
    }

    /// Reads the field, and finds how many vertices and faces there are.
    pub(super) fn count(
        &self,
        stream: &Stream,
        [vertex_capacity, face_capacity]: [u32; 2],
        counts: &mut DeviceSliceMut<'_, Counts>,
    ) -> Result<()> {
        let state_words = (self.state.len() / size_of::<u64>()) as u32;
        let (signs, state) = (self.write(&self.signs), self.write(&self.state));
        let args = (self.field.arg(), self.iso, signs, state, state_words, counts.reborrow());
        // SAFETY: reads the field, writes the signs of each of its words, all of the state, and the one element
        // of the counts. A block has 32 words for each of its warps.
        unsafe { self.passes.signs.launch(stream, self.launch, args)? };
        let (signs, state) = (self.read(&self.signs), self.write(&self.state));
        let (edges, tiles) = (self.write(&self.edges), self.write(&self.tiles));
        let room = (vertex_capacity, face_capacity);
        let args =
            (self.field.arg(), signs, state, edges, tiles, room.0, room.1, counts.reborrow());
        // SAFETY: reads the signs of words that there are, uses of the state, which is cleared, two words and
        // four for each tile, writes the tiles, edges of words that there are, and the counts.
        unsafe { self.passes.count.launch(stream, self.launch, args) }
    }

    /// Writes vertices and faces, after `count`.
    pub(super) fn emit(&self, stream: &Stream, output: &mut Output<'_>) -> Result<()> {
        let kernel = if output.has_normals() { self.passes.emit_normals } else { self.passes.emit };
        let (signs, edges) = (self.read(&self.signs), self.read(&self.edges));
        let tiles = self.read(&self.tiles);
        let args =
            (self.field.arg(), self.field.map(), self.iso, signs, edges, tiles, OutputArg(output));
        // SAFETY: reads what `count` has written for the same field, of whose numbers it reads those at the
        // ends of edges and beside them; writes vertices, normals and faces below the capacities. `normals`
        // is as long as `vertices` (`Output::check`), and not used by the kernel without them.
        unsafe { kernel.launch(stream, self.launch, args) }
    }
}
