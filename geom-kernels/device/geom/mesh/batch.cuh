// Queries of arrays: the device code of batch calls.
#pragma once

#include <geom/mesh/rays.cuh>
#include <geom/mesh/signed_distance.cuh>

namespace geom {
namespace mesh {

// The points of queries. `geom_kernels::mesh::PointQueries` in Rust.
struct PointQueries {
    // Coordinate c of point i is points[i * stride + c * component].
    const float* points;
    unsigned long long stride, component;
    // The limit of each query; null if all have `distance`.
    const float* distances;
    // The order in which threads take queries, or null.
    const unsigned* order;
    float distance;
    unsigned length;

    // The query of this thread; `no_index` if it has none.
    __device__ __forceinline__ unsigned mine() const {
        const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i >= length) return no_index;
        return order != nullptr ? order[i] : i;
    }
    __device__ __forceinline__ vec3<float> at(unsigned i) const {
        const float* p = points + i * stride;
        return vec3<float>(__ldg(p), __ldg(p + component), __ldg(p + 2 * component));
    }
    __device__ __forceinline__ float reach(unsigned i) const {
        return distances != nullptr ? distances[i] : distance;
    }
};

} // namespace mesh
} // namespace geom
