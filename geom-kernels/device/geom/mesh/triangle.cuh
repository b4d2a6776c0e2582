// Queries of one triangle with f32 coordinates: the closest point, rays, crossings, overlaps.
//
// All of this is written in exact arithmetic (exact.cuh): no bit depends on a program's options. Each header says
// which functions are also free of rounding errors.
#pragma once

#include <geom/mesh/triangle/closest.cuh>
#include <geom/mesh/triangle/crossing.cuh>
#include <geom/mesh/triangle/overlap.cuh>
#include <geom/mesh/triangle/ray.cuh>
#include <geom/mesh/triangle/types.cuh>
