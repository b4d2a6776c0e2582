//! Fields, and their positions in the world.

use std::sync::Arc;

use cuda_safe::{
    Allocation, DeviceSlice, Error, KernelArg, Result,
    arg::{ArgType, UseVisitor},
};

use super::layout::{RawDenseField, RawIndexMap};
use super::passes::Kind;
use crate::part::read;

/// The most values of a field: their indices have 32 bits.
pub(crate) const MOST_VALUES: usize = 1 << 32;

/// The corners per word: `device/geom/isosurface/types.cuh`.
const WORD: usize = 32;

/// The affine map from a field's indices to the world.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IndexToWorld {
    pub(crate) raw: RawIndexMap,
}

impl Default for IndexToWorld {
    /// Returns the identity: indices are positions.
    fn default() -> Self {
        let rows = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
        let normal_rows = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        Self { raw: RawIndexMap { rows, normal_rows, mirrored: 0, unused: 0 } }
    }
}

impl IndexToWorld {
    /// Creates a map that places value (0, 0, 0) at `origin`; `spacing` has the distance of neighbours along each axis.
    ///
    /// # Errors
    /// A value that is not finite; a spacing of 0.
    pub fn new(origin: [f64; 3], spacing: [f64; 3]) -> Result<Self> {
        let ([x, y, z], [a, b, c]) = (origin, spacing);
        Self::affine([[a, 0.0, 0.0, x], [0.0, b, 0.0, y], [0.0, 0.0, c, z]])
    }

    /// Creates a map that places index (i, j, k) at `rows` · (i, j, k, 1). If the map mirrors, the orientation of faces
    /// is reversed.
    ///
    /// # Errors
    /// A value that is not finite; a linear part without inverse.
    pub fn affine(rows: [[f64; 4]; 3]) -> Result<Self> {
        if !rows.iter().flatten().all(|x| x.is_finite()) {
            return Err(Error::invalid("a map from indices to the world that is not finite"));
        }
        let [a, b, c] = rows.map(|[x, y, z, _]| [x, y, z]);
        let determinant = dot(a, cross(b, c));
        // The determinant is infinite or NaN if it overflows.
        if determinant == 0.0 || !determinant.is_finite() {
            let message = format!("a map from indices to the world of determinant {determinant}");
            return Err(Error::invalid(message));
        }
        // The cofactors are the transposed inverse, times the determinant.
        let cofactors = [cross(b, c), cross(c, a), cross(a, b)];
        let largest = cofactors.iter().flatten().fold(0.0f64, |most, x| most.max(x.abs()));
        let scale = determinant.signum() / largest;
        let normal_rows = cofactors.map(|row| row.map(|x| x * scale));
        let mirrored = u32::from(determinant < 0.0);
        Ok(Self { raw: RawIndexMap { rows, normal_rows, mirrored, unused: 0 } })
    }

    /// Returns the matrix, three rows of four; the last column is the translation.
    #[must_use]
    pub fn rows(&self) -> [[f64; 4]; 3] {
        self.raw.rows
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
    map: IndexToWorld,
}

impl<'a> DenseField<'a> {
    /// Creates a field of `dims` = nx, ny and nz values. If one of them is less than 2, there is no surface.
    ///
    /// # Errors
    /// Another number of values than nx ny nz; more than 2^32 values.
    pub fn new(
        values: impl Into<DeviceSlice<'a, f32>>,
        dims: [usize; 3],
        map: IndexToWorld,
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
    pub fn map(&self) -> IndexToWorld {
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
        self.map.raw
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
