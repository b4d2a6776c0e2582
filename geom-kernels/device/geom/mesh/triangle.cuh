// Triangles of f32 coordinates: the closest point, rays, crossings, overlaps, of one of them.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options.
// Each part says what of it is free of rounding errors as well.
#pragma once

#include <geom/mesh/triangle/closest.cuh>
#include <geom/mesh/triangle/crossing.cuh>
#include <geom/mesh/triangle/overlap.cuh>
#include <geom/mesh/triangle/ray.cuh>
#include <geom/mesh/triangle/types.cuh>
