// Hierarchies of boxes (bounding volume hierarchies): queries of the items that overlap a box or a sphere, lie along a
// ray, or are nearest.
//
// A kernel takes a `geom::Bvh` by value; the host passes a view of a `geom_kernels::bvh::Bvh` for it. The hierarchy
// has only boxes: the kernel knows whether its items are points, triangles or curves.
//
//     #include <geom/bvh.cuh>
//     extern "C" __global__ void touching(geom::Bvh bvh, const geom::aabb<float>* boxes, unsigned n,
//                                         const float4* spheres, unsigned* out) {
//         unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
//         if (i >= n) return;
//         unsigned count = 0;
//         geom::for_each_overlap(bvh, boxes[i], [&](unsigned item) {
//             count += touches(spheres[item], boxes[i]);
//         });
//         out[i] = count;
//     }
#pragma once

#include <geom/bvh/ascending.cuh>
#include <geom/bvh/nearest.cuh>
#include <geom/bvh/query.cuh>
