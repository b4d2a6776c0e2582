// Evaluation of a mesh at a point of a face.
//
// All of this is written in exact arithmetic (exact.cuh).
#pragma once

#include <geom/mesh/triangle/types.cuh>
#include <geom/mesh/types.cuh>
#ifdef GEOM_AD
#include <geom/math/ad.cuh>
#endif

namespace geom {

// A point of a face: (1 - u - v) a + u b + v c. `geom_kernels::mesh::FacePoint` in Rust.
struct FacePoint {
    unsigned face;
    float u, v;
};

// The vertices of a face. False if the face does not exist, or one of its indices is out of range.
__device__ __forceinline__ bool face_vertices(const Mesh& mesh, unsigned face, vec3<unsigned>* vertices) {
    if (face >= mesh.face_count) return false;
    *vertices = load_unchanged(&mesh.faces[face]);
    const unsigned n = mesh.point_count;
    return vertices->x < n && vertices->y < n && vertices->z < n;
}

// A face's current corners. False as for `face_vertices`.
__device__ __forceinline__ bool face_triangle(const Mesh& mesh, unsigned face, Triangle* triangle) {
    vec3<unsigned> v;
    if (!face_vertices(mesh, face, &v)) return false;
#ifdef GEOM_AD
    const auto point = [&](unsigned i) { return ad::loaded(load_unchanged(&mesh.points[i])); };
    *triangle = Triangle{point(v.x), point(v.y), point(v.z)};
#else
    *triangle = Triangle{mesh.points[v.x], mesh.points[v.y], mesh.points[v.z]};
#endif
    return true;
}

// The position of a point of a face; NaN if the face does not exist.
__device__ __forceinline__ vec3<float> position_at(const Mesh& mesh, const FacePoint& point) {
    Triangle triangle;
    if (!face_triangle(mesh, point.face, &triangle)) return vec3<float>(exact::not_a_number());
    return at(triangle, point.u, point.v);
}

// The unit normal of a face, zero if it has no area; NaN if the face does not exist.
__device__ __forceinline__ vec3<float> face_normal(const Mesh& mesh, unsigned face) {
    Triangle triangle;
    if (!face_triangle(mesh, face, &triangle)) return vec3<float>(exact::not_a_number());
    return normal(triangle);
}

// Attribute i of the `width` attributes of each vertex, interpolated. NaN if the face does not exist.
__device__ __forceinline__ float attribute_at(const Mesh& mesh, const float* attributes, unsigned width,
                                              unsigned i, const FacePoint& point) {
    using namespace exact;
    vec3<unsigned> f;
    if (!face_vertices(mesh, point.face, &f)) return not_a_number();
    const double a = widen(attributes[static_cast<unsigned long long>(f.x) * width + i]);
    const double b = widen(attributes[static_cast<unsigned long long>(f.y) * width + i]);
    const double c = widen(attributes[static_cast<unsigned long long>(f.z) * width + i]);
    const double u = widen(point.u), v = widen(point.v), w = sub(sub(1.0, u), v);
    return narrow(fma(v, c, fma(u, b, mul(w, a))));
}

// The same for vectors: positions, velocities, colours.
__device__ __forceinline__ vec3<float>
attribute_at(const Mesh& mesh, const vec3<float>* attributes, const FacePoint& point) {
    const float* numbers = reinterpret_cast<const float*>(attributes);
    return vec3<float>(attribute_at(mesh, numbers, 3, 0, point), attribute_at(mesh, numbers, 3, 1, point),
                       attribute_at(mesh, numbers, 3, 2, point));
}

// The face point of a result: a `ClosestPoint` or a `RayHit`.
template <class Answer>
__device__ __forceinline__ FacePoint face_point(const Answer& answer) {
    return FacePoint{answer.face, answer.u, answer.v};
}

// The vertices' normals, interpolated, not normalized. NaN if the face does not exist, or the mesh was built without
// topology.
__device__ __forceinline__ vec3<float> smooth_normal(const Mesh& mesh, const FacePoint& point) {
    if (mesh.topology.vertex_normals == nullptr) return vec3<float>(exact::not_a_number());
    const vec3<float> normal = attribute_at(mesh, mesh.topology.vertex_normals, point);
#ifdef GEOM_AD
    // The vertices' normals were computed when the mesh was built, so their derivatives are unknown.
    return ad::lost_normals(normal);
#else
    return normal;
#endif
}

} // namespace geom
