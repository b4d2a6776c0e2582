// Gradients through the hits of rays. src/tape/mesh_rays.rs launches the kernels.
// inexact: tape_hits_adjoint sums over the hits of a face depend on their order
#include <geom/mesh/adjoint/batch.cuh>
#include <geom/mesh/rays.cuh>

using namespace geom;
typedef unsigned long long u64;

// Saves the parts of the hits that the adjoint needs.
extern "C" __global__ void __launch_bounds__(256) tape_keep_hits(const RayHit* hits, u64 n, unsigned* faces) {
    const u64 i = mesh::long_thread();
    if (i < n) faces[i] = hits[i].face;
}

extern "C" __global__ void __launch_bounds__(128) tape_hits_adjoint(
    mesh::Surface surface, const MeshRay* rays, const unsigned* faces, u64 n, const RayHit* g, MeshRay* of_rays,
    vec3<float>* of_vertices, unsigned shared, tape::Frame frame
) {
    if (!tape::begin(frame)) return;
    const u64 i = mesh::long_thread();
    if (i >= n) return;
    mesh::FaceCorners face;
    if (!mesh::load_face(surface, faces[i], &face)) return;
    const vec3<float> origin = rays[i].origin, direction = rays[i].direction;
    const RayGradient<float> by = ray_hit_adjoint(face.corners, origin, direction, g[i].t, g[i].u, g[i].v);
    if (of_rays != nullptr) {
        mesh::add_to_own(frame, shared != 0, &of_rays[i].origin, by.origin);
        mesh::add_to_own(frame, shared != 0, &of_rays[i].direction, by.direction);
    }
    mesh::add_to_vertices(frame, of_vertices, face.vertices, by.corners);
}
