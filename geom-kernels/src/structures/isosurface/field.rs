//! Fields: their corners in words of 32, as in `geom/isosurface/field.cuh` and `blocks.cuh`.

use cuda_safe::{Error, Result};
use rayon::prelude::*;

use crate::isosurface::{MOST_VALUES, Map};

/// For the 32 corners of a word: which are finite, and which of those are less than the surface's value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Signs {
    pub(super) inside: u32,
    pub(super) known: u32,
}

impl Signs {
    /// Returns the bits from `low` of this word, and above them those of the next.
    #[inline(always)]
    fn from(self, low: u32, next: Self) -> Self {
        let part = |own: u32, next: u32| own >> low | next << (32 - low);
        Self { inside: part(self.inside, next.inside), known: part(self.known, next.known) }
    }
}

impl Signs {
    /// Returns those of a word with `lanes` corners, if all are as these.
    #[inline(always)]
    fn of_lanes(self, lanes: usize) -> Self {
        let lanes = u32::MAX.unbounded_shr(32u32.saturating_sub(lanes as u32));
        Self { inside: self.inside & lanes, known: self.known & lanes }
    }
}

/// The words that a thread processes at once: a tile of the device.
pub(super) const TILE: usize = 256;

/// The signs of a tile's words.
#[derive(Debug, Clone)]
pub(super) enum TileSigns {
    /// All corners have the same.
    Same(Signs),
    /// Those of each word.
    Each(Box<[Signs]>),
}

/// The signs of all words. Only tiles with several kinds of corners take memory for each word.
#[derive(Debug, Default)]
pub struct AllSigns(pub(super) Vec<TileSigns>);

impl AllSigns {
    /// Finds the signs of all words, for a surface where the field is `iso`.
    pub(super) fn new<F: Source>(field: &F, words: u32, iso: f32) -> Result<Self> {
        let mut tiles = reserved((words as usize).div_ceil(TILE), "tiles of a field")?;
        tiles.resize((words as usize).div_ceil(TILE), TileSigns::NONE);
        tiles.par_iter_mut().enumerate().try_for_each(|(tile, signs)| {
            let words = words_of(tile, words);
            *signs = TileSigns::new(field, words, iso)?;
            Ok::<(), Error>(())
        })?;
        Ok(Self(tiles))
    }

    /// Returns those of a word, which has `lanes` corners.
    #[inline(always)]
    fn at(&self, word: usize, lanes: usize) -> Signs {
        match self.0.get(word / TILE) {
            Some(TileSigns::Same(signs)) => signs.of_lanes(lanes),
            Some(TileSigns::Each(signs)) => signs.get(word % TILE).copied().unwrap_or_default(),
            None => Signs::default(),
        }
    }
}

impl TileSigns {
    const NONE: Self = Self::Same(Signs { inside: 0, known: 0 });

    fn new<F: Source>(field: &F, words: std::ops::Range<u32>, iso: f32) -> Result<Self> {
        let (mut found, mut is_same) = ([Signs::default(); TILE], [true; 3]);
        let all =
            [[0, 0], [0, u32::MAX], [u32::MAX; 2]].map(|[inside, known]| Signs { inside, known });
        let n = words.len();
        for (signs, word) in found.iter_mut().zip(words) {
            let values = field.values_of(word);
            for (lane, value) in values.iter().enumerate() {
                let (known, less) = (value.is_finite(), *value < iso);
                signs.known |= u32::from(known) << lane;
                signs.inside |= u32::from(known && less) << lane;
            }
            for (is_same, all) in is_same.iter_mut().zip(all) {
                *is_same &= *signs == all.of_lanes(values.len());
            }
        }
        if let Some(which) = is_same.iter().position(|is_same| *is_same) {
            return Ok(Self::Same(all[which]));
        }
        let mut each = reserved(n, "the corners of a tile")?;
        each.extend_from_slice(&found[..n]);
        Ok(Self::Each(each.into_boxed_slice()))
    }
}

/// Returns the words of a tile.
pub(super) fn words_of(tile: usize, words: u32) -> std::ops::Range<u32> {
    let start = tile.saturating_mul(TILE) as u32;
    start..start.saturating_add(TILE as u32).min(words)
}

/// Returns an empty vector with room for `n` elements.
pub(super) fn reserved<T>(n: usize, what: &str) -> Result<Vec<T>> {
    let mut all = Vec::new();
    let bytes = n.saturating_mul(size_of::<T>());
    all.try_reserve_exact(n)
        .map_err(|_| Error::invalid(format!("no memory for {what}: {bytes} bytes")))?;
    Ok(all)
}

/// A corner: a lane of a word.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub(super) word: u32,
    pub(super) lane: u32,
}

/// What the search needs of a field.
#[doc(hidden)]
pub trait Source: Sync {
    /// Returns the number of words of 32 corners; 0 if there is no cell.
    fn words(&self) -> usize;
    fn map(&self) -> &Map;
    /// Returns the values of a word's corners, in the order of lanes.
    fn values_of(&self, word: u32) -> &[f32];
    /// Returns, of each lane's cell, the signs of its corners. What has no corner is not known.
    fn around(&self, signs: &AllSigns, word: u32) -> [Signs; 8];
    /// Returns another corner of the cell at `cell`, which exists.
    fn corner(&self, cell: Place, corner: u32) -> Place;
    /// Returns the position in the field's indices.
    fn position(&self, corner: Place) -> [i32; 3];
    /// Returns the number one step (1 or -1) beside a corner.
    fn beside(&self, corner: Place, axis: usize, step: i32) -> Option<f32>;
}

/// A field that surfaces are found in. Only this crate implements it.
pub trait Field: Source {}

/// Returns a copy of `p` with one coordinate moved.
#[inline(always)]
fn moved(mut p: [i32; 3], axis: usize, by: i32) -> [i32; 3] {
    p[axis % 3] += by;
    p
}

/// A dense field: the value at the lattice point (x, y, z) is element (x ny + y) nz + z.
#[derive(Debug, Clone, Copy)]
pub struct DenseField<'a> {
    values: &'a [f32],
    dims: [u32; 3],
    row_words: u32,
    words: usize,
    map: Map,
}

impl<'a> DenseField<'a> {
    /// Creates a field of `dims` = nx, ny and nz values. If one of them is less than 2, there is no surface.
    ///
    /// # Errors
    /// Another number of values than nx ny nz; more than 2^32 values.
    pub fn new(values: &'a [f32], dims: [usize; 3], map: Map) -> Result<Self> {
        let [nx, ny, nz] = dims;
        let wanted = nx.checked_mul(ny).and_then(|n| n.checked_mul(nz));
        if wanted != Some(values.len()) {
            let message = format!("{} values in a field of {nx} x {ny} x {nz}", values.len());
            return Err(Error::invalid(message));
        }
        if values.len() > MOST_VALUES {
            let message = format!("a field of {} values; at most 2^32 are possible", values.len());
            return Err(Error::invalid(message));
        }
        let row_words = nz.div_ceil(32);
        let words = if nx < 2 || ny < 2 || nz < 2 { 0 } else { nx * ny * row_words };
        // An extent beyond u32 is that of a field without cells.
        let dims = dims.map(|n| u32::try_from(n).unwrap_or(0));
        Ok(Self { values, dims, row_words: row_words as u32, words, map })
    }

    /// Returns the values.
    #[must_use]
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Returns the row of a word, and the z of its first corner.
    #[inline(always)]
    fn row(&self, word: u32) -> (u32, u32) {
        (word / self.row_words, word % self.row_words * 32)
    }
}

impl Field for DenseField<'_> {}

impl Source for DenseField<'_> {
    fn words(&self) -> usize {
        self.words
    }

    fn map(&self) -> &Map {
        &self.map
    }

    #[inline(always)]
    fn values_of(&self, word: u32) -> &[f32] {
        let ((row, z), nz) = (self.row(word), self.dims[2] as usize);
        let first = row as usize * nz + z as usize;
        self.values.get(first..first + 32.min(nz - z as usize)).unwrap_or_default()
    }

    #[inline(always)]
    fn around(&self, signs: &AllSigns, word: u32) -> [Signs; 8] {
        let [nx, ny, _] = self.dims;
        let (row, z) = self.row(word);
        let (x, y) = (row / ny, row % ny);
        let lanes = self.dims[2] as usize - z as usize;
        let mut corners = [Signs::default(); 8];
        for i in 0..4 {
            let (dx, dy) = (i / 2, i % 2);
            if x + dx < nx && y + dy < ny {
                let at = word as usize + (dx * ny + dy) as usize * self.row_words as usize;
                let low = signs.at(at, lanes);
                corners[2 * i as usize] = low;
                let is_last = lanes <= 32;
                let high = if is_last { Signs::default() } else { signs.at(at + 1, lanes - 32) };
                corners[2 * i as usize + 1] = low.from(1, high);
            }
        }
        corners
    }

    #[inline(always)]
    fn corner(&self, cell: Place, corner: u32) -> Place {
        let lane = cell.lane + (corner & 1);
        let rows = (corner >> 2) * self.dims[1] + (corner >> 1 & 1);
        Place { word: cell.word + rows * self.row_words + lane / 32, lane: lane % 32 }
    }

    #[inline(always)]
    fn position(&self, corner: Place) -> [i32; 3] {
        let (row, z) = self.row(corner.word);
        let ny = self.dims[1];
        [row / ny, row % ny, z + corner.lane].map(u32::cast_signed)
    }

    #[inline(always)]
    fn beside(&self, corner: Place, axis: usize, step: i32) -> Option<f32> {
        // A coordinate below 0 becomes a large unsigned one.
        let p = moved(self.position(corner), axis, step).map(i32::cast_unsigned);
        let is_inside = p.iter().zip(self.dims).all(|(at, n)| *at < n);
        let [x, y, z] = p.map(|at| at as usize);
        let [_, ny, nz] = self.dims.map(|n| n as usize);
        if !is_inside {
            return None;
        }
        self.values.get((x * ny + y) * nz + z).copied()
    }
}

/// The values per block.
pub(super) const BLOCK: usize = 512;
/// The words per block.
const BLOCK_WORDS: u32 = 16;

/// A sparse field: blocks of 8 x 8 x 8 values with their neighbours.
///
/// Values outside of all blocks are unknown: cells that need them have no faces, and the surface ends there. This
/// does not count as not finite. Vertices and faces are in the order of blocks.
#[derive(Debug, Clone, Copy)]
pub struct BlockField<'a> {
    values: &'a [f32],
    stride: usize,
    origins: &'a [[i32; 3]],
    neighbors: &'a [[u32; 27]],
    map: Map,
}

impl<'a> BlockField<'a> {
    /// Creates a field of blocks, which are given as for
    /// [`isosurface::BlockField::new`](crate::isosurface::BlockField::new).
    ///
    /// # Errors
    /// `neighbors` and `origins` differ in length; a stride of less than 512; fewer values than blocks need, or more
    /// than 2^32.
    pub fn new(
        values: &'a [f32],
        stride: usize,
        origins: &'a [[i32; 3]],
        neighbors: &'a [[u32; 27]],
        map: Map,
    ) -> Result<Self> {
        let (n, m) = (origins.len(), neighbors.len());
        if n != m {
            return Err(Error::invalid(format!("{m} times neighbours for {n} blocks")));
        }
        let needed = n.checked_sub(1).map_or(Some(0), |last| {
            last.checked_mul(stride).and_then(|begin| begin.checked_add(BLOCK))
        });
        let reachable = needed.is_some_and(|end| end <= values.len() && end <= MOST_VALUES);
        if stride < BLOCK || u32::try_from(stride).is_err() || !reachable {
            let there = values.len();
            let message = format!("{there} values for {n} blocks, each {stride} from the last");
            return Err(Error::invalid(message));
        }
        Ok(Self { values, stride, origins, neighbors, map })
    }

    /// Creates a field of contiguous blocks, whose arrays have matching lengths.
    pub(super) fn packed(
        values: &'a [f32],
        origins: &'a [[i32; 3]],
        neighbors: &'a [[u32; 27]],
        map: Map,
    ) -> Self {
        Self { values, stride: BLOCK, origins, neighbors, map }
    }

    /// Returns the values.
    #[must_use]
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.origins.len()
    }

    /// Returns the block of coordinates from -1 to 8 in a block.
    #[inline(always)]
    fn block_at(&self, block: u32, [x, y, z]: [i32; 3]) -> Option<u32> {
        // The shifts are arithmetic: -1, 0 or 1.
        let neighbor = 9 * ((x >> 3) + 1) + 3 * ((y >> 3) + 1) + (z >> 3) + 1;
        if neighbor == 13 {
            return Some(block);
        }
        let neighbors = self.neighbors.get(block as usize)?;
        neighbors.get(neighbor as usize).copied().filter(|at| (*at as usize) < self.blocks())
    }

    /// Returns the signs of the half plane of p, in this block or an adjacent one.
    #[inline(always)]
    fn signs_at(&self, signs: &AllSigns, block: u32, p: [i32; 3]) -> Signs {
        let word = |at: u32| at * BLOCK_WORDS + offset(p) / 32;
        let at = self.block_at(block, p).map(word);
        at.map_or_else(Signs::default, |at| signs.at(at as usize, 32))
    }

    /// Returns the signs of 4 rows from row y on: half a plane, or one row less.
    #[inline(always)]
    fn rows_at(&self, signs: &AllSigns, block: u32, p: [i32; 3]) -> Signs {
        let low = self.signs_at(signs, block, p);
        if p[1] % 4 == 0 {
            return low;
        }
        low.from(8, self.signs_at(signs, block, moved(p, 1, 3)))
    }
}

/// Returns the coordinates of a corner in its block.
#[inline(always)]
fn local(corner: Place) -> [i32; 3] {
    let at = (corner.word % BLOCK_WORDS * 32 + corner.lane).cast_signed();
    [at >> 6, at >> 3 & 7, at & 7]
}

#[inline(always)]
fn offset([x, y, z]: [i32; 3]) -> u32 {
    ((x & 7) << 6 | (y & 7) << 3 | (z & 7)).cast_unsigned()
}

impl Field for BlockField<'_> {}

impl Source for BlockField<'_> {
    fn words(&self) -> usize {
        self.blocks() * BLOCK_WORDS as usize
    }

    fn map(&self) -> &Map {
        &self.map
    }

    #[inline(always)]
    fn values_of(&self, word: u32) -> &[f32] {
        let first =
            (word / BLOCK_WORDS) as usize * self.stride + (word % BLOCK_WORDS) as usize * 32;
        self.values.get(first..first + 32).unwrap_or_default()
    }

    #[inline(always)]
    fn around(&self, signs: &AllSigns, word: u32) -> [Signs; 8] {
        let block = word / BLOCK_WORDS;
        let [x, y, _] = local(Place { word, lane: 0 });
        // One step along z in each row of 8; the last bit comes from the block after.
        let step = |row: u32, after: u32| (row >> 1 & 0x7f7f_7f7f) | (after & 0x0101_0101) << 7;
        let mut corners = [Signs::default(); 8];
        for i in 0..4 {
            let (x, y) = (x + i / 2, y + i % 2);
            let row = self.rows_at(signs, block, [x, y, 0]);
            let after = self.rows_at(signs, block, [x, y, 8]);
            corners[2 * i as usize] = row;
            corners[2 * i as usize + 1] = Signs {
                inside: step(row.inside, after.inside),
                known: step(row.known, after.known),
            };
        }
        corners
    }

    #[inline(always)]
    fn corner(&self, cell: Place, corner: u32) -> Place {
        let [x, y, z] = local(cell);
        let by = |bit: u32| (corner >> bit & 1).cast_signed();
        let to = [x + by(2), y + by(1), z + by(0)];
        let own = cell.word / BLOCK_WORDS;
        let (block, at) = (self.block_at(own, to).unwrap_or(own), offset(to));
        Place { word: block * BLOCK_WORDS + at / 32, lane: at % 32 }
    }

    #[inline(always)]
    fn position(&self, corner: Place) -> [i32; 3] {
        let origin = self.origins.get((corner.word / BLOCK_WORDS) as usize);
        let ([x, y, z], [dx, dy, dz]) = (origin.copied().unwrap_or_default(), local(corner));
        [x.wrapping_add(dx), y.wrapping_add(dy), z.wrapping_add(dz)]
    }

    #[inline(always)]
    fn beside(&self, corner: Place, axis: usize, step: i32) -> Option<f32> {
        let to = moved(local(corner), axis, step);
        let block = self.block_at(corner.word / BLOCK_WORDS, to)?;
        self.values.get(block as usize * self.stride + offset(to) as usize).copied()
    }
}
