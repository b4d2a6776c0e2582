//! Volumes on the CPU: the queries of [`crate::volume`] with the same bits, for values of one type.
//!
//! ```
//! use geom_kernels::structures::Volume;
//! use geom_kernels::structures::volume::Samples;
//! use geom_kernels::volume::Interpolation;
//! use geom_kernels::volume::nanovdb::{Builder, Map};
//!
//! let mut builder = Builder::<f32>::new(0.0);
//! builder.map(Map::uniform(0.5, [0.0; 3])?).set([1, 2, 3], 4.0);
//! let volume = Volume::<f32>::new(builder.build()?)?;
//!
//! // One query, in index space.
//! assert_eq!(volume.sample_trilinear([1.0f32, 2.0, 3.5]), 2.0);
//! assert_eq!(volume.world_to_index([0.5f32, 1.0, 1.5]), [1.0, 2.0, 3.0]);
//!
//! // Many, on all cores.
//! let points = [[0.5f32, 1.0, 1.5], [0.5, 1.0, 1.75]];
//! let mut values = [0.0; 2];
//! volume.sample(&Samples::world(&points), Interpolation::Trilinear, &mut values)?;
//! assert_eq!(values, [4.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Positions are `f32` or `f64`; if positions or values are `f64`, so is the arithmetic. Queries of one position take
//! it in index space. Methods for one query have the names of `geom/volume/*.cuh`, and those for slices the names of
//! [`crate::volume::Volume`], with `_all` where both are the same.

pub(crate) mod exact;
mod fma;
mod interpolate;
mod map;
mod march;
mod numbers;
mod read;
mod regions;
mod sample;
mod tree;

use std::marker::PhantomData;

use cuda_safe::{Error, Result};
use nanovdb::Grid;

use self::fma::{Query, each, one};
use crate::Real;
use crate::lengths::same_length;
use crate::volume::{RawMap, VolumeValue};

use interpolate::View;
use map::{Map, To};
use tree::Tree;

pub(crate) use regions::Region;
pub use sample::{IndexedValues, Sample, Samples};
pub(crate) use tree::{lower_place, upper_place};

#[doc(hidden)]
pub use {map::MapOf, numbers::Numbers, read::Read};

/// The bytes of the map in a grid.
const MAP: usize = 296;

/// A sparse volume of values `T` in host memory. See the [module](self).
#[derive(Debug, Clone)]
pub struct Volume<T> {
    grid: Grid,
    tree: Tree,
    map: RawMap,
    values: PhantomData<fn() -> T>,
}

impl<T: VolumeValue> Volume<T> {
    /// Creates a volume from a grid. Takes time and memory for a directory of its leaves, at most an eighth of the
    /// grid's bytes.
    ///
    /// # Errors
    /// The grid has values of another type; no memory.
    pub fn new(grid: Grid) -> Result<Self> {
        let there = grid.value_type();
        if there != T::TYPE {
            let (there, wanted) = (there.name(), T::TYPE.name());
            let what = format!("the volume has values of {there}, not of {wanted}");
            return Err(Error::invalid(what));
        }
        // As on the device, tiles of one bit have the value that counts.
        let normalized = match grid.normalized_bytes() {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(bytes) => Some(bytes),
        };
        let grid = match normalized {
            Some(bytes) => Grid::from_bytes_without_checksum(&bytes)
                .map_err(|error| Error::invalid(error.to_string()))?,
            None => grid,
        };
        let (tree, map) = (Tree::new(&grid), read::at(grid.bytes(), MAP));
        Ok(Self { grid, tree, map, values: PhantomData })
    }

    /// Returns the grid.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the grid.
    #[must_use]
    pub fn into_grid(self) -> Grid {
        self.grid
    }

    #[inline(always)]
    fn view(&self) -> View<'_, T> {
        View { bytes: self.grid.bytes(), tree: &self.tree, values: PhantomData }
    }
}

#[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
impl<T: VolumeValue> Volume<T> {
    /// Returns the value where nothing is stored.
    #[must_use]
    pub fn background(&self) -> T {
        self.view().background()
    }

    /// Returns the value of a voxel, active or not; the background where nothing is stored.
    #[must_use]
    #[inline]
    pub fn lookup(&self, voxel: [i32; 3]) -> T {
        self.view().lookup(voxel)
    }

    /// Returns whether a voxel is active, itself or as part of a tile.
    #[must_use]
    pub fn is_active(&self, voxel: [i32; 3]) -> bool {
        self.tree.is_active(self.grid.bytes(), voxel)
    }

    /// Looks up the value of each voxel.
    ///
    /// # Errors
    /// `values` has another length than `voxels`.
    pub fn lookup_all(&self, voxels: &[[i32; 3]], values: &mut [T]) -> Result<()> {
        same_length("values", values.len(), voxels.len())?;
        each(&Lookup(self.view()), voxels, values);
        Ok(())
    }

    /// Finds whether each voxel is active.
    ///
    /// # Errors
    /// `active` has another length than `voxels`.
    pub fn is_active_all(&self, voxels: &[[i32; 3]], active: &mut [u8]) -> Result<()> {
        same_length("answers", active.len(), voxels.len())?;
        each(&Active(self.view()), voxels, active);
        Ok(())
    }
}

struct Lookup<'a, T>(View<'a, T>);

impl<T: VolumeValue> Query<[i32; 3]> for Lookup<'_, T> {
    type Output = T;

    #[inline(always)]
    fn get(&self, voxel: &[i32; 3]) -> T {
        self.0.lookup(*voxel)
    }
}

struct Active<'a, T>(View<'a, T>);

impl<T: VolumeValue> Query<[i32; 3]> for Active<'_, T> {
    type Output = u8;

    #[inline(always)]
    fn get(&self, voxel: &[i32; 3]) -> u8 {
        self.0.tree.is_active(self.0.bytes, *voxel).into()
    }
}

macro_rules! maps {
    ($($(#[$doc:meta])* $name:ident, $all:ident = $to:ident;)+) => {
        #[cfg_attr(feature = "rust-kernels", cuda_safe::kernel::device(structure))]
        impl<T: VolumeValue> Volume<T> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name<P: Real>(&self, from: [P; 3]) -> [P; 3] {
                    one(&Map(To::$to, &self.map), &from)
                }

                $(#[$doc])*
                ///
                /// # Errors
                /// `to` has another length than `from`.
                pub fn $all<P: Real>(&self, from: &[[P; 3]], to: &mut [[P; 3]]) -> Result<()> {
                    same_length("vectors", to.len(), from.len())?;
                    each(&Map(To::$to, &self.map), from, to);
                    Ok(())
                }
            )+
        }
    };
}

maps! {
    /// Maps positions from index space to the world.
    index_to_world, index_to_world_all = World;
    /// Maps positions from the world to index space.
    world_to_index, world_to_index_all = Index;
    /// Maps directions, which are differences of positions, from index space to the world.
    index_to_world_direction, index_to_world_directions = WorldDirection;
    /// Maps directions from the world to index space.
    world_to_index_direction, world_to_index_directions = IndexDirection;
    /// Maps gradients of a field from index space to the world: by the transpose of the map's inverse.
    index_to_world_gradient, index_to_world_gradients = WorldGradient;
    /// Maps gradients of a field from the world to index space.
    world_to_index_gradient, world_to_index_gradients = IndexGradient;
}
