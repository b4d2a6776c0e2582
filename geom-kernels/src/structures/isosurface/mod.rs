//! Marching cubes on the CPU: the surfaces of [`crate::isosurface`], with the same order and the same bits, on all cores.
//!
//! ```
//! use geom_kernels::isosurface::Map;
//! use geom_kernels::structures::isosurface::{DenseField, extract};
//!
//! // The distance from a sphere of radius 0.8.
//! let (n, spacing) = (32, 2.0 / 31.0);
//! let at = |i: usize| i as f32 * spacing - 1.0;
//! let distance = |x: f32, y: f32, z: f32| (x * x + y * y + z * z).sqrt() - 0.8;
//! let values: Vec<f32> =
//!     (0..n * n * n).map(|i| distance(at(i / (n * n)), at(i / n % n), at(i % n))).collect();
//!
//! let map = Map::scaled([f64::from(spacing); 3], [-1.0; 3])?;
//! let sphere = extract(&DenseField::new(&values, [n, n, n], map)?, 0.0)?;
//! let volume = sphere.into_mesh().volume();
//! assert!((volume - 2.13).abs() < 0.01);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cases;
mod extract;
mod field;
mod volume;

pub use extract::{Output, Surface, count, extract, extract_into, extract_with_normals};
pub use field::{BlockField, DenseField, Field};
pub use volume::VolumeField;
