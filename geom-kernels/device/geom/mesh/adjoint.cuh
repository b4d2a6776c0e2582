// Adjoints of queries of meshes, for one triangle each: the face in a result, with its corners at the time of the
// query. A gradient assumes that the face and the feature stay the same.
//
// They take float and double; they compute in f64 and round once at the end, so that needles are no problem in f32.
#pragma once

#include <geom/mesh/adjoint/closest.cuh>
#include <geom/mesh/adjoint/rays.cuh>
#include <geom/mesh/adjoint/surface.cuh>
