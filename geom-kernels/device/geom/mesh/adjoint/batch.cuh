// Shared parts of the adjoints of batch calls: the saved parts of results, and gradients of vertices.
#pragma once

#include <geom/mesh/adjoint.cuh>
#include <geom/mesh/faces.cuh>
#include <geom/tape.cuh>

namespace geom {
namespace mesh {

// A result in one number: its face above its feature, or `no_index`. Faces have 28 bits.
__device__ __forceinline__ unsigned answer_of(unsigned face, unsigned feature) {
    return face == no_index ? no_index : face << 3 | feature;
}
__device__ __forceinline__ unsigned face_of_answer(unsigned answer) { return answer >> 3; }
__device__ __forceinline__ unsigned feature_of_answer(unsigned answer) { return answer & 7; }

// A face with its corners at the time of the query.
struct FaceCorners {
    vec3<unsigned> vertices;
    Corners3<float> corners;
};

// Returns false if the face does not exist or has an index out of range: then there is no gradient.
__device__ __forceinline__ bool load_face(const Surface& surface, unsigned face, FaceCorners* out) {
    if (face >= surface.face_count) return false;
    const vec3<unsigned> v = surface.faces[face];
    const unsigned n = surface.point_count;
    if (v.x >= n || v.y >= n || v.z >= n) return false;
    out->vertices = v;
    out->corners = {surface.points[v.x], surface.points[v.y], surface.points[v.z]};
    return true;
}

// Adds the gradients of a face's corners to those of its vertices, if that pointer is not null.
__device__ __forceinline__ void add_to_vertices(const tape::Frame& frame, vec3<float>* gradients,
                                                const vec3<unsigned>& vertices, const Corners3<float>& g) {
    tape::grad_add(frame, 0, tape::at(gradients, vertices.x), g.a);
    tape::grad_add(frame, 0, tape::at(gradients, vertices.y), g.b);
    tape::grad_add(frame, 0, tape::at(gradients, vertices.z), g.c);
}

// Adds to an element of this thread, by atomics if the memory is shared with others.
template <class T>
__device__ __forceinline__ void add_to_own(const tape::Frame& frame, bool shared, T* gradient, const T& g) {
    if (shared)
        tape::grad_add(frame, 0, gradient, g);
    else
        tape::grad_own(frame, 0, gradient, g);
}

// The sum whose direction is a vertex's normal.
struct VertexSum {
    vec3<double> sum;
    double angles;
};

// The three corners, rotated so that `corner` is the first.
__device__ __forceinline__ Corners3<double> turned(const Corners3<double>& t, unsigned corner) {
    if (corner == 0) return t;
    return corner == 1 ? Corners3<double>{t.b, t.c, t.a} : Corners3<double>{t.c, t.a, t.b};
}

__device__ __forceinline__ void add_to(Corners3<double>& sum, const Corners3<double>& g) {
    sum.a = exact::add(sum.a, g.a);
    sum.b = exact::add(sum.b, g.b);
    sum.c = exact::add(sum.c, g.c);
}

// The 64-bit index of this thread.
__device__ __forceinline__ unsigned long long long_thread() {
    return blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
}

} // namespace mesh
} // namespace geom
