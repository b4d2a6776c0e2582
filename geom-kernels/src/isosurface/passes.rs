//! The kernels of a surface, and the memory that passes data between them: device/geom/isosurface.cuh.

use std::ops::Range;
use std::sync::Arc;

use cuda_safe::{
    Access, DeviceBuffer, DeviceRepr, DeviceSliceMut, Error, KernelArg, LaunchConfig, Result,
    Stream, kernels,
};

use super::field::Source as Field;
use super::layout::{Edges, RawBlockField, RawDenseField, RawIndexMap, Signs, Tile};
use super::output::{Counts, Output, OutputArg};
use crate::geometry::{GeometryKernels, Source, of_source};
use crate::lengths::blocks;
use crate::part::{Part, Parts, kept_scratch};

/// The words of a tile, and the block size: `device/geom/isosurface/types.cuh`.
const TILE: usize = 256;

/// A kind of field: the kernel argument's type.
#[doc(hidden)]
pub trait Kind: DeviceRepr + 'static {
    /// Whether it is the kind of dense fields.
    const DENSE: bool;
}

impl Kind for RawDenseField {
    const DENSE: bool = true;
}

impl Kind for RawBlockField {
    const DENSE: bool = false;
}

/// Returns the source of the kernels for a kind of field.
const fn source<K: Kind>() -> Source {
    if K::DENSE { Source::ISOSURFACE_DENSE } else { Source::ISOSURFACE_BLOCKS }
}

/// The output of `emit`: vertices and faces only, or also normals.
struct Faces;
struct Normals;

kernels! {
    #[name = "isosurface_{}_{K}"]
    struct Passes<K: Kind in [RawDenseField = "dense", RawBlockField = "blocks"]>;
    // SAFETY: every kernel is an `unsafe fn`: the launch keeps what its `# Safety` asks. All are launched with a block of 32
    // words for each of its warps.
    unsafe in source::<K>() {
        /// Reads the field, and writes the signs of each of its words, all of the state, and the counts.
        ///
        /// # Safety
        /// There is room for the signs of each word, and for `state_words` words of state. The launch has a block
        /// for each tile.
        unsafe fn signs(
            field: impl KernelArg<Abi = K>,
            iso: f32,
            signs: Part<'_>,
            state: Part<'_>,
            state_words: u32,
            counts: &mut [Counts],
        ) where 1 <= counts.len();
        /// Reads the signs of words that there are; uses of the state two words, and four for each tile; writes
        /// the tiles, edges of words that there are, and the counts.
        ///
        /// # Safety
        /// `signs` has left the signs, and cleared the state. There is room for the edges of each word and for
        /// all tiles. The launch has a block for each tile.
        unsafe fn count(
            field: impl KernelArg<Abi = K>,
            signs: Part<'_>,
            state: Part<'_>,
            edges: Part<'_>,
            tiles: Part<'_>,
            vertex_capacity: u32,
            face_capacity: u32,
            counts: &mut [Counts],
        ) where 1 <= counts.len();
        /// Reads of the field's values those at the ends of edges and beside them; writes vertices and faces
        /// below the capacities, and normals if they are asked for.
        ///
        /// # Safety
        /// `count` has left edges and tiles for the same field. The launch has a block for each tile. If normals are
        /// asked for, there are as many as vertices.
        #[name = "isosurface_{Of}_{K}"]
        unsafe fn emit<Of: 'static in [Faces = "emit", Normals = "emit_normals"]>(
            field: impl KernelArg<Abi = K>,
            map: RawIndexMap,
            iso: f32,
            signs: Part<'_>,
            edges: Part<'_>,
            tiles: Part<'_>,
            out: OutputArg<'_, '_>,
        );
    }
}
of_source!(<K: Kind> Passes<K>, source::<K>());

/// The positions of vertices: the output of `count`.
#[cfg(feature = "tape")]
#[derive(Debug)]
pub(crate) struct Found {
    scratch: DeviceBuffer<u8>,
    edges: Range<usize>,
    tiles: Range<usize>,
}

#[cfg(feature = "tape")]
impl Found {
    /// Returns the edges and tiles.
    pub(crate) fn parts(&self) -> [Part<'_>; 2] {
        [&self.edges, &self.tiles].map(|range| Part::of(&self.scratch, range.clone(), Access::Read))
    }
}

/// One search for a surface, with its scratch.
#[derive(Debug)]
pub(crate) struct Search<'a, F: Field> {
    field: &'a F,
    iso: f32,
    passes: Arc<Passes<F::Kind>>,
    scratch: DeviceBuffer<u8>,
    signs: Range<usize>,
    edges: Range<usize>,
    tiles: Range<usize>,
    state: Range<usize>,
    launch: LaunchConfig,
}

impl<'a, F: Field> Search<'a, F> {
    /// Creates the search of a field with cells. Its scratch memory is allocated on `home`, and the search is
    /// enqueued on `stream`.
    pub(super) fn new(
        stream: &Stream,
        home: &Stream,
        geometry: &GeometryKernels,
        field: &'a F,
        iso: f32,
    ) -> Result<Self> {
        let passes = geometry.kernels::<Passes<F::Kind>>()?;
        let words = field.words();
        let tiles = words.div_ceil(TILE);
        let launch = u32::try_from(tiles).map(|_| blocks(tiles, TILE as u32));
        let launch = launch.map_err(|_| Error::invalid("a field of too many words"))?;
        let mut parts = Parts::default();
        let signs = parts.take::<Signs>(words);
        let edges = parts.take::<Edges>(words);
        let tiles_at = parts.take::<Tile>(tiles);
        // The state has the words of two chains: see `count` in device/geom/isosurface/count.cuh.
        let state = parts.take::<u64>(2 * (1 + 2 * tiles));
        // SAFETY: each pass reads only words that an earlier pass has written, or that are filled here.
        let mut scratch = unsafe { kept_scratch::<u8>(stream, home, parts.end)? };
        if !F::CONSISTENT {
            // The edges are cleared, because faces may refer to edges of a tile without any.
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

    /// Returns the data that the adjoint needs.
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
        let (passes, field, launch) = (&self.passes, || self.field.arg(), self.launch);
        let words = (self.state.len() / size_of::<u64>()) as u32;
        let (signs, state) = (self.write(&self.signs), self.write(&self.state));
        let to = counts.reborrow();
        // SAFETY: the scratch has room for the signs of each word and for the state.
        unsafe { passes.signs(stream, launch, field(), self.iso, signs, state, words, to)? };
        let (signs, state) = (self.read(&self.signs), self.write(&self.state));
        let (edges, tiles) = (self.write(&self.edges), self.write(&self.tiles));
        let (v, f, to) = (vertex_capacity, face_capacity, counts.reborrow());
        // SAFETY: the scratch has room for edges of each word and for all tiles.
        unsafe { passes.count(stream, launch, field(), signs, state, edges, tiles, v, f, to) }
    }

    /// Writes vertices and faces, after `count`.
    pub(super) fn emit(&self, stream: &Stream, output: &mut Output<'_>) -> Result<()> {
        let (passes, field, map) = (&self.passes, self.field.arg(), self.field.map());
        let (launch, iso, tiles) = (self.launch, self.iso, self.read(&self.tiles));
        let (signs, edges) = (self.read(&self.signs), self.read(&self.edges));
        let (with_normals, out) = (output.has_normals(), OutputArg(output));
        // SAFETY: `count` was launched before. `normals` is as long as `vertices` (`Output::check`).
        unsafe {
            if with_normals {
                passes.emit::<Normals>(stream, launch, field, map, iso, signs, edges, tiles, out)
            } else {
                passes.emit::<Faces>(stream, launch, field, map, iso, signs, edges, tiles, out)
            }
        }
    }
}
