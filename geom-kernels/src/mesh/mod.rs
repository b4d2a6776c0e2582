//! Triangle meshes: closest points, signed distances, rays and overlaps on the device; and meshes on the host,
//! from shapes and from files.
//!
//! ```no_run
//! use cuda_safe::{Context, DeviceBuffer};
//! use geom_kernels::GeometryKernels;
//! use geom_kernels::mesh::{Mesh, MeshOptions, PointQueries, Sign, shapes};
//!
//! let context = Context::new(0)?;
//! let stream = context.stream()?;
//! let sphere = shapes::icosphere(5, 1.0)?;
//! let mesh = Mesh::upload(&stream, &GeometryKernels::new(&context), &sphere, MeshOptions::default())?;
//!
//! let points = DeviceBuffer::from_slice(&stream, &[[0.0f32, 0.0, 0.0], [3.0, 0.0, 0.0]])?;
//! let mut distances = DeviceBuffer::<f32>::zeroed(&stream, 2)?;
//! mesh.signed_distances(&stream, &PointQueries::at(&points), Sign::Normal, &mut distances)?;
//! let distances = distances.to_vec(&stream)?;
//! assert!((distances[0] + 1.0).abs() < 1e-2 && (distances[1] - 2.0).abs() < 1e-2);
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! [`Mesh`] is a mesh on the device, with a hierarchy over its faces. Results of its queries depend neither on how
//! the hierarchy was built nor on the device or the order of queries (except winding numbers, which are
//! approximations):
//! - the closest face is the face of least distance, as rounded; among equal distances, the face of least index;
//! - a ray hits exactly one of the faces that share an edge or a vertex which it passes through;
//! - inside and outside of a closed mesh are decided without rounding errors where normals are ambiguous.
//!
//! Faces with an index out of range or a vertex that is not finite are skipped; a mesh may have no faces. Coordinates
//! are at most 2^60 in magnitude, and edges shorter than 2^-63 count as points. In your own kernels, use `#include
//! <geom/mesh.cuh>` and a parameter `geom::Mesh`, and pass [`Mesh::view`]. With `__launch_bounds__(128, 10)` closest
//! points take 48 registers instead of 76, and less time.
//!
//! [`TriangleMesh`] is a mesh in host memory: points, and faces that name three of them. [`shapes`] makes
//! such meshes; with the feature `mesh-files` they are read from and written to OBJ, STL and PLY.
//!
//! ```
//! use geom_kernels::mesh::shapes::{self, Noise};
//!
//! let mut mesh = shapes::icosphere(3, 1.0)?;
//! assert_eq!((mesh.points.len(), mesh.faces.len()), (642, 1280));
//!
//! // A bumpy stone beside it, in the same mesh.
//! let mut stone = shapes::icosphere(4, 0.5)?;
//! stone.displace(&Noise::new(7), 0.1, 3.0)?;
//! stone.translate([2.0, 0.0, 0.0]);
//! mesh.append(&stone)?;
//! assert!(mesh.bounds().is_some_and(|bounds| bounds.upper[0] > 2.3));
//! # Ok::<(), cuda_safe::Error>(())
//! ```
//!
//! # Sources
//! C. Ericson, Real-Time Collision Detection, 2005; S. Woop, C. Benthin, I. Wald, Watertight Ray/Triangle
//! Intersection, 2013; J. Bærentzen, H. Aanæs, Signed Distance Computation Using the Angle Weighted Pseudonormal,
//! 2005; G. Barill and others, Fast Winding Numbers for Soups and Clouds, 2018; J. Shewchuk, Adaptive Precision
//! Floating-Point Arithmetic and Fast Robust Geometric Predicates, 1997.

mod arrays;
mod build;
mod evaluate;
mod face_tree;
#[cfg(feature = "mesh-files")]
pub mod files;
mod host;
pub(crate) mod layout;
mod overlaps;
mod points;
mod ray_queries;
mod report;
pub mod shapes;
mod topology;
mod validate;
mod view;
pub(crate) mod winding;

pub use arrays::Array;
pub use build::{Mesh, MeshOptions};
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use face_tree::FaceTree;
pub use host::TriangleMesh;
pub use layout::{ClosestPoint, FacePoint, NO_FACE, RayHit};
pub use overlaps::Overlap;
pub use points::{PointQueries, Sign};
pub use ray_queries::HitLists;
pub use report::MeshReport;
pub(crate) use topology::{MAX_FACES, MAX_POINTS as MAX_MESH_POINTS};
pub use topology::{Surface, Topology};
pub(crate) use validate::Counts;
#[cfg(feature = "internals")]
#[doc(hidden)]
pub use validate::{Fault, Validation};
pub use view::MeshView;

pub use crate::ray::Ray;
