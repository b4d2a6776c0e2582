// Hierarchies of boxes (bounding volume hierarchies): what overlaps a box or a sphere, what lies along a ray,
// what is nearest.
//
// A kernel is given a `geom::Bvh` by value; the host passes a view of a `geom_kernels::bvh::Bvh` for it.
// What its items are, points, triangles, curves, only the kernel knows.
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

#include <geom/bvh/nearest.cuh>
#include <geom/bvh/query.cuh>
