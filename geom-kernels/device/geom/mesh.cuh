// Triangle meshes: closest points, signed distances, rays, overlaps, and positions, normals and attributes at a point
// of a face. A kernel takes a `geom::Mesh` by value; the host passes `Mesh::view` for it.
//
// In a kernel whose adjoint is generated, a query has the gradients of mesh/adjoint/: of closest points, distances
// and hits, with respect to the query and to the mesh's points. Pass `Mesh::recorded_view` for the latter.
#pragma once

#include <geom/mesh/closest.cuh>
#include <geom/mesh/evaluate.cuh>
#include <geom/mesh/overlap.cuh>
#include <geom/mesh/rays.cuh>
#include <geom/mesh/sides.cuh>
#include <geom/mesh/signed_distance.cuh>
#include <geom/mesh/winding.cuh>
