// Hash grids: points within a radius, among millions of moving points.
//
// A kernel takes a `geom::HashGrid<float>` or `<double>` by value; the host passes a view of a
// `geom_kernels::HashGrid` for it.
//
//     #include <geom/hash_grid.cuh>
//     extern "C" __global__ void density(geom::HashGrid<float> grid, float r, float* out, unsigned n) {
//         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//         if (i >= geom::point_count(grid) || …) return;
//         auto p = geom::point_at(grid, i); // in cell order: neighbouring threads do the same work
//         float sum = 0.0f;
//         geom::for_each_neighbor(grid, {p.x, p.y, p.z}, r, [&](const geom::Neighbor<float>& n) {
//             sum += r * r - n.distance_squared;
//         });
//         out[p.index] = sum;
//     }
//
// In a kernel whose adjoint is generated, pass the array that the grid was built from to the queries: the grid's own
// copy of the points has no gradient, and a kernel whose outputs depend on it is refused.
//
//     geom::for_each_neighbor(grid, x, x[i], r, [&](const geom::Neighbor<float>& n) { … });
#pragma once

#include <geom/hash_grid/nearest.cuh>
#include <geom/hash_grid/query.cuh>
