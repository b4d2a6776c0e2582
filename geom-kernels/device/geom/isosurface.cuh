// Marching cubes: the surface at which a field of values crosses a given value, as indexed triangles.
//
// Parts: isosurface/field.cuh defines the interface of fields and the dense field, blocks.cuh a sparse one; types.cuh
// the data between the three kernels signs.cuh, count.cuh and emit.cuh; cases.cuh the surface in one cell,
// vertices.cuh its crossing with an edge; kernels.cuh the kernels of a kind of field.
//
// Memory traffic, for a dense field of N values, V vertices and F faces (N = 256^3, a sphere: 67 MB, V = 151 k, F =
// 303 k). Each 32 values along z have one word of signs, 64 bits.
//
// | kernel | reads                                      | writes                                      |
// |--------|--------------------------------------------|---------------------------------------------|
// | signs  | 4 N: 67 MB, each once and in order         | N / 4: 4.2 MB, which stay in the L2 cache   |
// | count  | 8 words of signs for each, L1 and L2: 2 N  | N / 2 of tiles with vertices: up to 8.4 MB  |
// | emit   | the same of tiles with faces, from L2;     | 12 V + 12 F: 5.4 MB; 12 V more with normals |
// |        | for each vertex 2 numbers: 64 V: 10 MB     |                                             |
//
// The total is little more than reading the field once.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/isosurface/count.cuh>
#include <geom/isosurface/emit.cuh>
#include <geom/isosurface/signs.cuh>
