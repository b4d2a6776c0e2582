// Triangle meshes: closest points, signed distances, rays, overlaps, and what a mesh has at a point of a face. A
// kernel takes a `geom::Mesh` by value, for which `Mesh::view` of the Rust crate is passed.
//
// Where the adjoint of a kernel is generated, a query has the gradients of mesh/adjoint/: of closest points, distances
// and hits, by the query and by the mesh's points. Pass `Mesh::recorded_view` for the latter.
#pragma once

#include <geom/mesh/closest.cuh>
#include <geom/mesh/evaluate.cuh>
#include <geom/mesh/overlap.cuh>
#include <geom/mesh/rays.cuh>
#include <geom/mesh/sides.cuh>
#include <geom/mesh/signed_distance.cuh>
#include <geom/mesh/winding.cuh>
