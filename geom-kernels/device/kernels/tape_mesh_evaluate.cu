// Gradients through a mesh's positions, normals and attributes at points of its faces. src/tape/mesh_evaluate.rs
// launches the kernels.
// inexact: tape_positions_adjoint sums over the points of a face depend on their order
// inexact: tape_normals_adjoint as above
// inexact: tape_attributes_adjoint as above
#include <geom/mesh/adjoint/batch.cuh>
#include <geom/mesh/evaluate.cuh>

using namespace geom;
typedef unsigned long long u64;

namespace {

// Adds to the gradients of u and v of a point, if that pointer is not null.
__device__ __forceinline__ void add_to_point(const tape::Frame& frame, bool shared, FacePoint* gradients, u64 i,
                                             float u, float v) {
    if (gradients == nullptr) return;
    mesh::add_to_own(frame, shared, &gradients[i].u, u);
    mesh::add_to_own(frame, shared, &gradients[i].v, v);
}

} // namespace

extern "C" __global__ void __launch_bounds__(128) tape_positions_adjoint(
    mesh::Surface surface, const FacePoint* points, u64 n, const vec3<float>* g, FacePoint* of_points,
    vec3<float>* of_vertices, unsigned shared, tape::Frame frame
) {
    if (!tape::begin(frame)) return;
    const u64 i = mesh::long_thread();
    if (i >= n) return;
    const FacePoint at = points[i];
    mesh::FaceCorners face;
    if (!mesh::load_face(surface, at.face, &face)) return;
    const PositionGradient<float> by = position_at_adjoint(face.corners, at.u, at.v, g[i]);
    add_to_point(frame, shared != 0, of_points, i, by.u, by.v);
    mesh::add_to_vertices(frame, of_vertices, face.vertices, by.corners);
}

extern "C" __global__ void __launch_bounds__(128) tape_normals_adjoint(
    mesh::Surface surface, const FacePoint* points, u64 n, const vec3<float>* g, vec3<float>* of_vertices,
    tape::Frame frame
) {
    if (!tape::begin(frame)) return;
    const u64 i = mesh::long_thread();
    if (i >= n) return;
    mesh::FaceCorners face;
    if (!mesh::load_face(surface, points[i].face, &face)) return;
    mesh::add_to_vertices(frame, of_vertices, face.vertices, face_normal_adjoint(face.corners, g[i]));
}

// `attributes` has `width` numbers for each of `vertices` vertices.
extern "C" __global__ void __launch_bounds__(128) tape_attributes_adjoint(
    const vec3<unsigned>* faces, unsigned face_count, unsigned vertices, const FacePoint* points, u64 n,
    const float* attributes, unsigned width, const float* g, FacePoint* of_points, float* of_attributes,
    unsigned shared, tape::Frame frame
) {
    if (!tape::begin(frame)) return;
    const u64 i = mesh::long_thread();
    if (i >= n) return;
    const FacePoint at = points[i];
    if (at.face >= face_count) return;
    const vec3<unsigned> f = faces[at.face];
    if (f.x >= vertices || f.y >= vertices || f.z >= vertices) return;
    const u64 a = u64(f.x) * width, b = u64(f.y) * width, c = u64(f.z) * width;
    const double u = exact::widen(at.u), v = exact::widen(at.v);
    double by_u = 0.0, by_v = 0.0;
    for (unsigned k = 0; k < width; ++k) {
        const AttributeGradient<double> by = attribute_at_adjoint(
            exact::widen(attributes[a + k]), exact::widen(attributes[b + k]), exact::widen(attributes[c + k]), u,
            v, exact::widen(g[i * width + k])
        );
        tape::grad_add(frame, 0, tape::at(of_attributes, a + k), exact::narrow(by.a));
        tape::grad_add(frame, 0, tape::at(of_attributes, b + k), exact::narrow(by.b));
        tape::grad_add(frame, 0, tape::at(of_attributes, c + k), exact::narrow(by.c));
        by_u = exact::add(by_u, by.u);
        by_v = exact::add(by_v, by.v);
    }
    add_to_point(frame, shared != 0, of_points, i, exact::narrow(by_u), exact::narrow(by_v));
}
