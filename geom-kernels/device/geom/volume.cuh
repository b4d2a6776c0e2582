// Sparse volumes, in the NanoVDB format: look-ups, interpolation, maps to the world, and writing values.
//
// A kernel takes a `geom::Volume<float>` (or of another type of values) by value; the host passes
// `geom_kernels::volume::Volume::view` for it.
//
//     #include <geom/volume.cuh>
//     extern "C" __global__ void push(geom::Volume<float> sdf, geom::vec3<float>* points, unsigned n) {
//         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//         if (i >= n) return;
//         auto p = geom::world_to_index(sdf.map, points[i]);
//         auto s = geom::sample_trilinear_with_gradient(sdf, p);
//         auto g = geom::index_to_world_gradient(sdf.map, s.gradient);
//         if (s.value < 0.0f) points[i] -= s.value / dot(g, g) * g;
//     }
//
// In a kernel whose adjoint is generated, samples have gradients with respect to the position, and those of index
// grids with respect to the array of values. The values of the volume itself are constants there.
#pragma once

#include <geom/volume/sample.cuh>
#include <geom/volume/store.cuh>
