//! Fields, and their positions in the world.

use std::sync::Arc;

use cuda_safe::{
    Allocation, DeviceSlice, Error, KernelArg, Result,
    arg::{ArgType, UseVisitor},
};
use nanovdb::Map;

use super::layout::{RawDenseField, RawIndexMap};
use super::passes::Kind;
use crate::part::read;

/// The most values of a field: their indices have 32 bits.
pub(crate) const MOST_VALUES: usize = 1 << 32;

/// The corners per word: `device/geom/isosurface/types.cuh`.
const WORD: usize = 32;

impl From<&Map> for RawIndexMap {
    fn from(map: &Map) -> Self {
        let [a, b, c] = map.matrix();
        // The cofactors are the transposed inverse, times the determinant.
        let cofactors = [cross(b, c), cross(c, a), cross(a, b)];
        let determinant = dot(a, cofactors[0]);
        let largest = cofactors.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
        let scale = determinant.signum() / largest;
        let normal_rows = cofactors.map(|row| row.map(|x| x * scale));
        let mirrored = u32::from(determinant < 0.0);
        Self { rows: map.rows(), normal_rows, mirrored, unused: 0 }
    }
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

/// A field that [`MarchingCubes`](super::MarchingCubes) finds surfaces in. Only this crate implements it.
pub trait Field: Source {}

/// The properties of a field that the passes need.
#[doc(hidden)]
pub trait Source {
    /// The kind, which selects the kernels.
    type Kind: Kind;
    /// The kernel argument.
    type Arg<'s>: KernelArg<Abi = Self::Kind>
    where
        Self: 's;
    fn arg(&self) -> Self::Arg<'_>;
    /// Returns the number of words of 32 corners, at most 2^31; 0 if there is no cell.
    fn words(&self) -> usize;
    fn map(&self) -> RawIndexMap;
    /// Whether its words are consistent by construction: references between words are always valid.
    const CONSISTENT: bool;
    /// Returns the memory of the field.
    fn allocations(&self) -> [Arc<Allocation>; 3];
    /// Returns the memory of the field for an adjoint.
    #[cfg(feature = "tape")]
    fn parts(&self) -> Parts<'_>;
}

/// A field of either kind.
#[cfg(feature = "tape")]
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum Parts<'a> {
    Dense(DenseField<'a>),
    Blocks(super::BlockField<'a>),
}

/// A dense field: the value at the lattice point (x, y, z) is element (x ny + y) nz + z.
#[derive(Debug, Clone, Copy)]
pub struct DenseField<'a> {
    values: DeviceSlice<'a, f32>,
    dims: [u32; 3],
    map: Map,
}

impl<'a> DenseField<'a> {
    /// Creates a field of `dims` = nx, ny and nz values. If one of them is less than 2, there is no surface.
    ///
    /// # Errors
    /// Another number of values than nx ny nz; more than 2^32 values.
    pub fn new(
        values: impl Into<DeviceSlice<'a, f32>>,
        dims: [usize; 3],
        map: Map,
    ) -> Result<Self> {
        let values = values.into();
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
        // An extent beyond u32 becomes 0: such a field has another extent of 0 or two of 1, so there is no cell in
        // any case.
        let dims = dims.map(|n| u32::try_from(n).unwrap_or(0));
        Ok(Self { values, dims, map })
    }

    /// Returns the values.
    #[must_use]
    pub fn values(&self) -> DeviceSlice<'a, f32> {
        self.values
    }

    /// Returns nx, ny and nz.
    #[must_use]
    pub fn dims(&self) -> [usize; 3] {
        self.dims.map(|n| n as usize)
    }

    /// Returns the map to the world.
    #[must_use]
    pub fn map(&self) -> Map {
        self.map
    }

    fn row_words(&self) -> usize {
        self.dims().map(|n| n.div_ceil(WORD))[2]
    }
}

impl Field for DenseField<'_> {}

impl Source for DenseField<'_> {
    type Kind = RawDenseField;
    type Arg<'s>
        = Self
    where
        Self: 's;

    fn arg(&self) -> Self {
        *self
    }

    fn words(&self) -> usize {
        let [nx, ny, nz] = self.dims();
        if nx < 2 || ny < 2 || nz < 2 {
            return 0;
        }
        // The number is at most half of the values.
        nx * ny * self.row_words()
    }

    fn map(&self) -> RawIndexMap {
        RawIndexMap::from(&self.map)
    }

    const CONSISTENT: bool = true;

    fn allocations(&self) -> [Arc<Allocation>; 3] {
        [(); 3].map(|()| self.values.allocation().clone())
    }

    #[cfg(feature = "tape")]
    fn parts(&self) -> Parts<'_> {
        Parts::Dense(*self)
    }
}

// SAFETY: kernels read the values, as many as `dims` say (`new`); they are reported as read.
unsafe impl KernelArg for DenseField<'_> {
    type Abi = RawDenseField;
    const TYPE: ArgType = ArgType::value::<RawDenseField>();

    fn abi(&self) -> RawDenseField {
        let [nx, ny, nz] = self.dims;
        RawDenseField {
            values: self.values.device_ptr(),
            nx,
            ny,
            nz,
            row_words: self.row_words() as u32,
            words: self.words() as u32,
            unused: 0,
        }
    }

    fn uses<V: UseVisitor>(&self, visitor: &mut V) -> Result<()> {
        read(visitor, &self.values)
    }
}
