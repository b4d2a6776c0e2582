// Gradients through closest points and distances, for arrays of points. src/tape/mesh_points.rs launches the kernels.
// inexact: tape_closest_points_adjoint sums over the answers of a face depend on their order
// inexact: tape_distances_adjoint as above
// inexact: tape_signed_distances_adjoint as above
#include <geom/mesh/adjoint/batch.cuh>
#include <geom/mesh/closest.cuh>

using namespace geom;
typedef unsigned long long u64;

// Saves the parts of the results that adjoints need, and writes their distances, unless that pointer is null.
extern "C" __global__ void __launch_bounds__(256)
    tape_keep_answers(const ClosestPoint* closest, u64 n, unsigned* answers, float* distances) {
    const u64 i = mesh::long_thread();
    if (i >= n) return;
    answers[i] = mesh::answer_of(closest[i].face, closest[i].feature);
    if (distances != nullptr) distances[i] = exact::sqrt(closest[i].distance_squared);
}

namespace {

struct Queries {
    mesh::Surface surface;
    const vec3<float>* points;
    const unsigned* answers;
    u64 length;
};

// `gradient(adjoint, i)` is the gradient of query i, which has a result.
template <class Gradient>
__device__ __forceinline__ void go_back(const Queries& queries, vec3<float>* of_queries, vec3<float>* of_vertices,
                                        unsigned shared, const tape::Frame& frame, Gradient&& gradient) {
    if (!tape::begin(frame)) return;
    const u64 i = mesh::long_thread();
    if (i >= queries.length) return;
    const unsigned answer = queries.answers[i];
    mesh::FaceCorners face;
    if (answer == no_index || !mesh::load_face(queries.surface, mesh::face_of_answer(answer), &face)) return;
    const ClosestAdjoint<float> adjoint(face.corners, queries.points[i], mesh::feature_of_answer(answer));
    const ClosestGradient<float> g = gradient(adjoint, i);
    mesh::add_to_own(frame, shared != 0, tape::at(of_queries, i), g.q);
    mesh::add_to_vertices(frame, of_vertices, face.vertices, g.corners);
}

} // namespace

extern "C" __global__ void __launch_bounds__(128) tape_closest_points_adjoint(
    mesh::Surface surface, const vec3<float>* points, const unsigned* answers, u64 n, const ClosestPoint* g,
    vec3<float>* of_queries, vec3<float>* of_vertices, unsigned shared, tape::Frame frame
) {
    const Queries queries = {surface, points, answers, n};
    go_back(queries, of_queries, of_vertices, shared, frame, [&](const ClosestAdjoint<float>& adjoint, u64 i) {
        ClosestGradient<float> sum = adjoint.point(g[i].position, g[i].u, g[i].v);
        const ClosestGradient<float> square = adjoint.distance_squared(g[i].distance_squared);
        sum.q = exact::add(sum.q, square.q);
        sum.corners.a = exact::add(sum.corners.a, square.corners.a);
        sum.corners.b = exact::add(sum.corners.b, square.corners.b);
        sum.corners.c = exact::add(sum.corners.c, square.corners.c);
        return sum;
    });
}

extern "C" __global__ void __launch_bounds__(128) tape_distances_adjoint(
    mesh::Surface surface, const vec3<float>* points, const unsigned* answers, u64 n, const float* distances,
    const float* g, vec3<float>* of_queries, vec3<float>* of_vertices, unsigned shared, tape::Frame frame
) {
    const Queries queries = {surface, points, answers, n};
    go_back(queries, of_queries, of_vertices, shared, frame, [&](const ClosestAdjoint<float>& adjoint, u64 i) {
        return adjoint.distance(distances[i], g[i]);
    });
}

extern "C" __global__ void __launch_bounds__(128) tape_signed_distances_adjoint(
    mesh::Surface surface, const vec3<float>* points, const unsigned* answers, u64 n, const float* distances,
    const float* g, vec3<float>* of_queries, vec3<float>* of_vertices, unsigned shared, tape::Frame frame
) {
    const Queries queries = {surface, points, answers, n};
    go_back(queries, of_queries, of_vertices, shared, frame, [&](const ClosestAdjoint<float>& adjoint, u64 i) {
        return adjoint.signed_distance(distances[i], g[i]);
    });
}
