// The faces of a mesh in their original order: the faults of a face, its corners and its area.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/mesh/triangle/types.cuh>
#include <geom/mesh/types.cuh>

namespace geom {
namespace mesh {

// Points and faces of the caller: any coordinates, any indices.
struct Surface {
    const vec3<float>* points;
    const vec3<unsigned>* faces;
    unsigned point_count, face_count;
};

// The faults for which a face is skipped.
enum Fault : unsigned { fault_none = 0, fault_out_of_range = 1, fault_not_finite = 2 };

// A checked face.
struct Face {
    // Its indices, and, unless one is out of range, its corners.
    vec3<unsigned> vertices;
    Triangle triangle;
    Fault fault;
    // The first of its corners with that fault.
    unsigned corner;

    // Whether it has edges: it is not skipped and its indices differ.
    __device__ __forceinline__ bool has_edges() const {
        return fault == fault_none && vertices.x != vertices.y && vertices.y != vertices.z &&
               vertices.z != vertices.x;
    }
};

// The index of the first of three conditions that is true; one of them is.
__device__ __forceinline__ unsigned first_of(bool a, bool b) { return a ? 0 : b ? 1 : 2; }

// Checks face i of the surface. Points are read only if all three indices are in range.
__device__ __forceinline__ Face look_at(const Surface& surface, unsigned i) {
    Face face;
    const vec3<unsigned> v = surface.faces[i];
    const unsigned n = surface.point_count;
    face.vertices = v;
    face.fault = fault_none;
    face.corner = 0;
    if (v.x >= n || v.y >= n || v.z >= n) {
        face.fault = fault_out_of_range;
        face.corner = first_of(v.x >= n, v.y >= n);
        return face;
    }
    const vec3<float>* points = surface.points;
    face.triangle = {points[v.x], points[v.y], points[v.z]};
    if (!is_valid(face.triangle)) {
        face.fault = fault_not_finite;
        face.corner = first_of(!is_valid(face.triangle.a), !is_valid(face.triangle.b));
    }
    return face;
}

// The index of this thread, in launches in x.
__device__ __forceinline__ unsigned thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

constexpr unsigned all_lanes = 0xffffffffu;

// Adds the number of lanes of this warp for which `says` is true to a counter. By whole warps.
__device__ __forceinline__ void count_lanes(bool says, unsigned& counter) {
    unsigned lanes = __ballot_sync(all_lanes, says);
    if (lanes != 0 && threadIdx.x % 32 == 0) atomicAdd(&counter, __popc(lanes));
}

} // namespace mesh
} // namespace geom
