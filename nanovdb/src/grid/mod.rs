//! One grid in host memory.

mod changed;
mod info;
mod iter;

use crate::bytes::{Aligned, Fields, FieldsMut};
use crate::check::{self, Counts, Facts};
use crate::checksum::{self, ChecksumMode};
use crate::coord::{Coord, IndexBox};
use crate::element::{Value, VoxelValue};
use crate::error::{Error, Flaw, Result, input};
use crate::layout::head;
use crate::map::Map;
use crate::statistics;
use crate::tree::{Place, Tree};
use crate::{ValueType, Version};

pub use info::{BlindInfo, GridInfo};
pub use iter::{Leaf, Tile};

/// A grid: a tree of voxels' values, a map to world space, a name, and what else NanoVDB has. Its bytes
/// are those of the format, checked.
///
/// Other code can rely on the checks: every offset in the bytes leads to a node that exists, so code without checks (on
/// a device) stays inside. See [`from_bytes`](Self::from_bytes).
#[derive(Debug, Clone)]
pub struct Grid {
    data: Aligned,
    facts: Facts,
}

impl Grid {
    /// Creates a copy of a grid's bytes, all of them, checked.
    ///
    /// The checks, by the names that [`Error::check`] gives:
    ///
    /// | Check | What has to be |
    /// |---|---|
    /// | `size` | there are as many bytes as the grid says, and no more |
    /// | `magic`, `version`, `type`, `class` | known; leaves of indices need version 32.6 |
    /// | `grid-index` | below the grid's count |
    /// | `name` | ends with a zero |
    /// | `map` | finite, the inverse is the inverse, single precision agrees |
    /// | `voxel-size` | positive, or a voxel's diagonal by the map, which older writers store |
    /// | `offset` | nodes are aligned, inside the grid, one array for each level, none overlaps another |
    /// | `root-key` | each key is the key of an origin, and occurs once |
    /// | `mask` | no entry of a table is both a child and an active tile |
    /// | `child` | the offset of a child leads to a node of the level below |
    /// | `parent` | each node is the child of one entry |
    /// | `origin` | nodes lie where their parents say |
    /// | `box` | a leaf's box is inside the leaf |
    /// | `voxel-count` | the number of active voxels is the sum over the nodes |
    /// | `index` | indices are below the number of values, counts of voxels are those of the masks |
    /// | `blind` | blind data and what describes it is inside the grid and not in nodes |
    ///
    /// The numbers of active tiles are not checked: some writers put other numbers there. They are counted,
    /// and [`GridInfo`] has the true ones, as it has the true box of active voxels. Nor are values and
    /// statistics checked. The nodes of a level have to lie one behind the other, as all known
    /// writers have them.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the first check that failed, [`Error::UnsupportedType`], or a wrong
    /// checksum (check `checksum`); no memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let grid = Self::from_bytes_without_checksum(bytes)?;
        grid.verify_checksum()?;
        Ok(grid)
    }

    /// Checks whether [`from_bytes`](Self::from_bytes) accepts bytes, without a copy of them: for callers that put the
    /// bytes elsewhere, for example on a device.
    ///
    /// # Errors
    /// As there.
    pub fn validate(bytes: &[u8]) -> Result<()> {
        let facts = check::check(bytes)?;
        verify_checksum(Tree::new(bytes, facts.value_type, facts.shape))
    }

    /// Creates a grid as [`from_bytes`](Self::from_bytes) does, from bytes whose checksum may be wrong.
    ///
    /// # Errors
    /// As there, but for the checksum.
    pub fn from_bytes_without_checksum(bytes: &[u8]) -> Result<Self> {
        let facts = check::check(bytes)?;
        Ok(Self { data: Aligned::copy(bytes)?, facts })
    }

    /// Creates a grid from bytes that this crate has written, with the same checks.
    pub(crate) fn from_aligned(data: Aligned) -> Result<Self> {
        let facts = check::check(data.as_slice())?;
        Ok(Self { data, facts })
    }

    /// Returns the bytes of the format, at an address that is a multiple of 32.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.data.as_slice()
    }

    /// Returns what its values are.
    #[must_use]
    pub fn value_type(&self) -> ValueType {
        self.facts.value_type
    }

    /// Returns the version of the format that its bytes are of.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::from_code(self.bytes().u32(head::VERSION))
    }

    /// Returns the grid's name.
    #[must_use]
    pub fn name(&self) -> String {
        check::name(self.bytes(), &self.facts.blind)
    }

    /// Returns the map from index space to world space.
    #[must_use]
    pub fn map(&self) -> Map {
        Map::load(self.bytes())
    }

    /// Returns how many voxels are active, those of active tiles among them.
    #[must_use]
    pub fn active_voxels(&self) -> u64 {
        self.facts.counts.voxels
    }

    /// Returns the box of active voxels, `None` if there are none.
    #[must_use]
    pub fn index_box(&self) -> Option<IndexBox> {
        let active = self.facts.counts.active;
        (!active.is_empty()).then_some(active)
    }

    /// Returns how many values the indices of an index grid are for, the background's (0) among them; 0 for other
    /// grids.
    #[must_use]
    pub fn value_count(&self) -> u64 {
        match self.value_type().is_index() {
            true => self.bytes().u64(head::VALUE_COUNT),
            false => 0,
        }
    }

    /// Returns all properties except the voxels.
    #[must_use]
    pub fn info(&self) -> GridInfo {
        info::info(self)
    }

    /// Returns the value of a voxel: the background's where nothing is stored. Those of inactive voxels are as
    /// they are stored.
    #[must_use]
    pub fn value(&self, ijk: Coord) -> Value {
        let tree = self.tree();
        tree.value(tree.find(ijk))
    }

    /// Returns [`value`](Self::value) as a Rust type.
    ///
    /// # Errors
    /// [`Error::WrongType`]: it is not the type of the grid's values.
    pub fn get<T: VoxelValue>(&self, ijk: Coord) -> Result<T> {
        self.expect_element::<T>()?;
        let tree = self.tree();
        Ok(tree.load(tree.find(ijk)))
    }

    /// Returns the value of voxels that are not stored.
    #[must_use]
    pub fn background(&self) -> Value {
        self.tree().value(Place::Background)
    }

    /// Returns whether a voxel is active.
    #[must_use]
    pub fn is_active(&self, ijk: Coord) -> bool {
        let tree = self.tree();
        tree.is_active(tree.find(ijk))
    }

    /// Returns the leaves, in the order in which they are stored.
    pub fn leaves(&self) -> impl ExactSizeIterator<Item = Leaf<'_>> {
        iter::leaves(self.tree())
    }

    /// Returns the tiles of all levels that are active or have another value than the background: those in
    /// the root, then those of upper nodes, then those of lower nodes.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        iter::tiles(self.tree())
    }

    /// Returns how much blind data there is: arrays that the grid carries along.
    #[must_use]
    pub fn blind_count(&self) -> usize {
        self.facts.blind.len()
    }

    /// Returns blind data `n`, `None` if there are fewer. [`GridInfo::blind`] describes it.
    #[must_use]
    pub fn blind_data(&self, n: usize) -> Option<&[u8]> {
        self.facts.blind.get(n).map(|blind| check::blind_data(self.bytes(), blind))
    }

    /// Computes the minima, maxima, averages, deviations and boxes of all nodes and of the grid, and the
    /// checksum of the kind that there was. Averages and deviations of vectors are those of their
    /// squared lengths, and they are ordered by these, as in NanoVDB. Masks, bools and indices have
    /// boxes only. Nodes without active voxels have the background for their minimum and maximum.
    pub fn update_statistics(&mut self) {
        let (value_type, shape) = (self.facts.value_type, self.facts.shape);
        let mode = self.checksum_mode();
        statistics::update(self.data.as_mut_slice(), value_type, shape);
        self.update_checksum(mode);
    }

    /// Returns which part of the grid its checksum is of.
    #[must_use]
    pub fn checksum_mode(&self) -> ChecksumMode {
        checksum::mode(self.bytes().u64(head::CHECKSUM))
    }

    /// Computes the checksum, as the grid's version has it.
    pub fn update_checksum(&mut self, mode: ChecksumMode) {
        let checksum = checksum::compute(self.tree(), mode);
        self.data.as_mut_slice().put_u64(head::CHECKSUM, checksum);
    }

    /// Compares the checksum with the bytes. Without one there is nothing to compare.
    ///
    /// # Errors
    /// [`Error::Invalid`], the check is `checksum`.
    pub fn verify_checksum(&self) -> Result<()> {
        verify_checksum(self.tree())
    }

    /// Returns the same grid with another head: magic number, version and what a file wants, and the checksum.
    pub(crate) fn with_head(
        &self,
        magic: u64,
        version: Version,
        mode: ChecksumMode,
    ) -> Result<Self> {
        let mut grid = self.clone();
        let bytes = grid.data.as_mut_slice();
        bytes.put_u64(head::MAGIC, magic);
        bytes.put_u32(head::VERSION, version.code());
        bytes.put_u32(head::GRID_INDEX, 0);
        bytes.put_u32(head::GRID_COUNT, 1);
        for blind in &self.facts.blind {
            let size = match version >= Version::INDEX {
                true => u32::try_from(blind.value_size).unwrap_or(0),
                false if check::type_size(bytes.u32(blind.meta + 28)) == blind.value_size => 0,
                false => {
                    let what = "blind data whose values' size its type does not tell needs Format::Current";
                    return Err(input("format", what));
                }
            };
            bytes.put_u32(blind.meta + 16, size);
        }
        grid.update_checksum(mode);
        // The meaning of blind data depends on the version.
        match grid.facts.blind.is_empty() {
            true => Ok(grid),
            false => Self::from_aligned(grid.data),
        }
    }

    pub(crate) fn tree(&self) -> Tree<'_> {
        Tree::new(self.data.as_slice(), self.facts.value_type, self.facts.shape)
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.facts.counts
    }

    fn expect_element<T: VoxelValue>(&self) -> Result<()> {
        match T::TYPES.contains(&self.value_type()) {
            true => Ok(()),
            false => Err(Error::WrongType { found: self.value_type(), asked: T::NAME }),
        }
    }

    /// Returns the class's number.
    pub(crate) fn class_code(&self) -> u32 {
        self.bytes().u32(head::CLASS)
    }

    /// Returns the box of active voxels in world space: the corners of the first voxel to the far ones of the last.
    pub(crate) fn world_box(&self) -> Option<[[f64; 3]; 2]> {
        self.index_box().map(|active| statistics::world_box(&self.map(), active))
    }

    /// Returns whether nodes have minima and maxima that were computed.
    #[must_use]
    pub fn has_statistics(&self) -> bool {
        self.bytes().u32(head::FLAGS) & crate::layout::flags::MIN_MAX != 0
    }
}

fn verify_checksum(tree: Tree<'_>) -> Result<()> {
    let stored = tree.bytes.u64(head::CHECKSUM);
    if checksum::verify(tree, stored) {
        return Ok(());
    }
    let what = format!("the checksum {stored:016x} is not the grid's");
    Err(Flaw::new("checksum", what).at(head::CHECKSUM).into())
}
