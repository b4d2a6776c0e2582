//! Making grids on the host.

mod nodes;
mod write;

use crate::coord::Coord;
use crate::element::{Storage, VoxelValue};
use crate::error::{Result, input};
use crate::grid::Grid;
use crate::layout::head;
use crate::map::Map;
use crate::{GridClass, ValueType};

use nodes::Nodes;

/// A type for building grids: the type of the values, or one of [`ValueMask`], [`ValueIndex`] and [`ValueOnIndex`],
/// whose voxels have none and are set to `()`.
pub trait Build: sealed::Sealed {
    /// A voxel's value.
    type Value: BuildValue;
    /// The type of the grid's values.
    const TYPE: ValueType;
}

mod sealed {
    pub trait Sealed {}
}

/// A value that voxels can be set to.
#[expect(private_bounds, reason = "nobody else implements it")]
pub trait BuildValue: StoredValue {}
impl<V: StoredValue> BuildValue for V {}

/// How values that voxels are set to get into the grid.
pub(crate) trait StoredValue: Copy + PartialEq + std::fmt::Debug {
    const NOTHING: Self;
    fn store(self, active: bool, bytes: &mut [u8], at: usize);
    fn store_in_leaf(self, bytes: &mut [u8], at: usize, n: usize);
    fn distance(self, other: Self) -> f64;
}

impl<T: VoxelValue> StoredValue for T {
    const NOTHING: Self = T::ZERO;
    fn store(self, _: bool, bytes: &mut [u8], at: usize) {
        Storage::store(self, bytes, at);
    }
    fn store_in_leaf(self, bytes: &mut [u8], at: usize, n: usize) {
        Storage::store_in_leaf(self, bytes, at, n);
    }
    fn distance(self, other: Self) -> f64 {
        Storage::distance(self, other)
    }
}

/// The value of a mask's tile is whether it is active; those of indices are given when the grid is
/// made.
impl StoredValue for () {
    const NOTHING: Self = ();
    fn store(self, active: bool, bytes: &mut [u8], at: usize) {
        Storage::store(active, bytes, at);
    }
    fn store_in_leaf(self, _: &mut [u8], _: usize, _: usize) {}
    fn distance(self, (): Self) -> f64 {
        f64::INFINITY
    }
}

macro_rules! build {
    ($($T:ty: $V:ty = $type:ident;)*) => {$(
        impl sealed::Sealed for $T {}
        impl Build for $T {
            type Value = $V;
            const TYPE: ValueType = ValueType::$type;
        }
    )*};
}

/// Makes grids of [`ValueType::Mask`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueMask;
/// Makes grids of [`ValueType::Index`]. Indices are given to active tiles, those in the root first, then
/// those of upper and of lower nodes, then to all voxels of each leaf. Inactive tiles have the
/// background's, 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueIndex;
/// Makes grids of [`ValueType::OnIndex`]. Indices are given to active tiles, those in the root first, then
/// those of upper and of lower nodes, then to the active voxels of each leaf. All else has the
/// background's, 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueOnIndex;

build! {
    f32: f32 = F32;
    f64: f64 = F64;
    i16: i16 = I16;
    i32: i32 = I32;
    i64: i64 = I64;
    [f32; 3]: [f32; 3] = Vec3F;
    [f64; 3]: [f64; 3] = Vec3D;
    u32: u32 = U32;
    bool: bool = Bool;
    [u8; 4]: [u8; 4] = Rgba8;
    [f32; 4]: [f32; 4] = Vec4F;
    [f64; 4]: [f64; 4] = Vec4D;
    u8: u8 = U8;
    ValueMask: () = Mask;
    ValueIndex: () = Index;
    ValueOnIndex: () = OnIndex;
}

/// Makes a grid of voxels and tiles.
///
/// ```
/// use nanovdb::{Builder, Map};
///
/// let mut builder = Builder::<f32>::new(0.0);
/// builder.name("density").map(Map::uniform(0.1, [0.0; 3])?);
/// for x in 0..10 {
///     builder.set([x, 0, -x], x as f32);
/// }
/// let grid = builder.build()?;
/// assert_eq!(grid.get::<f32>([3, 0, -3])?, 3.0);
/// assert_eq!(grid.active_voxels(), 10);
/// # Ok::<(), nanovdb::Error>(())
/// ```
///
/// Memory grows with the leaves, and what is made has the nodes that were touched: an upper node takes
/// about 270 KB with values of 4 bytes, also for one voxel.
#[derive(Debug, Clone)]
pub struct Builder<T: Build> {
    nodes: Nodes<T::Value>,
    name: String,
    class: Option<GridClass>,
    map: Map,
    blind: Vec<Array>,
    level: Option<u32>,
}

/// Blind data to be.
#[derive(Debug, Clone)]
struct Array {
    name: String,
    value_type: Option<ValueType>,
    bytes: Vec<u8>,
}

impl<T: Build> Builder<T> {
    /// Creates a grid with only a background.
    #[must_use]
    pub fn new(background: T::Value) -> Self {
        Self {
            nodes: Nodes::new(background),
            name: String::new(),
            class: None,
            map: Map::default(),
            blind: Vec::new(),
            level: None,
        }
    }

    /// Creates a grid from the values of a box that differ from the background, which is zero: [`new`](Self::new) and
    /// [`dense`](Self::dense).
    ///
    /// # Errors
    /// As [`dense`](Self::dense).
    pub fn from_dense(
        dims: [u32; 3],
        values: &[T::Value],
        origin: Coord,
        tolerance: f64,
    ) -> Result<Self> {
        let mut builder = Self::new(T::Value::NOTHING);
        builder.dense(dims, values, origin, tolerance)?;
        Ok(builder)
    }

    /// Sets the grid's name, of up to 255 bytes.
    pub fn name(&mut self, name: &str) -> &mut Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Sets what the grid is for. Otherwise a topology for masks, an index grid for indices, else anything.
    pub fn class(&mut self, class: GridClass) -> &mut Self {
        self.class = Some(class);
        self
    }

    /// Sets the map from index space to world space; by default they are the same.
    pub fn map(&mut self, map: Map) -> &mut Self {
        self.map = map;
        self
    }

    /// Gives a voxel a value and makes it active.
    pub fn set(&mut self, ijk: Coord, value: T::Value) -> &mut Self {
        self.nodes.set(ijk, value, true);
        self
    }

    /// Gives a voxel a value and makes it inactive.
    pub fn set_inactive(&mut self, ijk: Coord, value: T::Value) -> &mut Self {
        self.nodes.set(ijk, value, false);
        self
    }

    /// Gives all voxels of a cube a value. Level 1 is a cube of 8^3 voxels, a tile of a lower node; 2 one of
    /// 128^3, of an upper node; 3 one of 4096^3, of the root; 0 a voxel. The cube contains `ijk`. Its earlier contents
    /// are lost; voxels can be set in it later.
    pub fn fill_tile(
        &mut self,
        level: u32,
        ijk: Coord,
        value: T::Value,
        active: bool,
    ) -> &mut Self {
        match level {
            0 => self.nodes.set(ijk, value, active),
            1..=3 => self.nodes.fill(level, ijk, value, active),
            _ => self.level = Some(level),
        }
        self
    }

    /// Sets the values of a box of voxels: `values[(x * ny + y) * nz + z]` is the value of `origin + (x, y, z)`. Values
    /// farther than `tolerance` from the background, along an axis for vectors, become active voxels; other voxels keep
    /// their values.
    ///
    /// # Errors
    /// The number of values does not match the box; a box that ends beyond the range of coordinates; a tolerance that
    /// is negative or not a number.
    pub fn dense(
        &mut self,
        dims: [u32; 3],
        values: &[T::Value],
        origin: Coord,
        tolerance: f64,
    ) -> Result<&mut Self> {
        if tolerance.is_nan() || tolerance < 0.0 {
            return Err(input("tolerance", format!("a tolerance of {tolerance}")));
        }
        let count = dims.iter().try_fold(1usize, |n, dim| n.checked_mul(*dim as usize));
        if count != Some(values.len()) {
            let what = format!("{} values for a box of {dims:?} voxels", values.len());
            return Err(input("dense", what));
        }
        let ends = [0, 1, 2].map(|a: usize| i64::from(origin[a]) + i64::from(dims[a]));
        if ends.iter().any(|end| *end > i64::from(i32::MAX) + 1) {
            let what =
                format!("a box of {dims:?} voxels from {origin:?} on is beyond the coordinates");
            return Err(input("dense", what));
        }
        self.nodes.dense(dims.map(|dim| dim as usize), values, origin, tolerance);
        Ok(self)
    }

    /// Adds an array for the grid to carry along: values of a type, or bytes.
    pub fn blind_data(
        &mut self,
        name: &str,
        value_type: Option<ValueType>,
        bytes: &[u8],
    ) -> &mut Self {
        self.blind.push(Array { name: name.to_owned(), value_type, bytes: bytes.to_vec() });
        self
    }

    /// Returns the grid: its nodes breadth first, with statistics and a checksum of its head. It is of the version
    /// that most libraries read, see [`Format::Compatible`](crate::Format::Compatible); indices and
    /// `u8` are of the current one.
    ///
    /// # Errors
    /// A name or a level that cannot be, a class that is not for such values, blind data that is no
    /// whole number of values; more nodes than the format can count; no memory.
    pub fn build(&self) -> Result<Grid> {
        if let Some(level) = self.level {
            return Err(input("level", format!("tiles have levels 1 to 3, not {level}")));
        }
        let fits = |name: &str| name.len() < head::NAME_SIZE && !name.contains('\0');
        if !fits(&self.name) || !self.blind.iter().all(|array| fits(&array.name)) {
            return Err(input("name", "a name has at most 255 bytes, none of them zero"));
        }
        let class = self.class.unwrap_or(match T::TYPE {
            ValueType::Mask => GridClass::TOPOLOGY,
            value_type if value_type.is_index() => GridClass::INDEX_GRID,
            _ => GridClass::UNKNOWN,
        });
        if !suits(T::TYPE, class) {
            let what = format!("values of type {} in a grid that is a {class}", T::TYPE);
            return Err(input("class", what));
        }
        write::grid(self, class)
    }
}

impl<T: Build<Value = ()>> Builder<T> {
    /// Creates a grid from the active voxels and tiles of a grid, with its name and map: its mask, or indices for
    /// values stored elsewhere. A name that is too long is cut.
    #[must_use]
    pub fn from_active(grid: &Grid) -> Self {
        let mut builder = Self::new(());
        let mut name = grid.name();
        while name.len() >= head::NAME_SIZE {
            name.pop();
        }
        builder.name(&name).map(grid.map());
        for tile in grid.tiles().filter(|tile| tile.active) {
            builder.fill_tile(tile.level as u32, tile.origin, (), true);
        }
        for leaf in grid.leaves() {
            let mask = leaf.mask();
            for n in 0..512 {
                if mask.get(n / 64).is_some_and(|word| word >> (n % 64) & 1 != 0) {
                    builder.set(leaf.coord(n), ());
                }
            }
        }
        builder
    }
}

/// Returns whether a class of grids can have such values: the format's rules, by which libraries refuse
/// others.
fn suits(value_type: ValueType, class: GridClass) -> bool {
    use ValueType as V;
    match class {
        GridClass::LEVEL_SET | GridClass::FOG_VOLUME => matches!(value_type, V::F32 | V::F64),
        GridClass::STAGGERED => matches!(value_type, V::Vec3F | V::Vec3D | V::Vec4F | V::Vec4D),
        GridClass::POINT_INDEX | GridClass::POINT_DATA => value_type == V::U32,
        GridClass::TOPOLOGY => value_type == V::Mask,
        GridClass::INDEX_GRID => value_type.is_index(),
        GridClass::VOXEL_VOLUME => {
            let scalar = matches!(value_type, V::Rgba8 | V::F32 | V::F64 | V::U32 | V::U8);
            scalar || matches!(value_type, V::Vec3F | V::Vec3D)
        }
        class => class.code() < GridClass::END,
    }
}
