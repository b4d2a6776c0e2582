//! The device headers, for programs that users compile with NVRTC or nvcc.

#[rustfmt::skip]
mod generated;

use generated::HEADERS;

/// Returns the name and the text of each device header.
///
/// They need no header of CUDA or of the host, and compile under every NVRTC from 12.0, with any options. [`program`]
/// includes them all; use this list to write them to a folder for nvcc, or to pass them to another compiler. All
/// declarations are in the namespace `geom`.
///
/// | header | contents |
/// |---|---|
/// | `geom/math/exact.cuh` | arithmetic and comparisons of one rounding each, whatever the options: `geom::exact` |
/// | `geom/math/angle.cuh` | `atan2` in exact arithmetic |
/// | `geom/math/vec.cuh` | `vec2<T>`, `vec3<T>`, `vec4<T>`, which convert to and from `float3` and its like |
/// | `geom/math/mat.cuh` | `mat2<T>`, `mat3<T>`, `mat4<T>`: columns; products, determinant, inverse |
/// | `geom/math/quat.cuh` | `quat<T>`: rotations, slerp |
/// | `geom/math/transform.cuh` | `rigid<T>` and `affine<T>`: of points, directions and normals |
/// | `geom/math/box.cuh` | `aabb<T>`: overlap, distance, union, area, exactly |
/// | `geom/math/ray.cuh` | `ray<T>`, and whether it meets a box: never missed |
/// | `geom/math/predicates.cuh` | signs of determinants without rounding errors: `orient2d`, `orient3d`, `edge_side` |
/// | `geom/mesh/triangle.cuh` | `Triangle`: closest point, watertight rays, inside or outside, overlap; parts of it in `geom/mesh/triangle/` |
/// | `geom/bvh.cuh` | `Bvh`: `for_each_overlap`, `for_each_within`, `for_each_along`, `nearest`, `first_along`, `bvh::Ascending`; parts of it in `geom/bvh/` |
/// | `geom/mesh.cuh` | `Mesh`: `closest_point`, `signed_distance`, `nearest_hit`, `for_each_hit`, `for_each_overlap`, `winding_number`, `position_at` and the like; parts of it in `geom/mesh/` |
/// | `geom/hash_grid.cuh` | `HashGrid<T>`: `for_each_neighbor`, `find_neighbor`, `NeighborIterator`, `nearest_neighbors`; parts of it in `geom/hash_grid/` |
/// | `geom/volume.cuh` | `Volume<T>`: `lookup`, `sample_nearest`, `sample_trilinear`, `sample_tricubic`, with gradients and of indices, `world_to_index` and the like, `is_active`, `store`; parts of it in `geom/volume/` |
/// | `geom/volume/march.cuh` | rays through a `Volume<T>`: `first_crossing`, `integrate`, `for_each_segment` |
/// | `geom/volume/iterate.cuh` | the leaves of a `Volume<T>`, for kernels that work on all voxels |
/// | `geom/isosurface.cuh` | block-level steps to find the surface in a field: `find_signs`, `count`, `emit`, also for custom fields; parts of it in `geom/isosurface/` |
/// | `geom/sort/*.cuh` | block-level sorts, scans, reductions and selections, to write such kernels |
/// | `geom/mesh/adjoint.cuh` | gradients through closest points, distances, hits of rays, positions, attributes and normals of a face; parts of it in `geom/mesh/adjoint/` |
/// | `geom/volume/adjoint.cuh` | gradients through samples of a `Volume<T>`: of positions, of voxels, of the arrays of indices |
/// | `geom/isosurface/adjoint.cuh` | gradients through the vertices of a surface in a field |
/// | `geom/math/adjoint.cuh` | helpers of the adjoints |
/// | `geom/tape.cuh` | with the feature `tape`: for adjoints of kernels: `grad_take`, `grad_add`, partial sums, scratch memory |
/// | `geom/ad.cuh` | with the feature `tape`: derivatives that a kernel itself knows: `geom::ad::{rule, stop, lost}` |
/// | `geom/layout.cuh` | assertions on what host and device both declare |
///
/// Each header says at its top whether it is *exact*: then its results have the same bits in every program and on
/// every device, also under `--use_fast_math` and `--fmad=false`. The rest is compiled with your options.
///
/// For nvcc, write them below a folder that is given with `-I`:
/// ```no_run
/// # let folder = std::path::Path::new("include");
/// for (name, text) in geom_kernels::headers() {
///     let path = folder.join(name);
///     std::fs::create_dir_all(path.parent().unwrap_or(folder))?;
///     std::fs::write(path, text)?;
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn headers() -> &'static [(&'static str, &'static str)] {
    HEADERS
}

/// Returns a program of this CUDA C++ text, which can `#include <geom/...>`: see [`headers`] for the list. Add
/// options, name expressions and further headers as to any other program. Compiling fails if a further header has the
/// name of one of these and another text: see [`Program::header`](cuda_safe::nvrtc::Program::header).
///
/// ```no_run
/// let program = geom_kernels::program(
///     r#"#include <geom/math/transform.cuh>
///        extern "C" __global__ void place(geom::rigid<float> where, float3* points, unsigned n) {
///            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
///            if (i < n) points[i] = point(where, geom::vec3<float>(points[i]));
///        }"#,
/// );
/// let image = program.compile(cuda_safe::nvrtc::Arch::sm(9, 0))?;
/// # Ok::<(), cuda_safe::nvrtc::Error>(())
/// ```
pub fn program(source: impl Into<String>) -> cuda_safe::nvrtc::Program {
    let program = cuda_safe::nvrtc::Program::new(source);
    HEADERS.iter().fold(program, |program, (name, text)| program.header(*name, *text))
}
