// Triangle meshes: closest points, signed distances, rays, overlaps, and what a mesh has at a point of a face. A
// kernel takes a `geom::Mesh` by value, for which `Mesh::view` of the Rust crate is passed.
#pragma once

#include <geom/mesh/closest.cuh>
#include <geom/mesh/evaluate.cuh>
#include <geom/mesh/overlap.cuh>
#include <geom/mesh/rays.cuh>
#include <geom/mesh/sides.cuh>
#include <geom/mesh/signed_distance.cuh>
#include <geom/mesh/winding.cuh>
