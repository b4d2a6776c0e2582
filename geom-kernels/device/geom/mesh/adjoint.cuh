// Adjoints of queries of meshes, for one triangle each: the face in a result, with the corners that it had at the
// query. A gradient assumes that the face and the feature stay the same.
//
// They are of float and double; inside, all is f64, rounded once at the end, so that needles do no harm to
// f32.
#pragma once

#include <geom/mesh/adjoint/closest.cuh>
#include <geom/mesh/adjoint/rays.cuh>
#include <geom/mesh/adjoint/surface.cuh>
