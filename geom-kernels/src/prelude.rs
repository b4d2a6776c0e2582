//! The items that most programs need: `use geom_kernels::prelude::*;`.

pub use crate::bvh::Bvh;
pub use crate::hash_grid::{GridOptions, GridQueries, HashGrid};
pub use crate::isosurface::MarchingCubes;
pub use crate::mesh::{Mesh, MeshOptions, PointQueries, TriangleMesh};
pub use crate::volume::{Interpolation, Samples, Volume, VolumeOptions};
pub use crate::{Aabb, GeometryKernels, Ray};
